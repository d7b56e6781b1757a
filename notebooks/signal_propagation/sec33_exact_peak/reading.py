"""How far the layer that aligns best is from the exact equilibrium layer, in old and in new networks."""

import math

import numpy as np
import pandas as pd

from companion.over_seeds import at, difference, once
from companion.statements import Case, Number, Statement, over

from ..shared.equilibrium_layer import layer_of
from ..shared.names import called
from . import stored
from .design import AS_IN_TABLES, CROPPED, KAPPA

PAPER_SLOPE = 3 / 5  # Corollary 1
FACTOR = 1.5  # within which a layer counts as predicted
DRIFT = 0.2  # of the exponent; the margin of Figure 3's page
POST_HOC = "κ = 1 and the mean over pairs were chosen when these networks' peaks were known"


def theory(table, dataset, setting=AS_IN_TABLES, statistic="mean", kappa=KAPPA):
    """Series over depth: the exact equilibrium layer, geometric mean over the draws of images."""
    rows = at(table, dataset=dataset, setting=setting, statistic=statistic, kappa=kappa)
    return np.exp(np.log(rows["equilibrium"].astype(float)).groupby(rows["depth"].astype(int)).mean())


@once
def trained(table, dataset, setting=AS_IN_TABLES, statistic="mean", kappa=KAPPA):
    """The networks that were trained before, with ``theory`` and ``off``, ln(peak / theory)."""
    layers = theory(table, dataset, setting, statistic, kappa)
    nets = at(stored.peaks(), dataset=dataset, setting=setting, depth=layers.index)
    nets = nets.assign(theory=nets["depth"].map(layers))
    return nets.assign(off=np.log(nets["peak"] / nets["theory"]))


@once
def fresh(table, dataset):
    """The new networks at their last epoch: as :func:`trained`."""
    rows = at(table, dataset=dataset)
    rows = rows[rows["epoch"] == rows["epoch"].max()] if "epoch" in rows else rows.iloc[:0]
    made = []
    for (depth, rate, seed), net in rows.sort_values("layer").groupby(["depth", "learning_rate", "seed"]):
        peak = int(net["layer"].iloc[net["alignment"].fillna(0.0).to_numpy().argmax()])
        exact = layer_of(net["forward"], net["backward"])
        made.append((depth, rate, seed, peak, exact, math.log(peak / exact)))
    return pd.DataFrame(made, columns=["depth", "learning_rate", "seed", "peak", "theory", "off"])


def per_network(values):
    """A sample with one value per network."""
    return pd.Series(np.asarray(values, dtype=float)).rename_axis("network")


def distance(nets):
    """|ln(peak / theory)|, one value per network."""
    return per_network(nets["off"].abs())


def drift(nets):
    """Values, one per network, whose mean is the slope of ln(peak / theory) over ln depth.

    Their spread is that of a slope without equal variances; empty where the depth does not vary.
    """
    x = np.log(nets["depth"].to_numpy(float))
    x, y = x - x.mean() if len(x) else x, nets["off"].to_numpy()
    square = np.square(x).mean() if len(x) else 0.0
    return per_network(x * (y - y.mean()) / square if square > 0 else [])


def saved(nets):
    """How much nearer a peak is to the equilibrium layer than to the line of slope 3/5, in ln l.

    The line's constant is fitted to these networks, which favours it.
    """
    line = np.log(nets["peak"]) - PAPER_SLOPE * np.log(nets["depth"])
    return difference(per_network((line - line.mean()).abs()), distance(nets))


def typical_factor(nets):
    """exp of the median of |ln(peak / theory)|: half of the networks lie within this factor."""
    return float(np.exp(nets["off"].abs().median())) if len(nets) else None


def cases(parameters):
    """The data sets as in the tables, then those with crops."""
    made = [(name, AS_IN_TABLES) for name in parameters["datasets"]]
    made += [(name, CROPPED) for name in parameters["cropped"]]
    return [
        Case(
            f"{name}-crops" if setting == CROPPED else name,
            called(name) + " with crops" * (setting == CROPPED),
            {"dataset": name, "setting": setting},
        )
        for name, setting in made
    ]


data_sets, new_cases = (over(name, called, "dataset") for name in ("datasets", "new_datasets"))


def all_networks(table, parameters, statistic="mean"):
    """All that were trained before as in the tables, of every data set."""
    parts = [trained(table, name, statistic=statistic) for name in parameters["datasets"]]
    return pd.concat(parts, ignore_index=True)


def of_all(measure, table, parameters):
    """``measure`` of the networks of each data set, all of them in one sample."""
    return per_network(np.concatenate([measure(trained(table, name)) for name in parameters["datasets"]]))


NEAR = {
    "below": math.log(FACTOR), "matters": 0.05, "unit": "in ln l",
    "because": "a twentieth of a layer's index is less than layers are apart",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "new", "In new networks, the layer that aligns best lies within a factor of 1.5 of the exact "
        "equilibrium layer (mean distance in ln l).", source="Section 3.3, Equilibrium Hypothesis",
        headline=True, of=lambda t, p, dataset: distance(fresh(t, dataset)), each=new_cases, **NEAR,
    ),
    Statement(
        "trained", "So it does in networks trained to the end of Tables 1 to 3.",
        source="Section 3.3, Figure 3", of=lambda t, p: distance(all_networks(t, p)), post_hoc=POST_HOC,
        **NEAR,
    ),
    Statement(
        "drift", "As depth grows, it moves as the exact equilibrium layer does.",
        source="Section 3.3, Figure 3", of=lambda t, p, dataset: drift(trained(t, dataset)), each=data_sets,
        post_hoc=POST_HOC, near=0.0, within=DRIFT, unit="of the exponent",
    ),
    Statement(
        "better",
        "It lies nearer to the exact equilibrium layer than to a line of slope 3/5 with a fitted constant.",
        source="Section 3.3 against Corollary 1", of=lambda t, p: of_all(saved, t, p), above=0.0,
        matters=0.1, unit="in ln l", because="a tenth of the layer's index", ours=True, post_hoc=POST_HOC,
    ),
    Statement(
        "literal", "With suprema over pairs in place of means, as in Definition 3, it lies as near.",
        source="Definition 3", of=lambda t, p: distance(all_networks(t, p, "supremum")), post_hoc=POST_HOC,
        **NEAR,
    ),
]  # fmt: skip
NUMBERS = [
    Number(
        "factor", "within this factor of the equilibrium layer lies half of the networks",
        lambda t, p: typical_factor(all_networks(t, p)),
    ),
    Number(
        "factor-new", "the same of new networks", each=new_cases,
        of=lambda t, p, dataset: typical_factor(fresh(t, dataset)),
    ),
    Number(
        "share", f"share of the networks within a factor of {FACTOR:g}",
        lambda t, p: per_network(all_networks(t, p)["off"].abs() <= math.log(FACTOR)), bounds=(0, 1),
    ),
    Number("networks", "networks trained before", lambda t, p: float(len(all_networks(t, p))) or None),
]  # fmt: skip
