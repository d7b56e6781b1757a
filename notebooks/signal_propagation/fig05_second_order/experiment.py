"""What moves the tangent features, and where it acts (Lou et al. 2022, Figure 5, Theorem A, Appendix B.4).

With outputs F ∈ R^{nk}, tangent features Ψ = ∂F/∂θ (parameters × nk), w = ∇_F L and

    H_v = Σ_{x, i} v_{x,i} ∂²f^i(x)/∂θ²,      ∇L = Ψ w = H_w θ / (L - 1)      (Theorem A),

the paper approximates the change of ΨỸ in a step of gradient descent with rate η twice:

    Ψ(t+1)Ỹ - Ψ(t)Ỹ ≈ -η H_Ỹ Ψ w  (Approximation 2, first order)  ≈ -η H_w Ψ Ỹ  (Approximation 1, w ∝ -Ỹ).

H_v is the Hessian of Σ v·F with v held: its products need no matrix. It is taken almost everywhere; what a
step adds to ΨỸ where a ReLU switches is in none of the two.
"""

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.claims import Claim, KeyNumber, interval
from alignbook.experiments import Unit
from alignbook.kernels.hessian_product import HessianProduct
from alignbook.kernels.mlp_sgd import MLP
from alignbook.metrics.hessian_eigenvalues import hessian_eigenvalues
from alignbook.metrics.tangent_alignment import tangent_alignment
from alignbook.seeding import torch_stream
from alignbook.studies.signal_propagation.dense import (
    CLASSES,
    NAMES,
    centred_labels,
    error_signal,
    images,
    step_of,
)
from alignbook.training.loop import train

HEADLINE = "correlated"
PAPER_LARGEST = (2.0, 15.0, 6.0)  # Figure 5: largest |eigenvalue| of H_w at its three times
PAPER_LAYERS = (1, 7, 10)  # Figure 5
PAPER_POSITIVE = (5, 15)  # Appendix D.3: usual largest positive eigenvalue of H_w at rates of about 0.005

# Fixed before any result was seen.
HIGH = 0.7  # "highly correlated": half of the squared length is in the predicted direction
EXACT = 1e-8  # relative error of Theorem A in float64
BALANCE = 0.1  # of a symmetric spectrum: Σλ / Σ|λ| over the largest by magnitude is 0 within this
POINTS = 4  # recorded steps per factor of ten
TOLERANCE = 1e-2  # relative residual of an eigenpair

CORRELATED = (
    "Over the first epoch the change of U ΨỸ in a step is highly correlated with -U H_w ΨỸ (ours: above 0.7)."
)


def units(parameters):
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
        made.append(Unit(f"{parameters['dataset']}-seed{seed}", compute, arguments | {"seed": seed}))
        if of_steps["decades"]:
            name = f"{parameters['dataset']}-rates-seed{seed}"
            made.append(Unit(name, compute_rates, of_steps | {"seed": seed}))
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


def second_order(net, x, y, rate):
    """A step of gradient descent from ``net`` on x (n, d), y (n,) with rate η > 0, and what foretells it.

    net : nn.Sequential of linear layers and ReLUs, in x's precision, left as it was.
    Returns a dict of cosines, and ΨỸ, its change ΔΨỸ and -H_w ΨỸ, (P,) each:

    predicted : ΔΨỸ, -H_w ΨỸ. first_order : ΔΨỸ, -H_Ỹ Ψw. relus_held : the same for the change if every
    ReLU stayed on or off as it was. swapped : H_Ỹ Ψw, H_w ΨỸ. gradients : -Ψw, ΨỸ. collinearity : -w, Ỹ.
    theorem_a : no cosine but the relative error of H_w θ = (L - 1) ∇L.
    """
    centred = centred_labels(y).to(x.dtype)
    with torch.no_grad():
        w = error_signal(net(x), y)
    theta = flat(net)
    features, descent = gradient(net, x, centred), gradient(net, x, w)
    by_w = product(net, x, w)
    predicted, first = -by_w(features), -product(net, x, centred)(descent)
    error = by_w(theta) - (layers_of(net) - 1) * descent
    fixed = held(net, x)
    put(net, theta - rate * descent)
    change = gradient(net, x, centred) - features
    smooth = gradient(fixed, x, centred) - features  # its layers are those of net
    put(net, theta)
    row = {
        "predicted": cosine(change, predicted),
        "first_order": cosine(change, first),
        "relus_held": cosine(smooth, first),
        "swapped": cosine(first, predicted),
        "gradients": -cosine(descent, features),
        "collinearity": -cosine(w, centred),
        "theorem_a": float(error.norm() / ((layers_of(net) - 1) * descent.norm())),
    }
    return row, features, change, predicted


class Mask(nn.Module):
    """Multiplies (n, width) by a constant of the same shape."""

    def __init__(self, mask):
        super().__init__()
        self.mask = mask

    def forward(self, z):
        return z * self.mask


