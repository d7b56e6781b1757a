"""Where and how high the alignment peaks, and the gaps, over rates and batches (Figures 4, 11 to 15)."""

import math
from pathlib import Path

import numpy as np
import pandas as pd

from alignbook.claims import (
    ABSENT,
    CONTRADICTED,
    HOLDS,
    NOT_JUDGED,
    NOT_RUN,
    UNDECIDED,
    KeyNumber,
    interval,
    t_interval,
)
from alignbook.over_seeds import agree, at, correlation, difference, means, once
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import first_unmet, fitting, listed, sentences

from ..names import called
from ..stopping import GOAL
from .design import FAMILIES, SECOND, conditions

# Printed gaps on CIFAR-10, by panel. Of Figure 15's five loss gaps for four panels none can be told to belong
# to one.
PRINTED = pd.read_csv(Path(__file__).with_name("printed.csv"))
# Printed test accuracies in %: Table 2 for ten layers; of VGG-19's two networks in Figure 20 the lesser one.
ACCURACIES = {"fashion_mnist": 88.3, "cifar10": 83.07}
SHORT = 5.0  # points that our best network may be below it
TIE = 0.1  # of the largest alignment: a layer within it might as well be the peak
HEIGHT = 0.005  # of the alignment: the smallest change of a peak's height that matters
FULL_SIDE = 32  # pixels; at 16 the last convolutions of VGG-19 see single pixels
KEYS = {"rate": "learning_rate", "batch": "batch_size"}
CHANGES = {"rate": "per doubling of the rate", "batch": "per halving of the batch"}
NETWORK = ["family", "dataset", *KEYS.values(), "seed"]
COLUMNS = [*NETWORK, "test_accuracy", "test_loss", "reached", "layers", "peak", "place", "position", "height"]
COLUMNS += ["accuracy_gap", "loss_gap"]


@once
def networks(table):
    """One row per network that has an alignment.

    ``NETWORK``, test_accuracy and test_loss; reached : whether the training loss came down to 0.1; layers :
    how many; peak : the layer (from 1) with the largest alignment; place : log2 of it; position : it from 0
    (first layer) to 1 (last); height : that alignment; accuracy_gap : training less test accuracy, in points;
    loss_gap : test less training loss, in nats.
    """
    if not len(table):
        return pd.DataFrame(columns=COLUMNS)
    rows = table.reset_index(drop=True)
    rows = rows.assign(layers=rows.groupby(NETWORK)["layer"].transform("max")).dropna(subset="alignment")
    top = rows.loc[rows.groupby(NETWORK, sort=False)["alignment"].idxmax()]
    return top.assign(
        reached=top["train_loss"] <= GOAL,
        peak=top["layer"],
        place=np.log2(top["layer"]),
        position=(top["layer"] - 1) / (top["layers"] - 1).clip(lower=1),
        height=top["alignment"],
        accuracy_gap=100 * (top["train_accuracy"] - top["test_accuracy"]),
        loss_gap=top["test_loss"] - top["train_loss"],
    )[COLUMNS]


def reached(table, **which):
    """The networks with these values that came down to the loss."""
    return at(networks(table), reached=True, **which)


def slopes(nets, axis, column):
    """Change of ``column`` per doubling of the rate, or per halving of the batch, by seed.

    Least squares over a seed's networks on log2 of the learning rate and of the batch size at once where both
    vary; no seed with fewer than two values along ``axis``.
    """
    result = {}
    for seed, rows in nets.groupby("seed"):
        varied = [name for name, key in KEYS.items() if rows[key].nunique() > 1]
        logs = np.log2(rows[[KEYS[name] for name in varied]].to_numpy(dtype=float))
        design = np.column_stack([np.ones(len(rows)), logs])
        if axis not in varied or np.linalg.matrix_rank(design) < design.shape[1]:
            continue
        solved = np.linalg.lstsq(design, rows[column].to_numpy(dtype=float), rcond=None)[0]
        change = solved[1 + varied.index(axis)] * (1 if axis == "rate" else -1)
        result[seed] = round(float(change), 9) + 0.0  # peaks that all are the same: 0, not rounding
    return pd.Series(result, dtype=float)


