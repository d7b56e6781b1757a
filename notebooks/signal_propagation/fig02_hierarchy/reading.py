"""When the layers' alignments rise, and which layer ends highest (Figures 1, 2, 7, 9 and 10)."""

import math
from dataclasses import replace
from pathlib import Path

import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import agree, at, difference, once, sample, verdict
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import (
    clauses,
    counted,
    first_unmet,
    fitting,
    joined,
    listed,
    replicates,
    sentences,
    together,
    unmet,
)

from ..names import LEARNED, called
from ..stopping import GOAL

EARLY = 2.0  # epochs: Appendix B.4, "≈ 2 epochs of batch training"
PRINTED_RATE = 0.05  # of Figures 9 (c) and 10 (c), whose captions can be read
_ALL = pd.read_csv(Path(__file__).with_name("printed.csv"))
PRINTED = at(_ALL, learning_rate=PRINTED_RATE).set_index("dataset")
TABLES = _ALL[_ALL["source"].str.startswith("Table")].set_index(["dataset", "depth"])["test_accuracy"]
ACCURACY_MARGIN = 0.02  # as in Figure 3's tables
LOSS_MARGIN = 0.02  # of the printed loss
ENOUGH = 50  # epochs: half of what Tables 1 to 3 print for networks of this depth
KIND = ["dataset", "depth", "learning_rate"]
MEASURED = ["epochs", "peak", "peak_init", "peak_early", "largest", "rise", "late", "late_total", "hidden"]
MEASURED += ["ends", "stop", "peak_stop", "hidden_stop", "ends_stop", "train_loss"]


@once
def networks(table):
    """One row per network that learned: test accuracy of at least twice chance at the end.

    dataset, depth, learning_rate, seed, epochs of training; test_accuracy, test_loss, train_loss at the end;
    test_loss_early : at the last record within the first two epochs;
    peak, peak_init, peak_early : the layer (from 1) with the largest alignment at the end, before training,
    and at the last record within the first two epochs;
    largest : that alignment at the end; rise : how much of it the layer gained from the start to that
    record; late : how much it changed from there to the end, a later rise less a later fall;
    late_total : the sum of both, of the changes from one record to the next without their signs;
    hidden : largest alignment of a layer between the first and the last, less the larger of these two's;
    ends : smallest alignment of a layer between them, less the smaller of these two's; both at the end;
    stop : the first recorded epoch with a training loss of at most ``GOAL``, the end where there is none;
    peak_stop, hidden_stop, ends_stop : the same as peak, hidden and ends at that epoch.
    """
    rows = []
    for key, records in table.groupby([*KIND, "seed"], sort=False) if len(table) else ():
        curves = records.pivot(index="epoch", columns="layer", values="alignment").sort_index()
        losses = records.groupby("epoch")["train_loss"].first().sort_index()
        reached = records.loc[records["epoch"].idxmax(), ["test_accuracy", "test_loss"]]
        if reached["test_accuracy"] >= LEARNED and curves.iloc[-1].notna().any():
            early = records[records["epoch"] <= EARLY].sort_values("epoch")["test_loss"].iloc[-1]
            reached = dict(reached) | {"test_loss_early": early}
            rows.append(dict(zip([*KIND, "seed"], key, strict=True)) | reached | _network(curves, losses))
    columns = [*KIND, "seed", *MEASURED, "test_accuracy", "test_loss", "test_loss_early"]
    return pd.DataFrame(rows, columns=columns)


