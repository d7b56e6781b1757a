"""Transferring more and more layers of networks pre-trained on random labels (Figures 6 and 9, A.10)."""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pandas as pd

from alignbook.claims import CONTRADICTED, HOLDS, UNDECIDED, Claim, KeyNumber
from alignbook.experiments import Unit
from alignbook.seeding import torch_stream
from alignbook.training.deep import VGG, ResNet18
from alignbook.training.nets import SimpleCNN, he_normal_
from alignbook.training.train import accuracy, fit
from alignbook.training.transfer import layer_norms, rescale_

from ..downstream import area, fresh_head_, tasks
from ..vgg_settings import DOWNSTREAM_CLASSES, DOWNSTREAM_EPOCHS
from ..vgg_transfer import first_epochs

HEADLINE = "more-layers"
WEAKEST = "(Points; of the steps with the worst verdict, the one whose interval reaches lowest.)"
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
    """One unit per column and seed: whatever is compared within a seed comes from one pre-trained network."""
    return [
        Unit(f"{column}-seed{seed}", compute, _arguments(parameters, column, seed))
        for seed in range(parameters["seeds"])
        for column in COLUMNS
    ]


def _arguments(parameters, column, seed):
    """Arguments of a unit: images upstream keep the printed ratio to those downstream."""
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
        "stops": parameters["vgg_stops" if column == "vgg" else "stops"],
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
    """{layers: (seeds × epochs) frame of training accuracy} of one column."""
    if "accuracy" not in table:
        return {}
    own = table[(table["column"] == column) & (table["labels"] == labels)]
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


def steps(table, column, labels):
    """(seeds × steps) frame: points of area that each further number of layers adds, e.g. ``"0 to 4"``."""
    frame = gains(table, column, labels)
    if frame.empty:
        return pd.DataFrame()
    whole = pd.concat([pd.Series(0.0, frame.index, name=0), frame], axis=1)
    added = whole.diff(axis=1).iloc[:, 1:]
    return added.set_axis([f"{a} to {b}" for a, b in pairwise(whole.columns)], axis=1)


def claims(table, parameters):
    """Areas grow with the layers, per column and kind of labels; with random labels all of it at once.

    The headline is that of the three random ones (Figure 6) which is furthest from holding. Written down
    before the first run of profile quick, but for the steps: a line may rise over a number of layers that
    sets the network back. Each step is tested like a line; the claim is the one furthest from holding.
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
    made += [_every_step(table, column, labels) for labels in group for column in COLUMNS]
    about = {"id": HEADLINE, "statement": f"{group['random']} All three networks.", "source": "Figure 6"}
    if any(claim.measured is None for claim in random):
        return [Claim.missing(*about.values(), "not all three networks are among the results"), *made]
    weakest = _weakest(random)
    return [replace(weakest, **about, test=f"{weakest.id}: {weakest.test}", group=None), *made]


def _weakest(claims):
    """The claim furthest from holding: by outcome, then by the lower end of its interval."""
    order = [CONTRADICTED, UNDECIDED, HOLDS]
    low = {claim.id: claim.interval[0] if claim.interval else -math.inf for claim in claims}
    return min(claims, key=lambda claim: (order.index(claim.outcome), low[claim.id]))


def _every_step(table, column, labels):
    """Each further number of layers adds to the area: the step furthest from it."""
    said = f"Each step to more layers speeds up learning {labels} labels further."
    about = (f"steps-{column}-{labels}", f"{COLUMNS[column].name}: {said} {WEAKEST}")
    frame = steps(table, column, labels)
    if frame.empty:
        return Claim.missing(*about, SOURCE[labels], "not among the results").tagged(said)
    weakest = _weakest([Claim.greater(name, about[1], SOURCE[labels], frame[name]) for name in frame])
    test = f"of {len(frame.columns)} steps {weakest.id} layers: {weakest.test}"
    claim = replace(weakest, id=about[0], test=test).tagged(said)
    return claim if len(frame.columns) > 1 else claim.not_judged("one step only: what the line tests")


def finding(table, parameters):
    """The line's rise of each network, how many are decided, and how many steps go down."""
    said, rises, added = [], [], []
    for labels in ("random", "real"):
        found = {column: slopes(table, column, labels) for column in COLUMNS}
        found = {column: values for column, values in found.items() if len(values)}
        if found:
            rises += [Claim.greater("", "", "", values).outcome for values in found.values()]
            added += [value for column in found for value in steps(table, column, labels).mean()]
            listed = (f"{values.mean():+.1f} {COLUMNS[column].name}" for column, values in found.items())
            said.append(f"{', '.join(listed)} ({labels} labels)")
    if not said:
        return "No run is among the results: there is nothing to compare."
    down = sum(value < 0 for value in added)
    return (
        "Transferring all layers adds area under the learning curve (points, by a line): "
        f"{'; '.join(said)}: {rises.count(HOLDS)} of {len(rises)} decided as rising. "
        f"{down} of {len(added)} single steps go down. Data and networks are reduced."
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
    before = table[table["layers"] == -1]
    return {column: rows["accuracy"] for column in COLUMNS if len(rows := before[before["column"] == column])}
