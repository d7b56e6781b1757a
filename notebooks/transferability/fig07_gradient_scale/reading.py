"""How the gradient's size changes on its way back, and whether weights suppress its directions."""

import numpy as np
import pandas as pd

from companion.over_seeds import across, at, curves, difference, first, last, once, sample, slope, weakest
from companion.statements import Number, Statement, among
from companion.studies.transferability.shared.target_rows import of_target
from companion.studies.transferability.shared.targets import STARTS

READINGS = {  # of "projection of weight on the singular vectors of gradient"
    "both": "|u_i' W v_i|, on both singular vectors",
    "left": "‖u_i' W‖, on that of the outputs",
    "right": "‖W v_i‖, on that of the inputs",
}
LEADING = 0.1  # share of the singular vectors that lead


@once
def rows_of(table, target, kind, step=None):
    """The rows of one target and kind at a step, by default the first."""
    rows = at(of_target(table, target), kind=kind)
    return rows if rows.empty else at(rows, step=rows["step"].min() if step is None else step)


def convolutions(rows):
    """The rows without the head's.

    The mean over places before the head divides the gradient by the root of their number, whatever the
    weights.
    """
    return rows[rows["layer"] != "head"] if "layer" in rows else rows


def profile(rows, column="inputs"):
    """(seeds × convolutions) frame of ``column``, the images' end first."""
    return curves(convolutions(rows), "position", column)


