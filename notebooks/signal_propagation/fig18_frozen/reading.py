"""Whether alignments change though all layers but the last are frozen, and how accurate such networks are."""

import math
from pathlib import Path

import pandas as pd

from companion.over_seeds import at, curves, difference, first, last, sample
from companion.statements import Case, Number, Statement, among, least

# Table 4 (MNIST, 10 layers): the largest training and test accuracies by width, percent
PRINTED = pd.read_csv(Path(__file__).with_name("printed.csv")).set_index("width")
CHANGE = 0.1  # ours: the paper calls the change "non-trivial"; fixed before any result was seen


def nets(table, all_images, kind="net"):
    """Rows of networks of one kind on all images or on a part of them; empty where there are none."""
    rows = at(table, kind=kind)
    return rows[(rows["train_images"] == 0) == all_images] if len(rows) else rows


def accuracies(table, column, all_images=False):
    """(seeds × widths) frame of one column at noise scale 1; empty where there is none."""
    rows = at(nets(table, all_images), noise=1).drop_duplicates(["width", "seed"])
    return curves(rows.astype({"width": int}), "width", column) if len(rows) else pd.DataFrame()


def of_width(table, column, width, all_images):
    """One width of :func:`accuracies`, by seed; empty where it was not computed."""
    frame = accuracies(table, column, all_images)
    return frame[width].dropna() if width in frame else pd.Series(dtype=float)


def unfrozen(table, column, all_images=False):
    """One column of the networks trained whole, by seed."""
    return sample(nets(table, all_images, "unfrozen"), column)


def limit(table, column):
    """``ridge_train`` or ``ridge_test`` of the infinitely wide network, by seed."""
    return sample(at(table, kind="limit"), column)


def largest(table, parameters, width, column="test"):
    """The largest accuracy during training, by seed; where none was recorded, the one at the end."""
    passed = sample(at(table, kind="maxima", width=width), f"{column}_accuracy")
    return passed if len(passed) else of_width(table, f"{column}_accuracy", width, True)


def behind(table, parameters, width, all_images):
    """Test accuracy of the network trained whole less the better of a frozen one's two, points by seed."""
    both = [of_width(table, column, width, all_images) for column in ("test_accuracy", "ridge_test")]
    best = pd.concat(both, axis=1).dropna().max(axis=1)
    return difference(unfrozen(table, "test_accuracy", all_images), best)


def wider(table, parameters, column):
    """Accuracy of the widest frozen network less that of the narrowest, points by seed."""
    frame = accuracies(table, f"{column}_accuracy")
    return difference(last(frame), first(frame)) if frame.shape[1] > 1 else None


def layers(table, noise, column="alignment"):
    """(seeds × layers) frame of the alignments on all images at one noise scale; empty where none."""
    rows = at(nets(table, True), noise=noise)
    if rows.empty:
        return pd.DataFrame()
    return curves(rows[rows["width"] == rows["width"].min()].astype({"layer": int}), "layer", column)


def of_hidden(table, noise, change):
    """``change(after, before)`` of the alignments, mean over the hidden layers 1 … L - 1, by seed."""
    after, before = (layers(table, noise, name) for name in ("alignment", "alignment_init"))
    return change(after, before).iloc[:, :-1].mean(axis=1).dropna()


def changes(table, parameters, noise):
    """|A_l after / A_l before - 1| of the hidden layers, by seed."""
    return of_hidden(table, noise, lambda after, before: (after / before - 1).abs())


def before(table, parameters):
    """Mean alignment of the hidden layers before training, which is that of every noise scale."""
    frames = [layers(table, noise, "alignment_init") for noise in parameters["noise_scales"]]
    means = [frame.iloc[:, :-1].mean(axis=None) for frame in frames if len(frame)]
    return float(sum(means) / len(means)) if means else math.nan


def off_centre(table, noise):
    """Distance of the mean layer, weighted by its alignment, from the middle of all layers, by seed."""
    frame = layers(table, noise).dropna()
    if frame.empty:
        return pd.Series(dtype=float)
    mean = (frame * frame.columns).sum(axis=1) / frame.sum(axis=1)
    return (mean - (frame.columns.max() + 1) / 2).abs()


def centred(table, parameters):
    """How much nearer to the middle it lies with the least noise than with the most, by seed."""
    low, high = min(parameters["noise_scales"]), max(parameters["noise_scales"])
    return difference(off_centre(table, high), off_centre(table, low))


def noises(parameters):
    return [Case(f"{s:g}", f"noise scale {s:g}", {"noise": s}) for s in parameters["noise_scales"]]


def table_4(parameters):
    """A case per width that was asked for and that Table 4 prints, on its images."""
    return [
        Case(f"{width}", f"width {width}", {"width": width})
        for width in parameters["all_images_widths"]
        if width in PRINTED.index and parameters["dataset"] == "mnist"
    ]


def beside(parameters):
    """A case per width of frozen networks, on a part of the images and on all."""
    whole = f"unfrozen at width {parameters['unfrozen_width']} against"
    some, every = ("widths", "", "a subset of the images"), ("all_images_widths", "-all", "all images")
    return [
        Case(f"{w}{end}", f"{whole} {w}, {on}", {"width": w, "all_images": bool(end)})
        for name, end, on in (some, every)
        for w in parameters[name]
    ]


POINTS = {
    "above": 0, "matters": 0.5, "unit": "points",
    "because": "Table 4 prints tenths, and its neighbouring widths differ by whole points",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "evolves",
        "Though all layers but the last are frozen, the hidden layers' alignments change by over a tenth: "
        "the noise scale with which they change least.",
        source="Figure 18, Appendix F", of=least(changes, noises), above=CHANGE, matters=0.02,
        unit="of the alignment before", because="a fifth of our threshold",
        bounds=(0, math.inf), headline=True,
    ),
    Statement(
        "wider", "Frozen networks become more accurate with width, on training and on test images.",
        source="Table 4",
        of=least(wider, among("column", {"train": "train images", "test": "test images"})), **POINTS,
    ),
    Statement(
        "behind",
        "An unfrozen network classifies more test images correctly than a frozen one (SGD or least "
        "squares): the width that comes nearest.",
        source="Table 4, caption", of=least(behind, beside), **POINTS,
    ),
    Statement(
        "centre", "Less noise in the last layer moves the alignment-weighted mean layer towards the centre.",
        source="Figure 18, caption", of=centred, above=0, matters=0.05, unit="layers",
        because="a twentieth of a layer cannot be seen in the figure", ours=True,
        post_hoc="the layer of largest alignment is the same at every noise scale in all seeds",
    ),
    Statement(
        "printed", "One of our runs could have given the largest test accuracy that the paper prints.",
        source="Table 4", of=largest, one_run=lambda p, width: PRINTED["test"][width], unit="%",
        each=table_4, bounds=(0, 100),
    ),
]  # fmt: skip
NUMBERS = [
    Number("before", "mean alignment of the hidden layers before training", before),
    Number("limit", "test accuracy at infinite width (%)", lambda t, p: limit(t, "ridge_test")),
    Number("change", "change of the hidden layers' alignments", changes, each=noises),
]