def title(family, parameters):
    """``VGG-19, CIFAR-10``."""
    return f"{FAMILIES[family][0]}, {called(dataset_of(family, parameters))}"


def dataset_of(family, parameters):
    """The images of a family."""
    if family == "dense":
        return parameters["dense_dataset"]
    return parameters["second_dataset" if family in SECOND else "dataset"]


def sweeps(*families):
    """Cases for ``each``: what the parameters vary of these families; of ``dense`` both axes always."""

    def cases(parameters):
        made = []
        for family in families:
            here = [tried for name, *tried in conditions(parameters) if name == family]
            for (axis, words), values in zip(CHANGES.items(), zip(*here, strict=True), strict=False):
                if family == "dense" or len(set(values)) > 1:
                    given = {"family": family, "axis": axis}
                    made.append(Case(f"{family}-{axis}", f"{title(family, parameters)}, {words}", given))
        return made

    return cases


def each_of(*families):
    """Cases for ``each``: a family each."""
    return lambda parameters: [Case(f, title(f, parameters), {"family": f}) for f in families]


def change(column, sign=1):
    """A reading: how a column of the networks that reached the loss changes along a sweep, by seed."""
    return lambda table, parameters, family, axis: sign * slopes(reached(table, family=family), axis, column)


def same_with_all(of, matters):
    """A condition: ``of(networks, axis)`` has the same verdict with the networks that missed the loss."""

    def met(table, parameters, family, axis=None):
        every = at(networks(table), family=family)
        return agree(*(of(nets, axis) for nets in (at(every, reached=True), every)), matters=matters)

    return met


def nearly_as_high(table):
    """Of the fully connected networks that reached the loss: (how many have a second layer within a tenth
    of the largest alignment, how many there are).
    """
    nets = reached(table, family="dense")
    rows = table.merge(nets[NETWORK]).dropna(subset="alignment") if len(nets) else nets
    if not len(rows):
        return 0, 0
    second = rows.groupby(NETWORK)["alignment"].apply(lambda values: values.nlargest(2).iloc[-1])
    largest = rows.groupby(NETWORK)["alignment"].max()
    return int((second >= (1 - TIE) * largest).sum()), len(largest)


def in_the_first_layer(table):
    """Fully connected networks that reached the loss: (how many peak in the first layer, how many)."""
    peaks = reached(table, family="dense")["peak"]
    return int((peaks == 1).sum()), len(peaks)


def together(one, other, sign=1):
    """A reading: correlation of two columns over a seed's networks that reached the loss."""
    return lambda table, parameters, family: sign * correlation(reached(table, family=family), one, other)


def ranked(nets, one, other):
    """Rank correlation of two columns over a seed's networks, by seed."""
    return correlation(nets.assign(**nets.groupby("seed")[[one, other]].rank()), one, other)


def adam_less_sgd(column, sign=1):
    """A reading: mean over the rates with Adam less that with SGD, at the same batch, by seed."""

    def of(table, parameters, family):
        nets = reached(table, batch_size=parameters["batch_size"])
        adam, sgd = (means(at(nets, family=name), column) for name in (f"{family}-adam", family))
        return sign * difference(adam, sgd)

    return of


# Where Section 4 has the peak, of positions from 0 to 1.
THIRDS = {"dense": (-math.inf, 1 / 3), "vgg19": (1 / 3, 2 / 3), "resnet18": (2 / 3, math.inf)}


def in_its_third(table, parameters, family):
    """By how much the peak lies within its third, mean over the networks of a seed."""
    nets, (low, high) = reached(table, family=family), THIRDS[family]
    margin = np.minimum(nets["position"] - low, high - nets["position"])
    return means(nets.assign(margin=margin), "margin")


def printed_change(parameters, family, axis):
    """By how many points the gaps that the paper prints shrink along a sweep; None where it prints no two."""
    found = slopes(at(PRINTED, family=family).assign(seed=0), axis, "accuracy_gap")
    return round(-found[0], 1) if len(found) else None


def points_short(table, parameters, family, axis=None):
    """By how many points our best network of a family is below the printed test accuracy."""
    nets = at(networks(table), family=family)
    best = nets.groupby(["learning_rate", "batch_size"])["test_accuracy"].mean().max()
    return ACCURACIES.get(dataset_of(family, parameters), math.nan) - 100 * best


