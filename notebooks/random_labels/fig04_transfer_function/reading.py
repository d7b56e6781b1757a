"""Whether training makes the transfer function f(σ) rise and then fall (Figure 4)."""

import numpy as np
import pandas as pd

from alignbook.claims import HOLDS, NOT_JUDGED, KeyNumber, t_interval
from alignbook.over_seeds import at, curves
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import by_verdict, fitting, others

from .. import transfer_curves
from ..filter_runs import complete, figure_rows
from ..transfer_curves import FALL, RISE, change, networks, percent

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
    return transfer_curves.growth(networks(gaussian_rows(table, inputs))).rename_axis("network")


def changed(table, parameters, end, **which):
    """How far the growth rises (``RISE``) or falls (``FALL``), by seed or, with Gaussian inputs, network."""
    return change(growth(table, **which), end)


def first_fall(tau):
    """The number of the first epoch at which f(σ) visibly rises and then falls; the last if there is none.

    ``tau`` is a frame (epoch × direction), σ ascending. Visibly: at its peak the curve has grown by a tenth
    or more of its largest growth in any epoch, and at the largest σ by less than half of that at its peak.
    """
    growth = tau - tau.iloc[0]
    peak = growth.max(axis=1)
    falls = (peak > 0.1 * peak.max()) & (growth.iloc[:, -1] < 0.5 * peak)
    return int(falls.to_numpy().argmax()) if falls.any() else len(tau) - 1


def steps(table, parameters, **given):
    """Steps of training on images."""
    return parameters["epochs"] * (parameters["images"] // parameters["batch_size"])


def learned(table, parameters, inputs, **given):
    """Share of the networks on Gaussian inputs that reached the goal."""
    return gaussian_rows(table, inputs).groupby("network")["converged"].first().mean()


def may_fall(table, parameters, inputs, **given):
    """Whether this is not the network of Figure 20 (right), whose curve only rises."""
    asked = {"dimension": parameters["dimension"], "gaussian_hidden": parameters["gaussian_hidden"]}
    return asked | {"inputs": inputs} != ONLY_RISES


def on_images(end):
    """The panels with images, random labels first."""
    return lambda parameters: [
        Case(labels, f"{parameters['dataset']}, {labels} labels", {"labels": labels, "end": end})
        for labels in ("random", "real")
    ]


def on_gaussian(end):
    """Panel (a), one case per number of inputs."""
    return lambda parameters: [
        Case(f"gaussian-{inputs}", f"{inputs:,} Gaussian inputs", {"inputs": inputs, "end": end})
        for inputs in parameters["inputs"]
    ]


LONG = Requirement("steps of training (the figure's first curve is after 5 epochs)", steps, FEWEST_STEPS)
LEARNED = Requirement("share of the networks that learned their labels", learned, 0.95)
MAY_FALL = Requirement(
    "this may be Figure 4's network",
    may_fall,
    because="That figure gives no number of inputs; Figure 20 (right) says that with "
    f"{ONLY_RISES['inputs']:,} inputs the curve of this network only rises",
)
CURVE = {"source": "Figure 4, Section 2.3", "of": changed, "above": 0, "unit": "in ln τ"}
IMAGES = CURVE | {
    "matters": 0.05, "because": "5 % of τ is the width of the line in the figure", "requires": (LONG,)
}  # fmt: skip
GAUSSIAN = CURVE | {"matters": 0.005, "because": "half a percent of τ cannot be seen in the figure"}
RISES, FALLS = "Training makes f(σ) rise at first.", "Training makes f(σ) fall in the end."
STATEMENTS = [
    Statement("falls", FALLS, each=on_images(FALL), headline=True, **IMAGES),
    Statement("falls", FALLS, each=on_gaussian(FALL), requires=(LEARNED, MAY_FALL), **GAUSSIAN),
    Statement("rises", RISES, each=on_images(RISE), **IMAGES),
    Statement("rises", RISES, each=on_gaussian(RISE), requires=(LEARNED,), **GAUSSIAN),
]

SAID = by_verdict(
    holds="On images with random labels the transfer function falls in the end, as the paper says",
    contradicted="On images with random labels the transfer function does not fall in the end",
    absent="On images with random labels the transfer function falls too little in the end to be seen",
    undecided="It is undecided whether the transfer function falls in the end on images with random labels",
    not_judged="We do not judge whether the transfer function falls in the end, as these runs are too short",
)


def finding(table, parameters, claims):
    """Whether the curve of random labels falls, by how much, and what real labels give."""
    outcome, fall = claims["falls-random"].outcome, changed(table, parameters, FALL, labels="random")
    if outcome not in SAID or fall.empty:
        return "No run on images with random labels is among the results: there is nothing to see."
    text = f"{SAID[outcome]}: where the data vary most, the weights' growth factor is {percent(-fall)} "
    text += f"{'below' if fall.mean() > 0 else 'above'} that at the peak"
    if outcome == claims["rises-random"].outcome == HOLDS:
        text = text.replace("falls in the end", "roughly rises and then falls")
    text += others(outcome, {"real labels": claims["falls-real"].outcome}) + "."
    only = claims.get(f"falls-gaussian-{ONLY_RISES['inputs']}")
    if only and not only.requires[-1]["met"] and only.outcome == NOT_JUDGED:
        rises = f"{text} With {ONLY_RISES['inputs']:,} Gaussian inputs the paper says it only rises"
        scale = "the rise depends on an unprinted initial scale"
        return fitting(f"{rises} (not judged); {scale}.", f"{rises}, so that is not judged.", f"{rises}.")
    return text + " The rise depends on the initial scale, which the paper does not print."


def _below(falls):
    """Differences of ln τ as a fall in percent, with the 95 % interval: ``59 (39 to 72)``."""
    _, mean, ends = t_interval(falls)
    middle, *ends = (f"{-100 * np.expm1(-fall):.0f}".replace("-", "−") for fall in (mean, *(ends or ())))
    return middle + (f" ({ends[0]} to {ends[1]})" if ends else "")


def key_numbers(table, parameters):
    """The fall in the panels with images."""
    found = {labels: changed(table, parameters, FALL, labels=labels) for labels in ("random", "real")}
    return [
        KeyNumber(
            f"growth factor of f(σ) at the largest σ: % below that at the peak, {labels} labels",
            _below(falls),
        )
        for labels, falls in found.items()
        if len(falls)
    ]