def _network(curves, losses):
    """What :func:`networks` reads from one network's alignments, (epochs × layers), and training losses."""
    start, end = curves.iloc[0], curves.iloc[-1]
    stop = losses.index[losses <= GOAL].min() if (losses <= GOAL).any() else curves.index[-1]
    peak, stopped = int(end.idxmax()), curves.loc[stop]
    early = curves[curves.index <= EARLY].iloc[-1]
    later = curves.loc[early.name :, peak]
    return {
        "epochs": float(curves.index[-1]),
        "peak": peak,
        "peak_init": start.idxmax() if start.notna().any() else math.nan,
        "peak_early": early.idxmax() if early.notna().any() else math.nan,
        "largest": end[peak],
        "rise": early[peak] - start[peak],
        "late": end[peak] - early[peak],
        "late_total": later.diff().abs().sum(),
        "hidden": _hidden(end),
        "ends": _ends(end),
        "stop": stop,
        "peak_stop": stopped.idxmax() if stopped.notna().any() else math.nan,
        "hidden_stop": _hidden(stopped),
        "ends_stop": _ends(stopped),
        "train_loss": losses.iloc[-1],
    }


def _hidden(layers):
    return layers.iloc[1:-1].max() - layers.iloc[[0, -1]].max()


def _ends(layers):
    return layers.iloc[1:-1].min() - layers.iloc[[0, -1]].min()


def of(column, rate=None):
    """A reading: one column of the networks of a kind, by seed; by default at the rate of Figure 7."""

    def reading(table, parameters, dataset, depth=None):
        kind = {"depth": depth or parameters["depth"], "learning_rate": rate or parameters["learning_rate"]}
        return sample(at(networks(table), dataset=dataset, **kind), column)

    return reading


def same_whenever(column, rate=None):
    """A condition: ``column`` has the same verdict at the end and where the loss is ``GOAL``."""

    def met(table, parameters, **kind):
        both = (of(name, rate)(table, parameters, **kind) for name in (column, f"{column}_stop"))
        return agree(*both, above=HEIGHT["above"], matters=HEIGHT["matters"])

    return met


def shortfall(table, parameters, dataset, depth=None):
    """By how much networks miss the test accuracy that Tables 1 to 3 print for this data set and depth."""
    reached = of("test_accuracy")(table, parameters, dataset, depth)
    return TABLES.get((dataset, depth or parameters["depth"]), math.nan) - reached.mean()


def fast_shortfall(table, parameters, dataset):
    """The same of the accuracy in the captions of Figures 9 and 10, at their rate."""
    reached = of("test_accuracy", PRINTED_RATE)(table, parameters, dataset)
    return PRINTED["test_accuracy"][dataset] - reached.mean()


def loss_ratio(table, parameters, dataset):
    """Test loss at the rate whose loss is printed, over the printed one, by seed."""
    return of("test_loss", PRINTED_RATE)(table, parameters, dataset) / PRINTED["test_loss"][dataset]


def early_lead(rate=None, late="late"):
    """A reading: by how much the peak's rise within two epochs exceeds the size of its later change, by seed.

    late : the change that is meant, net (``late``) or in all (``late_total``)
    """

    def reading(table, parameters, **kind):
        rise, change = (of(column, rate)(table, parameters, **kind) for column in ("rise", late))
        return difference(rise, change.abs())

    return reading


def same_in_all(rate=None):
    """A condition: the early rise has the same verdict beside the net change and beside all changes later."""

    def met(table, parameters, **kind):
        both = (early_lead(rate, late)(table, parameters, **kind) for late in ("late", "late_total"))
        return agree(*both, above=HEIGHT["above"], matters=HEIGHT["matters"])

    return met


def moved(table, parameters, dataset):
    """By how many layers the peak at the highest rate lies before that at the lowest, by seed."""
    low, high = min(parameters["rates"]), max(parameters["rates"])
    peaks = [of("peak", rate)(table, parameters, dataset) for rate in (low, high)]
    return difference(*peaks) if low < high else None


def first_at_low(table, parameters, dataset):
    """How many networks at the lowest rate peak in the first layer; None of none."""
    peaks = of("peak", min(parameters["rates"]))(table, parameters, dataset)
    return float((peaks == 1).sum()) if len(peaks) else None


def epochs_trained(table, parameters, dataset, depth=None):
    """Epochs of the networks of one data set (and depth), the fewest."""
    nets = at(networks(table), dataset=dataset, depth=depth or parameters["depth"])
    return float(nets["epochs"].min()) if len(nets) else None


