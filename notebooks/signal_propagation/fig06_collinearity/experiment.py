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

from alignbook.data import load
from alignbook.kernels.mlp_sgd import MLP
from alignbook.metrics.tangent_alignment import tangent_alignment
from alignbook.seeding import torch_stream
from alignbook.training.deep import VGG, ResNet18
from alignbook.training.loop import module_step, train
from alignbook.training.nets import he_normal_
from companion.jobs import Job, arguments_of
from companion.studies.signal_propagation.shared.dense import (
    CLASSES,
    accuracy,
    centred_labels,
    error_signal,
    images,
    step_of,
)

POINTS = 12  # per factor of ten in the number of steps


def jobs(parameters):
    """Fully connected networks on every data set, convolutional ones on one; one job each and per seed."""
    p = parameters
    shared = arguments_of(p, "epochs batch_size momentum weight_decay sample")
    dense = arguments_of(p, "depth width learning_rate train_images alignment_images") | {"network": "dense"}
    others = {"width": "conv_width", "learning_rate": "conv_rate", "train_images": "conv_images"}
    conv = arguments_of(p, "", dataset="conv_dataset", **others) | {"alignment_images": 0}
    conditions = [shared | dense | {"dataset": dataset} for dataset in p["datasets"]]
    conditions += [shared | conv | {"network": n, "depth": int(n[-2:])} for n in p["conv_networks"]]
    made = [
        Job(f"{c['network']}-{c['dataset']}-seed{seed}", compute, c | {"seed": seed})
        for seed in range(p["seeds"])
        for c in conditions
    ]
    names = ("dataset", "network", "depth", "width", "batch_size", "sample")
    for seed in range(p["initial_networks"]):
        for c in conditions:
            width = p["width"] if c["network"] == "dense" else p["initial_conv_width"]
            arguments = {name: c[name] for name in names} | {"width": width, "seed": seed}
            name = f"initial-{c['network']}-{c['dataset']}-seed{seed}"
            made.append(Job(name, compute_initial, arguments))
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
