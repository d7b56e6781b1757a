"""Where and how high the alignment peaks, and the gaps, over rates and batches (Figures 4, 11 to 15)."""

import math
from pathlib import Path

import numpy as np
import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import at, correlation, difference, means
from alignbook.statements import Case, Requirement, Statement

from ..chosen_later import enough_new, on_new
from ..names import called
from ..stopping import GOAL
from .design import FAMILIES, SECOND, conditions

# Printed gaps on CIFAR-10, by panel. Of Figure 15's five loss gaps for four panels none can be told to belong
# to one.
PRINTED = pd.read_csv(Path(__file__).with_name("printed.csv"))
# Printed test accuracies in %: Table 2 for ten layers; of VGG-19's two networks in Figure 20 the lesser one.
ACCURACIES = {"fashion_mnist": 88.3, "cifar10": 83.07}
SHORT = 5.0  # points that our best network may be below it
FULL_SIDE = 32  # pixels; at 16 the last convolutions of VGG-19 see single pixels
KEYS = {"rate": "learning_rate", "batch": "batch_size"}
DECIMALS = 9


def networks(table):
    """One row per network.

    Columns family, dataset, learning_rate, batch_size, seed, passes, train_loss and the accuracies;
    reached : whether the training loss came down to 0.1; layers : how many; peak : the layer (from 1) with
    the largest alignment; place : log2 of it; position : it from 0 (first layer) to 1 (last); height : that
    alignment; contrast : how many times the mean over the layers it is; accuracy_gap : training less test
    accuracy, in points; loss_gap : test less training loss, in nats. Kept for the last table, of which every
    statement asks: neither is to be changed in place.
    """
    if not _LAST or _LAST[0] is not table:
        _LAST[:] = [table, _networks(table)]
    return _LAST[1]


_LAST = []  # the last table, and its networks


def _networks(table):
    rows = []
    keys = ["family", "dataset", "learning_rate", "batch_size", "seed"]
    measured = ["passes", "train_loss", "train_accuracy", "test_accuracy", "test_loss"]
    for key, layers in table.groupby(keys, sort=False) if len(table) else ():
        count = int(layers["layer"].max())
        layers = layers.dropna(subset="alignment")
        if layers.empty:
            continue
        top = layers.loc[layers["alignment"].idxmax()]
        rows.append(
            {
                **dict(zip(keys, key, strict=True)),
                **{name: top[name] for name in measured},
                "reached": top["train_loss"] <= GOAL,
                "layers": count,
                "peak": int(top["layer"]),
                "place": math.log2(top["layer"]),
                "position": (top["layer"] - 1) / max(1, count - 1),
                "height": top["alignment"],
                "contrast": top["alignment"] / layers["alignment"].mean(),
                "accuracy_gap": 100 * (top["train_accuracy"] - top["test_accuracy"]),
                "loss_gap": top["test_loss"] - top["train_loss"],
            }
        )
    names = [*keys, *measured, "reached", "layers", "peak", "place", "position", "height", "contrast"]
    names += ["accuracy_gap", "loss_gap"]
    return pd.DataFrame(rows, columns=names).astype({"reached": bool})


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
        if axis not in varied:
            continue
        logs = np.log2(rows[[KEYS[name] for name in varied]].to_numpy(dtype=float))
        design = np.column_stack([np.ones(len(rows)), logs])
        if np.linalg.matrix_rank(design) < design.shape[1]:
            continue
        solved = np.linalg.lstsq(design, rows[column].to_numpy(dtype=float), rcond=None)[0]
        change = solved[1 + varied.index(axis)] * (1 if axis == "rate" else -1)
        result[seed] = round(float(change), DECIMALS) + 0.0  # peaks that all are the same: 0, not rounding
    return pd.Series(result, dtype=float)


def title(family, parameters):
    """``VGG-19, CIFAR-10``."""
    return f"{FAMILIES[family][0]}, {called(dataset_of(family, parameters))}"


def dataset_of(family, parameters):
    """The images of a family."""
    if family == "dense":
        return parameters["dense_dataset"]
    return parameters["second_dataset" if family in SECOND else "dataset"]


CHANGES = {"rate": "per doubling of the rate", "batch": "per halving of the batch"}


def sweep(family, axis, parameters):
    """The case of one family along one axis."""
    words = f"{title(family, parameters)}, {CHANGES[axis]}"
    return Case(f"{family}-{axis}", words, {"family": family, "axis": axis})


