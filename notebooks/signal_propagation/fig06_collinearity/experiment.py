"""How nearly the error signal lies along the centred labels (Lou et al. 2022, Figure 6, Approximation 1).

With k classes, outputs F ∈ R^{nk}, w = ∇_F L = (softmax(F) - Y)/n and Ỹ = Y - 1/k (Appendix B.4),

    -corr(Ỹ, w) = mean(1 - p_c) / sqrt((1 - 1/k) mean ‖p - y‖²),

p the predicted probabilities of an example, p_c that of its class. Both vectors have mean zero, so that this
is their cosine, too. It is 1 where all probabilities are 1/k.
"""

import copy

import numpy as np
import pandas as pd
import torch

from alignbook.claims import Claim, KeyNumber, interval
from alignbook.data import load
from alignbook.experiments import Unit
from alignbook.kernels.mlp_sgd import MLP
from alignbook.metrics.tangent_alignment import tangent_alignment
from alignbook.seeding import torch_stream
from alignbook.studies.signal_propagation.dense import (
    CLASSES,
    NAMES,
    accuracy,
    centred_labels,
    error_signal,
    images,
    step_of,
)
from alignbook.training.deep import VGG, ResNet18
from alignbook.training.loop import module_step, train
from alignbook.training.nets import he_normal_

HEADLINE = "epoch"
NETWORKS = {"dense": "fully connected", "vgg19": "VGG-19", "resnet18": "ResNet-18"}

# Fixed before any result was seen: what counts as "≈ 1".
NEAR = 0.9
POINTS = 12  # per factor of ten in the number of steps

INITIAL = "At initialisation -corr(Ỹ, w) is near 1 (ours: above 0.9)."
EPOCH = "Over the first epoch -corr(Ỹ, w) stays near 1 (mean over its steps; ours: above 0.9)."
END = "At the end of the first epoch -corr(Ỹ, w) is still above 0.9."
RISE = "When the layers' mean alignment has made half its rise, -corr(Ỹ, w) is above 0.9."


def units(parameters):
    """Fully connected networks on every data set, convolutional ones on one; one unit each and per seed."""
    p = parameters
    shared = {name: p[name] for name in ("epochs", "batch_size", "momentum", "weight_decay", "sample")}
    dense = {
        "network": "dense",
        "depth": p["depth"],
        "width": p["width"],
        "learning_rate": p["learning_rate"],
        "train_images": p["train_images"],
        "alignment_images": p["alignment_images"],
    }
    conditions = [shared | dense | {"dataset": dataset} for dataset in p["datasets"]]
    conditions += [
        shared
        | {
            "dataset": p["conv_dataset"],
            "network": network,
            "depth": int(network[-2:]),
            "width": p["conv_width"],
            "learning_rate": p["conv_rate"],
            "train_images": p["conv_images"],
            "alignment_images": 0,
        }
        for network in p["conv_networks"]
    ]
    made = [
        Unit(f"{c['network']}-{c['dataset']}-seed{seed}", compute, c | {"seed": seed})
        for seed in range(p["seeds"])
        for c in conditions
    ]
    names = ("dataset", "network", "depth", "width", "batch_size", "sample")
    for seed in range(p["initial_networks"]):
        for c in conditions:
            width = p["width"] if c["network"] == "dense" else p["initial_conv_width"]
            arguments = {name: c[name] for name in names} | {"width": width, "seed": seed}
            name = f"initial-{c['network']}-{c['dataset']}-seed{seed}"
            made.append(Unit(name, compute_initial, arguments))
    return made


def steps_to_look_at(per_epoch, epochs):
    """0, about ``POINTS`` steps per factor of ten, and the last of the first and of all epochs; ascending."""
    last = per_epoch * epochs
    grid = np.geomspace(1, last, max(2, round(POINTS * np.log10(last)) + 1)).round().astype(int)
    return sorted({0, per_epoch, last, *map(int, grid)})


