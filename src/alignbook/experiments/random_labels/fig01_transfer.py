"""VGG-16 pre-trained on random labels: when it helps, when it hurts (Maennel et al. 2020, Figure 1, A.5)."""

import math
from dataclasses import replace

import pandas as pd

from alignbook.claims import DISAGREES, HOLDS, INCONCLUSIVE, Claim, KeyNumber, interval
from alignbook.data import load
from alignbook.experiments import Unit
from alignbook.seeding import torch_stream
from alignbook.training.train import accuracy

from .downstream import area, fresh_head_, learning_curve, shrunk, tasks
from .vgg_transfer import DOWNSTREAM_CLASSES, DOWNSTREAM_EPOCHS, SETTINGS, network, pretrained

HEADLINE = "signs"
# Experiment of Figure 1 -> (its setting, downstream labels, sign of what pre-training does).
EXPERIMENTS = {
    1: ("1 and 2", "real", 1),
    2: ("1 and 2", "random", 1),
    3: ("3 and 4", "real", -1),
    4: ("3 and 4", "random", -1),
}
GRID_SEED = 1000  # the seeds of the map are not those of the figure
SOURCE = "Figure 1, A.5"


def units(parameters):
    """One unit per setting and seed, and per cell and seed of the map of signs."""
    made = []
    for seed in range(parameters["seeds"]):
        for name, setting in SETTINGS.items():
            arguments = _arguments(parameters, setting, setting.init_scale, setting.classes, seed)
            made.append(Unit(f"{name.replace(' ', '-')}-seed{seed}", compute, arguments))
    first = SETTINGS["1 and 2"]
    for seed in range(GRID_SEED, GRID_SEED + parameters["grid_seeds"]):
        for scale in parameters["grid_scales"]:
            for classes in parameters["grid_classes"]:
                arguments = _arguments(parameters, first, scale, classes, seed) | {"labels": ["random"]}
                made.append(Unit(f"grid-scale{scale:g}-classes{classes}-seed{seed}", compute, arguments))
    return made


def _arguments(parameters, setting, scale, classes, seed):
    """Arguments of one unit: the setting with another printed scale and number of classes upstream."""
    names = "dataset side width upstream downstream test batch_size points".split()
    share = parameters["epoch_share"]
    return {name: parameters[name] for name in names} | {
        "labels": ["real", "random"],
        "printed_scale": scale,
        "init_scale": scale * parameters["scale_factor"],
        "learning_rate": setting.learning_rate,
        "classes": classes,
        "upstream_epochs": max(1, round(setting.epochs * share)),
        "epochs": max(1, round(DOWNSTREAM_EPOCHS * share)),
        "seed": seed,
    }


