"""Where a probed network lies beside the book's: strips of numbers that the book's results store.

The numbers come with the package in ``probe_beside.json``, so that a report needs no results at hand.
``python -m alignbook.pages.probe_beside`` takes them from the stored results anew; a test compares the two.
"""

import functools
import json
import math
import re
from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter

from alignbook import system
from alignbook.errors import AlignbookError
from alignbook.pages import style
from alignbook.runs import engine, notebooks, parameters, results

STORED = Path(__file__).with_name("probe_beside.json")
NONE = "This installation comes without the book's numbers: there is nothing to compare with."
FILTERS, PEAK = "random_labels/fig02_misalignment", "signal_propagation/fig03_peak_law"
CURVATURE, DEVIATION = "transferability/fig03_flat_minima", "transferability/tab01_weight_deviation"
ONE = "synthesis/one_network"
TASKS = {"real": "real labels", "random": "random labels", "fine-tuned": "random → real labels"}
KINDS = {"convolutional": "conv", "dense": "dense"}
DEPTHS = ((10, 10), (20, 30), (40, 60), (70, 100))  # layers, from and to
SETS = {
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "fashion_mnist": "Fashion-MNIST",
    "mnist": "MNIST",
    "shapes": "shapes",
}
STARTS = {"pretrained": "pre-trained", "scratch": "from scratch"}
MARKS = {"before": (style.SEQUENCE[1], "--", "before"), "network": (style.SEQUENCE[0], "-", "yours")}


@dataclass(frozen=True)
class Strip:
    """One comparison.

    here : {"network": number, "before": number where there is one}; book : {page: {what networks: numbers}};
    quantity, and what makes the two ``not_comparable``: plain text. log : whether factors are what counts.
    """

    quantity: str
    here: dict
    book: dict
    not_comparable: str
    log: bool = False

    @property
    def groups(self):
        """[(what networks, numbers)], of all pages."""
        return [item for groups in self.book.values() for item in groups.items()]

    @property
    def said(self):
        """Plain text: the reader's number and the range of each group."""
        here = ", ".join(f"{shown(self.here[who])} {MARKS[who][2]}" for who in MARKS if who in self.here)
        book = "; ".join(f"{name} {_range(values)}" for name, values in self.groups)
        return f"{self.quantity}: {here}. In the book: {book}."

    def as_dict(self):
        return asdict(self)


def shown(value):
    """A number in few characters."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


def _range(values):
    low, high = shown(min(values)), shown(max(values))
    return low if low == high else f"{low} to {high}"


def strips(probe):
    """{instrument: :class:`Strip`} of those that were measured and have something to be held against."""
    book, found = stored(), {}
    for name, (quantity, log, here, apart) in COMPARISONS.items():
        if name not in probe.tables or name not in book or (probe.layers and name in OF_ALL):
            continue
        rows = probe.tables[name]
        parts = dict(list(rows.groupby("network"))) if "network" in rows else {"network": rows}
        numbers = {who: float(here(part)) for who, part in parts.items()}
        numbers = {who: v for who, v in numbers.items() if math.isfinite(v) and (v > 0 or not log)}
        if "network" in numbers:
            n = probe.examples.get(name, probe.network["network"]["examples"])
            why = apart.format(n=n, **book[name]["facts"])
            found[name] = Strip(quantity, numbers, book[name]["pages"], why, log)
    return found


@functools.cache
def stored():
    """{instrument: {facts: …, pages: {page: {what networks: [numbers]}}}}, as packaged; {} without it."""
    try:
        return json.loads(STORED.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def drawn(strip):
    """SVG: a row of dots for each group of the book's networks, the reader's number as a line across."""
    groups = strip.groups
    fig, ax = plt.subplots(figsize=(7.0, 1.3 + 0.34 * len(groups)))
    grey = style.COLOURS["random basis"]
    for row, (_, values) in enumerate(groups):
        ax.plot(values, np.full(len(values), row), "o", color=grey, ms=7, alpha=0.6, mec="none")
    for who in (w for w in MARKS if w in strip.here):
        colour, line, name = MARKS[who]
        label = f"{name}: {shown(strip.here[who])}"
        ax.axvline(strip.here[who], color=colour, ls=line, lw=2.5, zorder=1, label=label)
    if strip.log:
        ax.set_xscale("log")
        low, high = ax.get_xlim()
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 30 * low else (1,)))
        ax.xaxis.set_major_formatter(lambda value, _: shown(value))
        ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set(ylim=(len(groups) - 0.4, -0.6), yticks=range(len(groups)), xlabel=strip.quantity)
    ax.set_yticklabels([name for name, _ in groups])
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    fig.legend(loc="outside upper center", ncols=2)
    text = style.svg(fig)
    plt.close(fig)
    return text


def _ratio(rows):
    return rows["misalignment"].iloc[0] / rows["random_bases"].iloc[0]


def _last_features(rows):
    """Of what the last layer reads, on ten singular vectors."""
    hidden = rows[(rows["layer"] != "(output)") & (rows["k"] == 10)]
    return math.nan if hidden.empty else hidden.loc[hidden["depth"].idxmax(), "share"]


def _place(alignment):
    """Where the largest of a network's values lies, in percent from input to output."""
    values = np.asarray(alignment, dtype=float)
    if not np.isfinite(values).any():
        return math.nan
    return 100 * (np.nanargmax(values) + 0.5) / len(values)


