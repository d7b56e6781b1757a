"""Does a deeper, or a wider, network start with less alignment than the inputs? (Figure 19, Section 9)"""

from dataclasses import replace
from functools import partial
from itertools import pairwise, takewhile

import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED, KeyNumber
from alignbook.over_seeds import at, curves, difference, last, once, ratio, weakest
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import first_unmet, fitting, opening

from ..curve_order import DISAGREE, by_area, share_above
from ..names import by_set, title
from .design import DEPTHS, INPUTS, NAMES

# data/plans/representation_alignment.yaml
TWENTIETH = "a twentieth of the inputs' area could hardly be seen between two drawn curves"


@once
def areas(table, dataset, mode="evaluation"):
    """(seeds × networks) frame of areas, the inputs' among them; empty where there are none."""
    return curves(at(table, kind="area", dataset=dataset, mode=[mode, INPUTS]), "network", "area")


@once
def drops(table, dataset, mode="evaluation"):
    """(seeds × networks) frame: by how much of the inputs' area a network's lies below it, percent.

    The networks in the order of their depth.
    """
    frame = areas(table, dataset, mode)
    if INPUTS not in frame:
        return pd.DataFrame()
    found = 100 * (1 - frame.drop(columns=INPUTS).div(frame[INPUTS], axis=0))
    return found[sorted(found, key=DEPTHS.get)]


@once
def curves_of(table, dataset, network, mode="evaluation"):
    """Alignment curves of an untrained network or of the inputs, (seeds × thresholds) frame; may be empty."""
    rows = at(table, kind="curve", dataset=dataset, mode=[mode, INPUTS])
    return curves(at(rows, network=network), "threshold", "alignment") if "network" in rows else rows.iloc[:0]


def lower(table, parameters, dataset, mode="evaluation"):
    """Share of the thresholds at which a network's curve lies below the next shallower one's: a list."""
    found = [curves_of(table, dataset, name, mode) for name in drops(table, dataset, mode)]
    return [share_above(shallow, deep) for shallow, deep in pairwise(found)]


def lower_step(table, parameters, dataset, shallow, deep):
    """As :func:`lower`, of one step."""
    return [share_above(curves_of(table, dataset, shallow), curves_of(table, dataset, deep))]


def below_inputs(table, parameters, dataset, network):
    """Share of the thresholds at which a network's curve lies below the inputs': a list of one."""
    return [share_above(curves_of(table, dataset, INPUTS), curves_of(table, dataset, network))]


def alike(table, dataset):
    """{(network, the next deeper one): ``3 of 5 runs``}, in which their curves differ at no stored threshold.

    By a hundredth of the larger one's highest value, as :func:`share_above` has it.
    """
    shares = zip(pairwise(drops(table, dataset)), lower(table, {}, dataset), strict=True)
    return {pair: f"{one.isna().sum()} of {len(one)} runs" for pair, one in shares if one.isna().any()}


def nowhere_apart(table, dataset):
    """``ResNet-50 and ResNet-101 in 3 of 5 runs``, as :func:`alike` has it; a list."""
    found = alike(table, dataset).items()
    return [f"{NAMES[shallow]} and {NAMES[deep]} in {runs}" for (shallow, deep), runs in found]


def growth(table, parameters, dataset, mode="evaluation"):
    """Of the growths of the drop from a network to the next deeper one, the one that shows it least."""
    frame = drops(table, dataset, mode)
    steps = [difference(frame[deep], frame[shallow]) for shallow, deep in pairwise(frame)]
    return weakest(*steps) if steps else None


def step(table, parameters, dataset, shallow, deep):
    """The growth of the drop from one network to another."""
    frame = drops(table, dataset)
    return difference(frame[deep], frame[shallow]) if {shallow, deep} <= set(frame) else None


def batch_step(table, parameters, dataset):
    """The growth from the deepest network without batch norm to the shallowest with it, in mode ``batch``."""
    frame, batch = drops(table, dataset), drops(table, dataset, "batch")
    plain = frame.drop(columns=batch.columns)
    if plain.shape[1] and batch.shape[1]:
        return difference(batch.iloc[:, 0], plain.iloc[:, -1])
    return None