def middle_of(rows):
    """The rows of the middle one of the convolutions."""
    rows = convolutions(rows)
    places = np.unique(rows["position"]) if len(rows) else []
    return at(rows, position=places[len(places) // 2]) if len(places) else rows


def half(lower):
    """:func:`decades` of the convolutions up to the middle one, or of those from it on, a measure of rows."""

    def of(rows):
        rows = convolutions(rows)
        places = np.unique(rows["position"]) if len(rows) else []
        middle = len(places) // 2
        return decades(at(rows, position=list(places[: middle + 1] if lower else places[middle:])))

    return of


def decades(rows, column="inputs"):
    """By how many decades per convolution ``column`` grows towards the images, a sample: least squares."""
    return -slope(np.log10(profile(rows, column)))


def extent(rows):
    """log2 of the largest over the smallest size among the convolutions, a sample; 0: the size stays."""
    found = np.log2(profile(rows))
    return found.max(axis=1) - found.min(axis=1) if len(found) else first(found)


def size(rows):
    """log2 of the size of the gradient in the middle layer, a sample."""
    return np.log2(sample(middle_of(rows), "inputs"))


def spread(rows):
    """By how many decades that size differs from image to image, a sample."""
    return sample(middle_of(rows), "spread")


def projections(rows, reading="both"):
    """(seeds × singular vectors) frame of the projections of the middle layer, over their mean."""
    found = curves(middle_of(rows), "index", reading)
    return found.div(found.mean(axis=1), axis=0) if len(found) else found


def leading(rows, reading="both"):
    """log2 of the mean projection on the leading singular vectors over that on all, a sample."""
    found = projections(rows, reading)
    return np.log2(_lead(found).mean(axis=1)) if len(found) else first(found)


def magnitude(rows, reading="both"):
    """log2 of the mean projection on the leading singular vectors itself, as the paper plots it, a sample."""
    found = curves(middle_of(rows), "index", reading)
    return np.log2(_lead(found).mean(axis=1)) if len(found) else first(found)


def against_shuffled(rows):
    """log2 of ‖u_i'W‖ over what the same weights in a random order give, mean of the leading directions.

    The u_i are those of the gradient by what the middle layer gives out; a sample.
    """
    left, shuffled = (curves(middle_of(rows), "index", column) for column in ("left", "shuffled"))
    if not len(left):
        return first(left)
    return (np.log2(_lead(left)) - np.log2(_lead(shuffled))).mean(axis=1)


def _lead(frame):
    return frame.iloc[:, : max(1, round(LEADING * frame.shape[1]))]


def pairs(rows, measure):
    """(seeds × starts) frame of a measure of the rows of each start; seeds without both are left out."""
    return across(rows, "start", list(STARTS), measure)


def apart(rows, measure):
    """A measure of random less that of pre-trained weights, a sample without infinite values."""
    both = pairs(rows, measure).replace([np.inf, -np.inf], np.nan)
    return difference(both["scratch"], both["pretrained"])


def ends(rows):
    """log10 of the size at the first convolution over that at the last, a sample."""
    found = np.log10(profile(rows))
    return difference(first(found), last(found))


def line(rows):
    """The same of the straight line fitted to log10 of the sizes, a sample."""
    return decades(rows) * (convolutions(rows)["position"].nunique() - 1) if len(rows) else decades(rows)


def over_targets(kind, measure):
    """A statement's ``of``: mean over the targets of ``measure(rows, …)``, before training, a sample."""

    def of(table, parameters, **given):
        parts = [measure(rows_of(table, name, kind), **given) for name in parameters["targets"]]
        return pd.concat(parts, axis=1).dropna().mean(axis=1)

    return of


def grows_more(table, parameters):
    """How much more the size grows through random weights, by the fitted line or the ends, as shows less."""
    parts = (over_targets("scale", lambda rows, way=way: apart(rows, way)) for way in (line, ends))
    return weakest(*(part(table, parameters) for part in parts))


suppressed = over_targets("projection", lambda rows: apart(rows, leading))


def of_start(measure):
    return lambda rows, start: pairs(rows, measure)[start]


each_start = among("start", STARTS)
LOG2 = {"matters": 0.14, "unit": "in log2", "because": "a tenth of the size"}
STATEMENTS = [
    Statement(
        "grows-more", "On its way back from the last convolution to the first, the gradient grows more "
        "through random than through pre-trained weights.",
        source="Figure 7(d), Section 4", of=grows_more, headline=True, above=0, matters=0.12, unit="decades",
        because="a third of the size",
    ),
    Statement(
        "stable", "Through pre-trained weights its size remains stable: largest over smallest.",
        source="Figure 7(d), Section 4", near=0, within=1.0, unit="in log2", because="a factor of two",
        of=over_targets("scale", lambda rows: pairs(rows, extent)["pretrained"]),
        post_hoc="at first we asked only whether it varies less than through random weights",
    ),
    Statement(
        "lower", "Especially in the lower half of the layers it grows more through random weights.",
        source="Section 4", of=over_targets("scale", lambda rows: apart(rows, half(True))), above=0,
        matters=0.02, unit="decades per layer", because="a third of the size over seven convolutions",
        post_hoc="added after the difference was seen, in other runs, to come from the upper half",
    ),
    Statement(
        "smaller", "In the middle layer the gradient is smaller with pre-trained weights.",
        source="Figure 7(a)(b), Section 4", of=over_targets("scale", lambda rows: apart(rows, size)), above=0,
        **LOG2,
    ),
    Statement(
        "narrower", "There its size also varies less across images, relative to itself.",
        source="Figure 7(a)(b), Section 4", of=over_targets("scale", lambda rows: apart(rows, spread)),
        above=0, matters=0.02, unit="decades", because="a fifth of a bin of the histogram",
    ),
    Statement(
        "suppressed", "In the middle layer, pre-trained weights lie less than random ones along the leading "
        "singular vectors of the weights' gradient.",
        source="Figure 7(c), Section 4", of=suppressed, above=0, **LOG2,
    ),
    Statement(
        "shrunk", "Pre-trained weights amplify the leading directions of the activations' gradient less than "
        "the same weights in a random order.",
        source="Section 4", below=0, ours=True,
        of=over_targets("activation", lambda rows: against_shuffled(at(rows, start="pretrained"))),
        post_hoc="added with its control by shuffled weights after the others had been judged", **LOG2,
    ),
]  # fmt: skip
NUMBERS = [
    Number(
        "fold", "first over last convolution", each=each_start,
        of=lambda t, p, start: 10 ** over_targets("scale", of_start(ends))(t, p, start=start),
    ),
    Number(
        "varies", "largest over smallest", each=each_start,
        of=lambda t, p, start: 2 ** over_targets("scale", of_start(extent))(t, p, start=start),
    ),
    Number(
        "along", "projection on the leading directions over the mean, pre-trained over random, middle layer",
        lambda t, p: 2 ** -suppressed(t, p),
    ),
]  # fmt: skip


def by_layer(table, parameters):
    """Tidy rows: log2 of leading over mean, random less pre-trained, by ``layer`` (from 1), target, seed."""
    rows = []
    for name in parameters["targets"]:
        found = rows_of(table, name, "projection")
        for n, layer in enumerate(found["layer"].unique(), 1):
            values = apart(at(found, layer=layer), leading).rename("difference").reset_index()
            rows.append(values.assign(layer=n, target=name))
    return pd.concat(rows, ignore_index=True)
