"""Whether features of a network trained on ImageNet align best, and are learned from fastest (Figure 13)."""

from functools import partial
from itertools import pairwise, product

import numpy as np
import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED, KeyNumber
from alignbook.over_seeds import agree, at, curves, difference, from_seed, once, weakest
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import fitting, held, listed, unmet, weaker

from ..curve_order import by_area, percent_above, share_above
from ..names import by_set, title
from ..step_sizes import at_best, best
from .design import NAMES

OTHERS = ("original", "init", "hog", "sift", "rbf")
LOSSES = ("squared", "logistic")
SIZE = 1.0  # the largest step size at which the squared error converges on every representation
GONE = 0.05  # of ‖y‖²: alignment that has dropped off
CLOSED = 1e-6  # of ‖y‖²: what the closed-form solution may leave of labels that it fits
SEEN = 5  # seeds 0 to 4 were seen before two readings were chosen


def areas(table, dataset):
    """(seeds × representations) frame of areas; empty where there are none."""
    return curves(at(table, kind="area", dataset=dataset), "representation", "area")


def curves_of(table, dataset, representation):
    """Alignment curves over ‖y‖², (seeds × thresholds over √n) frame."""
    rows = at(table, kind="curve", dataset=dataset, representation=representation)
    return curves(rows, "threshold", "alignment")


@once
def learning(table, dataset, loss, size=SIZE):
    """Rows of kind ``step`` at one step size for all representations; None: at the best one of each."""
    rows = at(table, kind="step", dataset=dataset, loss=loss)
    return at(rows, step_size=size) if size else at_best(rows, best(rows, ["representation"], "train"))


def losses(table, dataset, loss, split, step=None, size=None):
    """(seeds × representations) frame of the ``train`` or ``test`` loss after ``step`` (None: the last)."""
    rows = learning(table, dataset, loss, size)
    return curves(at(rows, step=rows["step"].max() if step is None else step), "representation", split)


def early(parameters):
    """The step at which training losses are compared."""
    return min(parameters["early"], parameters["iterations"])


def ahead(frame, name, sign):
    """How far ``name`` lies above the largest other column (``sign`` 1) or below the least (−1), by seed."""
    return difference(sign * frame[name], (sign * frame.drop(columns=name)).max(axis=1, skipna=False))


def larger(table, parameters, dataset, high, low):
    """By how much the area of ``high`` is larger than that of ``low``, by seed."""
    return ahead(areas(table, dataset)[[high, low]], high, 1)


def higher(table, parameters, dataset, high, low):
    """Share of the thresholds at which the curve of ``high`` lies above that of ``low``: a list of one."""
    return [share_above(curves_of(table, dataset, high), curves_of(table, dataset, low))]


def lead(table, parameters, dataset, loss, step, size, split="train", name="transfer", sign=-1):
    """How far ``name`` has the least loss, or with ``sign`` 1 the largest, by seed; as :func:`losses`."""
    found = losses(table, dataset, loss, split, step, size)
    return ahead(found, name, sign) if name in found else pd.Series(dtype=float)


def ordered(table, parameters, dataset, loss, step, size):
    """Rise of the training loss from a representation to the next in the order of the mean areas.

    Of the three rises, the one that shows it least; after ``step`` at ``size``, as :func:`losses`.
    """
    left = losses(table, dataset, loss, "train", step, size)
    order = by_mean_area(table, dataset, left)
    return weakest(*(difference(left[low], left[high]) for high, low in pairwise(order)))


def by_mean_area(table, dataset, names):
    """``names`` of representations in the order of their mean areas, the largest first; a list."""
    mean = areas(table, dataset).mean()
    return sorted(names, key=lambda name: -mean[name])


def one_way(of, step, size):
    """``of`` at one step (``early``, or None: the last) and size, as a statement takes it."""

    def chosen(table, parameters, **given):
        return of(table, parameters, step=early(parameters) if step else None, size=size, **given)

    return chosen


HOWEVER = (
    "the verdict is the same after 100 steps and after the last, with one step size for all and with each "
    "one's best"
)


def sizes(parameters):
    """``SIZE``, one step size for all, if it is among the runs, and None: the best one of each; a list."""
    return [SIZE] * (SIZE in parameters["step_sizes"]) + [None]


def however(of, seen=0):
    """A condition: ``of`` has the same verdict after either step and at either choice of step sizes.

    seen : the statement's
    """

    def same(table, parameters, **given):
        choices = product(("early", None), sizes(parameters))
        ways = [one_way(of, *choice)(table, parameters, **given) for choice in choices]
        return agree(*(from_seed(way, seen) for way in ways), matters=AREA["matters"])

    return Requirement(HOWEVER, same, because="Section 7.2 names neither the step nor the step sizes")


