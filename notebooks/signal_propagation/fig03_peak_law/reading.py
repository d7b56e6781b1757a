"""Which layer aligns most over depth, beside L^(3/5) and the exact equilibrium layer (Figures 3, 8)."""

import math

import numpy as np
import pandas as pd
from scipy.interpolate import PchipInterpolator
from scipy.optimize import minimize_scalar

from alignbook.claims import CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import at, curves, difference, slope
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import clauses, listed, named, replicates

from ..names import LEARNED, called
from .design import PAPER_TABLES, SETTINGS

PAPER_SLOPE = 3 / 5  # Corollary 1; the text prints no slope that was fitted to the networks
STATISTICS = {"mean": "mean over pairs", "99": "all but the closest 1 % of pairs"}  # of which losses
_OF_TABLE = {"mean": "mean", "99": "99 %"}

# Fixed before any result was seen.
SLOPE_MARGIN = 0.2
ACCURACY_MARGIN = 0.02
MIN_DEPTHS = 3  # fewer depths with a network that learned: no slope
BOOTSTRAP = 2000
KEYS = ["dataset", "setting", "depth", "seed", "joined"]
PEAKS = {"peak": "alignment", "peak_half": "alignment_half", "peak_init": "alignment_init"}
REACHED = ["test_accuracy", "train_loss"]


def losses_of_pairs(table, dataset, statistic):
    """The rows of :func:`compute_pairs` of one data set and statistic, by depth and layer, each once."""
    if "statistic" not in table:
        return pd.DataFrame(columns=["depth", "layer", "forward", "backward"])
    rows = table[(table["dataset"] == dataset) & (table["statistic"] == statistic)]
    return rows.drop_duplicates(["depth", "layer"]).sort_values(["depth", "layer"])


def equilibrium(losses, kappa):
    """Series over depth: the layer at which forward = κ backward; NaN where there is none.

    losses : as :func:`losses_of_pairs`; kappa : float > 0, which the hypothesis leaves open. Between layers:
    monotone cubic interpolation in log l, as for Corollary 1.
    """
    return pd.Series(
        {d: float(np.exp(log_layer(-np.log(kappa)))) for d, log_layer in _log_layers(losses).items()}
    )


def fitted_kappa(losses, depth, peak):
    """κ for which log ``equilibrium`` is nearest to log peak in least squares, as C of Figure 3 is fitted.

    depth, peak : (m,), of networks at depths that ``losses`` have. κ is sought where all these depths have an
    equilibrium layer; NaN where there is no such κ.
    """
    log_layers, logs = _log_layers(losses), np.log(np.asarray(peak, dtype=float))
    found = [log_layers[d] for d in depth]
    low, high = max(f.x[0] for f in found), min(f.x[-1] for f in found)
    if low >= high:
        return float("nan")

    def missed(level):
        return sum((float(f(level)) - log) ** 2 for f, log in zip(found, logs, strict=True))

    return float(np.exp(-minimize_scalar(missed, bounds=(low, high), method="bounded").x))


def _log_layers(losses):
    """{depth: log l as a function of log(backward / forward)}."""
    return {
        int(depth): PchipInterpolator(
            np.log(rows["backward"]) - np.log(rows["forward"]), np.log(rows["layer"]), extrapolate=False
        )
        for depth, rows in losses.groupby("depth")
    }


def networks(table):
    """One row per network.

    Columns dataset, setting, depth, seed, test_accuracy, train_loss;
    joined : from profile paper, beside the networks that the parameters ask for.
    peak, peak_half, peak_init : the layer (from 1) with the largest alignment, the first of equal ones: after
    training, on half of the images, and before training. Layers whose kernel is constant (nan) cannot be it;
    a network with no other layer has none and counts as not learned.
    learned : test accuracy of at least ``LEARNED`` and a peak.
    """
    if "setting" not in table:  # all networks may have diverged
        table = pd.DataFrame(columns=[*KEYS, "layer", *PEAKS.values(), *REACHED])
    if "joined" not in table:
        table = table.assign(joined=False)
    rows = table.sort_values("layer", ignore_index=True)
    nets = rows.groupby(KEYS)[REACHED].first()
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
    here = nets[(nets["dataset"] == dataset) & nets["setting"].isin(settings)]
    joined = here[here["joined"]]
    wanted = {(setting, depth) for setting in settings for depth in depths}
    whole = [
        seed
        for seed, rows in joined.groupby("seed")
        if wanted <= set(zip(rows["setting"], rows["depth"], strict=True))
    ]
    if whole:
        return joined[joined["seed"].isin(whole)]
    return here[~here["joined"] & here["depth"].isin(depths)]


