"""What goes with the stable ranks of layer kernels and of the Fisher information (Figures 19 to 23)."""

import math
from pathlib import Path

import numpy as np
import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import at, correlation, curves, difference, means, once, sample
from alignbook.statements import Requirement, Statement
from alignbook.wording import first_unmet, fitting, sentences

PRINTED = pd.read_csv(Path(__file__).with_name("printed.csv"))
BEST = PRINTED["test_accuracy"].max()
DECAY = 50  # place of the eigenvalue by which a decay is judged
NEAR = 0.9  # "near 1", as for Figure 6
NETWORKS = 6  # a seed, for a correlation over its networks
SHORT = 5.0  # points of test accuracy below the paper's best network
KEYS = ["learning_rate", "label_noise", "seed"]
ACCURACIES = ("test_accuracy", "train_accuracy", "train_loss", "passes")
OF_LAYERS = (*ACCURACIES, "alignment", "correlation", "rank", "fisher_rank", f"eigenvalue_{DECAY:03d}")


@once
def networks(table):
    """One row per network: rate, noise, seed, accuracies, and means over its layers.

    log_rank, log_fisher : of ln R_l; spread, fisher_spread : standard deviations over the layers of the same;
    alignment, correlation : means; decay : mean of log10 λ_50/λ_1. Layers without a
    spectrum are left out.
    """
    layers = table.dropna(subset="rank") if len(table) else pd.DataFrame(columns=[*KEYS, *OF_LAYERS])
    found = layers.assign(
        log_rank=np.log(layers["rank"].astype(float)),
        log_fisher=np.log(layers["fisher_rank"].astype(float)),
        decay=np.log10(layers[f"eigenvalue_{DECAY:03d}"].astype(float).clip(lower=1e-16)),
    ).groupby(KEYS)
    means = found[["alignment", "correlation", "log_rank", "log_fisher", "decay"]].mean()
    spreads = found[["log_rank", "log_fisher"]].std().set_axis(["spread", "fisher_spread"], axis=1)
    nets = found[[*ACCURACIES]].first().join(means).join(spreads)
    return nets[found.size() > 1].astype(float).reset_index()


def with_accuracy(column, sign=1):
    """A reading: correlation of test accuracy with a column over the networks of a seed, times ``sign``."""
    return lambda table, parameters: sign * correlation(networks(table), "test_accuracy", column, least=4)


def networks_a_seed(table, parameters):
    """How many networks the seed with the fewest has."""
    return networks(table).groupby("seed").size().min()


def points_short(table, parameters):
    """By how many points our best kind of network is less accurate than the paper's."""
    best = networks(table).groupby(["learning_rate", "label_noise"])["test_accuracy"].mean().max()
    return 100 * (BEST - best)


def figures(nets):
    """The three networks of Figures 19 and 20 as {colour: (learning rate, share of random labels)}.

    blue: highest rate, orange: lowest rate, both without random labels; green: lowest rate, with the most.
    Empty where there is but one rate, or no share.
    """
    rates, noises = sorted(nets["learning_rate"].unique()), sorted(nets["label_noise"].unique())
    if len(rates) < 2 or len(noises) < 2 or noises[0] > 0:
        return {}
    low, high, noise = rates[0], rates[-1], noises[-1]
    return {"blue": (high, 0.0), "orange": (low, 0.0), "green": (low, noise)}


def of_figure(nets, colour, column):
    """``column`` of the networks of one colour, by seed; empty where there is no such network."""
    found = figures(nets)
    if colour not in found:
        return sample(nets.iloc[:0], column)
    rate, noise = found[colour]
    return sample(at(nets, learning_rate=rate, label_noise=noise), column)


def between(first, second, column):
    """A reading: ``column`` of the first of two colours less that of the second, by seed."""

    def of(table, parameters):
        nets = networks(table)
        return difference(of_figure(nets, first, column), of_figure(nets, second, column))

    return of


def by_noise(column):
    """A reading: ``column`` with the most random labels less without, mean over the rates, by seed."""

    def of(table, parameters):
        nets = networks(table)
        clean, noisy = (
            curves(at(nets, label_noise=share), "learning_rate", column)
            for share in (0.0, nets["label_noise"].max() or math.nan)
        )
        return (noisy - clean).mean(axis=1).dropna()

    return of


