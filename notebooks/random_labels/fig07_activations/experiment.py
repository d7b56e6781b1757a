"""Neurons that fall silent when the task changes (Maennel et al. 2020, Figures 7, 10, 11 and 24, A.11, F)."""

import pandas as pd

from alignbook.seeding import torch_stream
from alignbook.training.nets import SimpleCNN, he_normal_
from alignbook.training.train import fit
from alignbook.training.transfer import layer_norms, rescale_
from companion.jobs import Job

from ..shared.activations import Looks, histograms, moments
from ..shared.downstream import fresh_head_, tasks
from ..shared.vgg_settings import DOWNSTREAM_CLASSES, DOWNSTREAM_EPOCHS, SETTINGS
from ..shared.vgg_transfer import network, pretrained
from .design import CASES

CNN_CLASSES = 10  # A.6, A.8: random labels of the small networks


def jobs(parameters):
    """VGG-16 in both cases, and the small networks of Figure 24, one job each per seed.

    With ``control`` each has another beside it, ``scratch-…``, that meets the second task first.
    """
    shared = {name: parameters[name] for name in "dataset test points".split()}
    vgg = shared | {name: parameters[name] for name in "side width upstream downstream batch_size".split()}
    share = parameters["epoch_share"]
    made = []
    for seed in range(parameters["seeds"]):
        for case, name in CASES.items():
            setting = SETTINGS[name]
            arguments = vgg | {
                "case": case,
                "labels": parameters["labels"],
                "init_scale": setting.init_scale * parameters["scale_factor"],
                "learning_rate": setting.learning_rate,
                "classes": setting.classes,
                "upstream_epochs": max(1, round(setting.epochs * share)),
                "epochs": max(1, round(DOWNSTREAM_EPOCHS * share)),
                "seed": seed,
            }
            made.append(Job(f"{case}-seed{seed}", compute, arguments))
            if parameters["control"]:
                alone = {name: value for name, value in arguments.items() if name != "upstream_epochs"}
                made.append(Job(f"scratch-{case}-seed{seed}", compute_scratch, alone))
    names = "side images epochs filters units learning_rate init_scale batch_size".split()
    small = shared | {name: parameters[f"cnn_{name}"] for name in names}
    for seed in range(parameters["seeds"]):
        for count in parameters["cnn_convolutions"]:
            arguments = small | {"convolutions": count, "seed": seed}
            made.append(Job(f"cnn{count}-seed{seed}", compute_small, arguments))
            if parameters["control"]:
                made.append(Job(f"scratch-cnn{count}-seed{seed}", compute_small_scratch, arguments))
    return made


