"""Which layer aligns most over depth, beside L^(3/5) and the exact equilibrium layer (Figures 3 and 8)."""

import math

import numpy as np
import pandas as pd
from scipy.interpolate import PchipInterpolator

from companion.over_seeds import at, curves, exponent, jackknife, once
from companion.statements import Case, Number, Statement, over

from ..shared.names import LEARNED, called
from .design import CROPPED, PAPER_TABLES, SETTINGS

PAPER_SLOPE = 3 / 5  # Corollary 1; the text prints no slope that was fitted to the networks
SLOPE_MARGIN = 0.2  # fixed before any result was seen, as the next two
ACCURACY_MARGIN = 0.02
MIN_DEPTHS = 3  # fewer depths with a network that learned: no slope
KEYS = ["dataset", "setting", "depth", "seed", "joined"]
PEAKS = {"peak": "alignment", "peak_half": "alignment_half", "peak_init": "alignment_init"}


@once
def networks(table):
    """One row per network: ``KEYS``, of which ``joined`` is from profile paper, and test_accuracy;

    peak, peak_half, peak_init : the layer (from 1) with the largest alignment, the first of equal ones: after
    training, on half of the images, and before training. Layers whose kernel is constant (nan) cannot be it.
    learned : test accuracy of at least ``LEARNED`` and a peak.
    """
    if "setting" not in table:  # all networks may have diverged
        table = pd.DataFrame(columns=[*KEYS, "layer", *PEAKS.values(), "test_accuracy"])
    rows = table if "joined" in table else table.assign(joined=False)
    rows = rows.sort_values("layer", ignore_index=True)
    nets = rows.groupby(KEYS)[["test_accuracy"]].first()
    for name, column in PEAKS.items():
        known = rows.dropna(subset=column)
        top = known.loc[known.groupby(KEYS)[column].idxmax()]
        nets[name] = top.set_index(KEYS)["layer"].astype(float)
    nets["learned"] = (nets["test_accuracy"] >= LEARNED) & nets["peak"].notna()
    return nets.reset_index().astype({"joined": bool})


def shown(nets, dataset, depths, settings=("tables",)):
    """The rows of ``nets`` that are shown and judged for one data set.

    Joined networks, of every seed that has all ``depths`` in all ``settings``, with whatever other depths
    they have; where no seed has, those that the parameters ask for, at ``depths``.
    """
    here = at(nets, dataset=dataset, setting=settings)
    whole = here[here["joined"]]
    asked = at(whole, depth=depths).groupby("seed").size()
    seeds = asked.index[asked == len({*depths}) * len(settings)]
    return at(whole, seed=seeds) if len(seeds) else at(here, joined=False, depth=depths)


def shown_in(table, parameters, dataset, setting="tables"):
    """The networks of one data set in one setting that are shown, see :func:`shown`."""
    depths = parameters["depths" if setting == "tables" else "choice_depths"]
    return shown(networks(table), dataset, depths, (setting,))


def learned_in(table, parameters, dataset, setting="tables", first=True, far=True):
    """Those of them that learned.

    first : whether networks whose peak is the first layer enter
    far : whether networks enter that are more than ``ACCURACY_MARGIN`` below the printed accuracy
    """
    nets = at(shown_in(table, parameters, dataset, setting), learned=True)
    nets = nets if first else nets[nets["peak"] > 1]
    return nets if far else nets[missing(nets, dataset) <= ACCURACY_MARGIN]


def slope(nets):
    """Slope of log peak over log depth; NaN of fewer than ``MIN_DEPTHS`` depths."""
    return exponent(nets["depth"], nets["peak"]) if nets["depth"].nunique() >= MIN_DEPTHS else math.nan


def slopes(table, parameters, **which):
    """The slope's jackknife pseudo-values over networks, arguments as of :func:`learned_in`.

    Networks of different depth share no weights and no order of images, so that they are the unit.
    """
    return jackknife(learned_in(table, parameters, **which), slope)


def beside_rate(nets, dataset):
    """(a, b) of log peak = a log depth + b log rate + c, rates as in the tables; NaN where none fits."""
    rates = [PAPER_TABLES.get(dataset, {}).get(depth, (math.nan,))[0] for depth in nets["depth"]]
    design = np.column_stack([np.log(nets["depth"].astype(float)), np.log(rates), np.ones(len(nets))])
    if not np.isfinite(design).all() or len(nets) < 4 or np.linalg.matrix_rank(design) < 3:
        return math.nan, math.nan
    return tuple(np.linalg.lstsq(design, np.log(nets["peak"]), rcond=None)[0][:2])


def equilibrium(table, dataset, statistic="mean"):
    """Series over depth: the layer where forward and backward loss of the data's pairs are equal (κ = 1).

    Between layers by monotone cubic interpolation in log l; 1 where they would be equal before layer 1.
    """
    pairs = at(table, dataset=dataset, statistic=statistic)
    layers = {}
    for depth, rows in pairs.drop_duplicates(["depth", "layer"]).sort_values("layer").groupby("depth"):
        excess = np.log(rows["backward"]) - np.log(rows["forward"])
        log_layer = PchipInterpolator(excess, np.log(rows["layer"]), extrapolate=False)
        layers[int(depth)] = math.exp(float(log_layer(0.0))) if excess.iloc[0] < 0 else 1.0
    return pd.Series(layers, dtype=float).dropna()