def highest_term(table, parameters):
    """Largest correlation term of a layer between the first and the last, best network, by seed."""
    best = figures(table).get("blue") if len(table) else None
    if best is None:
        return None
    inner = table[table["layer"].between(2, table["layer"].max() - 1)]
    terms = curves(at(inner, learning_rate=best[0], label_noise=best[1]), "layer", "correlation")
    return terms.max(axis=1).dropna()


def apart(one, other):
    """A reading: a column of the networks less another, mean over the networks of a seed."""

    def of(table, parameters):
        nets = networks(table)
        return difference(means(nets, one), means(nets, other))

    return of


ENOUGH = Requirement("networks per seed", networks_a_seed, at_least=NETWORKS)
ACCURATE = Requirement("points of test accuracy below the paper's best network", points_short, at_most=SHORT)
PAIR = {"seen": 3, "post_hoc": "the pair was added after seeds 0 to 2 were seen, and is judged on later ones"}
OF_R = {
    "above": 0, "matters": 0.3, "bounds": (-1, 1), "requires": (ENOUGH, ACCURATE),
    "because": "a correlation of 0.3 explains less than a tenth of the variance",
}  # fmt: skip
OF_LN = {
    "above": 0, "matters": 0.1, "unit": "in ln R", "requires": (ACCURATE,),
    "because": "a tenth of the rank; the curves of Figure 20b are much further apart",
}  # fmt: skip
OF_DECAY = {
    "above": 0, "matters": 0.05, "unit": "in log10 λ", "because": "a tenth of the eigenvalue",
    "requires": (ACCURATE,),
}  # fmt: skip


STATEMENTS = [
    Statement(
        "rank", "Networks with higher test accuracy have lower stable ranks.",
        source="Figure 20b, Appendix G.1", of=with_accuracy("log_rank", -1), headline=True,
        unit="with the sign reversed", **OF_R,
    ),
    Statement(
        "alignment", "Networks with higher test accuracy have larger alignments.", source="Figure 20a",
        of=with_accuracy("alignment"), **OF_R,
    ),
    Statement(
        "correlation", "Networks with higher test accuracy have larger correlation terms.",
        source="Figure 20c", of=with_accuracy("correlation"), **OF_R,
    ),
    Statement(
        "near-one", "In the best network a middle layer's correlation term is near 1 (ours: above 0.9).",
        source="Figure 20c, Appendix G.1", of=highest_term, above=NEAR, matters=0.02, unit="of the term",
        because="a fifth of the distance from 0.9 to 1", bounds=(0, 1), requires=(ACCURATE,), ours=True,
        post_hoc="added after the first results, with the 0.9 fixed earlier on the page of Figure 6",
    ),
    Statement(
        "noise-blue",
        "Random labels at a low rate give larger stable ranks than clean labels at the highest.",
        source="Figure 20b", of=between("green", "blue", "log_rank"), **PAIR, **OF_LN,
    ),
    Statement(
        "noise-orange", "At the lowest rate, the network with random labels has larger stable ranks.",
        source="Figure 20b", of=between("green", "orange", "log_rank"), **PAIR, **OF_LN,
    ),
    Statement(
        "noise", "At the same rate, random labels increase stable ranks (mean over the rates).",
        source="Figure 20b; at every rate ours", of=by_noise("log_rank"), ours=True, **OF_LN,
    ),
    Statement(
        "rate", "Even without random labels, the lowest rate gives larger stable ranks than the highest.",
        source="Figure 20b; without random labels ours", of=between("orange", "blue", "log_rank"), ours=True,
        **OF_LN,
    ),
    Statement(
        "decay", "Eigenvalues drop faster in the network of Figure 19 (b) than in that of (a) (the 50th).",
        source="Figure 19; rates as in Figure 20", of=between("green", "blue", "decay"),
        **PAIR, **OF_DECAY,
    ),
    Statement(
        "decay-same", "Even at the same rate, eigenvalues drop faster without random labels (the 50th).",
        source="Figure 19; at the same rate ours", of=by_noise("decay"), ours=True, **OF_DECAY,
    ),
    Statement(
        "fisher-below", "The Fisher information has a lower stable rank than the layer's kernel.",
        source="Appendix G.4, an argument about any network", of=apart("log_rank", "log_fisher"),
        **OF_LN | {"requires": ()},
    ),
    Statement(
        "fisher-even", "The Fisher information's stable rank varies less over the layers than the kernel's.",
        source="Figure 21", of=apart("spread", "fisher_spread"), **OF_LN,
    ),
    Statement(
        "fisher-rank", "Networks with higher test accuracy have a Fisher information of lower stable rank.",
        source="Figure 22", of=with_accuracy("log_fisher", -1), unit="with the sign reversed", **OF_R,
    ),
]  # fmt: skip

