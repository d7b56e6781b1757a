"""Which layer aligns most over depth, beside L^(3/5) and the exact equilibrium layer (Figures 3, 8)."""

import math

import numpy as np
import pandas as pd
from scipy.interpolate import PchipInterpolator
from scipy.optimize import minimize_scalar

from alignbook import over_seeds
from alignbook.claims import CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, Claim, KeyNumber, interval
from alignbook.over_seeds import at, curves, difference, exponent, from_seed, once, slope
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import clauses, first_unmet, fitting, joined, listed, named, replicates

from ..names import LEARNED, called
from .design import CROPPED, PAPER_TABLES, SETTINGS

PAPER_SLOPE = 3 / 5  # Corollary 1; the text prints no slope that was fitted to the networks
TEXT_WIDTH, TABLE_WIDTH = 256, 100  # Section 3.4, of all of Figure 3; Tables 2 and 3
STATISTICS = {  # of which losses
    "mean": "mean over pairs", "99 %": "all but the closest 1 % of pairs",
    "supremum": "supremum over pairs, as in Definition 3",
}  # fmt: skip

# Fixed before any result was seen.
SLOPE_MARGIN = 0.2
ACCURACY_MARGIN = 0.02
MIN_DEPTHS = 3  # fewer depths with a network that learned: no slope
SEEN = 3  # seeds whose peaks were known when the exact equilibrium layer was chosen
DEEP = 30  # depths from which on the tables' rates fall
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


def judged_networks(table, parameters, dataset, setting="tables"):
    """Those of them that learned."""
    return at(shown_in(table, parameters, dataset, setting), learned=True)


def logs(table, parameters, dataset, first=True, short=True, setting="tables"):
    """(seeds × log depth) frame of log peak; seeds with fewer than ``MIN_DEPTHS`` depths are left out.

    first : whether networks whose peak is the first layer enter
    short : whether networks enter whose accuracy is more than ``ACCURACY_MARGIN`` below the printed one
    """
    nets = judged_networks(table, parameters, dataset, setting)
    nets = nets if first else nets[nets["peak"] > 1]
    nets = nets if short else nets[missing(nets, dataset) <= ACCURACY_MARGIN]
    frame = np.log(curves(nets, "depth", "peak"))
    return frame.set_axis(np.log(frame.columns.astype(float)), axis=1).dropna(thresh=MIN_DEPTHS)


def slopes(table, parameters, dataset, first=True, short=True, setting="tables"):
    """Slope of log peak over log depth, by seed; ``first`` and ``short`` as for :func:`logs`."""
    return slope(logs(table, parameters, dataset, first, short, setting))


def deep_slopes(table, parameters, dataset, setting="tables"):
    """The same over the depths from ``DEEP`` on."""
    frame = logs(table, parameters, dataset, setting=setting)
    return slope(frame[[x for x in frame if x >= math.log(DEEP)]].dropna(thresh=MIN_DEPTHS))


def beside_rate(table, parameters, dataset, setting="tables"):
    """(seeds × "depth", "rate") frame: exponents of both in one least-squares fit of log peak.

    The rate is that of the tables at each depth. Seeds with no more depths than unknowns are left out.
    """
    fits = {}
    for seed, row in logs(table, parameters, dataset, setting=setting).iterrows():
        row = row.dropna()
        rate = [PAPER_TABLES.get(dataset, {}).get(round(math.exp(x)), (math.nan,))[0] for x in row.index]
        design = np.column_stack([np.ones(len(row)), row.index.to_numpy(float), np.log(rate)])
        if len(row) > design.shape[1] and np.isfinite(design).all() and np.linalg.matrix_rank(design) == 3:
            fits[seed] = np.linalg.lstsq(design, row.to_numpy(float), rcond=None)[0][1:]
    return pd.DataFrame(fits, index=["depth", "rate"], dtype=float).T.rename_axis("seed")


