"""Layers trained one by one towards the labels' kernel, and all at once (Lou et al. 2022, Figures 16 and 17).

Algorithm 1 (Appendix F), layer-wise feature maximisation. Inputs have length 1 (here, after the mean of all
pixels was taken off, without which all images are nearly parallel). For layers l = 1 … L - 1, on
what the layers below give, each feature vector scaled to length 1, minimise over weights and biases of l

    Σ_{i, j ∈ batch} (φ(z_l(x_i))ᵀ φ(z_l(x_j)) - ½ δ_{y_i y_j})²

until the loss on held-out images no longer falls; then train layer L on the cross-entropy. The text at hand
prints φ(z_{l-1}(x_i)) + φ(z_{l-1}(x_j)) for the kernel: a vector, where the loss needs a number, and of the
layer below, which these weights do not change. Section 3.1 defines the forward kernel as an inner product.
"""

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional

from alignbook.claims import Claim, KeyNumber, interval
from alignbook.experiments import Unit
from alignbook.kernels.mlp_sgd import MLP
from alignbook.metrics.tangent_alignment import tangent_alignment
from alignbook.seeding import torch_stream
from alignbook.studies.signal_propagation.dense import CLASSES, NAMES, accuracy, images, step_of
from alignbook.training.loop import module_step, train

HEADLINE = "several"
TARGET = 0.5  # Algorithm 1: the kernel's value for two images of one class
CHUNK = 5000  # images taken through a layer at once

# Fixed before any result was seen.
NEARLY = 0.9  # of the largest alignment: "approximately maximal"
PLATEAU = 0.01  # a held-out loss has stopped falling when it was not below its least by this share of it ...
PATIENCE = 2  # ... for so many epochs, unless a parameter says otherwise

SEVERAL = (
    "Trained layer by layer, more layers have about the largest alignment than trained end to end "
    "(ours: at least 0.9 of it)."
)
LOWER = "The largest alignment is lower than in a network trained end to end."
WORSE = "Test accuracy is lower than that of a network trained end to end (points)."


BOUNDS = {SEVERAL: (), LOWER: (-1.0, 1.0), WORSE: (-100.0, 100.0)}  # of what each compares
SCATTER = 20  # points between the best and the worst seed from which a finding names both


def units(parameters):
    """Layer by layer per data set and width, with another target for the first; end to end per data set."""
    p = parameters
    shared = {
        name: p[name] for name in "depth train_images validation_images batch_size alignment_images".split()
    }
    layerwise = shared | {"rate": p["layer_rate"], "max_epochs": p["max_epochs"]}
    if p["patience"] != PATIENCE:  # which results do not name that were stored when there was no other
        layerwise |= {"patience": p["patience"]}
    both = {name: p[name] for name in ("momentum", "weight_decay")}
    both |= {"rate": p["rate"], "epochs": p["epochs"], "width": p["end_to_end_width"]}
    conditions = {
        f"layers-{dataset}-width{width}": (compute_layerwise, {"dataset": dataset, "width": width})
        for dataset, widths in ((p["first"], p["first_widths"]), (p["second"], p["second_widths"]))
        for width in widths
    }
    made = []
    for seed in range(p["seeds"]):
        for name, (compute, extra) in conditions.items():
            arguments = layerwise | extra | {"target": TARGET, "seed": seed}
            made.append(Unit(f"{name}-seed{seed}", compute, arguments))
        for target in p["other_targets"]:
            extra = {"dataset": p["first"], "width": max(p["first_widths"]), "target": target, "seed": seed}
            made.append(Unit(f"layers-target{target:g}-seed{seed}", compute_layerwise, layerwise | extra))
        for dataset in dict.fromkeys((p["first"], p["second"])):
            arguments = shared | both | {"dataset": dataset, "seed": seed}
            made.append(Unit(f"end-to-end-{dataset}-seed{seed}", compute_end_to_end, arguments))
    return list({unit.name: unit for unit in made}.values())


class UnitLength(nn.Module):
    """Scales each example, (n, features), to length 1; one that is zero stays so."""

    def forward(self, z):
        return functional.normalize(z, dim=1)


