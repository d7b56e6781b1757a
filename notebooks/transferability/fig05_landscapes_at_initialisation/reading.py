"""How much the landscape bends where training starts, from random and from pre-trained weights."""

import numpy as np
import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import at, curves, difference, ratio, sample, slope
from alignbook.statements import Case, Statement
from alignbook.studies.transferability import imagenet_rows
from alignbook.studies.transferability.by_seed import factor
from alignbook.studies.transferability.planes import grid
from alignbook.studies.transferability.targets import STARTS

LAG = 10  # second differences over one tenth of a side of the plane, whatever its number of points


def variation(loss):
    """Standard deviation of the loss (points, points) over a plane, in nats."""
    return float(np.std(loss))


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


def roughness(table, **conditions):
    """One row per start, seed and layer: ``curvature``, ``variation``, ``centre`` (the loss there).

    conditions : arguments of :func:`planes`, such as ``layers="all", mode="train"``.
    """
    rows = at(table, **conditions)
    made = []
    if len(rows):
        for (start, seed, position, layer), part in rows.groupby(["start", "seed", "position", "layer"]):
            alpha, _, loss = grid(part)
            made.append(
                {
                    "start": start,
                    "seed": seed,
                    "position": int(position),
                    "layer": layer,
                    "curvature": curvature(loss, alpha[-1]),
                    "variation": variation(loss),
                    "centre": float(loss[len(loss) // 2, len(loss) // 2]),
                }
            )
    names = ["start", "seed", "position", "layer", "curvature", "variation", "centre"]
    return pd.DataFrame(made, columns=names)


def cases(parameters):
    """{what is looked at: arguments of :func:`roughness`} of the middle layer, the paper's own case first."""
    own = {"layers": "middle", "mode": "train", "head": "fresh", "radius": parameters["radius"]}
    return {
        f"as in the paper: radius {parameters['radius']:g}, batch statistics, fresh head": own,
        f"radius {parameters['far_radius']:g}": own | {"radius": parameters["far_radius"]},
        "running statistics": own | {"mode": "eval"},
        "heads scaled to equal logits": own | {"head": "scaled"},
    }


def all_layers(table, parameters):
    """:func:`roughness` of every layer."""
    return roughness(table, layers="all", mode="train", head="fresh", radius=parameters["radius"])


def from_middle(rows):
    """The rows of the middle layer and of those after it: Appendix B.4 shows the 25th to 48th layer."""
    positions = np.sort(rows["position"].unique())
    return rows[rows["position"] >= positions[len(positions) // 2]] if len(positions) else rows


def ratios(rows, column):
    """log2 of ``column``, random over pre-trained, a sample; zeros left out."""
    random, own = (sample(at(rows, start=start), column) for start in STARTS)
    return np.log2(ratio(random[random > 0], own))


def growth(rows, start):
    """By how much log2 of the curvature grows per layer towards the input, a sample: least squares."""
    found = curves(at(rows, start=start), "position", "curvature")
    return -slope(np.log2(found.where(found > 0)))


def grows_more(rows):
    """Difference of that slope, random less pre-trained, a sample."""
    return difference(*(growth(rows, start) for start in STARTS))


def rise_to_middle(rows):
    """log2 of the fitted growth of the curvature from the last layer to the middle one: pre-trained."""
    return growth(rows, "pretrained") * (rows["position"].nunique() - 1)


def ahead(table):
    """log2 of the mean training loss over the recorded steps after the start, random over pre-trained."""
    if "train_loss" not in table:
        return None
    rows = table[table["step"] > 0]
    return ratios(rows.groupby(["seed", "start"], as_index=False)["train_loss"].mean(), "train_loss")


def imagenet_layers(table):
    """:func:`roughness` of the layers of EfficientNet-Lite0, heads new."""
    return roughness(imagenet_rows.imagenet(table), layers="some", head="fresh")


def imagenet_middle(table, head="fresh"):
    """:func:`roughness` of its middle layer."""
    if head == "scaled":
        return roughness(imagenet_rows.imagenet(table), layers="middle", head="scaled")
    rows = imagenet_layers(table)
    positions = np.sort(rows["position"].unique())
    return rows[rows["position"] == positions[len(positions) // 2]] if len(positions) else rows


def own_middle(table, parameters, case=0):
    """:func:`roughness` of the middle layer in one of :func:`cases`, our own source."""
    return roughness(imagenet_rows.own(table), **list(cases(parameters).values())[case])


def own_layers(table, parameters):
    """:func:`roughness` of the middle layer and those after it, our own source."""
    return from_middle(all_layers(imagenet_rows.own(table), parameters))


def second_layers(table):
    """The same of EfficientNet-Lite0, where its weights are those trained on ImageNet."""
    return from_middle(imagenet_layers(imagenet_rows.trained(table)))


def others(parameters):
    """The middle layer under other conditions than the paper's, as replicates."""
    return [Case(str(n), label, {"case": n}) for n, label in enumerate(cases(parameters)) if n]


TENTH = "a tenth of what is compared"
SLOPES = "a tenth, over the layers from the last to the middle one"
SINCE = "that only the layers from the middle one on count, as B.4 shows them, was set after all were judged"
SMOOTHER = "In the middle layer the landscape at the start is smoother with pre-trained weights: log2 of the "
IN = f" ({imagenet_rows.NAME})"
LOG = {"above": 0, "matters": 0.14, "unit": "of log2", "because": TENTH}
PER_LAYER = {"above": 0, "matters": 0.05, "unit": "of log2 per layer", "because": SLOPES}
STATEMENTS = [
    Statement(
        "middle", f"{SMOOTHER}curvature along lines, random over pre-trained.", source="Figure 5(b)(c)",
        of=lambda t, p: ratios(own_middle(t, p), "curvature"), ours=True, headline=True, **LOG,
    ),
    Statement(
        "middle-variation", f"{SMOOTHER}standard deviation of the loss over the plane, random over "
        "pre-trained.", source="Figure 5(b)(c)", ours=True, **LOG,
        of=lambda t, p: ratios(own_middle(t, p), "variation"),
    ),
    Statement(
        "middle-other", "The middle layer's landscape is smoother in other conditions, too: log2 of the "
        "curvature, random over pre-trained.", source="Figure 5(b)(c)", ours=True, each=others, **LOG,
        of=lambda t, p, case: ratios(own_middle(t, p, case), "curvature"),
    ),
    Statement(
        "grows", "With random weights the curvature grows from the last layer to the middle one: slope of "
        "its log2.", source="Figure 13, B.4", ours=True, post_hoc=SINCE, **PER_LAYER,
        of=lambda t, p: growth(own_layers(t, p), "scratch"),
    ),
    Statement(
        "even", "With pre-trained weights the layers from the middle one on are nearly alike: log2 of the "
        "growth of the curvature from the last to the middle one is 0.", source="Figure 12, B.4", near=0.0,
        within=1.0, unit="of log2", because="a factor of two", ours=True, post_hoc=SINCE,
        of=lambda t, p: rise_to_middle(own_layers(t, p)),
    ),
    Statement(
        "grows-more", "From the last layer to the middle one the curvature grows more with random weights "
        "than with pre-trained ones: difference of the slopes.", source="Figures 12 and 13, B.4", ours=True,
        post_hoc=SINCE, of=lambda t, p: grows_more(own_layers(t, p)), **PER_LAYER,
    ),
    Statement(
        "faster", "From pre-trained weights the training loss falls faster: log2 of its mean over the "
        "recorded steps, random over pre-trained.", source="Figure 5(a)",
        of=lambda t, p: ahead(imagenet_rows.own(t)), **LOG,
    ),
    Statement(
        "middle-imagenet", f"{SMOOTHER}curvature, random over pre-trained{IN}.", source="Figure 5(b)(c)",
        ours=True, of=lambda t, p: ratios(imagenet_middle(imagenet_rows.trained(t)), "curvature"), **LOG,
    ),
    Statement(
        "middle-variation-imagenet", f"{SMOOTHER}standard deviation, random over pre-trained{IN}.",
        source="Figure 5(b)(c)", ours=True, **LOG,
        of=lambda t, p: ratios(imagenet_middle(imagenet_rows.trained(t)), "variation"),
    ),
    Statement(
        "middle-scaled-imagenet", f"{SMOOTHER}curvature with heads of equal logits{IN}.",
        source="Figure 5(b)(c)", ours=True, **LOG,
        of=lambda t, p: ratios(imagenet_middle(imagenet_rows.trained(t), "scaled"), "curvature"),
    ),
    Statement(
        "grows-imagenet", "With random weights the curvature grows from the last layer to the middle one"
        f"{IN}.", source="Figure 13, B.4", ours=True, post_hoc=SINCE, **PER_LAYER,
        of=lambda t, p: growth(second_layers(t), "scratch"),
    ),
    Statement(
        "grows-more-imagenet", f"It grows more with random weights than with pre-trained ones{IN}.",
        source="Figures 12 and 13, B.4", ours=True, post_hoc=SINCE, **PER_LAYER,
        of=lambda t, p: grows_more(second_layers(t)),
    ),
]  # fmt: skip

SAID = {
    HOLDS: "Before training, the middle layer's loss bends more with random than pre-trained weights",
    CONTRADICTED: "Before training, the middle layer's loss bends less with random than pre-trained weights",
    ABSENT: "Before training, the middle layer's loss bends as much with random as pre-trained weights",
    UNDECIDED: "Whether the middle layer's loss bends more with random weights at the start is undecided",
}


def finding(table, parameters, claims):
    """Curvatures of the middle layer at both radii and the other reading; words follow the verdicts."""
    near, far = (ratios(own_middle(table, parameters, case), "curvature") for case in (0, 1))
    said = SAID.get(claims["middle"].outcome)
    if said is None or near.empty or far.empty:
        return "Nothing was measured with both starts."
    return (
        f"{said}: {2 ** near.mean():.1f} times at the paper's radius, {2 ** far.mean():.1f} times at radius "
        f"{parameters['far_radius']:g} ({claims['middle-other-1'].outcome}). Curvature is our reading of "
        f"“smooth”; by the standard deviation of the loss: {claims['middle-variation'].outcome}."
    )


def key_numbers(table, parameters):
    """Curvature of the middle layer at both radii and the standard deviation, random over pre-trained."""
    near, far = own_middle(table, parameters), own_middle(table, parameters, 1)
    told = {
        f"curvature, random over pre-trained, radius {parameters['radius']:g}": ratios(near, "curvature"),
        f"the same at radius {parameters['far_radius']:g}": ratios(far, "curvature"),
        f"standard deviation of the loss, radius {parameters['radius']:g}": ratios(near, "variation"),
    }
    return [KeyNumber(what, factor(values)) for what, values in told.items() if len(values)]


def dependence(table, parameters):
    """One row per case of :func:`cases`: loss at the centre, curvature, variation; random / pre-trained."""
    made, table = [], imagenet_rows.own(table)
    for label, case in cases(parameters).items():
        rows = roughness(table, **case)
        if rows.empty:
            continue
        means = rows.groupby("start")[["centre", "curvature", "variation"]].mean().reindex(list(STARTS))
        pairs = {
            column: " / ".join(f"{means.loc[start, column]:.3g}" for start in STARTS) for column in means
        }
        made.append(
            {
                "case": label,
                "loss at the centre": pairs["centre"],
                "curvature": pairs["curvature"],
                "log2 of the ratio": interval(ratios(rows, "curvature")),
                "standard deviation": pairs["variation"],
                "log2 of its ratio": interval(ratios(rows, "variation")),
            }
        )
    return pd.DataFrame(made)
