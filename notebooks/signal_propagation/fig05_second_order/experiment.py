"""What moves the tangent features, and where it acts (Lou et al. 2022, Figure 5, Theorem A, Appendix B.4).

With outputs F ∈ R^{nk}, tangent features Ψ = ∂F/∂θ (parameters × nk), w = ∇_F L and

    H_v = Σ_{x, i} v_{x,i} ∂²f^i(x)/∂θ²,      ∇L = Ψ w = H_w θ / (L - 1)      (Theorem A),

the paper approximates the change of ΨỸ in a step of gradient descent with rate η twice:

    Ψ(t+1)Ỹ - Ψ(t)Ỹ ≈ -η H_Ỹ Ψ w  (Approximation 2, first order)  ≈ -η H_w Ψ Ỹ  (Approximation 1, w ∝ -Ỹ).

What a step adds to ΨỸ where a ReLU switches is in none of the two.
"""

import numpy as np
import pandas as pd
import torch

from alignbook.kernels.mlp_sgd import MLP
from alignbook.metrics.hessian_eigenvalues import hessian_eigenvalues
from alignbook.metrics.tangent_alignment import tangent_alignment
from alignbook.seeding import torch_stream
from alignbook.training.loop import train
from companion.jobs import Job
from companion.studies.signal_propagation.shared.dense import (
    CLASSES,
    centred_labels,
    error_signal,
    images,
    step_of,
)

from ..shared.tangent_step import cosine, gradient, second_order, weighted

POINTS = 4  # recorded steps per factor of ten
TOLERANCE = 1e-2  # relative residual of an eigenpair


def jobs(parameters):
    """One network per seed; once more for shorter and shorter steps, if any are asked for."""
    names = (
        "dataset depth width learning_rate batch_size train_images momentum weight_decay epochs_at examples "
        "more_examples"
    )
    arguments = {name: parameters[name] for name in names.split()} | {"count": parameters["eigenvalues"]}
    others = ("epochs_at", "more_examples", "count")
    of_steps = {name: value for name, value in arguments.items() if name not in others}
    of_steps |= {"decades": parameters["rate_decades"]}
    made = []
    for seed in range(parameters["seeds"]):
        made.append(Job(f"{parameters['dataset']}-seed{seed}", compute, arguments | {"seed": seed}))
        if of_steps["decades"]:
            name = f"{parameters['dataset']}-rates-seed{seed}"
            made.append(Job(name, compute_rates, of_steps | {"seed": seed}))
    return made


def steps_to_look_at(per_epoch, epochs):
    """0, about ``POINTS`` steps per factor of ten, and the last of the first and of all epochs; ascending."""
    last = per_epoch * epochs
    grid = np.geomspace(1, last, max(2, round(POINTS * np.log10(last)) + 1)).round().astype(int)
    return sorted({0, per_epoch, last, *map(int, grid)})