def lower_batch_step(table, parameters, dataset):
    """As :func:`lower`, of the step of :func:`batch_step`."""
    batch = drops(table, dataset, "batch").columns
    plain = drops(table, dataset).columns.difference(batch, sort=False)
    if not (len(batch) and len(plain)):
        return []
    return [share_above(curves_of(table, dataset, plain[-1]), curves_of(table, dataset, batch[0], "batch"))]


def room(table, parameters, dataset, shallow=None, deep=None, mode="evaluation"):
    """What can still be lost below ``shallow``, mean over the seeds, percent of the inputs' area.

    Below the shallower network of every step, the least of them, where none is named.
    """
    frame = drops(table, dataset, mode)
    left = 100 - frame.iloc[:, :-1].mean()
    return left.get(shallow) if shallow else left.min() if len(left) else None


def drop(table, parameters, dataset, network):
    """The drop of one network, by seed."""
    frame = drops(table, dataset)
    return frame[network].dropna() if network in frame else None


def by_width(table, dataset, column="area"):
    """(seeds × widths) frame of the random features, width 0 the inputs; empty where there are none."""
    rows = at(table, kind="area", dataset=dataset)
    return curves(rows.dropna(subset="width"), "width", column) if "width" in rows else pd.DataFrame()


def wide_drop(table, parameters, dataset):
    """The drop of the widest random features below the inputs, by seed."""
    frame = by_width(table, dataset)
    return 100 * (1 - ratio(last(frame), frame[0])) if 0 in frame and frame.shape[1] > 1 else None


def wide_fits(table, parameters, dataset):
    """The smallest share of the labels that least squares on the widest features fits, over the seeds."""
    frame = by_width(table, dataset, "fitted")
    return last(frame).min() if len(frame) else None


def by_training(table, dataset, state):
    """(seeds × networks) frame of areas before or after training on ImageNet, and of the inputs."""
    rows = at(table, kind="area", dataset=dataset)
    rows = at(rows.dropna(subset="trained"), state=[state, INPUTS]) if "trained" in rows else rows.iloc[:0]
    return curves(rows, "trained", "area")


def trained_shares(table, parameters, dataset, network, state="after"):
    """Share of the thresholds at which the curve after training lies above the inputs': a list of one.

    state : ``"before"``: of those at which it lies below them, before training
    """
    rows = at(table, kind="curve", dataset=dataset)
    if "trained" not in rows:
        return []
    pair = [(network, state), (INPUTS, INPUTS)][:: 1 if state == "after" else -1]
    return [share_above(*(curves(at(rows, trained=n, state=s), "threshold", "alignment") for n, s in pair))]


def above_inputs(table, dataset, network):
    """``55 %``: the thresholds at which the curve after training lies above the inputs', or a dash."""
    shares = [one for one in trained_shares(table, {}, dataset, network) if one.notna().any()]
    return f"{100 * shares[0].mean():.0f} %" if shares else "–"


def after(table, parameters, dataset, network):
    """By how much the area of a network trained on ImageNet lies above the inputs', by seed."""
    frame = by_training(table, dataset, "after")
    return difference(frame[network], frame[INPUTS]) if network in frame else None


def before(table, parameters, dataset, network):
    """By how much of the inputs' area that of the same network lies below it before training, percent."""
    frame = by_training(table, dataset, "before")
    return 100 * (1 - ratio(frame[network], frame[INPUTS])) if network in frame else None


def steps(parameters):
    """Cases per data set and step from a network to the next deeper one."""
    ordered = sorted(parameters["networks"], key=DEPTHS.get)
    return [
        Case(
            f"{deep}-{data}", f"{NAMES[shallow]} to {NAMES[deep]}, {title(data)}",
            {"dataset": data, "shallow": shallow, "deep": deep},
        )
        for data in parameters["datasets"] for shallow, deep in pairwise(ordered)
    ]  # fmt: skip


def networks(parameter):
    """Cases per data set and network that ``parameter`` names."""
    return lambda parameters: [
        Case(f"{name}-{data}", f"{NAMES[name]}, {title(data)}", {"dataset": data, "network": name})
        for data in parameters["datasets"] for name in parameters[parameter]
    ]  # fmt: skip


MATTERS = 5.0  # percent of the inputs' area
ROOM = Requirement(
    "what the shallower network leaves to lose, in percent of the inputs' area", room, at_least=MATTERS,
    because="If less is left, the drop cannot grow enough to matter",
)  # fmt: skip
BATCH_ROOM = replace(ROOM, of=partial(room, mode="batch"))
SEEN = 5  # seeds 0 to 4 had been seen when the readings that are post hoc were chosen
PERCENT = {"above": 0, "matters": MATTERS, "unit": "%", "because": TWENTIETH}
AFTER = 0.05  # of the largest area


