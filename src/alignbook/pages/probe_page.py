"""The probe's report: one page that stands by itself, drawn for light and dark, and the numbers as JSON."""

import html
import io
import json
import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from alignbook import paths, system
from alignbook.errors import AlignbookError
from alignbook.pages import probe_beside, style
from alignbook.pages.tables import folded, number, table
from alignbook.probing import Probe

EXAMPLE = "data/probe-example.json"
COLOURS = {"network": style.SEQUENCE[0], "before": style.SEQUENCE[1]}
ABOUT = {
    "filters": (
        "First-layer filters and image patches",
        "Maennel et al. 2020",
        "random_labels/fig02_misalignment",
        "Training aligns the covariance of the first layer's filters with that of the image patches: the "
        "same "
        "eigenvectors, and eigenvalues that are a function f(σ) = τ of the patches'. Misalignment is 0 "
        "where they "
        "share all eigenvectors; sampling alone gives the floor, and random bases what no alignment would "
        "give.",
    ),
    "features": (
        "Features and labels",
        "Imani et al. 2022",
        "representation_alignment/fig10_peaks_alignment",
        "How much of the labels lies along the top singular vectors of what each layer reads. A curve "
        "that rises "
        "early belongs to features on which a linear model learns these labels fast.",
    ),
    "tangent": (
        "Tangent kernels and labels, layer by layer",
        "Lou et al. 2022",
        "signal_propagation/fig03_peak_law",
        "Aₗ says how much a step along layer l's weights moves the outputs towards the labels. In deep "
        "networks it "
        "peaks in a hidden layer, which moves with depth.",
    ),
    "curvature": (
        "Curvature of the loss",
        "ICLR 2020 submission on transferability",
        "transferability/fig03_flat_minima",
        "The Hessian's eigenvalues of largest magnitude: how sharp the place is at which training ended. "
        "A residual "
        "bounds how far the nearest true eigenvalue is.",
    ),
    "slice": (
        "The loss around the network",
        "ICLR 2020 submission on transferability",
        "transferability/fig05_landscapes_at_initialisation",
        "The loss along one random direction in which every filter is as long as the network's own: 0.1 "
        "moves each "
        "filter by a tenth of its length.",
    ),
    "deviation": (
        "How far the weights have moved",
        "ICLR 2020 submission on transferability",
        "transferability/tab01_weight_deviation",
        "The Frobenius norm of each layer's change since the network before.",
    ),
}
CSS = """
:root { color-scheme: light dark; --muted: #5f6670; --line: #d0d4da; --link: #0b5cad; }
@media (prefers-color-scheme: dark) { :root { --muted: #aab2bd; --line: #41464d; --link: #7db8f0; } }
body { font: 16px/1.55 system-ui, sans-serif; margin: 0 auto; padding: 1rem; max-width: 50rem; }
@media (prefers-color-scheme: dark) {
  body { background: #14181e; color: #ced6dd; } .light { display: none; }
}
@media (prefers-color-scheme: light) { .dark { display: none; } }
h1 { line-height: 1.2; overflow-wrap: anywhere; } h2 { margin-top: 2.5rem; } a { color: var(--link); }
h3 { font-size: 1rem; margin: 1.5rem 0 0; }
figure { margin: 1rem 0; } svg { width: 100%; height: auto; }
.muted, figcaption { color: var(--muted); font-size: 0.9rem; }
.ab-scroll { overflow-x: auto; } code { overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
th, td { text-align: left; padding: 0.3rem 0.6rem 0.3rem 0; vertical-align: top; }
tbody tr { border-top: 1px solid var(--line); }
"""


def write(probe, folder, title):
    """Write ``report.html`` and ``report.json`` of a :class:`alignbook.probing.Probe` into ``folder``.

    Each is whole or as it was. Raises AlignbookError where the folder cannot be written to.
    """
    if why := system.unwritable(folder):
        raise AlignbookError(f"cannot write to {paths.shown(folder)}: {why}")
    style.apply()
    beside = probe_beside.strips(probe)
    page = _page(probe, title, beside)
    book = {name: strip.as_dict() for name, strip in beside.items()}
    data = json.dumps({"title": title, **probe.as_dict(), "book": book}, indent=1, allow_nan=False)
    system.replace(folder / "report.json", data.encode())
    system.replace(folder / "report.html", page.encode())
    return folder / "report.html"