def steady(of=slopes, near=PAPER_SLOPE, first_seed=0, **without):
    """A condition: the verdict is the same ``without`` some networks, as :func:`logs` has it.

    of : what is judged on the seeds from ``first_seed`` on
    near : what the mean is within ``SLOPE_MARGIN``; None: the mean is above 0, as ``OF_LOG`` has it
    """

    def verdict(sample):
        if near is None:
            return over_seeds.verdict(sample, OF_LOG["matters"], OF_LOG["above"])
        return Claim.equals("", "", "", sample, near, SLOPE_MARGIN).outcome

    def met(table, parameters, **given):
        samples = [of(table, parameters, **given, **which) for which in ({}, without)]
        samples = [from_seed(sample, first_seed) for sample in samples]
        return len({verdict(sample) for sample in samples}) == 1 if all(map(len, samples)) else None

    return met


def equilibrium(table, parameters, dataset, statistic, short=True, setting="tables"):
    """(κ, Series over depth: equilibrium layer) of the data's own pairs, where forward = κ backward loss.

    Between layers by monotone cubic interpolation in log l, as for Corollary 1. The hypothesis leaves κ open:
    it is fitted to log peak of all networks that learned, as C of Figure 3 is, where all depths have such a
    layer. Empty without pairs at ``MIN_DEPTHS`` of their depths, and in another ``setting`` than the tables',
    as the pairs are of images as they are. ``short`` as for :func:`logs`.
    """
    if setting != "tables":
        return math.nan, pd.Series(dtype=float)
    learned = judged_networks(table, parameters, dataset)
    learned = learned if short else learned[missing(learned, dataset) <= ACCURACY_MARGIN]
    pairs = at(table, dataset=dataset, statistic=statistic, depth=set(learned["depth"]))
    if not len(pairs) or pairs["depth"].nunique() < MIN_DEPTHS:
        return math.nan, pd.Series(dtype=float)
    log_layer = {
        depth: PchipInterpolator(
            np.log(rows["backward"]) - np.log(rows["forward"]), np.log(rows["layer"]), extrapolate=False
        )
        for depth, rows in pairs.drop_duplicates(["depth", "layer"]).sort_values("layer").groupby("depth")
    }
    peaks = at(learned, depth=log_layer)[["depth", "peak"]].to_numpy()
    low, high = max(f.x[0] for f in log_layer.values()), min(f.x[-1] for f in log_layer.values())

    def missed(level):
        return sum((float(log_layer[depth](level)) - math.log(peak)) ** 2 for depth, peak in peaks)

    level = minimize_scalar(missed, bounds=(low, high), method="bounded").x if low < high else math.nan
    return math.exp(-level), np.exp(pd.Series({d: float(f(level)) for d, f in log_layer.items()})).dropna()


def theory_slope(table, parameters, dataset, statistic="mean", setting="tables"):
    """Slope of the log equilibrium layer over log depth; NaN of fewer than two depths."""
    _, layers = equilibrium(table, parameters, dataset, statistic, setting=setting)
    return exponent(layers.index.to_numpy(float), layers) if len(layers) > 1 else math.nan


def beside(table, parameters, dataset, statistic, short=True):
    """(seeds × log depth) frames of log peak: less the log equilibrium layer, less the line of slope 3/5.

    ``short`` as for :func:`logs`.
    """
    _, layers = equilibrium(table, parameters, dataset, statistic, short)
    theory = pd.Series(np.log(layers.to_numpy()), np.log(layers.index.to_numpy(float)))
    frame = logs(table, parameters, dataset, short=short).reindex(columns=theory.index)
    flat = frame - PAPER_SLOPE * frame.columns.to_numpy(float)
    return frame - theory, flat - flat.stack().mean()


def drift(table, parameters, dataset, statistic, short=True):
    """Slope over depth of log peak less the equilibrium layer's, by seed: 0 where peaks follow it."""
    return slope(beside(table, parameters, dataset, statistic, short)[0])