OF_ALL = {"features", "tangent", "deviation"}  # what the numbers are of: all layers
COMPARISONS = {  # instrument: (quantity, log, from the reader's rows, what makes it not comparable)
    "filters": (
        "misalignment over that with random bases",
        False,
        _ratio,
        "other data, another number of filters, patches of another size",
    ),
    "features": (
        "labels' share on ten singular vectors, last layer",
        False,
        _last_features,
        "labels that have nothing to do with the features reach about ten over the number of examples, which "
        "is {n:,} here and {examples:,} in the book, whose examples are training images",
    ),
    "tangent": (
        "place of the largest Aₗ, % of the layers",
        False,
        lambda rows: _place(rows["alignment"]),
        "the book's networks of ten and more layers are fully connected, and in a network of few layers "
        "places are coarse",
    ),
    "curvature": (
        "magnitude of the top eigenvalue",
        True,
        lambda rows: abs(rows["eigenvalue"].iloc[0]),
        "it grows with the scale of the loss and depends on how far training went and on the examples: {n:,} "
        "here, {examples:,} training images in the book",
    ),
    "deviation": (
        "sum of ‖W − W₀‖ over the layers",
        True,
        lambda rows: rows["deviation"].sum(),
        "it grows with width, depth and the steps taken; the book's are ResNets of width {width}, trained on "
        "{examples:,} images from weights of another task",
    ),
}


def collect():
    """The book's numbers, from the stored results: what ``probe_beside.json`` holds.

    Raises AlignbookError where results of one of the pages are missing.
    """
    one = _stored(ONE, "")
    filters = _stored(FILTERS, "real-seed|random-seed")
    spectra = _stored(CURVATURE, ".*-spectrum-")
    tuned = _stored(DEVIATION, "(cifar10|fashion_mnist|mnist|shapes)-fine-tuned-")
    return {
        "filters": _entry(
            {
                FILTERS: _grouped(
                    filters,
                    lambda given: f"{given['filters']} filters, {TASKS[given['labels']]}",
                    lambda table, _: _ratio(_scores(table)),
                ),
                ONE: _ends(one, lambda row: row["misalignment"] / row["random_bases"], ("convolutional",)),
            }
        ),
        "features": _entry(
            {ONE: _ends(one, lambda row: row["features"])}, examples=_of(one, "feature_images")
        ),
        "tangent": _entry(
            {
                PEAK: _grouped(
                    _stored(PEAK, ".*-tables-"), _layers, lambda table, _: _place(table["alignment"])
                ),
                ONE: _ends(one, _peak, ("convolutional",)),
            }
        ),
        "curvature": _entry(
            {
                CURVATURE: _grouped(
                    spectra,
                    lambda given: f"{SETS[given['dataset']]}, {STARTS[given['start']]}",
                    lambda table, _: abs(table["eigenvalue"].iloc[0]),
                ),
            },
            examples=_of(spectra, "images"),
        ),
        "deviation": _entry(
            {
                DEVIATION: _grouped(
                    tuned,
                    lambda given: f"fine-tuned on {SETS[given['dataset']]}",
                    # The table's is divided by the root of the number of examples.
                    lambda table, given: table["deviation"].iloc[-1] * given["examples"] ** 0.5,
                )
            },
            width=_of(tuned, "width"),
            examples=_of(tuned, "examples"),
        ),
    }


def _stored(name, pattern):
    """The stored jobs whose names begin with ``pattern``, of the most faithful profile that has them all."""
    notebook = notebooks.find(name)
    for profile in engine.FAITHFUL:
        jobs = engine.jobs_of(notebook, parameters.resolve(notebook, profile))
        jobs = [job for job in jobs if re.match(pattern, job.name)]
        found = [results.fetch(job) for job in jobs if results.exists(job)]
        if jobs and len(found) == len(jobs) and None not in found:
            return [item for item in found if item.table is not None and len(item.table)]
    raise AlignbookError(f"{name} has no stored results")


def _entry(pages, **facts):
    rounded = {
        page: {name: [float(f"{v:.4g}") for v in values] for name, values in groups.items()}
        for page, groups in pages.items()
    }
    return {"facts": facts, "pages": rounded}


def _of(items, argument):
    """The argument's value, which all jobs share."""
    (value,) = {item.job.arguments[argument] for item in items}
    return value


def _grouped(items, label, measure):
    """{label of the arguments: [what is measured in each table]}."""
    found = {}
    for item in items:
        value = measure(item.table, item.job.arguments)
        if math.isfinite(value):
            found.setdefault(label(item.job.arguments), []).append(value)
    return found


def _ends(items, measure, kinds=tuple(KINDS)):
    """{kind of network, task: [what is measured in the last row of each run]}."""
    found = {f"{KINDS[kind]}, {task}": [] for kind in kinds for task in TASKS.values()}
    for item in items:
        kind = item.job.arguments["network"]
        for task, rows in item.table.groupby("task"):
            if kind in kinds:
                found[f"{KINDS[kind]}, {TASKS[task]}"].append(measure(rows.iloc[-1]))
    return found


def _peak(row):
    return _place([row[name] for name in row.index if name.startswith("tangent")])


def _scores(table):
    last = table[table["kind"] == "score"].iloc[[-1]]
    return last.rename(columns={"basis_mean": "random_bases"})


def _layers(given):
    low, high = next(pair for pair in DEPTHS if given["depth"] <= pair[1])
    return f"{low} layers" if low == high else f"{low} to {high} layers"


if __name__ == "__main__":
    system.replace(STORED, (json.dumps(collect(), indent=1, ensure_ascii=False) + "\n").encode())
    print(STORED)