ALL, DEEP = sweeps(*FAMILIES), sweeps(*(family for family in FAMILIES if family != "dense"))
FIGURE_4, CONVOLUTIONAL = each_of("dense", "vgg19", "resnet18"), each_of("vgg19", "resnet18")
NEAR = Requirement("points of test accuracy below the paper's", points_short, at_most=SHORT)
BEFORE = Requirement(
    "mean position of the peaks, from 0 to 1",
    lambda t, p, family, axis: reached(t, family=family)["position"].mean(), at_most=0.5,
)  # fmt: skip
SHOWN = Requirement(
    "panels of this network in Figures 12 to 14 that print a loss gap",
    lambda t, p, family, axis: float(at(PRINTED, family=family)["loss_gap"].notna().sum()), at_least=2,
)  # fmt: skip
LARGE = Requirement(  # fully connected networks have no maps
    "side of the images in pixels",
    lambda t, p, family: float(FULL_SIDE if family == "dense" else p["side"]), at_least=FULL_SIDE,
)  # fmt: skip
RELATION = 0.3  # the smallest correlation that matters
SAME = {
    column: Requirement(
        "the verdict is the same with the networks that missed the loss", same_with_all(of, matters),
        because="The paper keeps networks that end by epochs",
    )
    for column, of, matters in (
        ("height", lambda nets, axis: slopes(nets, axis, "height"), HEIGHT),
        ("loss", lambda nets, axis: correlation(nets, "height", "test_loss"), RELATION),
    )
}  # fmt: skip
PLACE = {
    "above": 0, "matters": 0.1, "unit": "in log2 of the layer",
    "because": "a third of a layer over the sweep, at layer 3",
}  # fmt: skip
GAP = {
    "above": 0, "matters": 0.3, "unit": "points",
    "because": "a sixth of the slope over Figure 12's printed gaps",
}  # fmt: skip
RELATED = {
    "above": 0, "matters": RELATION, "bounds": (-1, 1),
    "because": "a correlation of 0.3 explains less than a tenth of the variance",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "centre",
        "A higher learning rate or a smaller batch moves the peak from the early layers towards the centre.",
        source="Section 4, about Figure 4", of=change("place"), each=sweeps("dense"), headline=True,
        opposed_by="in the captions of Figures 3 and 8 it shifts towards the input",
        post_hoc="made the main claim after these seeds were seen, because Section 4 says it about Figure 4; "
        "the statement and its rule were there before them",
        requires=(NEAR, BEFORE), **PLACE,
    ),
    Statement(
        "moves", "A higher learning rate or a smaller batch moves the peak towards the input.",
        source="Figures 3 and 8, whose networks train for all of their epochs; that it reaches to a training "
        "loss of 0.1 is ours",
        of=change("place", -1), each=sweeps("dense"), ours=True,
        opposed_by="in Section 4, about Figure 4, it shifts towards the centre, which for an early peak is "
        "away from the input",
        requires=(NEAR, BEFORE), **PLACE,
    ),
    Statement(
        "late-moves",
        "In VGG-19 and ResNet-18, a higher learning rate or a smaller batch moves the peak towards the "
        "input.",
        source="Section 4, about Figure 4, for peaks behind the centre, as ResNet-18's; that VGG-19's middle "
        "layers count as such is ours", of=change("place", -1), each=DEEP,
        requires=(NEAR,), **PLACE,
    ),
    Statement(
        "gap", "A higher learning rate or a smaller batch goes with a smaller gap in accuracy.",
        source="Section 4, Figures 12 to 15", of=change("accuracy_gap", -1), each=ALL,
        requires=(NEAR,), paper=printed_change, **GAP,
    ),
    Statement(
        "loss-gap", "A higher learning rate or a smaller batch goes with a smaller gap in loss.",
        source="Figures 12 to 14, which show VGG-19 on CIFAR-10", of=change("loss_gap", -1), above=0,
        matters=0.02, unit="nats", because="a quarter of the slope over Figure 12's printed gaps", each=ALL,
        post_hoc="added after the first results", seen=3, requires=(SHOWN, NEAR),
    ),
    Statement(
        "higher", "A higher learning rate or a smaller batch makes the peak higher.", source="Section 4",
        of=change("height"), above=0, matters=HEIGHT, unit="in alignment", each=ALL,
        requires=(NEAR, SAME["height"]),
        because="smaller differences cannot be read from the curves of Figure 4",
    ),
    Statement(
        "loss", "Networks with a higher peak have a lower test loss.", source="Section 4, about Figure 4",
        of=together("height", "test_loss", -1), each=FIGURE_4, requires=(NEAR, SAME["loss"]),
        opposed_by="in the caption of Figure 4 the height goes with a larger error", **RELATED,
    ),
    Statement(
        "adam-gap", "Adam gives larger accuracy gaps than SGD (means over the rates).",
        source="Figure 13, which shows VGG-19", of=adam_less_sgd("accuracy_gap"), each=CONVOLUTIONAL,
        requires=(NEAR,), **GAP,
    ),
    Statement(
        "adam-height", "Adam gives lower peaks than SGD (means over the rates).", above=0, matters=HEIGHT,
        source="Figure 13, which shows VGG-19", of=adam_less_sgd("height", -1), unit="in alignment",
        because="smaller differences cannot be read from the curves of Figure 13", each=CONVOLUTIONAL,
        requires=(NEAR,),
    ),
    Statement(
        "where", "The peak lies early in fully connected networks, mid-way in VGG-19 and late in ResNet-18.",
        source="Section 4, about Figure 4; the thirds are ours", of=in_its_third, each=FIGURE_4, above=0,
        matters=0.05, unit="of the network", because="half a layer of ten",
        post_hoc="added after the first results", seen=3, requires=(NEAR, LARGE),
    ),
]  # fmt: skip

