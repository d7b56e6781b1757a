"""How flat the minima are: the Hessian's largest eigenvalues, and the loss around them (Figures 3 and 10).

Networks from random and from pre-trained weights are trained until the mean loss of an epoch is small: the
curvature of a cross-entropy falls with the loss itself, so that at unequal losses it says who trained for
longer. The losses reached differ even so: eigenvalues over the loss are judged, too.
"""

import copy
import math

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.func import functional_call

from alignbook.claims import Claim, KeyNumber, interval
from alignbook.experiments import Unit
from alignbook.metrics import filter_normalised_directions, hessian_eigenvalues, landscape
from alignbook.metrics.evaluation import evaluation_mode
from alignbook.seeding import torch_stream
from alignbook.studies.transferability.by_seed import factor
from alignbook.studies.transferability.fig04_tsne.experiment import kernels
from alignbook.studies.transferability.planes import rows_of, where
from alignbook.studies.transferability.tab01_weight_deviation.experiment import (
    named,
    source_units,
    start_of,
    training_of,
)
from alignbook.studies.transferability.tuned import recorded, target, tuned
from alignbook.training.fine_tune import accuracy_and_loss, fine_tune

HEADLINE = "eigenvalues"
STARTS = {"scratch": "random", "pretrained": "pre-trained"}
MODES = {"eval": "running statistics", "train": "statistics of the batch"}  # of batch norm
ANGLES = 16  # points on a circle
TOLERANCE = 0.01  # residual of an eigenvalue over its magnitude: an error of about its square
PRODUCTS = 150  # Hessian-vector products at most
BATCH = 500  # images at once where all are measured
OVER_LOSS = "Divided by the loss reached, too, the largest eigenvalues are smaller from pre-trained weights."


def units(parameters):
    """Spectra and circles per target, start and seed; planes of the first seed; two variations.

    The variations, on the first target alone: batch norm with the statistics of the batch, and a fixed
    number of steps in place of a fixed loss. And settled minima, of seeds of their own number.
    """
    per_epoch = parameters["examples"] // parameters["batch_size"]
    shared = start_of(parameters) | {
        name: parameters[name] for name in ("examples", "batch_size", "learning_rate", "images")
    }
    to_loss = {
        "steps": parameters["max_epochs"] * per_epoch,
        "decay_at": [],
        "stop_at_loss": parameters["stop_at_loss"],
    }
    to_steps = {name: training_of(parameters)[name] for name in ("steps", "decay_at")} | {
        "stop_at_loss": None
    }
    count = {"count": parameters["eigenvalues"]}
    made = []
    for number, name in enumerate(parameters["targets"]):
        for seed in range(parameters["seeds"]):
            for start in STARTS:
                own = shared | named(name) | {"start": start, "seed": seed}
                kinds = {"spectrum": (spectrum, to_loss | count | {"mode": "eval"})}
                kinds["circles"] = (circles, to_loss | {"radii": parameters["radii"]})
                if number == 0:
                    kinds["batch"] = (spectrum, to_loss | count | {"mode": "train"})
                    kinds["steps"] = (spectrum, to_steps | count | {"mode": "eval"})
                if seed == 0:
                    plane_of = {"radius": max(parameters["radii"]), "points": parameters["points"]}
                    kinds["plane"] = (plane, to_loss | plane_of)
                made += [
                    Unit(f"{name}-{kind}-{start}-seed{seed}", compute, own | arguments)
                    for kind, (compute, arguments) in kinds.items()
                ]
        settling = to_loss | count | {"radii": parameters["radii"]}
        settling |= {"stop_at_loss": parameters["settled_loss"]}
        settling |= {"settle_steps": parameters["settle_epochs"] * per_epoch}
        for seed in range(parameters["settled_seeds"]):
            for start in STARTS:
                own = shared | named(name) | settling | {"start": start, "seed": seed}
                del own["images"]  # all of them
                made.append(Unit(f"{name}-settled-{start}-seed{seed}", settled, own))
    return made + source_units(parameters)


