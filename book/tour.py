"""The figures and numbers of the page "The tour": one network, from nonsense labels to real ones."""

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from companion.pages import filled, style
from companion.pages.plots import label_ends, octaves
from companion.prose import one_network
from companion.prose.traps import floors

BLUE, ORANGE, GREEN, PINK, GREY = (style.SEQUENCE[n] for n in (0, 1, 2, 3, 7))
NAMES = {  # of the layers, by the column of their kernel's alignment
    "tangent1": "first convolution",
    "tangent2": "second convolution",
    "tangent3": "dense layer",
    "tangent4": "head",
}
LAYERS = [(layer, NAMES[layer], colour) for layer, colour in zip(NAMES, style.ordered(4), strict=True)]
FILTERS = [("random_bases", "random axes", GREY), ("misalignment", "the data’s axes", ORANGE)]
ROWS = {  # of the figure that grows: lines (column, name, colour) by the label of their axis
    "loss (nats)": [("loss", "loss", BLUE)],
    "misalignment": FILTERS,
    "labels on\ntop ten": [("features", "features", GREEN)],
    "$A_l$": LAYERS,
    "curvature": [("curvature", "largest eigenvalue", PINK)],
}
LEARNED = 0.9  # training accuracy whose first step is told


def write(pages: Path) -> None:
    """Write the page and what it includes into the folder ``pages``, where results are stored."""
    if not one_network.folder().is_dir():
        return
    table = one_network.table()
    style.apply()
    (pages / "tour").mkdir(exist_ok=True)
    for rows in range(1, len(ROWS) + 1):
        text = style.svg(grown(table, rows))
        (pages / "tour" / f"rows-{rows}.svg").write_text(text, encoding="utf-8")
    plt.close("all")
    filled.write("tour", numbers(table), pages)


def means(table: pd.DataFrame, task: str) -> pd.DataFrame:
    """Mean over the seeds, by step."""
    return table[table["task"] == task].groupby("step").mean(numeric_only=True)


def grown(table: pd.DataFrame, rows: int) -> plt.Figure:
    """The first ``rows`` measures while nonsense is learned; with the last row, beside it what follows."""
    titles = {"random": "nonsense labels", "fine-tuned": "then real labels"}
    tasks = list(titles)[: 1 + (rows == len(ROWS))]
    shape = {"sharex": True, "sharey": "row", "squeeze": False, "figsize": (7, 0.6 + 1.25 * rows)}
    figure, axes = plt.subplots(rows, len(tasks), **shape)
    scratch = means(table, "real")
    for column, task in zip(axes.T, tasks, strict=True):
        seen = means(table, task).abs()
        for ax, (label, lines) in zip(column, ROWS.items(), strict=False):
            for name, _, colour in lines:
                if task == "fine-tuned" and name != "random_bases":
                    ax.plot(scratch.index, scratch[name].abs(), color=GREY, lw=1, alpha=0.8)
                ax.plot(seen.index, seen[name], color=colour, lw=1.8)
            octaves(ax, seen.index[-1], (0, 4, 16, 64, 256))
            ax.set_xlim(0, seen.index[-1])
            if label == "curvature":
                ax.set_yscale("log")
            elif label != "misalignment":
                ax.set_ylim(0, None)
        column[0].set_title(titles[task])
        column[-1].set_xlabel("step")
    for row, (label, lines) in zip(axes, ROWS.items(), strict=False):
        row[0].set_ylabel(label)
        label_ends(
            row[-1], [(seen.index[-1], seen[name].iloc[-1], text, colour) for name, text, colour in lines]
        )
    return figure


def numbers(table: pd.DataFrame) -> dict[str, str]:
    """The numbers in the page's sentences."""
    random, tuned, scratch = (means(table, task) for task in ("random", "fine-tuned", "real"))
    first, last = random.iloc[0], random.iloc[-1]
    reached = [int((seen["accuracy"] >= LEARNED).idxmax()) for seen in (tuned, scratch)]
    return {
        "steps": f"{last.name:.0f}",
        "seeds": f"{table['seed'].nunique()}",
        "learned": f"{last['accuracy']:.0%}".replace("%", " %"),
        "floor": f"{floors(filters=64, entries=27):.1f}",
        "misalignment_before": f"{first['misalignment']:.1f}",
        "misalignment_after": f"{last['misalignment']:.1f}",
        "random_axes_after": f"{last['random_bases']:.1f}",
        "features_before": f"{100 * first['features']:.0f} %",
        "features_after": f"{100 * last['features']:.0f} %",
        **{layer: f"{last[layer]:.2f}" for layer in NAMES},
        "first_loss": f"{tuned['loss'].iloc[0]:.1f}",
        "first_loss_scratch": f"{scratch['loss'].iloc[0]:.1f}",
        "bends": f"{tuned['curvature'].iloc[0] / scratch['curvature'].iloc[0]:.0f}",
        "features_tuned": f"{100 * tuned['features'].iloc[-1]:.0f} %",
        "features_scratch": f"{100 * scratch['features'].iloc[-1]:.0f} %",
        "threshold": f"{100 * LEARNED:.0f} %",
        "reached": f"{reached[0]}",
        "reached_scratch": f"{reached[1]}",
    }