def compute(
    *,
    dataset,
    side,
    width,
    labels,
    printed_scale,
    init_scale,
    learning_rate,
    classes,
    upstream,
    upstream_epochs,
    downstream,
    epochs,
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
    held-out ones (real labels), both 0..1: before training and after about ``points`` evenly spaced epochs.
    ``printed_scale`` only names ``init_scale``. Raises Diverged.
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
    share = upstream * upstream_epochs / (upstream * upstream_epochs + 2 * len(labels) * downstream * epochs)
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
        curve = learning_curve(
            net, data.x, data.y[kind],
            epochs=epochs, record=range(0, epochs, max(1, epochs // points)), **training,
            generator=torch_stream(seed, "vgg", "downstream batches", kind),
            report=lambda done, text, number=number: report(
                share + (1 - share) * (number + done) / len(runs), text
            ),
            extra=(lambda net: {"test": accuracy(net, test_x, test_y)}) if kind == "real" else None,
        )  # fmt: skip
        tables.append(curve.assign(start=start, labels=kind))
    return pd.concat(tables, ignore_index=True).assign(printed_scale=printed_scale, upstream_classes=classes)


def rows_of(table, grid=False):
    """The rows of the figure's units, or of the map's; none where nothing is stored."""
    names = table["unit"].astype(str)
    return table[names.str.startswith("grid-") == grid] if "start" in table else table.iloc[:0]


def curves(table, experiment, start, column="accuracy"):
    """(seeds × epochs) frame of one experiment of Figure 1: ``start`` "pretrained" or "scratch"."""
    name, labels, _ = EXPERIMENTS[experiment]
    rows = rows_of(table)
    if rows.empty:
        return pd.DataFrame()
    here = rows["unit"].str.startswith(name.replace(" ", "-"))
    rows = rows[here & (rows["start"] == start) & (rows["labels"] == labels)]
    return rows.pivot(index="seed", columns="epoch", values=column)


def gains(pre, scratch):
    """Area between two learning curves (seeds × epochs), one value per seed in points of accuracy.

    The mean over training of one accuracy minus the other; empty where either is missing.
    """
    if pre.empty or scratch.empty:
        return pd.Series(dtype=float)
    difference = (pre - scratch).dropna()
    return pd.Series(100 * area(difference.columns, difference.to_numpy()), index=difference.index)


def gain(table, experiment):
    """:func:`gains` of one experiment of Figure 1."""
    return gains(*(curves(table, experiment, start) for start in ("pretrained", "scratch")))


def grid(table):
    """Mean gain (points) by printed scale (rows, falling) and number of classes upstream, random labels."""
    rows = rows_of(table, grid=True)
    rows = rows[rows["start"] != "upstream"] if len(rows) else rows
    if rows.empty:
        return pd.DataFrame()
    found = {}
    for cell, part in rows.groupby(["printed_scale", "upstream_classes"]):
        pre, scratch = (
            part[part["start"] == start].pivot(index="seed", columns="epoch", values="accuracy")
            for start in ("pretrained", "scratch")
        )
        found[cell] = gains(pre, scratch).mean()
    return pd.Series(found).unstack().sort_index(ascending=False)


def claims(table, parameters):
    """The sign of each experiment, all four at once, and the test accuracy in the end.

    All four holds where each does, and disagrees where one does: it is the one furthest from holding. Written
    down before the figure's seeds were run.
    """
    made = []
    group = "Pre-training on random labels speeds up training in experiments 1 and 2 and slows it in 3 and 4."
    for number, (_, labels, sign) in EXPERIMENTS.items():
        word = "speeds up" if sign > 0 else "slows"
        id = f"experiment-{number}"
        statement = f"Experiment {number}, {labels} labels: pre-training {word} training (points of area)."
        values = sign * gain(table, number)
        if values.empty:
            claim = Claim.missing(id, statement, SOURCE, "not among the results")
        else:
            claim = Claim.greater(id, statement, SOURCE, values)
        made.append(claim.tagged(group))
    about = {"id": HEADLINE, "statement": f"{group} Measured: the one furthest from it.", "source": SOURCE}
    if any(claim.measured is None for claim in made):
        whole = Claim.missing(*about.values(), "not all four are among the results")
    else:
        order = [DISAGREES, INCONCLUSIVE, HOLDS]
        low = {claim.id: claim.interval[0] if claim.interval else -math.inf for claim in made}
        weakest = min(made, key=lambda claim: (order.index(claim.outcome), low[claim.id]))
        whole = replace(weakest, **about, test=f"{weakest.id}: {weakest.test}", group=None)
    return [whole, *made, *_tests(table)]


def _tests(table):
    """Section 1.1: in the end, accuracy on held-out images is lower after pre-training, in 1 and in 3."""
    group = "With real labels, test accuracy ends lower after pre-training (points)."
    made = []
    for number in (1, 3):
        pre, scratch = (curves(table, number, start, "test") for start in ("pretrained", "scratch"))
        about = (f"test-{number}", f"Experiment {number}: {group}", "Section 1.1")
        if pre.empty or scratch.empty:
            claim = Claim.missing(*about, "not among the results")
        else:
            claim = Claim.greater(*about, 100 * (scratch - pre).dropna().iloc[:, -1])
        made.append(claim.tagged(group))
    return made


def memorised(table):
    """Training accuracy at the end of pre-training (0..1) of the figure's units, indexed by unit."""
    rows = rows_of(table)
    rows = rows[rows["start"] == "upstream"] if len(rows) else rows
    return pd.Series(rows["accuracy"].to_numpy(), index=rows["unit"]) if len(rows) else pd.Series(dtype=float)


def finding(table, parameters):
    """The four areas with their intervals, and what is smaller than the paper's."""
    parts = []
    for number, (_, labels, sign) in EXPERIMENTS.items():
        values = gain(table, number)
        if len(values):
            due = "positive" if sign > 0 else "negative"
            parts.append(f"{number} ({labels} labels) {interval(values, '{:+.1f}')}, paper {due}")
    if not parts:
        return "No run is among the results: there is nothing to compare."
    size = f"VGG-16 of width {parameters['width']} on {parameters['side']}×{parameters['side']} pixels"
    known = 100 * memorised(table).mean()
    return (
        f"Area between the learning curves, pre-trained minus from scratch, in points of training accuracy: "
        f"{'; '.join(parts)}. {size}; pre-training memorised {known:.0f} % of its labels."
    )


def key_numbers(table, parameters):
    """The areas of the positive and the negative experiments, and test accuracy in the end."""
    made = []
    for numbers, word in (((1, 2), "faster"), ((3, 4), "slower")):
        values = [gain(table, number) for number in numbers]
        if all(len(value) for value in values):
            here = " / ".join(f"{value.mean():+.1f}" for value in values)
            made.append(KeyNumber(f"area, experiments {numbers[0]} / {numbers[1]} (points)", here, word))
    pre, scratch = (curves(table, 1, start, "test") for start in ("pretrained", "scratch"))
    if not pre.empty and not scratch.empty:
        values = 100 * (pre - scratch).dropna().iloc[:, -1]
        what = "test accuracy in the end, experiment 1: pre-trained minus scratch"
        made.append(KeyNumber(what, interval(values, "{:+.1f}"), "lower"))
    return made
