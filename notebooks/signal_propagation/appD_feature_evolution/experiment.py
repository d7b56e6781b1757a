"""How tangent features evolve in a step of gradient descent (Lou et al. 2022, Appendix D, end of B.4).

Figure 5's networks. With w = ∇_F L taken to be proportional to -Ỹ, the paper derives, for a step of rate η,

    ΔΨỸ = -η H_w ΨỸ   (23),        ΔΨu = 0  for u ⊥ Ỹ   (24),
    A_l(t+1) ≈ A_l(t) · tr(M_l (I - ηH) H² (I - ηH)) / tr(M_l H²)
             = A_l(t) (1 - 2η tr(M_l H³)/tr(M_l H²) + η² tr(M_l H⁴)/tr(M_l H²)),   H = H_w   (25),

M_l the projection on layer l. The last line of (25) is printed without the factor A_l(t) before 2η and η².
"""

import numpy as np
import pandas as pd
import torch

from alignbook.kernels.mlp_sgd import MLP
from alignbook.metrics.hessian_eigenvalues import hessian_eigenvalues
from alignbook.metrics.tangent_alignment import tangent_alignment
from alignbook.seeding import torch_stream
from alignbook.training.loop import train
from companion.jobs import jobs_over
from companion.studies.signal_propagation.shared.dense import (
    CLASSES,
    centred_labels,
    error_signal,
    images,
    step_of,
)

from ..shared.tangent_step import cosine, flat, gradient, product, put, split, weighted

TOLERANCE = 1e-2  # relative residual of an eigenpair
KINDS = ("random", "shuffled")  # of vectors u ⊥ Ỹ


def jobs(parameters):
    """One network per seed."""
    names = (
        "dataset depth width learning_rate batch_size train_images momentum weight_decay times examples "
        "shorter vectors pairs probes"
    )
    arguments = {name: parameters[name] for name in names.split()}
    return jobs_over(
        f"{parameters['dataset']}-seed{{seed}}", compute, arguments, seed=range(parameters["seeds"])
    )


