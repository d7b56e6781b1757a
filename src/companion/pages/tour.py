"""The pictures and numbers of the page "The tour": one network, from nonsense labels to real ones.

Each step has a figure that is a row longer than the last one's (``tour/rows-<n>.svg``), a picture with
controls (``tour-<step>.txt``) and a sentence with the numbers (``tour-<step>-seen.txt``).
"""

import matplotlib.pyplot as plt
import numpy as np

from companion.pages import one_network, style
from companion.pages.interactive import Axis, Control, Field, Layer, Readout, picture
from companion.pages.plots import label_ends, octaves
from companion.pages.traps import floors

BLUE, ORANGE, GREEN, PINK, BLACK, GREY = (style.SEQUENCE[n] for n in (0, 1, 2, 3, 6, 7))
NAMES = ["first convolution", "second convolution", "dense layer", "head"]
LAYERS = [f"tangent{layer}" for layer in range(1, len(NAMES) + 1)]
SHOWN_SEEDS = 6
LEARNED = 0.9  # training accuracy whose first step is told


def draw(pages):
    """Write what ``tour.md`` includes into the folder ``pages``."""
    table = one_network.table()
    style.apply()
    (pages / "tour").mkdir(exist_ok=True)
    for rows in range(2, len(ROWS) + 1):
        text = style.svg(grown(table, rows))
        (pages / "tour" / f"rows-{rows}.svg").write_text(text, encoding="utf-8")
    plt.close("all")
    for step, (look, seen) in STEPS.items():
        (pages / f"tour-{step}.txt").write_text(f"{look(table).data}\n", encoding="utf-8")
        (pages / f"tour-{step}-seen.txt").write_text(f"{seen(table)}\n", encoding="utf-8")


def means(table, task):
    """Mean over the seeds, by step."""
    return table[table["task"] == task].groupby("step").mean(numeric_only=True)


# The figure that grows


def _loss(ax, seen, ends):
    ends.append(("loss", "loss", BLUE))
    ax.set_ylabel("loss (nats)")


def _filters(ax, seen, ends):
    ends += [("random_bases", "random axes", GREY), ("misalignment", "the data’s axes", ORANGE)]
    ax.set_ylabel("misalignment")


def _features(ax, seen, ends):
    ends.append(("features", "features", GREEN))
    ax.set(ylabel="labels on\ntop ten (%)")


def _tangent(ax, seen, ends):
    colours = style.ordered(len(LAYERS))
    ends += [(layer, NAMES[n], colours[n]) for n, layer in enumerate(LAYERS)]
    ax.set_ylabel("$A_l$")


def _curvature(ax, seen, ends):
    ends.append(("curvature", "largest eigenvalue", PINK))
    ax.set(ylabel="curvature", yscale="log")


ROWS = (_loss, _filters, _features, _tangent, _curvature)


def grown(table, rows):
    """The first ``rows`` measures while nonsense is learned; with the last row, beside it what follows."""
    tasks = ["random"] + ["fine-tuned"] * (rows == len(ROWS))
    titles = {"random": "nonsense labels", "fine-tuned": "then real labels"}
    figure, axes = plt.subplots(
        rows, len(tasks), figsize=(7, 0.6 + 1.25 * rows), sharex=True, sharey="row", squeeze=False
    )
    scratch, named = _percent(means(table, "real")), {}
    for column, task in zip(axes.T, tasks, strict=True):
        seen = _percent(means(table, task))
        for ax, row in zip(column, ROWS, strict=False):
            ends = []
            row(ax, seen, ends)
            if task == "fine-tuned":
                for name, _, _ in ends[-1:] if row is _filters else ends:
                    ax.plot(scratch.index, scratch[name].abs(), color=GREY, lw=1, alpha=0.8)
            for name, _, colour in ends:
                ax.plot(seen.index, seen[name].abs(), color=colour, lw=1.8)
            octaves(ax, seen.index[-1], (0, 4, 16, 64, 256))
            ax.set_xlim(0, seen.index[-1])
            named[ax] = [(seen.index[-1], abs(seen[n].iloc[-1]), text, colour) for n, text, colour in ends]
        column[0].set_title(titles[task])
        column[-1].set_xlabel("step")
    for ax, row in zip(axes[:, 0], ROWS, strict=False):
        if row in (_loss, _features, _tangent):
            ax.set_ylim(0, None)
    for ax in axes[:, -1]:
        label_ends(ax, named[ax])
    for ax in axes[:, 1:].flat:
        ax.set_ylabel("")
    return figure