def free_fit(depth, peak):
    """(slope, intercept) of the least-squares line log(peak) over log(depth), one point per network."""
    slope, intercept = np.polyfit(np.log(depth), np.log(peak), 1)
    return float(slope), float(intercept)


def fixed_fit(depth, peak, slope=PAPER_SLOPE):
    """C of the least-squares line log(peak) = slope log(depth) + C."""
    return float(np.mean(np.log(peak) - slope * np.log(depth)))


def slope_interval(learned):
    """95 % bootstrap interval of the free slope over networks, at fixed depths: depths are design.

    learned : columns depth and peak. Each draw takes as many networks of every depth as there are, with
    replacement; percentiles. None below ``MIN_DEPTHS`` depths, and where every depth has one network.
    """
    groups = [np.log(rows["peak"].to_numpy()) for _, rows in learned.groupby("depth")]
    if len(groups) < MIN_DEPTHS or max(map(len, groups)) < 2:
        return None
    rng = np.random.default_rng(0)
    drawn = np.concatenate([rng.choice(logs, (BOOTSTRAP, len(logs))) for logs in groups], axis=1)
    x = np.log(np.repeat(sorted(set(learned["depth"])), list(map(len, groups))))
    x = x - x.mean()
    low, high = np.percentile(drawn @ x / (x @ x), [2.5, 97.5])
    return float(low), float(high)


def shifts(nets, setting):
    """Series over seeds: log(peak in ``setting`` / peak in "tables"), averaged over depths.

    nets : networks of one data set. Only depths at which both networks of a seed learned enter.
    """
    learned = nets[nets["learned"]]
    logs = np.log(learned.set_index(["setting", "depth", "seed"])["peak"])
    present = logs.index.get_level_values("setting")
    if setting not in present or "tables" not in present:
        return pd.Series(dtype=float)
    return (logs[setting] - logs["tables"]).dropna().groupby("seed").mean()


def judged_networks(table, parameters, dataset):
    """The networks of one data set that learned, of those that are shown."""
    return at(shown(networks(table), dataset, parameters["depths"]), learned=True)


def logs(learned):
    """(seeds × log depth) frame of log peak; seeds with fewer than ``MIN_DEPTHS`` depths are left out."""
    frame = np.log(curves(learned, "depth", "peak"))
    return frame.set_axis(np.log(frame.columns.astype(float)), axis=1).dropna(thresh=MIN_DEPTHS)


def slopes(table, parameters, dataset):
    """Slope of log peak over log depth, by seed."""
    return slope(logs(judged_networks(table, parameters, dataset)))


def equilibrium_of(table, parameters, dataset, statistic):
    """(κ, Series over depth: equilibrium layer) of the data's own pairs, κ fitted to all that learned.

    The layers are empty where the pairs were not evaluated at the depths of these networks.
    """
    learned = judged_networks(table, parameters, dataset)
    losses = losses_of_pairs(table, dataset, _OF_TABLE.get(statistic, statistic))
    known = learned[learned["depth"].isin(losses["depth"])]
    if known["depth"].nunique() < MIN_DEPTHS:
        return math.nan, pd.Series(dtype=float)
    kappa = fitted_kappa(losses, known["depth"], known["peak"])
    found = equilibrium(losses, kappa)
    return kappa, found[found.index.isin(known["depth"])].dropna()


def theory_slope(layers):
    """Least-squares slope of log equilibrium layer over log depth; NaN of fewer than two depths."""
    return free_fit(layers.index.to_numpy(float), layers)[0] if len(layers) > 1 else math.nan


def beside(table, parameters, dataset, statistic):
    """(seeds × log depth) frames of log peak: less the log equilibrium layer, less the line of slope 3/5."""
    frame = logs(judged_networks(table, parameters, dataset))
    _, layers = equilibrium_of(table, parameters, dataset, statistic)
    if layers.empty:
        return pd.DataFrame(), pd.DataFrame()
    theory = pd.Series(np.log(layers.to_numpy()), np.log(layers.index.to_numpy(float)))
    frame = frame[theory.index]
    line = PAPER_SLOPE * frame.columns.to_numpy()
    flat = frame - line
    return frame - theory, flat - flat.stack().mean()