@torch.no_grad()
def held(net, x):
    """``net`` with the same layers, its ReLUs held on or off as they are on x, the only input it takes."""
    modules, h = [], x
    for module in net:
        if isinstance(module, nn.ReLU):
            module = Mask((h > 0).to(h.dtype))
        modules.append(module)
        h = module(h)
    return nn.Sequential(*modules)


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


def weighted(outputs, weights):
    """Σ v·F: its gradient by the parameters is Ψv, its Hessian H_v, as long as v is held."""
    return (outputs * weights).sum()


def product(net, x, v):
    """u ↦ H_v u for u (P,), P the number of parameters."""
    size = sum(p.numel() for p in net.parameters())
    return HessianProduct(net, weighted, x, v, len(x), least=size)  # in entries of θ, not of their span


def gradient(net, x, v):
    """Ψv, (P,)."""
    parts = torch.autograd.grad(weighted(net(x), v), list(net.parameters()))
    return torch.cat([part.reshape(-1) for part in parts])


def flat(net):
    """All parameters, (P,), a copy."""
    return torch.nn.utils.parameters_to_vector(net.parameters()).detach().clone()


def put(net, theta):
    """Write ``theta`` (P,) into ``net``, which is returned."""
    with torch.no_grad():
        for p, part in zip(net.parameters(), split(net, theta), strict=True):
            p.copy_(part.view_as(p))
    return net


def split(net, vector):
    """The parts of ``vector`` (P,) that belong to each layer."""
    return vector.split([p.numel() for p in net.parameters()])


def layers_of(net):
    """How many linear layers, L."""
    return len(list(net.parameters()))


def cosine(a, b):
    """Cosine of two tensors as vectors, a float."""
    return float((a * b).sum() / (a.norm() * b.norm()))


def numbered(name, values):
    """{name_1: …, name_2: …} of the values of the layers."""
    return {f"{name}_{layer}": float(value) for layer, value in enumerate(values, start=1)}


def curves(table, column, kind="step"):
    """(seeds × epochs) frame of one column; empty where there is none."""
    if "kind" not in table or column not in table:
        return pd.DataFrame()
    rows = table[table["kind"] == kind]
    return rows.pivot(index="seed", columns="epoch", values=column).sort_index(axis=1)


def early(table, column, kind="step"):
    """Mean of ``column`` over the steps of the first epoch, one value per seed (trapezoids)."""
    frame = curves(table, column, kind)
    if frame.empty:
        return pd.Series(dtype=float)
    frame = frame.loc[:, frame.columns <= 1].dropna(axis=1)
    at = frame.columns.to_numpy(float)
    if len(at) < 2:
        return frame.mean(axis=1)
    return pd.Series(np.trapezoid(frame, at, axis=1) / (at[-1] - at[0]), index=frame.index)


def by_pairs(table, column, epoch):
    """Mean of ``column`` over the eigenpairs taken after ``epoch``, one value per seed (a Series)."""
    if "kind" not in table or column not in table:
        return pd.Series(dtype=float)
    rows = table[(table["kind"] == "pair") & np.isclose(table["epoch"], epoch)]
    return rows.groupby("seed")[column].mean()


def largest(table, epoch):
    """Largest |eigenvalue| after ``epoch``, one per seed (a Series)."""
    if "kind" not in table:
        return pd.Series(dtype=float)
    rows = table[(table["kind"] == "pair") & np.isclose(table["epoch"], epoch)]
    return rows["eigenvalue"].abs().groupby(rows["seed"]).max()


def most(table, epoch, sign=1):
    """Largest eigenvalue after ``epoch``, or with ``sign`` -1 minus the smallest, one per seed (a Series)."""
    if "kind" not in table:
        return pd.Series(dtype=float)
    rows = table[(table["kind"] == "pair") & np.isclose(table["epoch"], epoch)]
    return (sign * rows["eigenvalue"]).groupby(rows["seed"]).max()


def balance(table, epoch):
    """Σλ / Σ|λ| over the eigenvalues taken after ``epoch``, one per seed (a Series)."""
    values = by_pairs(table, "eigenvalue", epoch)
    return (
        values / by_pairs(table.assign(size=table["eigenvalue"].abs()), "size", epoch)
        if len(values)
        else values
    )