def spectrum(*, count, mode, images, device, report, **given):
    """The ``count`` largest eigenvalues, by magnitude, at the end of training.

    Columns ``index`` from 1, ``eigenvalue``, ``residual`` ‖H v − λ v‖, ``converged``; and of the network
    ``images_loss`` on the images measured, ``train_loss`` and ``train_error`` on all training images (in
    evaluation mode), ``test_error``, ``taken`` steps, ``reached`` (whether the loss to stop at was) and
    ``norm``, that of all convolution kernels.
    """
    found, net, x, y = _trained(images, device, report, given)
    measured = own_statistics(net) if mode == "train" else net
    pairs = hessian_eigenvalues(
        measured,
        nn.functional.cross_entropy,
        x,
        y,
        k=count,
        tol=TOLERANCE,
        batch_size=len(x),
        max_products=max(PRODUCTS, count + 1),
    )
    with torch.no_grad(), evaluation_mode(measured):
        loss = float(nn.functional.cross_entropy(measured(x), y))
    last = found.rows[-1]
    return pd.DataFrame(
        {
            "index": range(1, count + 1),
            "eigenvalue": pairs.eigenvalues,
            "residual": pairs.residuals,
            "converged": pairs.converged,
            "images_loss": loss,
            **{name: last[name] for name in ("train_loss", "train_error", "test_error")},
            "taken": found.steps,
            "reached": given["stop_at_loss"] is None or found.steps < given["steps"],
            "norm": float(np.linalg.norm(kernels(net))),
        }
    )


def circles(*, radii, images, device, report, **given):
    """Mean rise of the loss on circles around the end of training, in a plane that filters normalise.

    Columns ``circle``, the radius, ``rise`` (nats) and ``reached``.
    """
    found, net, x, y = _trained(images, device, report, given)
    directions = _plane(net, given)
    parameters = dict(net.named_parameters())

    @torch.no_grad()
    def loss(angle, radius):
        moved = {
            name: value
            + radius * (math.cos(angle) * directions[0][name] + math.sin(angle) * directions[1][name])
            if name in directions[0]
            else value
            for name, value in parameters.items()
        }
        return float(nn.functional.cross_entropy(functional_call(net, moved, (x,)), y))

    turns = [2 * math.pi * n / ANGLES for n in range(ANGLES)]
    rows = [
        {"circle": radius, "rise": float(np.mean([loss(turn, radius) for turn in turns])) - loss(0.0, 0.0)}
        for radius in radii
    ]
    return pd.DataFrame(rows).assign(reached=found.steps < given["steps"])


def plane(*, radius, points, images, device, report, **given):
    """The loss on the plane of :func:`circles`: columns ``alpha``, ``beta``, ``loss``."""
    _, net, x, y = _trained(images, device, report, given)
    return rows_of(
        landscape(net, nn.functional.cross_entropy, x, y, _plane(net, given), radius=radius, points=points)
    )