def compute_layerwise(
    *,
    dataset,
    depth,
    width,
    train_images,
    validation_images,
    batch_size,
    rate,
    max_epochs,
    target,
    alignment_images,
    patience=PATIENCE,
    seed,
    device,
    report,
):
    """Algorithm 1 with Adam; A_l (Eq. 7) of the network that it returns.

    train_images : with those held out, 0: all; validation_images : how many are held out; max_epochs : most
    passes per layer; target : in place of the ½; patience : as of :func:`until_plateau`. LeakyReLU of slope
    0.01.

    One row per layer: layer, alignment, epochs (passes that it took), loss (held out: of pairs, per pair, of
    the last layer cross-entropy); and of the network train_accuracy, test_accuracy (percent).
    Raises Diverged.
    """
    x, y = images(dataset, "train", train_images, seed, device)
    centre, whole = x.mean(), len(x)
    x = functional.normalize(x - centre, dim=1)
    x_test, y_test = images(dataset, "test", 0, seed, device)
    x_test = functional.normalize(x_test - centre, dim=1)
    h, labels = x[validation_images:], y[validation_images:]
    held, held_labels = x[:validation_images], y[:validation_images]
    modules, rows = [], []
    for layer in range(1, depth + 1):
        last = layer == depth
        linear = nn.Linear(h.shape[1], CLASSES if last else width)
        stage = nn.Sequential(linear, *([] if last else [nn.LeakyReLU()]))
        uniform_(linear, torch_stream(seed, "fig16", "weights", layer))
        stage.to(device)
        loss = functional.cross_entropy if last else lambda z, wanted: pair_loss(z, wanted, target)
        trained, reached = until_plateau(
            stage,
            loss,
            (h, labels),
            (held, held_labels),
            batch_size=batch_size,
            rate=rate,
            max_epochs=max_epochs,
            patience=patience,
            generator=torch_stream(seed, "fig16", "order", layer),
            report=lambda done, text, layer=layer: report(
                (layer - 1 + done) / depth, f"layer {layer}, {text}"
            ),
        )
        rows.append({"layer": layer, "epochs": trained.epochs, "loss": reached})
        modules += list(stage)
        if not last:
            modules.append(UnitLength())
            with torch.no_grad():
                h, held = (
                    torch.cat([functional.normalize(stage(part), dim=1) for part in z.split(CHUNK)])
                    for z in (h, held)
                )
    net = nn.Sequential(*modules)
    return measured(net, rows, "layers", (x, y), (x_test, y_test), alignment_images, seed, whole)


def compute_end_to_end(
    *,
    dataset,
    depth,
    width,
    train_images,
    validation_images,
    batch_size,
    rate,
    epochs,
    momentum,
    weight_decay,
    alignment_images,
    seed,
    device,
    report,
):
    """The fully connected network of Equation 8, all layers trained by SGD on the same images, none held out.

    Columns as :func:`compute_layerwise` has them; loss: mean of the last epoch. ``validation_images`` are
    trained on, too (Figures 16 and 17). Raises Diverged.
    """
    x, y = images(dataset, "train", train_images, seed, device)
    mlp = MLP(x.shape[1], width, depth, CLASSES, torch_stream(seed, "fig16", "mlp"), device=device)
    trained = train(
        step_of(mlp, x, y, momentum, weight_decay),
        len(x),
        batch_size=batch_size,
        epochs=epochs,
        rate=rate,
        generator=torch_stream(seed, "fig16", "mlp order"),
        device=device,
        report=report,
    )
    rows = [{"layer": n, "epochs": trained.epochs, "loss": trained.loss} for n in range(1, depth + 1)]
    test = images(dataset, "test", 0, seed, device)
    return measured(mlp.sequential(), rows, "end to end", (x, y), test, alignment_images, seed, len(x))


def measured(net, rows, kind, train_set, test_set, alignment_images, seed, whole):
    """``rows``, one per layer, with alignments and accuracies of ``net``, as a table."""
    x, y = train_set
    order = torch.randperm(whole, generator=torch_stream(seed, "fig16", "alignment"))[:alignment_images]
    order = order.to(x.device)
    table = pd.DataFrame(rows).assign(kind=kind, alignment=tangent_alignment(net, x[order], y[order]))
    accuracies = {
        name: 100 * accuracy(net, *some)
        for name, some in (("train_accuracy", train_set), ("test_accuracy", test_set))
    }
    return table.assign(**accuracies)


@torch.no_grad()
def uniform_(linear, generator):
    """Draw weights and biases anew, uniform within ± 1/√fan_in, as PyTorch does by itself."""
    bound = linear.in_features**-0.5
    for parameter in (linear.weight, linear.bias):
        parameter.uniform_(-bound, bound, generator=generator)


def pair_loss(features, y, target=TARGET):
    """Mean over all pairs of a batch, each with itself, too, of (φ_iᵀφ_j - target δ)²; (b, width), (b,)."""
    wanted = target * (y[:, None] == y[None, :]).to(features.dtype)
    return (features @ features.T - wanted).square().mean()


def until_plateau(
    stage, loss, train_set, held_out, *, batch_size, rate, max_epochs, patience, generator, report
):
    """Train ``stage`` by Adam until its loss on ``held_out`` has stopped falling.

    That is, until for ``patience`` epochs it was not below its least before by ``PLATEAU`` of it. Returns
    (Trained, the last held-out loss: the mean over batches of the training's size). No step back.
    """
    (x, y), reached = train_set, []

    @torch.no_grad()
    def flat(now):
        batches = zip(*(part.split(batch_size) for part in held_out), strict=True)
        reached.append(float(torch.stack([loss(stage(inputs), wanted) for inputs, wanted in batches]).mean()))
        before, recent = reached[:-patience], reached[-patience:]
        return bool(before) and min(recent) > (1 - PLATEAU) * min(before)

    trained = train(
        module_step(stage, x, y, torch.optim.Adam(stage.parameters(), lr=rate), loss=loss),
        len(x),
        batch_size=batch_size,
        epochs=max_epochs,
        rate=rate,
        last_batch="drop",
        generator=generator,
        device=x.device,
        until=flat,
        report=report,
    )
    if len(reached) < trained.epochs:  # not asked after the last one
        flat(trained)
    return trained, reached[-1]