def drift(table, parameters, dataset, statistic):
    """Slope over depth of log peak less the equilibrium layer's, by seed: 0 where peaks follow it."""
    return slope(beside(table, parameters, dataset, statistic)[0])


def nearer(table, parameters, dataset, statistic):
    """How much nearer peaks lie to the equilibrium layer than to the line (rms of log l), by seed."""
    theory, line = (np.sqrt(np.square(f).mean(axis=1)) for f in beside(table, parameters, dataset, statistic))
    return difference(line, theory)


def hidden(table, parameters, dataset):
    """Share of the networks that learned whose peak is in no end layer, by seed."""
    nets = judged_networks(table, parameters, dataset)
    return ((nets["peak"] > 1) & (nets["peak"] < nets["depth"])).groupby(nets["seed"]).mean()


def printed_less(table, parameters, dataset):
    """Printed test accuracy less ours, means over the depths, by seed; a seed that lacks a depth is out."""
    here = shown(networks(table), dataset, parameters["depths"])
    frame = curves(at(here, depth=list(PAPER_TABLES[dataset])), "depth", "test_accuracy")
    printed = pd.Series({depth: PAPER_TABLES[dataset][depth][2] for depth in frame}, dtype=float)
    return (printed - frame).mean(axis=1, skipna=False).dropna() if len(frame) else frame


def shortfall(table, parameters, dataset, **_):
    """By how much the networks that learned miss the printed test accuracy, mean over networks."""
    learned, printed = judged_networks(table, parameters, dataset), PAPER_TABLES.get(dataset, {})
    return (
        learned["depth"].map({depth: row[2] for depth, row in printed.items()}) - learned["test_accuracy"]
    ).mean()


def varied(table, parameters):
    """The networks of Figure 8, those of all its settings at one size."""
    p = parameters
    return shown(networks(table), p["variation_dataset"], p["variation_depths"], tuple(SETTINGS))


def full_size(table, parameters, dataset=None, **_):
    """1 where the networks were trained on all images for all epochs of the tables, 0 where cut short."""
    p = parameters
    here = shown(networks(table), dataset, p["depths"]) if dataset else varied(table, p)
    whole = p["epochs_factor"] == 1 and p["train_images"] == 0
    return float(whole or bool(here["joined"].any()))


def data_sets(parameters):
    return [Case(d, called(d), {"dataset": d}) for d in parameters["datasets"]]


def printed_cases(parameters):
    return [case for case in data_sets(parameters) if case.id in PAPER_TABLES]


def statistic_cases(parameters):
    return [
        Case(f"{d}-{name}", f"{called(d)}, {words}", {"dataset": d, "statistic": name})
        for d in parameters["datasets"] for name, words in STATISTICS.items()
    ]  # fmt: skip


def settings_cases(parameters):
    low = Case("low-rate", "a learning rate four times lower", {"setting": "low rate"})
    return [low, Case("large-batch", "a batch four times larger", {"setting": "large batch"})]