def nearer(table, parameters, dataset, statistic, short=True):
    """How much nearer peaks lie to the equilibrium layer than to the line (rms of log l), by seed."""
    frames = beside(table, parameters, dataset, statistic, short)
    theory, line = (np.sqrt(np.square(f).mean(axis=1)) for f in frames)
    return difference(line, theory)


def hidden(table, parameters, dataset):
    """Share of the networks that learned whose peak is in no end layer, by seed."""
    nets = judged_networks(table, parameters, dataset)
    return ((nets["peak"] > 1) & (nets["peak"] < nets["depth"])).groupby(nets["seed"]).mean()


def printed(dataset):
    """Series over depth: the printed test accuracy."""
    return pd.Series({depth: row[2] for depth, row in PAPER_TABLES.get(dataset, {}).items()}, dtype=float)


def printed_less(table, parameters, dataset, setting="tables"):
    """Printed test accuracy less ours, means over the depths, by seed; a seed that lacks a depth is out."""
    here = at(shown_in(table, parameters, dataset, setting), depth=printed(dataset).index)
    frame = curves(here, "depth", "test_accuracy")
    return (printed(dataset).reindex(frame.columns) - frame).mean(axis=1, skipna=False).dropna()


def shortfall(table, parameters, dataset, setting="tables", **_):
    """By how much the networks that learned miss the printed test accuracy, mean over networks."""
    return missing(judged_networks(table, parameters, dataset, setting), dataset).mean()


def missing(nets, dataset):
    """Printed test accuracy less that of each network."""
    return nets["depth"].map(printed(dataset)) - nets["test_accuracy"]


def varied(table, parameters):
    """The networks of Figure 8, those of all its settings at one size."""
    p = parameters
    return shown(networks(table), p["variation_dataset"], p["variation_depths"], tuple(SETTINGS))


def shifts(table, parameters, setting):
    """log(peak in ``setting`` / peak in "tables"), mean over the depths at which both learned, by seed."""
    learned = at(varied(table, parameters), learned=True)
    moved, base = (np.log(curves(at(learned, setting=s), "depth", "peak")) for s in (setting, "tables"))
    return (moved - base).mean(axis=1).dropna()


def full_size(table, parameters, dataset=None, setting="tables", **_):
    """Whether the networks were trained on all images for all epochs of the tables."""
    p = parameters
    here = shown_in(table, p, dataset, setting) if dataset else varied(table, p)
    whole = p["epochs_factor"] == 1 and p["train_images"] == 0
    return bool(whole or here["joined"].any())


def data_sets(parameters):
    return [Case(d, called(d), {"dataset": d}) for d in parameters["datasets"]]


def with_crops(parameters):
    """The same, and CIFAR-10 with crops and flips, with which the printed accuracy can be met."""
    p = parameters
    asked = CROPPED in p["choices"] and "cifar10" in {*p["datasets"]} & {*p["choice_datasets"]}
    given = {"dataset": "cifar10", "setting": CROPPED}
    return data_sets(p) + [Case("cifar10-crops", f"{called('cifar10')} with crops", given)] * asked


def statistic_cases(parameters):
    return [
        Case(f"{d}-{name.removesuffix(' %')}", f"{called(d)}, {words}", {"dataset": d, "statistic": name})
        for d in parameters["datasets"] for name, words in STATISTICS.items()
    ]  # fmt: skip