def curves(table, kind, dataset, width=None, target=TARGET):
    """(seeds × layers) frame of the alignments of one kind of network; empty where there is none."""
    rows = chosen(table, kind, dataset, width, target)
    return rows.pivot(index="seed", columns="layer", values="alignment") if len(rows) else pd.DataFrame()


def chosen(table, kind, dataset, width=None, target=TARGET):
    """The rows of one kind of network."""
    if "kind" not in table:
        return pd.DataFrame()
    rows = table[(table["kind"] == kind) & (table["dataset"] == dataset)]
    if kind == "layers":
        rows = rows[np.isclose(rows["target"], target) & (rows["width"] == width)]
    return rows


def accuracies(table, *condition, column="test_accuracy"):
    """One column of the networks, one value per seed (a Series)."""
    rows = chosen(table, *condition)
    return rows.groupby("seed")[column].first() if len(rows) else pd.Series(dtype=float)


def shape(table, *condition):
    """Per seed: height, the largest alignment; nearly, how many layers have ``NEARLY`` of it; peak."""
    frame = curves(table, *condition).dropna()
    if frame.empty:
        return pd.DataFrame({"height": [], "nearly": [], "peak": []})
    height = frame.max(axis=1)
    nearly = frame.ge(NEARLY * height, axis=0).sum(axis=1)
    return pd.DataFrame({"height": height, "nearly": nearly, "peak": frame.idxmax(axis=1)})


def conditions(parameters):
    """[(data set, width)] of what is trained layer by layer."""
    p = parameters
    return [(p["first"], w) for w in p["first_widths"]] + [(p["second"], w) for w in p["second_widths"]]


def title(dataset, width):
    """How a condition is called in text."""
    return f"{NAMES.get(dataset, dataset)}, width {width}"


def claims(table, parameters):
    """How many layers align, how much, and how accurate the networks are; against end to end, per seed."""
    made = []

    def greater(id, statement, where, group, values):
        values = values.dropna()
        about = (id, statement, where)
        claim = (
            Claim.greater(*about, values) if len(values) else Claim.missing(*about, "nothing was measured")
        )
        made.append(claim.within(*BOUNDS[group]).tagged(group=group))

    for dataset, width in conditions(parameters):
        ours, other = shape(table, "layers", dataset, width), shape(table, "end to end", dataset)
        where = "Figure 16" if dataset == parameters["first"] else "Figure 17"
        name, tail = title(dataset, width), f"{dataset}-{width}"
        greater(
            f"several-{tail}",
            f"{name}: {SEVERAL}",
            where if dataset == parameters["first"] else f"{where}: “very different”",
            SEVERAL,
            ours["nearly"] - other["nearly"],
        )
        if dataset == parameters["first"]:
            greater(f"lower-{tail}", f"{name}: {LOWER}", where, LOWER, other["height"] - ours["height"])
        lost = accuracies(table, "end to end", dataset) - accuracies(table, "layers", dataset, width)
        greater(f"worse-{tail}", f"{name}: {WORSE}", where, WORSE, lost)
    return made


def finding(table, parameters):
    """Accuracy, and how many layers align, layer by layer and end to end."""
    right, layers, whole = [], [], []
    for dataset, width in conditions(parameters):
        ours, other = shape(table, "layers", dataset, width), shape(table, "end to end", dataset)
        if len(ours) and len(other):
            accuracy = accuracies(table, "layers", dataset, width), accuracies(table, "end to end", dataset)
            low, high = accuracy[0].min(), accuracy[0].max()
            seeds = f", seeds {low:.0f} to {high:.0f}" if high - low > SCATTER else ""
            right.append(
                f"{accuracy[0].mean():.0f} against {accuracy[1].mean():.0f} ({title(dataset, width)}{seeds})"
            )
            layers.append(ours["nearly"].mean())
            whole.append(other["nearly"].mean())
    if not right:
        return "No network was trained to the end."
    return (
        f"Test accuracy (%) layer by layer against end to end: {', '.join(right)}. {min(layers):.1f} to "
        f"{max(layers):.1f} layers reach at least {NEARLY:g} of the largest alignment, end to end "
        f"{min(whole):.1f} to {max(whole):.1f}."
    )


def key_numbers(table, parameters):
    """Test accuracies layer by layer, and end to end on the first data set."""
    result = []
    dataset, width = parameters["first"], max(parameters["first_widths"])
    name = NAMES.get(dataset, dataset)
    for what, condition in (
        (f"layer by layer, {title(dataset, width)}", ("layers", dataset, width)),
        (f"end to end, {name}", ("end to end", dataset)),
    ):
        rows = shape(table, *condition)
        if len(rows):
            right = interval(accuracies(table, *condition), "{:.1f}", (0, 100))
            result.append(KeyNumber(f"test accuracy, {what} (%)", right))
    return result