def kinds(parameters):
    """A case per data set and depth at the figures' rate, those of Figures 2 and 7 first."""
    pairs = [(dataset, parameters["depth"]) for dataset in parameters["datasets"]]
    pairs += [(dataset, parameters["deep"]) for dataset in parameters["deep_datasets"]]
    return [Case(f"{d}-{n}", title(d, n), {"dataset": d, "depth": n}) for d, n in dict.fromkeys(pairs)]


def title(dataset, depth):
    """``MNIST, 10 layers``."""
    return f"{called(dataset)}, {depth} layers"


def rates(parameters):
    """A case per data set that is trained at several rates."""
    depth = parameters["depth"]
    return [Case(d, title(d, depth), {"dataset": d}) for d in parameters["rate_datasets"]]


def printed(parameters):
    """A case per data set whose accuracy the paper prints at a rate that was asked for."""
    asked = PRINTED_RATE in parameters["rates"]
    return [case for case in rates(parameters) if asked and case.id in PRINTED.index]


TRAINED = Requirement("epochs of training", epochs_trained, at_least=ENOUGH)
ON_ALL = Requirement("trained on all images", lambda t, p, dataset: p["train_images"] == 0)
RIGHT = Requirement(
    "shortfall of the test accuracy from the one that Tables 1 to 3 print for this depth", shortfall,
    at_most=ACCURACY_MARGIN,
    because="For these figures the paper prints none, and some tables differ in rate or width",
)  # fmt: skip
SAME = {
    column: Requirement(
        f"the verdict is the same at a training loss of {GOAL:g}", same_whenever(column),
        because="The paper does not print when it stops",
    )
    for column in ("hidden", "ends")
}  # fmt: skip
HEIGHT = {
    "above": 0, "matters": 0.005, "unit": "in alignment", "each": kinds,
    "because": "smaller differences cannot be read from the curves of Figure 2",
}  # fmt: skip
FAST = {
    **HEIGHT, "source": "Section 2.3, at the rate of Figures 9 (c) and 10 (c)", "each": printed, "seen": 3,
    "post_hoc": "chosen when three networks at this rate had been seen",
}  # fmt: skip
FAST_RIGHT = Requirement(
    "shortfall of the test accuracy from the printed one", fast_shortfall, at_most=ACCURACY_MARGIN
)
FAST_SAME = replace(SAME["hidden"], of=same_whenever("hidden", PRINTED_RATE))
IN_ALL = Requirement(
    "the verdict is the same when later rises and falls are added up instead of netted", same_in_all(),
    because="The paper says that alignments plateau",
)  # fmt: skip
FAST_IN_ALL = replace(IN_ALL, of=same_in_all(PRINTED_RATE))
BEHIND = Requirement(
    "networks that peak in the first layer at the lowest rate", first_at_low, at_most=0,
    because="Their peak cannot move towards the input",
)  # fmt: skip
AT_RATE = {"source": "Figures 9 (c) and 10 (c)", "each": printed, "requires": (TRAINED, ON_ALL)}
STATEMENTS = [
    Statement(
        "hierarchy-rises",
        "The layer that ends highest gains more in the first two epochs than its net change afterwards.",
        source="Figure 2, Section 2.3, Appendix B.4", of=early_lead(), requires=(TRAINED, RIGHT, IN_ALL),
        **HEIGHT,
    ),
    Statement(
        "hierarchy-hidden", "At the end of training, a hidden layer is better aligned than the first and the "
        "last layer.",
        source="Figures 1, 2 and 7, Section 2.3", of=of("hidden"), headline=True,
        requires=(TRAINED, RIGHT, SAME["hidden"]), **HEIGHT,
    ),
    Statement(
        "ends", "At the end of training, the smallest alignment is that of the first or the last layer.",
        source="Sections 1 and 2.3", of=of("ends"), requires=(TRAINED, RIGHT, SAME["ends"]), **HEIGHT,
    ),
    Statement(
        "fast-hidden",
        f"At the rate {PRINTED_RATE:g}, a hidden layer ends better aligned than the first and the last.",
        of=of("hidden", PRINTED_RATE), requires=(TRAINED, ON_ALL, FAST_RIGHT, FAST_SAME), **FAST,
    ),
    Statement(
        "fast-rises",
        f"At the rate {PRINTED_RATE:g}, the layer that ends highest gains more in the first two epochs than "
        "its net change afterwards.",
        of=early_lead(PRINTED_RATE), requires=(TRAINED, ON_ALL, FAST_RIGHT, FAST_IN_ALL), **FAST,
    ),
    Statement(
        "earlier", "A higher learning rate moves the peak towards the input.", source="Figures 3 and 8",
        of=moved, above=0, matters=0.5, unit="layers", each=rates, requires=(TRAINED, RIGHT, BEHIND),
        opposed_by="in Section 4, about Figure 4, it shifts towards the centre, which for an early peak is "
        "away from the input",
        because="a peak is a whole layer, so half a layer is no move",
    ),
    Statement(
        "printed", "One of our runs could have given the printed test accuracy (0 to 1) at rate 0.05.",
        of=of("test_accuracy", PRINTED_RATE), one_run=lambda p, dataset: PRINTED["test_accuracy"][dataset],
        within=ACCURACY_MARGIN, bounds=(0, 1), **AT_RATE,
    ),
    Statement(
        "printed-loss", "One of our runs could have given the printed test loss at rate 0.05 (ours over it).",
        of=loss_ratio, one_run=1.0, within=LOSS_MARGIN, bounds=(0, math.inf), **AT_RATE,
    ),
]  # fmt: skip

