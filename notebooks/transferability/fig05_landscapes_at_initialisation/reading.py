"""How much the landscape bends where training starts, from random and from pre-trained weights."""

import numpy as np
import pandas as pd

from companion.over_seeds import at, curves, difference, once, ratio, sample, slope, weakest
from companion.statements import Number, Statement, among
from companion.studies.transferability.shared import imagenet_rows
from companion.studies.transferability.shared.planes import grid
from companion.studies.transferability.shared.targets import STARTS

CONTOUR = 0.05  # nats between the contours of the paper's maps (Appendix A)
LAG = 10  # second differences over one tenth of a side of the plane, whatever its number of points
# Of the middle layer: what a sentence calls it, and what differs from the paper's conditions.
CONDITIONS = {
    "paper": ("as in the paper", {}),
    "far": ("ten times the radius", {"radius": "far_radius"}),
    "running": ("running statistics", {"mode": "eval"}),
    "logits": ("heads scaled to equal logits", {"head": "scaled"}),
    "imagenet": (f"{imagenet_rows.NAME} from ImageNet, equal logits", None),
}


def curvature(loss, radius):
    """Mean |L(u − h) − 2 L(u) + L(u + h)| / h² along both axes of a plane, h about a tenth of a side.

    loss : (points, points) on [-radius, radius]²; h is a whole number of its steps.
    """
    step = 2 * radius / (len(loss) - 1)
    lag = max(1, round((len(loss) - 1) / LAG))
    second = [
        np.abs(part[: -2 * lag] - 2 * part[lag:-lag] + part[2 * lag :]).ravel() for part in (loss, loss.T)
    ]
    return float(np.concatenate(second).mean() / (lag * step) ** 2)


