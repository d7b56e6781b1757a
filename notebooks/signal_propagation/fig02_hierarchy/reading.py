"""When the layers' alignments rise, and which layer ends highest (Figures 1, 2, 7, 9 and 10)."""

import math
from pathlib import Path

import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, Claim, KeyNumber, interval
from alignbook.over_seeds import at, difference, sample, weakest
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import clauses, counted, fitting, listed, replicates, together

from ..names import LEARNED, called
from ..stopping import GOAL

EARLY = 2.0  # epochs: Appendix B.4, "≈ 2 epochs of batch training"
PRINTED_RATE = 0.05  # of Figures 9 (c) and 10 (c), whose captions can be read
PRINTED = pd.read_csv(Path(__file__).with_name("printed.csv")).set_index("dataset")
ACCURACY_MARGIN = 0.02  # as in Figure 3's tables
LOSS_MARGIN = 0.02  # of the printed loss
ENOUGH = 50  # epochs: half of what Tables 1 to 3 print for networks of this depth
KIND = ["dataset", "depth", "learning_rate"]
MEASURED = ["epochs", "peak", "peak_init", "peak_early", "largest", "rise", "late", "hidden", "ends"]
MEASURED += ["stop", "peak_stop", "hidden_stop", "ends_stop"]


def networks(table):
    """One row per network that learned: test accuracy of at least twice chance at the end.

    dataset, depth, learning_rate, seed, epochs of training; test_accuracy, test_loss at the end;
    peak, peak_init, peak_early : the layer (from 1) with the largest alignment at the end, before training,
    and at the last record within the first two epochs;
    largest : that alignment at the end; rise : how much of it the layer gained from the start to that
    record; late : how much it changed from there to the end;
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
            rows.append(
                dict(zip([*KIND, "seed"], key, strict=True)) | dict(reached) | _network(curves, losses)
            )
    return pd.DataFrame(rows, columns=[*KIND, "seed", *MEASURED, "test_accuracy", "test_loss"])


def _network(curves, losses):
    """What :func:`networks` reads from one network's alignments, (epochs × layers), and training losses."""
    start, end = curves.iloc[0], curves.iloc[-1]
    stop = losses.index[losses <= GOAL].min() if (losses <= GOAL).any() else curves.index[-1]
    peak, stopped = int(end.idxmax()), curves.loc[stop]
    early = curves[curves.index <= EARLY].iloc[-1]
    return {
        "epochs": float(curves.index[-1]),
        "peak": peak,
        "peak_init": start.idxmax() if start.notna().any() else math.nan,
        "peak_early": early.idxmax() if early.notna().any() else math.nan,
        "largest": end[peak],
        "rise": early[peak] - start[peak],
        "late": end[peak] - early[peak],
        "hidden": _hidden(end),
        "ends": _ends(end),
        "stop": stop,
        "peak_stop": stopped.idxmax() if stopped.notna().any() else math.nan,
        "hidden_stop": _hidden(stopped),
        "ends_stop": _ends(stopped),
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


def whenever(column):
    """A reading: ``column`` at the end or where the loss is ``GOAL``, by seed: where it is shown less."""

    def reading(table, parameters, **kind):
        return weakest(*(of(name)(table, parameters, **kind) for name in (column, f"{column}_stop")))

    return reading


def loss_ratio(table, parameters, dataset):
    """Test loss at the rate whose loss is printed, over the printed one, by seed."""
    return of("test_loss", PRINTED_RATE)(table, parameters, dataset) / PRINTED["test_loss"][dataset]


def early_lead(table, parameters, **kind):
    """By how much the peak's rise within two epochs exceeds all of its later change, by seed."""
    rise, late = (of(column)(table, parameters, **kind) for column in ("rise", "late"))
    return difference(rise, late.abs())


def moved(table, parameters, dataset):
    """By how many layers the peak at the highest rate lies before that at the lowest, by seed."""
    low, high = min(parameters["rates"]), max(parameters["rates"])
    peaks = [of("peak", rate)(table, parameters, dataset) for rate in (low, high)]
    return difference(*peaks) if low < high else None


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
HEIGHT = {
    "above": 0, "matters": 0.005, "unit": "of the alignment", "each": kinds, "requires": (TRAINED,),
    "because": "smaller differences cannot be read from the curves of Figure 2",
}  # fmt: skip
AT_RATE = {"source": "Figures 9 (c) and 10 (c)", "each": printed, "requires": (TRAINED, ON_ALL)}
STATEMENTS = [
    Statement(
        "hierarchy-rises",
        "The layer that ends highest gains more in the first two epochs than it changes afterwards.",
        source="Figure 2, Section 2.3, Appendix B.4", of=early_lead, **HEIGHT,
    ),
    Statement(
        "hierarchy-hidden", "At a training loss of 0.1 and at the end, a hidden layer is better aligned than "
        "the first and the last layer.",
        source="Figures 1, 2 and 7, Section 2.3; the stop is Figure 4's", of=whenever("hidden"),
        headline=True, **HEIGHT,
    ),
    Statement(
        "ends", "At both times, the smallest alignment is that of the first or the last layer.",
        source="Sections 1 and 2.3", of=whenever("ends"), **HEIGHT,
    ),
    Statement(
        "earlier", "A higher learning rate moves the peak towards the input.", source="Figures 3 and 8",
        of=moved, above=0, matters=0.5, unit="layers", each=rates, requires=(TRAINED,),
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
    NOT_JUDGED: "it is not judged{}",
}
RISE = {
    HOLDS: "; most of the gain comes in the first two epochs{}",
    CONTRADICTED: "; most change comes after the first two epochs{}",
    ABSENT: "; alignment changes as much later as in the first two epochs{}",
    UNDECIDED: "; whether most of the gain comes in the first two epochs is undecided{}",
}


def finding(table, parameters, claims):
    """Whether hidden layers end highest, and whether they rose early; words follow the verdicts."""
    found = replicates(claims, "hierarchy-hidden")
    if not found:
        return "No network learned."
    if list(found) == [NOT_JUDGED]:
        epochs, run = networks(table)["epochs"].max(), found[NOT_JUDGED]
        ahead = counted([claim for claim in run if claim.measured > 0], len(run))
        said = (
            "We do not judge whether a hidden layer ends with the largest alignment, because training "
            f"stopped after {epochs:.0f} epochs, while alignments were still changing. By then a hidden "
            f"layer leads on average{ahead}"
        )
        return fitting(f"{said}{scattered(run)}.", f"{said}.")
    every = [claim.case for some in found.values() for claim in some]

    def at_kinds(claims, total):
        """Where a verdict is, of what is decided; what is open beside one other verdict is the rest."""
        if len(claims) == total or claims[0].outcome not in (HOLDS, CONTRADICTED, UNDECIDED):
            return counted(claims, total)
        if claims[0].outcome == UNDECIDED:
            return " elsewhere" if len(found) == 2 else counted(claims, total)
        return on_kinds(claims, every)

    said = clauses(claims, "hierarchy-hidden", PEAK, at_kinds)
    text = f"At a training loss of {GOAL:g} and at the end, {said}"
    momentum = ". The momentum is our choice."
    for more in (
        outer_at_end(table, parameters, claims, every),
        rising(replicates(claims, "hierarchy-rises")),
    ):
        text = fitting(text + more + momentum, text + momentum).removesuffix(momentum)
    return fitting(text + momentum, f"{text}.")


def outer_at_end(table, parameters, claims, every):
    """``, though at the end the first layer leads on MNIST (10 layers)``: where the claim is undecided."""
    found = []
    for case in kinds(parameters):
        claim = claims[f"hierarchy-hidden-{case.id}"]
        lead, peak = (of(column)(table, parameters, **case.given) for column in ("hidden", "peak"))
        if claim.outcome == UNDECIDED and _end(lead) == CONTRADICTED and (peak == 1).all():
            found.append(claim)
    return f", though at the end the first layer leads{on_kinds(found, every)}" if found else ""


def _end(lead):
    """The verdict on a lead at the end alone, by the claim's own rule."""
    return Claim.greater("", "", "", lead, HEIGHT["above"], matters=HEIGHT["matters"]).outcome


def rising(found):
    """``; most of the gain comes in the first two epochs, but not on CIFAR-10``, of {outcome: claims}."""
    if len(found) == 1:
        ((outcome, claims),) = found.items()
        return RISE[outcome].format(counted(claims, len(claims))) if outcome in RISE else ""
    if HOLDS not in found:
        return ""
    every = [claim.case for some in found.values() for claim in some]
    if set(found) == {HOLDS, CONTRADICTED}:
        return RISE[HOLDS].format(f", but not{on_kinds(found[CONTRADICTED], every)}")
    return RISE[HOLDS].format(counted(found[HOLDS], len(every)))


def on_kinds(claims, every):
    """`` on MNIST and Fashion-MNIST (10 layers)``; without the depths where they are all in ``every``."""
    here = [claim.case for claim in claims]
    split = [case.removesuffix(" layers").split(", ") for case in every]
    parts = []
    for depths, names in together(case.removesuffix(" layers").split(", ") for case in here).items():
        whole = all(f"{name}, {depth} layers" in here for name, depth in split if name in names)
        parts.append(listed(names) + f" ({listed(depths)} layers)" * (not whole))
    return f" on {', '.join(parts)}"


def scattered(claims):
    """Which leads no one could tell from none, since their intervals contain 0; nothing where none is."""
    unsure = [claim.case for claim in claims if claim.measured > 0 and not _apart_from_0(claim)]
    if not unsure:
        return ""
    where = f"on {listed(unsure)}" if len(unsure) <= 2 else f"in {len(unsure)} of them"
    return f", but {where} the seeds scatter too widely to tell"


def _apart_from_0(claim):
    return claim.interval is not None and claim.interval[0] > 0


def key_numbers(table, parameters):
    """The printed test accuracies beside ours; the lead of the best hidden layer in the first setting."""
    result = []
    for case in printed(parameters):
        here = 100 * of("test_accuracy", PRINTED_RATE)(table, parameters, **case.given)
        if len(here):
            what = f"test accuracy at rate {PRINTED_RATE:g} (%), {called(case.id)}"
            value = f"{100 * PRINTED['test_accuracy'][case.id]:.1f}"
            result.append(KeyNumber(what, interval(here, "{:.1f}", (0, 100)), value))
    for case in kinds(parameters)[:1]:
        if len(lead := whenever("hidden")(table, parameters, **case.given)):
            what = f"lead of the best hidden layer at a loss of {GOAL:g} or at the end, {case.words}"
            result.append(KeyNumber(what, interval(lead, "{:+.3f}")))
    return result[:3]