def claims(table, parameters):
    """The prediction and its two steps, Theorem A, where the eigenvectors lie, the spectrum's symmetry."""
    p, made = parameters, []
    first, middle, last = p["layers"]
    times = p["epochs_at"]
    rise = times[1]

    def greater(id, statement, where, values, than, group=None):
        if len(values):
            claim = Claim.greater(id, statement, where, values, than=than)
        else:
            claim = Claim.missing(id, statement, where, "nothing was measured")
        made.append(claim.within(-1.0, 1.0).tagged(group=group))  # cosines, and differences of norms up to 1

    readings = {
        "all": ("U keeps lengths, all parameters", early(table, "predicted")),
        "top": (
            "U projects on the top eigenvectors of H_w, at the times up to epoch 1",
            early(table, "predicted", "top"),
        ),
        "more": (f"as the first, on {p['more_examples']} examples", early(table, "predicted", "more")),
        "taken": ("as the first, for the step that mini-batch SGD takes", early(table, "taken")),
    }
    for key, (reading, values) in readings.items():
        statement = f"{CORRELATED} Read so: {reading}."
        greater(
            f"correlated-{key}", statement, "Figure 5 (a), Approximation 1", values, HIGH, group=CORRELATED
        )
    greater(
        "first-order",
        f"Approximation 2: it is highly correlated with its first order, -H_Ỹ Ψw (ours: above {HIGH:g}).",
        "Appendix B.5.2, Approximation 2",
        early(table, "first_order"),
        HIGH,
    )
    greater(
        "swapped",
        f"H_Ỹ Ψw is highly correlated with H_w ΨỸ (ours: above {HIGH:g}).",
        "Appendix B.5.2, Equation 10",
        early(table, "swapped"),
        HIGH,
    )
    errors = curves(table, "theorem_a")
    about = ("theorem-a", "(L - 1) ∇L = H_w θ (largest relative error in float64).", "Theorem A")
    if errors.empty:
        made.append(Claim.missing(*about, "nothing was measured", paper=0.0))
    else:
        made.append(Claim.computed(*about, errors.max(axis=None), 0.0, EXACT))

    energies = {layer: by_pairs(table, f"energy_{layer}", rise) for layer in p["layers"]}
    outer = pd.concat([energies[first], energies[last]], axis=1).max(axis=1)
    greater(
        "middle",
        f"While alignment rises (after epoch {rise}), the top eigenvectors of H_w have more in layer "
        f"{middle} than in layer {first} or {last} (difference of the mean norms to the larger of the two).",
        "Figure 5, Appendix B.4",
        (energies[middle] - outer).dropna(),
        0.0,
    )
    greater(
        "concentrates",
        f"They have more in layer {middle} than at initialisation (difference of the mean norms).",
        "Figure 5, Appendix B.4",
        (energies[middle] - by_pairs(table, f"energy_{middle}", times[0])).dropna(),
        0.0,
    )
    about = (
        "symmetric",
        "The spectrum of H_w is symmetric (sum of the largest over the sum of their sizes).",
    )
    about += ("Figure 5, caption",)
    values = balance(table, rise)
    if len(values):
        made.append(Claim.equals(*about, values, 0.0, BALANCE))
    else:
        made.append(Claim.missing(*about, "nothing was measured", paper=0.0))
    group = "Largest |eigenvalue| of H_w as printed."
    for epoch, printed in zip(times, PAPER_LARGEST, strict=False):
        about = (
            f"largest-{epoch}",
            f"After epoch {epoch}: {group[0].lower()}{group[1:-1]} (interval: of one more run).",
            "Figure 5, caption",
        )
        values = largest(table, epoch)
        if len(values):
            claim = Claim.one_run(*about, values, printed).within(0.0)
            claim = claim.not_judged(
                "the paper does not say at which steps, on how many images and at which width"
            )
        else:
            claim = Claim.missing(*about, "nothing was measured", paper=printed)
        made.append(claim.tagged(group=group))
    return made


def finding(table, parameters):
    """The correlation over the first epoch, where it is lost, and which layer holds the eigenvectors."""
    predicted = early(table, "predicted")
    if not len(predicted):
        return "No network was trained to the end."
    epoch, name = parameters["epochs_at"][1], NAMES.get(parameters["dataset"], parameters["dataset"])
    held = early(table, "relus_held").mean()
    said = (
        f"On {name}, over the first epoch, a step's change of ΨỸ has cosine {interval(predicted)} with "
        f"-H_w ΨỸ ({held:.2f} with its own first order if no ReLU switches)."
    )
    energies = {layer: by_pairs(table, f"energy_{layer}", epoch) for layer in parameters["layers"]}
    if all(map(len, energies.values())):
        norms = ", ".join(f"{values.mean():.2f} in layer {layer}" for layer, values in energies.items())
        said += f" After epoch {epoch} the top eigenvectors of H_w have norms {norms}."
    return said


def key_numbers(table, parameters):
    """The largest |eigenvalue| at the three times."""
    result = []
    times = zip(("first", "second", "third"), parameters["epochs_at"], PAPER_LARGEST, strict=False)
    for name, epoch, printed in times:
        values = largest(table, epoch)
        if len(values):
            what = "at initialisation" if epoch == 0 else f"after epoch {epoch}"
            result.append(
                KeyNumber(
                    f"largest |eigenvalue| of H_w at the paper's {name} time, here {what}",
                    interval(values, "{:.2g}", (0, np.inf)),
                    printed,
                )
            )
    return result