def sweeps(parameters, families=tuple(FAMILIES)):
    """A case for everything that the parameters vary of these families."""
    made = []
    for family in families:
        here = [(rate, batch) for name, rate, batch in conditions(parameters) if name == family]
        for axis, values in zip(CHANGES, zip(*here, strict=True), strict=False):
            if len(set(values)) > 1:
                made.append(sweep(family, axis, parameters))
    return made


def of_dense(parameters):
    """Both sweeps of the fully connected network, whose peak lies before the centre, varied or not."""
    return [sweep("dense", axis, parameters) for axis in CHANGES]


def of_deep(parameters):
    """The sweeps of the convolutional networks."""
    return sweeps(parameters, [family for family in FAMILIES if family != "dense"])


def named(*families):
    """Cases for ``each``: a family each."""
    return lambda parameters: [Case(f, title(f, parameters), {"family": f}) for f in families]


def change(column, sign=1):
    """A reading: how a column of the networks that reached the loss changes along a sweep, by seed."""
    return lambda table, parameters, family, axis: sign * slopes(reached(table, family=family), axis, column)


def together(one, other, sign=1):
    """A reading: correlation of two columns over a seed's networks that reached the loss."""
    return lambda table, parameters, family: sign * correlation(reached(table, family=family), one, other)


def figure_4(parameters):
    """A case for each network of Figure 4."""
    return named("dense", "vgg19", "resnet18")(parameters)


def loss_gap(table, parameters, family, axis):
    """By how much the gap between the losses shrinks along a sweep, by seed."""
    return change("loss_gap", -1)(table, parameters, family, axis)


def defined(table, parameters, family):
    """Minus the correlation of the peak's contrast with the accuracy gap, by seed."""
    return together("contrast", "accuracy_gap", -1)(table, parameters, family)


def away(table, parameters, family):
    """Correlation of the peak's position with the accuracy gap, by seed."""
    return together("position", "accuracy_gap")(table, parameters, family)


def adam_less_sgd(column, sign=1):
    """A reading: mean over the rates with Adam less that with SGD, at the same batch, by seed."""

    def of(table, parameters, family):
        batch = parameters["batch_size"]
        adam, sgd = (
            means(reached(table, family=name, batch_size=batch), column)
            for name in (f"{family}-adam", family)
        )
        return sign * difference(adam, sgd)

    return of


# family -> margin by which a position from 0 to 1 lies in the third that Section 4 names
THIRDS = {
    "dense": lambda position: 1 / 3 - position,
    "vgg19": lambda position: 1 / 6 - (position - 1 / 2).abs(),
    "resnet18": lambda position: position - 2 / 3,
}


def in_its_third(table, parameters, family):
    """By how much the peak lies within its third, mean over the networks of a seed."""
    nets = reached(table, family=family)
    return means(nets.assign(margin=THIRDS[family](nets["position"])), "margin")


def points_short(table, parameters, family, axis=None):
    """By how many points our best network of a family is below the printed test accuracy."""
    nets = at(networks(table), family=family)
    best = nets.groupby(["learning_rate", "batch_size"])["test_accuracy"].mean().max()
    return ACCURACIES.get(dataset_of(family, parameters), math.nan) - 100 * best


def mean_position(table, parameters, family, axis):
    """Where the peaks lie on average, 0 (first layer) to 1 (last)."""
    return reached(table, family=family)["position"].mean()


def panels(table, parameters, family, axis):
    """How many loss gaps are printed for a family."""
    return float(at(PRINTED, family=family)["loss_gap"].notna().sum())


def side_of(table, parameters, family):
    """Pixels a side of the images; of fully connected networks, which have no maps, the paper's."""
    return float(FULL_SIDE if family == "dense" else parameters["side"])