also = partial(by_area, matters=MATTERS)

STATEMENTS = [
    Statement(
        "deeper",
        "The deeper the untrained network, the farther its alignment drops below the inputs', in percent.",
        source="Figure 19, Section 7.2", each=by_set, headline=True, **PERCENT, **also(growth, lower, ROOM),
    ),
    Statement(
        "step", "From a network to the next deeper one, the drop at initialisation grows.",
        source="Figure 19, Section 7.2", each=steps, **PERCENT, **also(step, lower_step, ROOM),
    ),
    Statement(
        "poor", "An untrained network aligns less with the labels than the inputs.",
        source="Figure 19, Section 7.2", each=networks("networks"), **PERCENT, **also(drop, below_inputs),
    ),
    Statement(
        "deeper-batch",
        "The drop grows with depth among residual networks alone, too, with the batch's statistics in batch "
        "normalisation.",
        source="Figure 19, Section 7.2", each=by_set, ours=True, **PERCENT,
        **also(partial(growth, mode="batch"), partial(lower, mode="batch"), BATCH_ROOM),
    ),
    Statement(
        "batch-step",
        "From VGG-16, without batch normalisation, to the shallowest residual network with the batch's "
        "statistics, the drop at initialisation grows.",
        source="Figure 19, Section 7.2", each=by_set, ours=True, **PERCENT, seen=SEEN,
        **also(batch_step, lower_batch_step, seen=SEEN),
        post_hoc="asked after the drops with the batch's statistics had been seen",
    ),
    Statement(
        "wide", "Random ReLU features, enough of them to fit every label, align less than the inputs.",
        source="Section 9", of=wide_drop, each=by_set, ours=True, **PERCENT,
        requires=(Requirement("share of the labels that the features fit", of=wide_fits, at_least=0.999),),
    ),
    Statement(
        "after", "After training on ImageNet, a network aligns more with the labels than the inputs.",
        source="Figures 13 (a) and 19, Section 7.2", each=networks("trained"), above=0,
        **also(after, trained_shares, matters=AFTER, seen=SEEN),
        matters=AFTER, unit="of the largest area", because="as on the page of Figure 13", seen=SEEN,
        post_hoc="after seeing five runs in percent, we compared areas as on the page of Figure 13",
    ),
    Statement(
        "before", "Before training on ImageNet, the same network aligns less than the inputs.",
        source="Figures 13 (a) and 19, Section 7.2", each=networks("trained"), **PERCENT,
        **also(before, partial(trained_shares, state="before")),
    ),
]  # fmt: skip


GROWTH = {
    HOLDS: "shown",
    CONTRADICTED: "reversed",
    ABSENT: "absent",
    UNDECIDED: "undecided",
    NOT_JUDGED: "not judged",
    NOT_RUN: "not measured",
}


def finding(table, parameters, claims):
    """Whether the drop grows with depth on each data set, and what the batch's statistics make of it."""
    data = parameters["datasets"][0]
    claim, frame = claims[f"deeper-{data}"], drops(table, data)
    said = opening(
        claim, "Deeper networks start with less alignment",
        contradicted="Deeper networks do not start with less alignment",
        absent="One deeper network starts with hardly less alignment",
    )  # fmt: skip
    if said is None:
        return "Nothing has finished."
    lost, running = frame.mean(), ", with batch norm's running statistics"
    ends = (
        f"{NAMES[frame.columns[-1]]} starts {lost.iloc[-1]:.0f} % below the inputs, "
        f"{NAMES[frame.columns[0]]} {lost.iloc[0]:.0f} %"
    )
    seen = _unjudged(table, data, claims) if claim.outcome == NOT_JUDGED else "{}"
    whole = f"{said} on {title(data)}: {seen.format(ends)}{_elsewhere(table, parameters, claims)}."
    batch = [f" {one}." for one in _by_batch(table, parameters, claims)]
    placed = whole.replace(f" on {title(data)}", f" on {title(data)}{running}", 1)
    return fitting(*(f"{one}{more}" for more in batch for one in (placed, whole)), whole)


