"""The example of the page "While a network trains": four curves from the stored table of its loop."""

import matplotlib.pyplot as plt
import pandas as pd

from alignbook import paths
from companion.pages import style
from companion.pages.tables import number

EXAMPLE = "data/recorder-example.csv"
SHOWN = {  # per instrument: the panel's heading, and what a sentence calls it
    "misalignment": ("Misalignment of filters and patches", "the misalignment of the first layer's filters"),
    "alignment": ("Features: share of the labels", "the share of the labels on the outputs' top directions"),
    "tangent": ("Tangent kernels: alignment", "the first layer's kernel alignment"),
    "curvature": ("Largest Hessian eigenvalue", "the largest eigenvalue of the Hessian"),
}
TOLD = {"alignment": "(output)"}  # the layer that a sentence speaks of, if not the first


def write(pages):
    """Write the figure and the sentence that ``recorder.md`` includes into the folder ``pages``."""
    path = paths.root() / EXAMPLE
    if not path.is_file():
        (pages / "recorder-example.txt").write_text("No example is stored.\n", encoding="utf-8")
        return
    table = pd.read_csv(path, keep_default_na=False)
    style.apply()
    (pages / "recorder").mkdir(exist_ok=True)
    (pages / "recorder" / "curves.svg").write_text(_drawn(table), encoding="utf-8")
    (pages / "recorder-example.txt").write_text(_included(table), encoding="utf-8")


def _included(table):
    said = "; ".join(f"{words} goes from {number(a)} to {number(b)}" for words, a, b in ends(table))
    return "\n".join(
        [
            f"Between step 0 and step {table['step'].max():,}, {said}.",
            "",
            "```{figure} recorder/curves.svg",
            ":alt: Four panels over training steps: misalignment, share of the labels, kernel alignment and "
            "the largest Hessian eigenvalue; all but the misalignment change most between steps 30 and 300.",
            ":width: 100%",
            "",
            "What the loop above recorded. Where there is a legend, a line is a layer, light the first and "
            "dark the last; `(output)` is the network's output.",
            "```",
            "",
        ]
    )


def ends(table):
    """(what it is called, first value, last value) of each instrument, of the layer that is spoken of."""
    found = []
    for name, (_, words) in SHOWN.items():
        rows = table[table["instrument"] == name]
        line = rows[rows["layer"] == TOLD.get(name, rows["layer"].iloc[0])].sort_values("step")
        found.append((words, line["value"].iloc[0], line["value"].iloc[-1]))
    return found


def _drawn(table):
    figure, panels = plt.subplots(2, 2, figsize=(7.0, 5.4))
    for panel, (name, (heading, _)) in zip(panels.flat, SHOWN.items(), strict=True):
        rows = table[table["instrument"] == name]
        layers = list(dict.fromkeys(rows["layer"]))
        for layer, colour in zip(layers, style.ordered(len(layers)), strict=True):
            line = rows[rows["layer"] == layer]
            label = layer if layer in ("", "(output)") else f"layer {layer}"
            panel.plot(line["step"], line["value"], "o-", ms=3, color=colour, label=label)
        panel.set_xscale("symlog", linthresh=1)
        panel.set(xlabel="training step", title=heading, xlim=(0, None), ylim=(0, None))
        if len(layers) > 1:
            panel.legend(fontsize=9)
    text = style.svg(figure)
    plt.close(figure)
    return text