def settled(*, count, radii, settle_steps, device, report, **given):
    """Eigenvalues and rises at a minimum that training has settled in, measured on all training images.

    Past the loss to stop at come ``settle_steps`` at a tenth of the rate; batch norm's running statistics
    are then those of all training images. Rows of :func:`spectrum`, without ``images_loss``, which is
    ``train_loss``, and with ``stopped_loss``, that before settling, and ``gradient``, the norm of the loss's.
    And per radius ``around``: ``rise``, mean over the points of the plane up to it less the loss at 0.
    """
    found, net, x, y = _trained(given["examples"], device, report, given)
    generator = torch_stream(given["seed"], "settling", given["dataset"], given["part"], given["start"])
    stopped = accuracy_and_loss(net, x, y)[1]
    fine_tune(
        net,
        x,
        y,
        steps=settle_steps,
        batch_size=given["batch_size"],
        learning_rate=given["learning_rate"] / 10,
        generator=generator,
    )
    estimate_statistics_(net, x)
    loss = nn.functional.cross_entropy
    pairs = hessian_eigenvalues(
        net, loss, x, y, k=count, tol=TOLERANCE, batch_size=BATCH, max_products=max(PRODUCTS, count + 1)
    )
    slope = torch.autograd.grad(loss(net(x), y), list(net.parameters()))
    *_, x_test, y_test, _ = target(given["dataset"], given["examples"], given["seed"], given["part"])
    right, at = accuracy_and_loss(net, x, y)
    about = {
        "taken": found.steps,
        "reached": found.steps < given["steps"],
        "stopped_loss": stopped,
        "train_loss": at,
        "train_error": 100 * (1 - right),
        "test_error": 100 * (1 - accuracy_and_loss(net, x_test.to(device), y_test.to(device))[0]),
        "gradient": math.sqrt(sum(float(part.double().square().sum()) for part in slope)),
        "norm": float(np.linalg.norm(kernels(net))),
    }
    rows = {"index": range(1, count + 1), "eigenvalue": pairs.eigenvalues, "residual": pairs.residuals}
    planes = [
        landscape(net, loss, x, y, _plane(net, given), radius=radius, points=5).loss for radius in radii
    ]
    around = {"around": radii, "rise": [float(part.mean() - part[2, 2]) for part in planes]}
    parts = [pd.DataFrame(rows | {"converged": pairs.converged}), pd.DataFrame(around)]
    return pd.concat(parts, ignore_index=True).assign(**about)


@torch.no_grad()
def estimate_statistics_(net, x):
    """Set batch norm's running statistics to those of all images ``x``, in one pass; evaluation mode."""
    norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
    kept = [module.momentum for module in norms]
    for module in norms:
        module.momentum = 1.0
    net.train()(x)
    for module, momentum in zip(norms, kept, strict=True):
        module.momentum = momentum
    net.eval()


def own_statistics(net):
    """A copy of ``net`` whose batch norm always normalises with the statistics of its inputs."""
    net = copy.deepcopy(net)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean = module.running_var = None
    return net


def _trained(images, device, report, given):
    """(Tuned, its network at the end on the device, and the images and labels that it is measured on)."""
    given = given | {"decay_at": tuple(given["decay_at"])}
    record = recorded(given["steps"]) if given["stop_at_loss"] is None else ()
    found = tuned(**given, record=record, device=device, report=report)
    x, y, *_ = target(given["dataset"], given["examples"], given["seed"], given["part"])
    net = found.after.to(device, memory_format=torch.channels_last)
    x = x[:images].to(device, memory_format=torch.channels_last)
    return found, net, x, y[:images].to(device)


def _plane(net, given):
    generator = torch_stream(given["seed"], "plane", given["dataset"], given["part"])
    return filter_normalised_directions(net, generator)


def spectra(table, name, mode="eval", fixed_steps=False):
    """Rows of the spectra of the target ``name``, at equal loss or after a fixed number of steps."""
    rows = where(table, **named(name), mode=mode)
    return rows[rows["stop_at_loss"].isna() == fixed_steps] if len(rows) else rows


def pairs(rows, measure):
    """DataFrame seed × start of ``measure`` of the rows of one network.

    Only seeds with both starts, both of which reached the loss to stop at.
    """
    if rows.empty:
        return pd.DataFrame(columns=list(STARTS), dtype=float)
    values = {
        key: float(measure(part))
        for key, part in rows.groupby(["seed", "start"])
        if "reached" not in part or part["reached"].astype(bool).all()
    }
    if not values:
        return pd.DataFrame(columns=list(STARTS), dtype=float)
    return pd.Series(values).unstack().reindex(columns=list(STARTS)).dropna()


def ratios(rows, measure):
    """log2 of ``measure`` from random over that from pre-trained weights, one value per seed."""
    both = pairs(rows, measure)
    both = both[(both > 0).all(axis=1)]
    return list(np.log2(both["scratch"] / both["pretrained"]))


def magnitude(rows):
    """Mean magnitude of the eigenvalues of one network."""
    return rows["eigenvalue"].abs().mean()


def per_loss(rows):
    """Mean magnitude of the eigenvalues of one network over its loss on the images measured."""
    return magnitude(rows) / rows["images_loss"].iloc[0]


