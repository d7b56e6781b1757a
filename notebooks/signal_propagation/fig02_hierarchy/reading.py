"""When the layers' alignments rise, and which layer ends highest (Figures 1, 2, 7, 9 and 10)."""

import math
from pathlib import Path

import numpy as np
import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import at, difference, sample
from alignbook.statements import Case, Requirement, Statement

from ..names import LEARNED, called

EARLY = 2.0  # epochs: Appendix B.4, "≈ 2 epochs of batch training"
PRINTED_RATE = 0.05  # of Figures 9 (c) and 10 (c), whose captions can be read
PRINTED = pd.read_csv(Path(__file__).with_name("printed.csv")).set_index("dataset")
ACCURACY_MARGIN = 0.02  # as in Figure 3's tables
ENOUGH = 50  # epochs: half of what Tables 1 to 3 print for networks of this depth
SEEN = "the curves of Figure 2 do not let a reader see less"
KEYS = ["dataset", "depth", "learning_rate", "seed"]


def networks(table):
    """One row per network.

    Columns dataset, depth, learning_rate, seed; learned (test accuracy of at least twice chance at the end);
    epochs of training;
    peak, peak_init : the layer (from 1) with the largest alignment at the end and before training;
    rise : by how much the alignment of that layer (of the end) grew from the start to the last record within
    the first two epochs; late : by how much it changed from there to the end;
    hidden : largest alignment of a layer between the first and the last, less the larger of these two's;
    ends : smallest alignment of a layer between them, less the smaller of these two's;
    middle : mean alignment of the middle half of the layers, less the others'; all three at the end;
    test_accuracy, test_loss : at the end.
    """
    rows = []
    for key, rows_of in table.groupby(KEYS, sort=False) if len(table) else ():
        curves = rows_of.pivot(index="epoch", columns="layer", values="alignment").sort_index()
        at_end = rows_of[rows_of["epoch"] == curves.index[-1]].iloc[0]
        if curves.iloc[-1].notna().any():
            rows.append(dict(zip(KEYS, key, strict=True)) | _network(curves, at_end))
    names = [*KEYS, "learned", "epochs", "peak", "peak_init", "largest", "rise", "late", "hidden", "ends"]
    names += ["middle", "test_accuracy", "test_loss"]
    return pd.DataFrame(rows, columns=names).astype({"learned": bool})


def _network(curves, at_end):
    """The numbers of one network: ``curves`` (epochs × layers), ``at_end`` a row of its last record."""
    end, depth = curves.iloc[-1], len(curves.columns)
    peak = int(end.idxmax())
    early = curves[peak][curves.index <= EARLY].iloc[-1]
    inner, outer = end.iloc[1:-1], end.iloc[[0, -1]]
    quarter = depth // 4
    middle = end.iloc[quarter : depth - quarter]
    return {
        "learned": at_end["test_accuracy"] >= LEARNED,
        "epochs": float(curves.index[-1]),
        "peak": peak,
        "peak_init": curves.iloc[0].idxmax() if curves.iloc[0].notna().any() else math.nan,
        "largest": end[peak],
        "rise": early - curves[peak].iloc[0],
        "late": end[peak] - early,
        "hidden": inner.max() - outer.max(),
        "ends": inner.min() - outer.min(),
        "middle": middle.mean() - end.drop(middle.index).mean(),
        "test_accuracy": at_end["test_accuracy"],
        "test_loss": at_end["test_loss"],
    }


def conditions(parameters):
    """[(data set, depth)] of the networks at the figures' rate, those of Figures 2 and 7 first."""
    p = parameters
    pairs = [(dataset, p["depth"]) for dataset in p["datasets"]]
    return list(dict.fromkeys(pairs + [(dataset, p["deep"]) for dataset in p["deep_datasets"]]))


def chosen(nets, dataset, depth, rate):
    """The networks of one condition that learned, by seed."""
    here = at(nets, dataset=dataset, depth=depth, learning_rate=rate)
    return here[here["learned"]].sort_values("seed")


def title(dataset, depth):
    """``MNIST, 10 layers``."""
    return f"{called(dataset)}, {depth} layers"


def of_kind(table, parameters, dataset, depth):
    """The networks of one kind that learned, at the figures' rate."""
    return chosen(networks(table), dataset, depth, parameters["learning_rate"])


def early_lead(table, parameters, dataset, depth):
    """By how much the peak's rise within two epochs exceeds all of its later change, by seed."""
    here = of_kind(table, parameters, dataset, depth)
    return difference(sample(here, "rise"), sample(here, "late").abs())


