"""VGG-16 pre-trained on random labels: when it helps, when it hurts (Maennel et al. 2020, Figure 1, A.5)."""

import math
from dataclasses import replace

import pandas as pd

from alignbook.claims import CONTRADICTED, HOLDS, UNDECIDED, Claim, KeyNumber, interval
from alignbook.data import load
from alignbook.experiments import Unit
from alignbook.seeding import torch_stream
from alignbook.training.train import accuracy

from .downstream import area, fresh_head_, shrunk, tasks
from .vgg_transfer import DOWNSTREAM_CLASSES, DOWNSTREAM_EPOCHS, SETTINGS, first_epochs, network, pretrained

HEADLINE = "signs"
# Experiment of Figure 1 -> (its setting, downstream labels, sign of what pre-training does).
EXPERIMENTS = {
    1: ("1 and 2", "real", 1),
    2: ("1 and 2", "random", 1),
    3: ("3 and 4", "real", -1),
    4: ("3 and 4", "random", -1),
}
SOURCE = "Figure 1, A.5"


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


def curves(table, experiment, start, column="accuracy"):
    """(seeds × epochs) frame of one experiment of Figure 1: ``start`` "pretrained" or "scratch"."""
    name, labels, _ = EXPERIMENTS[experiment]
    if "start" not in table:
        return pd.DataFrame()
    here = table["unit"].astype(str).str.startswith(name.replace(" ", "-"))
    rows = table[here & (table["start"] == start) & (table["labels"] == labels)]
    return rows.pivot(index="seed", columns="epoch", values=column)


def gain(table, experiment):
    """Area between the learning curves of an experiment, pre-trained less from scratch (points of accuracy).

    The mean over training of the difference, one value per seed; empty where either curve is missing.
    """
    pre, scratch = (curves(table, experiment, start) for start in ("pretrained", "scratch"))
    if pre.empty or scratch.empty:
        return pd.Series(dtype=float)
    difference = (pre - scratch).dropna()
    return pd.Series(100 * area(difference.columns, difference.to_numpy()), index=difference.index)


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
        order = [CONTRADICTED, UNDECIDED, HOLDS]
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
    """Training accuracies at the end of pre-training (0..1), of all units."""
    if "start" not in table:
        return pd.Series(dtype=float)
    return table.loc[table["start"] == "upstream", "accuracy"]


def finding(table, parameters):
    """The four areas with their intervals, and what is smaller than the paper's."""
    parts = {}
    for number, (_, labels, sign) in EXPERIMENTS.items():
        values = gain(table, number)
        if len(values):
            due = "positive" if sign > 0 else "negative"
            parts.setdefault(due, []).append(f"{interval(values, '{:+.1f}')} {labels}")
    if not parts:
        return "No run is among the results: there is nothing to compare."
    size = f"VGG-16 of width {parameters['width']} on {parameters['side']}×{parameters['side']} pixels"
    known = 100 * memorised(table).mean()
    found = "; ".join(f"paper {due}: {', '.join(areas)}" for due, areas in parts.items())
    return (
        "Area between learning curves, pre-trained minus from scratch (points). "
        f"{found[0].upper()}{found[1:]}. {size}, {known:.0f} % of the labels memorised."
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