def _page(probe, title, beside):
    parts = [f"<h1>{html.escape(title)}</h1>", table(_facts(probe), "facts"), _found(probe)]
    if "loss" in probe.notes:
        parts.append(f'<p class="muted">Loss and accuracy: {html.escape(probe.notes["loss"])}.</p>')
    if not probe_beside.stored():
        parts.append(f'<p class="muted">{probe_beside.NONE}</p>')
    for name, (heading, paper, page, meaning) in ABOUT.items():
        parts.append(
            f'<h2 id="{name}">{heading}</h2>'
            f'<p>{meaning} <span class="muted">{paper}: {_link(page)}.</span></p>'
        )
        if name in probe.left_out:
            parts.append(f'<p class="muted">Not measured: {html.escape(probe.left_out[name])}.</p>')
            continue
        rows = probe.tables[name]
        if name in probe.notes:
            parts.append(f'<p class="muted">Measured on {html.escape(probe.notes[name])}.</p>')
        parts.append(_figure(name, _drawn(name, rows), ABOUT[name][0]))
        if name in beside:
            parts.append(_strip(name, beside[name]))
        parts.append(folded("The numbers", table(_cells(rows), name)))
    body = "\n".join(parts)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{CSS}</style></head><body>{body}</body></html>\n"
    )


def _facts(probe):
    return [
        {
            "": who,
            **{
                name: number(value)
                if isinstance(value, float)
                else html.escape(f"{value:,}" if isinstance(value, int) else value)
                for name, value in known.items()
            },
        }
        for who, known in probe.network.items()
    ]


def _link(page):
    name = page.rpartition("/")[2]
    book = paths.build() / "html" / f"{page}.html"
    return (
        f'<a href="{book.resolve().as_uri()}">{name}</a>' if book.is_file() else f"page <code>{page}</code>"
    )


def _cells(rows):
    return [
        {
            name: number(value) if isinstance(value, float) else html.escape(str(value))
            for name, value in row.items()
        }
        for row in rows.to_dict("records")
    ]


def _found(probe, prefix=""):
    """A line per instrument, with numbers from its table, each a link to the anchor ``prefix`` + its name."""
    lines = []
    for name, rows in probe.tables.items():
        said = _sentences(name, rows)
        if said:
            lines.append(f'<li><a href="#{prefix}{name}">{ABOUT[name][0]}</a>: {html.escape(said)}.</li>')
    return f"<ul>{''.join(lines)}</ul>"


def _sentences(name, rows):
    return "; ".join(filter(None, (_sentence(name, part) for part in _parts(rows))))


def _parts(rows):
    """[(who, that network's rows)], before first."""
    if "network" not in rows:
        return [(None, rows)]
    return [(who, part) for who, part in rows.groupby("network", sort=True)]


