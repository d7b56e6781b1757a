"""How much more the loss varies along its gradient from random than from pre-trained weights."""

import math

import numpy as np
import pandas as pd

from alignbook.claims import KeyNumber
from alignbook.over_seeds import agree, area, at, curves, first, ratio
from alignbook.statements import Case, Requirement, Statement
from alignbook.studies.transferability.by_seed import factor
from alignbook.studies.transferability.targets import LEARNED, STARTS, of_target, words
from alignbook.wording import IT, by_verdict, first_unmet, fitting, over_cases, sentences

from .design import PROTOCOLS

PARTS = {  # of training, as shares of its steps
    "all steps": (0, 1), "before the first step": (0, 0), "first tenth": (0, 0.1), "rest": (0.1, 1),
}  # fmt: skip
MATTERS = 0.14  # log2 of the ratio: a tenth of the variation
LOSSES = 50  # training losses at which both ways are compared
SAME_REACH = "the verdict is the same for steps up to four and up to a hundred times the learning rate"


def rows_of(table, target, protocol, start):
    """The rows of one target, protocol and start."""
    return at(of_target(table, target), protocol=protocol, start=start)


def variation(rows, reach="near"):
    """Largest less smallest loss of the line, (seeds × steps) frame; reach : "near" or "far"."""
    return curves(rows, "step", f"{reach}_high") - curves(rows, "step", f"{reach}_low")


def mean_over(frame, share=(0, 1)):
    """Mean of each seed's curve over the steps from and to a ``share`` of the last; its start for (0, 0)."""
    if share[1] == 0 or frame.empty:
        return first(frame)
    return area(frame, *(end * frame.columns[-1] for end in share))


def ratios(table, target, protocol, reach="near", part="all steps"):
    """log2 of the variation from random weights over that from pre-trained ones, a sample.

    Each is the mean over a part of the steps, of :data:`PARTS`; left out where a loss is not finite.
    """
    means = [
        mean_over(variation(rows_of(table, target, protocol, start), reach), PARTS[part]) for start in STARTS
    ]
    return _finite(np.log2(ratio(*means)))