NEAR = Requirement("points of test accuracy below the paper's", points_short, at_most=SHORT)
BEFORE = Requirement("mean position of the peaks, from 0 to 1", mean_position, at_most=0.5)
SHOWN = Requirement("panels of this network in Figures 12 to 14 that print a loss gap", panels, at_least=2)
LARGE = Requirement("pixels a side of the images", side_of, at_least=FULL_SIDE)
MOVES = "A higher learning rate or a smaller batch moves the peak towards the input."
PLACE = {
    "above": 0, "matters": 0.1, "unit": "of log2 of the layer",
    "because": "a third of a layer over the sweep, at layer 3",
}  # fmt: skip
RELATED = {
    "above": 0, "matters": 0.3, "bounds": (-1, 1),
    "because": "a correlation of 0.3 explains less than a tenth of the variance",
}  # fmt: skip
LATER = "one of our readings of Section 4's sentence, added after the first results"
STATEMENTS = [
    Statement(
        "moves", MOVES, source="Figures 3 and 8", of=change("place", -1), each=of_dense, headline=True,
        opposed_by="Section 4 has the peak shift towards the centre, for early peaks away from the input",
        requires=(NEAR, BEFORE), **PLACE,
    ),
    Statement(
        "centre", "A higher learning rate or a smaller batch moves an early peak towards the centre.",
        source="Section 4, of Figure 4", of=change("place"), each=of_dense,
        opposed_by="the captions of Figures 3 and 8 have it shift towards the input",
        requires=(NEAR, BEFORE), **PLACE,
    ),
    Statement(
        "moves", MOVES, source="Figures 3 and 8", of=change("place", -1), each=of_deep, requires=(NEAR,),
        **PLACE,
    ),
    Statement(
        "gap", "A higher learning rate or a smaller batch goes with a smaller gap between the accuracies.",
        source="Section 4, Figures 12 to 15", of=change("accuracy_gap", -1), above=0, matters=0.3,
        unit="points", because="a sixth of the slope over Figure 12's printed gaps", each=sweeps,
        requires=(NEAR,),
    ),
    Statement(
        "loss-gap", "A higher learning rate or a smaller batch goes with a smaller gap between the losses.",
        source="Figures 12 to 14, of VGG-19 on CIFAR-10", of=on_new(loss_gap), above=0, matters=0.02,
        unit="nats", because="a quarter of the slope over Figure 12's printed gaps", each=sweeps,
        post_hoc="added after the first results", requires=(SHOWN, NEAR, enough_new(loss_gap)),
    ),
    Statement(
        "higher", "A higher learning rate or a smaller batch makes the peak higher.", source="Section 4",
        of=change("height"), above=0, matters=0.005, unit="of the alignment", each=sweeps, requires=(NEAR,),
        because="the curves of Figure 4 do not let a reader see less",
    ),
    Statement(
        "loss", "Networks with a higher peak have a lower test loss.", source="Section 4, of Figure 4",
        of=together("height", "test_loss", -1), each=figure_4, requires=(NEAR,),
        opposed_by="the caption of Figure 4 has the height go with a larger error", **RELATED,
    ),
    Statement(
        "error", "Networks with a higher peak have a higher test loss.", source="Figure 4, caption",
        of=together("height", "test_loss"), each=figure_4, requires=(NEAR,),
        opposed_by="Section 4 has large alignments go with good generalisation", **RELATED,
    ),
    Statement(
        "defined", "A better defined peak goes with a smaller accuracy gap.", source="Section 4",
        of=on_new(defined), each=figure_4, requires=(NEAR, enough_new(defined)), ours=True, post_hoc=LATER,
        **RELATED,
    ),
    Statement(
        "away", "A peak farther from the last layer goes with a smaller accuracy gap.", source="Section 4",
        of=on_new(away), each=figure_4, requires=(NEAR, enough_new(away)), ours=True, post_hoc=LATER,
        **RELATED,
    ),
    Statement(
        "adam-gap", "Adam has larger accuracy gaps than SGD (means over the rates).", above=0, matters=0.3,
        source="Figure 13, of VGG-19", of=adam_less_sgd("accuracy_gap"), unit="points",
        because="a sixth of the slope over Figure 12's printed gaps", each=named("vgg19", "resnet18"),
        requires=(NEAR,),
    ),
    Statement(
        "adam-height", "Adam has lower peaks than SGD (means over the rates).", above=0, matters=0.005,
        source="Figure 13, of VGG-19", of=adam_less_sgd("height", -1), unit="of the alignment",
        because="the curves of Figure 13 do not let a reader see less", each=named("vgg19", "resnet18"),
        requires=(NEAR,),
    ),
    Statement(
        "where", "The peak lies early in fully connected networks, mid-way in VGG-19, late in ResNet-18.",
        source="Section 4, of Figure 4; the thirds are ours", of=on_new(in_its_third), each=figure_4, above=0,
        matters=0.05, unit="of the network", because="half a layer of ten",
        post_hoc="added after the first results", requires=(NEAR, LARGE, enough_new(in_its_third)),
    ),
]  # fmt: skip

SAID = {
    HOLDS: "moves the peak towards the input",
    CONTRADICTED: "moves the peak away from the input, not towards it",
    ABSENT: "does not move the peak",
    UNDECIDED: "may or may not move the peak",
}


