"""How the gradient's size changes on its way back, and whether weights suppress its directions."""

import numpy as np

from alignbook.claims import CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, KeyNumber, interval
from alignbook.over_seeds import across, at, curves, difference, first, last, sample, slope
from alignbook.statements import Statement
from alignbook.studies.transferability.by_seed import factor
from alignbook.studies.transferability.targets import LEARNED, STARTS, each, of_target, words
from alignbook.wording import IT, by_verdict, fitting, over_cases, sentences

from .design import BIN

MEASURES = {  # of a layer's gradient: columns of the table, and what they are
    "inputs": "with respect to the layer's input",
    "weights": "with respect to its weights",
    "weights_relative": "with respect to its weights, times their norm",
}
READINGS = {  # of "projection of weight on the singular vectors of gradient"
    "both": "|u_i' W v_i|, on both singular vectors",
    "left": "‖u_i' W‖, on that of the outputs",
    "right": "‖W v_i‖, on that of the inputs",
}
LEADING = 0.1  # share of the singular vectors that lead
SOURCE, SEEN = "cifar10", 10  # stored when the histograms' width on the absolute axis was looked at


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


def lower_half(table, parameters, step):
    """:func:`half` of the lower layers, random less pre-trained, without sign: the largest of any target."""
    found = [apart(rows_of(table, name, "scale", step), half(True)).mean() for name in parameters["targets"]]
    return max(map(abs, found))


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


def width(rows):
    """log2 of the standard deviation of the entries' magnitudes, from the histogram's bins, a sample."""
    counts = curves(rows, "decade", "count").fillna(0)
    if not len(counts):
        return first(counts)
    shares, middles = counts.div(counts.sum(axis=1), axis=0), 10 ** (counts.columns + BIN / 2)
    return np.log2(shares @ middles**2 - (shares @ middles) ** 2) / 2


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


def times_by_magnitude(table, parameters):
    """``2.1 to 2.4``: over the targets, :func:`magnitude` of pre-trained over random weights; "" of none."""
    logs = [apart(rows_of(table, name, "projection"), magnitude) for name in parameters["targets"]]
    times = [2 ** -found.mean() for found in logs if len(found)]
    return " to ".join(dict.fromkeys(f"{end:.1f}" for end in (min(times), max(times)))) if times else ""


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


def growth(rows):
    """Growth by the fitted slope from the last convolution to the first, mean over seeds, of each start."""
    steps = convolutions(rows)["position"].nunique() - 1 if len(rows) else 0
    return 10 ** (steps * pairs(rows, decades).mean())


def varied(rows):
    """Largest over smallest size along the convolutions, geometric mean over seeds, of each start."""
    return 2 ** pairs(rows, extent).mean()


def of_scale(measure):
    """A statement's ``of``: :func:`apart` of the sizes before training."""
    return lambda t, p, target: apart(rows_of(t, target, "scale"), measure)


RELEVANT = 0.02  # decades per layer
SLOPE = {
    "source": "Figure 7(d), Section 4", "above": 0, "matters": RELEVANT, "unit": "decades per layer",
    "because": "over seven convolutions 0.02 decades per layer are a third of the size",
    "each": each("targets", "target"), "requires": (LEARNED,),
}  # fmt: skip
SIZE = {
    "matters": 0.14, "unit": "in log2", "because": "a tenth of the size", "each": each("targets", "target"),
    "requires": (LEARNED,),
}  # fmt: skip
STATEMENTS = [
    Statement(
        "steeper", "The gradient grows faster on its way back to the images with random than with "
        "pre-trained weights: slope of log10 ‖∂L/∂X‖.", of=of_scale(decades), headline=True, **SLOPE,
    ),
    Statement(
        "steeper-lower", "In the lower half of the layers, too, the gradient grows faster with random "
        "weights: slope from the middle convolution to the first.", of=of_scale(half(True)), ours=True,
        post_hoc="added after the difference was seen, in other runs, to come from the upper half", **SLOPE,
    ),
    Statement(
        "grows", "The gradient grows on its way back with random weights: slope of log10 ‖∂L/∂X‖.", **SLOPE,
        of=lambda t, p, target: pairs(rows_of(t, target, "scale"), decades)["scratch"],
    ),
    Statement(
        "steadier", "The gradient's size differs less between the convolutions with pre-trained than with "
        "random weights: log2 of the largest over the smallest.", source="Figure 7(d), Section 4",
        of=of_scale(extent), above=0, ours=True, **SIZE,
        post_hoc="in other runs we first judged the sizes at the two ends, but the profile is U-shaped",
    ),
    Statement(
        "smaller", "In the middle layer the gradient is smaller with pre-trained weights: log2 of the ratio.",
        source="Figure 7(a)(b), Section 4", of=of_scale(size), above=0, **SIZE,
    ),
    Statement(
        "narrower", "In the middle layer the histogram of the entries' magnitudes is narrower with "
        "pre-trained weights, on the paper's absolute axis, where smaller entries alone make it so: log2 of "
        "the ratio of standard deviations.",
        source="Figure 7(a)(b), Section 4", above=0, ours=True, **SIZE,
        of=lambda t, p, target: apart(rows_of(t, target, "histogram"), width),
        post_hoc="the relative spread had been judged in its place, although the paper's axis is absolute; "
        "only other seeds are judged",
        seen=lambda p: SEEN if p["source"] == SOURCE else 0,
    ),
    Statement(
        "narrower-relative", "In the middle layer the gradient's size varies less across images with "
        "pre-trained weights, also relative to itself: standard deviation of log10.",
        source="Figure 7(a)(b), Section 4", of=of_scale(spread), above=0,
        matters=0.02, unit="decades", because="a fifth of a bin of the histogram", ours=True,
        each=each("targets", "target"), requires=(LEARNED,),
    ),
    Statement(
        "shrunk", "Pre-trained weights amplify the leading directions of the activations' gradient less than "
        "the same weights in a random order: log2 of the ratio in the middle layer.",
        source="Section 4", below=0, ours=True, **SIZE,
        of=lambda t, p, target: against_shuffled(at(rows_of(t, target, "activation"), start="pretrained")),
        post_hoc="added with its control by shuffled weights after the others had been judged, in other runs",
    ),
    Statement(
        "suppressed-both", "Pre-trained weights lie less than random ones along the leading singular vectors "
        f"of the middle layer's weight gradient: log2 of leading over mean; {READINGS['both']}.",
        source="Figure 7(c), Section 4", above=0, **SIZE,
        of=lambda t, p, target: apart(rows_of(t, target, "projection"), leading),
    ),
]  # fmt: skip

