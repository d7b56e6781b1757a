"""The recorder's figure."""

NAMED = 6  # lines that a legend names one by one; of more it names the first and the last


def drawn(table):
    """A matplotlib figure of a recorder's table: a panel per instrument, a line per weight over the steps.

    Lines run from light (the first layer) to dark (the last). Where an instrument has a number for the whole
    network, its panel has that line alone. Raises ValueError where the table is empty.
    """
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(table["instrument"]))
    if not names:
        raise ValueError("nothing is recorded yet")
    columns = min(len(names), 2)
    rows = -(-len(names) // columns)
    figure, panels = plt.subplots(
        rows, columns, figsize=(3.5 * columns, 2.6 * rows), squeeze=False, layout="tight"
    )
    for panel, name in zip(panels.flat, names, strict=False):
        _panel(panel, name, table[table["instrument"] == name], plt.cm.viridis)
    for panel in panels.flat[len(names) :]:
        panel.remove()
    return figure


def _panel(panel, name, rows, colours):
    layers = list(dict.fromkeys(zip(rows["layer"], rows["parameter"], strict=True)))
    if ("", "") in layers:  # the whole network says it in one line
        layers = [("", "")]
    for i, (layer, parameter) in enumerate(layers):
        line = rows[(rows["layer"] == layer) & (rows["parameter"] == parameter)]
        colour = colours(0.85 * (1 - i / max(1, len(layers) - 1)))
        label = None
        if layer and (len(layers) <= NAMED or i in (0, len(layers) - 1)):
            label = f"{layer} {parameter}" if parameter not in ("", "weight") else layer
        panel.plot(line["step"], line["value"], "o-", ms=3, color=colour, label=label)
    panel.set_xscale("symlog", linthresh=1)
    panel.set_xlim(left=0)
    panel.set(xlabel="step", title=name)
    if len(layers) > 1:
        panel.legend(fontsize="small", frameon=False)
