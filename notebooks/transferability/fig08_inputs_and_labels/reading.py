"""Does pre-training help only where inputs and labels are both alike? Differences of accuracy (Figure 8)."""

import numpy as np
import pandas as pd

from alignbook.claims import CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import area, at, curves, difference, last, ratio, weakest
from alignbook.statements import Case, Requirement, Statement
from alignbook.studies.transferability.targets import LEARNED as SOURCE_LEARNED
from alignbook.wording import by_verdict, first_unmet, fitting

from .design import KERNELS, PARTS, SEEN, UPSIDE_DOWN

OTHER = dict(zip(PARTS, reversed(PARTS), strict=True))
MARGIN = 2.0  # points within which pre-training "provides no improvement" or "barely improves"; ours
FITTED = 5.0  # percent of its training images that a network may get wrong which has learned its target
LEARNED = SOURCE_LEARNED.at_least  # percent of the test images of a learned source that are right
UNSEEN = 0.05  # share of a layer's way that cannot be seen in Figure 8 (a); ours
DRAWN = 8  # seeds of (a) whose layers' ways the page had drawn when the clothes' were asked for
TEST_SET = "2,000 test images give an accuracy to a point"
PERCENT = (0.0, 100.0)


def by_start(table, panel, column):
    """(seeds × starts) frame of a column of panel (a), "inputs", or (b), "labels"."""
    return curves(at(table, panel=panel), "start", column)


def accuracies(table, panel, part=None):
    """(seeds × starts) frame of final accuracies in percent, of those starts that have any."""
    if part is None:
        return by_start(table, panel, "accuracy")
    errors = {start: last(_curves(table, part, start, "test_error")) for start in ("none", *PARTS)}
    return 100 - pd.DataFrame(errors, dtype=float).dropna(axis=1, how="all")


def gain(table, panel, one, other, part=None):
    """Accuracy after pre-training on ``one`` less that after ``other``, in points, a sample."""
    frame = accuracies(table, panel, part).reindex(columns=[one, other])
    return difference(frame[one], frame[other])


def gains(panel, one, other="none"):
    """A statement's ``of``: :func:`gain` of two starts, each the name of a parameter or the start itself."""
    return lambda t, p: gain(t, panel, p.get(one, one), p.get(other, other))


INPUTS = gains("inputs", "digits", "clothes")
LABELS = gains("labels", "classes", "colours")
OF_COLOURS = gains("labels", "colours")


def own_part(table, parameters, part):
    """Figure 8 (c, d): the gain of the source of the target's kind over the other source."""
    return gain(table, "crossed", part, OTHER[part], part)


def training_errors(table, parameters, part):
    """The larger of both sources' mean training errors at the end of fine-tuning on ``part``, percent."""
    return max(last(_curves(table, part, start, "train_error")).mean() for start in PARTS)


def panels_error(*panels):
    """A condition's ``of``: the largest mean training error, in percent, of the starts of panels (a), (b)."""
    return lambda table, parameters: (
        at(table, panel=panels).groupby(["panel", "start"])["train_error"].mean().max(skipna=False)
    )


def source_accuracies(table):
    """(seeds × sources) frame of the accuracies on the sources' test images, percent, where measured.

    Of (b) the labels, "classes" and "colours"; of (c, d) the parts of the source.
    """
    rows = at(table, panel=["labels", "source"])
    return curves(rows[rows["source_accuracy"].notna()], "start", "source_accuracy")


def _fitted(panels, of):
    return (Requirement(f"training error after fine-tuning in {panels}, %", of=of, at_most=FITTED),)


def _learned(*sources):
    """That these sources are learned, as on the pages on Appendix B.3 and Section 3."""

    def of(table, parameters, **given):
        return source_accuracies(table).mean().reindex(sources).min(skipna=False)

    (*some, last) = sources
    named = f"{', '.join(some)} and {last}" if some else last
    return (Requirement(f"accuracy on the source, %, {named}", of=of, at_least=LEARNED),)


def _curves(table, part, start, column):
    return curves(at(table, panel="crossed", part=part, start=start), "step", column)


