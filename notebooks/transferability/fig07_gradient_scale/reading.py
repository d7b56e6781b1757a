"""How the gradient's size changes on its way back, and whether weights suppress its directions."""

import numpy as np

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, UNDECIDED, KeyNumber
from alignbook.over_seeds import across, at, curves, difference, first, last, sample, slope
from alignbook.statements import Statement, over
from alignbook.studies.transferability.by_seed import factor
from alignbook.studies.transferability.targets import STARTS, of_target, words
from alignbook.studies.transferability.wording import over_cases

MEASURES = {  # of a layer's gradient: columns of the table, and what they are
    "inputs": "by what the layer reads",
    "weights": "by the layer's weights",
    "weights_relative": "by the weights, times their norm",
}
READINGS = {  # of "projection of weight on the singular vectors of gradient"
    "both": "|u_i' W v_i|, on both singular vectors",
    "left": "‖u_i' W‖, on the one of the outputs",
    "right": "‖W v_i‖, on the one of the inputs",
}
LEADING = 0.1  # share of the singular vectors that lead
DECADES = "over seven convolutions 0.02 decades per layer are a third of the size"
TENTH = "a tenth of the size"


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


def decades(rows, column="inputs"):
    """By how many decades per convolution ``column`` grows towards the images, a sample: least squares."""
    return -slope(np.log10(profile(rows, column)))


def growth(rows):
    """log2 of the size of the gradient at the images over that at the last convolution, a sample."""
    found = np.log2(profile(rows))
    return first(found) - last(found)


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


def of_scale(measure, **given):
    """A statement's ``of``: :func:`apart` of the sizes before training."""
    return lambda t, p, targets: apart(rows_of(t, targets, "scale"), lambda rows: measure(rows, **given))


def later(table, parameters, targets):
    """Difference of the slopes after the last epoch measured; nothing where none is after the start."""
    steps = np.unique(of_target(table, targets)["step"].dropna())
    return apart(rows_of(table, targets, "scale", steps[-1]), decades) if len(steps) > 1 else None


def suppressed(reading):
    """A statement's ``of``: :func:`apart` of the leading projections."""
    return lambda t, p, targets: apart(rows_of(t, targets, "projection"), lambda rows: leading(rows, reading))


EACH = over("targets")
STATEMENTS = [
    Statement(
        "steeper", "On its way back to the images the gradient grows faster with random than with "
        "pre-trained weights: slope of log10 ‖∂L/∂X‖.", source="Figure 7(d), Section 4",
        of=of_scale(decades), above=0, matters=0.02, unit="decades per layer",
        because=DECADES, each=EACH, headline=True,
    ),
    Statement(
        "grows", "With random weights the gradient grows on its way back: slope of log10 ‖∂L/∂X‖.",
        source="Figure 7(d), Section 4", above=0, matters=0.02, unit="decades per layer", because=DECADES,
        of=lambda t, p, targets: pairs(rows_of(t, targets, "scale"), decades)["scratch"], each=EACH,
    ),
    Statement(
        "steadier", "The gradient's size differs less between the convolutions with pre-trained than with "
        "random weights: log2 of the largest over the smallest.", source="Figure 7(d), Section 4",
        of=of_scale(extent), above=0, matters=0.14, unit="of log2", because=TENTH, each=EACH, ours=True,
        post_hoc="the sizes at the two ends, judged before, had missed that the profile is U-shaped",
    ),
    Statement(
        "smaller", "In the middle layer the gradient is smaller with pre-trained weights: log2 of the ratio.",
        source="Figure 7(a)(b), Section 4", of=of_scale(size), above=0, matters=0.14, unit="of log2",
        because=TENTH, each=EACH,
    ),
    Statement(
        "narrower", "In the middle layer its size differs less from image to image with pre-trained weights: "
        "standard deviation of log10.", source="Figure 7(a)(b), Section 4", of=of_scale(spread), above=0,
        matters=0.02, unit="decades", because="a fifth of a bin of the histogram", each=EACH, ours=True,
    ),
    Statement(
        "shrunk", "Pre-trained weights multiply the leading directions of the gradient by the activations by "
        "less than the same weights in a random order do: log2 of the ratio in the middle layer.",
        source="Section 4", below=0, matters=0.14, unit="of log2", because=TENTH, each=EACH,
        of=lambda t, p, targets: against_shuffled(at(rows_of(t, targets, "activation"), start="pretrained")),
    ),
    *(
        Statement(
            f"suppressed-{reading}", "Pre-trained weights lie less than random ones in the leading singular "
            "directions of the middle layer's gradient by the weights: log2 of the ratio of leading to mean; "
            f"{said}.", source="Figure 7(c), Section 4", of=suppressed(reading), above=0, matters=0.14,
            unit="of log2", because=TENTH, each=EACH, ours=reading != "both",
        )
        for reading, said in READINGS.items()
    ),
    *(
        Statement(
            f"steeper-{column}", f"The same difference of slopes for the gradient {MEASURES[column]}.",
            source="Figure 7(d), Section 4", of=of_scale(decades, column=column), above=0, matters=0.02,
            unit="decades per layer", because=DECADES, each=EACH, ours=True,
        )
        for column in ("weights", "weights_relative")
    ),
    Statement(
        "steeper-later", "The same difference of slopes after the last epoch measured.",
        source="Figure 7(d), Section 4", of=later, above=0, matters=0.02, unit="decades per layer",
        because=DECADES, each=EACH, ours=True,
    ),
]  # fmt: skip

SAID = {
    HOLDS: "The gradient grows faster back through random than through pre-trained weights",
    CONTRADICTED: "The gradient grows faster back through pre-trained than through random weights",
    ABSENT: "The gradient grows as fast back through pre-trained as through random weights",
    UNDECIDED: "Whether the gradient grows faster back through random than pre-trained weights is undecided",
}
SHRUNK = {  # the paper's reason for it
    HOLDS: "Pre-trained weights shrink the leading directions, as the paper explains it.",
    CONTRADICTED: "Pre-trained weights enlarge the leading directions, against the paper's explanation.",
    ABSENT: "Pre-trained weights do not shrink the leading directions, which the paper has as the reason.",
    UNDECIDED: "Whether pre-trained weights shrink the leading directions, the paper's reason, is undecided.",
}
UNTESTED = "The paper's reason for it is not tested yet."


def finding(table, parameters, claims):
    """Whether it grows faster, and how much its size varies with either start; words follow the verdict."""
    names = parameters["targets"]
    said = over_cases(claims, [f"steeper-{name}" for name in names], SAID)
    sizes = 2 ** pairs(rows_of(table, names[0], "scale"), extent).mean()
    if said is None or sizes.isna().any():
        return "There is nothing to compare."
    reason = SHRUNK.get(claims[f"shrunk-{names[0]}"].outcome, UNTESTED)
    return (
        f"{said}. Between layers it varies {sizes['scratch']:.1f} times with random and "
        f"{sizes['pretrained']:.1f} times with pre-trained weights ({words(names[0])}). {reason}"
    )


def key_numbers(table, parameters):
    """How much the size varies between layers from either start, and how the last layers' sizes compare."""
    rows = rows_of(table, parameters["targets"][0], "scale")
    both = pairs(rows, extent)
    told = {
        f"largest over smallest gradient among the convolutions, {label}": both[start]
        for start, label in STARTS.items()
    }
    told["gradient at the last convolution, pre-trained over random weights"] = apart(
        rows, lambda part: -np.log2(last(profile(part)))
    )
    return [KeyNumber(what, factor(logs)) for what, logs in told.items() if len(logs)]