def _sentence(name, part):
    who, rows = part
    whose = "" if who in (None, "network") else f"{who}: "
    if name == "filters":
        first = rows.iloc[0]
        if not np.isfinite(first["misalignment"]):
            count = f"{first['filters']} filters of {first['dimension']} entries"
            return f"{whose}{count}: too few for a misalignment"
        return (
            f"{whose}misalignment {first['misalignment']:.3g}, with random bases "
            f"{first['random_bases']:.3g}, "
            f"by sampling alone {first['floor']:.3g}"
        )
    if name == "features":
        top = rows[rows["k"] == 10].set_index("layer")["share"]
        if top.empty:
            return ""
        return (
            f"{whose}on the top 10 singular vectors lie {top.iloc[0]:.0%} of the labels at the input, "
            f"{top.iloc[-1]:.0%} at the output, most at {top.idxmax()} ({top.max():.0%})"
        )
    if name == "tangent":
        if not rows["alignment"].notna().any():
            return ""
        top = rows.loc[rows["alignment"].idxmax()]
        where = f"{top['layer']}, layer {top['depth'] + 1} of {len(rows)}"
        return f"{whose}largest in {where} ({top['alignment']:.3g})"
    if name == "curvature":
        return f"{whose}the largest eigenvalue is {rows['eigenvalue'].iloc[0]:.3g}"
    if name == "slice":
        rise = rows["loss"].max() - rows["loss"].iloc[len(rows) // 2]
        return f"{whose}the loss rises by {rise:.3g} within {rows['alpha'].max():g}"
    far = rows.loc[rows["deviation"].idxmax()]
    return f"farthest in {far['layer']} ({far['deviation']:.3g})"


def guide(pages):
    """Write the figures and findings of the example in ``data/probe-example.json`` into the folder ``pages``.

    The page ``probe.md`` includes ``probe-example.txt``.
    """
    style.apply()
    path = paths.root() / EXAMPLE
    if not path.is_file():
        (pages / "probe-example.txt").write_text("No example is stored.\n", encoding="utf-8")
        return
    stored = json.loads(path.read_text(encoding="utf-8"))
    tables = {name: _frame(rows) for name, rows in stored["tables"].items()}
    found = Probe(
        stored["network"], tables, stored["left_out"], stored.get("examples", {}), stored.get("notes", {})
    )
    beside = probe_beside.strips(found)
    folder = pages / "probe"
    folder.mkdir(exist_ok=True)
    parts = [table(_facts(found), "probe"), "", _found(found, "probe-"), ""]
    for name, rows in tables.items():
        heading, paper, page, meaning = ABOUT[name]
        (folder / f"{name}.svg").write_text(_drawn(name, rows), encoding="utf-8")
        parts += [f"(probe-{name})=", f"### {heading}", "", f"{meaning} {paper}: [](/{page}).", ""]
        parts += [
            f"```{{figure}} probe/{name}.svg",
            f":alt: {heading}",
            ":width: 100%",
        ]
        parts += ["", f"{heading}: {_sentences(name, rows)}.", "```", ""]
        if name in beside:
            parts += _guide_strip(name, beside[name], folder)
    (pages / "probe-example.txt").write_text("\n".join(parts), encoding="utf-8")


def _guide_strip(name, strip, folder):
    (folder / f"{name}-beside.svg").write_text(probe_beside.drawn(strip), encoding="utf-8")
    pages = " and ".join(f"[](/{page})" for page in strip.book)
    return [
        f"```{{figure}} probe/{name}-beside.svg",
        f":alt: {strip.said}",
        ":width: 100%",
        "",
        f"Beside the book's networks, a dot each: {pages}. Not the same measurement: {strip.not_comparable}.",
        "```",
        "",
    ]


def _frame(rows):
    """A table from JSON: columns without a number hold nan, which JSON does not have."""
    frame = pd.DataFrame(rows)
    empty = [name for name in frame if frame[name].isna().all()]
    return frame.astype(dict.fromkeys(empty, float))


def _drawn(name, rows):
    fig, ax = plt.subplots()
    {
        "filters": _filters,
        "features": _features,
        "tangent": _tangent,
        "curvature": _curvature,
        "slice": _slice,
        "deviation": _deviation,
    }[name](ax, rows)
    drawn = io.StringIO()
    fig.savefig(drawn, format="svg", metadata={"Date": None})
    plt.close(fig)
    return drawn.getvalue()


def _figure(name, svg, label, caption=""):
    svg = svg[svg.index("<svg") :]
    both = []
    for mode, text in (("light", svg), ("dark", style.darkened(svg))):
        text = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{name}-{mode}-", text)  # many figures in one page
        both.append(f'<div class="{mode}">{text}</div>')
    drawing = f'<div role="img" aria-label="{html.escape(label)}">{"".join(both)}</div>'
    return f"<figure>{drawing}{caption}</figure>"


def _strip(name, strip):
    """Where the reader's number lies beside the book's: a heading, the strip, and what to bear in mind."""
    pages = " and ".join(map(_link, strip.book))
    said = f"A dot is a network of the book's, the line is yours: {pages}. "
    said += f"Not the same measurement: {html.escape(strip.not_comparable)}."
    caption = f"<figcaption>{said}</figcaption>"
    figure = _figure(f"{name}-beside", probe_beside.drawn(strip), strip.said, caption)
    return f"<h3>Beside the book's networks</h3>{figure}"


def _filters(ax, rows):
    for who, part in _parts(rows):
        ax.plot(part["sigma"], part["tau"], "o-", ms=3, color=COLOURS[who], label=who)
    ax.set(
        xlabel="σ, standard deviation of patches along an eigenvector", ylabel="τ, of filters", xscale="log"
    )
    ax.legend()


def _features(ax, rows):
    part = rows[rows["network"] == "network"]
    layers = list(dict.fromkeys(part["layer"]))
    shown = (
        layers
        if len(layers) <= 6
        else [layers[i] for i in np.linspace(0, len(layers) - 1, 6).round().astype(int)]
    )
    for colour, layer in zip(plt.cm.viridis(np.linspace(0, 0.85, len(shown))), shown, strict=True):
        curve = part[part["layer"] == layer]
        ax.plot(curve["k"], curve["share"], color=colour, label=layer)
    ax.set(
        xlabel="k, top singular vectors of what the layer reads",
        ylabel="share of the labels",
        xscale="log",
        ylim=(0, 1.02),
    )
    ax.legend(fontsize=10)


def _tangent(ax, rows):
    for who, part in _parts(rows):
        ax.plot(part["depth"] + 1, part["alignment"], "o-", ms=4, color=COLOURS[who], label=who)
    ax.set(xlabel="layer, from the input", ylabel="alignment $A_l$", ylim=(0, None))
    ax.legend()


def _curvature(ax, rows):
    for shift, (who, part) in enumerate(_parts(rows)):
        ax.errorbar(
            part["index"] + 0.1 * shift,
            part["eigenvalue"],
            part["residual"],
            fmt="o",
            color=COLOURS[who],
            label=who,
        )
    ax.axhline(0, color="#7F7F7F", lw=0.8)
    ax.set(xlabel="index, by magnitude", ylabel="eigenvalue ± residual")
    ax.legend()


def _slice(ax, rows):
    for who, part in _parts(rows):
        ax.plot(part["alpha"], part["loss"], color=COLOURS[who], label=who)
    ax.set(xlabel="α, in lengths of each filter", ylabel="loss")
    ax.legend()


def _deviation(ax, rows):
    ax.plot(range(1, len(rows) + 1), rows["deviation"], "o-", ms=4)
    ax.set(xlabel="weight, from the input", ylabel="‖W − W₀‖", ylim=(0, None))
