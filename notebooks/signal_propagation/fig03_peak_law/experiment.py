"""Which layer's tangent kernel aligns most with the labels, over depth (Lou et al. 2022, Figures 3 and 8).

A job is one network: data set, depth, setting, seed. Its table has one row per layer.
Beside them stands, per data set, what the equilibrium hypothesis (Section 3.3) foretells for its own pairs of
images: both information losses of the infinitely wide network, without any training.
"""

import math

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional

from alignbook.data import load
from alignbook.kernels.mlp_sgd import MLP
from alignbook.kernels.products import float32_products
from alignbook.kernels.relu_correlation import relu_correlations
from alignbook.metrics.tangent_alignment import tangent_alignment
from alignbook.seeding import torch_stream
from alignbook.training import loop
from alignbook.training.fine_tune import crops_and_flips
from companion.jobs import Job, arguments_of
from companion.studies.signal_propagation.shared.dense import CLASSES, accuracy, images, step_of

from .design import CHOICES, OPEN, PAIR_DEPTHS, PAPER_TABLES, PREPARED, SETTINGS, asked

# Over the pairs. The hypothesis takes suprema; those of data grow with the images that are drawn.
OVER_PAIRS = {"mean": np.mean, "supremum": np.max, "99 %": lambda losses: np.quantile(losses, 0.99)}
# Networks of profile paper take days: what is stored of them joins what profile quick shows.
JOINED = {"quick": "paper"}
_VARIATIONS = ("low rate", "large batch")  # Figure 8


def schedule(dataset, depth):
    """(learning rate, epochs) of the tables at ``depth``.

    A depth that they lack has the values of the nearest one (the smaller of two), a data set that they
    lack those of Fashion-MNIST.
    """
    table = PAPER_TABLES.get(dataset, PAPER_TABLES["fashion_mnist"])
    nearest = min(table, key=lambda known: (abs(known - depth), known))
    return table[nearest][:2]


def jobs(parameters):
    """One network per data set, depth and seed; Figure 8's settings on one data set; the open choices."""
    p = parameters
    wanted = [(dataset, depth, "tables") for dataset in p["datasets"] for depth in p["depths"]]
    groups = [(p["variation_dataset"], p["variation_depths"], _VARIATIONS)]
    groups += [(d, p["choice_depths"], asked(p["choices"], d)) for d in p["choice_datasets"]]
    for dataset, depths, settings in groups:
        wanted += [(dataset, depth, setting) for setting in settings for depth in depths]
        base = [(dataset, depth, "tables") for depth in depths]
        wanted += [condition for condition in base if condition not in wanted]
    made = [_job(p, *condition, seed) for condition in wanted for seed in range(p["seeds"])]
    shared = {"images": p["pair_images"], "depths": list(PAIR_DEPTHS), "seed": 0}
    if p["pair_images"]:
        made += [Job(f"pairs-{d}", compute_pairs, shared | {"dataset": d}) for d in p["datasets"]]
    return made


def _job(p, dataset, depth, setting, seed):
    learning_rate, epochs = schedule(dataset, depth)
    rate_factor, batch_factor = SETTINGS.get(setting, (1.0, 1))
    arguments = {
        **arguments_of(p, "momentum weight_decay train_images alignment_images"),
        **{"dataset": dataset, "depth": depth, "setting": setting, "seed": seed},
        "width": p["cifar10_width" if dataset == "cifar10" else "width"],
        "learning_rate": learning_rate * rate_factor,
        "batch_size": p["batch_size"] * batch_factor,
        "epochs": max(1, round(epochs * p["epochs_factor"])),
        **CHOICES.get(setting, {}),
    }
    name = f"{dataset}-depth{depth:03d}-{setting.replace(' ', '-')}-seed{seed}"
    if setting in PREPARED:
        return Job(name, compute_prepared, arguments | {"augment": PREPARED[setting]})
    if setting in OPEN:
        return Job(name, compute_open, arguments | dict(zip(("biases", "goal"), OPEN[setting], strict=True)))
    return Job(name, compute, arguments)


