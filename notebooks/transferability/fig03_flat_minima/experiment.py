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

from alignbook.metrics.evaluation import evaluation_mode
from alignbook.metrics.hessian_eigenvalues import hessian_eigenvalues
from alignbook.metrics.landscape import filter_normalised_directions, landscape
from alignbook.seeding import torch_stream
from alignbook.training.fine_tune import accuracy_and_loss, fine_tune
from companion.jobs import Job, arguments_of
from companion.studies.transferability.shared.planes import rows_of
from companion.studies.transferability.shared.pretrained_source import source_jobs
from companion.studies.transferability.shared.targets import STARTS, named, start_of, training_of
from companion.studies.transferability.shared.tuned import kernels, recorded, target, tuned

ANGLES = 16  # points on a circle
TOLERANCE = 0.01  # residual of an eigenvalue over its magnitude: an error of about its square
PRODUCTS = 150  # Hessian-vector products at most
BATCH = 500  # images at once where all are measured


def jobs(parameters):
    """Spectra and circles per target, start and seed; planes of the first seed; two variations.

    The variations, on the first target alone: batch norm with the statistics of the batch, and a fixed
    number of steps in place of a fixed loss. And settled minima, of seeds of their own number, there too.
    """
    per_epoch = parameters["examples"] // parameters["batch_size"]
    shared = start_of(parameters) | arguments_of(parameters, "examples batch_size learning_rate images")
    to_loss = arguments_of(parameters, "stop_at_loss")
    to_loss |= {"steps": parameters["max_epochs"] * per_epoch, "decay_at": []}
    to_steps = arguments_of(training_of(parameters), "steps decay_at") | {"stop_at_loss": None}
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
                    Job(f"{name}-{kind}-{start}-seed{seed}", compute, own | arguments)
                    for kind, (compute, arguments) in kinds.items()
                ]
        if number > 0:
            continue
        settling = to_loss | count | {"radii": parameters["radii"]}
        settling |= {"stop_at_loss": parameters["settled_loss"]}
        settling |= {"settle_steps": parameters["settle_epochs"] * per_epoch}
        for seed in range(parameters["settled_seeds"]):
            for start in STARTS:
                own = shared | named(name) | settling | {"start": start, "seed": seed}
                del own["images"]  # all of them
                made.append(Job(f"{name}-settled-{start}-seed{seed}", settled, own))
    return made + source_jobs(parameters)


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