PEAK = {
    HOLDS: "a hidden layer aligns best{}",
    CONTRADICTED: "the first or last layer aligns best{}",
    ABSENT: "no hidden layer leads{}",
    UNDECIDED: "it is undecided{}",
}
WHY_NOT = {  # the first that is not met
    TRAINED.text: "training was cut short",
    RIGHT.text: "our accuracy is too low",
    SAME["hidden"].text: "the verdict is not the same at both stopping times",
}
RISE = {
    HOLDS: "Most of the gain comes in the first two epochs{}",
    CONTRADICTED: "Most change comes after the first two epochs{}",
    ABSENT: "Alignment changes as much later as in the first two epochs{}",
    UNDECIDED: "Whether most of the gain comes in the first two epochs is undecided{}",
}
COUNTED = (
    "whether most of the gain comes in the first two epochs depends on how later changes are counted",
    "whether the rise is mostly early depends on how later changes are counted",
)


def finding(table, parameters, claims):
    """Whether hidden layers end highest, and whether they rose early; words follow the verdicts."""
    found = replicates(claims, "hierarchy-hidden")
    if not found:
        return "No network learned."
    every = [claim.case for some in found.values() for claim in some]

    def at_kinds(claims, total):
        """Where a verdict is; what is open beside one other verdict is the rest."""
        if len(claims) == total:
            return counted(claims, total)
        if claims[0].outcome == UNDECIDED and len(found) == 2:
            return " elsewhere"
        return on_kinds(claims, every)

    said = clauses(claims, "hierarchy-hidden", PEAK, at_kinds)
    said = f"At a training loss of {GOAL:g} and at the end, {said}" if said else ""
    open, brief = unjudged(table, parameters, found, every)
    said = fitting(*(joined(said, more) for more in (open, brief)), said) if said else fitting(open, brief)
    rose = rising(replicates(claims, "hierarchy-rises"), every) or ("The momentum is our choice",)
    return fitting(*(sentences(said, one) for one in rose), f"{said}.")


