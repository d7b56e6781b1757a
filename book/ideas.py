"""The pictures of the chapter "Four ideas in ten minutes".

Every curve comes from the same functions that measure networks in the book, on data small enough to be
written as a formula; nothing is stored.
"""

import itertools
from pathlib import Path

import numpy as np
from IPython.display import HTML

from alignbook import metrics
from companion.pages.interactive import Axis, Control, Field, Layer, Readout, picture
from companion.pages.style import SEQUENCE
from companion.prose import toys

BLUE, ORANGE, GREEN, BLACK, GREY = (SEQUENCE[n] for n in (0, 1, 2, 6, 7))
TURNS = list(range(0, 91, 10))  # degrees
DEGREES = [f"{turn}°" for turn in TURNS]


def write(pages: Path) -> None:
    """Write the picture of each idea, which ``ideas.md`` includes, into the folder ``pages``."""
    for idea, function in PICTURES.items():
        (pages / f"idea-{idea}.txt").write_text(f"{function().data}\n", encoding="utf-8")


def alignment() -> HTML:
    """Labels of points on a circle, and their alignment curve."""
    features = toys.circle()
    top = np.linalg.svd(features)[1][0]
    thresholds = np.linspace(0, 1.15 * top, 93)
    labels = [toys.labels_at(features, turn) for turn in TURNS]
    curves = [metrics.alignment_curve(features, y, thresholds, bias=False)[1] / len(y) for y in labels]
    first = [metrics.alignment_curve(features, y, bias=False)[1][-1] / len(y) for y in labels]
    ends = np.pi / 4 + np.pi / 2 + np.radians(TURNS)
    along, up = np.outer(np.cos(ends), [1.25, -1.25]), np.outer(np.sin(ends), [1.25, -1.25])
    x, y = features.T
    plus, minus = ([np.where(each == sign, y, np.nan) for each in labels] for sign in (1, -1))
    turn = ("turn",)
    return picture(
        "alignment",
        alt="Points on a circle in two clouds, coloured by class, and the line between the classes.",
        caption="Turn the line that divides the classes; the points stay.",
        x=Axis("first feature", -1.3, 1.3),
        y=Axis("second feature", -1.3, 1.3),
        beside=Field(
            Axis("threshold τ on the singular values", 0, thresholds[-1]),
            Axis("alignment (share of the labels)", 0, 1.05),
            "The alignment curve: at the start it stays high up to the first singular value; once the labels "
            "have turned, it drops at the second.",
        ),
        controls=[Control("turn", "turn of the labels", TURNS, texts=DEGREES)],
        layers=[
            Layer("plus", "dots", x, plus, ORANGE, "class +1", turn),
            Layer("minus", "dots", x, minus, BLUE, "class −1", turn),
            Layer("line", "line", along, up, GREY, "between the classes", turn),
            Layer("start", "line", thresholds, curves[0], GREY, "at the start", dashed=True, field=1),
            Layer("curve", "line", thresholds, curves, GREEN, "alignment curve", turn, field=1),
        ],
        readouts=[
            Readout(
                "first", "along the first singular vector:", turn, [f"{100 * a:.0f}\u00a0%" for a in first]
            )
        ],
    )


SPREADS = (0.7, 2.0)  # standard deviations of the data along its two axes
LENGTHS = [0.6, 1.0, 1.4, 1.8]  # of the weights' longer axis; the other is the first


def misalignment() -> HTML:
    """Two ellipses, their misalignment by angle, and the transfer function."""
    data, fine = toys.turned(0, SPREADS[::-1]), np.arange(0, 91, 3)
    by = ("long", "turn")
    states = list(itertools.product(LENGTHS, TURNS))
    weights = [toys.turned(turn, (long, LENGTHS[0])) for long, turn in states]
    outlines = np.array([toys.ellipse(covariance) for covariance in weights])
    scores = np.array([metrics.misalignment(data, covariance) for covariance in weights])
    taus = np.transpose([metrics.transfer_function(data, covariance)[1] for covariance in weights])
    curves = [
        [metrics.misalignment(data, toys.turned(turn, (long, LENGTHS[0]))) for turn in fine]
        for long in LENGTHS
    ]
    widths = [
        Readout(f"tau{n}", f"f({SPREADS[n]:g}) =", by, [f"{tau:.2f}" for tau in taus[n]]) for n in (0, 1)
    ]
    return picture(
        "misalignment",
        alt="Two ellipses around the origin: the data's is fixed, the weights' turns.",
        caption="Turn the weights against the data, or make them rounder. Ellipses: one standard deviation.",
        x=Axis("first coordinate", -2.3, 2.3),
        y=Axis("second coordinate", -2.3, 2.3),
        beside=Field(
            Axis("turn in degrees", -3, 93, ticks=(0, 30, 60, 90)),
            Axis("misalignment M", -0.04, 1.05 * np.max(curves)),
            "Misalignment over the angle: zero where the axes agree, highest at 45 degrees.",
        ),
        controls=[
            Control("turn", "turn of the weights", TURNS, texts=DEGREES),
            Control("long", "their longer axis", LENGTHS, start=2),
        ],
        layers=[
            Layer("data", "line", *toys.ellipse(data), BLUE, "data"),
            Layer("weights", "line", outlines[:, 0], outlines[:, 1], ORANGE, "weights", by),
            Layer("scores", "line", fine, curves, GREEN, "misalignment", ("long",), field=1),
            Layer("here", "dots", [[turn] for _, turn in states], scores[:, None], BLACK, by=by, field=1),
        ],
        readouts=[Readout("score", "misalignment M =", by, [f"{score:.2f}" for score in scores]), *widths],
    )


