"""Whether weights move farther where the test error is larger, and how they move."""

import numpy as np
import pandas as pd

from alignbook.claims import HOLDS, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import curves, last, rank_correlation, value_at
from alignbook.statements import Case, Requirement, Statement
from alignbook.studies.transferability import imagenet_rows
from alignbook.studies.transferability.deviations import (
    ALIKE,
    FITTED,
    NEAR,
    classes_apart,
    ends,
    others_less_near,
    printed,
    series,
)
from alignbook.studies.transferability.targets import LEARNED as SOURCE_LEARNED
from alignbook.studies.transferability.targets import training_of
from alignbook.wording import IT, by_verdict, first_unmet, fitting, over_cases, sentences

SETTINGS = {"fine-tuned": "all layers", "fixed": "last layer"}  # and the weights that the paper follows in it
SOURCES = {"own": "", "imagenet": f"{imagenet_rows.NAME} from ImageNet, "}
LATE = 3 / 4  # share of the steps at which convergence is read
CONVERGED = 90.0  # percent of the final deviation that must be there after LATE of the steps
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


def of_targets(rows, measure):
    """The smallest, over the targets, of ``measure`` of each one's (seeds × steps) deviations, a sample."""
    found = {name: measure(curves(part, "step", "deviation")) for name, part in rows.groupby("target")}
    return pd.DataFrame(found, dtype=float).dropna().min(axis=1)


def smallest_rise(rows):
    """The smallest rise from record to record, in percent of the end, over all targets: a sample."""
    return of_targets(rows, lambda frame: 100 * frame.diff(axis=1).min(axis=1) / last(frame))


def slowest(rows):
    """Percent of its end that the slowest target's deviation has after ``LATE`` of the steps, a sample."""
    return of_targets(rows, lambda frame: 100 * value_at(frame, LATE * frame.columns[-1]) / last(frame))


def settling(rows):
    """(seeds × targets) frame: the share of the steps that ``CONVERGED`` percent of the deviation take."""
    found = {name: _settling(curves(part, "step", "deviation")) for name, part in rows.groupby("target")}
    return pd.DataFrame(found, dtype=float)


def _settling(frame):
    """Of each seed's curve, with straight lines between its records: a sample."""
    shares, moved = frame.columns.to_numpy(float) / frame.columns[-1], frame.cummax(axis=1)
    asked = CONVERGED / 100 * last(frame)
    return pd.Series({seed: np.interp(asked[seed], moved.loc[seed], shares) for seed in asked.index})


def farther(end):
    """Mean log2 deviation of the other targets less that of those cut from ``NEAR``, a sample."""
    return others_less_near(np.log2(final(end, "deviation")))


def rows_of(table, setting, source="own"):
    """:func:`series` of our own source, or of EfficientNet-Lite0 from ImageNet's weights ("imagenet")."""
    part = imagenet_rows.trained if source == "imagenet" else imagenet_rows.own
    return series(part(table), setting)


def of_rows(measure):
    """A statement's ``of``: a measure of all rows."""
    return lambda t, p, setting, source="own": measure(rows_of(t, setting, source))


def of_ends(measure):
    """A statement's ``of``: a measure of the last rows."""
    return of_rows(lambda rows: measure(ends(rows)))


def in_print(measure):
    """A statement's ``paper``: the same measure of Table 1."""
    return lambda p, setting, source="own": float(measure(printed(setting).assign(seed=0)).iloc[0])


def ranked(end):
    """How many targets are ranked: as many as Table 1 has, or more, are asked for."""
    return float(end["target"].nunique())


def largest_error(end):
    """Mean over the seeds of the training error, in percent, of the target with the largest."""
    return end.groupby("target")["train_error"].mean().max()


def of_source(name):
    """A statement's ``each``: of this one of ``SOURCES`` the network fine-tuned and fixed, as replicates."""
    return lambda parameters: [
        Case(setting, f"{SOURCES[name]}{setting}, {said}", {"setting": setting, "source": name})
        for setting, said in SETTINGS.items()
    ]


OWN, IMAGENET = of_source("own"), of_source("imagenet")
printed_ordering, printed_proportion = in_print(ordering), in_print(proportion)
FACTORS = " and ".join(f"{1 / printed_proportion(None, setting):.0f} ({setting})" for setting in SETTINGS)
LEARNED = Requirement(  # unfinished runs say nothing of how targets compare
    "largest mean training error of a target, %", of_ends(largest_error), at_most=FITTED
)
# Chance alone can put four in order.
ENOUGH = Requirement("targets that are ranked", of_ends(ranked), at_least=5)
AXES = {"fixed": 10_000, "fine-tuned": 100_000}  # epochs, steps: on the axes of Figure 2 (a), (b)


def _converges(setting, length):
    """Convergence in one setting of ours, where it is trained for as long as Figure 2 shows."""
    return Statement(
        "converges", "On every target the deviation converges: share of the final deviation reached after "
        "three quarters of the steps, slowest target.", source="Section 3, Figure 2", of=of_rows(slowest),
        above=CONVERGED, matters=1.0, unit="% of the final deviation", ours=True,
        requires=(SOURCE_LEARNED, length),
        because="a tenth of what may still be missing",
        each=lambda p: [case for case in OWN(p) if case.given["setting"] == setting],
    )  # fmt: skip


def _of_both(id, text, requires=(), headline=False, **rule):
    """A statement of our own source, which must be learned, and the same of the network from ImageNet."""
    return [
        Statement(id, text, each=OWN, requires=(SOURCE_LEARNED, *requires), headline=headline, **rule),
        Statement(f"{id}-imagenet", text, each=IMAGENET, requires=requires, **rule),
    ]