AXES = {
    "batch": ("halving of the batch", "smaller batches"),
    "rate": ("doubling of the rate", "higher rates"),
}
SAID = {  # both directions are the paper's
    HOLDS: "the early peak moves {}, towards the centre, as Section 4 says, not the input, as Figure 8 says",
    CONTRADICTED: "the early peak moves {}, as Figure 8 says, not towards the centre, as Section 4 says",
    ABSENT: "{} hardly move the early peak, which the paper has move in two opposite directions",
    UNDECIDED: "whether {} move the early peak, and in which of the paper's two directions, is undecided",
}
BESIDE = {  # the same, of the second axis
    CONTRADICTED: "it moves {}",
    ABSENT: "{} hardly move it",
    UNDECIDED: "whether {} move it is undecided",
}
RISES = {
    HOLDS: "it becomes higher{}",
    CONTRADICTED: "it becomes lower{}",
    ABSENT: "it stays as high{}",
    UNDECIDED: "whether it becomes higher{} is undecided",
    NOT_JUDGED: "whether it becomes higher{} is not judged",
}
BETTER = {
    HOLDS: "across settings, higher peaks go with a lower test loss",
    CONTRADICTED: "across settings, higher peaks go with a higher test loss",
    ABSENT: "across settings, the peak's height says little about the test loss",
    UNDECIDED: "whether higher peaks generalise better is undecided",
}