def compute(
    *,
    dataset,
    depth,
    setting,
    width,
    learning_rate,
    batch_size,
    epochs,
    momentum,
    weight_decay,
    train_images,
    alignment_images,
    seed,
    device,
    report,
):
    """Train one network and measure A_l (Eq. 7) before and after.

    ``setting`` only names the condition. ``train_images`` 0 means all; a smaller set is drawn by the
    seed. A_l is taken on ``alignment_images`` of the training images. The constant rate, the order of
    the images anew in every epoch and the incomplete last batch are ours: the paper does not say.

    Returns one row per layer: layer (1 to depth), alignment, alignment_half (on the first half of the
    same images), alignment_init (before training); and per network test_accuracy, train_accuracy
    (0 to 1), train_loss (mean over the last epoch).
    Raises Diverged when the loss of an epoch is not finite.
    """
    x, y = images(dataset, "train", train_images, seed, device)
    mlp = MLP(x.shape[1], width, depth, CLASSES, torch_stream(seed, "fig03", "weights", depth), device=device)
    plain, mean = step_of(mlp, x, y, momentum, weight_decay), torch.zeros((), device=device)

    def step(index, rate):
        loss = plain(index, rate)
        mean.add_(loss, alpha=len(index) / len(x))  # in single precision, as it was stored from the first
        return loss

    table = _trained(
        mlp,
        step,
        (x, y),
        images(dataset, "test", 0, seed, device),
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        alignment_images=alignment_images,
        seed=seed,
        report=report,
        at=[(epochs - 1) * math.ceil(len(x) / batch_size)],
        on=lambda count: mean.zero_(),  # the last epoch begins
    )
    return table.assign(train_loss=mean.item())


def compute_prepared(
    *,
    dataset,
    depth,
    setting,
    width,
    learning_rate,
    batch_size,
    epochs,
    momentum,
    weight_decay,
    train_images,
    alignment_images,
    augment,
    seed,
    device,
    report,
):
    """As :func:`compute`, on images standardised by channel; ``augment``: with crops and flips, too.

    Mean and standard deviation are those of the training images. Crops are of 4 pixels of padding; train
    accuracy and A_l are taken on the images as they are, the mean loss on those that were trained on.
    """
    train = load(dataset, "train", n=train_images or None, seed=seed)
    test = load(dataset, "test")
    scale = {"dim": (0, 2, 3), "keepdim": True}
    mean, deviation = train.x.mean(**scale), train.x.std(**scale)
    x, y = ((train.x - mean) / deviation).to(device), train.y.to(device)
    x_test, y_test = ((test.x - mean) / deviation).to(device), test.y.to(device)
    flat = x.flatten(1)
    weights, moves = (torch_stream(seed, "fig03", purpose, depth) for purpose in ("weights", "crops"))
    mlp = MLP(flat.shape[1], width, depth, CLASSES, weights, device=device)

    def step(index, rate):
        batch = crops_and_flips(x[index], moves).flatten(1) if augment else flat[index]
        return mlp.step(batch, y[index], rate, momentum, weight_decay)

    return _trained(
        mlp,
        step,
        (flat, y),
        (x_test.flatten(1), y_test),
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        alignment_images=alignment_images,
        seed=seed,
        report=report,
    )


def compute_open(
    *,
    dataset,
    depth,
    setting,
    width,
    learning_rate,
    batch_size,
    epochs,
    momentum,
    weight_decay,
    train_images,
    alignment_images,
    biases,
    goal,
    seed,
    device,
    report,
):
    """As :func:`compute`, with ``biases`` in every layer, or until the mean loss of an epoch is ``goal``.

    Biases begin at 0, so that the first outputs are those of the network without; ``goal`` 0: all epochs.
    """
    x, y = images(dataset, "train", train_images, seed, device)
    net = MLP(x.shape[1], width, depth, CLASSES, torch_stream(seed, "fig03", "weights", depth), device=device)
    if biases:
        net = WithBiases(net)
        options = {"lr": learning_rate, "momentum": momentum, "weight_decay": weight_decay}
        step = loop.module_step(net.module, x, y, torch.optim.SGD(net.module.parameters(), **options))
    else:
        step = step_of(net, x, y, momentum, weight_decay)
    return _trained(
        net,
        step,
        (x, y),
        images(dataset, "test", 0, seed, device),
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        alignment_images=alignment_images,
        seed=seed,
        report=report,
        until=lambda now: now.loss <= goal,
    )


