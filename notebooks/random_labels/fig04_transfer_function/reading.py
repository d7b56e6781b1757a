"""Whether training makes the transfer function f(σ) rise and then fall (Figure 4)."""

import numpy as np
import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import at, curves
from alignbook.statements import Case, Requirement, Statement

from .. import transfer_curves
from ..filter_runs import complete, figure_rows
from ..transfer_curves import FALL, RISE, change, networks

SOURCE = "Figure 4, Section 2.3"
ONLY_RISES = {"dimension": 30, "gaussian_hidden": 256, "inputs": 2000}  # Figure 20, right (E.1)
FEWEST_STEPS = 5 * 195  # caption: the first curve drawn is after 5 epochs of about 195 steps


def pooled(rows):
    """f(σ) of the covariance of all networks' filters together (Section 2.3), from "gaussian" rows.

    Returns a table with ``sigma``, ``tau`` and ``low``, ``high``: mean ± one standard deviation of τ
    over the networks.
    """
    result = []
    for _, group in rows.groupby("index"):
        square = (group["tau"] ** 2 + group["mean"] ** 2).mean() - group["mean"].mean() ** 2
        spread = group["tau"].std(ddof=1) if len(group) > 1 else 0.0
        centre = group["tau"].mean()
        sigma = group["sigma"].iloc[0]
        result.append({"sigma": sigma, "tau": square**0.5, "low": centre - spread, "high": centre + spread})
    return pd.DataFrame(result)


def gaussian_rows(table, inputs=None):
    """Rows of the networks on Gaussian inputs, with this number of inputs or any."""
    return at(complete(table), kind="gaussian", **({} if inputs is None else {"inputs": inputs}))


def grown(rows):
    """τ at the last recorded epoch over τ at the first: (seeds × directions) frame, σ ascending."""
    last, first = (at(rows, epoch=epoch) for epoch in (rows["epoch"].max(), rows["epoch"].min()))
    return curves(last, "index", "tau") / curves(first, "index", "tau")


def growth(table, inputs=None, labels=None):
    """Growth of τ by training, a frame: of the networks with ``inputs``, or of the runs with ``labels``."""
    if labels is not None:
        return grown(figure_rows(table, labels, "transfer"))
    return transfer_curves.growth(networks(gaussian_rows(table, inputs)))


def changed(table, parameters, end, **which):
    """How far the growth rises (``RISE``) or falls (``FALL``), by seed or, with Gaussian inputs, network."""
    return change(growth(table, **which), end)


def steps(table, parameters, **given):
    """Steps of training on images."""
    return parameters["epochs"] * (parameters["images"] // parameters["batch_size"])


def learned(table, parameters, inputs, **given):
    """Share of the networks on Gaussian inputs that reached the goal."""
    return gaussian_rows(table, inputs).groupby("network")["converged"].first().mean()


def may_fall(table, parameters, inputs, **given):
    """1, or 0 for the network of Figure 20 (right), whose curve only rises."""
    asked = {"dimension": parameters["dimension"], "gaussian_hidden": parameters["gaussian_hidden"]}
    return float(asked | {"inputs": inputs} != ONLY_RISES)


def on_images(end):
    """The panels with images, random labels first."""

    def cases(parameters):
        name = parameters["dataset"]
        return [
            Case(labels, f"{name}, {labels} labels", {"labels": labels, "end": end})
            for labels in ("random", "real")
        ]

    return cases


def on_gaussian(end):
    """The left panel, one case per number of inputs."""
    return lambda parameters: [
        Case(f"gaussian-{inputs}", f"{inputs:,} Gaussian inputs", {"inputs": inputs, "end": end})
        for inputs in parameters["inputs"]
    ]


RISES, FALLS = "Training makes f(σ) rise at first.", "Training makes f(σ) fall in the end."
LONG = Requirement("steps of training (the figure's first curve is after 5 epochs)", steps, FEWEST_STEPS)
LEARNED = Requirement("share of the networks that learned their labels", learned, 0.95)
MAY_FALL = Requirement(
    "whether this may be Figure 4's network (1 or 0): that figure names no number of inputs, and of this "
    "very network Figure 20 (right) says that its curve only rises",
    may_fall,
    1.0,
)
IMAGES = {
    "source": SOURCE, "of": changed, "above": 0, "matters": 0.05, "unit": "of ln τ", "requires": (LONG,),
    "because": "5 % of τ is the width of the line in the figure",
}  # fmt: skip
GAUSSIAN = {
    "source": SOURCE, "of": changed, "above": 0, "matters": 0.005, "unit": "of ln τ",
    "because": "half a percent of τ cannot be seen in the figure",
}  # fmt: skip
STATEMENTS = [
    Statement("falls", FALLS, each=on_images(FALL), headline=True, **IMAGES),
    Statement("falls", FALLS, each=on_gaussian(FALL), requires=(LEARNED, MAY_FALL), **GAUSSIAN),
    Statement("rises", RISES, each=on_images(RISE), **IMAGES),
    Statement("rises", RISES, each=on_gaussian(RISE), requires=(LEARNED,), **GAUSSIAN),
]

SAID = {
    HOLDS: "On images with random labels f(σ) falls in the end, as the paper says",
    ABSENT: "On images with random labels f(σ) hardly falls in the end",
    CONTRADICTED: "On images with random labels f(σ) does not fall in the end, it rises",
    UNDECIDED: "It is undecided whether f(σ) falls in the end on images with random labels",
    NOT_JUDGED: "These runs on images are too short to judge whether f(σ) falls in the end",
}
REAL = {
    HOLDS: "Real labels give the same.",
    CONTRADICTED: "With real labels it does not fall.",
    UNDECIDED: "With real labels it is undecided.",
}


def percent(values):
    """Mean change of a curve in percent, from differences of its logarithm, without its sign."""
    return f"{100 * abs(np.expm1(np.mean(values))):.0f} %"


def finding(table, parameters, claims):
    """Rise and fall with random labels, and what real ones give; words follow the verdicts."""
    claim = claims["falls-random"]
    rise, fall = (changed(table, parameters, end, labels="random") for end in (RISE, FALL))
    if claim.outcome not in SAID or fall.empty:
        return "No run on images with random labels is among the results: there is nothing to see."
    said = f"{SAID[claim.outcome]}. "
    if claim.outcome == HOLDS and claims["rises-random"].outcome == HOLDS:
        said += f"Training raises τ by {percent(rise)} up to the top, "
        said += f"and at the largest σ it is {percent(-fall)} lower. "
    said += REAL.get(claims["falls-real"].outcome, "")
    return said.strip() + " The initial scale, which the paper does not give, matters much."


def key_numbers(table, parameters):
    """The fall in the panels with images."""
    result = []
    for labels in ("random", "real"):
        falls = changed(table, parameters, FALL, labels=labels)
        if len(falls):
            what = f"fall of f(σ) from its top (difference of ln), {labels} labels"
            result.append(KeyNumber(what, interval(falls, "{:.2g}")))
    return result
