"""Filters drawn from a learned covariance in place of pre-training (Maennel et al. 2020, Figure 5, A.9)."""

import pandas as pd
import torch

from alignbook.seeding import torch_stream
from alignbook.training.nets import SimpleCNN, he_normal_
from alignbook.training.train import accuracy, fit
from alignbook.training.transfer import layer_norms, rescale_
from companion.jobs import Job

from ..shared.downstream import fresh_head_, learning_curve, tasks
from . import ell1
from .design import STARTS


def jobs(parameters):
    """One job per group of runs, whose filters together give the covariance; then the start by ℓ1 norms."""
    names = "dataset labels filters units side upstream_images upstream_classes downstream_images classes"
    names += " epochs record batch_size learning_rate init_scale"
    common = {name: parameters[name] for name in names.split()}
    made = []
    for first in range(0, parameters["seeds"], parameters["group"]):
        runs = list(range(first, min(first + parameters["group"], parameters["seeds"])))
        made.append(Job(f"runs{runs[0]}-{runs[-1]}", compute, common | {"runs": runs}))
    others = range(max(0, parameters["seeds"] - parameters["ell1_seeds"]), parameters["seeds"])
    return made + [Job(f"ell1-seed{seed}", ell1.compute, common | {"runs": [seed]}) for seed in others]


def compute(
    *,
    dataset,
    labels,
    filters,
    units,
    side,
    upstream_images,
    upstream_classes,
    downstream_images,
    classes,
    epochs,
    record,
    batch_size,
    learning_rate,
    init_scale,
    runs,
    device,
    report,
):
    """Pre-train on random labels; then learn each of ``labels`` from each of the six ``STARTS``; every run.

    runs : seeds. All starts of a seed have the same head, images and order of images; all whose dense layer
    is drawn anew have the same one. Columns ``seed``, ``labels``, ``start``, ``epoch``, ``accuracy`` on all
    training images, and ``upstream_accuracy`` after pre-training.
    """
    training = {"batch_size": batch_size, "learning_rate": learning_rate}
    cells = [(seed, kind, start) for seed in runs for kind in labels for start in STARTS]
    count = len(runs) + len(cells)

    def part(number):
        return lambda done, text: report((number + done) / count, text)

    def images(seed):
        return tasks(
            dataset, upstream=upstream_images, upstream_classes=upstream_classes,
            downstream=downstream_images, classes=classes, side=side, seed=seed, device=device,
        )  # fmt: skip

    def network(shape, seed, name):
        net = SimpleCNN(shape, [filters], units, upstream_classes)
        return he_normal_(net, init_scale, torch_stream(seed, "fig05", name)).to(device)

    sources, norms, known = {}, {}, {}
    for number, seed in enumerate(runs):
        split = images(seed)
        x, y = split.upstream_x, split.upstream_y
        sources[seed] = network(x.shape[1:], seed, "upstream")
        norms[seed] = layer_norms(sources[seed])
        fit(
            sources[seed], x, y, steps=epochs * (upstream_images // batch_size), report=part(number),
            generator=torch_stream(seed, "fig05", "upstream batches"), **training,
        )  # fmt: skip
        known[seed] = accuracy(sources[seed], x, y)
    learned = torch.cat([source.convs[0].weight.detach().flatten(1) for source in sources.values()])
    tables = []
    for number, (seed, kind, start) in enumerate(cells, start=len(runs)):
        if (kind, start) == (labels[0], "scratch"):
            split = images(seed)
        net = network(split.x.shape[1:], seed, "downstream")
        drawn = sampled(learned, filters, torch_stream(seed, "fig05", "filters"))
        start_(net, sources[seed], norms[seed], start, drawn)
        fresh_head_(net, split.classes[kind], init_scale, torch_stream(seed, "fig05", "head", kind))
        curve = learning_curve(
            net.to(device), split.x, split.y[kind], epochs=epochs, record=record, report=part(number),
            generator=torch_stream(seed, "fig05", "batches", kind), **training,
        )  # fmt: skip
        tables.append(curve.assign(seed=seed, labels=kind, start=start, upstream_accuracy=known[seed]))
    return pd.concat(tables, ignore_index=True)


@torch.no_grad()
def start_(net, source, norms, start, drawn):
    """Give ``net``, freshly drawn, what ``start`` takes from the trained ``source``; returns ``net`` (A.9).

    norms : those of ``source`` at its initialisation; every start but "unscaled" is scaled back to them, the
    convolution's weights alone where its biases are zero. drawn : filters of "covariance", (filters, d).
    ``source`` is left as it is.
    """
    if start == "scratch":
        return net
    conv, before = net.convs[0], norms[0]
    if start in ("pretrained", "unscaled"):
        net.load_state_dict(source.state_dict())
        return net if start == "unscaled" else rescale_(net, norms)
    weight = source.convs[0].weight
    if start == "covariance":
        weight = drawn.view_as(weight)
    bias = source.convs[0].bias if start == "conv" else torch.zeros_like(conv.bias)
    factor = before / float((weight.double().square().sum() + bias.double().square().sum()).sqrt())
    conv.weight.copy_(factor * weight)
    conv.bias.copy_(factor * bias)
    return net


def sampled(filters, count, generator):
    """(count, d) draws from N(0, Σ), Σ the covariance of ``filters`` (n, d) about their mean."""
    centred = (filters - filters.mean(0)).double()
    # Σ = C'C / n, so that random sums of the n centred filters over √n have it.
    draw = torch.randn(count, len(filters), dtype=torch.float64, generator=generator)
    return (draw.to(filters.device) @ centred / len(filters) ** 0.5).to(filters.dtype)