WHOLE = Requirement("trained as long as in the tables (1) or cut short (0)", full_size, at_least=1)
RIGHT = Requirement("missing to the printed test accuracy", shortfall, at_most=ACCURACY_MARGIN)
OF_LOG = {"above": 0, "matters": 0.1, "unit": "of log l", "because": "a tenth of the layer's index"}
STATEMENTS = [
    Statement(
        "slope", "The layer of largest alignment grows with depth as L to the power 3/5.",
        source="Figure 3; Corollary 1 as used there", of=slopes, near=PAPER_SLOPE, within=SLOPE_MARGIN,
        each=data_sets, requires=(WHOLE, RIGHT), headline=True,
    ),
    Statement(
        "equilibrium", "Over depth the layer of largest alignment moves as the equilibrium layer of the "
        "data's own pairs of images does.", source="Section 3.3, Equilibrium Hypothesis", unit="of the slope",
        of=drift, near=0.0, within=SLOPE_MARGIN, each=statistic_cases, requires=(WHOLE, RIGHT), ours=True,
        post_hoc="the peaks were known when the pairs were first evaluated; the margin is that of the slope, "
        "which was fixed before any result",
    ),
    Statement(
        "nearer", "The peaks lie nearer to that equilibrium layer than to a line of slope 3/5.",
        source="Section 3.3 against Corollary 1", of=nearer, each=statistic_cases,
        requires=(WHOLE, RIGHT), ours=True, **OF_LOG,
        post_hoc="planned before the pairs were stored, when the peaks were known",
    ),
    Statement(
        "hidden-peak", "In most trained networks the alignment peaks between the first and the last layer.",
        source="Sections 1 and 2.3", of=hidden, above=0.5, matters=0.1, unit="of the networks",
        because="one network of ten", each=data_sets, bounds=(0, 1), requires=(WHOLE,),
    ),
    Statement(
        "accuracy", "One run of ours could have given the printed test accuracies (printed less ours, means "
        "over the depths).", source="Tables 1 to 3", of=printed_less, one_run=0.0, within=ACCURACY_MARGIN,
        each=printed_cases, requires=(WHOLE,),
    ),
    Statement(
        "shift", "Training that moves less in each epoch moves the peak towards the last layer.",
        source="Figure 8", of=lambda t, p, setting: shifts(varied(t, p), setting), each=settings_cases,
        requires=(WHOLE,), **OF_LOG,
        opposed_by="Section 4, of Figure 4: smaller batches and larger rates move the peak towards the "
        "centre, which of an early peak is the other way",
    ),
]  # fmt: skip

LAYER = "the layer that aligns most"
LAW = {
    CONTRADICTED: f"{LAYER} grows not as the power 3/5 of depth but as the power {{}}",
    HOLDS: f"{LAYER} grows as the power 3/5 of depth{{}}",
    UNDECIDED: f"whether {LAYER} grows as the power 3/5 of depth is undecided{{}}",
}
FOLLOWS = {
    HOLDS: "our peaks follow it on {}",
    CONTRADICTED: "our peaks do not follow it on {}",
    UNDECIDED: "on {} that is undecided",
}


def finding(table, parameters, claims):
    """What the peaks do over depth, what exact theory gives there, and whether they follow it."""
    found, said = replicates(claims, "slope"), []
    if not found:
        return "Too few networks learned for a slope."
    if law := clauses(claims, "slope", LAW, where):
        said.append(f"{law[0].upper()}{law[1:]}.")
    theory = [equilibrium_of(table, parameters, d, "mean")[1] for d in parameters["datasets"]]
    if exact := [theory_slope(layers) for layers in theory if len(layers) > 1]:
        gives = [f"In exact theory the power is at most {max(exact):.1f} here"]
        said.append("; ".join(gives + followed(claims, parameters)) + ".")
    if unjudged := found.get(NOT_JUDGED):
        said.insert(len(said) if law else 0, f"Growth{named(unjudged)} is not judged: {why(unjudged[0])}.")
    return " ".join(said)


def where(claims, total):
    """Which data sets, and of a law that is contradicted the mean slope."""
    contradicted = claims[0].outcome == CONTRADICTED
    return (f"{np.mean([claim.measured for claim in claims]):.1f}" if contradicted else "") + named(claims)


def why(claim):
    """The first requirement that is not met, in words."""
    unmet = {need["text"] for need in claim.requires if not need["met"]}
    return "training was cut short" if WHOLE.text in unmet else "our accuracy is too low"


def followed(claims, parameters):
    """Whether peaks follow the equilibrium layer, a clause a verdict; undecided where statistics disagree."""
    found = {}
    for dataset in parameters["datasets"]:
        outcomes = {claims[f"equilibrium-{dataset}-{name}"].outcome for name in STATISTICS}
        found.setdefault(outcomes.pop() if len(outcomes) == 1 else UNDECIDED, []).append(called(dataset))
    return [words.format(listed(found[outcome])) for outcome, words in FOLLOWS.items() if outcome in found]


def key_numbers(table, parameters):
    """The slopes over depth, with what exact theory gives for the same images and depths."""
    result = []
    for dataset in parameters["datasets"][:3]:
        found = slopes(table, parameters, dataset)
        if len(found):
            exact = theory_slope(equilibrium_of(table, parameters, dataset, "mean")[1])
            exactly = f"exact theory: {exact:.2f}; " if math.isfinite(exact) else ""
            what = f"slope over depth, {called(dataset)} ({exactly}limit: {PAPER_SLOPE:g})"
            result.append(KeyNumber(what, interval(found)))
    return result
