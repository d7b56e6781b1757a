"""What the probe's report says: about each instrument, and one sentence beside its floor."""

import numpy as np
import pandas as pd

FRESH = "initialisation"
SPOKEN = {FRESH: "random weights"}
# instrument: (heading, paper, page of the book, what is measured, how to read the number)
ABOUT = {
    "features": (
        "Features and labels",
        "Imani et al. 2022",
        "representation_alignment/fig10_peaks_alignment",
        "How much of the labels lies along the top singular vectors of what each layer reads.",
        "A curve that rises early belongs to features on which a linear model learns these labels fast. "
        "Chance is the mean over all orders of the labels: a layer at chance knows nothing of them. At "
        "the same k it is about k over the number of examples for every layer.",
    ),
    "tangent": (
        "Tangent kernels and labels, layer by layer",
        "Lou et al. 2022",
        "signal_propagation/fig03_peak_law",
        "Aₗ says how much of what a step on layer l's weights does to the outputs moves them towards the "
        "labels: 0 if nothing, 1 if all. A few hundredths are usual for ten classes.",
        "Chance is the same with shuffled labels. The paper finds that in deep networks Aₗ peaks in a "
        "hidden layer, which moves with depth.",
    ),
    "curvature": (
        "Curvature of the loss",
        "ICLR 2020 submission on transferability",
        "transferability/fig03_flat_minima",
        "The Hessian's eigenvalues of largest magnitude, and its trace: how sharp the place is at which "
        "training ended.",
        "The residual bounds how far the nearest true eigenvalue is; the trace has a 95 % interval over "
        "random vectors. There is no absolute scale: random weights can be very flat or very steep. Compare "
        "networks with the same loss, data and examples, or this one with itself at an earlier time.",
    ),
    "slice": (
        "The loss around the network",
        "ICLR 2020 submission on transferability",
        "transferability/fig05_landscapes_at_initialisation",
        "The loss along one random direction in which every filter is as long as the network's own: 0.1 "
        "moves each filter by a tenth of its length.",
        "A loss that hardly changes belongs to a flat place; one that falls on one side and rises on the "
        "other is on a slope, not in a minimum. Random weights can look flat, too: they guess, whichever way "
        "one goes.",
    ),
    "deviation": (
        "How far the weights have moved",
        "ICLR 2020 submission on transferability",
        "transferability/tab01_weight_deviation",
        "The Frobenius norm of each layer's change since the network before, alone and as a share of the "
        "norm before.",
        "0 means that a layer has not moved. Two independent random layers of one scale differ by 1.4 "
        "of their norm.",
    ),
    "filters": (
        "First-layer filters and image patches",
        "Maennel et al. 2020",
        "random_labels/fig02_misalignment",
        "The paper says that training aligns the covariance of the first layer's filters with that of the "
        "image patches: the same eigenvectors, and along each a standard deviation τ = f(σ) of the patches' "
        "σ.",
        "Misalignment is 0 where the two share all eigenvectors. Sampling alone is what as many "
        "Gaussian filters have whose covariance is aligned; trained filters are not Gaussian and can lie "
        "below it. Random bases show what no alignment would give. Where these two are about as large, as "
        "with few more filters than entries of a patch, misalignment says little.",
    ),
}
# What each instrument's figure shows.
SHOWS = {
    "filters": "Standard deviation τ of the filters against that of the patches, σ, along each eigenvector "
    "of the patches' covariance.",
    "features": "Share of the labels that lies along the first k singular vectors, for at most six of the "
    "layers, from the input (light) to the outputs (dark). A curve ends where its layer has no further "
    "directions.",
    "tangent": "Alignment of each layer's tangent kernel with the labels, in the network's own order; "
    "dotted, in the same colour: with shuffled labels.",
    "curvature": "The Hessian's eigenvalues by magnitude; bars are their residuals.",
    "slice": "The loss along one random direction, less the loss of the network itself, in the middle; on at "
    "most 256 of the examples.",
    "deviation": "Length of each weight's change as a share of its length before, in the network's own "
    "order; dotted: two independent random layers of one scale.",
}