def starting_losses(table, parameters):
    """Row per target: loss before the first step from either start, mean over the seeds."""
    rows = {}
    for name in parameters["targets"]:
        own = [curves(rows_of(table, name, next(iter(PROTOCOLS)), start), "step", "loss") for start in STARTS]
        rows[words(name)] = {
            label: f"{first(frame).mean():.2f}" for label, frame in zip(STARTS.values(), own, strict=True)
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("loss before the first step")


def over_training(table, target, protocol):
    """(seeds × steps) frame of log2 of that ratio, step by step."""
    random, own = (variation(rows_of(table, target, protocol, start)) for start in STARTS)
    return np.log2(random / own)


def matched(table, target, protocol):
    """The same at equal loss, a sample: mean difference of log2 of the near variation over the losses that
    both pass. Between records it is a straight line over the logarithm of the loss.
    """
    random, own = (rows_of(table, target, protocol, start) for start in STARTS)
    found = {
        seed: _at_equal_loss(at(random, seed=seed), at(own, seed=seed))
        for seed in sorted(set(random.get("seed", ())) & set(own.get("seed", ())))
    }
    return _finite(pd.Series(found, dtype=float))


def _at_equal_loss(*ways):
    lines = []
    for rows in ways:
        rows = rows.sort_values("loss")
        near = rows["near_high"] - rows["near_low"]
        lines.append((np.log(rows["loss"].to_numpy(float)), np.log2(near.to_numpy(float))))
    low, high = max(loss[0] for loss, _ in lines), min(loss[-1] for loss, _ in lines)
    if low >= high:
        return math.nan
    grid = np.linspace(low, high, LOSSES)
    return float(np.mean(np.interp(grid, *lines[0]) - np.interp(grid, *lines[1])))


def _finite(values):
    return values.replace([np.inf, -np.inf], np.nan).dropna()


def settings(parameters):
    """One case per way of choosing the step and target."""
    return [
        Case(f"{protocol}-{name}", f"{said}, {words(name)}", {"protocol": protocol, "target": name})
        for protocol, said in PROTOCOLS.items()
        for name in parameters["targets"]
    ]


def same_reach(part):
    """Whether over a part of training both ranges of steps, near and far, have the same verdict."""

    def of(table, parameters, target, protocol):
        both = (ratios(table, target, protocol, reach, part) for reach in ("near", "far"))
        return agree(*both, matters=MATTERS)

    return Requirement(SAME_REACH, of, because="The paper does not say how far it follows the gradient")


def of_part(part):
    """A statement's ``of``: :func:`ratios` over a part of training."""
    return lambda t, p, target, protocol: ratios(t, target, protocol, part=part)


LESS = "The loss varies less along its gradient from pre-trained than from random weights"
RULE = {
    "above": 0, "matters": MATTERS, "unit": "in log2", "because": "a tenth of the variation",
    "each": settings, "requires": (LEARNED,),
}  # fmt: skip
STATEMENTS = [
    Statement(
        "smaller", f"{LESS}: mean over all steps of training, log2 of the ratio.", of=of_part("all steps"),
        source="Figures 6 and 11, Section 4", headline=True, **RULE,
    ),
    Statement(
        "first", f"{LESS} before the first step.", of=of_part("before the first step"),
        source="Sections 1 and 4", **RULE | {"requires": (LEARNED, same_reach("before the first step"))},
    ),
    Statement(
        "early", f"{LESS} in the first tenth of the steps.", of=of_part("first tenth"),
        source="Sections 1 and 4", **RULE | {"requires": (LEARNED, same_reach("first tenth"))},
    ),
    Statement(
        "matched", f"{LESS} at equal loss.", source="Figures 6 and 11, Section 4", ours=True,
        of=lambda t, p, target, protocol: matched(t, target, protocol), **RULE,
    ),
]  # fmt: skip

STEP = "a step along the gradient changes the loss"
SAID = by_verdict(
    f"Over training, {STEP} more in networks trained from random than from pre-trained weights",
    f"Over training, {STEP} more in networks trained from pre-trained than from random weights",
    f"Over training, {STEP} as much in networks trained from random as from pre-trained weights",
    f"{STEP} more in networks trained from random than from pre-trained weights",
)
EARLY = {outcome: f"In the first tenth of training {words}" for outcome, words in IT.items()}


def shown(parameters):
    """[(protocol, target)] of the two figures: the first target for Figure 6, the last for Figure 11."""
    return list(zip(PROTOCOLS, (parameters["targets"][0], parameters["targets"][-1]), strict=True))


def finding(table, parameters, claims):
    """Whether it varies more over all of training, and early on."""
    cases = [case.id for case in settings(parameters)]
    said = over_cases(claims, [f"smaller-{id}" for id in cases], SAID, "in {} settings")
    early = over_cases(claims, [f"early-{id}" for id in cases], EARLY, "in {} settings")
    own = "-".join(shown(parameters)[0])
    over_all = claims[f"smaller-{own}"].measured
    if said is None or early is None or over_all is None:
        return "There is nothing to compare."
    if all(_turns_with_reach(claims[f"early-{id}"]) for id in cases):
        early += ", since longer steps give another verdict"
    whole = f"{said}: {2**over_all:.1f} times as much in our Figure 6"
    small = "our network is small"
    return fitting(sentences(whole, early, small), sentences(whole, early), sentences(said, early))


def _turns_with_reach(claim):
    """Whether ``claim`` is not judged because longer steps give another verdict than shorter ones."""
    return bool(first_unmet(claim, {LEARNED.text: "", SAME_REACH: "turns"}, otherwise=""))


def times(values):
    """The ratio of log2 ``values``: geometric mean and the interval of the mean logarithm."""
    return factor(values, 2)


def key_numbers(table, parameters):
    """Figure 11's ratio, and Figure 6's at equal loss."""
    (way, name), (other, last) = shown(parameters)
    told = {
        f"variation, random over pre-trained: {PROTOCOLS[other]} (Figure 11)": ratios(table, last, other),
        "variation, random over pre-trained: Figure 6, at equal loss": matched(table, name, way),
    }
    return [KeyNumber(what, times(values)) for what, values in told.items()]
