"""Tables 1 to 7 of Maennel et al. 2020: filters computed from the data's covariances (Section 2.5, E.3)."""

from dataclasses import replace

import numpy as np
import pandas as pd

from alignbook import data
from alignbook.seeding import torch_stream
from alignbook.training.initialise import covariance_filters_, eigenvector_filters, sampled_filters
from alignbook.training.nets import SimpleCNN, he_normal_
from alignbook.training.train import accuracy, fit
from alignbook.training.transfer import copy_convolutions_, layer_norms, rescale_
from companion.jobs import Job

from .design import PRETRAINING, TABLE_7, VARIATIONS

FILTERS, UNITS = 16, 512  # E.3: three convolutions of 16 filters, a dense layer of 512 units

# τ₁ … τ₁₆. Figure 23 draws f1 and f3 and prints no number. The text says that f1 downweights the
# largest eigenvalue, f3 does so less, and the values lie between 1 and 4; Figure 4 rises, then falls.
CURVES = {
    "f1": [1.0, 2.0, 3.0, *np.linspace(4, 1, 13).tolist()],
    "f2": [1.0] * 16,
    "f3": [3.0, *np.linspace(4, 1, 15).tolist()],
}

# initialisation -> (how filters are made, curve, first eigenvector of each layer counted from 0)
COVARIANCE = {
    "f1": (eigenvector_filters, "f1", (0, 0, 0)),
    "f2": (eigenvector_filters, "f2", (0, 0, 0)),
    "f3": (eigenvector_filters, "f3", (0, 0, 0)),
    "sampled": (sampled_filters, "f2", (0, 0, 0)),
    "smallest": (eigenvector_filters, "f2", (-16, -16, -16)),
    "shifted": (eigenvector_filters, "f2", (3, 9, 9)),  # e4 … e19, e10 … e25
}


def standard(*, seed, iterations, device, report, **protocol):
    """The column {}: He's initialisation everywhere. Arguments and table: see :func:`jobs`."""
    images = _images(seed, protocol, device)
    return _downstream(lambda net: net, "standard", 0, images, seed, iterations, protocol, report)


def from_covariance(
    *,
    initialisation,
    layers,
    filter_scale,
    centred,
    patch_stride,
    seed,
    iterations,
    device,
    report,
    **protocol,
):
    """Tables 1 to 6: the first ``layers`` convolutions computed from the training images."""
    images = _images(seed, protocol, device)
    make, curve, first = COVARIANCE[initialisation]

    def prepare(net):
        return covariance_filters_(
            net,
            images["x"],
            layers,
            make=make,
            tau=CURVES[curve],
            first=first,
            filter_scale=filter_scale,
            centred=centred,
            stride=patch_stride,
            generator=torch_stream(seed, "tab01", "filters"),
        )

    return _downstream(prepare, initialisation, layers, images, seed, iterations, protocol, report)


def shifted_counted(
    *,
    first_number,
    layers,
    filter_scale,
    centred,
    patch_stride,
    seed,
    iterations,
    device,
    report,
    **protocol,
):
    """Table 6 with e4 … e19, e10 … e25 counted from ``first_number`` (from 1: :func:`from_covariance`)."""
    images = _images(seed, protocol, device)

    def prepare(net):
        return covariance_filters_(
            net,
            images["x"],
            layers,
            make=eigenvector_filters,
            tau=CURVES["f2"],
            first=tuple(number - first_number for number in (4, 10, 10)),
            filter_scale=filter_scale,
            centred=centred,
            stride=patch_stride,
            generator=torch_stream(seed, "tab01", "filters"),
        )

    return _downstream(prepare, "shifted", layers, images, seed, iterations, protocol, report)