def at_end(column):
    """A reading: one column of :func:`networks`, by seed."""
    return lambda table, parameters, **kind: sample(of_kind(table, parameters, **kind), column)


def of_rate(table, parameters, dataset, rate):
    """The networks of one data set that learned at ``rate``."""
    return chosen(networks(table), dataset, parameters["depth"], rate)


def moved(table, parameters, dataset):
    """By how many layers the peak at the highest rate lies before that at the lowest, by seed."""
    ends = (min(parameters["rates"]), max(parameters["rates"]))
    low, high = (sample(of_rate(table, parameters, dataset, rate), "peak") for rate in ends)
    return difference(low, high) if ends[0] < ends[1] else low.iloc[:0]


def epochs_trained(table, parameters, dataset, depth=None):
    """Epochs of the networks of one data set (and depth), the fewest."""
    depths = parameters["depth"] if depth is None else depth
    epochs = at(networks(table), dataset=dataset, depth=depths)["epochs"]
    return float(epochs.min()) if len(epochs) else math.nan


def all_images(table, parameters, dataset):
    """1 where the networks were trained on all images, otherwise 0."""
    return float(parameters["train_images"] == 0)


TRAINED = Requirement("epochs of training", epochs_trained, at_least=ENOUGH)
ON_ALL = Requirement("trained on all images (1) or a part of them (0)", all_images, at_least=1)


def kinds(parameters):
    """A case per data set and depth."""
    return [Case(f"{d}-{n}", title(d, n), {"dataset": d, "depth": n}) for d, n in conditions(parameters)]


def rates(parameters):
    """A case per data set that is trained at several rates."""
    depth = parameters["depth"]
    return [Case(d, title(d, depth), {"dataset": d}) for d in parameters["rate_datasets"]]


def printed(parameters):
    """A case per data set whose accuracy the paper prints at a rate that was asked for."""
    asked = PRINTED_RATE in parameters["rates"]
    return [case for case in rates(parameters) if asked and case.id in PRINTED.index]


STATEMENTS = [
    Statement(
        "hierarchy-rises",
        "The layer that ends highest gains more in the first two epochs than it changes in all later ones.",
        source="Figure 2, Section 2.3, Appendix B.4", of=early_lead, above=0, matters=0.005,
        unit="of the alignment", because=SEEN, each=kinds, requires=(TRAINED,),
    ),
    Statement(
        "hierarchy-hidden", "At the end a hidden layer lies above both the first and the last layer.",
        source="Figures 1, 2 and 7, Section 2.3", of=at_end("hidden"), above=0, matters=0.005,
        unit="of the alignment", because=SEEN, each=kinds, requires=(TRAINED,), headline=True,
    ),
    Statement(
        "ends", "The smallest alignment is that of the first or the last layer.",
        source="Sections 1 and 2.3", of=at_end("ends"), above=0, matters=0.005, unit="of the alignment",
        because=SEEN, each=kinds, requires=(TRAINED,),
    ),
    Statement(
        "middle", "The middle half of the layers aligns better than the outer half.",
        source="Sections 1 and 2.3", of=at_end("middle"), above=0, matters=0.005, unit="of the alignment",
        because=SEEN, each=kinds, requires=(TRAINED,), ours=True,
    ),
    Statement(
        "earlier", "A higher learning rate moves the peak towards the input.", source="Figures 3 and 8",
        of=moved, above=0, matters=0.5, unit="layers", because="a peak is a whole layer: half of one is none",
        each=rates, requires=(TRAINED,),
    ),
    Statement(
        "printed", "One run of ours could have given the printed test accuracy (0 to 1) at rate 0.05.",
        source="Figures 9 (c) and 10 (c)", bounds=(0, 1), within=ACCURACY_MARGIN, each=printed,
        of=lambda t, p, dataset: sample(of_rate(t, p, dataset, PRINTED_RATE), "test_accuracy"),
        one_run=lambda p, dataset: PRINTED["test_accuracy"][dataset], requires=(TRAINED, ON_ALL),
    ),
    Statement(
        "printed-loss", "One run of ours could have given the printed test loss at rate 0.05.",
        source="Figures 9 (c) and 10 (c)", bounds=(0, math.inf), unit="nats", each=printed,
        of=lambda t, p, dataset: sample(of_rate(t, p, dataset, PRINTED_RATE), "test_loss"),
        one_run=lambda p, dataset: PRINTED["test_loss"][dataset], requires=(TRAINED, ON_ALL),
    ),
]  # fmt: skip

