"""Whether training raises alignment in every setting, and what depth does to it (Figures 6, 17, 18)."""

from collections import Counter
from functools import partial
from itertools import pairwise, product

import numpy as np
import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import at, curves, difference, once, slope, strongest, verdict
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import OTHERWISE, first_unmet, fitting, held

from ..curve_order import DISAGREE, LARGER, share_above, wide
from ..names import by_set, title
from .design import BASE, families, label, settings

RATES = {"sgd": "plain SGD at 0.1", "slow sgd": "plain SGD at 0.01"}  # plain SGD has two step sizes
SLOW = "slow sgd"
NEAR = 0.1  # of the largest possible area: curves that differ by less mostly overlap; ours
SPLITS = {"train": "training", "test": "test"}
FAMILY = {
    "depth": "depths", "width": "widths", "activation": "activations", "optimiser": "optimisers",
    "batch_size": "batch sizes",
}  # fmt: skip
SEEN = 5  # seeds 0 to 4 had been seen by then
# Mean square of a table's labels, moved to [−1, 1]: what outputs of zero lose. Of two classes it is one bit.
SQUARES = {"ct_slices": 0.289, "diabetes": 0.273}


def plain(setting):
    """A setting's name in words."""
    return RATES.get(setting, setting)


@once
def areas(table, dataset, split):
    """(seeds × (quantity, setting)) frame, quantities ``init``, ``trained`` and ``loss``; empty if none."""
    rows = at(table, kind="area", dataset=dataset, split=split)
    if rows.empty:
        return pd.DataFrame()
    return rows.pivot(index="seed", columns="setting", values=["init", "trained", "loss"])


@once
def alignment(table, dataset, split, setting, column):
    """(seeds × thresholds over √n) frame of a setting's alignment over ‖y‖², ``init`` or ``trained``."""
    rows = at(table, kind="curve", dataset=dataset, split=split, setting=setting)
    return curves(rows, "threshold", column)


def trained_longer(table, parameters, setting):
    """``table``, or where plain SGD at the small step size went on, for it the rows of those runs alone."""
    if setting != SLOW or not parameters["slow_steps"] or "kind" not in table:
        return table
    return _longer(table)


@once
def _longer(table):
    longer = table[table["kind"].str.startswith("slow ")]
    return longer.assign(kind=longer["kind"].str.removeprefix("slow "))


def gain(table, parameters, dataset, setting, split="train", against=("init",)):
    """Area after training less that before it (``init``), of the inputs, or the larger of both, by seed."""
    found = areas(trained_longer(table, parameters, setting), dataset, split)
    if ("trained", setting) not in found:
        return None
    before = {"init": found["init", setting], "inputs": found["init", "inputs"]}
    larger = pd.concat([before[name] for name in against], axis=1).max(axis=1)
    return difference(found["trained", setting], larger)


def above(table, parameters, dataset, setting, split="train", against=("init",)):
    """Share of the thresholds at which the curve after training lies above each that is named, a list."""
    table = trained_longer(table, parameters, setting)
    trained = alignment(table, dataset, split, setting, "trained")
    before = {
        "init": alignment(table, dataset, split, setting, "init"),
        "inputs": alignment(table, dataset, split, "inputs", "trained"),
    }
    return [share_above(trained, before[name]) for name in against]


def removed(table, parameters, dataset, setting):
    """Share of the loss of outputs of zero that training removes, mean over the runs, down to a tenth.

    So that the many settings of the page share few conditions; their losses stand in a table.
    """
    found = areas(trained_longer(table, parameters, setting), dataset, "train")
    if ("loss", setting) not in found:
        return None
    return np.floor(10 * (1 - found["loss", setting].mean() / SQUARES.get(dataset, 1))) / 10


def by_depth(table, parameters, dataset, split="train"):
    """(seeds × depths) frame of areas after training; empty where there are fewer than two depths."""
    found, depths = areas(table, dataset, split), families(parameters)["depth"]
    names = {depth: "base" if setting == BASE else label("depth", depth) for depth, setting in depths.items()}
    if len(names) < 2 or not {("trained", name) for name in names.values()} <= set(found):
        return pd.DataFrame()
    chosen = found["trained"][list(names.values())].set_axis(list(names), axis=1)
    return chosen.sort_index(axis=1).astype(float)


def per_doubling(table, parameters, dataset):
    """Slope of the area after training over log₂ of the depth, by seed."""
    found = by_depth(table, parameters, dataset)
    return slope(found.set_axis(np.log2(found.columns.astype(float)), axis=1)) if len(found) else None


def depth_falls(table, parameters):
    """(seeds × steps) frame: how much less a network aligns than the next shallower one.

    Columns (data set, split, shallower, deeper), of all data sets and both splits.
    """
    steps = {}
    for dataset, split in product(parameters["datasets"], SPLITS):
        found = by_depth(table, parameters, dataset, split)
        for shallow, deep in pairwise(found):
            steps[dataset, split, shallow, deep] = difference(found[shallow], found[deep])
    return pd.DataFrame(steps)


