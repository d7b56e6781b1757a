"""Does the source like the target align better with it, and transfer better? (Figures 14, 15, 21)"""

from pathlib import Path

import numpy as np
import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import at, curves, difference, first, last, sample, weakest
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import fitting, listed

from ..curve_order import weakest_step

PARTS = ("natural", "artificial")
LAYERS = {1: "the first layer", 2: "stage 1", 3: "stage 2", 4: "stage 3"}
STEM = 1  # the first convolution, which is none of the paper's "last four hidden layers"
STAGES = {n: name for n, name in LAYERS.items() if n != STEM}
# The accuracies of Figure 15: network, part (of the source), target, accuracy in percent.
PRINTED = pd.read_csv(Path(__file__).with_name("printed.csv"))
SEEN = 15  # seeds 0 to 14 had been seen when the readings that are post hoc were chosen
GONE = 0.05  # of ‖y‖²: alignment that has dropped off, as in Figure 13
# data/plans/representation_alignment.yaml
TWENTIETH = "a twentieth of the area could hardly be seen between two drawn curves"


def gaps(table, column, *keys, **rows):
    """``column`` from the source like the target less that from the other one, for each pair of classes.

    keys : ``layer`` or ``threshold``, if any; rows : which rows of the table
    A Series indexed by seed, target, pair and ``keys``; without seeds that lack a source.
    """
    found = at(table, **rows)
    if found.empty:
        return pd.Series(dtype=float)
    wide = found.pivot(index=["seed", "target", "pair", *keys], columns="part", values=column)
    wide = wide.reindex(columns=list(PARTS)).dropna()
    sign = np.where(wide.index.get_level_values("target") == "natural", 1.0, -1.0)
    return sign * (wide["natural"] - wide["artificial"])


def averaged(values, key):
    """Mean over the pairs of classes: (seeds × ``key``) frame of a Series with a value for each pair."""
    return values.groupby(["seed", key]).mean().unstack() if len(values) else pd.DataFrame()


def unlike_areas(table, **rows):
    """(seeds × layers) frame of the area from the source unlike the target, mean over the pairs."""
    found = at(table, kind="area", **rows)
    return averaged(found[found["part"] != found["target"]].set_index(["seed", "layer"])["area"], "layer")


def area_gaps(table, **rows):
    """(seeds × layers) frame of gaps of the area, mean over the pairs, in percent of :func:`unlike_areas`."""
    found = averaged(gaps(table, "area", "layer", kind="area", **rows), "layer")
    return 100 * (found / unlike_areas(table, **rows)).dropna(how="all") if len(found) else found


def stage_gaps(table):
    """:func:`area_gaps` of the stages, without the stem."""
    return area_gaps(table).drop(columns=STEM, errors="ignore")


def curve_gaps(table, layer, **rows):
    """(seeds × thresholds) frame of gaps of the alignment over ‖y‖², mean over the pairs."""
    return averaged(gaps(table, "alignment", "threshold", kind="curve", layer=layer, **rows), "threshold")


def higher(table, parameters, layer, **rows):
    """The gap of the area in one layer, by seed."""
    found = area_gaps(table, **rows)
    return found[layer].dropna() if layer in found else None


def later(table, parameters):
    """How much larger the gap of the last stage is than that of the first."""
    found = stage_gaps(table)
    return difference(last(found), first(found))


def each_later(table, parameters):
    """The weakest rise of the gap from one stage to the next, by seed."""
    found = stage_gaps(table)
    return weakest_step(found.assign(inputs=0.0).rename(columns={"inputs": 0})) if len(found) else None


def alignment_left(table, layer):
    """Mean alignment over ‖y‖² from the source like the target, by threshold, over pairs and runs."""
    rows = at(table, kind="curve", layer=layer)
    return rows[rows["part"] == rows["target"]].groupby("threshold")["alignment"].mean()


def shown_up_to(table):
    """Where plots end: beyond this threshold no mean curve is above a hundredth of the labels."""
    left = [alignment_left(table, layer) for layer in LAYERS]
    return max((curve.index[curve > 0.01].max() for curve in left if len(curve)), default=1.0) + 0.05


def everywhere(table, parameters, layer):
    """The gap of the alignment at the threshold that shows one least, by seed.

    Of the thresholds at which the mean curve is between its ends: more than ``GONE`` of the labels is left,
    and more than ``GONE`` is missing (at 0 all features span all labels).
    """
    found = curve_gaps(table, layer)
    if len(found) < 2:
        return found.min(axis=1) if len(found) else None
    left = alignment_left(table, layer)
    between = left.index[(left > GONE) & (left < 1 - GONE)]
    values = found.loc[:, found.columns.isin(between)]
    return weakest(*(values[threshold] for threshold in values)) if values.size else None