PEAK = {
    HOLDS: "The alignment ends highest in a hidden layer",
    CONTRADICTED: "The alignment does not end highest in a hidden layer",
    ABSENT: "No hidden layer ends visibly higher than the first and the last",
    UNDECIDED: "It is undecided whether the alignment ends highest in a hidden layer",
    NOT_JUDGED: "We do not judge yet whether the alignment ends highest in a hidden layer",
}
RISE = {
    HOLDS: "most of its gain comes in the first two epochs",
    CONTRADICTED: "most of its change comes after the first two epochs",
    ABSENT: "it gains as much later as in the first two epochs",
    UNDECIDED: "it is undecided whether most of its gain comes in the first two epochs",
}


def shared(claims, id):
    """The one outcome of the replicates of a statement that were run; None where they differ or none was."""
    found = {claim.outcome for name, claim in claims.items() if name.startswith(f"{id}-")} - {NOT_RUN}
    return found.pop() if len(found) == 1 else None


def finding(table, parameters, claims):
    """Whether hidden layers end highest, and whether they rose early; words follow the verdicts."""
    heads = [claim for id, claim in claims.items() if id.startswith("hierarchy-hidden-")]
    run = [claim for claim in heads if claim.outcome != NOT_RUN]
    if not run:
        return "No network learned."
    peak, rise = shared(claims, "hierarchy-hidden"), shared(claims, "hierarchy-rises")
    holds = sum(claim.outcome == HOLDS for claim in run)
    said = PEAK.get(peak, f"The alignment ends highest in a hidden layer in {holds} of {len(run)} settings")
    if peak == NOT_JUDGED:
        epochs = networks(table)["epochs"].max()
        ahead = sum(claim.measured > 0 for claim in run)
        return (
            f"{said}: our networks were stopped after {epochs:.0f} epochs, while the alignments were still "
            f"changing. By then a hidden layer leads on average in {_all(ahead, len(run))} settings. "
            "Longer runs on all images are planned."
        )
    if peak in PEAK:
        said += f" in all {len(run)} settings" if len(run) > 1 else ""
    late = "whether its gain comes in the first two epochs differs between settings"
    return f"{said}; {RISE.get(rise, late)}. Momentum, weight decay and stopping time are ours."


def _all(count, of):
    return f"all {of}" if count == of else f"{count} of {of}"


def key_numbers(table, parameters):
    """The printed test accuracies beside ours; the lead of the best hidden layer in the first setting."""
    result = []
    for case in printed(parameters):
        here = 100 * sample(of_rate(table, parameters, case.id, PRINTED_RATE), "test_accuracy")
        if len(here):
            what = f"test accuracy at rate {PRINTED_RATE:g} (%), {called(case.id)}"
            value = f"{100 * PRINTED['test_accuracy'][case.id]:.1f}"
            result.append(KeyNumber(what, interval(here, "{:.1f}", (0, 100)), value))
    for case in kinds(parameters)[:1]:
        lead = at_end("hidden")(table, parameters, **case.given)
        if len(lead):
            what = f"lead of the best hidden layer over the first and the last, {case.words}"
            result.append(KeyNumber(what, interval(lead, "{:+.3f}")))
    return result[:3]


def settings(table):
    """[(data set, depth, rate)] of all networks, in the table's order."""
    nets = networks(table)
    return list(dict.fromkeys(zip(nets["dataset"], nets["depth"], nets["learning_rate"], strict=True)))


def summary(table):
    """What the page's table shows: a record per kind of network, texts; means with 95 % intervals."""
    nets, records = networks(table), []
    for dataset, depth, rate in settings(table):
        here = chosen(nets, dataset, depth, rate)
        if len(here):
            records.append(
                {
                    "network": title(dataset, depth),
                    "rate": f"{rate:g}",
                    "peak": ", ".join(f"{peak:.0f}" for peak in here["peak"]),
                    "untrained": ", ".join(f"{peak:.0f}" for peak in here["peak_init"]),
                    "largest alignment": interval(here["largest"], "{:.3f}"),
                    "gain in two epochs": interval(here["rise"], "{:.3f}"),
                    "later": interval(here["late"], "{:+.3f}"),
                    "test accuracy (%)": interval(100 * here["test_accuracy"], "{:.1f}", (0, 100)),
                    "test loss": interval(here["test_loss"], within=(0, np.inf)),
                }
            )
    return records
