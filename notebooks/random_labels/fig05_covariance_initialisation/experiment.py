"""Filters drawn from a learned covariance in place of pre-training (Maennel et al. 2020, Figure 5, A.9)."""

from dataclasses import replace

import pandas as pd
import torch

from alignbook.claims import Claim, KeyNumber, interval
from alignbook.experiments import Unit
from alignbook.seeding import torch_stream
from alignbook.training.nets import SimpleCNN, he_normal_
from alignbook.training.train import accuracy, fit
from alignbook.training.transfer import layer_norms, rescale_

from ..downstream import area, fresh_head_, learning_curve, tasks

HEADLINE = "recovers"
SIDE = 32  # of CIFAR-10, which the paper has
# How a network starts downstream -> its name on the page, in the order of the figure's legend.
STARTS = {
    "scratch": "from scratch",
    "pretrained": "pre-trained",
    "unscaled": "pre-trained, no rescaling",
    "conv": "pre-trained convolution",
    "no bias": "pre-trained convolution, no bias",
    "covariance": "covariance",
}
MARGIN = 0.25  # of the gain, within which the effect counts as recovered; fixed before the first run
KINDS = {"real": "real labels", "random": "random labels"}
SOURCE = "Figure 5, Section 2.4"
RECOVERS = "Filters drawn from the learned covariance gain as much as the pre-trained filters themselves."
ALL = "Filters drawn from the learned covariance gain as much as the whole pre-trained network."
GAINS = "Pre-trained on random labels and rescaled, a network trains faster than from scratch."
FILTERS = "Pre-trained filters alone, without their biases, train faster than from scratch."
SCALE = "Without rescaling, pre-training gains more: part of its raw effect is the scale of the weights."


def units(parameters):
    """One unit per group of runs, whose filters together give the covariance."""
    names = "dataset labels filters units side upstream_images upstream_classes downstream_images classes"
    names += " epochs record batch_size learning_rate init_scale"
    common = {name: parameters[name] for name in names.split()}
    made = []
    for first in range(0, parameters["seeds"], parameters["group"]):
        runs = list(range(first, min(first + parameters["group"], parameters["seeds"])))
        made.append(Unit(f"runs{runs[0]}-{runs[-1]}", compute, common | {"runs": runs}))
    return made


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


def curves(table, labels, start):
    """(seeds × epochs) frame of training accuracies; empty where there are none."""
    if "start" not in table:
        return pd.DataFrame()
    rows = table[(table["labels"] == labels) & (table["start"] == start)]
    return rows.pivot(index="seed", columns="epoch", values="accuracy").sort_index(axis=1)


def areas(table, labels):
    """(seeds × starts) frame: mean accuracy over training (Appendix B, area under the curve)."""
    found = {}
    for start in STARTS:
        frame = curves(table, labels, start)
        if len(frame):
            found[start] = pd.Series(area(frame.columns, frame.to_numpy()), frame.index)
    return pd.DataFrame(found)


def claims(table, parameters):
    """Gains by area under the curve, within a seed; "as much" is an equivalence test.

    For that, the difference between two starts is divided by the mean gain of the one to be recovered, and
    its interval has to lie within ``MARGIN`` of zero. Nothing is judged where that gain is not above zero.
    Seeds of a group share a covariance, which the test says but does not count.
    """
    made = []
    shared = dependence(parameters)
    for kind in parameters["labels"]:
        found = areas(table, kind)

        def about(id, statement, kind=kind, source=SOURCE):
            return f"{id}-{kind}", f"{statement} {KINDS[kind].capitalize()}.", source

        greater = (
            ("gains", GAINS, "pretrained", "scratch"),
            ("filters", FILTERS, "no bias", "scratch"),
            ("scale", SCALE, "unscaled", "pretrained"),
        )
        equal = (("recovers", RECOVERS, "no bias"), ("all", ALL, "pretrained"))
        if found.empty:
            made += [
                Claim.missing(*about(id, said), "no run has finished").tagged(said)
                for id, said, *_ in (*equal, *greater)
            ]
            continue
        for id, said, whole in equal:
            gain = found[whole] - found["scratch"]
            share = (found["covariance"] - found[whole]) / abs(gain.mean())
            claim = Claim.equals(*about(id, f"{said} Difference as a share of the gain."), share, 0.0, MARGIN)
            if Claim.greater("gain", said, SOURCE, gain).outcome != "holds":
                claim = claim.not_judged(
                    "nothing to recover: that start gains nothing over training from scratch"
                )
            made.append(replace(claim, test=claim.test + (shared and f"; {shared}")).tagged(said))
        for id, said, one, other in greater:
            made.append(Claim.greater(*about(id, said), found[one] - found[other]).tagged(said))
    return made


def dependence(parameters):
    """What makes seeds of this figure depend on each other, in words; empty where each has a covariance."""
    if parameters["group"] == 1:
        return ""
    count = -(-parameters["seeds"] // parameters["group"])
    them = "one covariance" if count == 1 else f"{count} covariances"
    return f"all {parameters['seeds']} seeds share {them}, so that they are not quite independent"


def by_group(table, parameters):
    """(groups × kinds of labels) frame: mean gain of "covariance", points, in each group that shares one."""
    found = {}
    for kind in parameters["labels"]:
        gain = gains(table, kind)
        if len(gain):
            found[KINDS[kind]] = gain["covariance"].groupby(gain.index // parameters["group"]).mean()
    return pd.DataFrame(found)


def gains(table, labels):
    """(seeds × starts) frame of the gain over training from scratch in mean accuracy, points."""
    found = areas(table, labels)
    return found.drop(columns="scratch").sub(found["scratch"], axis=0).mul(100) if len(found) else found


def finding(table, parameters):
    """What filters drawn from the covariance gain, beside the pre-trained filters and the whole network."""
    said = []
    for kind in parameters["labels"]:
        gain = gains(table, kind)
        if len(gain):
            said.append(
                f"{interval(gain['covariance'], '{:+.1f}')} with {KINDS[kind]} (pre-trained filters "
                f"{gain['no bias'].mean():+.1f}, all layers {gain['pretrained'].mean():+.1f})"
            )
    if not said:
        return "No run has finished: there is nothing to compare."
    side, seeds = parameters["side"], parameters["seeds"]
    count = -(-seeds // parameters["group"])
    reduced = "Reduced: " if side < SIDE else ""
    return (
        f"Filters from the learned covariance gain, over scratch, {', '.join(said)} points. "
        f"{reduced}{side}×{side} pixels, {parameters['filters']} filters; {seeds} seeds, "
        f"{count} covariance{'s' * (count > 1)}."
    )


def key_numbers(table, parameters):
    """The gain of the covariance beside that of the pre-trained filters, for each kind of labels."""
    result = []
    for kind in parameters["labels"]:
        gain = gains(table, kind)
        if len(gain):
            pair = " / ".join(interval(gain[start], "{:+.1f}") for start in ("covariance", "no bias"))
            result.append(KeyNumber(f"gain, covariance / pre-trained filters, {KINDS[kind]} (points)", pair))
    return result