def before_gone(table, parameters, dataset):
    """Mean alignment over ‖y‖² up to the first threshold at which less than ``GONE`` is left, by seed.

    Of pre-trained features. 1 for a curve that stays at the top and drops at once, 1/2 for a straight fall.
    """
    wide = curves_of(table, dataset, "transfer")
    # Alignment never rises with the threshold: what is kept comes first.
    ends = (wide >= GONE).sum(axis=1).clip(1, wide.shape[1] - 1)
    means = [np.trapezoid(wide.loc[seed].iloc[: end + 1]) / end for seed, end in ends.items()]
    return pd.Series(means, index=wide.index, dtype=float)


def rbf_missed(table, parameters, dataset):
    """The larger share that least squares misses, of ‖y‖² or of the labels, in the worst run."""
    rows = at(table, kind="area", dataset=dataset, representation="rbf")
    return float(rows[["unfitted", "wrong"]].max().max()) if len(rows) else None


def pairs(parameters):
    """Cases per data set and representation that the pre-trained one is compared with."""
    return [
        Case(f"{data}-{name}", f"than {NAMES[name]}, {title(data)}", {"dataset": data, "low": name})
        for data in parameters["datasets"] for name in OTHERS
    ]  # fmt: skip


def models(parameters):
    """Cases per data set and loss of the linear models."""
    return [
        Case(f"{loss}-{data}", f"{loss} loss, {title(data)}", {"dataset": data, "loss": loss})
        for data in parameters["datasets"] for loss in LOSSES
    ]  # fmt: skip


# data/plans/representation_alignment.yaml
FEW = "areas lie in [0, 1], losses are shares of the loss at zero weights: five hundredths of either"
AREA = {"above": 0, "matters": 0.05, "because": FEW, "unit": "of the largest area"}
LOSS = AREA | {"unit": "of the loss", "source": "Figures 13 (c, d) and 20 (b, c)"}
SLOWEST = partial(lead, loss="squared", name="rbf", sign=1)
TEST = partial(lead, split="test")
BETTER, POOR = partial(larger, high="transfer"), partial(larger, high="original", low="init")


def by_loss(of, step, size, seen=0):
    """``of`` a statement on losses at this step and size, judged only where no other choice turns it."""
    return {"of": one_way(of, step, size), "requires": (however(of, seen),)}


STATEMENTS = [
    Statement(
        "better", "Features of the pre-trained network align better with the labels than other features.",
        source="Figures 13 (a, b), 19 and 20 (a), Section 7.2", **AREA, each=pairs, headline=True,
        **by_area(BETTER, partial(higher, high="transfer"), matters=AREA["matters"]),
    ),
    Statement(
        "poor", "At random initialisation, the network aligns less than the inputs.",
        source="Figures 13 (a) and 19, Section 7.2", **AREA, each=by_set,
        **by_area(POOR, partial(higher, high="original", low="init"), matters=AREA["matters"]),
    ),
    Statement(
        "sudden",
        "Alignment of pre-trained features stays high and drops off suddenly, not in a straight line.",
        source="Figures 13 (a) and 19, Section 7.2", of=before_gone, each=by_set, ours=True,
        **AREA | {"above": 0.5, "unit": "of the labels"},
        seen=SEEN, post_hoc="how a sudden drop is measured was chosen after five runs had been seen",
    ),
    Statement(
        "faster", "Linear models train fastest on pre-trained features: by the loss after 100 steps, at one "
        "step size for all.",
        each=models, **LOSS, **by_loss(lead, "early", SIZE, SEEN),
        seen=SEEN, post_hoc="one step size for all replaced each one's best after five runs had been seen",
    ),
    Statement(
        "faster-best",
        "Linear models train fastest on pre-trained features, each at its best step size, by the loss after "
        "100 steps.",
        each=models, ours=True, **LOSS, of=one_way(lead, "early", None),
    ),
    Statement(
        "ordered", "The better features align, the faster linear models train: from the largest area to the "
        "smallest, the training loss rises from each to the next, after 100 steps at one step size for all.",
        each=models, **LOSS | {"source": "Section 7.2"}, **by_loss(ordered, "early", SIZE, SEEN), seen=SEEN,
        post_hoc="the order was seen in five runs; a rank correlation, tried first, was 1 in all later ones",
    ),
    Statement(
        "test", "Linear models end with the lowest test loss on pre-trained features.",
        each=models, **LOSS, **by_loss(TEST, None, None),
    ),
    Statement(
        "rbf-slow", "Gradient descent leaves the largest squared training error on RBF features.",
        each=by_set, **LOSS, **by_loss(SLOWEST, None, None),
    ),
    Statement(
        "rbf-fits", "The closed-form solution on RBF features has no training error and misses no label.",
        source="Section 7.2", of=rbf_missed, each=by_set, exactly=0.0, within=CLOSED,
        unit="of the labels, worst run",
    ),
]  # fmt: skip

WHO = {
    "imagenet": "ImageNet features of EfficientNet-Lite0",
    "random": "An untrained stand-in's features",
}
HAND_MADE = " than on HOG, SIFT and RBF"
LEARNT = {
    HOLDS: ", and linear models learn faster on them{}",
    CONTRADICTED: ", but linear models do not always learn faster on them{}",
    ABSENT: ", but linear models learn no faster on them{}",
    UNDECIDED: "; it is undecided whether linear models learn faster on them{}",
    NOT_JUDGED: "; new runs must show whether linear models learn faster on them{}",
    NOT_RUN: "; learning was not measured",
}
DEPENDS = "depends on step size and time"


