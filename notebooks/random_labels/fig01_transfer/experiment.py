"""VGG-16 pre-trained on random labels: when it helps, when it hurts (Maennel et al. 2020, Figure 1, A.5)."""

import contextlib

import pandas as pd

from alignbook.data import load
from alignbook.errors import Diverged
from alignbook.seeding import torch_stream
from alignbook.training.train import accuracy
from alignbook.training.transfer import layer_norms, rescale_
from companion.jobs import Job

from ..shared.downstream import fresh_head_, shrunk, tasks
from ..shared.side_by_side import first_epochs_of_all, fit_all_
from ..shared.vgg_settings import DOWNSTREAM_CLASSES, DOWNSTREAM_EPOCHS, SETTINGS
from ..shared.vgg_transfer import first_epochs, network, pretrained

ALONE = 6  # seeds that were run, each by itself, before networks could be trained side by side


def jobs(parameters):
    """One job per setting and seed; from seed 6 on of ``together`` seeds, where that is not 1."""
    names = "dataset side width upstream downstream test batch_size points stops".split()
    shared = {name: parameters[name] for name in names} | {"labels": ["real", "random"]}
    share = parameters["epoch_share"]
    count, together = parameters["seeds"], parameters["together"]
    alone = count if together == 1 else min(count, ALONE)
    groups = [[seed] for seed in range(alone)]
    groups += [list(range(first, min(first + together, count))) for first in range(alone, count, together)]
    made = []
    for seeds in groups:
        for name, setting in SETTINGS.items():
            own = {
                "init_scale": setting.init_scale * parameters["scale_factor"],
                "learning_rate": setting.learning_rate,
                "classes": setting.classes,
                "upstream_epochs": max(1, round(setting.epochs * share)),
                "epochs": max(1, round(DOWNSTREAM_EPOCHS * share)),
            }
            name, own = name.replace(" ", "-"), shared | own
            if seeds[-1] < alone:
                made.append(Job(f"{name}-seed{seeds[0]}", compute, own | {"seed": seeds[0]}))
            else:
                made.append(
                    Job(f"{name}-seeds{seeds[0]}-{seeds[-1]}", compute_together, own | {"seeds": seeds})
                )
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


def compute_together(*, seeds, device, report, **arguments):
    """What :func:`compute` does for each of ``seeds``, side by side; its columns, and ``seed``.

    Only rounding differs. Where one network diverges, each seed is run by itself, and those that diverge have
    no rows; Diverged where all do.
    """
    with contextlib.suppress(Diverged):
        return _together(seeds=seeds, device=device, report=report, **arguments)
    tables = []
    for number, seed in enumerate(seeds):
        with contextlib.suppress(Diverged):
            table = compute(
                **arguments, seed=seed, device=device,
                report=lambda done, text, number=number: report((number + done) / len(seeds), text),
            )  # fmt: skip
            tables.append(table.assign(seed=seed))
    if not tables:
        raise Diverged(0)
    return pd.concat(tables, ignore_index=True)


def _together(
    *, dataset, side, width, labels, init_scale, learning_rate, classes, upstream, upstream_epochs,
    downstream, epochs, stops, test, batch_size, points, seeds, device, report,
):  # fmt: skip
    """The table of :func:`compute_together`; raises Diverged where one network diverges."""
    sizes = {"upstream": upstream, "upstream_classes": classes, "downstream": downstream, "side": side}
    data = [tasks(dataset, classes=DOWNSTREAM_CLASSES, **sizes, seed=seed, device=device) for seed in seeds]
    held = [load(dataset, "test", n=test, seed=seed) for seed in seeds]
    held = [(shrunk(one.x, side).to(device), one.y.to(device)) for one in held]
    training = {"batch_size": batch_size, "learning_rate": learning_rate}

    def fresh(k):
        made = {"width": width, "init_scale": init_scale, "seed": seeds[k], "name": "upstream"}
        return network(data[k].x.shape[1:], classes, **made).to(device)

    before, each = upstream * upstream_epochs, 2 * downstream * min(stops, epochs)
    share = before / (before + each * len(labels))
    sources = [fresh(k) for k in range(len(seeds))]
    norms = [layer_norms(net) for net in sources]
    fit_all_(
        sources, [one.upstream_x for one in data], [one.upstream_y for one in data], **training,
        steps=upstream_epochs * (upstream // batch_size),
        generators=[torch_stream(seed, "vgg", "upstream batches") for seed in seeds],
        report=lambda done, text: report(done * share, f"pre-training, {text}"),
    )  # fmt: skip
    tables = []
    for seed, net, norm, one in zip(seeds, sources, norms, data, strict=True):
        known = accuracy(rescale_(net, norm), one.upstream_x, one.upstream_y)
        row = {"start": "upstream", "epoch": upstream_epochs, "accuracy": known, "seed": seed}
        tables.append(pd.DataFrame([row]))
    runs = [(k, start) for k in range(len(seeds)) for start in ("pretrained", "scratch")]
    for number, kind in enumerate(labels):
        nets = []
        for k, start in runs:
            net = fresh(k)
            if start == "pretrained":
                net.load_state_dict(sources[k].state_dict())
            stream = torch_stream(seeds[k], "vgg", "head", kind)
            nets.append(fresh_head_(net, data[k].classes[kind], init_scale, stream).to(device))
        curves = first_epochs_of_all(
            nets, [data[k].x for k, _ in runs], [data[k].y[kind] for k, _ in runs], epochs=epochs,
            stops=stops, points=points, **training,
            generators=[torch_stream(seeds[k], "vgg", "downstream batches", kind) for k, _ in runs],
            extras=[_on(*held[k]) if kind == "real" else None for k, _ in runs],
            report=lambda done, text, number=number: report(
                share + (1 - share) * (number + done) / len(labels), text
            ),
        )  # fmt: skip
        for (k, start), curve in zip(runs, curves, strict=True):
            tables.append(curve.assign(start=start, labels=kind, seed=seeds[k]))
    return pd.concat(tables, ignore_index=True)


def _on(x, y):
    """``extra`` of a learning curve: accuracy on the images ``x`` with labels ``y``."""
    return lambda net: {"test": accuracy(net, x, y)}