def steps_to_look_at(per_epoch, times):
    """0 and about ``times`` - 1 steps up to the last of the first epoch, evenly on a logarithmic axis."""
    return sorted({0, *map(int, np.geomspace(1, per_epoch, max(2, times - 1)).round())})


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
    times,
    examples,
    shorter,
    vectors,
    pairs,
    probes,
    seed,
    device,
    report,
):
    """Train Figure 5's network for an epoch; try single steps of gradient descent on ``examples`` along it.

    shorter : by which factors these steps are shorter than ``learning_rate``. vectors : u ⊥ Ỹ of each kind of
    ``KINDS``, of Ỹ's length: Gaussian, and the centred labels in another order; the same all the time.
    pairs : eigenpairs of H_w; the traces are exact on their span, and estimated from ``probes`` outside it.

    Rows by ``kind``, all with step and epoch:

    ``state``: label, random, shuffled, the means of ‖Ψv‖².
    ``step``, per rate: cosine (of ΔΨỸ with (23)), moved_random and moved_shuffled (root mean square of ‖ΔΨu‖
        over ‖ΔΨỸ‖).
    ``layer``, per rate and layer: alignment, growth (ΔA_l / A_l), numerator (the same of ỸᵀK_lỸ), by_23 and
        by_25 (what these equations give for it), third (tr(M_l H³)/tr(M_l H²)), unsure (its standard error).
    ``pair``, per rate: sign, count, and old and new, ⟨v, ΨỸ⟩² summed over the eigenvectors of that sign,
        before and after the step.
    """
    x, y = images(dataset, "train", train_images, seed, device)
    mlp = MLP(x.shape[1], width, depth, CLASSES, torch_stream(seed, "fig05", "weights"), device=device)
    order = torch.randperm(len(x), generator=torch_stream(seed, "fig05", "examples")).to(device)
    seen, labels = x[order[:examples]].double(), y[order[:examples]]
    others = {kind: orthogonal(labels, kind, vectors, seed) for kind in KINDS}
    per_epoch = -(-len(x) // batch_size)
    looks, rows = steps_to_look_at(per_epoch, times), []

    def look(step):
        net = mlp.sequential()
        traces, eigenvectors, signs = moments(net, seen.float(), labels, pairs, probes, seed)
        found = evolution(net.double(), seen, labels, others, learning_rate / np.array(shorter), traces)
        changes = found.pop()
        for rate, before, after in changes:
            old, new = ((eigenvectors @ features).square() for features in (before, after))
            for sign in (-1, 1):
                chosen = signs == sign
                row = {"kind": "pair", "rate": rate, "sign": sign, "count": int(chosen.sum())}
                found.append(row | {"old": float(old[chosen].sum()), "new": float(new[chosen].sum())})
        rows.extend({"step": step, "epoch": step / per_epoch, **row} for row in found)
        report((looks.index(step) + 1) / len(looks), f"step {step}")

    train(
        step_of(mlp, x, y, momentum, weight_decay),
        len(x),
        batch_size=batch_size,
        epochs=1,
        rate=learning_rate,
        generator=torch_stream(seed, "fig05", "order"),
        device=device,
        at=looks,
        on=look,
    )
    return pd.DataFrame(rows)


def orthogonal(labels, kind, count, seed):
    """(count, n, k) float64, orthogonal to Ỹ and of its length: Gaussian, or Ỹ with its examples shuffled."""
    target = centred_labels(labels).double()
    draw = torch_stream(seed, "appD", kind)
    found = []
    for _ in range(count):
        if kind == "random":
            u = torch.randn(target.shape, generator=draw, dtype=torch.float64).to(target)
        else:
            u = target[torch.randperm(len(target), generator=draw).to(target.device)]
        u = u - (u * target).sum() / target.square().sum() * target
        found.append(u * (target.norm() / u.norm()))
    return torch.stack(found)


def moments(net, x, y, pairs, probes, seed):
    """tr(M_l H³)/tr(M_l H²), the same of H⁴, the first's standard error, (3, layers); eigenvectors; signs.

    tr(M_l H³) = Σ ⟨(Hv)_l, (H²v)_l⟩ over an orthonormal basis, and so on: exactly on the span of the leading
    ``pairs`` eigenvectors of H_w, (pairs, P), and from Gaussian ``probes`` on what is orthogonal to it.
    """
    with torch.no_grad():
        w = error_signal(net(x), y)
    found = hessian_eigenvalues(net, weighted, x, w, k=pairs, tol=TOLERANCE, batch_size=len(x))
    basis = torch.linalg.qr(found.eigenvectors.T)[0].T  # nearly orthonormal already
    by_w = product(net, x, w)
    draw = torch_stream(seed, "appD", "probes", device=x.device)

    def layer_sums(v):
        once = by_w(v)
        one, two = split(net, once), split(net, by_w(once))
        return torch.tensor(
            [
                [float(a.double() @ b.double()) for a, b in zip(*sides, strict=True)]
                for sides in ((one, one), (one, two), (two, two))
            ],
            dtype=torch.float64,
        )

    total = sum(layer_sums(v) for v in basis)
    estimates = []
    for _ in range(probes):
        z = torch.randn(basis.shape[1], generator=draw, device=x.device)
        estimates.append(layer_sums(z - basis.T @ (basis @ z)))
    rest = torch.stack(estimates)
    second, third, fourth = total + rest.mean(0)
    unsure = rest[:, 1].std(0) / probes**0.5
    ratios = torch.stack([third / second, fourth / second, unsure / second])
    return ratios, found.eigenvectors.double(), torch.as_tensor(np.sign(found.eigenvalues), device=x.device)


def evolution(net, x, y, others, rates, traces):
    """Rows ``state``, ``step``, ``layer``, and last [(rate, ΨỸ before, after)], of single steps from ``net``.

    net in float64, left as it was; others : {kind: (count, n, k)}; traces : of :func:`moments`.
    """
    centred = centred_labels(y).double()
    with torch.no_grad():
        w = error_signal(net(x), y)
    theta, descent = flat(net), gradient(net, x, w)
    features = gradient(net, x, centred)
    kept = {kind: [gradient(net, x, u) for u in several] for kind, several in others.items()}
    by_w = product(net, x, w)(features)
    aligned = tangent_alignment(net, x, y)
    shares = squares(net, features)
    state = {
        kind: float(np.mean([float(f.square().sum()) for f in several])) for kind, several in kept.items()
    }
    rows, changes = [{"kind": "state", "label": float(features.square().sum()), **state}], []
    for rate in map(float, rates):
        put(net, theta - rate * descent)
        after = gradient(net, x, centred)
        row = {"kind": "step", "rate": rate, "cosine": cosine(after - features, -by_w)}
        for kind, several in others.items():
            moved = [
                float((gradient(net, x, u) - f).square().sum())
                for u, f in zip(several, kept[kind], strict=True)
            ]
            row[f"moved_{kind}"] = float(np.sqrt(np.mean(moved)) / (after - features).norm())
        rows.append(row)
        columns = {
            "growth": tangent_alignment(net, x, y) / aligned - 1,
            "numerator": squares(net, after) / shares - 1,
            "by_23": squares(net, features - rate * by_w) / shares - 1,
            "by_25": (-2 * rate * traces[0] + rate**2 * traces[1]).numpy(),
            "third": traces[0].numpy(),
            "unsure": traces[2].numpy(),
        }
        for layer, a in enumerate(aligned):
            values = {name: float(column[layer]) for name, column in columns.items()}
            rows.append({"kind": "layer", "rate": rate, "layer": layer + 1, "alignment": float(a), **values})
        changes.append((rate, features, after))
    put(net, theta)
    return [*rows, changes]


def squares(net, vector):
    """Squared length of the part of ``vector`` (P,) in each layer, (layers,) float64."""
    return np.array([float(part.square().sum()) for part in split(net, vector)])
