"""How three representations align, and how fast linear models learn on them (Figures 1 and 5)."""

import math
from functools import partial

import numpy as np

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import at, curves, verdict
from alignbook.statements import Requirement, Statement
from alignbook.wording import fitting, opening, unmet

from .. import step_sizes
from ..curve_order import LARGER
from .design import NAMES, OTHER

FITTED = 1e-10  # of the labels' mean square: what least squares may leave of labels that it fits
LOG_RATIO = math.log(1.1)  # a tenth: a smaller ratio of two errors does not matter
PRINTED_POINTS = 1000  # Section 3
ERROR = 0.01  # of the labels' mean square: a smaller difference of two errors does not matter
PRINTED_START = 200.0  # ‖y‖² of these (Section 4.2)
PRINTED_TAU = 8.0  # "about 8": where most of the ReLU network's alignment is still there (Section 4.2)
PRINTED_SHARE = PRINTED_TAU / math.sqrt(PRINTED_POINTS)  # the same over √n


def areas(table):
    """(seeds × representations) frame of areas under the alignment curves; empty where there are none."""
    return curves(at(table, kind="area"), "representation", "area")


def alignment(table, representation):
    """(seeds × thresholds over √n) frame of a representation's alignment over ‖y‖²."""
    return curves(at(table, kind="curve", representation=representation), "threshold", "alignment")


def squares(table):
    """The labels' mean square by seed."""
    return at(table, kind="area").groupby("seed")["square"].first()


def at_best(table):
    """The rows of kind ``step`` at each representation's best step size."""
    steps = at(table, kind="step")
    return step_sizes.at_best(steps, step_sizes.best(steps, ["representation"]))


def errors(table, step, column):
    """(seeds × representations) frame of ``train_error`` or ``test_error`` after ``step`` steps (None: the
    last), over the labels' mean square."""
    rows = at_best(table)
    rows = at(rows, step=rows["step"].max() if step is None else step)
    return curves(rows, "representation", column).div(squares(table), axis=0)


def early(parameters):
    """The step at which errors are compared."""
    return min(parameters["early"], parameters["iterations"])


def margins(frame, rbf="rbf"):
    """How much the larger of two neighbours in the printed order is ahead, least of both, by seed."""
    return np.minimum(frame["relu"] - frame[rbf], frame[rbf] - frame["dictionary"])


def ahead(frame):
    """How much the ReLU network lies above the larger of the others, by seed."""
    return frame["relu"] - frame[["rbf", "dictionary"]].max(axis=1)


def nearer(frame, rbf="rbf"):
    """How much nearer the RBF network's area is to the dictionary's than to the ReLU network's, by seed."""
    return (frame["relu"] - frame[rbf]).abs() - (frame[rbf] - frame["dictionary"]).abs()


def other_bandwidth(table, parameters):
    """Area and early errors of the RBF network of the other bandwidth beside the ReLU network's, in words."""
    means = [areas(table).mean()]
    means += [errors(table, early(parameters), column).mean() for column in ("train_error", "test_error")]
    if any(OTHER not in found or "relu" not in found for found in means):
        return ""
    area, train, test = ([found[name] for name in (OTHER, "relu")] for found in means)
    said = (
        f"At bandwidth {parameters['other_bandwidth']:g} the RBF network has an area of {area[0]:.2f}, where "
        f"the ReLU network has {area[1]:.2f}; after {early(parameters)} steps its training error is "
        f"{train[0]:.2g} beside {train[1]:.2g}, and its test error {test[0]:.2g} beside {test[1]:.2g}."
    )
    if area[0] < area[1] and train[0] < train[1]:
        slight = train[1] - train[0] <= ERROR
        apart = f"training errors differ by less than our margin of {ERROR:g}"
        apart = apart if slight else "RBF network is ahead"
        said += (
            f" The {apart}, although the RBF network's features align less by area: the area alone does not "
            "say how fast labels are learned."
        )
    return said


def always_first(table):
    """Whether the ReLU network has the least mean errors after every stored step but 0, prose; or nothing."""
    rows = at_best(table)
    rows = rows[rows["representation"].isin(list(NAMES)) & (rows["step"] > 0)]
    means = rows.groupby(["step", "representation"])[["train_error", "test_error"]].mean().unstack()
    kinds = {"train_error": "training", "test_error": "test"}
    first = [
        words for column, words in kinds.items()
        if {*NAMES} <= set(means[column]) and (means[column].idxmin(axis=1) == "relu").all()
    ]  # fmt: skip
    said = " and ".join(first)
    return f"The ReLU network has the lowest mean {said} error at every step in the figure." if first else ""


