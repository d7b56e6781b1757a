"""Filters drawn from a learned covariance in place of pre-training (Maennel et al. 2020, Figure 5, A.9)."""

import pandas as pd
import torch

from alignbook.seeding import torch_stream
from alignbook.training.nets import SimpleCNN, he_normal_
from alignbook.training.train import accuracy, fit
from alignbook.training.transfer import layer_norms, layers_of, rescale_
from companion.jobs import Job

from ..shared.downstream import fresh_head_, learning_curve, tasks
from .design import STARTS

CLASSES = 10  # random classes of either task (A.9)


def jobs(parameters):
    """One job per group of runs, whose filters together give the covariance."""
    shared = {name: value for name, value in parameters.items() if name not in ("seeds", "group")}
    groups = []
    for first in range(0, parameters["seeds"], parameters["group"]):
        runs = list(range(first, min(first + parameters["group"], parameters["seeds"])))
        groups.append(Job(f"runs{runs[0]}-{runs[-1]}", compute, shared | {"runs": runs}))
    return groups


def compute(
    *, dataset, labels, filters, units, side, images, upstream_epochs, epochs, record, batch_size,
    learning_rate, runs, device, report,
):  # fmt: skip
    """Pre-train on random labels until they are learned; then learn ``labels`` from each of ``STARTS``.

    images : of either task; runs : seeds. All starts of a seed have the same head, images and order of
    images; all whose dense layer is drawn anew have the same one. Columns ``seed``, ``labels``, ``start``,
    ``epoch``, ``accuracy`` on all training images, and ``fitted``, the share of its random labels that
    pre-training has learned.
    """
    training = {"batch_size": batch_size, "learning_rate": learning_rate}
    cells = [(seed, kind, start) for seed in runs for kind in labels for start in STARTS]
    count = len(runs) + len(cells)

    def part(number):
        return lambda done, text: report((number + done) / count, text)

    def images_of(seed):
        return tasks(
            dataset, upstream=images, upstream_classes=CLASSES, downstream=images, classes=CLASSES,
            side=side, seed=seed, device=device,
        )  # fmt: skip

    def network(split, seed, name):
        net = SimpleCNN(split.x.shape[1:], [filters], units, CLASSES)
        return he_normal_(net, 1.0, torch_stream(seed, "fig05", name)).to(device)

    sources, norms, fitted = {}, {}, {}
    for number, seed in enumerate(runs):
        split = images_of(seed)
        sources[seed] = network(split, seed, "upstream")
        norms[seed] = layer_norms(sources[seed]), ell1_norms(sources[seed])
        fit(
            sources[seed], split.upstream_x, split.upstream_y, steps=upstream_epochs * (images // batch_size),
            generator=torch_stream(seed, "fig05", "upstream batches"), report=part(number), **training,
        )  # fmt: skip
        fitted[seed] = accuracy(sources[seed], split.upstream_x, split.upstream_y)
    learned = torch.cat([source.convs[0].weight.detach().flatten(1) for source in sources.values()])
    tables = []
    for number, (seed, kind, start) in enumerate(cells, start=len(runs)):
        if (kind, start) == (labels[0], "scratch"):
            split = images_of(seed)
        net = network(split, seed, "downstream")
        drawn = sampled(learned, filters, torch_stream(seed, "fig05", "filters"))
        start_(net, sources[seed], *norms[seed], start, drawn)
        fresh_head_(net, split.classes[kind], 1.0, torch_stream(seed, "fig05", "head", kind))
        curve = learning_curve(
            net.to(device), split.x, split.y[kind], epochs=epochs, record=record, report=part(number),
            generator=torch_stream(seed, "fig05", "batches", kind), **training,
        )  # fmt: skip
        tables.append(curve.assign(seed=seed, labels=kind, start=start, fitted=fitted[seed]))
    return pd.concat(tables, ignore_index=True)


@torch.no_grad()
def start_(net, source, ell2, ell1, start, drawn):
    """Give ``net``, freshly drawn, what ``start`` takes from the trained ``source``; returns ``net`` (A.9).

    ell2, ell1 : norms of the layers of ``source`` at its initialisation. Every start but "unscaled" is scaled
    back to one of them, the convolution's weights alone where its biases are zero. drawn : filters of
    "covariance", (filters, d). ``source`` is left as it is.
    """
    if start == "scratch":
        return net
    if start in ("pretrained", "unscaled", "ell1"):
        net.load_state_dict(source.state_dict())
        if start == "pretrained":
            rescale_(net, ell2)
        elif start == "ell1":
            rescale_ell1_(net, ell1)
        return net
    conv = net.convs[0]
    weight = drawn.view_as(conv.weight) if start == "covariance" else source.convs[0].weight
    bias = source.convs[0].bias if start == "conv" else torch.zeros_like(conv.bias)
    factor = ell2[0] / float((weight.double().square().sum() + bias.double().square().sum()).sqrt())
    conv.weight.copy_(factor * weight)
    conv.bias.copy_(factor * bias)
    return net


def ell1_norms(net):
    """ℓ1 norm of all parameters, weights and biases together, of each layer; floats."""
    return [
        sum(parameter.detach().double().abs().sum().item() for parameter in layer.parameters())
        for layer in layers_of(net)
    ]


def rescale_ell1_(net, norms):
    """Multiply each layer's parameters by one number so that its ℓ1 norm is the one in ``norms``."""
    for layer, before, after in zip(layers_of(net), norms, ell1_norms(net), strict=True):
        for parameter in layer.parameters():
            parameter.mul_(before / after)
    return net


def sampled(filters, count, generator):
    """(count, d) draws from N(0, Σ), Σ the covariance of ``filters`` (n, d) about their mean."""
    centred = (filters - filters.mean(0)).double()
    # Σ = C'C / n, so that random sums of the n centred filters over √n have it.
    draw = torch.randn(count, len(filters), dtype=torch.float64, generator=generator)
    return (draw.to(filters.device) @ centred / len(filters) ** 0.5).to(filters.dtype)