SAID = {
    HOLDS: "More accurate networks have lower stable ranks, as the paper says",
    CONTRADICTED: "More accurate networks have higher stable ranks, not lower ones",
    ABSENT: "Test accuracy and stable rank are hardly related",
    UNDECIDED: "Whether more accurate networks have lower stable ranks is undecided",
    NOT_JUDGED: "We do not judge whether more accurate networks have lower stable ranks",
}
ALIGNED = {
    HOLDS: ", and their large directions align with the labels",
    CONTRADICTED: ", but their large directions align less with the labels",
    ABSENT: ", but their large directions align no more with the labels",
    UNDECIDED: "; whether their large directions align more with the labels is undecided",
}
LABELS = {
    HOLDS: "random labels enlarge it, too",
    CONTRADICTED: "random labels reduce it",
    ABSENT: "random labels hardly change it",
    UNDECIDED: "whether random labels do is undecided",
}


def finding(table, parameters, claims):
    """How accuracy and rank go together, and what moves the rank; words follow the verdicts."""
    outcome = claims["rank"].outcome
    if outcome not in SAID:
        return "Too few networks were trained to correlate accuracy and stable rank."
    said, ours = SAID[outcome], ""
    if outcome == NOT_JUDGED:
        count, best = networks_a_seed(table, parameters), BEST - points_short(table, parameters) / 100
        said += first_unmet(
            claims["rank"],
            {
                ENOUGH.text: f": {count:.0f} networks a seed are too few for a correlation",
                ACCURATE.text: f", because ours classify at most {100 * best:.0f} % of the test images "
                f"correctly, the paper's up to {100 * BEST:.0f} %",
            },
        )
        low, high = claims["rank"].interval or (0, 0)
        if low > 0 or high < 0:
            ours = f"in ours the direction {'agrees' if low > 0 else 'is opposite'}: accuracy and rank have "
            ours += f"a correlation of {-claims['rank'].measured:.2f}"
    elif claims["rank"].measured is not None:
        said += f" (correlation {claims['rank'].measured:.2f})"
    more = ALIGNED.get(claims["correlation"].outcome, "")
    rate, noise, rates = claims["rate"], LABELS.get(claims["noise"].outcome), ()
    if rate.outcome in (HOLDS, CONTRADICTED):
        times = f"{math.exp(rate.measured):.1f} times as large"
        rates = (f"the lowest learning rate makes the rank {times}", noise)
    small = "our VGG-19 is narrow and saw few images" * (parameters["width"] < 64 or parameters["images"] > 0)
    tails = ((ours, *rates, small), (ours, *rates), (ours,), (small,), ())
    return fitting(*(sentences(said + more, *tail) for tail in tails))


def key_numbers(table, parameters):
    """How accuracy and rank go together, what random labels do to the rank, and the best test accuracy."""
    result = []
    if len(values := with_accuracy("log_rank")(table, parameters)):
        what = "correlation of test accuracy with the log of the stable rank, over the networks of a seed"
        result.append(KeyNumber(what, interval(values, within=(-1, 1))))
    if len(values := by_noise("log_rank")(table, parameters)):
        what = "stable rank with random labels over that without"
        result.append(KeyNumber(what, interval(np.exp(values), "{:.2f}", (0, math.inf))))
    if len(networks(table)):
        best = BEST - points_short(table, parameters) / 100
        result.append(KeyNumber("best test accuracy (%)", f"{100 * best:.1f}", f"{100 * BEST:.2f}"))
    return result