CHANGED = [
    Case("low-rate", "a learning rate four times lower", {"setting": "low rate"}),
    Case("large-batch", "a batch four times larger", {"setting": "large batch"}),
]
WHOLE = Requirement("trained as long as in the tables", full_size)
WHOLE_VARIED = Requirement("Figure 8's networks were trained as long as in the tables", full_size)
RIGHT = Requirement("shortfall of the test accuracy from the printed one", shortfall, at_most=ACCURACY_MARGIN)
STEADY = Requirement(
    "the verdict is the same without networks that peak in the first layer", steady(first=False),
    because="In the paper, networks of ten layers peak in a hidden layer (Section 2.3)",
)  # fmt: skip
WITHOUT_FAR = (
    f"the verdict is the same without networks more than {ACCURACY_MARGIN:g} below the printed accuracy"
)
EACH = Requirement(WITHOUT_FAR, steady(short=False))
EACH_DRIFT = Requirement(WITHOUT_FAR, steady(drift, 0.0, SEEN, short=False))
EACH_NEARER = Requirement(WITHOUT_FAR, steady(nearer, None, SEEN, short=False))
OF_LOG = {"above": 0, "matters": 0.1, "unit": "in ln l", "because": "a tenth of the layer's index"}
STATEMENTS = [
    Statement(
        "slope", "The layer of largest alignment grows with depth as L to the power 3/5.",
        source="Figure 3; Corollary 1 as used there", of=slopes, near=PAPER_SLOPE, within=SLOPE_MARGIN,
        each=with_crops, requires=(WHOLE, RIGHT, STEADY, EACH), headline=True,
    ),
    Statement(
        "equilibrium", "As depth grows, the layer of largest alignment moves like the equilibrium layer of "
        "the data's own pairs of images.", source="Section 3.3, Equilibrium Hypothesis", unit="of the slope",
        of=drift, near=0.0, within=SLOPE_MARGIN, each=statistic_cases, ours=True,
        requires=(WHOLE, RIGHT, EACH_DRIFT), seen=SEEN,
        post_hoc="the peaks were known when the pairs were first evaluated; the margin is that of the slope, "
        "which was fixed before any result",
    ),
    Statement(
        "nearer", "The peaks lie nearer to that equilibrium layer than to a line of slope 3/5.",
        source="Section 3.3 against Corollary 1", of=nearer, each=statistic_cases,
        requires=(WHOLE, RIGHT, EACH_NEARER), ours=True, **OF_LOG,
        post_hoc="planned before the pairs were stored, when the peaks were known", seen=SEEN,
    ),
    Statement(
        "hidden-peak", "In most trained networks the alignment peaks between the first and the last layer.",
        source="Sections 1 and 2.3", of=hidden, above=0.5, matters=0.1, unit="of the networks",
        because="one network in ten", each=data_sets, bounds=(0, 1), requires=(WHOLE,),
    ),
    Statement(
        "accuracy", "One of our runs could have given the printed test accuracies (printed minus ours, "
        "averaged over the depths).", source="Tables 1 to 3", of=printed_less, one_run=0.0,
        within=ACCURACY_MARGIN, requires=(WHOLE,),
        each=lambda p: [case for case in with_crops(p) if case.given["dataset"] in PAPER_TABLES],
    ),
    Statement(
        "shift", "A lower learning rate or a larger batch moves the peak towards the last layer.",
        source="Figure 8", of=shifts, each=lambda p: CHANGED, requires=(WHOLE_VARIED,), **OF_LOG,
        opposed_by="in Section 4, about Figure 4, smaller batches and larger rates move the peak towards "
        "the centre, which for an early peak is the opposite direction",
    ),
]  # fmt: skip

LAW = {
    CONTRADICTED: "grows as depth to the power {}, not 3/5",
    HOLDS: "grows as the power 3/5 of depth{}",
    UNDECIDED: "grows at an undecided rate{}",
}
AS_IN_TABLES = ", as in the tables; "
WHY_NOT = {  # the first that is not met
    WHOLE.text: "training was cut short",
    RIGHT.text: "our accuracy is too low",
    STEADY.text: "its slope depends on peaks in the first layer",
    EACH.text: "its slope depends on inaccurate networks",
}


def finding(table, parameters, claims):
    """How the layer of largest alignment grows with depth, and where this is not judged."""
    found = replicates(claims, "slope")
    if not found:
        return "Too few networks learned for a slope."
    if not (law := clauses(claims, "slope", LAW, where)):
        return fitting(unjudged(found).replace("(", "(slope ", 1), unjudged(found, False))
    said = f"The layer that aligns most {law.replace('; ', '; it ')}"
    judged = [claim for outcome in LAW for claim in found.get(outcome, ())]
    bare, said = said, f"{said}{width_of(judged, parameters)}"
    more, short = unjudged(found), unjudged(found, False)
    theory = in_theory(table, parameters, [claim.id.removeprefix("slope-") for claim in judged])
    brief = said.replace(AS_IN_TABLES, " of the tables; ")
    told = ((joined(said, theory), more), (joined(said, theory), short), (joined(brief, theory), short))
    told += ((said, short), (bare, short))
    return fitting(*(f"{text}. {rest}".rstrip() for text, rest in told))