def pretrained(*, layers, pretrain_images, pretrain_epochs, seed, iterations, device, report, **protocol):
    """Table 7: convolutions trained on other images with random labels; one table for all ``layers``."""
    images = _images(seed, protocol, device, pretrain_images)
    x = images["pretrain_x"]
    y = data.random_labels(len(x), images["classes"], torch_stream(seed, "tab01", "random labels"))
    source = _network(images, seed, "pretrain", protocol).to(device)
    norms = layer_norms(source)
    fit(
        source,
        x,
        y.to(device),
        steps=pretrain_epochs * (len(x) // protocol["batch_size"]),
        generator=torch_stream(seed, "tab01", "pretrain batches"),
        report=lambda done, text: report(done / 2, f"pre-training, {text}"),
        **_training(protocol),
    )
    rescale_(source, norms)
    tables = []
    for place, count in enumerate(layers):
        tables.append(
            _downstream(
                lambda net, count=count: copy_convolutions_(net, source, count),
                "pretrained",
                count,
                images,
                seed,
                iterations,
                protocol,
                lambda done, text, place=place: report(0.5 + 0.5 * (place + done) / len(layers), text),
            )
        )
    return pd.concat(tables, ignore_index=True)


def pretrained_otherwise(
    *,
    layers,
    pretrain_images,
    pretrain_epochs,
    pretrain_rate,
    rescaled,
    seed,
    iterations,
    device,
    report,
    **protocol,
):
    """Table 7 as in :func:`pretrained`, with pre-training at a rate of its own, ``pretrain_rate``.

    ``rescaled`` lists what is handed over from the one pre-trained network: its layers scaled back to their
    norms at the start (True), as they are (False), or both. Two columns beside those of :func:`jobs`:
    rescaled, and random_labels, the share of the random labels that pre-training fits, in 0..1.
    """
    images = _images(seed, protocol, device, pretrain_images)
    x = images["pretrain_x"]
    y = data.random_labels(len(x), images["classes"], torch_stream(seed, "tab01", "random labels")).to(device)
    source = _network(images, seed, "pretrain", protocol).to(device)
    norms = layer_norms(source)
    fit(
        source,
        x,
        y,
        steps=pretrain_epochs * (len(x) // protocol["batch_size"]),
        generator=torch_stream(seed, "tab01", "pretrain batches"),
        report=lambda done, text: report(done / 2, f"pre-training, {text}"),
        **(_training(protocol) | {"learning_rate": pretrain_rate}),
    )
    fitted = accuracy(source, x, y, precision=protocol["precision"])
    tables, total = [], len(rescaled) * len(layers)
    for scaled_back in sorted(rescaled):  # first as they are: scaling changes the network in place
        if scaled_back:
            rescale_(source, norms)
        for count in layers:
            before = 0.5 + 0.5 * len(tables) / total
            table = _downstream(
                lambda net, count=count: copy_convolutions_(net, source, count),
                "pretrained",
                count,
                images,
                seed,
                iterations,
                protocol,
                lambda done, text, before=before: report(before + 0.5 * done / total, text),
            )
            tables.append(table.assign(rescaled=scaled_back, random_labels=fitted))
    return pd.concat(tables, ignore_index=True)


def _images(seed, protocol, device, pretrain_images=0):
    """Training, test and pre-training images; the first do not depend on how many the last are."""
    train, test = (data.load(protocol["dataset"], split) for split in ("train", "test"))
    sizes = [protocol["train_images"], pretrain_images]
    chosen, others = data.disjoint_splits(len(train.x), sizes, torch_stream(seed, "tab01", "split"))
    (held_out,) = data.disjoint_splits(
        len(test.x), [protocol["test_images"]], torch_stream(seed, "tab01", "test split")
    )
    return {
        "x": train.x[chosen].to(device),
        "y": train.y[chosen].to(device),
        "test_x": test.x[held_out].to(device),
        "test_y": test.y[held_out].to(device),
        "pretrain_x": train.x[others].to(device),
        "classes": len(train.classes),
    }


def _network(images, seed, name, protocol):
    """The network of E.3 with He's initialisation from the stream ``name``, on the CPU."""
    channels, height, width = images["x"].shape[1:]
    # Without padding, three convolutions take six pixels from what the dense layer sees.
    lost = {"same": 0, "valid": 6}[protocol["padding"]]
    shape, pool = (channels, height - lost, width - lost), (3, 2, protocol["pool"])
    net = SimpleCNN(shape, [FILTERS] * 3, UNITS, images["classes"], pool=pool)
    if lost:
        for conv in net.convs:
            conv.padding = (0, 0)
    return he_normal_(net, protocol["init_scale"], torch_stream(seed, "tab01", name))


def _training(protocol):
    return {key: protocol[key] for key in ("batch_size", "learning_rate", "schedule", "precision")}


def _downstream(prepare, initialisation, layers, images, seed, iterations, protocol, report):
    """Train on real labels once per iteration count; accuracies on all training and test images."""
    start = prepare(_network(images, seed, "network", protocol).to(images["x"].device)).state_dict()
    start = {name: value.clone() for name, value in start.items()}
    rows = []
    total, before = sum(iterations), 0
    for steps in iterations:
        net = _network(images, seed, "network", protocol).to(images["x"].device)
        net.load_state_dict(start)
        fit(
            net,
            images["x"],
            images["y"],
            steps=steps,
            generator=torch_stream(seed, "tab01", "batches"),
            report=lambda done, text, before=before, steps=steps: report(
                (before + done * steps) / total, text
            ),
            **_training(protocol),
        )
        before += steps
        row = {"initialisation": initialisation, "layers": layers, "iterations": steps}
        for part, x, y in (("train", "x", "y"), ("test", "test_x", "test_y")):
            row[part] = accuracy(net, images[x], images[y], precision=protocol["precision"])
        rows.append(row)
    return pd.DataFrame(rows)


def jobs(parameters):
    """One job per initialisation, layers and seed; for ``pretrained`` all layers in one.

    Parameters: dataset, initialisations, layers, iterations, train_images, test_images,
    pretrain_images, pretrain_epochs, pretrain_rate, learning_rate, batch_size, schedule, init_scale,
    filter_scale, centred, patch_stride, first_number, padding, pool, precision, variation_seeds,
    pretraining, seeds.
    Each table has the columns initialisation, layers, iterations, train and test (accuracies in 0..1).
    """
    cells = [("standard", 0)]
    for initialisation in parameters["initialisations"]:
        if initialisation == "pretrained":
            cells.append((initialisation, parameters["layers"]))
        else:
            cells += [(initialisation, layers) for layers in parameters["layers"]]
    made = []
    for seed in range(parameters["seeds"]):
        made += [_job(*cell, seed, parameters) for cell in cells]
        if seed < parameters["variation_seeds"]:
            made += _varied(seed, parameters)
    made += [_pretrained_otherwise(name, parameters) for name in parameters["pretraining"] if name != "plain"]
    return made


def _pretrained_otherwise(name, parameters):
    """Table 7 with three layers, pre-trained as ``PRETRAINING`` says of ``name``, at one seed.

    ``name`` with "-column" is the column {} under the same change. Products are in float32, unlike elsewhere:
    many processors have no others.
    """
    way = name.removesuffix("-column")
    change, rescaled = PRETRAINING[way]
    values = parameters | {"pretrain_rate": parameters["learning_rate"], "precision": "float32"} | change
    prefix = f"{TABLE_7}{way}__"
    if way != name:
        return _job("standard", 0, 0, values, prefix)
    return _otherwise(_job("pretrained", [3], 0, values, prefix), values["pretrain_rate"], rescaled)


def _otherwise(job, rate, rescaled):
    """The pre-trained ``job`` with a rate of its own and so handed over: :func:`pretrained_otherwise`."""
    arguments = job.arguments | {"pretrain_rate": rate, "rescaled": rescaled}
    return replace(job, compute=pretrained_otherwise, arguments=arguments)


def _varied(seed, parameters):
    made = []
    for change, cells, counts in VARIATIONS:
        (key, value), *_ = change.items()
        if parameters[key] == value:
            continue
        values = parameters | change | {"iterations": parameters["iterations"][:counts]}
        for initialisation, layers in cells:
            layers = [layers] if initialisation == "pretrained" else layers
            made.append(_job(initialisation, layers, seed, values, f"{key}-{value}__"))
    return made


def _job(initialisation, layers, seed, values, prefix=""):
    common = ["dataset", "iterations", "train_images", "test_images", "learning_rate", "batch_size"]
    common += ["schedule", "init_scale", "padding", "pool", "precision"]
    arguments = {key: values[key] for key in common} | {"seed": seed}
    name = f"{prefix}{initialisation}"
    if initialisation == "standard":
        return Job(f"{name}-seed{seed}", standard, arguments)
    if initialisation == "pretrained":
        own = {key: values[key] for key in ("pretrain_images", "pretrain_epochs")}
        job = Job(f"{name}-seed{seed}", pretrained, arguments | own | {"layers": layers})
        rate = values["pretrain_rate"]
        return job if rate == values["learning_rate"] else _otherwise(job, rate, [True])
    own = {key: values[key] for key in ("filter_scale", "centred", "patch_stride")}
    arguments |= own | {"layers": layers}
    if initialisation == "shifted" and values["first_number"] != 1:
        arguments["first_number"] = values["first_number"]
        return Job(f"{name}-{layers}-seed{seed}", shifted_counted, arguments)
    arguments["initialisation"] = initialisation
    return Job(f"{name}-{layers}-seed{seed}", from_covariance, arguments)