def compute(
    *,
    dataset,
    case,
    labels,
    side,
    width,
    upstream,
    downstream,
    classes,
    upstream_epochs,
    epochs,
    batch_size,
    init_scale,
    learning_rate,
    test,
    points,
    seed,
    device,
    report,
):
    """VGG-16 pre-trained on random labels, rescaled, fine-tuned on each of ``labels``: activations.

    Rows with ``of`` "curve": ``labels`` ("upstream", "real", "random"), ``step`` of that task, ``layer``,
    ``activation``, ``dead`` (:func:`.activations.summary`) and training ``accuracy``, 0..1.
    Rows with ``of`` "neurons" or "examples": ``stage`` ("initialisation", "pre-trained" or the labels of
    fine-tuning), ``layer``, ``bin``, ``share`` (:func:`.activations.histograms`). Held-out images: ``test``.
    ``case`` only names the values of the other arguments. Raises Diverged.
    """
    data = tasks(
        dataset, upstream=upstream, upstream_classes=classes, downstream=downstream,
        classes=DOWNSTREAM_CLASSES, side=side, test=test, seed=seed, device=device,
    )  # fmt: skip
    made = {"width": width, "init_scale": init_scale, "seed": seed}
    training = {"batch_size": batch_size, "learning_rate": learning_rate}
    parts = 1 + len(labels)
    steps = upstream_epochs * (upstream // batch_size)
    net = network(data.x.shape[1:], classes, name="upstream", **made).to(device)
    found = [histograms(net, data.test_x).assign(stage="initialisation")]
    looks = Looks(data.test_x)
    net = pretrained(
        data.upstream_x, data.upstream_y, classes, epochs=upstream_epochs, **made, **training,
        at=moments(steps, points), on=looks.on("upstream", data.upstream_x, data.upstream_y),
        report=lambda done, text: report(done / parts, f"pre-training, {text}"),
    )  # fmt: skip
    found.append(histograms(net, data.test_x).assign(stage="pre-trained"))
    weights = net.state_dict()
    for number, kind in enumerate(labels, start=1):
        net = network(data.x.shape[1:], classes, name="upstream", **made).to(device)
        net.load_state_dict(weights)
        fresh_head_(net, data.classes[kind], init_scale, torch_stream(seed, "vgg", "head", kind)).to(device)
        steps = epochs * (downstream // batch_size)
        fit(
            net, data.x, data.y[kind], steps=steps, **training,
            generator=torch_stream(seed, "vgg", "downstream batches", kind),
            at=moments(steps, points), on=looks.on(kind, data.x, data.y[kind]),
            report=lambda done, text, number=number: report((number + done) / parts, text),
        )  # fmt: skip
        found.append(histograms(net, data.test_x).assign(stage=kind))
    return pd.concat([looks.table(), *found], ignore_index=True)


def compute_small(
    *,
    dataset,
    convolutions,
    side,
    images,
    epochs,
    filters,
    units,
    learning_rate,
    init_scale,
    batch_size,
    test,
    points,
    seed,
    device,
    report,
):
    """A simple network, ``epochs`` on random labels and as many on those of other images (Figure 24).

    Rows as of :func:`compute` with ``of`` "curve"; ``labels`` are "upstream", then "random".
    """
    data = tasks(
        dataset, upstream=images, upstream_classes=CNN_CLASSES, downstream=images, classes=CNN_CLASSES,
        side=side, test=test, seed=seed, device=device,
    )  # fmt: skip
    net = SimpleCNN(data.x.shape[1:], [filters] * convolutions, units, CNN_CLASSES)
    net = he_normal_(net, init_scale, torch_stream(seed, "fig07", "network", convolutions)).to(device)
    norms, looks = layer_norms(net), Looks(data.test_x)
    steps = epochs * (images // batch_size)
    for number, (kind, x, y) in enumerate(
        (("upstream", data.upstream_x, data.upstream_y), ("random", data.x, data.y["random"]))
    ):
        fit(
            net, x, y, steps=steps, batch_size=batch_size, learning_rate=learning_rate,
            generator=torch_stream(seed, "fig07", "batches", kind),
            at=moments(steps, points), on=looks.on(kind, x, y),
            report=lambda done, text, number=number: report((number + done) / 2, text),
        )  # fmt: skip
        rescale_(net, norms)
        fresh_head_(net, CNN_CLASSES, init_scale, torch_stream(seed, "fig07", "head")).to(device)
    return looks.table()


def compute_scratch(
    *,
    dataset,
    case,
    labels,
    side,
    width,
    upstream,
    downstream,
    classes,
    epochs,
    batch_size,
    init_scale,
    learning_rate,
    test,
    points,
    seed,
    device,
    report,
):
    """What activations do on the second task without a first one: the control of :func:`compute`.

    VGG-16 with the weights that pre-training starts from, and with the head, the images, their order and the
    looks of fine-tuning on each of ``labels``. Rows as there with ``of`` "curve". Raises Diverged.
    """
    data = tasks(
        dataset, upstream=upstream, upstream_classes=classes, downstream=downstream,
        classes=DOWNSTREAM_CLASSES, side=side, test=test, seed=seed, device=device,
    )  # fmt: skip
    looks, steps = Looks(data.test_x), epochs * (downstream // batch_size)
    for number, kind in enumerate(labels):
        net = network(
            data.x.shape[1:], classes, width=width, init_scale=init_scale, seed=seed, name="upstream"
        )
        fresh_head_(net, data.classes[kind], init_scale, torch_stream(seed, "vgg", "head", kind)).to(device)
        fit(
            net, data.x, data.y[kind], steps=steps, batch_size=batch_size, learning_rate=learning_rate,
            generator=torch_stream(seed, "vgg", "downstream batches", kind),
            at=moments(steps, points), on=looks.on(kind, data.x, data.y[kind]),
            report=lambda done, text, number=number: report((number + done) / len(labels), text),
        )  # fmt: skip
    return looks.table()


def compute_small_scratch(
    *,
    dataset,
    convolutions,
    side,
    images,
    epochs,
    filters,
    units,
    learning_rate,
    init_scale,
    batch_size,
    test,
    points,
    seed,
    device,
    report,
):
    """The second task of :func:`compute_small` alone, from the first one's initial weights: its control.

    The head, the images, their order and the looks are those of its second task; rows as there.
    """
    data = tasks(
        dataset, upstream=images, upstream_classes=CNN_CLASSES, downstream=images, classes=CNN_CLASSES,
        side=side, test=test, seed=seed, device=device,
    )  # fmt: skip
    net = SimpleCNN(data.x.shape[1:], [filters] * convolutions, units, CNN_CLASSES)
    he_normal_(net, init_scale, torch_stream(seed, "fig07", "network", convolutions))
    fresh_head_(net, CNN_CLASSES, init_scale, torch_stream(seed, "fig07", "head")).to(device)
    looks, steps = Looks(data.test_x), epochs * (images // batch_size)
    fit(
        net, data.x, data.y["random"], steps=steps, batch_size=batch_size, learning_rate=learning_rate,
        generator=torch_stream(seed, "fig07", "batches", "random"),
        at=moments(steps, points), on=looks.on("random", data.x, data.y["random"]), report=report,
    )  # fmt: skip
    return looks.table()