def largest_fall(table, parameters, split):
    """Of the steps on a split the fall that is surest, by seed: one of them is to be one."""
    found = depth_falls(table, parameters).dropna()
    return strongest(*(found[step] for step in found if step[1] == split)) if len(found) else None


def rises_by_depth(table, parameters):
    """At which steps from a depth to the next one the mean area rises, the end of a sentence."""
    means = depth_falls(table, parameters).mean()
    falls = [
        f"{title(dataset)}, {SPLITS[split]} data, from {shallow} to {deep} layers"
        for (dataset, split, shallow, deep), fall in means.items() if fall > 0
    ]  # fmt: skip
    return f"at every step except on {'; '.join(falls)}" if falls else "at every step"


NO_RISE = {ABSENT: "too small to matter", UNDECIDED: "undecided", CONTRADICTED: "a fall"}


def without_rise(table, parameters, split="train"):
    """The steps of a split at which no rise of the area is shown, with its size and verdict; a list."""
    told = []
    for (dataset, own, shallow, deep), fall in depth_falls(table, parameters).items():
        rise = -fall.dropna()
        outcome = verdict(rise, LARGER["matters"]) if own == split and len(rise) else None
        if outcome in NO_RISE:
            size = interval(rise, "{:+.3f}")
            told.append(f"{title(dataset)}, from {shallow} to {deep} layers: {size}, {NO_RISE[outcome]}")
    return told


def apart(table, parameters, family):
    """Largest less smallest area of the settings of a family on MNIST, after training, by seed."""
    found, members = areas(table, "mnist", "train"), families(parameters)[family]
    names = ["base" if one == BASE else label(family, value) for value, one in members.items()]
    if not {("trained", name) for name in names} <= set(found):
        return None
    own = found["trained"][names]
    return (own.max(axis=1) - own.min(axis=1)).dropna()


def on_digits(parameters):
    """Cases per family of which MNIST has more than one member; the captions' figures are grouped so."""
    return [
        Case(f"mnist-{family.replace('_', '-')}", plural, {"family": family})
        for family, plural in FAMILY.items()
        if "mnist" in parameters["datasets"] and len(families(parameters)[family]) > 1
    ]


def cases(parameters, slow=None):
    """Cases per data set and setting; ``slow``: those of plain SGD at the small step size, or all others."""
    names = dict.fromkeys([*settings(parameters), *[SLOW] * bool(parameters["slow_steps"])])
    return [
        Case(
            f"{dataset}-{name.replace(' ', '-')}", f"{title(dataset)}, {plain(name)}",
            {"dataset": dataset, "setting": name},
        )
        for dataset in parameters["datasets"] for name in names if slow in (None, name == SLOW)
    ]  # fmt: skip


LEARNED = Requirement(
    "share of the loss at the start that training removes, mean over the runs, rounded down to tenths",
    removed, at_least=0.5,
    because="A network that has not learned its labels does not show what learning them does",
)  # fmt: skip


UNLEARNED = "the network did not learn its labels"


def over_settings(id, text, source, headline=False, **given):
    """A statement about every setting, with its smallest effect; a larger one of plain SGD at 0.01."""
    of, shares = partial(gain, **given), partial(above, **given)
    small, large = LARGER["matters"], 0.05
    rule = LARGER | {"requires": (LEARNED, wide(of, shares, small))}
    wider = {"matters": large, "because": "as planned for runs that have not learned their labels"}
    wider["requires"] = (LEARNED, wide(of, shares, large))
    return [
        Statement(id, text, source, of, each=partial(cases, slow=False), headline=headline, **rule),
        Statement(id, text, source, of, each=partial(cases, slow=True), **rule | wider),
    ]


STATEMENTS = [
    *over_settings(
        "raises",
        "Training raises alignment with the training labels above its initial value and above that of the "
        "inputs.",
        "Figures 6 and 17, Section 5", against=("init", "inputs"), headline=True,
    ),
    *over_settings(
        "inputs", "After training, the last hidden layer aligns better than the inputs.",
        "Figures 6 and 17, Section 5", against=("inputs",),
    ),
    *over_settings(
        "test",
        "On test data, too, training raises alignment above its initial value and above that of the inputs.",
        "Figure 18, Section 5", split="test", against=("init", "inputs"),
    ),
    Statement(
        "depth", "The deeper the network, the better its last hidden layer aligns with the training labels.",
        source="Abstract, (a); Figure 6", of=per_doubling, each=by_set,
        **LARGER | {"unit": "of the largest possible area, per doubling of depth"},
        opposed_by="Section 5 finds no consistent increase in final alignment as depth increases",
    ),
    Statement(
        "depth-uneven",
        "The increase with depth is not consistent: on some data set's training data, a network aligns less "
        "than the next shallower one.",
        source="Section 5, of Figure 6", of=partial(largest_fall, split="train"), **LARGER, ours=True,
        opposed_by="the abstract says that more alignment arises from depth",
        seen=SEEN, post_hoc="we asked this after seeing the areas of the first five runs",
    ),
    Statement(
        "depth-uneven-test",
        "On test data, too, the increase is not consistent: on some data set a network aligns less than the "
        "next shallower one.",
        source="Section 5; that it covers test data is ours", of=partial(largest_fall, split="test"),
        **LARGER, ours=True,
        seen=SEEN, post_hoc="we asked this after seeing the areas of the first five runs",
    ),
    Statement(
        "overlap",
        "On MNIST, trained networks that differ in one choice align about equally well: largest minus "
        "smallest area.",
        source="Captions of Figures 6 and 17, “mostly overlap”", of=apart, each=on_digits, below=NEAR,
        matters=0.01, unit=LARGER["unit"], because=LARGER["because"], ours=True,
        seen=SEEN, post_hoc="we asked this after seeing the areas of the first five runs",
    ),
]  # fmt: skip


