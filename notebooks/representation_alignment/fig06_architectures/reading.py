"""Whether training raises alignment in every setting, and what depth does to it (Figures 6, 17, 18)."""

import numpy as np
import pandas as pd

from alignbook.claims import CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED, KeyNumber
from alignbook.over_seeds import at, curves, difference, slope
from alignbook.statements import Case, Statement

from ..curve_order import percent_above
from .design import BASE, areas, families, label, settings

NAMES = {"ct_slices": "CT Position", "mnist": "MNIST", "cifar10": "CIFAR-10"}
RATES = {"sgd": "plain SGD at 0.1", "slow sgd": "plain SGD at 0.01"}  # plain SGD has two step sizes
SLOW = "slow sgd"
SHOWN = 2  # exceptions that the finding names
AREA = "a hundredth of the largest possible area is about what the width of a drawn curve covers"
WIDER = "five hundredths of the largest possible area, as planned for runs that have not learned their labels"
DOUBTS = "Section 5 finds no consistent increase in final alignment as depth increases"
PROMISES = "the abstract has more alignment arising from depth"


def trained_longer(table, parameters):
    """``table``, or where plain SGD at the small step size went on, the rows of those runs in its place."""
    if not parameters["slow_steps"] or "kind" not in table:
        return table
    longer = table[table["kind"].str.startswith("slow ")]
    return longer.assign(kind=longer["kind"].str.removeprefix("slow "))


def gain(table, parameters, dataset, setting, split="train", against=("init",)):
    """Area after training less that before it (``init``), of the inputs, or the larger of both, by seed."""
    rows = trained_longer(table, parameters) if setting == SLOW else table
    found = areas(rows, dataset, split)
    if ("trained", setting) not in found:
        return None
    before = {"init": found["init", setting], "inputs": found["init", "inputs"]}
    larger = pd.concat([before[name] for name in against], axis=1).max(axis=1)
    return difference(found["trained", setting], larger)


def alignment(table, dataset, split, setting, column):
    """(seeds × thresholds over √n) frame of a setting's alignment over ‖y‖², ``init`` or ``trained``."""
    rows = at(table, kind="curve", dataset=dataset, split=split, setting=setting)
    return curves(rows, "threshold", column)


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


def deepest_falls(table, parameters, dataset, split):
    """How much less the deepest network aligns than the next shallower one, by seed."""
    found = by_depth(table, parameters, dataset, split)
    return difference(found.iloc[:, -2], found.iloc[:, -1]) if len(found) else None


def title(dataset):
    """How a sentence calls a data set."""
    return NAMES.get(dataset, dataset)


def plain(setting):
    """A setting's name in words."""
    return RATES.get(setting, setting)


def cases(slow):
    """Cases per data set and setting; ``slow``: those of plain SGD at the small step size, or all others."""

    def made(parameters):
        names = dict.fromkeys([*settings(parameters), *[SLOW] * bool(parameters["slow_steps"])])
        return [
            Case(
                f"{dataset}-{name.replace(' ', '-')}",
                f"{title(dataset)}, {plain(name)}",
                {"dataset": dataset, "setting": name},
            )
            for dataset in parameters["datasets"]
            for name in names
            if (name == SLOW) == slow
        ]

    return made


def over_settings(id, text, source, headline=False, **given):
    """A statement about every setting, with its smallest effect; a larger one of plain SGD at 0.01."""

    def of(table, parameters, **case):
        return gain(table, parameters, **given, **case)

    shared = {"of": of, "above": 0, "unit": "of the largest possible area"}
    return [
        Statement(
            id, text, source, each=cases(False), matters=0.01, because=AREA, headline=headline, **shared
        ),
        Statement(id, text, source, each=cases(True), matters=0.05, because=WIDER, **shared),
    ]


