"""VGG-16 pre-trained on random labels: when it helps, when it hurts (Maennel et al. 2020, Figure 1, A.5)."""

import pandas as pd

from alignbook.data import load
from alignbook.experiments import Unit
from alignbook.seeding import torch_stream
from alignbook.training.train import accuracy

from ..downstream import fresh_head_, shrunk, tasks
from ..vgg_settings import DOWNSTREAM_CLASSES, DOWNSTREAM_EPOCHS, SETTINGS
from ..vgg_transfer import first_epochs, network, pretrained


def units(parameters):
    """One unit per setting and seed."""
    names = "dataset side width upstream downstream test batch_size points stops".split()
    shared = {name: parameters[name] for name in names} | {"labels": ["real", "random"]}
    share = parameters["epoch_share"]
    made = []
    for seed in range(parameters["seeds"]):
        for name, setting in SETTINGS.items():
            own = {
                "init_scale": setting.init_scale * parameters["scale_factor"],
                "learning_rate": setting.learning_rate,
                "classes": setting.classes,
                "upstream_epochs": max(1, round(setting.epochs * share)),
                "epochs": max(1, round(DOWNSTREAM_EPOCHS * share)),
            }
            made.append(Unit(f"{name.replace(' ', '-')}-seed{seed}", compute, shared | own | {"seed": seed}))
    return made


def compute(
    *,
    dataset,
    side,
    width,
    labels,
    init_scale,
    learning_rate,
    classes,
    upstream,
    upstream_epochs,
    downstream,
    epochs,
    stops,
    test,
    batch_size,
    points,
    seed,
    device,
    report,
):
    """Pre-train on ``classes`` random labels, then train on each of ``labels``, and from scratch.

    From scratch means the weights that pre-training started from, with the same new head and the same order
    of images: the two differ by pre-training alone. Columns ``start`` ("upstream" for pre-training itself,
    "pretrained", "scratch"), ``labels``, ``epoch``, ``accuracy`` on all training images and ``test`` on
    held-out ones (real labels), both 0..1, over the first ``stops`` of ``epochs``: see
    :func:`.vgg_transfer.first_epochs`. Raises Diverged.
    """
    data = tasks(
        dataset, upstream=upstream, upstream_classes=classes, downstream=downstream,
        classes=DOWNSTREAM_CLASSES, side=side, seed=seed, device=device,
    )  # fmt: skip
    held = load(dataset, "test", n=test, seed=seed)
    test_x, test_y = shrunk(held.x, side).to(device), held.y.to(device)
    shape = data.x.shape[1:]
    made = {"width": width, "init_scale": init_scale, "seed": seed}
    training = {"batch_size": batch_size, "learning_rate": learning_rate}
    before, each = upstream * upstream_epochs, downstream * min(stops, epochs)
    share = before / (before + 2 * len(labels) * each)
    net = pretrained(
        data.upstream_x, data.upstream_y, classes, epochs=upstream_epochs, **made, **training,
        report=lambda done, text: report(done * share, f"pre-training, {text}"),
    )  # fmt: skip
    # Rescaling leaves the predictions almost as they are (A.4).
    known = accuracy(net, data.upstream_x, data.upstream_y)
    tables = [pd.DataFrame([{"start": "upstream", "epoch": upstream_epochs, "accuracy": known}])]
    weights = net.state_dict()
    runs = [(kind, start) for kind in labels for start in ("pretrained", "scratch")]
    for number, (kind, start) in enumerate(runs):
        net = network(shape, classes, name="upstream", **made).to(device)
        if start == "pretrained":
            net.load_state_dict(weights)
        outputs = data.classes[kind]
        fresh_head_(net, outputs, init_scale, torch_stream(seed, "vgg", "head", kind)).to(device)
        curve = first_epochs(
            net, data.x, data.y[kind], epochs=epochs, stops=stops, points=points, **training,
            generator=torch_stream(seed, "vgg", "downstream batches", kind),
            report=lambda done, text, number=number: report(
                share + (1 - share) * (number + done) / len(runs), text
            ),
            extra=(lambda net: {"test": accuracy(net, test_x, test_y)}) if kind == "real" else None,
        )  # fmt: skip
        tables.append(curve.assign(start=start, labels=kind))
    return pd.concat(tables, ignore_index=True)