def outcomes(parameters, claims, id):
    """{``setting on data set``: outcome} of a statement about every setting, of those that were run."""
    found = {
        f"{plain(case.given['setting'])} on {title(case.given['dataset'])}": claims[f"{id}-{case.id}"].outcome
        for case in cases(parameters)
    }
    return {name: outcome for name, outcome in found.items() if outcome != NOT_RUN}


def in_settings(found, noun):
    """In how many settings a statement holds; a single exception by its name, several by their number.

    Settings that are not judged count as those in which it does not hold; they are not named.
    """
    rest = {name: outcome for name, outcome in found.items() if outcome not in (HOLDS, NOT_JUDGED)}
    holds = sum(outcome == HOLDS for outcome in found.values())
    if holds == len(found) or (len(rest) == len(found) and len(set(rest.values())) == 1):
        return held(found, noun)
    counts = [f"{number} {outcome}" for outcome, number in Counter(rest.values()).items()]
    alone = len(rest) == len(found) - holds == 1
    told = [f"{OTHERWISE[outcome]}: {name}" for name, outcome in rest.items()] if alone else counts
    return f"{holds or 'none'} of {len(found)} {noun}" + f" ({', '.join(told)})" * bool(told)


def unjudged(parameters, claims, id):
    """Which settings are not judged and why, the end of a sentence; "" of none."""
    why = {}
    for case in cases(parameters):
        claim = claims[f"{id}-{case.id}"]
        if claim.outcome == NOT_JUDGED:
            reason = first_unmet(claim, {LEARNED.text: UNLEARNED}, otherwise=DISAGREE)
            name = f"{plain(case.given['setting'])} on {title(case.given['dataset'])}"
            why.setdefault(reason, []).append(name)
    others = sum(one not in (HOLDS, NOT_JUDGED) for one in outcomes(parameters, claims, id).values())
    told = []
    for reason, names in why.items():
        alone = len(names) == sum(map(len, why.values())) == 1 and not others
        where = f"one ({names[0]})" if alone else f"{len(names) if len(names) > 1 else 'one'}"
        told.append(f"in {where} {reason}")
    return f"; {' and '.join(told)}" if told else ""


def longer(parameters, claims):
    """How many settings are judged on longer runs, the end of a sentence; "" of none."""
    names = [
        f"{plain(case.given['setting'])} on {title(case.given['dataset'])}"
        for case in cases(parameters) if claims[f"raises-{case.id}"].runs
    ]  # fmt: skip
    return f" ({'one' if len(names) == 1 else len(names)} after longer training)" * bool(names)


def finding(table, parameters, claims):
    """In how many settings training raises alignment, with the exceptions; then test data."""
    raised, test = (outcomes(parameters, claims, id) for id in ("raises", "test"))
    if {*raised.values(), *test.values()} <= {NOT_JUDGED}:
        return "No setting is judged on these runs."
    small = " CT slices come from two patients." * ("ct_slices" in parameters["datasets"])
    noun = "combinations of setting and data set" if len(parameters["datasets"]) > 1 else "settings"
    test_too = ", on training and on test data" if raised == test else "; on test data, in {}"
    train = in_settings(raised, noun)
    also = test_too.format(in_settings(test, "").replace("  ", " ").rstrip())
    said = (
        f"Training raises alignment above its initial value and above that of the inputs in {train}{also}"
        f"{unjudged(parameters, claims, 'raises')}"
    )
    return fitting(f"{said}{longer(parameters, claims)}.{small}", f"{said}.{small}", f"{said}.")


def key_numbers(table, parameters):
    """By how much the trained base network's area exceeds that of the inputs, by data set."""
    made = []
    for dataset in parameters["datasets"]:
        found = areas(table, dataset, "train")
        if ("trained", "base") in found:
            more = difference(found["trained", "base"], found["init", "inputs"])
            what = f"area under the alignment curve, trained base network minus inputs, {title(dataset)}"
            made.append(KeyNumber(what, interval(more, "{:+.2f}")))
    return made[:3]