def finding(table, parameters, claims):
    """In how many comparisons pre-trained features align better, and whether models learn fastest on them."""
    better = {
        f"{NAMES[case.given['low']]} on {title(case.given['dataset'])}": claims[f"better-{case.id}"].outcome
        for case in pairs(parameters)
    }
    if set(better.values()) == {NOT_RUN}:
        return "No run has finished."
    said = (
        f"{WHO[parameters['network']]} align better with labels than others in {held(better, 'comparisons')}"
    )
    learned = [_learned(parameters, claims, words) for words in (HAND_MADE, "")]
    small = "This network is smaller than the paper's"
    crossed = f"{small}, and its curve crosses the pixels'" if crosses(table, parameters) else small
    whole = [f"{said}{words}. {caveat}." for words in learned for caveat in (crossed, small)]
    return fitting(*whole, f"{said}. {crossed}.", f"{said}. {small}.", f"{said}.")


def _learned(parameters, claims, others):
    """Whether models learn fastest on pre-trained features, a clause; by loss where one is not judged.

    others : than on which other representations, or nothing
    """
    outcomes, turned = {}, []
    for loss in LOSSES:
        own = [claims[f"faster-{case.id}"] for case in models(parameters) if case.given["loss"] == loss]
        outcomes[loss] = weaker(*own)
        first = [unmet(claim)[:1] for claim in own]
        turned += [loss] * (outcomes[loss] == NOT_JUDGED and [HOWEVER] in first)
    rest = [loss for loss in LOSSES if loss not in turned]
    if not turned:
        return LEARNT[weaker(*(claims[f"faster-{case.id}"] for case in models(parameters)))].format(others)
    if not rest:
        return f"; whether linear models learn faster on them{others} {DEPENDS}"
    with_loss = f"{LEARNT[outcomes[rest[0]]].format(others)} with the {rest[0]} loss"
    return f"{with_loss} (with the {turned[0]} one, this {DEPENDS})"


def crosses(table, parameters):
    """Whether the pixels' curve is the higher one somewhere."""
    return any(
        percent_above(*(curves_of(table, data, name) for name in ("original", "transfer"))) != "0 %"
        for data in parameters["datasets"]
    )


def last_ahead(table, parameters):
    """On which features the squared training loss after the last step is lower than on pre-trained ones.

    Each at its best step size; a sentence of prose, or "" where there are none.
    """
    told = []
    for data in parameters["datasets"]:
        means = losses(table, data, "squared", "train").mean()
        lower = [name for name in means.index if means[name] < means["transfer"]]
        told += [
            f"{NAMES[name]} on {title(data)} ({means[name]:.2g} against {means['transfer']:.2g})"
            for name in lower
        ]
    if not told:
        return ""
    return (
        "After the last step, with each at its best step size, some features have a lower squared "
        f"training loss than pre-trained ones: {listed(told)}."
    )


def order_on_test_data(table, parameters):
    """Whether mean test losses after the last step rise from the best aligned features to the worst, prose.

    At one step size for all, and at each one's best; with the neighbours in the order of areas that do not.
    """
    told = []
    for size in sizes(parameters):
        turned = {}
        for data, loss in product(parameters["datasets"], LOSSES):
            left = losses(table, data, loss, "test", size=size).mean()
            for high, low in pairwise(by_mean_area(table, data, left.index)):
                if left[high] > left[low]:
                    pair = f"{NAMES[high]} features do worse than {NAMES[low]} features"
                    both = f"{left[high]:.2f} against {left[low]:.2f}"
                    turned.setdefault(pair, []).append(f"with the {loss} loss on {title(data)} ({both})")
        found = listed([f"{pair} {listed(where)}" for pair, where in turned.items()]) if turned else ""
        words = f"At a step size of {size:g} for all" if size else "At each one's best step size"
        so = f"do not always: {found}" if found else "do, with both losses on each data set"
        told.append(f"{words}, the mean losses after the last step {so}.")
    return (
        "Section 7.2 also says that higher alignment gives better performance on test data, so test losses "
        f"should rise from the best aligned features to the worst. {' '.join(told)} We looked at this "
        "afterwards; it is not judged."
    )


def key_numbers(table, parameters):
    """Areas of pre-trained features and of pixels, and the training loss after the early steps."""
    dataset, step = parameters["datasets"][0], early(parameters)
    found = areas(table, dataset)
    if found.empty:
        return []
    left = losses(table, dataset, "squared", "train", step, SIZE)
    return [
        KeyNumber(f"{what}, {title(dataset)}, {NAMES[name]}", f"{frame[name].mean():.2f}")
        for what, frame, name in (
            ("area under the curve", found, "transfer"),
            ("area under the curve", found, "original"),
            (f"squared training error after {step} steps of size 1", left, "transfer"),
        )
    ]