def finding(table, parameters, claims):
    """Which way the fully connected network's peak moves, and the gap; words follow the verdicts."""
    axes = {"batch": "halving the batch", "rate": "doubling the learning rate"}
    judged = {axis: claims.get(f"moves-dense-{axis}") for axis in axes}
    parts = [f"{axes[axis]} {SAID[c.outcome]}" for axis, c in judged.items() if c and c.outcome in SAID]
    if not parts:
        return "No fully connected network near the paper's accuracy came down to the training loss of 0.1."
    said = f"In the fully connected network {' and '.join(parts)}."
    outcomes = {c.outcome for c in judged.values() if c} - {UNDECIDED, ABSENT}
    if len(outcomes) == 1 and outcomes <= {HOLDS, CONTRADICTED}:
        right, wrong = ("Figure 8", "Section 4") if HOLDS in outcomes else ("Section 4", "Figure 8")
        said += f" The paper says both, and this supports {right} against {wrong}."
    if claims.get("moves-vgg19-rate") and points_short(table, parameters, "vgg19") > SHORT:
        said += " Our convolutional networks are too small to judge."
    return said


def key_numbers(table, parameters):
    """The gap's change along sweeps: of the fully connected network, and of VGG-19 beside the paper's."""
    result = []
    for family, axis, what in (
        ("dense", "rate", "change of the accuracy gap in points per doubling of the rate, fully connected"),
        ("dense", "batch", "the same per halving of the batch"),
        ("vgg19", "rate", "per doubling of the rate, VGG-19"),
    ):
        values = slopes(reached(table, family=family), axis, "accuracy_gap")
        if len(values):
            printed = f"{printed_slope(family, axis):+.1f}" if family == "vgg19" else None
            result.append(KeyNumber(what, interval(values, "{:+.1f}"), printed))
    return result


def along(nets, family, axis, parameters):
    """The networks of a sweep: the other hyperparameter at its middle value, or at the one that is fixed."""
    p, here = parameters, at(nets, family=family)
    other = "batch_size" if axis == "rate" else "learning_rate"
    if family == "dense":
        values = sorted(p["dense_batches"] if axis == "rate" else p["dense_rates"])
        fixed = values[len(values) // 2]
    elif axis == "rate":
        fixed = p["batch_size"]
    else:
        fixed = p["resnet_rate"] if family.startswith("resnet") else p["vgg_rate"]
    return here[here[other] == fixed]


def printed_gaps(family, axis, column="accuracy_gap"):
    """The gaps that the paper prints along a sweep: a Series over the rate or the batch size, ascending."""
    fixed = {"batch_size": 128} if axis == "rate" else {"learning_rate": 0.0032}
    return at(PRINTED, family=family, **fixed).set_index(KEYS[axis])[column].dropna().sort_index()


def printed_slope(family, axis, column="accuracy_gap"):
    """:func:`slopes` of the accuracy gaps, or loss gaps, that the paper prints for one family."""
    rows = at(PRINTED, family=family).dropna(subset=column)
    return float(slopes(rows.assign(seed=0), axis, column).iloc[0])


def beside_printed(nets, parameters):
    """Printed gaps beside ours, one row per sweep and kind of gap (a data frame of texts).

    Columns network, over, gap, printed, here (each ``gap at value``, ours means over the seeds), and the
    change per doubling of the rate or halving of the batch, of the printed panels and ours.
    """
    rows = []
    for family, axis in (("vgg19", "rate"), ("vgg19-adam", "rate"), ("resnet18", "rate"), ("vgg19", "batch")):
        ours = at(along(nets, family, axis, parameters), reached=True)
        for gap, column, form in (("accuracy (points)", "accuracy_gap", ".1f"), ("loss", "loss_gap", ".2f")):
            printed = printed_gaps(family, axis, column)
            if printed.empty:
                continue
            change = slopes(at(nets, family=family, reached=True), axis, column)
            rows.append(
                {
                    "network": title(family, parameters),
                    "over": KEYS[axis].replace("_", " "),
                    "gap": gap,
                    "printed": _at(printed, ".3g"),
                    "here": _at(ours.groupby(KEYS[axis])[column].mean(), form),
                    "printed, per doubling or halving": f"{printed_slope(family, axis, column):+{form}}",
                    "here, per doubling or halving": interval(change, "{:+" + form + "}"),
                }
            )
    return pd.DataFrame(rows)


def _at(gaps, form):
    return ", ".join(f"{gap:{form}} ({f'{value:f}'.rstrip('0').rstrip('.')})" for value, gap in gaps.items())