def _percent(seen):
    return seen.assign(features=100 * seen["features"])


# Pictures with controls


def look(name, table, tasks, alt, caption, left, right, said, ends):
    """A picture of one network or the mean, with two fields over steps and numbers at a chosen step.

    left, right : (label, low, high, log, [(task, column, label, colour)])
    said : [(label, task, column, format)]
    ends : what the second field shows, for who does not see it
    """
    kinds = ["mean of all", *(f"seed {seed}" for seed in range(SHOWN_SEEDS))]
    seen = {task: [means(table, task)] for task in tasks}
    for task, found in seen.items():
        own = table[table["task"] == task]
        found += [own[own["seed"] == seed].set_index("step") for seed in range(SHOWN_SEEDS)]
    steps = seen[tasks[0]][0].index.to_numpy()
    layers, fields = [], []
    for number, (label, low, high, log, lines) in enumerate((left, right)):
        fields.append(
            (Axis("1 + step", 1, 1.15 * steps[-1], True, (1, 4, 16, 64, 256)), Axis(label, low, high, log))
        )
        for line, (task, column, text, colour) in enumerate(lines):
            values = np.abs([run[column].to_numpy(dtype=float) for run in seen[task]])
            key = f"line{number}{line}"
            layers.append(Layer(key, "line", steps + 1, values, colour, text, ("who",), field=number))
            here = [[value] for run in values for value in run]
            places = [[step + 1] for _ in kinds for step in steps]
            layers.append(Layer(f"{key}here", "dots", places, here, BLACK, "", ("who", "step"), field=number))
    readouts = [
        Readout(
            f"said{n}", label, ("who", "step"),
            [form.format(value) for run in seen[task] for value in run[column]],
        )
        for n, (label, task, column, form) in enumerate(said)
    ]  # fmt: skip
    (x, y), (x2, y2) = fields
    return picture(
        name, alt=alt, caption=caption, x=x, y=y, beside=Field(x2, y2, ends), layers=layers,
        readouts=readouts,
        controls=[
            Control("step", "step", list(steps), start=len(steps) - 1),
            Control("who", "network", kinds, kind="select"),
        ],
    )  # fmt: skip


LOSS = ("loss (nats)", 0, 2.6, False)


def nonsense(table):
    """Accuracy and loss on random labels."""
    return look(
        "nonsense", table, ["random"],
        "The share of random labels that the network gives, over steps.",
        "Left: the share of its nonsense labels that the network has learned. Choose a step and a network.",
        ("accuracy", 0, 1.05, False, [("random", "accuracy", "accuracy on its own labels", GREEN)]),
        (*LOSS, [("random", "loss", "loss", BLUE)]),
        [("learned:", "random", "accuracy", "{:.0%}"), ("loss:", "random", "loss", "{:.2f}")],
        "The loss over steps: flat for the first fifty steps, then it falls to zero.",
    )  # fmt: skip


def filters(table):
    """Misalignment of the first layer, with the data and with random axes."""
    lines = [("random", "random_bases", "with random axes", GREY)]
    lines.append(("random", "misalignment", "with the data’s axes", ORANGE))
    return look(
        "filters", table, ["random"],
        "Misalignment of the first layer’s filters over steps, with the data’s axes and with random ones.",
        "Left: the filters’ misalignment; the gap between the lines is the alignment. Right: the loss.",
        ("misalignment", 6, 17, False, lines), (*LOSS, [("random", "loss", "loss", BLUE)]),
        [("with the data’s axes:", "random", "misalignment", "{:.1f}"),
         ("with random axes:", "random", "random_bases", "{:.1f}"), ("loss:", "random", "loss", "{:.2f}")],
        "The loss over steps.",
    )  # fmt: skip


def features(table):
    """Labels on the top ten directions of the last features."""
    return look(
        "features", table, ["random"],
        "The share of the nonsense labels along the ten largest directions of the features, over steps.",
        "Left: the nonsense along the ten largest directions of the last features. Right: the loss.",
        ("share of the labels", 0, 0.35, False, [("random", "features", "on the top ten directions", GREEN)]),
        (*LOSS, [("random", "loss", "loss", BLUE)]),
        [("on the top ten:", "random", "features", "{:.0%}"), ("loss:", "random", "loss", "{:.2f}")],
        "The loss over steps.",
    )  # fmt: skip