SAID = by_verdict(
    "Backwards, the gradient grows faster through random than pre-trained weights",
    "Backwards, the gradient grows faster through pre-trained than random weights",
    "Backwards, the gradient grows as fast through pre-trained as through random weights",
    "the back-propagated gradient grows faster through random weights",
)
LOWER = {outcome: f"In lower layers {words}" for outcome, words in IT.items()}
VECTORS = "along the gradient's leading directions (middle layer)"  # its singular vectors
PROJECTED = by_verdict(  # of pre-trained weights
    f"As the paper says, pre-trained weights lie less {VECTORS}",
    f"Against the paper, pre-trained weights lie more {VECTORS}",
    f"Against the paper, pre-trained weights lie as much {VECTORS}",
    undecided=f"Whether pre-trained weights lie less {VECTORS} is undecided",
    not_judged=f"Whether pre-trained weights lie less {VECTORS} is not judged",
)


def finding(table, parameters, claims):
    """Whether it grows faster, by how much, whether in the lower layers, too, or else why."""
    names = parameters["targets"]
    said = over_cases(claims, [f"steeper-{name}" for name in names], SAID)
    rows = rows_of(table, names[0], "scale")
    sizes = growth(rows)
    if said is None or sizes.isna().any():
        return "There is nothing to compare."
    lower, parts = [f"steeper-lower-{name}" for name in names], []
    if _too_small([claims[id] for id in lower]):
        parts.append("In lower layers the difference is smaller than we call relevant")
    elif [claims[id].outcome for id in lower] != [claims[f"steeper-{name}"].outcome for name in names]:
        parts.append(over_cases(claims, lower, LOWER))
    if cause := over_cases(claims, [f"suppressed-both-{name}" for name in names], PROJECTED):
        parts.append(cause)
    fold = f"{sizes['scratch']:.1f}-fold against {sizes['pretrained']:.1f}-fold on {words(names[0])}"
    kept = varied(rows)
    varies = f"Through pre-trained weights it still varies {kept['pretrained']:.1f}-fold "
    varies += f"(random: {kept['scratch']:.1f})"
    told = ([*parts, varies], parts, [varies, *parts[-1:]], [varies], ["our network is small"])
    return fitting(*(sentences(f"{said}: {fold}", *some) for some in told))


def _too_small(claims):
    """Whether some of the ``claims`` are told apart from 0, and all lie closer to it than what matters."""
    outcomes = {claim.outcome for claim in claims}
    if outcomes & {NOT_JUDGED, NOT_RUN} or not outcomes & {HOLDS, CONTRADICTED}:
        return False
    return all(abs(claim.measured) < claim.matters for claim in claims)


def key_numbers(table, parameters):
    """How the last layers' sizes compare, and how fast the size grows in either half of the layers."""
    rows = rows_of(table, parameters["targets"][0], "scale")
    ends = apart(rows, lambda part: -np.log2(last(profile(part))))
    both = " / ".join(f"{size:.1f}" for size in varied(rows)[["scratch", "pretrained"]])
    told = {
        "largest over smallest size of the gradient, random / pre-trained": both,
        "gradient at the last convolution, pre-trained over random weights": factor(ends),
    }
    what = "growth per convolution in the lower half, random less pre-trained (powers of ten; we call "
    what += f"{RELEVANT:g} relevant)"
    told[what] = interval(apart(rows, half(True)), "{:.3f}")
    return [KeyNumber(what, here) for what, here in told.items()] if len(ends) else []