def _unjudged(table, data, claims):
    """What is seen where the headline is not judged, and why it is not; ``{}`` stands for both ends of it.

    Where curves of neighbours differ nowhere, the steps before them that hold, and which these are.
    """
    lost = drops(table, data).mean()
    step = {deep: claims[f"step-{deep}-{data}"].outcome for deep in lost.index[1:]}
    same = [pair for pair in alike(table, data) if step[pair[1]] == NOT_JUDGED]
    why = f"{{}}, but {DISAGREE}"
    if same:
        deeper = takewhile(lambda name: step[name] == HOLDS, step)
        pairs = " and of ".join(f"{NAMES[shallow]} and {NAMES[deep]}" for shallow, deep in same)
        why = (
            f"{NAMES[lost.index[0]]} starts {lost.iloc[0]:.0f} % below the inputs"
            f"{''.join(f', {NAMES[name]} lower still' for name in deeper)}, but the curves of {pairs} hardly "
            "differ at our thresholds"
        )
    full = f"{{}}, but {NAMES[lost.index[-2]]} already starts so low that a further drop cannot be judged"
    return first_unmet(claims[f"deeper-{data}"], {ROOM.text: full}, otherwise=why)


def _by_batch(table, parameters, claims):
    """What the batch's statistics change, sentences without their full stops, the longest first.

    On the first data set, whether the shallowest network with batch normalisation then starts higher than the
    deepest one without; and on all of them, whether the drop grows among the residual networks.
    """
    data = parameters["datasets"][0]
    found = [claims[f"deeper-batch-{one}"].outcome for one in parameters["datasets"]]
    trend = " or ".join(GROWTH[one] for one in dict.fromkeys(found))
    own, step = "With the batch's own statistics in batch norm", batch_step(table, parameters, data)
    if step is None or step.mean() >= 0:
        short = own.replace(" in batch norm", "")
        return [f"{own}, the trend among residual networks is {trend}", f"{short}, the trend is {trend}"]
    plain, batch = drops(table, data), drops(table, data, "batch").mean()
    before = plain.columns.difference(batch.index, sort=False)[-1]
    claim = claims[f"batch-step-{data}"]
    judged = "" if claim.outcome == CONTRADICTED else f"; {GROWTH[claim.outcome]}"
    higher = f"{own}, {NAMES[batch.index[0]]} starts higher than {NAMES[before]}"
    size = f"{batch.iloc[0]:.0f} % below the inputs"
    short = f"{higher}{judged.replace('; ', ' (') + ')' * bool(judged)}"
    return [
        f"{higher} ({size}{judged}), and the trend from there on is {trend}",
        f"{higher} ({size}{judged})",
        short,
        short.replace(" in batch norm", ""),
    ]


def _elsewhere(table, parameters, claims):
    """How the other data sets came out, a clause, or nothing where they agree with the first."""
    words = {
        HOLDS: "they do", CONTRADICTED: "they do not", ABSENT: "{} starts too little below {} to matter",
        NOT_JUDGED: DISAGREE,
    }  # fmt: skip
    full = "{1} already starts so low that a further drop cannot be judged"
    first, *others = (claims[f"deeper-{data}"] for data in parameters["datasets"])
    said = ""
    for data, claim in zip(parameters["datasets"][1:], others, strict=True):
        told = words.get(claim.outcome, f"it is {claim.outcome}")
        if claim.outcome == NOT_JUDGED:
            told = first_unmet(claim, {ROOM.text: full}, otherwise=told)
        if claim.outcome != first.outcome:
            said += f"; on {title(data)}, {told.format(*_nearest(table, data))}"
    return said


def _nearest(table, data):
    """Names of the two networks next to each other in depth of which the deeper adds least to the drop."""
    mean = drops(table, data).mean()
    place = mean.diff().iloc[1:].argmin()
    return NAMES[mean.index[place + 1]], NAMES[mean.index[place]]


def key_numbers(table, parameters):
    """Area of the deepest network over that of the inputs, per data set."""
    found = []
    for data in parameters["datasets"]:
        frame = areas(table, data)
        if INPUTS in frame:
            deepest = drops(table, data).columns[-1]
            what = f"area under the alignment curve, {NAMES[deepest]} divided by inputs, {title(data)}"
            found.append(KeyNumber(what, f"{(frame[deepest] / frame[INPUTS]).mean():.3f}"))
    return found[:3]