def tangent(table):
    """A_l of the four layers."""
    colours = style.ordered(len(LAYERS))
    lines = [("random", layer, NAMES[n], colours[n]) for n, layer in enumerate(LAYERS)]
    return look(
        "tangent", table, ["random"],
        "Alignment of each layer’s tangent kernel with the nonsense labels, over steps.",
        "Left: alignment of each layer’s tangent kernel with the nonsense. Right: the loss.",
        ("A of the layer", 0, 0.2, False, lines), (*LOSS, [("random", "loss", "loss", BLUE)]),
        [(f"{NAMES[n]}:", "random", layer, "{:.2f}") for n, layer in enumerate(LAYERS)],
        "The loss over steps.",
    )  # fmt: skip


def real(table):
    """Loss and curvature on real labels, after nonsense and from scratch."""
    both = (("fine-tuned", "after nonsense", ORANGE), ("real", "from scratch", GREY))
    return look(
        "real", table, ["fine-tuned", "real"],
        "The loss on real labels over steps, after nonsense and from scratch.",
        "Left: the loss on real labels. Right: the largest Hessian eigenvalue. Move to step 0, then to 64.",
        ("loss (nats)", 0, 5, False, [(task, "loss", label, colour) for task, label, colour in both]),
        ("curvature", 0.01, 300, True, [(task, "curvature", "", colour) for task, _, colour in both]),
        [(f"{what} {label}:", task, column, form) for task, label, _ in both
         for what, column, form in (("loss", "loss", "{:.2f}"), ("curvature", "curvature", "{:.1f}"))],
        "The largest Hessian eigenvalue over steps, on a logarithmic axis: after nonsense it starts high.",
    )  # fmt: skip


# Sentences with numbers


def _nonsense_seen(table):
    end = means(table, "random").iloc[-1]
    seeds = table["seed"].nunique()
    return (
        f"After {end.name:.0f} steps the network gives {100 * end['accuracy']:.0f} % of its nonsense labels "
        f"correctly (mean of {seeds} networks that differ in their initial weights and images)."
    )


def _filters_seen(table):
    seen, floor = means(table, "random"), floors(filters=64, entries=27)
    first, last = seen.iloc[0], seen.iloc[-1]
    return (
        f"At the start both lines are at {first['misalignment']:.1f}, the floor for 64 filters of 27 entries "
        f"({floor:.1f}). At the end the misalignment is {last['misalignment']:.1f} with the data’s axes and "
        f"{last['random_bases']:.1f} with random ones."
    )


def _features_seen(table):
    first, last = (means(table, "random").iloc[place]["features"] for place in (0, -1))
    return (
        f"The ten largest directions hold {100 * first:.0f} % of the nonsense labels at the start and "
        f"{100 * last:.0f} % at the end."
    )


def _tangent_seen(table):
    last = means(table, "random").iloc[-1][LAYERS]
    ordered = last.sort_values(ascending=False)
    told = ", ".join(f"{NAMES[LAYERS.index(layer)]} {value:.2f}" for layer, value in ordered.items())
    return f"In the end: {told}."


def _real_seen(table):
    after, scratch = means(table, "fine-tuned"), means(table, "real")
    first, last = ({"after": after.iloc[n], "scratch": scratch.iloc[n]} for n in (0, -1))
    bends = first["after"]["curvature"] / first["scratch"]["curvature"]
    reached = [int((seen["accuracy"] >= LEARNED).idxmax()) for seen in (after, scratch)]
    return (
        f"*What hurts.* The first loss is {first['after']['loss']:.1f}, worse than guessing "
        f"({first['scratch']['loss']:.1f}), and it bends {bends:.0f} times as much as from scratch. In the "
        f"end, {100 * last['after']['features']:.0f} % of the real labels lie along the ten largest "
        f"directions, from scratch {100 * last['scratch']['features']:.0f} %.\n\n"
        f"*What helps.* {100 * LEARNED:.0f} % of the training images are learned by step {reached[0]}, from "
        f"scratch by step {reached[1]}."
    )


STEPS = {
    "nonsense": (nonsense, _nonsense_seen),
    "filters": (filters, _filters_seen),
    "features": (features, _features_seen),
    "tangent": (tangent, _tangent_seen),
    "real": (real, _real_seen),
}