def networks(table, name, mode="eval"):
    """One row per network of the target ``name`` that was trained to the loss: what was reached.

    Columns ``seed``, ``start``, ``loss`` (on the images measured), ``magnitude`` and ``negative``, how many
    of its eigenvalues are.
    """
    rows = spectra(table, name, mode)
    if rows.empty:
        return pd.DataFrame(columns=["seed", "start", "loss", "magnitude", "negative"])
    made = [
        {
            "seed": seed,
            "start": start,
            "loss": part["images_loss"].iloc[0],
            "magnitude": magnitude(part),
            "negative": int((part["eigenvalue"] < 0).sum()),
        }
        for (seed, start), part in rows.groupby(["seed", "start"])
        if part["reached"].astype(bool).all()
    ]
    return pd.DataFrame(made, columns=["seed", "start", "loss", "magnitude", "negative"])


def along_loss(table, parameters):
    """One row per target and batch norm: losses reached, how eigenvalues follow them, and negative ones.

    The rank correlation is Spearman's, of loss and mean magnitude over the networks of both starts.
    """
    rows = []
    kinds = [(name, "eval") for name in parameters["targets"]] + [(parameters["targets"][0], "train")]
    for name, mode in kinds:
        own = networks(table, name, mode)
        if own.empty:
            continue
        steady = own["loss"].nunique() < 2 or own["magnitude"].nunique() < 2
        negative = own[own["negative"] > 0]
        starts = (f"{count} {STARTS[start]}" for start, count in negative["start"].value_counts().items())
        rows.append(
            {
                "target": name,
                "batch norm": MODES[mode],
                "losses": f"{own['loss'].min():.3f} to {own['loss'].max():.3f}",
                "rank correlation of λ and loss": "–"
                if steady
                else f"{own['loss'].corr(own['magnitude'], method='spearman'):.2f}",
                "with negative eigenvalues": f"{len(negative)} of {len(own)}"
                + (f" ({', '.join(starts)})" if len(negative) else ""),
            }
        )
    return pd.DataFrame(rows)


def rises(table, name, radius):
    """Rows of :func:`circles` of one target and radius."""
    return where(table, **named(name), circle=radius)


def claims(table, parameters):
    """Logarithms of ratios of eigenvalues and differences of rises, one value per seed."""
    made = []
    smaller = "The largest eigenvalues of the Hessian are smaller at minima from pre-trained weights."
    for number, name in enumerate(parameters["targets"]):
        for mode in MODES if number == 0 else ("eval",):
            suffix = ("" if number == 0 else f"-{name}") + ("-batch" if mode == "train" else "")
            statement = (
                f"log2 of the mean magnitude of the top {parameters['eigenvalues']}, random over "
                f"pre-trained, is positive ({name}, {MODES[mode]})."
            )
            values = ratios(spectra(table, name, mode), magnitude)
            made.append(_greater(f"eigenvalues{suffix}", statement, "Figure 3(a)", values, smaller))
    for number, name in enumerate(parameters["targets"]):
        statement = f"So they are over the loss reached: log2 of that ratio is positive ({name})."
        values = ratios(spectra(table, name), per_loss)
        id = "eigenvalues-over-loss" + (f"-{name}" if number else "")
        made.append(_greater(id, statement, "Figure 3(a)", values, OVER_LOSS, ours=True))
    name = parameters["targets"][0]
    values = ratios(spectra(table, name, fixed_steps=True), magnitude)
    statement = f"The same after {parameters['epochs']} epochs of either ({name})."
    claim = _greater("eigenvalues-steps", statement, "Figure 3(a)", values, None, ours=True)
    made.append(claim.not_judged("the training losses differ, and curvature falls with the loss"))
    around = "The loss rises less around minima from pre-trained weights."
    for name in parameters["targets"]:
        for radius in parameters["radii"]:
            both = pairs(rises(table, name, radius), lambda part: part["rise"].iloc[0])
            values = list(both["scratch"] - both["pretrained"])
            statement = (
                f"Mean rise of the loss on a circle of radius {radius:g}, random less pre-trained, is "
                f"positive ({name})."
            )
            made.append(_greater(f"rise-{name}-{radius:g}", statement, "Figures 3 and 10", values, around))
    return made


