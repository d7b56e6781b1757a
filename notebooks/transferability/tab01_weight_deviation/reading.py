"""Whether weights move farther where the test error is larger, and how they move."""

from functools import cache

import numpy as np
import pandas as pd

from companion.over_seeds import at, curves, difference, last, rank_correlation, weakest
from companion.runs import notebooks
from companion.runs.run import most_faithful
from companion.statements import Case, Number, Statement, among
from companion.studies.transferability.shared import imagenet_rows
from companion.studies.transferability.shared.deviations import ends, others_less_near, printed, series
from companion.studies.transferability.shared.targets import CLASSES, STARTS

SETTINGS = {"fine-tuned": "all layers", "fixed": "last layer"}  # and the weights that the paper follows in it
GRANULARITY = "transferability/appB3_granularity"  # whose runs have nine targets of equal size in every seed
PROPORTIONAL = 0.5  # smallest deviation per test error over the largest: above, we call them proportional


def final(end, column):
    """(seeds × targets) frame of ``column`` of rows of :func:`ends`; only seeds that have every target."""
    return curves(end, "target", column).dropna()


def ordering(end):
    """Rank correlation, over targets, of deviation and test error, a sample."""
    return rank_correlation(final(end, "deviation"), final(end, "test_error"))


def proportion(end):
    """Smallest deviation per percent of test error over the largest, a sample: 1 where proportional."""
    errors = final(end, "test_error")
    found = (final(end, "deviation") / errors.where(errors > 0)).dropna()
    return found.min(axis=1) / found.max(axis=1) if found.shape[1] > 1 else pd.Series(dtype=float)


def apart(end, column):
    """Largest over smallest ``column`` of the targets, a sample."""
    values = final(end, column)
    return values.max(axis=1) / values.min(axis=1)


def smallest_rise(rows):
    """The smallest rise from record to record, in percent of the end, over all targets: a sample."""
    found = {}
    for name, part in rows.groupby("target"):
        frame = curves(part, "step", "deviation")
        found[name] = 100 * frame.diff(axis=1).min(axis=1) / last(frame)
    return pd.DataFrame(found, dtype=float).dropna().min(axis=1)


def farther(end):
    """Mean log2 deviation of the other targets less that of those cut from CIFAR, a sample."""
    return others_less_near(np.log2(final(end, "deviation")))


def rows_of(table, setting, source="own"):
    """:func:`series` of our own source, or of EfficientNet-Lite0 from ImageNet's weights ("imagenet")."""
    part = imagenet_rows.trained if source == "imagenet" else imagenet_rows.own
    return series(part(table), setting)


def five(table, setting):
    """The last row of each of our own targets and seeds."""
    return ends(rows_of(table, setting))


def ten_classes(table, setting):
    """From ImageNet's weights, the targets of ten classes alone: CIFAR-10 and grey images."""
    end = ends(rows_of(table, setting, "imagenet"))
    return end[[CLASSES[name] == 10 for name in end["target"]]]


def nine(table, start="pretrained"):
    """Of Appendix B.3's runs the last rows of a start, with a column ``target``: nine in every seed.

    Each target has five classes and 500 images; every seed draws other classes. None beside an empty table.
    """
    rows = _granularity()
    if not len(table) or rows is None:
        return pd.DataFrame({"target": [], "seed": [], "deviation": [], "test_error": []})
    rows = at(rows, start=start)
    return rows.assign(target=rows["kind"] + " " + rows["draw"].astype(int).astype(str))


@cache
def _granularity():
    run = most_faithful(notebooks.find(GRANULARITY))
    return None if run is None else run.table


def more_than_scratch(table, parameters):
    return difference(ordering(nine(table)), ordering(nine(table, "scratch")))


each_setting = among("setting", {setting: f"{setting}, {said}" for setting, said in SETTINGS.items()})


def nearer(table, parameters, source, settings):
    """:func:`farther` of a source, in whichever of the settings shows less."""
    rows = five if source == "own" else ten_classes
    return weakest(*(farther(rows(table, setting)) for setting in settings))


def each_source(parameters):
    own = Case("own", "own source, 30 against 10 classes", {"source": "own", "settings": [*SETTINGS]})
    words = "ImageNet's weights, 10 classes each"
    return [own] + [
        Case(f"imagenet-{setting}", f"{words}, {setting}", {"source": "imagenet", "settings": [setting]})
        for setting in SETTINGS
    ]


def each_start(parameters):
    return [Case(start, "", {"start": start}) for start in STARTS]


def printed_in(measure):
    """The same measure of the printed table."""
    return lambda p, setting="fine-tuned": float(measure(printed(setting).assign(seed=0)).iloc[0])


LATER = "these runs, made for Appendix B.3, were read for it after the rule had been applied to five targets"
STATEMENTS = [
    Statement(
        "ordering", "The deviation orders targets of equal size like their test errors (rank correlation).",
        source="Section 3, Table 1", of=lambda t, p: ordering(nine(t)), above=0, matters=0.1, bounds=(-1, 1),
        because="a few swaps of neighbours among nine targets", headline=True, post_hoc=LATER,
    ),
    Statement(
        "more-than-scratch", "It does so more in pre-trained networks than in those from random weights.",
        source="Section 3", of=more_than_scratch, above=0, matters=0.1, because="as for the correlation",
        ours=True, post_hoc=LATER,
    ),
    Statement(
        "proportional", "The deviation of nine targets of equal size is approximately proportional to the "
        "test error: smallest deviation per error over the largest.",
        source="Section 3", above=PROPORTIONAL, matters=0.05, unit="of the largest", bounds=(0, 1),
        because="a tenth of the factor of two that we allow", of=lambda t, p: proportion(nine(t)),
        paper=printed_in(proportion), opposed_by="the printed deviations per test error (Table 1) differ by "
        f"factors of {1 / printed_in(proportion)(None, 'fixed'):.0f} and "
        f"{1 / printed_in(proportion)(None, 'fine-tuned'):.0f}",
    ),
    Statement(
        "monotone", "On every target the deviation grows monotonically: smallest rise between two records.",
        source="Section 3, Figure 2", above=0, matters=0.001, unit="% of the final deviation",
        of=lambda t, p: weakest(*(smallest_rise(rows_of(t, setting)) for setting in SETTINGS)),
        because="less is rounding of the weights",
    ),
    Statement(
        "nearer", "Targets that look more like the source deviate less: grey or rendered images against "
        "photographs.",
        source="Section 3, Figure 2", above=0, matters=0.14, unit="in log2", each=each_source,
        because="a tenth of the deviation", of=nearer,
    ),
]  # fmt: skip
NUMBERS = [
    Number(
        "rank", "rank correlation over our five targets", lambda t, p, setting: ordering(five(t, setting)),
        each=each_setting, paper=printed_in(ordering), bounds=(-1, 1),
    ),
    Number(
        "nine", "rank correlation over nine targets", lambda t, p, start: ordering(nine(t, start)),
        each=each_start, bounds=(-1, 1),
    ),
    Number("errors", "largest over smallest error", lambda t, p: apart(nine(t), "test_error")),
    Number("deviations", "largest over smallest deviation", lambda t, p: apart(nine(t), "deviation")),
]  # fmt: skip
