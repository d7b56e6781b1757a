"""The example of the page "While a network trains": four curves from the stored table of its loop."""

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from alignbook import paths
from companion.pages import filled, style
from companion.pages.tables import number

EXAMPLE = "data/recorder-example.csv"
PANELS = {  # heading of each instrument's panel
    "misalignment": "Misalignment of filters and patches",
    "alignment": "Features: share of the labels",
    "tangent": "Tangent kernels: alignment",
    "curvature": "Largest Hessian eigenvalue",
}
CONTROL = "random_axes"  # the example's own function, beside the misalignment
LAYERS = {"alignment": "(output)"}  # of which the page gives numbers, if not the first


def write(pages: Path) -> None:
    """Write the page and its figure into the folder ``pages``, where its table is stored."""
    if not (paths.root() / EXAMPLE).is_file():
        return
    table = pd.read_csv(paths.root() / EXAMPLE, keep_default_na=False)
    style.apply()
    (pages / "recorder").mkdir(exist_ok=True)
    (pages / "recorder" / "curves.svg").write_text(drawn(table), encoding="utf-8")
    filled.write("recorder", numbers(table), pages)


def numbers(table: pd.DataFrame) -> dict[str, str]:
    """The last step, and of each instrument the first and the last value, which the page's sentence gives."""
    values = {"steps": f"{table['step'].max():,}"}
    for name in (*PANELS, CONTROL):
        rows = table[table["instrument"] == name].sort_values("step")
        line = rows[rows["layer"] == LAYERS.get(name, rows["layer"].iloc[0])]["value"]
        values |= {f"{name}_first": number(line.iloc[0]), f"{name}_last": number(line.iloc[-1])}
    return values


def drawn(table: pd.DataFrame) -> str:
    """SVG of the four panels."""
    figure, panels = plt.subplots(2, 2, figsize=(7.0, 5.4))
    for panel, (name, heading) in zip(panels.flat, PANELS.items(), strict=True):
        rows = table[table["instrument"] == name]
        layers = list(dict.fromkeys(rows["layer"]))
        for layer, colour in zip(layers, style.ordered(len(layers)), strict=True):
            line = rows[rows["layer"] == layer]
            label = layer if layer in ("", "(output)") else f"layer {layer}"
            panel.plot(line["step"], line["value"], "o-", ms=3, color=colour, label=label)
        if name == "misalignment":
            control = table[table["instrument"] == CONTROL]
            panel.plot(control["step"], control["value"], "o-", ms=3, color="0.5", label="random axes")
            panel.lines[0].set_label("the data's axes")
        panel.set_xscale("symlog", linthresh=1)
        panel.set(xlabel="training step", title=heading, xlim=(0, None), ylim=(0, None))
        if len(panel.lines) > 1:
            panel.legend(fontsize=9)
    text = style.svg(figure)
    plt.close(figure)
    return text