def accuracies(table, target, column="accuracy"):
    """(seeds × sources) frame of percent after fine-tuning on one part of the target."""
    return curves(at(table, kind="accuracy", target=target), "part", column)


def gain(table, parameters, target):
    """How much more accurate the network from the source like the target is, in points."""
    found = accuracies(table, target)
    if not set(PARTS) <= set(found):
        return None
    return difference(found[target], found[_other(target)])


def printed_gain(parameters, target):
    """The same of the printed accuracies of ResNet-18."""
    found = at(PRINTED, network="ResNet18", target=target).set_index("part")["accuracy"]
    return float(found[target] - found[_other(target)])


def _other(part):
    return PARTS[1 - PARTS.index(part)]


def source_accuracy(table, parameters, **given):
    """The lower of both sources' mean accuracies on their own test images, percent."""
    means = [sample(at(table, kind="source", part=part), "accuracy").mean() for part in PARTS]
    return float(np.min(means))


LEARNED = (
    Requirement(
        "accuracy of the source networks on their own test images, in percent",
        source_accuracy,
        30,
        because="Guessing among the 30 classes of a source in CIFAR-100 would give 3.3",
    ),
)
AREA = {"above": 0, "matters": 5.0, "because": TWENTIETH, "unit": "% of the area", "requires": LEARNED}
OVER_STAGES = [Case(f"layer{n}", name, {"layer": n}) for n, name in STAGES.items()]
CURVE = {
    "above": 0, "matters": 0.01, "unit": "of the labels", "requires": LEARNED,
    "because": "a hundredth of the labels is about the width of a drawn curve",
}  # fmt: skip
EARLIER = [  # stages before the last, by kind of target
    Case(f"{case.id}-{part}", f"{case.words}, {part} classes", case.given | {"target": part})
    for case in OVER_STAGES[:-1] for part in PARTS
]  # fmt: skip
KINDS = [Case(part, f"{part} classes", {"target": part}) for part in PARTS]

STATEMENTS = [
    Statement(
        "higher",
        "Pre-training on the source more similar to the target gives features that align better with it "
        "(area under the curve, mean over the target tasks).",
        source="Figures 14 and 21, Section 7.3", of=higher, each=lambda p: OVER_STAGES, headline=True, **AREA,
    ),
    Statement(
        "everywhere",
        "Features from the more similar source align better at all thresholds, even where the difference is "
        "smallest.",
        source="Figure 14, Section 7.3", of=everywhere, each=lambda p: OVER_STAGES, **CURVE,
    ),
    Statement(
        "later", "The difference between the sources is larger in the last stage than in the first.",
        source="Figure 14, Section 7.3", of=later, **AREA,
    ),
    Statement(
        "each-later", "The difference between the sources grows from every stage to the next.",
        source="Figure 14", of=each_later, **AREA, seen=SEEN,
        post_hoc="the first convolution was left out after the results had been seen",
    ),
    Statement(
        f"higher-layer{STEM}", "In the first layer, too, features from the more similar source align better.",
        source="Figure 14", of=lambda t, p: higher(t, p, STEM), ours=True, **AREA,
    ),
    Statement(
        f"everywhere-layer{STEM}",
        "In the first layer, features from the more similar source align better at all thresholds.",
        source="Figure 14", of=lambda t, p: everywhere(t, p, STEM), ours=True, **CURVE,
    ),
    Statement(
        "both-kinds",
        "In the last layer, features from the more similar source align better with either kind of target.",
        source="Section 7.3", of=lambda t, p, target: higher(t, p, max(LAYERS), target=target),
        each=lambda p: KINDS, **AREA,
    ),
    Statement(
        "either-kind",
        "Before the last layer, too, features from the more similar source align better with either kind of "
        "target.",
        source="Section 7.3", of=higher, each=lambda p: EARLIER, **AREA, seen=SEEN,
        post_hoc="asked of every stage, not of the last alone, after the results had been seen",
    ),
    Statement(
        "tuned", "After fine-tuning, the network pre-trained on the more similar source is more accurate.",
        source="Figure 15, Section 7.3", of=gain, each=lambda p: KINDS, paper=printed_gain, above=0,
        matters=0.5, because="4,000 test images give an accuracy to about half a point", unit="points",
        requires=LEARNED,
    ),
]  # fmt: skip

SAID = {
    HOLDS: "better",
    CONTRADICTED: "worse",
    ABSENT: "no better",
    UNDECIDED: "perhaps better",
    NOT_JUDGED: "to a degree unjudged",
}
TUNED = {
    HOLDS: "higher",
    CONTRADICTED: "lower",
    ABSENT: "no higher",
    UNDECIDED: "undecided",
    NOT_JUDGED: "not judged",
}
OPEN = {UNDECIDED, NOT_JUDGED}


