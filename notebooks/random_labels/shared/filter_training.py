"""A small convolutional network trained on images; its first filters are measured (Figures 2 and 4, A.6).

The runs that the two figures share; which rows of a table are whose: :mod:`.filter_runs`.
"""

import numpy as np
import pandas as pd
import torch

from alignbook.data import load, random_labels
from alignbook.metrics.misalignment import misalignment, misalignment_basis
from alignbook.metrics.patch_covariance import patch_covariance
from alignbook.metrics.transfer_function import transfer_function
from alignbook.seeding import numpy_stream, torch_stream
from alignbook.training.nets import SimpleCNN, he_normal_
from alignbook.training.train import fit
from companion.jobs import Job

from .filter_design import SWEEP_SEED
from .random_bases import random_bases

STORED_AS = "random_labels/fig02_misalignment"  # where the tables of these runs are kept
CLASSES = 10  # A.6: num_classes
MOMENTUM = 0.9  # A.3


def figure_jobs(parameters):
    """The runs of both figures: one job per kind of labels and seed."""
    return [
        job(f"{labels}-seed{seed}", parameters, labels, seed)
        for labels in parameters["labels"]
        for seed in range(parameters["seeds"])
    ]


def sweep_jobs(parameters, scale, seeds):
    """The trial runs with one initial scale: ``seeds`` for each kind of labels."""
    epochs = parameters["epochs"]
    record = sorted({epochs // 4, epochs // 2, epochs})
    return [
        job(f"sweep-{labels}-scale{scale:g}-seed{seed}", parameters, labels, seed, init_scale=scale,
             record=record)
        for labels in parameters["labels"]
        for seed in range(SWEEP_SEED, SWEEP_SEED + seeds)
    ]  # fmt: skip


def job(name, parameters, labels, seed, **other):
    """One run: the arguments of :func:`compute` from ``parameters``, but for what ``other`` gives."""
    names = (
        "dataset images epochs record evaluate batch_size learning_rate init_scale filters hidden "
        "precision bases"
    ).split()
    arguments = {key: parameters[key] for key in names}
    arguments |= {"flips": parameters["floor_draws"], "labels": labels, "seed": seed} | other
    epochs = arguments["epochs"]  # the end is always recorded: claims are about it
    arguments["record"] = sorted(e for e in {0, *arguments["record"], epochs} if e <= epochs)
    return Job(name, compute, arguments)


def compute(
    *,
    dataset,
    labels,
    images,
    epochs,
    record,
    evaluate,
    batch_size,
    learning_rate,
    init_scale,
    filters,
    hidden,
    precision,
    bases,
    flips,
    seed,
    device,
    report,
):
    """Train one network (A.2, A.3, A.6) and measure its filters after each epoch in ``record``.

    images : how many training images; evaluate : on how many of them loss, accuracy and dead units
    are measured. bases, flips : how many random orthonormal bases and sign flips (see :func:`measure`).
    Returns a table of two kinds of rows: ``kind == "score"`` with one row per recorded epoch, and
    ``kind == "transfer"`` with one row per recorded epoch and eigenvalue of the patch covariance:
    ``index`` (0 is the smallest), ``sigma``, ``tau`` (Definition 3). Raises Diverged.
    """
    data = load(dataset, n=images, seed=seed)
    targets = data.y
    if labels == "random":
        targets = random_labels(images, CLASSES, torch_stream(seed, "labels"))
    cov_x = np.asarray(patch_covariance(data.x, size=3, stride=1).cov)
    net = SimpleCNN(tuple(data.x.shape[1:]), [filters], hidden, CLASSES)
    net = he_normal_(net, init_scale, torch_stream(seed, "init")).to(device)
    start = flat_filters(net)
    x, y = data.x.to(device), targets.to(device)
    orthonormal = random_bases(cov_x.shape[0], bases, numpy_stream(seed, "bases"))
    per_epoch = images // batch_size
    rows = []

    def on(step, net):
        weights = flat_filters(net)
        score, curve = measure(cov_x, weights, orthonormal, flips, numpy_stream(seed, "flips", step))
        moved = np.linalg.norm(weights - start) / np.linalg.norm(start)
        at = {"epoch": step // per_epoch, "step": step}
        learnt = evaluation(net, x[:evaluate], y[:evaluate], precision)
        rows.append({"kind": "score", **at, **score, **learnt, "displacement": moved})
        rows.extend({"kind": "transfer", **at, **point} for point in curve)

    fit(
        net,
        x,
        y,
        steps=epochs * per_epoch,
        batch_size=batch_size,
        learning_rate=learning_rate,
        momentum=MOMENTUM,
        schedule="thirds",
        generator=torch_stream(seed, "order"),
        precision=precision,
        at=[epoch * per_epoch for epoch in record],
        on=on,
        report=report,
    )
    return pd.DataFrame(rows)


def flat_filters(net):
    """The first convolution's filters as rows, (filters, C·9) float64 array, in the order of patches."""
    weight = net.convs[0].weight.detach()
    return weight.reshape(len(weight), -1).double().cpu().numpy()


def measure(cov_x, weights, orthonormal, flips, rng):
    """Misalignment scores of filters, and their transfer function.

    cov_x : (d, d) patch covariance; weights : (filters, d); orthonormal : (count, d, d); flips : int.

    ``misalignment`` is M(Σ_x, Σ_w) of Section 2.2 with the data first: the eigenspaces are the data's.
    ``uncentred`` is the same for E[w wᵀ] in place of the covariance. ``basis_mean``, ``_min`` and
    ``_max`` replace the data's eigenvectors by the random bases. ``flip_mean``, ``_low`` and ``_high``
    (mean, 2.5 % and 97.5 % quantiles) are a floor that knows the filters' own tails: the components of
    every filter along the data's eigenvectors get random signs, which leaves their sizes and makes the
    expected covariance exactly aligned.

    Returns (dict of scores, list of dicts ``index``, ``sigma``, ``tau``).
    """
    cov_w = np.cov(weights, rowvar=False)
    others = np.array([misalignment_basis(basis, cov_w) for basis in orthonormal])
    _, vectors = np.linalg.eigh(cov_x)
    components = weights @ vectors
    signs = rng.choice([-1.0, 1.0], size=(flips, *components.shape))
    standard = np.eye(cov_x.shape[0])
    flipped = [misalignment_basis(standard, np.cov(sign * components, rowvar=False)) for sign in signs]
    score = {
        "misalignment": misalignment(cov_x, cov_w),
        "uncentred": misalignment(cov_x, weights.T @ weights / len(weights)),
        "basis_mean": others.mean(),
        "basis_min": others.min(),
        "basis_max": others.max(),
        "flip_mean": np.mean(flipped),
        "flip_low": np.quantile(flipped, 0.025),
        "flip_high": np.quantile(flipped, 0.975),
    }
    sigma, tau = transfer_function(cov_x, cov_w)
    pairs = zip(np.asarray(sigma), np.asarray(tau), strict=True)
    return score, [{"index": i, "sigma": float(s), "tau": float(t)} for i, (s, t) in enumerate(pairs)]


@torch.no_grad()
def evaluation(net, x, y, precision, batch_size=256):
    """Loss (nats), accuracy (0..1) and dead units of ``net`` on x (n, C, H, W), y (n,), one pass.

    A unit of the dense layer is dead when none of the images activates it.
    """
    loss = right = 0.0
    alive = torch.zeros(net.dense.out_features, dtype=torch.bool, device=x.device)

    def watch(module, inputs, output):
        alive.logical_or_((output > 0).any(0))

    handle = net.dense.register_forward_hook(watch)
    try:
        for inputs, labels in zip(x.split(batch_size), y.split(batch_size), strict=True):
            inputs = inputs.contiguous(memory_format=torch.channels_last)
            with torch.autocast(x.device.type, torch.bfloat16, enabled=precision == "bfloat16"):
                logits = net(inputs)
            loss += torch.nn.functional.cross_entropy(logits.double(), labels, reduction="sum").item()
            right += (logits.argmax(1) == labels).sum().item()
    finally:
        handle.remove()
    return {"loss": loss / len(x), "accuracy": right / len(x), "dead_units": int((~alive).sum())}