def kept(table, parameters):
    """Alignment of the ReLU network over ‖y‖² at the stored threshold next to the printed one, by seed."""
    found = alignment(table, "relu")
    return found[min(found, key=lambda stored: abs(stored - PRINTED_SHARE))] if len(found) else None


def unfitted(table, parameters, names=tuple(NAMES)):
    """What least squares leaves of the labels' mean square, in the worst run of these representations."""
    return at(table, kind="area", representation=list(names))["unfitted"].max()


FITS = "share of the labels' mean square that least squares leaves, in the worst run and representation"
FITTING = Requirement(FITS, unfitted, at_most=FITTED)
OTHER_FITS = Requirement(FITS, lambda t, p: unfitted(t, p, [*NAMES, OTHER]), at_most=FITTED)
fits = {"requires": (FITTING,)}
other = {"requires": (OTHER_FITS,), "ours": True}  # of another bandwidth of the RBF network
RATIO = "the verdict is the same for the difference of the errors and for their ratio"


def by_errors(margin, column, last=False, need=FITTING):
    """A statement on errors early on, or after the last step: by how much one of them is smaller.

    margin : of (seeds × representations) frames, the larger the better
    """

    def of(table, parameters):
        return margin(-errors(table, None if last else early(parameters), column))

    def same(table, parameters):
        found = errors(table, None if last else early(parameters), column)
        logs = np.log(found.clip(lower=np.finfo(float).tiny))
        return verdict(margin(-found), ERROR) == verdict(margin(-logs), LOG_RATIO)

    return {
        "of": of, "requires": (need, Requirement(RATIO, same)), "above": 0, "matters": ERROR,
        "unit": "of the labels' mean square", "because": "a hundredth of the labels' mean square",
    }  # fmt: skip


LATE = "chosen after runs at other settings had shown the order after the last step"
ADDED = "the statement was added after runs at other settings"
other_margins = partial(margins, rbf=OTHER)

STATEMENTS = [
    Statement(
        "relu-fastest", "Linear models train fastest on the ReLU network's features.",
        source="Figure 1, Section 3", headline=True, **by_errors(ahead, "train_error"),
    ),
    Statement(
        "relu-first", "The ReLU network's features align better than the other two representations.",
        source="Figure 5, Section 4.2", of=lambda t, p: ahead(areas(t)), **fits, **LARGER,
    ),
    Statement(
        "alignment", "The ReLU network aligns best, then the RBF network, then the dictionary.",
        source="Figure 5, Section 4.2", of=lambda t, p: margins(areas(t)), **fits, **LARGER,
    ),
    Statement(
        "training",
        "Linear models learn the training labels fastest on the ReLU network, then the RBF network, then the "
        "dictionary.",
        source="Figure 1; the order is ours", ours=True, **by_errors(margins, "train_error"),
    ),
    Statement(
        "test", "Their test errors, too, come in this order early in training.",
        source="Figure 1; order and step are ours", ours=True, **by_errors(margins, "test_error"),
    ),
    Statement(
        "alignment-other", "With another bandwidth of the RBF network, alignment has the same order.",
        source="Figure 5; bandwidth not given", of=lambda t, p: margins(areas(t), OTHER), **other, **LARGER,
    ),
    Statement(
        "training-other", "With another bandwidth, training errors have the same order.",
        source="Figure 1; bandwidth not given", ours=True,
        **by_errors(other_margins, "train_error", need=OTHER_FITS),
    ),
    Statement(
        "closer", "The RBF network's alignment is nearer to the dictionary's than to the ReLU network's.",
        source="Figure 5, Section 4.2", of=lambda t, p: nearer(areas(t)), post_hoc=ADDED, **fits, **LARGER,
    ),
    Statement(
        "closer-other",
        "With another bandwidth, too, the RBF network's alignment is nearer to the dictionary's.",
        source="Figure 5; bandwidth not given", of=lambda t, p: nearer(areas(t), OTHER), post_hoc=ADDED,
        **other, **LARGER,
    ),
    Statement(
        "training-last", "Training errors have the same order after the last step.",
        source="Figure 1; at which step is ours", post_hoc=LATE, ours=True,
        **by_errors(margins, "train_error", last=True),
    ),
    Statement(
        "test-last", "Test errors have the same order after the last step.",
        source="Figure 1; at which step is ours", post_hoc=LATE, ours=True,
        **by_errors(margins, "test_error", last=True),
    ),
    Statement(
        "most",
        f"At τ/√n of about {PRINTED_SHARE:.2f}, a threshold of about {PRINTED_TAU:g} for the paper's "
        f"{PRINTED_POINTS} points, the ReLU network keeps most of its alignment.",
        source="Figure 5, Section 4.2", of=kept, above=0.5, matters=0.05, unit="of ‖y‖²", bounds=(0, 1),
        because="a twentieth of the labels: less would not change what “most” means", **fits,
    ),
]  # fmt: skip