STEPS = [0, 5, 10, 25, 50, 100]  # of gradient descent
MARKED = [1, 6, 13, 18, 24]  # examples that can be marked


def tangent() -> HTML:
    """One row of a layer's tangent kernel beside the labels."""
    degrees, inputs, labels = toys.arcs()
    kernels, aligned = [], []
    for network in toys.trained(inputs, labels, STEPS):
        kernels.append(toys.layer_kernels(network, inputs))
        aligned.append(metrics.tangent_alignment(network, inputs, labels))
    signs, layers = 2.0 * labels.numpy() - 1, range(len(kernels[0]))
    rows = [
        signs[mark] * kernels[step][layer][mark] / kernels[step][layer][mark, mark]
        for layer, step, mark in itertools.product(layers, range(len(STEPS)), MARKED)
    ]
    marked = degrees[MARKED][:, None], signs[MARKED][:, None]
    return picture(
        "tangent",
        alt="One row of a layer's tangent kernel over the examples, with the labels as dots.",
        caption="A ReLU network of four layers learns 32 points of a circle. One layer takes a small step "
        "that improves the marked example; the line shows how far it moves the output at each example.",
        x=Axis("example (its angle in degrees)", 0, 360, ticks=(0, 90, 180, 270, 360)),
        y=Axis("effect (1: on the marked example)", -2, 2),
        controls=[
            Control("step", "training steps", STEPS),
            Control("mark", "marked example", MARKED, 1, texts=[f"{degrees[i]:.0f}°" for i in MARKED]),
            Control("layer", "layer", [layer + 1 for layer in layers], start=2, kind="select"),
        ],
        layers=[
            Layer("labels", "dots", degrees, signs, GREY, "labels ±1"),
            Layer("row", "line", degrees, rows, ORANGE, "effect of the step", ("layer", "step", "mark")),
            Layer("marked", "crosses", *marked, BLUE, "marked example", ("mark",)),
        ],
        readouts=[
            Readout(
                "value",
                "alignment A of the layer:",
                ("step", "layer"),
                [f"{value:.2f}" for value in np.ravel(aligned)],
            )
        ],
    )


CURVATURES = [0.5, 1.0, 2.0, 4.0, 8.0]
SHIFTS = [0.0, 0.125, 0.25, 0.375, 0.5]
RATES = [0.05, 0.1, 0.2, 0.3]
MOVES = np.arange(9)  # steps of gradient descent


def landscape() -> HTML:
    """A minimum found on one task, the same valley displaced by the next, and gradient descent in it."""
    weights = np.linspace(-1.2, 2.2, 35)
    slopes = {
        state: metrics.loss_variation(*toys.valley(*state), 3 - weights, scaled=False).loss
        for state in itertools.product(CURVATURES, SHIFTS)
    }
    top = {c: metrics.hessian_eigenvalues(*toys.valley(c, 0.0), k=1).eigenvalues[0] for c in CURVATURES}
    curvature, shift, rate = np.array(list(itertools.product(top.values(), SHIFTS, RATES))).T[:, :, None]
    places = shift * (1 - (1 - rate * curvature) ** MOVES)
    losses = curvature / 2 * (places - shift) ** 2
    by = ("curvature", "shift", "rate")
    olds = [slopes[c, 0.0] for c in CURVATURES]
    return picture(
        "landscape",
        alt="A dashed valley with its minimum at zero, the same valley moved to the right, and the steps of "
        "gradient descent from the old minimum to the new one.",
        caption="Pre-training ended at weight 0. The new task has the same valley elsewhere. Dots: eight "
        "steps of gradient descent from the old minimum.",
        x=Axis("weight", -1.2, 2.2),
        y=Axis("loss", 0, 4.2),
        controls=[
            Control("curvature", "curvature λ", CURVATURES, start=2),
            Control("shift", "shift of the minimum", SHIFTS, start=4),
            Control("rate", "learning rate", RATES, start=1),
        ],
        layers=[
            Layer("old", "line", weights, olds, GREY, "loss of the old task", by[:1], dashed=True),
            Layer("new", "line", weights, list(slopes.values()), BLUE, "loss of the new task", by[:2]),
            Layer("path", "line", places, losses, ORANGE, by=by),
            Layer("steps", "dots", places, losses, ORANGE, "gradient descent", by),
        ],
        readouts=[
            Readout("top", "largest Hessian eigenvalue:", by[:1], [f"{top[c]:.2g}" for c in CURVATURES]),
            Readout("start", "new loss at the old minimum:", by, [f"{loss[0]:.2f}" for loss in losses]),
            Readout("end", "after eight steps:", by, [f"{loss[-1]:.2f}" for loss in losses]),
        ],
    )


PICTURES = {
    "alignment": alignment,
    "misalignment": misalignment,
    "tangent": tangent,
    "landscape": landscape,
}