def finding(table, parameters, claims):
    """Which way the fully connected network's peak moves, and whether it rises; words follow the verdicts."""
    judged = {axis: claims[f"centre-dense-{axis}"] for axis in AXES}
    if all(claim.outcome == NOT_RUN for claim in judged.values()):
        return "No fully connected network reached the training loss of 0.1."
    parts = []
    for outcome, words in SAID.items():
        if axes := [axis for axis, claim in judged.items() if claim.outcome == outcome]:
            moved = outcome in (HOLDS, CONTRADICTED)
            words = BESIDE[outcome] if parts else words
            parts.append(words.format(how_far(judged, axes) if moved else changes(axes)))
    if not parts:
        return f"We do not judge which way the fully connected peak moves: {judged['rate'].test}."
    said = f"In fully connected networks, {'; '.join(parts)}"
    first, total = in_the_first_layer(table)
    if 2 * first >= total and {claim.outcome for claim in judged.values()} == {HOLDS}:
        where = f"In {first} of {total} it is the first layer"
        told = [sentences(said, f"{where}, from which it can move no other way"), f"{said}."]
        if which_count(claims):
            height = "whether it grows depends on which runs count"
            told.insert(0, sentences(said, f"{where} and can only move deeper", height))
        return fitting(*told)
    heights = {axis: claims[f"higher-dense-{axis}"].outcome for axis in AXES}
    rises = []
    for outcome, words in RISES.items():
        if axes := [axis for axis in AXES if heights[axis] == outcome]:
            rises.append(words.format(f" with {changes(axes)}" if len(axes) < len(AXES) else ""))
    turns = {SAME["height"].text: ": it depends on which networks count"}
    whys = {first_unmet(claims[f"higher-dense-{axis}"], turns, otherwise="") for axis in AXES}
    why = whys.pop() if rises and len(whys) == 1 else ""
    rise, better = "; ".join(rises), BETTER.get(claims["loss-dense"].outcome)
    small = ""
    if "late-moves-vgg19-rate" in claims and points_short(table, parameters, "vgg19") > SHORT:
        small = "our convolutional networks are too small to judge"
    tails = ((f"{rise}{why}", better), (f"{rise}{why}",), (rise, better), (rise,), (small,))
    return fitting(*(sentences(said, *tail) for tail in tails if any(tail)), f"{said}.")


def which_count(claims):
    """Whether it depends on the networks that missed the loss if the peak becomes higher, on either axis."""
    open_ = (claims[f"higher-dense-{axis}"] for axis in AXES)
    return all(
        claim.outcome == NOT_JUDGED and first_unmet(claim, {SAME["height"].text: True}, otherwise=False)
        for claim in open_
    )


def how_far(judged, axes):
    """``28 % deeper per halving of the batch and 34 % per doubling of the rate``: all in one direction."""
    moves = []
    for axis in axes:
        change = 2 ** judged[axis].measured - 1
        where = "" if moves else " deeper" if change > 0 else " nearer the input"
        moves.append(f"{100 * abs(change):.0f} %{where} per {AXES[axis][0]}")
    return listed(moves)


def changes(axes):
    """``smaller batches or higher rates``."""
    return " or ".join(AXES[axis][1] for axis in axes)


KEY_NUMBERS = {
    ("dense", "place", "batch"): "peak's layer, change in % per halving of the batch, fully connected",
    ("dense", "place", "rate"): "the same per doubling of the rate",
    ("vgg19", "accuracy_gap", "rate"): "VGG-19's accuracy gap, points per doubling of the rate, not judged",
}


def key_numbers(table, parameters):
    """How far the fully connected peak moves along sweeps; VGG-19's accuracy gap beside the paper's."""
    result = []
    for (family, column, axis), what in KEY_NUMBERS.items():
        values = slopes(reached(table, family=family), axis, column)
        if not len(values):
            continue
        if column == "place":
            result.append(KeyNumber(what, percent(values)))
        else:
            printed = printed_change(parameters, family, axis)
            result.append(KeyNumber(what, interval(values, "{:+.1f}"), printed and f"{-printed:+.1f}"))
    return result


def percent(logs):
    """``+28 (+15 to +43)``: of values in log2, the mean and its interval as changes in %."""
    _, mean, ends = t_interval(logs)
    middle, *ends = (f"{100 * (2**value - 1):+.0f}" for value in (mean, *(ends or ())))
    return middle + (f" ({ends[0]} to {ends[1]})" if ends else "")


def along(nets, family, axis, parameters):
    """The networks of a sweep: the other hyperparameter at its middle value, or at the one that is fixed."""
    p = parameters
    rate, batch = p["resnet_rate" if family.startswith("resnet") else "vgg_rate"], p["batch_size"]
    if family == "dense":
        rate, batch = (sorted(p[name])[len(p[name]) // 2] for name in ("dense_rates", "dense_batches"))
    fixed = {"batch_size": batch} if axis == "rate" else {"learning_rate": rate}
    return at(nets, family=family, **fixed)


def printed_gaps(family, axis):
    """The accuracy gaps that the paper prints along a sweep: a Series over rate or batch size, ascending."""
    fixed = {"batch_size": 128} if axis == "rate" else {"learning_rate": 0.0032}
    return at(PRINTED, family=family, **fixed).set_index(KEYS[axis])["accuracy_gap"].sort_index()