STATEMENTS = [
    *over_settings(
        "raises", "Training raises alignment with the training labels.", "Figures 6 and 17, Section 5",
        headline=True,
    ),
    *over_settings(
        "inputs", "After training, the last hidden layer aligns better than the inputs.",
        "Figures 6 and 17, Section 5", against=("inputs",),
    ),
    *over_settings(
        "test", "On test data, too, training raises alignment above that before it and that of the inputs.",
        "Figure 18, Section 5", split="test", against=("init", "inputs"),
    ),
    Statement(
        "depth", "The deeper the network, the better its last hidden layer aligns with the training labels.",
        source="Abstract, (a); Figure 6", of=per_doubling, above=0, matters=0.01,
        unit="of the largest possible area, per doubling of depth", because=AREA, opposed_by=DOUBTS,
        each=lambda p: [Case(name, title(name), {"dataset": name}) for name in p["datasets"]],
    ),
    Statement(
        "depth-uneven", "The increase with depth is not consistent: the deepest network aligns less than the "
        "next shallower one.",
        source="Section 5", of=deepest_falls, above=0, matters=0.01, unit="of the largest possible area",
        because=AREA, opposed_by=PROMISES, ours=True,
        post_hoc="which two depths are compared was chosen after the areas were seen",
        each=lambda p: [
            Case(f"{name}-{split}", f"{title(name)}, {word} data", {"dataset": name, "split": split})
            for name in p["datasets"]
            for split, word in (("train", "training"), ("test", "test"))
        ],
    ),
]  # fmt: skip


def judged_of(claims, id):
    """The claims of one statement over all settings that were judged, {id: Claim}."""
    return {
        name: claim
        for name, claim in claims.items()
        if name.startswith(f"{id}-") and claim.outcome not in (NOT_RUN, NOT_JUDGED)
    }


def exceptions(claims, id):
    """{``data set, setting``: outcome} of the settings in which the statement ``id`` is not found to hold."""
    return {
        claim.statement.removeprefix(claim.group).strip(" ()"): claim.outcome
        for claim in judged_of(claims, id).values()
        if claim.outcome != HOLDS
    }


def _but(found):
    """`` (undecided: MNIST, linear)``: the first of ``exceptions`` by outcome, or nothing."""
    words = {UNDECIDED: "undecided", CONTRADICTED: "not", "absent": "no change"}
    parts = []
    for outcome, word in words.items():
        names = [name for name, one in found.items() if one == outcome]
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        parts += [f"{word}: {'; '.join(names[:SHOWN])}{more}"] if names else []
    return f" ({', '.join(parts)})" if parts else ""


def finding(table, parameters, claims):
    """In how many settings training raises alignment, and the exceptions by name; then test data."""
    cases = len(judged_of(claims, "raises"))
    if not cases:
        return "No setting is among the results."
    fall, test = exceptions(claims, "raises"), exceptions(claims, "test")
    held = f"{cases - len(fall)} of {cases}" if fall else f"all {cases}"
    said = (
        f"Training raises alignment with the labels in {held} settings{_but(fall)}; on test data it ends "
        f"above the inputs, too, in {cases - len(test)}{_but(test)}."
    )
    small = not at(table, kind="area", dataset="ct_slices").empty
    return said + " Of CT Position only slices of two patients were at hand." * small


def key_numbers(table, parameters):
    """The base network's areas, over how many thresholds it is above the inputs, and the gain by depth."""
    shown, higher, deeper = {}, [], []
    for dataset in parameters["datasets"]:
        found = areas(table, dataset, "train")
        if ("trained", "base") not in found:
            continue
        values = (found["init", "inputs"], found["init", "base"], found["trained", "base"])
        shown[title(dataset)] = " / ".join(f"{part.mean():.2f}" for part in values)
        trained = alignment(table, dataset, "train", "base", "trained")
        higher.append(percent_above(trained, alignment(table, dataset, "train", "inputs", "trained")))
        rise = per_doubling(table, parameters, dataset)
        deeper.append("–" if rise is None else f"{rise.mean():+.2f}")
    if not shown:
        return []
    sets = ", ".join(shown)
    return [
        KeyNumber(f"area of the inputs / base network before / after: {sets}", ", ".join(shown.values())),
        KeyNumber(f"thresholds at which the trained base is above the inputs: {sets}", ", ".join(higher)),
        KeyNumber(f"change of the area when depth doubles: {sets}", ", ".join(deeper)),
    ]