def predicted(table, parameters):
    """Networks that learned as in the tables, with ``theory``, the equilibrium layer at their depth."""
    frames = []
    for dataset in parameters["datasets"]:
        nets = learned_in(table, parameters, dataset)
        frames.append(nets.assign(theory=nets["depth"].map(equilibrium(table, dataset))))
    return pd.concat(frames, ignore_index=True).dropna(subset="theory")


def theory_slope(table, parameters, dataset, statistic="mean"):
    """Slope of the log equilibrium layer over log depth, at the depths of networks that learned."""
    layers = equilibrium(table, dataset, statistic)
    layers = layers[layers.index.isin(learned_in(table, parameters, dataset)["depth"])]
    return exponent(layers.index.to_numpy(float), layers) if len(layers) >= MIN_DEPTHS else None


def factor(table, parameters):
    """Median factor between the observed and the predicted layer, over networks."""
    nets = predicted(table, parameters)
    return math.exp(np.abs(np.log(nets["peak"] / nets["theory"])).median()) if len(nets) else None


def printed(dataset):
    """Series over depth: the printed test accuracy."""
    return pd.Series({depth: row[2] for depth, row in PAPER_TABLES.get(dataset, {}).items()}, dtype=float)


def missing(nets, dataset):
    """Printed test accuracy less that of each network."""
    return nets["depth"].map(printed(dataset)) - nets["test_accuracy"]


def shortfall(table, parameters):
    """Printed test accuracy less ours, in points, by network on which a slope rests."""
    missed = [
        missing(learned_in(table, parameters, **c.given), c.given["dataset"]) for c in faithful(parameters)
    ]
    return (100 * pd.concat(missed, ignore_index=True).dropna()).rename_axis("network")


def hidden(table, parameters):
    """Whether the peak is in no end layer, 1.0 or 0.0 by network that learned, of all data sets."""
    nets = [learned_in(table, parameters, dataset) for dataset in parameters["datasets"]]
    nets = pd.concat(nets, ignore_index=True)
    return ((nets["peak"] > 1) & (nets["peak"] < nets["depth"])).astype(float).rename_axis("network")


def varied(table, parameters):
    """The networks of Figure 8, those of all its settings at one size."""
    p = parameters
    return shown(networks(table), p["variation_dataset"], p["variation_depths"], tuple(SETTINGS))


def shifts(table, parameters, setting):
    """log(peak in ``setting`` / peak in "tables"), mean over the depths at which both learned, by seed."""
    learned = at(varied(table, parameters), learned=True)
    moved, base = (np.log(curves(at(learned, setting=s), "depth", "peak")) for s in (setting, "tables"))
    return (moved - base).mean(axis=1).dropna()


data_sets = over("datasets", called, "dataset")


def with_crops(parameters):
    """The same, and CIFAR-10 with crops and flips, with which the printed accuracy is met."""
    p = parameters
    asked = CROPPED in p["choices"] and "cifar10" in {*p["datasets"]} & {*p["choice_datasets"]}
    given = {"dataset": "cifar10", "setting": CROPPED}
    return data_sets(p) + [Case("cifar10-crops", f"{called('cifar10')} with crops", given)] * asked


def faithful(parameters):
    """The same without the CIFAR-10 whose images are not cropped, where there is the other."""
    cases = {case.given["dataset"]: case for case in with_crops(parameters)}
    return list(cases.values())


CHANGED = [
    Case("low-rate", "a quarter of the rate", {"setting": "low rate"}),
    Case("large-batch", "four times the batch", {"setting": "large batch"}),
]
STATEMENTS = [
    Statement(
        "slope", "The layer of largest alignment grows with depth as L to the power 3/5.",
        source="Figure 3; Corollary 1 as used there", of=slopes, near=PAPER_SLOPE, within=SLOPE_MARGIN,
        each=faithful, headline=True,
    ),
    Statement(
        "hidden-peak", "In most trained networks the alignment peaks between the first and the last layer.",
        source="Sections 1 and 2.3", of=hidden, above=0.5, matters=0.1, unit="of the networks",
        because="one network in ten", bounds=(0, 1),
    ),
    Statement(
        "accuracy", "Our networks reach the printed test accuracies, on CIFAR-10 with crops (printed minus "
        "ours).",
        source="Tables 1 to 3", of=shortfall, near=0.0, within=100 * ACCURACY_MARGIN, unit="points",
    ),
    Statement(
        "shift", "A lower learning rate or a larger batch moves the peak towards the last layer.",
        source="Figure 8", of=shifts, each=lambda p: CHANGED, above=0, matters=0.1, unit="in ln l",
        because="a tenth of the layer's index",
        opposed_by="in Section 4, about Figure 4, smaller batches and larger rates move the peak towards "
        "the centre, which for an early peak is the opposite direction",
    ),
]  # fmt: skip
NUMBERS = [Number("factor", "median factor between observed and predicted layer", factor)]