def digits(value: float) -> str:
    """Three significant digits, or all of a number from a thousand to a million."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


def parts(rows: pd.DataFrame) -> list:
    """[(network, its rows)] in the order of the table; the network at random weights comes last."""
    if "network" not in rows:
        return [(None, rows)]
    every = list(rows.groupby("network", sort=False))
    return sorted(every, key=lambda part: part[0] == FRESH)


def sentences(name: str, rows: pd.DataFrame, some: bool = False) -> list[tuple[str, str]]:
    """[(networks, what holds for them)] of an instrument's table; one entry without a name for all alike.

    some : whether only some of the layers were measured.
    """
    networks = {}
    for who, part in parts(rows):
        if sentence := SENTENCES[name](part, some):
            networks.setdefault(sentence, []).append(
                "the network" if who == "network" else SPOKEN.get(who, str(who))
            )
    if len(networks) == 1:
        return [("", next(iter(networks)))]
    return [(" and ".join(names), sentence) for sentence, names in networks.items()]


def _percent(share):
    return f"{100 * share:.0f}\u00a0%"


def _whose(row):
    """A weight's name: its layer's, or its own where it is no layer's alone."""
    parameter = row.get("parameter", "weight")
    if row["layer"] == "(network)" and parameter != "weight":
        return parameter
    return row["layer"] if parameter in ("weight", "") else f"{row['layer']}.{parameter}"


def _filters(rows, some):
    first = rows.iloc[0]
    if not np.isfinite(first["misalignment"]):
        count = f"{first['filters']} filters of {first['dimension']} entries"
        return f"{count} are too few for a misalignment"
    return (
        f"misalignment {first['misalignment']:.3g}, with random bases {first['random_bases']:.3g}, "
        f"by sampling alone {first['floor']:.3g}"
    )


def _features(rows, some):
    top = rows[rows["k"] <= 10].groupby("layer", sort=False).tail(1).set_index("layer")  # or all there are
    share = top["share"]
    above = share - top["chance"] if "chance" in top else share
    best = top.loc[above.idxmax()]
    chance = f", where chance is {_percent(best['chance'])}" if "chance" in top else ""
    most = f"furthest above chance at {best.name} ({_percent(best['share'])}{chance})"
    first, last = top.index[[0, -1]] if some else ("the input", "the output")
    few = f" on all {top['k'].iloc[-1]}" if top["k"].iloc[-1] < 10 else ""
    return (
        f"{_percent(share.iloc[0])} of the labels on the top 10 singular vectors at {first}, "
        f"{_percent(share.iloc[-1])}{few} at {last}, {most}"
    )


def _tangent(rows, some):
    if not rows["alignment"].notna().any():
        return ""
    place = int(rows["alignment"].reset_index(drop=True).idxmax())
    top = rows.iloc[place]
    chance = f", with shuffled labels {top['chance']:.3g}" if "chance" in rows else ""
    where = f"{place + 1} of the {len(rows)} asked for" if some else f"layer {place + 1} of {len(rows)}"
    return f"largest in {_whose(top)}, {where} ({top['alignment']:.3g}{chance})"


def _curvature(rows, some):
    first = rows.iloc[0]
    largest = f"the eigenvalue of largest magnitude is {digits(first['eigenvalue'])}"
    if "trace" not in rows:
        return largest
    trace, low, high = (digits(first[name]) for name in ("trace", "trace_low", "trace_high"))
    return f"{largest}, the trace {trace} ({low} to {high})"


def _slice(rows, some):
    low, high = (rows["loss"].iloc[end] - rows["loss"].iloc[len(rows) // 2] for end in (0, -1))
    signed = [("+" if change > 0 else "") + digits(change) for change in (low, high)]
    away = f"{rows['alpha'].max():g} of each filter's length away"
    mean = digits((low + high) / 2)
    return f"{away} the loss differs by {signed[0]} and {signed[1]}, {mean} on average"


def _deviation(rows, some):
    sentences = []
    for since, part in rows.groupby("since", sort=False) if "since" in rows else [(None, rows)]:
        whose = f"since {since} " if since not in (None, "before") else ""
        far = part.iloc[int(part["deviation"].to_numpy().argmax())]
        moved = f"in length, in {_whose(far)} ({far['deviation']:.3g})"
        relative = part["relative"].where(np.isfinite(part["relative"]))  # infinite from weights of 0
        if relative.notna().any():
            most = part.loc[relative.idxmax()]
            moved = f"relative to its norm, in {_whose(most)} ({_percent(most['relative'])}); {moved}"
        sentences.append(f"{whose}farthest {moved}")
    return "; ".join(sentences)


SENTENCES = {
    "filters": _filters,
    "features": _features,
    "tangent": _tangent,
    "curvature": _curvature,
    "slice": _slice,
    "deviation": _deviation,
}
