"""Transferring more and more layers of networks pre-trained on random labels (Figures 6 and 9, A.10)."""

import contextlib

import pandas as pd

from alignbook.errors import Diverged
from alignbook.seeding import torch_stream
from alignbook.training.deep import VGG, ResNet18
from alignbook.training.nets import SimpleCNN, he_normal_
from alignbook.training.train import accuracy, fit
from alignbook.training.transfer import layer_norms, rescale_
from companion.jobs import Job

from ..shared.downstream import fresh_head_, tasks
from ..shared.layers import transfer_
from ..shared.side_by_side import first_epochs_of_all
from ..shared.vgg_settings import DOWNSTREAM_CLASSES, DOWNSTREAM_EPOCHS
from ..shared.vgg_transfer import first_epochs
from .design import CNN_CONVOLUTIONS, CNN_FILTERS, CNN_UNITS, COLUMNS, DOWNSTREAM_IMAGES, depth

ALONE = 3  # seeds that were run before networks could be trained side by side


def jobs(parameters):
    """One job per column and seed: whatever is compared within a seed comes from one pre-trained network."""
    made = []
    for seed in range(parameters["seeds"]):
        for column in COLUMNS:
            together = parameters["vgg_together"] and column == "vgg" and seed >= ALONE
            name = f"{column}-together-seed{seed}" if together else f"{column}-seed{seed}"
            run = compute_together if together else compute
            made.append(Job(name, run, _arguments(parameters, column, seed)))
        if parameters["resnet_scale"]:
            given = _arguments(parameters, "resnet", seed)
            del given["layers"]
            made.append(Job(f"scale-seed{seed}", scale_alone, given))
    return made


def _arguments(parameters, column, seed):
    """Arguments of a job: images upstream keep the printed ratio to those downstream."""
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


def compute_together(*, report, **arguments):
    """What :func:`compute` does, with the networks of one kind of labels side by side; its columns.

    Only rounding differs. Where one network diverges, they are run one after the other.
    """
    with contextlib.suppress(Diverged):
        return _together(report=report, **arguments)
    return compute(report=report, **arguments)


def _together(
    *, dataset, side, width, column, layers, labels, init_scale, learning_rate, classes, upstream,
    upstream_epochs, downstream, epochs, stops, batch_size, points, seed, device, report,
):  # fmt: skip
    """The table of :func:`compute_together`; raises Diverged where one network diverges."""
    sizes = {"upstream": upstream, "upstream_classes": classes, "downstream": downstream, "side": side}
    data = tasks(dataset, classes=DOWNSTREAM_CLASSES, **sizes, seed=seed, device=device)
    training = {"batch_size": batch_size, "learning_rate": learning_rate}

    def fresh(outputs, name):
        net = network(column, tuple(data.x.shape[1:]), outputs, width)
        return he_normal_(net, init_scale, torch_stream(seed, "figure 6", column, name)).to(device)

    before, each = upstream * upstream_epochs, downstream * min(stops, epochs) * len(layers)
    share = before / (before + each * len(labels))
    source = fresh(classes, "upstream")
    norms = layer_norms(source)
    fit(
        source, data.upstream_x, data.upstream_y, steps=upstream_epochs * (upstream // batch_size),
        generator=torch_stream(seed, "figure 6", column, "upstream batches"),
        report=lambda done, text: report(done * share, f"pre-training, {text}"), **training,
    )  # fmt: skip
    if column != "resnet":
        rescale_(source, norms)
    known = accuracy(source, data.upstream_x, data.upstream_y)
    tables = [pd.DataFrame([{"layers": -1, "epoch": upstream_epochs, "accuracy": known}])]
    for number, kind in enumerate(labels):
        nets = [transfer_(fresh(data.classes[kind], "downstream"), source, count) for count in layers]
        for net in nets:
            stream = torch_stream(seed, "figure 6", "head", kind)
            fresh_head_(net, data.classes[kind], init_scale, stream).to(device)
        curves = first_epochs_of_all(
            nets, [data.x] * len(nets), [data.y[kind]] * len(nets), epochs=epochs, stops=stops, points=points,
            generators=[torch_stream(seed, "figure 6", column, "batches", kind) for _ in nets],
            extras=[None] * len(nets), **training,
            report=lambda done, text, number=number: report(
                share + (1 - share) * (number + done) / len(labels), text
            ),
        )  # fmt: skip
        for count, curve in zip(layers, curves, strict=True):
            tables.append(curve.assign(layers=count, labels=kind))
    return pd.concat(tables, ignore_index=True).assign(column=column)


def scale_alone(*, column, labels, init_scale, learning_rate, classes, seed, device, report, **given):
    """What the size of pre-trained weights does, and what their directions do, to a network of ``column``.

    Data, pre-training, batches and what is drawn anew are those of :func:`compute`, whose table has the
    networks from scratch and with all layers pre-trained. Here, ``column`` says which, are ``larger``: drawn
    anew, each layer with the norm that pre-training gave it; ``rescaled``: all layers pre-trained, each with
    its norm at initialisation. The head's norm is that of a new head. Raises Diverged.
    """
    data = tasks(
        given["dataset"], upstream=given["upstream"], upstream_classes=classes,
        downstream=given["downstream"], classes=DOWNSTREAM_CLASSES, side=given["side"], seed=seed,
        device=device,
    )  # fmt: skip
    training = {"batch_size": given["batch_size"], "learning_rate": learning_rate}

    def fresh(outputs, name):
        net = network(column, tuple(data.x.shape[1:]), outputs, given["width"])
        return he_normal_(net, init_scale, torch_stream(seed, "figure 6", column, name)).to(device)

    source = fresh(classes, "upstream")
    norms = {"rescaled": layer_norms(source)}
    fit(
        source, data.upstream_x, data.upstream_y,
        steps=given["upstream_epochs"] * (given["upstream"] // given["batch_size"]),
        generator=torch_stream(seed, "figure 6", column, "upstream batches"),
        report=lambda done, text: report(0.3 * done, f"pre-training, {text}"), **training,
    )  # fmt: skip
    norms["larger"] = layer_norms(source)
    rescale_(source, norms["rescaled"])
    tables = []
    runs = [(kind, which) for kind in labels for which in norms]
    for number, (kind, which) in enumerate(runs):
        net = fresh(data.classes[kind], "downstream")
        if which == "larger":
            rescale_(net, norms["larger"])
        else:
            transfer_(net, source, depth(column))
        fresh_head_(net, data.classes[kind], init_scale, torch_stream(seed, "figure 6", "head", kind))
        curve = first_epochs(
            net.to(device), data.x, data.y[kind], epochs=given["epochs"], stops=given["stops"],
            points=given["points"], generator=torch_stream(seed, "figure 6", column, "batches", kind),
            report=lambda done, text, n=number: report(0.3 + 0.7 * (n + done) / len(runs), text), **training,
        )  # fmt: skip
        tables.append(curve.assign(column=which, labels=kind))
    grown = [after / before for before, after in zip(norms["rescaled"], norms["larger"], strict=True)]
    mean = sum(grown[:-1]) / len(grown[:-1])  # of all but the head
    return pd.concat(tables, ignore_index=True).assign(layers=depth(column), grown=mean)