def _greater(id, statement, where, values, group, ours=False):
    if not values:
        claim = Claim.missing(id, statement, where, "no seed of which both networks reached the loss")
    else:
        claim = Claim.greater(id, statement, where, values)
    return claim.tagged(group, ours)


def finding(table, parameters):
    """Ratios of eigenvalues and of rises, in plain text."""
    said = []
    for name in parameters["targets"]:
        values = ratios(spectra(table, name), magnitude)
        if values:
            said.append(f"{factor(values)} on {name}")
    if not said:
        return "No two networks that reached the loss: there is nothing to compare."
    losses = pd.concat([networks(table, name)["loss"] for name in parameters["targets"]])
    text = (
        f"Stopped by one rule, at losses of {losses.min():.3f} to {losses.max():.3f}, random starts have top "
        f"{parameters['eigenvalues']} Hessian eigenvalues {', '.join(said)} times those of starts "
        f"pre-trained on {parameters['source']} (in place of ImageNet)"
    )
    radius = max(parameters["radii"])
    rose = []
    for name in parameters["targets"]:
        both = pairs(rises(table, name, radius), lambda part: part["rise"].iloc[0]).mean()
        if both.notna().all():
            rose.append(f"{both['scratch'] / both['pretrained']:.1f}")
    if rose:
        text += f"; the loss rises {' and '.join(rose)} times as far at radius {radius:g}"
    return f"{text}."


def key_numbers(table, parameters):
    """The largest eigenvalue from either start, and the ratio of the mean, on the first target."""
    rows = spectra(table, parameters["targets"][0])
    top = pairs(rows, lambda part: part["eigenvalue"].max())
    if top.empty:
        return []
    return [
        *(
            KeyNumber(
                f"largest eigenvalue, {label} ({parameters['targets'][0]})", interval(top[start], "{:.1f}")
            )
            for start, label in STARTS.items()
        ),
        KeyNumber(
            f"mean of the top {parameters['eigenvalues']}, random over pre-trained",
            factor(ratios(rows, magnitude)),
        ),
    ]


def conditions(table, parameters):
    """One row per target and way of training and measuring: what was reached, and the ratios.

    Losses and weights are those of random over pre-trained weights; ratios are means over seeds of log2.
    """
    rows = []
    kinds = [(name, "eval", False) for name in parameters["targets"]]
    kinds += [(parameters["targets"][0], "train", False), (parameters["targets"][0], "eval", True)]
    for name, mode, fixed_steps in kinds:
        part = spectra(table, name, mode, fixed_steps)
        if part.empty:
            continue
        loss, error, steps = (
            pairs(part, lambda one, column=column: one[column].iloc[0]).mean()
            for column in ("images_loss", "test_error", "taken")
        )
        rows.append(
            {
                "target": name,
                "batch norm": MODES[mode],
                "stopped": "by steps" if fixed_steps else "by loss",
                "steps": f"{steps['scratch']:.0f} / {steps['pretrained']:.0f}",
                "test error, %": f"{error['scratch']:.0f} / {error['pretrained']:.0f}",
                "loss": f"{loss['scratch']:.3f} / {loss['pretrained']:.3f}",
                "worst residual": f"{worst_residual(part):.2g}",
                "log2 λ": interval(ratios(part, magnitude)),
                "log2 λ/loss": interval(ratios(part, per_loss)),
                "log2 λ‖W‖²": interval(ratios(part, lambda one: magnitude(one) * one["norm"].iloc[0] ** 2)),
            }
        )
    return pd.DataFrame(rows)


def worst_residual(rows):
    """The largest ‖H v − λ v‖ / |λ| of the eigenvalues in ``rows``."""
    return float((rows["residual"] / rows["eigenvalue"].abs()).max())