EPOCHS = Requirement(
    "epochs of training, as on the axis of Figure 2 (a)",
    lambda t, p, **_: p["fixed_epochs"], at_least=AXES["fixed"],
)  # fmt: skip
STEPS = Requirement(
    "steps of training, as on the axis of Figure 2 (b)",
    lambda t, p, **_: training_of(p)["steps"], at_least=AXES["fine-tuned"],
)  # fmt: skip
STATEMENTS = [
    *_of_both(
        "ordering", "The deviation orders the targets like their test errors: rank correlation over the "
        "targets.", source="Section 3, Table 1", of=of_ends(ordering), above=0, paper=printed_ordering,
        requires=(LEARNED, ENOUGH), bounds=(-1, 1), headline=True,
        matters=0.1, because="one swap of neighbours among five targets",
    ),
    Statement(
        "proportional", "The deviation is approximately proportional to the test error: smallest deviation "
        "per error over the largest.", source="Section 3", of=of_ends(proportion), above=PROPORTIONAL,
        matters=0.05, unit="of the largest", because="a tenth of the factor of two that we allow", each=OWN,
        paper=printed_proportion, requires=(SOURCE_LEARNED, LEARNED), bounds=(0, 1), ours=True,
        opposed_by=f"the printed deviations per test error (Table 1) differ by factors of {FACTORS}",
    ),
    *_of_both(
        "monotone", "On every target the deviation grows monotonically: smallest rise between two records.",
        source="Section 3, Figure 2", of=of_rows(smallest_rise), above=0,
        matters=0.001, unit="% of the final deviation", because="less is rounding of the weights",
    ),
    _converges("fine-tuned", STEPS),
    _converges("fixed", EPOCHS),
    *_of_both(
        "nearer", "Targets that look more like the source deviate less: mean log2 of grey or rendered "
        f"targets less that of those cut from {NEAR.upper()}.", source="Section 3, Figure 2",
        of=of_ends(farther), above=0, matters=0.14, unit="in log2", because="a tenth of the deviation",
        ours=True, requires=(LEARNED, ALIKE),
    ),
]  # fmt: skip

SAID = by_verdict(
    "The farther training moves the weights, the larger the target's test error",
    "The farther training moves the weights, the smaller the target's test error",
    "How far training moves the weights is unrelated to the target's test error",
    "weights move farther where the test error is larger",
)


UNMET = {ENOUGH.text: " (too few targets)", LEARNED.text: " (targets not learned)"}


def why(claim):
    """Why the network with ImageNet's weights decides nothing, in parentheses, where it does not."""
    if claim.outcome == UNDECIDED:
        return " (seeds vary)"
    return first_unmet(claim, UNMET, otherwise="")


def finding(table, parameters, claims):
    """Whether the deviation orders targets as the error does, with the printed table's own correlation, and
    with which weights and why it does not.
    """
    said = over_cases(claims, [f"ordering-{case.id}" for case in OWN(parameters)], SAID, "in {} settings")
    claim = claims["ordering-fine-tuned"]
    if said is None or claim.measured is None:
        return "Too few targets to rank, or nothing was measured."
    text = f"{said}: rank correlation {claim.measured:.2f} for all layers (paper: {claim.paper:.2f})"
    classes = claim.outcome == HOLDS and classes_apart(table, parameters) > ALIKE.at_most
    order = "The number of classes alone might give this order" * classes
    caveats = [
        one for one in (order, of_similar(parameters, claims, bool(order)), from_imagenet(claims)) if one
    ]
    caveats = caveats or ["Our network is small"]
    return fitting(*(sentences(text, *caveats[:count]) for count in range(len(caveats), -1, -1)))


def of_similar(parameters, claims, told):
    """That similar targets are not compared with others that have more or fewer classes; else "".

    told : whether what their number of classes does stands before it
    """
    found = [claims[f"nearer-{case.id}"] for case in OWN(parameters)]
    if not all(first_unmet(claim, {ALIKE.text: "unlike"}, otherwise="") for claim in found):
        return ""
    less = "whether similar targets move our network's weights less"
    if told:
        return f"For that reason we do not judge {less}"
    return f"We do not judge {less}, as the numbers of classes differ"


def from_imagenet(claims):
    """How the network with ImageNet's weights came out in either setting, and why; "" if it was not run."""
    found = {}
    for setting in SETTINGS:
        claim = claims[f"ordering-imagenet-{setting}"]
        if claim.outcome in IT:
            found.setdefault((IT[claim.outcome], why(claim)), []).append(setting)
    told = [
        said + f" if {settings[0]}" * (len(settings) < len(SETTINGS)) + because
        for (said, because), settings in found.items()
    ]
    return f"With ImageNet's weights {' and '.join(told)}" if told else ""


def key_numbers(table, parameters):
    """The other rank correlation, and how far deviation and error are from proportional, our own source."""
    fixed, tuned = (ends(rows_of(table, setting)) for setting in ("fixed", "fine-tuned"))
    return [
        KeyNumber(
            "rank correlation of deviation and test error, fixed (last layer)",
            interval(ordering(fixed), within=(-1, 1)), printed_ordering(parameters, "fixed"),
        ),
        KeyNumber(
            "deviation per test error, largest over smallest target (1: proportional), fine-tuned",
            interval(1 / proportion(tuned), "{:.1f}"), f"{1 / printed_proportion(None, 'fine-tuned'):.1f}",
        ),
    ]  # fmt: skip
