"""How much the landscape bends where training starts, from random and from pre-trained weights."""

import numpy as np
import pandas as pd

from alignbook.claims import NOT_JUDGED, KeyNumber
from alignbook.over_seeds import at, curves, difference, once, ratio, sample, slope
from alignbook.statements import Case, Requirement, Statement
from alignbook.studies.transferability import imagenet_rows
from alignbook.studies.transferability.by_seed import factor
from alignbook.studies.transferability.planes import grid
from alignbook.studies.transferability.targets import LEARNED, STARTS
from alignbook.wording import IT, by_verdict, first_unmet

VARIES = "largest less smallest loss of the random network's map, nats"
CONTOUR = 0.05  # nats between the contours of the paper's maps (Appendix A)
LAG = 10  # second differences over one tenth of a side of the plane, whatever its number of points


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


def cases(parameters):
    """{what is looked at: arguments of :func:`roughness`} of the middle layer, the paper's own case first."""
    own = {"layers": "middle", "mode": "train", "head": "fresh", "radius": parameters["radius"]}
    return {
        f"as in the paper: radius {parameters['radius']:g}, batch statistics, new head": own,
        f"radius {parameters['far_radius']:g}": own | {"radius": parameters["far_radius"]},
        "running statistics": own | {"mode": "eval"},
        "heads scaled to equal logits": own | {"head": "scaled"},
    }


def own_middle(table, parameters, case=0):
    """:func:`roughness` of the middle layer in one of :func:`cases`, our own source."""
    return roughness(table, imagenet_rows.own, **list(cases(parameters).values())[case])


def own_layers(table, parameters):
    """:func:`roughness` of every layer, our own source."""
    given = {"mode": "train", "head": "fresh", "radius": parameters["radius"]}
    return roughness(table, imagenet_rows.own, layers="all", **given)


def imagenet_layers(table):
    """:func:`roughness` of the layers of EfficientNet-Lite0, heads new."""
    return roughness(table, imagenet_rows.imagenet, layers="some", head="fresh")


def imagenet_middle(table, head="fresh"):
    """:func:`roughness` of its middle layer."""
    if head == "scaled":
        return roughness(table, imagenet_rows.imagenet, layers="middle", head="scaled")
    rows = from_middle(imagenet_layers(table))
    return at(rows, position=rows["position"].min())


