"""What the probe's report says: about each instrument, and one sentence beside its floor."""

import numpy as np
import pandas as pd

FRESH = "initialisation"
SPOKEN = {FRESH: "random weights"}
# instrument: (heading, paper, page of the book, what the number is and how to read it)
ABOUT = {
    "features": (
        "Features and targets",
        "Imani et al. 2022",
        "representation_alignment/fig10_peaks_alignment",
        "How much of the targets lies along the top singular vectors of what each layer reads. Features "
        "whose curve rises early let a linear model learn these targets fast; it ends where they have no "
        "further directions. A layer at chance, the mean over all orders of the targets, knows nothing of "
        "them.",
    ),
    "tangent": (
        "Tangent kernels and targets, layer by layer",
        "Lou et al. 2022",
        "signal_propagation/fig03_peak_law",
        "Aₗ says how much of what a step on layer l's weights does to the outputs moves them towards the "
        "targets: 0 if nothing, 1 if all; a few hundredths are usual for ten classes. The paper finds that "
        "in deep networks Aₗ peaks in a hidden layer, which moves with depth. Dotted: with shuffled targets.",
    ),
    "curvature": (
        "Curvature of the loss",
        "ICLR 2020 submission on transferability",
        "transferability/fig03_flat_minima",
        "The Hessian's eigenvalues of largest magnitude, and its trace with a 95 % interval: how sharp the "
        "place is. There is no absolute scale, and random weights can be very flat or very steep: compare "
        "networks with the same loss, data and examples. A true eigenvalue lies within the residual.",
    ),
    "slice": (
        "The loss around the network",
        "ICLR 2020 submission on transferability",
        "transferability/fig05_landscapes_at_initialisation",
        "The loss along one random direction in which every filter is as long as the network's own. It "
        "hardly changes where the place is flat; where it falls on one side and rises on the other the "
        "network is on a slope. Random weights can look flat, too: they guess, whichever way one goes.",
    ),
    "deviation": (
        "How far the weights have moved",
        "ICLR 2020 submission on transferability",
        "transferability/tab01_weight_deviation",
        "The Frobenius norm of each layer's change since the network before. Two independent random layers "
        "of one scale differ by 1.4 of their norm, the dotted line.",
    ),
    "filters": (
        "First-layer filters and image patches",
        "Maennel et al. 2020",
        "random_labels/fig02_misalignment",
        "The paper says that training aligns the covariance of the first layer's filters with that of the "
        "image patches: the same eigenvectors, and along each a standard deviation τ = f(σ) of the patches' "
        "σ. Misalignment is 0 where the two share all eigenvectors. Sampling alone is what as many Gaussian "
        "filters have whose covariance is aligned, random bases what no alignment would give: where these "
        "two are about as large, misalignment says little.",
    ),
}


def digits(value: float) -> str:
    """Three significant digits, or all of a number from a thousand to a million."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


def parts(rows: pd.DataFrame) -> list:
    """[(network, its rows)] in the order of the table; the network at random weights comes last."""
    if "network" not in rows:
        return [("network", rows)]
    return sorted(rows.groupby("network", sort=False), key=lambda part: part[0] == FRESH)


def sentences(name: str, rows: pd.DataFrame) -> list[tuple[str, str]]:
    """[(network, what holds for it)] of an instrument's table."""
    pairs = [(SPOKEN.get(who, str(who)), SENTENCES[name](part)) for who, part in parts(rows)]
    return [(who, sentence) for who, sentence in pairs if sentence]


def _percent(share):
    return f"{100 * share:.0f}\u00a0%"


def _whose(row):
    """A weight's name: its layer's, or its own where it is no layer's alone."""
    parameter = row.get("parameter", "weight")
    if row["layer"] == "(network)" and parameter != "weight":
        return parameter
    return row["layer"] if parameter in ("weight", "") else f"{row['layer']}.{parameter}"


def _filters(rows):
    first = rows.iloc[0]
    if not np.isfinite(first["misalignment"]):
        return f"{first['filters']} filters of {first['dimension']} entries are too few for a misalignment"
    return (
        f"misalignment {first['misalignment']:.3g}, with random bases {first['random_bases']:.3g}, "
        f"by sampling alone {first['floor']:.3g}"
    )


def _features(rows):
    top = rows[rows["k"] <= 10].groupby("layer", sort=False).tail(1).set_index("layer")  # or all there are
    share, best = top["share"], top.loc[(top["share"] - top["chance"]).idxmax()]
    few = f" on all {top['k'].iloc[-1]}" if top["k"].iloc[-1] < 10 else ""
    return (
        f"{_percent(share.iloc[0])} of the targets on the top 10 singular vectors at {top.index[0]}, "
        f"{_percent(share.iloc[-1])}{few} at {top.index[-1]}, furthest above chance at {best.name} "
        f"({_percent(best['share'])}, where chance is {_percent(best['chance'])})"
    )


def _tangent(rows):
    if not rows["alignment"].notna().any():
        return ""
    place = int(rows["alignment"].reset_index(drop=True).idxmax())
    top = rows.iloc[place]
    return (
        f"largest in {_whose(top)}, layer {place + 1} of {len(rows)} ({top['alignment']:.3g}, with shuffled "
        f"targets {top['chance']:.3g})"
    )


def _curvature(rows):
    first = rows.iloc[0]
    trace, low, high = (digits(first[name]) for name in ("trace", "trace_low", "trace_high"))
    largest = digits(first["eigenvalue"])
    return f"the eigenvalue of largest magnitude is {largest}, the trace {trace} ({low} to {high})"


def _slice(rows):
    low, high = (rows["loss"].iloc[end] - rows["loss"].iloc[len(rows) // 2] for end in (0, -1))
    signed = [("+" if change > 0 else "") + digits(change) for change in (low, high)]
    away = f"{rows['alpha'].max():g} of each filter's length away"
    return f"{away} the loss differs by {signed[0]} and {signed[1]}, {digits((low + high) / 2)} on average"


def _deviation(rows):
    far = rows.loc[rows["deviation"].idxmax()]
    moved = f"in length, in {_whose(far)} ({far['deviation']:.3g})"
    relative = rows["relative"].where(np.isfinite(rows["relative"]))  # infinite from weights of 0
    if relative.notna().any():
        most = rows.loc[relative.idxmax()]
        moved = f"relative to its norm, in {_whose(most)} ({_percent(most['relative'])}); {moved}"
    return f"farthest {moved}"


SENTENCES = {
    "filters": _filters,
    "features": _features,
    "tangent": _tangent,
    "curvature": _curvature,
    "slice": _slice,
    "deviation": _deviation,
}
