"""Whether features change before filters, and whether they need the first layer to learn. All is ours."""

import math

import numpy as np
import pandas as pd

from alignbook.claims import CONTRADICTED, HOLDS, KeyNumber
from alignbook.over_seeds import at, difference, ratio, weakest
from alignbook.statements import Case, Requirement, Statement, over
from alignbook.wording import by_verdict, clauses, fitting, listed, replicates

from .. import clocks
from ..clocks import path

LAYERS = {"convolutional": "convolution", "local": "locally connected layer", "dense": "dense layer"}
TRAINED = {"all": "all layers trained", "others": "first layer frozen", "first": "only first layer trained"}
CELL = ["scale", "rate", "width"]


def amount(run):
    """The filters' preference for the data's axes: misalignment with random bases less that with these.

    It grows where the misalignment with the data does, too, but less than that with random bases.
    """
    return run["random_bases"] - run["misalignment"]


def share(run):
    """The same as a share of the misalignment with random bases, which is at most 1."""
    return 1 - run["misalignment"] / run["random_bases"]


def octaves(run):
    """log₂(1 + step)."""
    return clocks.octaves(run.index)


def lost(run):
    """Share of its first value that the loss has lost."""
    return 1 - run["loss"] / run["loss"].iloc[0]


def when(values, clock, part=0.5):
    """What ``clock`` shows when ``part`` of the length of the path is made; nan without change."""
    made = path(values)
    return np.interp(part * made[-1], made, clock) if made[-1] > 0 else np.nan


def half_time(run):
    """Octaves of steps at which the features have made half of their change."""
    return when(run["features"], octaves(run))


def lag(run, filters=amount, clock=octaves, part=0.5):
    """From when the features have made ``part`` of their change until the filters have."""
    return when(filters(run), clock(run), part) - when(run["features"], clock(run), part)


def gain(run):
    """By how much the features' alignment grows."""
    return run["features"].iloc[-1] - run["features"].iloc[0]


def ahead(pair):
    """By how much more the features are aligned with the first layer frozen, at the lowest common loss."""
    runs = [at(pair, trained=kind) for kind in ("others", "all")]
    lines = [(np.maximum.accumulate(lost(run)), run["features"]) for run in runs]
    return np.subtract(*(np.interp(min(max(fallen) for fallen, _ in lines), *line) for line in lines))


def per_run(table, layer, trained, measure):
    """(seeds × cells of the grid) frame of ``measure(run)``; with two kinds ``trained``, of pairs of runs."""
    rows = at(table, layer=layer, trained=trained)
    if rows.empty:
        return pd.DataFrame()
    found = {key: measure(run) for key, run in rows.set_index("step").sort_index().groupby(["seed", *CELL])}
    return pd.Series(found, dtype=float).rename_axis(["seed", *CELL]).unstack(CELL)


def mean_of(table, layer, trained, measure):
    """The same by seed, mean over the grid."""
    return per_run(table, layer, trained, measure).mean(axis=1)


def lags(table, layer, **how):
    """:func:`lag` with all layers trained, by seed, mean over the grid."""
    return mean_of(table, layer, "all", lambda run: lag(run, **how))


def beside_all(table, layer, trained, measure):
    """:func:`mean_of` of this kind, and of that with all layers trained."""
    return (mean_of(table, layer, which, measure) for which in (trained, "all"))


def progress(table, layer, trained, of):
    """(seeds × steps) frame, mean over the grid: path of ``of(run)`` in that with all layers trained."""
    found = {}
    for (seed, *_), pair in at(table, layer=layer, trained=["all", trained]).groupby(["seed", *CELL]):
        one, whole = (at(pair, trained=kind).sort_values("step") for kind in (trained, "all"))
        found.setdefault(seed, []).append(pd.Series(path(of(one)) / path(of(whole))[-1], one["step"]))
    return pd.DataFrame({seed: pd.concat(runs, axis=1).mean(axis=1) for seed, runs in found.items()}).T


LEARNED = Requirement(
    "fall of the loss as a share of its first value, smallest over the grid",
    lambda t, p, layers, **_: per_run(t, layers, "all", lambda run: lost(run).iloc[-1]).mean().min(),
    at_least=0.5,
)


