"""Transferring more and more layers of networks pre-trained on random labels (Figures 6 and 9, A.10).

VGG-16 with no layer and with all convolutions transferred is experiments 1 and 2 of Figure 1: those units are
Figure 1's, stored there.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from alignbook.claims import DISAGREES, HOLDS, INCONCLUSIVE, Claim, KeyNumber
from alignbook.experiments import Unit
from alignbook.seeding import torch_stream
from alignbook.training.deep import VGG, ResNet18
from alignbook.training.nets import SimpleCNN, he_normal_
from alignbook.training.train import accuracy, fit
from alignbook.training.transfer import layer_norms, rescale_

from . import fig01_transfer as fig01
from .downstream import area, fresh_head_, tasks
from .vgg_transfer import DOWNSTREAM_CLASSES, DOWNSTREAM_EPOCHS, first_epochs

HEADLINE = "more-layers"
CNN_FILTERS, CNN_UNITS, CNN_CONVOLUTIONS = 16, 1024, 3  # A.10
VGG_LAYERS = 13
RESNET_STAGES = 4
SOURCE = {"random": "Figure 6", "real": "Figure 9, top"}


@dataclass(frozen=True)
class Setting:
    """A column of Figures 6 and 9 (A.10), as printed; ``classes``, ``images``, ``epochs``: upstream."""

    name: str
    init_scale: float
    learning_rate: float
    classes: int
    images: int
    epochs: int


COLUMNS = {
    "cnn": Setting("SimpleCNN", 0.518, 0.01, 25, 15_000, 40),
    "vgg": Setting("VGG-16", 0.526, 0.01, 5, 20_000, 120),
    "resnet": Setting("ResNet-18", 0.671, 0.01, 50, 25_000, 80),
}
DOWNSTREAM_IMAGES = 25_000  # caption of Figure 6


def units(parameters):
    """One unit per column and seed; of VGG-16 two, one of them Figure 1's."""
    made = []
    for seed in range(parameters["seeds"]):
        for column in ("cnn", "resnet"):
            made.append(Unit(f"{column}-seed{seed}", compute, _arguments(parameters, column, seed)))
        shared = figure_1(parameters)
        (whole,) = (unit for unit in fig01.units(shared) if unit.name == f"1-and-2-seed{seed}")
        made.append(whole)
        arguments = {"column": "vgg", "layers": parameters["vgg_layers"], "labels": parameters["vgg_labels"]}
        same = set(whole.arguments) - {"labels", "test"}
        arguments |= {name: whole.arguments[name] for name in sorted(same)}
        made.append(Unit(f"vgg-seed{seed}", compute, arguments))
    return made


def figure_1(parameters):
    """Figure 1's parameters, for its units of VGG-16."""
    names = "dataset side width scale_factor epoch_share batch_size points test seeds"
    shared = {name: parameters[name] for name in names.split()}
    return shared | {name: parameters[f"vgg_{name}"] for name in ("upstream", "downstream", "stops")}


def _arguments(parameters, column, seed):
    """Arguments of a SimpleCNN or a ResNet-18: images upstream keep the printed ratio to those downstream."""
    setting = COLUMNS[column]
    downstream = parameters[f"{column}_downstream"]
    return {name: parameters[name] for name in "dataset side width labels batch_size points".split()} | {
        "column": column,
        "layers": parameters[f"{column}_layers"],
        "init_scale": setting.init_scale * parameters[f"{column}_scale_factor"],
        "learning_rate": setting.learning_rate,
        "classes": setting.classes,
        "upstream": round(downstream * setting.images / DOWNSTREAM_IMAGES),
        "upstream_epochs": max(1, round(setting.epochs * parameters["epoch_share"])),
        "downstream": downstream,
        "epochs": max(1, round(DOWNSTREAM_EPOCHS * parameters["epoch_share"])),
        "stops": parameters["stops"],
        "seed": seed,
    }


def network(column, shape, classes, width):
    """The network of a column for images of ``shape`` (C, H, W); ``width`` is not SimpleCNN's (A.2, A.10)."""
    if column == "cnn":
        return SimpleCNN(shape, [CNN_FILTERS] * CNN_CONVOLUTIONS, CNN_UNITS, classes)
    if column == "vgg":
        return VGG(16, shape, classes, width=width)
    return ResNet18(shape, classes, width=width, norm="group", version=2)