def width_of(judged, parameters):
    """`` (width 100, as in the tables; the text has 256)``, and of which data sets if not of all.

    Of CIFAR-10, and of the text's width, nothing.
    """
    width, other = parameters["width"], [claim for claim in judged if "cifar10" not in claim.id]
    if width == TEXT_WIDTH or not other:
        return ""
    which = f"{listed(claim.case for claim in other)}: " * (len(other) < len(judged))
    printed = AS_IN_TABLES if width == TABLE_WIDTH else ", where "
    return f" ({which}width {width}{printed}the text has {TEXT_WIDTH})"


def unjudged(found, slopes=True):
    """``MNIST (1.5) is not judged, as …, nor is CIFAR-10 (0.5), as ….``; "" where all are judged.

    slopes : whether the mean slopes are given, which are measured all the same
    """
    names = {}
    for claim in found.get(NOT_JUDGED, ()):
        case = f"{claim.case} ({claim.measured:.1f})" if slopes else claim.case
        names.setdefault(first_unmet(claim, WHY_NOT), []).append(case)
    parts = []
    for why, some in names.items():
        verb, why = (
            ("is", why) if len(some) == 1 else ("are", why.replace("its slope depends", "slopes depend"))
        )
        parts.append(f"nor {verb} {listed(some)}" if parts else f"{listed(some)} {verb} not judged")
        parts[-1] += f", as {why}"
    return f"{', '.join(parts)}." if parts else ""


def in_theory(table, parameters, datasets):
    """``exact theory, one constant fitted, gives 0.7 to 1.0``: over data sets and statistics.

    "" where one has no slope: images that are cropped at random have no exact theory here.
    """
    exact = [theory_slope(table, parameters, d, name) for d in datasets for name in STATISTICS]
    if not exact or not all(map(math.isfinite, exact)):
        return ""
    low, high = (f"{end:.1f}" for end in (min(exact), max(exact)))
    return f"exact theory, one constant fitted, gives {low}" + f" to {high}" * (low != high)


def where(claims, total):
    """Which data sets, with the mean slope of each where the law is contradicted, ``1.5 on MNIST``.

    Where it is undecided, with the ends of its interval, `` on MNIST (0.41 to 1.23)``.
    """
    if claims[0].outcome == UNDECIDED:
        ends = [" ({:.2f} to {:.2f})".format(*claim.interval) if claim.interval else "" for claim in claims]
        return f" on {listed(claim.case + of for claim, of in zip(claims, ends, strict=True))}"
    if claims[0].outcome != CONTRADICTED:
        return named(claims)
    slopes = {}
    for claim in claims:
        slopes.setdefault(f"{claim.measured:.1f}", []).append(claim)
    return listed([f"{slope}{named(some)}" for slope, some in slopes.items()])


def key_numbers(table, parameters):
    """The slopes over depth, with what exact theory gives for the same images and depths.

    Of CIFAR-10 that with crops and flips, where it has one.
    """
    told = {}
    for case in with_crops(parameters):
        if len(found := slopes(table, parameters, **case.given)):
            both = ("mean", "supremum")
            exact = [theory_slope(table, parameters, statistic=name, **case.given) for name in both]
            exactly = "exact theory, mean over pairs: {:.2f}, supremum: {:.2f}; ".format(*exact)
            exactly *= all(map(math.isfinite, exact))
            what = f"slope over depth, {case.words} ({exactly}limit: {PAPER_SLOPE:g})"
            told[case.given["dataset"]] = KeyNumber(what, interval(found))
    return list(told.values())[:3]