def unjudged(table, parameters, found, every):
    """(``At rate 0.003, we do not judge whether a hidden layer aligns best, because training was cut short``,
    the same without its reasons); both "" where all are judged.
    """
    why = {}
    for claim in found.get(NOT_JUDGED, ()):
        why.setdefault(why_not(table, parameters, claim), []).append(claim)
    if not why:
        return "", ""
    alone = len(found) == 1
    said = f"At rate {parameters['learning_rate']:g}, "
    said += "we do not judge whether a hidden layer aligns best" if alone else "it is not judged"
    brief = said if alone else said + on_kinds(found[NOT_JUDGED], every)
    if len(why) == 1:
        return f"{brief}, because {next(iter(why))}", brief
    parts = (f"{on_kinds(claims, every)}, {reason}" for reason, claims in why.items())
    return f"{said}:{', and'.join(parts)}", brief


def why_not(table, parameters, claim):
    """Why it is not judged whether a hidden layer leads; of two times, whether one is merely undecided."""
    why = first_unmet(claim, WHY_NOT)
    if why != WHY_NOT[SAME["hidden"].text]:
        return why
    case = next(case for case in kinds(parameters) if claim.id == f"hierarchy-hidden-{case.id}")
    leads = (of(column)(table, parameters, **case.given) for column in ("hidden", "hidden_stop"))
    if UNDECIDED in {verdict(lead, HEIGHT["matters"], HEIGHT["above"]) for lead in leads}:
        return f"{claim.seeds} seeds leave it undecided at one of two stopping times"
    return why


def rising(found, every):
    """(``Most of the gain comes in the first two epochs, but not on CIFAR-10``,), of {outcome: claims}.

    Of what fits the first is said; () where there is nothing to say.
    """
    if len(found) == 1 and (outcome := next(iter(found))) in RISE:
        return (RISE[outcome].format(counted(found[outcome], len(found[outcome]))),)
    if HOLDS in found:
        where = on_kinds(found[HOLDS], every) if set(found) - {HOLDS, CONTRADICTED} else ""
        if CONTRADICTED in found:
            where += f", but not{on_kinds(found[CONTRADICTED], every)}"
        return (RISE[HOLDS].format(where),)
    turns = [claim for claim in found.get(NOT_JUDGED, ()) if unmet(claim) == [IN_ALL.text]]
    if not turns:
        return ()
    where = "" if len(turns) == len(every) else f"{on_kinds(turns, every)[1:]}, "
    return tuple(f"{where}{words}" for words in COUNTED)


def on_kinds(claims, every):
    """`` on MNIST and Fashion-MNIST (10 layers)``; without the depths where they are all in ``every``."""
    here = [claim.case for claim in claims]
    split = [case.removesuffix(" layers").split(", ") for case in every]
    parts = []
    for depths, names in together(case.removesuffix(" layers").split(", ") for case in here).items():
        whole = all(f"{name}, {depth} layers" in here for name, depth in split if name in names)
        parts += [*names] if whole else [f"{listed(names)} ({listed(depths)} layers)"]
    return f" on {', '.join(parts) if any('(' in part for part in parts) else listed(parts)}"


def key_numbers(table, parameters):
    """The lead of the best hidden layer at both times, first setting; a printed test accuracy beside ours."""
    result = []
    times = {"hidden_stop": f"at a training loss of {GOAL:g}", "hidden": "at the end"}
    for case in kinds(parameters)[:1]:
        for column, when in times.items():
            if len(lead := of(column)(table, parameters, **case.given)):
                what = f"alignment of the best hidden layer less that of the better end layer, {when}, "
                result.append(KeyNumber(what + case.words, interval(lead, "{:+.3f}")))
    for case in printed(parameters):
        here = 100 * of("test_accuracy", PRINTED_RATE)(table, parameters, **case.given)
        if len(here):
            what = f"test accuracy at rate {PRINTED_RATE:g} (%), {called(case.id)}"
            value = f"{100 * PRINTED['test_accuracy'][case.id]:.1f}"
            result.append(KeyNumber(what, interval(here, "{:.1f}", (0, 100)), value))
    return result[:3]