class WithBiases:
    """The network of ``mlp`` with a bias in every layer, 0 at first, behind those of its names used here."""

    def __init__(self, mlp):
        self.weights, self.module = mlp.weights, mlp.sequential()
        for layer in self.module:
            if isinstance(layer, nn.Linear):
                layer.bias = nn.Parameter(layer.weight.new_zeros(layer.out_features))

    def sequential(self):
        return self.module

    @torch.no_grad()
    def logits(self, inputs):
        return self.module(inputs)


def compute_pairs(*, dataset, images, depths, seed, device, report):
    """Both information losses (Section 3.3) of the infinitely wide network on the data's own pairs of images.

    images : training images, drawn by the seed, all of whose pairs enter; depths : list of int.
    The inputs are the pixels in [-1, 1] that the networks see, of which only the cosines matter.

    One row per depth L, layer l and statistic (``OVER_PAIRS``): forward, of |I^f_l - 1/2| = (1 - c_l)/2, and
    backward, of I^b_l = Π_{k=l}^{L-1} g'(c_k) (Appendix A.3). The supremum of the backward loss is that of
    the two images most alike, which the set E_ε of Equation 10 is there to leave out.
    """
    x = load(dataset, "train", n=images, seed=seed).x.flatten(1).double()
    x = functional.normalize(x, dim=1)
    left, right = torch.triu_indices(len(x), len(x), 1)
    return information_losses((1 - x @ x.T)[left, right].clamp(0, 2).numpy(), depths)


def information_losses(distances, depths):
    """The table of :func:`compute_pairs` from 1 - c_1 of the pairs, (pairs,) float64."""
    u, slope = relu_correlations(distances, max(depths))
    rows = []
    for depth in depths:
        product = np.zeros(len(distances))  # log of I^b_l, from the last layer down
        for layer in range(depth, 0, -1):
            if layer < depth:
                product += slope[layer - 1]
            losses = {"forward": u[layer - 1] / 2, "backward": np.exp(product)}
            for statistic, over in OVER_PAIRS.items():
                row = {"statistic": statistic, "depth": depth, "layer": layer}
                rows.append(row | {name: over(values) for name, values in losses.items()})
    return pd.DataFrame(rows)


def _trained(
    mlp, step, train, test, *, epochs, batch_size, learning_rate, alignment_images, seed, report, **calls
):
    """The table of :func:`compute` for ``mlp``, trained by ``step`` on ``train``; both are (x, y).

    calls : ``at`` and ``on`` of the loop.
    """
    (x, y), depth = train, len(mlp.weights)
    sample = torch.randperm(len(x), generator=torch_stream(seed, "fig03", "alignment"))[:alignment_images]
    sample = sample.to(x.device)
    before = tangent_alignment(mlp.sequential(), x[sample], y[sample])
    with float32_products():
        trained = loop.train(
            step,
            len(x),
            batch_size=batch_size,
            epochs=epochs,
            rate=learning_rate,
            generator=torch_stream(seed, "fig03", "order", depth),
            device=x.device,
            report=report,
            **calls,
        )
    net, half = mlp.sequential(), sample[: max(2, len(sample) // 2)]
    return pd.DataFrame(
        {
            "layer": np.arange(1, depth + 1),
            "alignment": tangent_alignment(net, x[sample], y[sample]),
            "alignment_half": tangent_alignment(net, x[half], y[half]),
            "alignment_init": before,
            "test_accuracy": accuracy(mlp.logits, *test),
            "train_accuracy": accuracy(mlp.logits, x, y),
            "train_loss": trained.loss,
        }
    )