def layers_and_scales(parameters):
    """One case per kind of first layer and initial scale: over the scales the order may turn."""
    return [
        Case(f"{layer}-{scale:g}", f"{LAYERS[layer]}, scale {scale:g}", {"layers": layer, "scale": scale})
        for layer in parameters["layers"]
        for scale in parameters["scales"]
    ]


EACH = {"ours": True, "requires": (LEARNED,), "each": over("layers", LAYERS)}
TIME = EACH | {
    "above": 0, "matters": 0.1, "unit": "octaves of steps",
    "because": "a fifth of the distance between two records",
}  # fmt: skip
GAIN = EACH | {
    "above": 0.5, "matters": 0.1, "unit": "of the trained network's gain", "because": "a tenth of the gain",
}  # fmt: skip
LATER = {"source": "ours", "seen": 5, "post_hoc": "added after the planned runs, seeds 0 to 4, had been seen"}
STATEMENTS = [
    Statement(
        "order", "The features complete half of their change towards the labels before the first layer's "
        "weights complete half of the change in their preference for the data's axes over random ones.",
        headline=True, **TIME,
        source="compare Maennel Figure 2 and Imani Figure 2", of=lambda t, p, layers: lags(t, layers),
    ),
    Statement(
        "everywhere", "Features come before filters in every cell of the grid.", source="ours", **TIME,
        of=lambda t, p, layers: weakest(*(cell for _, cell in per_run(t, layers, "all", lag).items())),
    ),
    Statement(
        "frozen", "With the first layer frozen, the features gain more than half of what they gain when it "
        "is trained.", of=lambda t, p, layers: ratio(*beside_all(t, layers, "others", gain)), source="ours",
        **GAIN,
    ),
    Statement(
        "parts",
        "Features also come first at a quarter and at three quarters of the change; the weaker counts.",
        of=lambda t, p, layers: weakest(*(lags(t, layers, part=part) for part in (0.25, 0.75))),
        **LATER, **TIME,
    ),
    Statement(
        "share", "Features also come first if we measure filters by a share that is at most 1.",
        of=lambda t, p, layers, scale: lags(at(t, scale=scale), layers, filters=share),
        **LATER | {"post_hoc": "shown by scale after seeds 0 to 4 had been seen; judged by scale, in "
                   "place of the mean over both, after all ten"},
        **TIME | {"each": layers_and_scales},
    ),
    Statement(
        "slower", "With the first layer frozen, the features complete half of their change later.",
        of=lambda t, p, layers: difference(*beside_all(t, layers, "others", half_time)), **LATER, **TIME,
    ),
    Statement(
        "equal-loss", "At equal loss the features are equally aligned with the first layer frozen.", near=0,
        of=lambda t, p, layers: mean_of(t, layers, ["all", "others"], ahead), within=0.02,
        unit="of the labels", **LATER, **EACH,
    ),
    Statement(
        "reverse", "With only the first layer trained, the features gain more than half of what they gain "
        "when all layers are.", of=lambda t, p, layers: ratio(*beside_all(t, layers, "first", gain)), **LATER,
        **GAIN,
    ),
]  # fmt: skip
SAYS = by_verdict(
    "features come first{}", "filters come first{}", "both come at once{}",
    undecided="which comes first is undecided{}", not_judged="we do not judge which comes first{}",
)  # fmt: skip
LATE = {HOLDS: "filters", CONTRADICTED: "features"}  # what the verdict on an order says comes later


def finding(table, parameters, claims):
    """The order as planned, where a bounded measure turns it, and what the features gain without filters."""
    text = clauses(claims, "order", SAYS, _with)
    if not text:
        return "Nothing was measured: every run diverged."
    order = replicates(claims, "order")
    if list(order) == [HOLDS]:
        text = (
            "With small initial filters, features align before filters prefer the data's axes to random ones"
        )
        text += _with(order[HOLDS], len(order[HOLDS]))
    else:
        text = f"Of features aligning and filters preferring the data's axes to random ones, {text}"
    small = " All initial filters were small." * (list(order) != [HOLDS])
    caveat = _turned(parameters, claims) or small
    return fitting(f"{text}{_frozen(claims) * (len(order) == 1)}.{caveat}", f"{text}.{caveat}", f"{text}.")


def grown(table, parameters):
    """Whether the misalignment with the data's axes grew, by run with all layers trained; True or False."""
    rows = at(table, trained="all", layer=parameters["layers"])
    runs = rows.sort_values("step").groupby(["layer", "seed", *CELL])["misalignment"]
    return runs.last() > runs.first()


