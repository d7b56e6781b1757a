"""What goes with the stable ranks of layer kernels and of the Fisher information (Figures 19 to 23)."""

import math
from pathlib import Path

import numpy as np
import pandas as pd

from companion.over_seeds import at, correlation, curves, difference, means, once, sample
from companion.statements import Case, Number, Statement, least

PRINTED = pd.read_csv(Path(__file__).with_name("printed.csv"))
BEST = PRINTED["test_accuracy"].max()
DECAY = 50  # place of the eigenvalue by which a decay is judged
NEAR = 0.9  # "near 1", as for Figure 6
KEYS = ["learning_rate", "label_noise", "seed"]
ACCURACIES = ("test_accuracy", "train_accuracy", "train_loss", "passes")
OF_LAYERS = (*ACCURACIES, "alignment", "correlation", "rank", "fisher_rank", f"eigenvalue_{DECAY:03d}")


@once
def networks(table):
    """One row per network: rate, noise, seed, accuracies, and means over its layers.

    log_rank, log_fisher : of ln R_l; alignment; correlation; decay : of log10 λ_50/λ_1. Layers without a
    spectrum are left out.
    """
    layers = table.dropna(subset="rank") if len(table) else pd.DataFrame(columns=[*KEYS, *OF_LAYERS])
    found = layers.assign(
        log_rank=np.log(layers["rank"].astype(float)),
        log_fisher=np.log(layers["fisher_rank"].astype(float)),
        decay=np.log10(layers[f"eigenvalue_{DECAY:03d}"].astype(float).clip(lower=1e-16)),
    ).groupby(KEYS)
    means = found[["alignment", "correlation", "log_rank", "log_fisher", "decay"]].mean()
    nets = found[[*ACCURACIES]].first().join(means)
    return nets[found.size() > 1].astype(float).reset_index()


def with_accuracy(column, sign=1):
    """A reading: correlation of test accuracy with a column over the networks of a seed, times ``sign``.

    clean : without the networks that were trained on random labels
    """

    def of(table, parameters, clean=False):
        nets = networks(table)
        nets = at(nets, label_noise=0.0) if clean else nets
        return sign * correlation(nets, "test_accuracy", column)

    return of


def best_accuracy(table, parameters):
    """Mean test accuracy of our best kind of network, in percent; None of none."""
    kinds = networks(table).groupby(["learning_rate", "label_noise"])["test_accuracy"].mean()
    return 100 * kinds.max() if len(kinds) else None


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


def slower_decay(table, parameters):
    """By how much less the eigenvalues have decayed in the green network than in the blue one, by seed."""
    nets = networks(table)
    three = figures(nets)
    if not three:
        return None
    decays = (
        sample(at(nets, learning_rate=rate, label_noise=noise), "decay")
        for rate, noise in (three["green"], three["blue"])
    )
    return difference(*decays)


def by_noise(table, parameters):
    """ln R with the most random labels less without, mean over the rates, by seed."""
    nets = networks(table)
    clean, noisy = (
        curves(at(nets, label_noise=share), "learning_rate", "log_rank")
        for share in (0.0, nets["label_noise"].max() or math.nan)
    )
    return (noisy - clean).mean(axis=1).dropna()


def above_fisher(table, parameters):
    """ln R of the kernels less that of the Fisher information, mean over the networks of a seed."""
    nets = networks(table)
    return difference(means(nets, "log_rank"), means(nets, "log_fisher"))


def highest_term(table, parameters):
    """Largest correlation term of a layer between the first and the last, best network, by seed."""
    best = figures(table).get("blue") if len(table) else None
    if best is None:
        return None
    inner = table[table["layer"].between(2, table["layer"].max() - 1)]
    terms = curves(at(inner, learning_rate=best[0], label_noise=best[1]), "layer", "correlation")
    return terms.max(axis=1).dropna()


def labels(parameters):
    """The networks over which a correlation is taken."""
    return [Case("all", "all networks", {}), Case("clean", "clean labels alone", {"clean": True})]


OF_R = {
    "above": 0, "matters": 0.3, "bounds": (-1, 1),
    "because": "a correlation of 0.3 explains less than a tenth of the variance",
}  # fmt: skip
OF_LN = {
    "above": 0, "matters": 0.1, "unit": "in ln R",
    "because": "a tenth of the rank; the curves of Figure 20b are much further apart",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "rank", "Networks with higher test accuracy have lower stable ranks (correlation, sign reversed; "
        "over all networks or those with clean labels, where it is weaker).",
        source="Figure 20b, Appendix G.1", of=least(with_accuracy("log_rank", -1), labels), headline=True,
        **OF_R,
    ),
    Statement(
        "correlation", "Networks with higher test accuracy have larger correlation terms (the weaker of the "
        "two).",
        source="Figure 20c", of=least(with_accuracy("correlation"), labels), **OF_R,
    ),
    Statement(
        "near-one", "In the best network a middle layer's correlation term is near 1 (above 0.9).",
        source="Figure 20c, Appendix G.1", of=highest_term, above=NEAR, matters=0.02, unit="of the term",
        because="a fifth of the distance from 0.9 to 1", bounds=(0, 1),
        post_hoc="added after the first results, with the 0.9 fixed earlier on the page of Figure 6",
    ),
    Statement(
        "noise", "At the same rate, random labels increase stable ranks (mean over the rates).",
        source="Figure 20b; at every rate ours", of=by_noise, ours=True, **OF_LN,
    ),
    Statement(
        "decay", "Eigenvalues drop faster in the network of Figure 19 (b) than in that of (a) (the 50th).",
        source="Figure 19; rates as in Figure 20", of=slower_decay, above=0,
        matters=0.05, unit="in log10 λ", because="a tenth of the eigenvalue",
        post_hoc="the pair was added after seeds 0 to 2 were seen",
    ),
    Statement(
        "fisher-below", "The Fisher information has a lower stable rank than the layer's kernel.",
        source="Appendix G.4", of=above_fisher, **OF_LN,
    ),
]  # fmt: skip
NUMBERS = [
    Number("best", "test accuracy of the best network (%)", best_accuracy, paper=100 * BEST),
    Number(
        "rank", "correlation of accuracy with lower stable rank", with_accuracy("log_rank", -1), each=labels
    ),
]