def from_middle(rows):
    """The rows of the middle layer and of those after it: Appendix B.4 shows the 25th to 48th layer."""
    positions = np.sort(rows["position"].unique())
    return rows[rows["position"] >= positions[len(positions) // 2]] if len(positions) else rows


def ratios(rows, column="curvature"):
    """log2 of ``column``, random over pre-trained, a sample; zeros left out."""
    random, own = (sample(at(rows, start=start), column) for start in STARTS)
    return np.log2(ratio(random[random > 0], own))


def span(rows, start="scratch"):
    """Largest less smallest loss of a map, mean over the seeds; of several layers the largest."""
    return at(rows, start=start).groupby("position")["span"].mean().max()


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


def ahead(table, parameters):
    """log2 of the mean training loss over the recorded steps after the start, random over pre-trained."""
    rows = imagenet_rows.own(table)
    rows = rows[rows["step"] > 0]
    return ratios(rows.groupby(["seed", "start"], as_index=False)["train_loss"].mean(), "train_loss")


def others(parameters):
    """The middle layer under other conditions than the paper's, as replicates."""
    return [Case(str(n), label, {"case": n}) for n, label in enumerate(cases(parameters)) if n]


def _varies(of):
    """The condition that maps could show something as the paper draws them; of : (table, parameters, …)."""
    return (
        Requirement(
            VARIES, lambda t, p, **given: span(of(t, p, **given)), at_least=CONTOUR,
            because="The paper's contours lie that far apart, so a flatter map would be blank",
        ),
    )  # fmt: skip


SMOOTHER = "In the middle layer the landscape at the start is smoother with pre-trained weights: log2 of the "
IN = f" ({imagenet_rows.NAME})"
LOG = {"above": 0, "matters": 0.14, "unit": "in log2", "because": "a ratio of 1.1"}
MIDDLE = LOG | {"source": "Figure 5(b)(c)", "ours": True}
LAYERS = {
    "ours": True,
    "seen": 3,
    "post_hoc": "the restriction to layers from the middle one on, as in B.4, came after all had been judged",
}
PER_LAYER = LAYERS | {
    "above": 0, "matters": 0.05, "unit": "in log2 per layer",
    "because": "a tenth, over the layers from the last to the middle one",
}  # fmt: skip
LAYERS_VARY = (LEARNED, *_varies(lambda t, p: from_middle(own_layers(t, p))))
MIDDLE_VARIES = (LEARNED, *_varies(own_middle))
STATEMENTS = [
    Statement(
        "middle", f"{SMOOTHER}curvature along lines, random over pre-trained.", **MIDDLE, headline=True,
        of=lambda t, p: ratios(own_middle(t, p)), requires=MIDDLE_VARIES,
    ),
    Statement(
        "middle-variation", f"{SMOOTHER}standard deviation of the loss, random over pre-trained.", **MIDDLE,
        of=lambda t, p: ratios(own_middle(t, p), "variation"), requires=MIDDLE_VARIES,
    ),
    Statement(
        "middle-other", "The middle layer's landscape is also smoother under other conditions: log2 of the "
        "curvature, random over pre-trained.", **MIDDLE, each=others,
        of=lambda t, p, case: ratios(own_middle(t, p, case)), requires=MIDDLE_VARIES,
    ),
    Statement(
        "middle-imagenet", f"{SMOOTHER}curvature, random over pre-trained{IN}.", **MIDDLE,
        of=lambda t, p: ratios(imagenet_middle(imagenet_rows.trained(t))),
        requires=_varies(lambda t, p: imagenet_middle(imagenet_rows.trained(t))),
    ),
    Statement(
        "middle-imagenet-scaled", f"{SMOOTHER}curvature, random over pre-trained, with heads scaled to equal "
        f"logits{IN}.", **MIDDLE, seen=5,
        post_hoc="asked with five seeds seen, of the one map that meets the condition added then",
        of=lambda t, p: ratios(imagenet_middle(imagenet_rows.trained(t), "scaled")),
        requires=_varies(lambda t, p: imagenet_middle(imagenet_rows.trained(t), "scaled")),
    ),
    Statement(
        "grows", "With random weights the curvature grows from the last layer to the middle one: slope of "
        "its log2.", source="Figure 13, B.4", **PER_LAYER,
        of=lambda t, p: growth(own_layers(t, p), "scratch"), requires=LAYERS_VARY,
    ),
    Statement(
        "even", "With pre-trained weights the layers from the middle one on are nearly alike: log2 of the "
        "growth of the curvature from the last to the middle one is 0.", source="Figure 12, B.4", **LAYERS,
        near=0.0, within=1.0, unit="in log2", because="a factor of two",
        of=lambda t, p: rise_to_middle(own_layers(t, p)), requires=LAYERS_VARY,
    ),
    Statement(
        "grows-more", "From the last layer to the middle one the curvature grows more with random weights "
        "than with pre-trained ones: difference of the slopes.", source="Figures 12 and 13, B.4", **PER_LAYER,
        of=lambda t, p: grows_more(own_layers(t, p)), requires=LAYERS_VARY,
    ),
    Statement(
        "grows-more-imagenet",
        f"The curvature also grows more with random weights than with pre-trained ones{IN}.",
        source="Figures 12 and 13, B.4", **PER_LAYER,
        of=lambda t, p: grows_more(imagenet_layers(imagenet_rows.trained(t))),
        requires=_varies(lambda t, p: from_middle(imagenet_layers(imagenet_rows.trained(t)))),
    ),
    Statement(
        "faster", "From pre-trained weights the training loss falls faster: log2 of its mean over the "
        "recorded steps, random over pre-trained.", source="Figure 5(a)", **LOG, of=ahead,
        requires=(LEARNED,),
    ),
]  # fmt: skip

SAID = by_verdict(
    "Before training, the loss curves more around random than around pre-trained weights",
    "Before training, the loss curves less around random than around pre-trained weights",
    "Before training, the loss curves as much around random as around pre-trained weights",
    "the loss curves more around random than around pre-trained weights",
)


def _elsewhere(claims):
    """How it came out where the maps are less flat, a sentence."""
    found = IT.get(claims["middle-imagenet-scaled"].outcome, "it was not measured")
    return f"With ImageNet's weights and heads that give equal logits, {found}."


def finding(table, parameters, claims):
    """Curvatures of the middle layer at both radii and the other reading; words follow the verdicts."""
    near, far, other = (claims[id] for id in ("middle", "middle-other-1", "middle-variation"))
    if near.measured is None or far.measured is None:
        return "Nothing was measured from both starts."
    if near.outcome == NOT_JUDGED:
        flat = (
            f": at the paper's radius our maps are flat (the loss varies by "
            f"{span(own_middle(table, parameters)):.2g} nats, and the paper's contours lie {CONTOUR:g} apart)"
        )
        unknown = ": the network has hardly learned its source"
        why = first_unmet(near, {LEARNED.text: unknown, VARIES: flat}, otherwise="")
        return f"{SAID[near.outcome]}{why}. {_elsewhere(claims)}"
    farther, spread = (IT.get(claim.outcome, "it was not measured") for claim in (far, other))
    return (
        f"{SAID[near.outcome]}: in the middle layer {2**near.measured:.1f} times as much at the paper's "
        f"radius; at radius {parameters['far_radius']:g} {farther}. We read “smooth” as curving little; "
        f"by the standard deviation of the loss {spread}."
    )


def key_numbers(table, parameters):
    """Curvature and standard deviation at the headline's radius, random over pre-trained."""
    rows, radius = own_middle(table, parameters), parameters["radius"]
    told = {
        f"curvature, random over pre-trained, radius {radius:g}": ratios(rows),
        f"standard deviation of the loss, random over pre-trained, radius {radius:g}": ratios(
            rows, "variation"
        ),
    }
    return [KeyNumber(what, factor(values)) for what, values in told.items() if len(values)]