def _frozen(claims):
    """What the features reach without the first layer, in percent of their gain, a clause or none."""
    left = [100 * claim.measured for same in replicates(claims, "frozen").values() for claim in same]
    if not left:
        return ""
    return f"; with the first layer frozen, features reach {_least(left)} % of their gain"


def _least(values):
    """``at least 69``, of 69.8 and more, or one number where they are alike."""
    low, high = min(values), max(values)
    return f"{low:.0f}" if f"{low:.0f}" == f"{high:.0f}" else f"at least {math.floor(low)}"


def _with(claims, total):
    if len(claims) < total or total == 1:
        return f" with the {listed(claim.case for claim in claims)}"
    return f" with {'both' if total == 2 else 'all three'} kinds of first layer"


def _turned(parameters, claims):
    """In which cases the order by :func:`share` is surely the opposite of the claim's, a sentence or none."""
    cases = layers_and_scales(parameters)
    turned = [
        case for case in cases
        if {claims[f"order-{case.given['layers']}"].outcome, claims[f"share-{case.id}"].outcome}
        == {HOLDS, CONTRADICTED}
    ]  # fmt: skip
    if not turned:
        return ""
    if len(turned) > 1:
        return f" A bounded measure reverses this in {'some' if len(turned) < len(cases) else 'all'} cases."
    layer, scales = turned[0].given["layers"], parameters["scales"]
    first = LATE[claims[f"order-{layer}"].outcome]
    ends = {max(scales): "largest", min(scales): "smallest"}
    size = f" with the {ends.get(turned[0].given['scale'], 'medium')} initial filters" * (len(scales) > 1)
    return f" By a bounded measure, {first} come first in the {LAYERS[layer]}{size}."


def _in_words(case):
    """``the convolution at initial scale 0.1``."""
    return f"the {LAYERS[case.given['layers']]} at initial scale {case.given['scale']:g}"


FIRST = by_verdict(
    "features come first", "filters come first", "both come at once", undecided="the order is undecided",
    not_judged="the order is not judged",
)  # fmt: skip


def by_share(parameters, claims):
    """The order by :func:`share`, a sentence: the rarer orders with their cases, then that of the others."""
    places = {}
    for case in layers_and_scales(parameters):
        if (outcome := claims[f"share-{case.id}"].outcome) in FIRST:
            places.setdefault(outcome, []).append(_in_words(case))
    if not places:
        return ""
    *rarer, most = sorted(places, key=lambda outcome: len(places[outcome]))
    said = [f"{FIRST[outcome]} only in {listed(places[outcome])}" for outcome in rarer]
    said.append(f"in {'the other' if rarer else 'all'} cases {FIRST[most]}")
    return f"By the share, {'; '.join(said)}."


EQUAL = by_verdict(
    "the features are equally aligned", "they are not equally aligned", "they differ too little to matter",
    undecided="it is undecided", not_judged="it is not judged",
)  # fmt: skip


def at_equal_loss(claims):
    """Whether features are equally aligned with the first layer frozen, a sentence with the differences."""
    found = replicates(claims, "equal-loss")
    if not found:
        return ""
    said = [
        f"with {listed(_difference(claim) for claim in same)} {EQUAL[outcome]}"
        for outcome, same in sorted(found.items(), key=lambda one: list(EQUAL).index(one[0]))
    ]
    margin = next(iter(found.values()))[0].tolerance
    told = "We call the features equally aligned where the share of the labels differs by less than "
    told += f"{margin:g} (in brackets: first layer frozen minus all layers trained)"
    return f"{told}: {'; '.join(said)}."


def _difference(claim):
    """``the dense layer (+0.009)``."""
    return f"the {claim.case} ({claim.measured:+.3f})".replace("-", "−")


def times_as_long(table, layer):
    """The filters' half-time in steps over the features', each of the mean in octaves."""
    features = mean_of(table, layer, "all", half_time).mean()
    filters = features + lags(table, layer).mean()
    return (2**filters - 1) / (2**features - 1)


def key_numbers(table, parameters):
    """The filters' half-time over the features', by kind of first layer."""
    return [
        KeyNumber(
            f"half-time of filters over that of features, {LAYERS[layer]}",
            f"{times_as_long(table, layer):.1f}",
        )
        for layer in parameters["layers"]
        if len(at(table, layer=layer))
    ]