def compute(
    *,
    dataset,
    network,
    depth,
    width,
    learning_rate,
    train_images,
    alignment_images,
    epochs,
    batch_size,
    momentum,
    weight_decay,
    sample,
    seed,
    device,
    report,
):
    """Train one network by SGD and look at w on ``sample`` training images along the way.

    ``train_images`` and ``sample`` 0: all. ``alignment_images`` 0: no alignments. w of a network with batch
    normalisation is taken in training mode, on batches of the training's size. Weights N(0, 2/fan_in).

    Columns step, epoch (a fraction), collinearity (-corr(Ỹ, w)), constant (what it would be if every example
    had the mean prediction), loss, accuracy (0 to 1; all on the sample), alignment (mean of A_l, Eq. 7, over
    the layers; NaN without alignments). Raises Diverged.
    """
    generator = torch_stream(seed, "fig06", "weights", network)
    if network == "dense":
        x, y = images(dataset, "train", train_images, seed, device)
        net = MLP(x.shape[1], width, depth, CLASSES, generator, device=device)
        step, outputs = step_of(net, x, y, momentum, weight_decay), net.logits
    else:
        data = load(dataset, "train", n=train_images or None, seed=seed)
        x, y, shape = data.x.to(device), data.y.to(device), data.x.shape[1:]
        kind = {"vgg19": lambda: VGG(19, shape, CLASSES, width=width, norm="batch")}
        net = kind.get(network, lambda: ResNet18(shape, CLASSES, width=width))()
        net = he_normal_(net, 1.0, generator).to(device, memory_format=torch.channels_last)
        optimiser = torch.optim.SGD(
            net.parameters(), lr=learning_rate, momentum=momentum, weight_decay=weight_decay
        )
        step, outputs = module_step(net, x, y, optimiser), lambda inputs: in_training(net, inputs, batch_size)

    order = torch.randperm(len(x), generator=torch_stream(seed, "fig06", "sample")).to(device)
    seen, few = order[: sample or None], order[:alignment_images]
    rows = []

    @torch.no_grad()
    def look(count):
        logits, labels = outputs(x[seen]), y[seen]
        constant = logits.softmax(1).mean(0, keepdim=True).log().expand_as(logits)
        rows.append(
            {
                "step": count,
                "epoch": count / per_epoch,
                "collinearity": collinearity(logits, labels),
                "constant": collinearity(constant, labels),
                "loss": float(torch.nn.functional.cross_entropy(logits, labels)),
                "accuracy": accuracy(lambda part: part, logits, labels),
                "alignment": np.nan
                if alignment_images == 0
                else float(np.nanmean(tangent_alignment(net.sequential(), x[few], y[few]))),
            }
        )

    per_epoch = -(-len(x) // batch_size)
    train(
        step,
        len(x),
        batch_size=batch_size,
        epochs=epochs,
        rate=learning_rate,
        generator=torch_stream(seed, "fig06", "order", network),
        device=device,
        at=steps_to_look_at(per_epoch, epochs),
        on=look,
        report=report,
    )
    return pd.DataFrame(rows)


@torch.no_grad()
def compute_initial(*, dataset, network, depth, width, batch_size, sample, seed, device, report):
    """w of one network before any training, which is the network that :func:`compute` begins with.

    Taken on ``sample`` training images (0: all), drawn by the seed; with batch normalisation in training
    mode, on batches of ``batch_size``. One row: initial (-corr(Ỹ, w)), constant (as of :func:`compute`).
    """
    generator = torch_stream(seed, "fig06", "weights", network)
    if network == "dense":
        x, y = images(dataset, "train", sample, seed, device)
        logits = MLP(x.shape[1], width, depth, CLASSES, generator, device=device).logits(x)
    else:
        data = load(dataset, "train", n=sample or None, seed=seed)
        x, y, shape = data.x.to(device), data.y.to(device), data.x.shape[1:]
        if network == "vgg19":
            net = VGG(19, shape, CLASSES, width=width, norm="batch")
        else:
            net = ResNet18(shape, CLASSES, width=width)
        net = he_normal_(net, 1.0, generator).to(device, memory_format=torch.channels_last)
        logits = in_training(net, x, batch_size)
    constant = logits.softmax(1).mean(0, keepdim=True).log().expand_as(logits)
    return pd.DataFrame([{"initial": collinearity(logits, y), "constant": collinearity(constant, y)}])


def in_training(net, x, batch_size):
    """Outputs of ``net`` as training sees them, batch by batch; its running means are left alone."""
    twin = copy.deepcopy(net).train()
    batches = [part.contiguous(memory_format=torch.channels_last) for part in x.split(batch_size)]
    return torch.cat([twin(part) for part in batches])


def collinearity(logits, y):
    """-corr(Ỹ, w) over all nk entries (Pearson's), a float; logits (n, k), y (n,)."""
    target, w = centred_labels(y, logits.shape[1]).double(), error_signal(logits.double(), y)
    target, w = target - target.mean(), w - w.mean()
    return float(-(target * w).sum() / (target.norm() * w.norm()))


def curves(table, network, dataset, column="collinearity"):
    """(seeds × steps) frame of one column for one network and data set; empty where there is none."""
    if "step" not in table:
        return pd.DataFrame()
    rows = table[(table["network"] == network) & (table["dataset"] == dataset) & table["step"].notna()]
    return rows.pivot(index="seed", columns="step", values=column).sort_index(axis=1)


def conditions(parameters):
    """[(network, data set)] that the parameters ask for."""
    p = parameters
    return [("dense", name) for name in p["datasets"]] + [(n, p["conv_dataset"]) for n in p["conv_networks"]]


def title(network, dataset):
    """How a condition is called in text."""
    return f"{NETWORKS[network]}, {NAMES.get(dataset, dataset)}"


def summary(table, network, dataset):
    """One row per seed: initial, epoch (mean over the first epoch's steps), end (of that epoch), lowest (in
    it), left (first step looked at below ``NEAR``; NaN: never), left_accuracy and left_loss there, and rise
    (-corr where the layers' mean alignment has made half of its rise to its largest; NaN without alignments).
    """
    frame = curves(table, network, dataset)
    if frame.empty:
        return pd.DataFrame()
    epochs, accuracies, losses, aligned = (
        curves(table, network, dataset, name) for name in ("epoch", "accuracy", "loss", "alignment")
    )
    rows = {}
    for seed, values in frame.iterrows():
        first = epochs.loc[seed] <= 1
        steps, inside = frame.columns[first].to_numpy(float), values[first].to_numpy()
        below = values[values < NEAR]
        left = below.index[0] if len(below) else None
        heights = aligned.loc[seed]
        rise = np.nan
        if heights.notna().all() and heights.max() > heights.iloc[0]:
            half = (heights.iloc[0] + heights.max()) / 2
            rise = values[heights.index[heights >= half][0]]
        rows[seed] = {
            "initial": values.iloc[0],
            "epoch": np.trapezoid(inside, steps) / steps[-1],
            "end": inside[-1],
            "lowest": inside.min(),
            "left": np.nan if left is None else float(left),
            "left_accuracy": np.nan if left is None else accuracies.loc[seed, left],
            "left_loss": np.nan if left is None else losses.loc[seed, left],
            "rise": rise,
        }
    return pd.DataFrame(rows).T


def claims(table, parameters):
    """Near 1 at initialisation and over the first epoch; two readings of ours, at its end and in the rise."""
    made = []
    said = {
        "epoch": (EPOCH, "Figure 6, Appendix B.5.1", False),
        "initial": (INITIAL, "Appendix B.5.1", False),
        "end": (END, "Appendix B.5.1; at this one step ours", True),
        "rise": (RISE, "Appendix B.4; the reading is ours", True),
    }
    for column, (statement, where, ours) in said.items():
        for network, dataset in conditions(parameters):
            if column == "rise" and network != "dense":
                continue
            values = summary(table, network, dataset)
            about = (f"{column}-{network}-{dataset}", f"{title(network, dataset)}: {statement}", where)
            known = values[column].dropna() if len(values) else []
            if len(known):
                claim = Claim.greater(*about, known, than=NEAR).within(-1.0, 1.0)
            else:
                claim = Claim.missing(*about, "nothing was measured", paper=1.0)
            made.append(claim.tagged(group=statement, ours=ours))
    return made


def finding(table, parameters):
    """Where it starts, and in which conditions its mean over the first epoch stays near 1."""
    said, starts = {True: [], False: []}, []
    for network, dataset in conditions(parameters):
        values = summary(table, network, dataset)
        if len(values):
            starts.append(values["initial"].mean())
            mean = values["epoch"].mean()
            said[mean > NEAR].append(f"{mean:.2f} ({title(network, dataset)})")
    if not starts:
        return "No network was trained to the end."
    words = {True: "stays near 1", False: "not"}
    parts = [f"{words[near]}: {', '.join(found)}" for near, found in said.items() if found]
    return (
        f"-corr(Ỹ, w) starts at {min(starts):.2f} to {max(starts):.2f}. Its mean over the first epoch "
        f"{'; '.join(parts)}.{_stand_in(parameters)}"
    )


FULL = 50000  # CIFAR-10's training images


def _stand_in(parameters):
    """What is smaller of the convolutional networks than in the paper."""
    p = parameters
    if not p["conv_networks"] or (p["conv_width"] == 64 and not p["conv_images"]):
        return ""
    steps = [(count or FULL) // p["batch_size"] for count in (p["conv_images"], FULL)]
    return f" VGG, ResNet: width {p['conv_width']} of 64, {steps[0]} of {steps[1]} steps an epoch."


def key_numbers(table, parameters):
    """The first-epoch means of the fully connected networks."""
    result = []
    for network, dataset in conditions(parameters)[:3]:
        values = summary(table, network, dataset)
        if len(values):
            what = f"mean over the first epoch, {title(network, dataset)}"
            result.append(KeyNumber(what, interval(values["epoch"], within=(-1, 1)), "≈ 1"))
    return result