def convergence(table, parameters, part):
    """log2 of the mean training loss from the other source over that from ``part``'s own, a sample.

    The means are over the steps of fine-tuning on ``part``, straight lines between records.
    """
    means = [area(_curves(table, part, start, "train_loss")) for start in (OTHER[part], part)]
    return np.log2(ratio(*means))


def moved_less(table, parameters, layer, source="digits"):
    """Share by which a layer moves less from digits (or clothes) than from random weights, a sample."""
    own = parameters[source]
    ways = by_start(table, "inputs", layer).reindex(columns=[own, "none"])
    return 1 - ratio(ways[own], ways["none"])


def _parts(parameters):
    return [Case(part, f"{part} target", {"part": part}) for part in PARTS]


def _layers(parameters):
    return [Case(layer, symbol, {"layer": layer}) for layer, symbol in KERNELS.items()]


def _better(id, text, source, of, **more):
    return Statement(
        id, text, source=source, of=of, above=0, matters=1.0, unit="points", because=TEST_SET,
        bounds=(-100, 100), **more,
    )  # fmt: skip


OF_INPUTS, OF_LABELS = _fitted("(a)", panels_error("inputs")), _fitted("(b)", panels_error("labels"))
CLASSES, COLOURS, BOTH = _learned("classes"), _learned("colours"), _learned("classes", "colours")
STATEMENTS = [
    _better(
        "both", "Similar inputs (a) and similar labels (b) both transfer better than dissimilar ones.",
        "Section 5.1", lambda t, p: weakest(INPUTS(t, p), LABELS(t, p)), headline=True,
        requires=(*_fitted("(a) and (b)", panels_error("inputs", "labels")), *BOTH),
    ),
    _better(
        "inputs", "Pre-training on digits helps more on street digits than pre-training on clothes.",
        "Figure 8 (a)", INPUTS, requires=OF_INPUTS,
    ),
    _better(
        "labels", "Pre-training on the same images helps more with classes than with colours as labels.",
        "Figure 8 (b)", LABELS, requires=(*OF_LABELS, *BOTH),
    ),
    _better(
        "digits-help", "Pre-training on digits beats random weights on street digits.", "Figure 8 (a)",
        gains("inputs", "digits"), requires=OF_INPUTS,
    ),
    _better(
        "upside-down-worse", "Pre-training helps more on upright digits than on digits upside down.",
        "Figure 8 (a)", gains("inputs", "digits", UPSIDE_DOWN), requires=OF_INPUTS,
    ),
    _better(
        "classes-help", "Pre-training with classes as labels beats random weights.", "Figure 8 (b)",
        gains("labels", "classes"), requires=(*OF_LABELS, *CLASSES),
    ),
    _better(
        "crossed", "Each source is best for the target of its own kind.", "Figure 8 (c, d)", own_part,
        each=_parts,
        requires=(*_fitted("(c, d)", training_errors), *_learned(*PARTS)),
    ),
    Statement(
        "clothes-help", f"Pre-training on clothes gains or loses at most {MARGIN:g} points over random "
        "weights, our reading of “barely improves”.",
        source="Section 5.1, Figure 8 (a)", of=gains("inputs", "clothes"), near=0,
        within=MARGIN, unit="points", bounds=(-100, 100), ours=True, requires=OF_INPUTS,
    ),
    Statement(
        "colours-help",
        f"Pre-training with colours as labels gains at most {MARGIN:g} points over random weights.",
        source="Figure 8 (b)", of=OF_COLOURS, below=MARGIN, matters=1.0,
        unit="points", because=TEST_SET, bounds=(-100, 100), ours=True, seen=SEEN,
        requires=(*OF_LABELS, *COLOURS),
        post_hoc="tested against ± 2 points until we saw a loss, which the paper's words do not exclude",
    ),
    Statement(
        "converges", "A target also converges faster from the source of its own kind (mean training loss).",
        source="Figure 8 (c, d)", of=convergence, above=0, matters=0.14, unit="log2 of the ratio",
        because="a tenth of the loss", each=_parts, ours=True, requires=_learned(*PARTS),
    ),
    Statement(
        "moves-less", "A layer pre-trained on digits moves less than one with random weights.",
        source="Figure 8 (a)", of=moved_less, above=0, matters=UNSEEN, unit="of the way from random weights",
        because="a twentieth of the way is invisible in the figure", each=_layers, ours=True,
    ),
    Statement(
        "clothes-move",
        f"A layer pre-trained on clothes moves at most {UNSEEN:.0%} less than one with random weights.",
        source="Section 5.1, Figure 8 (a)", of=lambda t, p, layer: moved_less(t, p, layer, "clothes"),
        below=UNSEEN, matters=0.01, unit="of the way from random weights", each=_layers, ours=True,
        because="a fifth of the margin", seen=DRAWN,
        post_hoc="added after the page had drawn how far the layers of seeds 0 to 7 move",
    ),
]  # fmt: skip