def finding(table, parameters, claims):
    """In which stages the source like the target aligns better, and what fine-tuning makes of it."""
    found = area_gaps(table)
    if found.empty:
        return "No run has finished."
    outcomes = [claims[f"higher-{case.id}"].outcome for case in OVER_STAGES]
    parts = []
    for outcome, words in SAID.items():
        stages = [case for case, one in zip(OVER_STAGES, outcomes, strict=True) if one == outcome]
        if stages:
            size = _size(outcome, last(found).mean())
            most = {*outcomes, claims["later"].outcome} == {HOLDS}
            size = f", most in the last ({size} in area)" if most else f" ({size} in the last)"
            size *= OVER_STAGES[-1] in stages
            parts.append(f"{words} in {_listed(stages)}{size}")

    animals, objects = (claims[f"tuned-{part}"].outcome for part in PARTS)
    if animals == objects:
        after = f"{_tuned(objects)} on both kinds of target"
    elif {animals, objects} <= OPEN:
        after = f"{_tuned(objects)} on artificial classes and {TUNED[animals]} on natural ones"
    else:
        natural = f"this is {TUNED[animals]}" if animals in OPEN else _tuned(animals, "it")
        after = f"{_tuned(objects)} on artificial classes; on natural ones {natural}"
    said = f"On average, features learned on a more similar source align with the target {', '.join(parts)}"
    text = f"{said}; {after}. CIFAR-100 stands in for ImageNet, and fine-tuning stops unfinished."
    short = text.replace("accuracy after fine-tuning", "fine-tuned accuracy")
    sources = short.replace(
        "learned on a more similar source align with the target", "of more similar sources align with targets"
    )
    plain = sources.replace("On average, features", "Features")
    told = sources.replace("all three stages of the network", f"all three stages{_everywhere(claims)}")
    texts = (text, short, sources, plain)
    if _everywhere(claims):
        texts = (told, told.replace(", and fine-tuning stops unfinished", ""), *texts)
    return fitting(*texts, *(one.replace(", and fine-tuning stops unfinished", "") for one in texts))


def _everywhere(claims):
    """`` (at all thresholds in stages 2 and 3)``: where all thresholds show it; nothing if in all."""
    holds = [case for case in OVER_STAGES if claims[f"everywhere-{case.id}"].outcome == HOLDS]
    if len(holds) == len(OVER_STAGES):
        return ""
    return f" (at all thresholds in {_listed(holds) if holds else 'none'})"


def _tuned(outcome, it="accuracy after fine-tuning"):
    """``accuracy after fine-tuning is higher``, a clause."""
    word = TUNED.get(outcome, "not measured")
    return f"whether {it} is higher is {word}" if outcome in OPEN else f"{it} is {word}"


def _size(outcome, percent):
    """``by 16 %`` of what is better or worse, ``+2 %`` of the rest."""
    return f"by {abs(percent):.0f} %" if outcome in (HOLDS, CONTRADICTED) else f"{percent:+.0f} %"


def _listed(stages):
    """``stages 1 and 2`` of their cases."""
    numbers = [case.words.removeprefix("stage ") for case in stages]
    if len(numbers) == len(STAGES):
        return "all three stages of the network"
    return f"stage{'s' * (len(numbers) > 1)} {listed(numbers)}"


def key_numbers(table, parameters):
    """Gaps of the area by layer, and gains of accuracy beside the printed ones."""
    found = area_gaps(table)
    if found.empty:
        return []
    shown = interval(last(found), "{:+.0f}")
    made = [KeyNumber("difference of areas in the last layer, in % of the other source's", shown)]
    for target in PARTS:
        what = f"accuracy on {target} classes: similar source minus the other, points (paper: ResNet-18)"
        here, paper = gain(table, parameters, target), printed_gain(parameters, target)
        made.append(KeyNumber(what, f"{here.mean():+.1f}" if here is not None else None, f"{paper:+.1f}"))
    return made


def accuracy_table(table):
    """Figure 15: source by target, the printed numbers beside ours with 95 % intervals; a frame for show."""
    rows = {}
    for part in PARTS:
        cells = {}
        for target in PARTS:
            found = accuracies(table, target)
            for network in ("ResNet18", "T2T-ViT"):
                printed = at(PRINTED, network=network, part=part, target=target)["accuracy"].iloc[0]
                cells[f"{target}: {network}"] = f"{printed:.2f}"
            mine = found[part] if part in found else []
            cells[f"{target}: here"] = interval(mine, "{:.1f}", within=(0, 100))
        rows[f"from {part}"] = cells
    return pd.DataFrame(rows).T