def compute(
    *,
    dataset,
    depth,
    width,
    learning_rate,
    batch_size,
    train_images,
    momentum,
    weight_decay,
    epochs_at,
    examples,
    more_examples,
    count,
    seed,
    device,
    report,
):
    """Train one network by SGD; ΨỸ and H_w on ``examples`` of its training images along the way.

    epochs_at : ascending list of int, after which ``count`` eigenpairs of H_w are taken; the last one ends
    training. ``train_images`` 0: all. more_examples : as many images as the rows ``more`` take.
    Rows ``step`` in float64, the others in float32, eigenpairs to ``TOLERANCE``.

    Rows by ``kind`` (columns that do not apply are NaN), all with step and epoch:

    ``step``, ``more``: cosines over all parameters for one step of gradient descent on the examples, see
        :func:`second_order`; of ``step`` also taken, the cosine ``predicted`` for the step that SGD itself
        took next (none after the last), and alignment_1 … alignment_L (Eq. 7).
    ``pair``: index from 1 by magnitude, eigenvalue, residual, and energy_1 … energy_L, the norm of its
        eigenvector's part in each layer (Figure 5).
    ``top``: predicted, after projection on these eigenvectors; converged, the share of pairs whose residual
        met the tolerance.
    """
    x, y = images(dataset, "train", train_images, seed, device)
    mlp = MLP(x.shape[1], width, depth, CLASSES, torch_stream(seed, "fig05", "weights"), device=device)
    order = torch.randperm(len(x), generator=torch_stream(seed, "fig05", "examples")).to(device)
    seen, labels = x[order[:examples]], y[order[:examples]]
    more = order[:more_examples]
    per_epoch = -(-len(x) // batch_size)
    spectra = [per_epoch * epoch for epoch in epochs_at]
    last = spectra[-1]
    looks = sorted({*steps_to_look_at(per_epoch, epochs_at[-1]), *spectra})
    rows, waiting = [], {}

    def look(step):
        here = {"step": step, "epoch": step / per_epoch}
        if step - 1 in waiting:
            row, features, predicted = waiting.pop(step - 1)
            now = gradient(mlp.sequential().double(), seen.double(), centred_labels(labels).double())
            row["taken"] = cosine(now - features, predicted)
        if step not in looks:
            return
        row, features, change, predicted = second_order(
            mlp.sequential().double(), seen.double(), labels, learning_rate
        )
        aligned = tangent_alignment(mlp.sequential(), seen, labels)
        rows.append({"kind": "step", **here, **row, **numbered("alignment", aligned)})
        if step < last:
            waiting[step] = rows[-1], features, predicted
        rows.append(
            {"kind": "more", **here, **second_order(mlp.sequential(), x[more], y[more], learning_rate)[0]}
        )
        if step in spectra:
            found = spectrum(mlp.sequential(), seen, labels, count, change, predicted)
            rows.extend({**here, **row} for row in found)

    train(
        step_of(mlp, x, y, momentum, weight_decay),
        len(x),
        batch_size=batch_size,
        steps=last,
        rate=learning_rate,
        generator=torch_stream(seed, "fig05", "order"),
        device=device,
        at={*looks, *(step + 1 for step in looks)},
        on=look,
        report=report,
    )
    return pd.DataFrame(rows)


def compute_rates(
    *,
    dataset,
    depth,
    width,
    learning_rate,
    batch_size,
    train_images,
    momentum,
    weight_decay,
    examples,
    decades,
    seed,
    device,
    report,
):
    """How the cosines of a step depend on its length: rates η down to 10^-``decades`` of the training's.

    The network of :func:`compute`, on the same examples and in float64, before training, after a tenth of its
    first epoch and after all of it. Rows of ``kind`` ``rate``: step, epoch, rate (two per factor of ten), and
    the cosines of :func:`second_order` for one step of gradient descent with that rate.
    """
    x, y = images(dataset, "train", train_images, seed, device)
    mlp = MLP(x.shape[1], width, depth, CLASSES, torch_stream(seed, "fig05", "weights"), device=device)
    order = torch.randperm(len(x), generator=torch_stream(seed, "fig05", "examples")).to(device)
    seen, labels = x[order[:examples]].double(), y[order[:examples]]
    per_epoch = -(-len(x) // batch_size)
    rows = []

    def look(step):
        for half in range(2 * decades + 1):
            rate = learning_rate / 10 ** (half / 2)
            found = second_order(mlp.sequential().double(), seen, labels, rate)[0]
            rows.append({"kind": "rate", "step": step, "epoch": step / per_epoch, "rate": rate, **found})

    train(
        step_of(mlp, x, y, momentum, weight_decay),
        len(x),
        batch_size=batch_size,
        epochs=1,
        rate=learning_rate,
        generator=torch_stream(seed, "fig05", "order"),
        device=device,
        at={0, per_epoch // 10, per_epoch},
        on=look,
        report=report,
    )
    return pd.DataFrame(rows)


def spectrum(net, x, y, count, change, predicted):
    """Rows ``pair`` and ``top`` of the ``count`` largest eigenvalues of H_w, by magnitude."""
    with torch.no_grad():
        w = error_signal(net(x), y)
    found = hessian_eigenvalues(net, weighted, x, w, k=count, tol=TOLERANCE, batch_size=len(x))
    sizes = [p.numel() for p in net.parameters()]
    energy = torch.stack([part.norm(dim=1) for part in found.eigenvectors.split(sizes, dim=1)], dim=1)
    magnitude = np.abs(found.eigenvalues)
    rows = [
        {
            "kind": "pair",
            "index": index + 1,
            "eigenvalue": value,
            "residual": residual,
            **numbered("energy", energy[index].tolist()),
        }
        for index, (value, residual) in enumerate(zip(found.eigenvalues, found.residuals, strict=True))
    ]
    vectors = found.eigenvectors.double()
    met = found.residuals <= 2 * TOLERANCE * magnitude
    top = cosine(vectors @ change, vectors @ predicted)
    return [*rows, {"kind": "top", "predicted": top, "converged": float(met.mean())}]


def numbered(name, values):
    """{name_1: …, name_2: …} of the values of the layers."""
    return {f"{name}_{layer}": float(value) for layer, value in enumerate(values, start=1)}