WHY_NOT = dict(
    zip(
        (need.text for need in STATEMENTS[0].requires),
        (
            "some networks have not learned their targets",
            "a source of (b) has not been learned",
        ),
        strict=True,
    )
)
SAID = by_verdict(
    "Pre-training helps when inputs and labels both resemble the target's",
    "Similar inputs or similar labels transfer worse, not better",
    "Similar inputs and similar labels do not both matter for transfer",
    "similar inputs and similar labels both matter for transfer",
)


def finding(table, parameters, claims):
    """What like inputs and like labels gain, what is undecided, which networks have not learned theirs."""
    both = claims["both"]
    if both.measured is None:
        return "The results do not include both panels, (a) and (b)."
    street = "real" if parameters["street"] == "svhn" else "imitated"
    text = SAID[both.outcome]
    if both.outcome == NOT_JUDGED:
        text += f", as {first_unmet(both, WHY_NOT)}"
    caveat = " Our networks are small."
    if max(training_errors(table, parameters, part) for part in PARTS) > FITTED:
        caveat = " The networks of (c) and (d) have not learned theirs."
    elif not {HOLDS, CONTRADICTED, NOT_JUDGED} & {claims[f"crossed-{part}"].outcome for part in PARTS}:
        caveat = " With natural and artificial classes crossed, neither source is clearly best."
    text += "; " if both.outcome == NOT_JUDGED else ": "
    inputs, labels = (f"{claims[which].measured:.1f}" for which in ("inputs", "labels"))
    long = f"{text}for {street} street digits, learning digits first beats learning clothes by {inputs} "
    long += f"points, and on the same images, classes beat colours by {labels}"
    middle = f"{text}for {street} street digits, digits beat clothes by {inputs} points; classes "
    middle += f"beat colours by {labels}"
    short = f"{text}digits beat clothes by {inputs} points, classes beat colours by {labels}"
    too = "; colours help, too, against the paper" * (claims["colours-help"].outcome == CONTRADICTED)
    if open_ := [name for name in ("clothes", "colours") if claims[f"{name}-help"].outcome == UNDECIDED]:
        colours = claims["colours-help"]
        caveat = f" It is undecided whether {' or '.join(open_)} help by more than {MARGIN:g} points."
        if colours.outcome == UNDECIDED and colours.interval[0] > 0:
            they = " or ".join(["they", *open_[:-1]])
            caveat = f" Colours help, by {colours.measured:.1f} points where the paper says not at all; "
            caveat += f"whether {they} help by more than our {MARGIN:g} is undecided."
    return fitting(*(f"{said}{too}.{caveat}" for said in (long, middle, short)), f"{short}{too}.")


def key_numbers(table, parameters):
    """Gains over random weights, beside the words that the paper has for them."""
    told = {
        "digits over random weights (points)": (gains("inputs", "digits")(table, parameters), "significant"),
        "clothes over random weights (points)": (gains("inputs", "clothes")(table, parameters), "“barely”"),
        "colours as labels over random weights (points)": (OF_COLOURS(table, parameters), "no improvement"),
    }
    return [
        KeyNumber(what, interval(values, "{:+.1f}"), theirs)
        for what, (values, theirs) in told.items()
        if len(values)
    ]