ALIGN = {  # what is said of the same features' alignment, with the areas of the ReLU network and of the next
    CONTRADICTED: "these features do not align best",
    ABSENT: "these features align no better than the best of the others",
    UNDECIDED: "it is undecided whether these features align best",
    HOLDS: "these features also align best",
    NOT_JUDGED: "whether these features align best is not judged",
}


def finding(table, parameters, claims):
    """Whether models learn fastest on the ReLU network's features, and whether these align best."""
    claim, found = claims["relu-fastest"], areas(table)
    models = "early in training"
    said = opening(
        claim, f"Linear models learn fastest on the ReLU network's features {models}",
        contradicted=f"Linear models do not learn fastest on the ReLU network's features {models}",
        absent=f"Linear models learn no faster on the ReLU network's features {models}",
    )  # fmt: skip
    if said is None or found.empty:
        return "The three representations are not among the results."
    if claim.outcome == NOT_JUDGED:
        return (
            "Speed and alignment are not judged: in the paper a linear model can fit the labels on all three "
            "representations; here least squares leaves up to "
            f"{100 * unfitted(table, parameters):.1g} % of them."
        )
    few = parameters["dataset"] == "ct_slices" and table["points"].max() < parameters["points"]
    slices = " All CT slices come from two patients." if few else ""
    mean = found[list(NAMES)].mean()
    pair = f"area under the curve {mean['relu']:.2f}, the others at most {mean.drop('relu').max():.2f}"
    other = _other(table, parameters, claims)
    text = f"{said}; {ALIGN[claims['relu-first'].outcome]} ({pair}).{other or slices}"
    return fitting(text, text.replace("area under the curve", "area"))


def _other(table, parameters, claims):
    """What another bandwidth of the RBF network changes, a sentence, where the headline holds; or nothing."""
    claim, aligns = claims["training-other"], claims["alignment-other"].outcome
    missed = unmet(claim)
    if claims["relu-fastest"].outcome != HOLDS or claim.outcome == HOLDS or missed[:1] == [FITS]:
        return ""
    means = errors(table, early(parameters), "train_error").mean()
    if OTHER not in means or means["dictionary"] - means[OTHER] < means[OTHER] - means["relu"]:
        return ""  # the order fails between the others
    narrower = parameters["other_bandwidth"] < parameters["bandwidth"]
    size = f"With a {'narrower' if narrower else 'wider'} bandwidth ({parameters['other_bandwidth']:g})"
    less = f", although it aligns less (area {areas(table)[OTHER].mean():.2f})" * (aligns == HOLDS)
    if claim.outcome == UNDECIDED:
        return f" {size}, it is undecided whether the RBF network learns as fast{less}."
    if (gap := means["relu"] - means[OTHER]) < -ERROR:
        return ""
    if RATIO in missed:  # by their ratio and by their difference, the errors do not compare alike
        fast = f"{'at least' if gap > 0 else 'nearly'} as fast (not judged)"
        return f" {size}, the RBF network learns {fast}{less}."
    where = "has caught up" if gap < ERROR else "is ahead"
    return f" {size}, the RBF network {where} after {early(parameters)} steps{less}."


def key_numbers(table, parameters):
    """Area and error of the ReLU network, and where the curves start."""
    found = areas(table)
    if found.empty:
        return []
    after = errors(table, early(parameters), "test_error")
    return [
        KeyNumber(f"area under the alignment curve, {NAMES['relu']}", f"{found['relu'].mean():.2f}"),
        KeyNumber(
            f"its test error after {early(parameters)} steps, % of the labels' mean square",
            f"{100 * after['relu'].mean():.1f}",
        ),
        KeyNumber(
            f"squared length of the labels, per {PRINTED_POINTS} points",
            interval(PRINTED_POINTS * squares(table), "{:.0f}", (0, PRINTED_POINTS)), f"{PRINTED_START:.0f}",
        ),
    ]  # fmt: skip