def parts(net):
    """The layers of ``net`` that can be transferred, from the input on: modules in a list.

    Convolutions (and the dense layer of SimpleCNN, after them); of a ResNet-18 its first convolution, then
    its stages, the last with the normalisation after it.
    """
    if isinstance(net, ResNet18):
        return [[net.stem], *([stage] for stage in net.stages[:-1]), [net.stages[-1], net.norm]]
    if isinstance(net, SimpleCNN):
        return [*([conv] for conv in net.convs), [net.dense]]
    return [[conv] for conv in net.convs]


def transfer_(net, source, layers):
    """Give ``net`` the first ``layers`` of :func:`parts` of ``source``; returns ``net``."""
    for to, made in zip(parts(net)[:layers], parts(source)[:layers], strict=True):
        for one, other in zip(to, made, strict=True):
            one.load_state_dict(other.state_dict())
    return net


def compute(
    *,
    dataset,
    side,
    width,
    column,
    layers,
    labels,
    init_scale,
    learning_rate,
    classes,
    upstream,
    upstream_epochs,
    downstream,
    epochs,
    stops,
    batch_size,
    points,
    seed,
    device,
    report,
):
    """Pre-train on random labels; transfer each number of ``layers``; train on each of ``labels``.

    The other layers and the head are drawn anew, the same for every number. Layers are rescaled to their norm
    at initialisation (A.4), but not a ResNet's. The rate falls at thirds of ``epochs``; a run ends after
    ``stops`` of them. Columns ``column``, ``layers`` (−1: pre-training itself), ``labels``, ``epoch`` and
    ``accuracy`` on all training images (0..1), about ``points`` times a run. Raises Diverged.
    """
    data = tasks(
        dataset, upstream=upstream, upstream_classes=classes, downstream=downstream,
        classes=DOWNSTREAM_CLASSES, side=side, seed=seed, device=device,
    )  # fmt: skip
    shape = tuple(data.x.shape[1:])
    training = {"batch_size": batch_size, "learning_rate": learning_rate}

    def fresh(outputs, name):
        net = network(column, shape, outputs, width)
        return he_normal_(net, init_scale, torch_stream(seed, "figure 6", column, name)).to(device)

    source = fresh(classes, "upstream")
    norms = layer_norms(source)
    before = upstream * upstream_epochs
    each = downstream * min(stops, epochs)
    total = before + each * len(labels) * len(layers)
    fit(
        source, data.upstream_x, data.upstream_y, steps=upstream_epochs * (upstream // batch_size),
        generator=torch_stream(seed, "figure 6", column, "upstream batches"),
        report=lambda done, text: report(done * before / total, f"pre-training, {text}"), **training,
    )  # fmt: skip
    if column != "resnet":
        rescale_(source, norms)
    known = accuracy(source, data.upstream_x, data.upstream_y)
    tables = [pd.DataFrame([{"layers": -1, "epoch": upstream_epochs, "accuracy": known}])]
    runs = [(kind, count) for kind in labels for count in layers]
    for number, (kind, count) in enumerate(runs):
        net = transfer_(fresh(data.classes[kind], "downstream"), source, count)
        fresh_head_(net, data.classes[kind], init_scale, torch_stream(seed, "figure 6", "head", kind))
        start = (before + number * each) / total
        curve = first_epochs(
            net.to(device), data.x, data.y[kind], epochs=epochs, stops=stops, points=points, **training,
            generator=torch_stream(seed, "figure 6", column, "batches", kind),
            report=lambda done, text, start=start: report(start + done * each / total, text),
        )  # fmt: skip
        tables.append(curve.assign(layers=count, labels=kind))
    return pd.concat(tables, ignore_index=True).assign(column=column)


def curves(table, column, labels):
    """{layers: (seeds × epochs) frame of training accuracy} of one column; VGG-16 with Figure 1's units."""
    if "accuracy" not in table:
        return {}
    names = table["unit"].astype(str)
    own = table[names.str.startswith(f"{column}-seed") & (table["labels"] == labels)]
    own = own[["layers", "seed", "epoch", "accuracy"]] if "layers" in own else own.iloc[:0]
    if column == "vgg" and "start" in table:
        shared = table[names.str.startswith("1-and-2-seed") & (table["labels"] == labels)]
        counts = shared["start"].map({"scratch": 0, "pretrained": VGG_LAYERS})
        own = pd.concat([own, shared.assign(layers=counts)[["layers", "seed", "epoch", "accuracy"]]])
    return {
        int(count): part.pivot(index="seed", columns="epoch", values="accuracy")
        for count, part in own.groupby("layers")
    }


def depth(column):
    """How many layers there are to transfer."""
    return {"cnn": CNN_CONVOLUTIONS + 1, "vgg": VGG_LAYERS, "resnet": RESNET_STAGES + 1}[column]


def gains(table, column, labels):
    """(seeds × layers) frame: area between the learning curve and that from scratch, points of accuracy.

    The mean over training of the difference; columns are the numbers of layers, 0 left out.
    """
    found = curves(table, column, labels)
    if 0 not in found:
        return pd.DataFrame()
    means = {
        count: pd.Series(100 * area(frame.columns, frame.to_numpy()), index=frame.index)
        for count, frame in found.items()
    }
    return pd.DataFrame({count: mean - means[0] for count, mean in means.items() if count}).dropna()


def slopes(table, column, labels):
    """Per seed: points of area that transferring all layers adds, by a line through all areas."""
    frame = gains(table, column, labels)
    if frame.empty:
        return pd.Series(dtype=float)
    counts = np.array([0, *frame.columns]) / depth(column)
    values = np.column_stack([np.zeros(len(frame)), frame.to_numpy()])
    return pd.Series(np.polyfit(counts, values.T, 1)[0], index=frame.index)


def claims(table, parameters):
    """Areas grow with the layers, per column and kind of labels; with random labels all of it at once.

    The headline is that of the three random ones (Figure 6) which is furthest from holding. Written down
    before the first run of profile quick.
    """
    made = []
    group = {
        kind: f"The more layers are transferred, the faster the network learns {kind} labels."
        for kind in ("random", "real")
    }
    for labels, said in group.items():
        for column, setting in COLUMNS.items():
            id = f"{column}-{labels}"
            about = (id, f"{setting.name}: {said} (Points of area from no layer to all.)", SOURCE[labels])
            values = slopes(table, column, labels)
            if values.empty:
                claim = Claim.missing(*about, "not among the results")
            else:
                claim = Claim.greater(*about, values)
            made.append(claim.tagged(said))
    random = made[: len(COLUMNS)]
    about = {"id": HEADLINE, "statement": f"{group['random']} All three networks.", "source": "Figure 6"}
    if any(claim.measured is None for claim in random):
        return [Claim.missing(*about.values(), "not all three networks are among the results"), *made]
    order = [DISAGREES, INCONCLUSIVE, HOLDS]
    low = {claim.id: claim.interval[0] if claim.interval else -math.inf for claim in random}
    weakest = min(random, key=lambda claim: (order.index(claim.outcome), low[claim.id]))
    return [replace(weakest, **about, test=f"{weakest.id}: {weakest.test}", group=None), *made]


def finding(table, parameters):
    """In how many cases more layers help, and the line's rise of each network."""
    parts, rises = [], []
    for labels in ("random", "real"):
        means = {
            setting.name: values.mean()
            for column, setting in COLUMNS.items()
            if len(values := slopes(table, column, labels))
        }
        if means:
            rises += means.values()
            listed = ", ".join(f"{value:+.1f} ({name})" for name, value in means.items())
            parts.append(f"{listed} with {labels} labels")
    if not parts:
        return "No run is among the results: there is nothing to compare."
    helped = sum(value > 0 for value in rises)
    return (
        f"More layers speed up training in {helped} of {len(rises)} cases: from none to all, points of area "
        f"under the learning curve, {'; '.join(parts)}. Networks and images are reduced."
    )


def key_numbers(table, parameters):
    """Areas by number of layers, random labels."""
    made = []
    for column, setting in COLUMNS.items():
        frame = gains(table, column, "random")
        if not frame.empty:
            here = " / ".join(f"{value:+.1f}" for value in frame.mean())
            what = f"{setting.name}, {' / '.join(map(str, frame.columns))} layers (points of area)"
            made.append(KeyNumber(what, here, "rising"))
    return made


def memorised(table):
    """{column: training accuracies (0..1) at the end of pre-training} of columns with results."""
    if "accuracy" not in table:
        return {}
    names = table["unit"].astype(str)
    found = {}
    for column in COLUMNS:
        rows = table[names.str.startswith(f"{column}-seed")]
        rows = rows[rows["layers"] == -1] if "layers" in rows else rows.iloc[:0]
        if len(rows):
            found[column] = rows["accuracy"]
    return found