def rise(rows):
    """(alpha, beta, loss less that at the centre) of rows of one landscape, as :func:`grid`."""
    alpha, beta, loss = grid(rows)
    return alpha, beta, loss - loss[len(alpha) // 2, len(beta) // 2]


@once
def roughness(table, source, **conditions):
    """One row per start, seed and layer of a source: ``curvature``; ``variation``, the standard deviation,
    and ``span``, the largest less the smallest loss, in nats.

    source : :func:`imagenet_rows.own` or :func:`imagenet_rows.imagenet`
    conditions : arguments of :func:`planes`, such as ``layers="all", mode="train"``.
    """
    keys, made = ["start", "seed", "position", "layer"], []
    rows = at(source(table), **conditions)
    for key, part in rows.groupby(keys) if len(rows) else ():
        alpha, _, loss = grid(part)
        made.append((*key, curvature(loss, alpha[-1]), np.std(loss), np.ptp(loss)))
    return pd.DataFrame(made, columns=[*keys, "curvature", "variation", "span"])


def middle(table, parameters, condition="paper"):
    """:func:`roughness` of the middle layer in one of :data:`CONDITIONS`."""
    changed = CONDITIONS[condition][1]
    if changed is None:
        return roughness(imagenet_rows.trained(table), imagenet_rows.imagenet, layers="middle", head="scaled")
    given = {"layers": "middle", "mode": "train", "head": "fresh", "radius": "radius"} | changed
    return roughness(table, imagenet_rows.own, **given | {"radius": parameters[given["radius"]]})


def own_layers(table, parameters):
    """:func:`roughness` of every layer, our own source."""
    given = {"mode": "train", "head": "fresh", "radius": parameters["radius"]}
    return roughness(table, imagenet_rows.own, layers="all", **given)


def imagenet_layers(table):
    """:func:`roughness` of the layers of EfficientNet-Lite0 with ImageNet's weights, heads new."""
    return roughness(imagenet_rows.trained(table), imagenet_rows.imagenet, layers="some", head="fresh")


def from_middle(rows):
    """The rows of the middle layer and of those after it: Appendix B.4 shows the 25th to 48th layer."""
    positions = np.sort(rows["position"].unique())
    return rows[rows["position"] >= positions[len(positions) // 2]] if len(positions) else rows


def ratios(rows, column="curvature"):
    """log2 of ``column``, random over pre-trained, a sample; only seeds where both are positive."""
    random, own = (sample(at(rows, start=start), column) for start in STARTS)
    return np.log2(ratio(random[random > 0], own[own > 0]))


def growth(rows, start):
    """By how much log2 of the curvature grows per layer towards the input, a sample: least squares."""
    found = curves(at(from_middle(rows), start=start), "position", "curvature")
    return -slope(np.log2(found.where(found > 0)))


def grows_more(rows):
    """Difference of that slope, random less pre-trained, a sample."""
    return difference(*(growth(rows, start) for start in STARTS))


def rise_to_middle(rows):
    """log2 of the fitted growth of the curvature from the last layer to the middle one: pre-trained."""
    return growth(rows, "pretrained") * (from_middle(rows)["position"].nunique() - 1)


def losses(table):
    """Rows of the training loss of our own source after the start."""
    rows = imagenet_rows.own(table)
    return rows[rows["step"] > 0]


def ahead(table, parameters):
    """log2 of the mean training loss over the recorded steps after the start, random over pre-trained."""
    rows = losses(table)
    return ratios(rows.groupby(["seed", "start"], as_index=False)["train_loss"].mean(), "train_loss")


def times_as_fast(table, parameters):
    """Steps from random weights over those from pre-trained ones to the loss at which the former end."""
    rows, found = losses(table), {}
    for seed, part in rows.groupby("seed"):
        random, own = (sample_path(at(part, start=start)) for start in STARTS)
        if len(random) and len(own) and own.min() <= random.iloc[-1]:
            reached = np.interp(-random.iloc[-1], -own.cummin(), own.index)
            found[seed] = random.index[-1] / reached
    return pd.Series(found, dtype=float)


def sample_path(rows):
    """Training loss by step of one network."""
    return rows.set_index("step")["train_loss"].sort_index()


def span(table, parameters, condition, start="scratch"):
    """Largest less smallest loss of a map, nats, a sample."""
    return sample(at(middle(table, parameters, condition), start=start), "span")


def of_conditions(*ids):
    return among("condition", {id: CONDITIONS[id][0] for id in ids})


LATER = "the restriction to layers from the middle one on, as in B.4, came after all had been judged"
PER_LAYER = {
    "above": 0, "matters": 0.05, "unit": "in log2 per layer", "post_hoc": LATER,
    "because": "a tenth, over the layers from the last to the middle one",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "smoother", "Before training, the loss curves more around random than around pre-trained weights "
        "when the filters of the middle layer move.",
        source="Figure 5 (b, c)", headline=True, above=0, matters=0.14, unit="in log2",
        because="a ratio of 1.1", each=of_conditions("paper", "running", "imagenet"),
        of=lambda t, p, condition: ratios(middle(t, p, condition)),
    ),
    Statement(
        "rough", "Around random weights the loss varies by at least the distance of two of the paper's "
        "contours.",
        source="Figure 5 (b), Appendix A", above=CONTOUR, matters=CONTOUR / 5, unit="nats",
        because="a fifth of that distance", each=of_conditions("paper", "imagenet"), of=span,
        post_hoc="this was a condition of the statement before, added when results had been seen",
    ),
    Statement(
        "grows-more", "From the last layer to the middle one the curvature grows more with random weights "
        "than with pre-trained ones, in either network.",
        source="Figures 12 and 13, B.4", **PER_LAYER,
        of=lambda t, p: weakest(*(grows_more(rows) for rows in (own_layers(t, p), imagenet_layers(t)))),
    ),
    Statement(
        "even", "With pre-trained weights the layers from the middle one on are nearly alike: growth of the "
        "curvature from the last to the middle one.",
        source="Figure 12, B.4", near=0.0, within=1.0, unit="in log2", because="a factor of two",
        of=lambda t, p: rise_to_middle(own_layers(t, p)), post_hoc=LATER,
    ),
    Statement(
        "faster", "From pre-trained weights the training loss falls faster: its mean over the recorded "
        "steps, random over pre-trained.",
        source="Figure 5 (a)", above=0, matters=0.14, unit="in log2", because="a ratio of 1.1", of=ahead,
    ),
]  # fmt: skip
NUMBERS = [
    Number("times", "curvature, random over pre-trained", lambda t, p: 2 ** ratios(middle(t, p))),
    Number("speed", "times as fast to the loss at which random weights end", times_as_fast),
]
