"""The pictures of the chapter "Four ideas in ten minutes".

Every curve comes from the same functions that measure networks in the book, on data small enough to be
written as a formula; nothing is stored.
"""

import itertools

import numpy as np

from alignbook import metrics
from companion.pages import toys
from companion.pages.interactive import Axis, Control, Field, Layer, Readout, picture
from companion.pages.style import SEQUENCE

BLUE, ORANGE, GREEN, BLACK, GREY = (SEQUENCE[n] for n in (0, 1, 2, 6, 7))
TURNS = list(range(0, 91, 10))  # degrees


def draw(pages):
    """Write the picture of each idea, which ``ideas.md`` includes, into the folder ``pages``."""
    for idea, drawn in PICTURES.items():
        (pages / f"idea-{idea}.txt").write_text(f"{drawn().data}\n", encoding="utf-8")


# 1. Features and labels


def alignment():
    """Labels of points on a circle, and their alignment curve."""
    features = toys.circle()
    top = np.linalg.svd(features)[1][0]
    thresholds = np.linspace(0, 1.15 * top, 93)
    classes, curves, along, areas = [], [], [], []
    for turn in TURNS:
        labels = toys.labels_at(features, turn)
        classes.append(labels)
        curves.append(metrics.alignment_curve(features, labels, thresholds, bias=False)[1] / len(labels))
        singular, steps = metrics.alignment_curve(features, labels, bias=False)  # where the curve falls
        along.append(f"{100 * steps[-1] / len(labels):.0f}\u00a0%")
        areas.append(f"{np.diff(singular) @ steps[1:] / top / len(labels):.2f}")
    ends = [np.pi / 4 + np.pi / 2 + np.radians(turn) for turn in TURNS]
    by = ("turn",)
    coloured = [
        Layer(name, "dots", features[:, 0], [np.where(y == sign, features[:, 1], np.nan) for y in classes],
              colour, f"class {name}", by)
        for name, sign, colour in (("+1", 1, ORANGE), ("−1", -1, BLUE))
    ]  # fmt: skip
    return picture(
        "alignment",
        alt="Points on a circle in two clouds, coloured by class, and the line between the classes.",
        caption="Turn the line that divides the classes; the points stay.",
        x=Axis("first feature", -1.3, 1.3), y=Axis("second feature", -1.3, 1.3),
        controls=[Control("turn", "turn of the labels", TURNS, texts=[f"{turn}°" for turn in TURNS])],
        layers=[
            *coloured,
            Layer("line", "line", [[1.25 * np.cos(e), -1.25 * np.cos(e)] for e in ends],
                  [[1.25 * np.sin(e), -1.25 * np.sin(e)] for e in ends], GREY, "between the classes", by),
            Layer("start", "line", thresholds, curves[0], GREY, "at the start", dashed=True, field=1),
            Layer("curve", "line", thresholds, curves, GREEN, "alignment curve", by, field=1),
        ],
        readouts=[
            Readout("first", "share of the labels along the first singular vector:", by, along),
            Readout("area", "area under the curve up to σ₁, in units of σ₁:", by, areas),
        ],
        beside=Field(Axis("threshold τ on the singular values", 0, 1.15 * top),
                     Axis("alignment (share of the labels)", 0, 1.05),
                     "The alignment curve: it stays high up to the first singular value at the start, and "
                     "drops at the second once the labels have turned."),
    )  # fmt: skip


# 2. Data and weights

SPREADS = (0.7, 2.0)  # standard deviations of the data along its two axes
LENGTHS = [0.6, 1.0, 1.4, 1.8]  # of the weights' longer axis; the other is the first


def misalignment():
    """Two ellipses, their misalignment by angle, and the transfer function."""
    data, fine = toys.turned(0, SPREADS[::-1]), np.arange(0, 91, 3)
    grid = [(long, turn) for long in LENGTHS for turn in TURNS]
    weights = [toys.turned(turn, (long, LENGTHS[0])) for long, turn in grid]
    outlines = [toys.ellipse(covariance) for covariance in weights]
    scores = [metrics.misalignment(data, covariance) for covariance in weights]
    taus = [metrics.transfer_function(data, covariance)[1] for covariance in weights]
    curves = [
        [metrics.misalignment(data, toys.turned(turn, (long, LENGTHS[0]))) for turn in fine]
        for long in LENGTHS
    ]
    by = ("long", "turn")
    return picture(
        "misalignment",
        alt="Two ellipses around the origin: the data's is fixed, the weights' turns.",
        caption="Turn the weights against the data, or make them rounder. Ellipses: one standard deviation.",
        x=Axis("first coordinate", -2.3, 2.3), y=Axis("second coordinate", -2.3, 2.3),
        controls=[
            Control("turn", "turn of the weights", TURNS, texts=[f"{turn}°" for turn in TURNS]),
            Control("long", "their longer axis", LENGTHS, start=2),
        ],
        layers=[
            Layer("data", "line", *toys.ellipse(data), BLUE, "data"),
            Layer("weights", "line", [x for x, _ in outlines], [y for _, y in outlines], ORANGE,
                  "weights", by),
            Layer("scores", "line", fine, curves, GREEN, "misalignment", ("long",),
                  field=1),
            Layer("here", "dots", [[turn] for _, turn in grid], [[s] for s in scores], BLACK, "as set",
                  by, field=1),
        ],
        readouts=[
            Readout("score", "misalignment M =", by, [f"{score:.2f}" for score in scores]),
            *(Readout(f"tau{n}", f"f({sigma:g}) =", by, [f"{tau[n]:.2f}" for tau in taus])
              for n, sigma in enumerate(SPREADS)),
        ],
        beside=Field(Axis("turn in degrees", -3, 93, ticks=(0, 30, 60, 90)),
                     Axis("misalignment M", -0.04, 1.05 * np.max(curves)),
                     "Misalignment over the angle: zero where the axes agree, highest at 45 degrees."),
    )  # fmt: skip


# 3. A layer's tangent kernel

STEPS = [0, 5, 10, 25, 50, 100]  # of gradient descent
MARKED = [1, 6, 13, 18, 24]  # examples that can be marked


def tangent():
    """One row of a layer's tangent kernel beside the labels, and every layer's alignment by step."""
    degrees, inputs, labels = toys.arcs()
    kernels, aligned = [], []
    for network in toys.trained(inputs, labels, STEPS):
        kernels.append(toys.layer_kernels(network, inputs))
        aligned.append(metrics.tangent_alignment(network, inputs, labels))
    signs, layers = 2.0 * labels.numpy() - 1, range(1, len(kernels[0]) + 1)
    rows = [
        np.round(signs[i] * kernels[s][layer - 1][i] / kernels[s][layer - 1][i, i], 3)
        for layer, s, i in itertools.product(layers, range(len(STEPS)), MARKED)
    ]
    alignments = np.transpose(aligned)  # (layers, steps)
    by = ("layer", "step")
    return picture(
        "tangent",
        alt="One row of a layer's tangent kernel over the examples, with the labels as dots.",
        caption="A ReLU network of four layers learns 32 points of a circle. One layer takes a small step "
        "that improves the marked example; the line shows how far it moves the output at each example.",
        x=Axis("example (its angle in degrees)", 0, 360, ticks=(0, 90, 180, 270, 360)),
        y=Axis("effect (1: on the marked example)", -2, 2),
        controls=[
            Control("step", "training steps", STEPS),
            Control("mark", "marked example", [degrees[i] for i in MARKED], start=1,
                    texts=[f"{degrees[i]:.0f}°" for i in MARKED]),
            Control("layer", "layer", list(layers), start=2, kind="select"),
        ],
        layers=[
            Layer("labels", "dots", degrees, signs, GREY, "labels ±1"),
            Layer("row", "line", degrees, rows, ORANGE, "effect of the step",
                  ("layer", "step", "mark")),
            Layer("marked", "crosses", [[degrees[i]] for i in MARKED], [[signs[i]] for i in MARKED], BLUE,
                  "marked example", ("mark",)),
            *(Layer(f"layer{n}", "line", STEPS, part, GREY, "the other layers" * (n == 0), field=1)
              for n, part in enumerate(alignments)),
            Layer("curve", "line", STEPS, alignments, GREEN, "the chosen layer", ("layer",), field=1),
            Layer("here", "dots", [[s] for _ in layers for s in STEPS], alignments.reshape(-1, 1), BLACK,
                  "as set", by, field=1),
        ],
        readouts=[Readout("value", "alignment A:", by, [f"{a:.2f}" for a in alignments.flatten()])],
        beside=Field(Axis("training steps", -3, STEPS[-1] + 3),
                     Axis("alignment of the layer's kernel", 0, 0.7),
                     "Alignment of the layer's kernel with the labels, which grows with training."),
    )  # fmt: skip


# 4. The loss around a minimum

CURVATURES = [0.5, 1.0, 2.0, 4.0, 8.0]
SHIFTS = [0.0, 0.125, 0.25, 0.375, 0.5]
RATES = [0.05, 0.1, 0.2, 0.3]
MOVES = np.arange(9)  # steps of gradient descent
LEAST = 1e-3  # of the losses on a logarithmic axis


def landscape():
    """A minimum found on one task, the same valley displaced by the next, and gradient descent in it."""
    weights = np.linspace(-1.2, 2.2, 35)
    slopes = {
        state: metrics.loss_variation(*toys.valley(*state), 3 - weights, scaled=False).loss
        for state in itertools.product(CURVATURES, SHIFTS)
    }
    known = {c: metrics.hessian_eigenvalues(*toys.valley(c, 0.0), k=1).eigenvalues[0] for c in CURVATURES}
    every = list(itertools.product(CURVATURES, SHIFTS, RATES))
    places = [shift * (1 - (1 - rate * known[c]) ** MOVES) for c, shift, rate in every]
    losses = [known[c] / 2 * (w - shift) ** 2 for (c, shift, _), w in zip(every, places, strict=True)]
    shown = np.maximum(losses, LEAST)
    by = ("curvature", "shift", "rate")
    return picture(
        "landscape",
        alt="A dashed valley with its minimum at zero, the same valley moved to the right, and the steps of "
        "gradient descent from the old minimum to the new one.",
        caption="Pre-training ended at weight 0. The new task has the same valley elsewhere. Dots: eight "
        "steps of gradient descent from the old minimum.",
        x=Axis("weight", -1.2, 2.2), y=Axis("loss", 0, 4.2),
        controls=[
            Control("curvature", "curvature λ", CURVATURES, start=2),
            Control("shift", "shift of the minimum", SHIFTS, start=4),
            Control("rate", "learning rate", RATES, start=1),
        ],
        layers=[
            Layer("old", "line", weights, [slopes[c, 0.0] for c in CURVATURES], GREY, "loss of the old task",
                  ("curvature",), dashed=True),
            Layer("new", "line", weights, list(slopes.values()), BLUE, "loss of the new task",
                  ("curvature", "shift")),
            Layer("path", "line", places, losses, ORANGE, by=by),
            Layer("steps", "dots", places, losses, ORANGE, "gradient descent", by),
            Layer("curve", "line", MOVES, shown, ORANGE, by=by, field=1),
            Layer("each", "dots", MOVES, shown, ORANGE, by=by, field=1),
        ],
        readouts=[
            Readout("top", "largest Hessian eigenvalue:", ("curvature",),
                    [f"{known[c]:.2g}" for c in CURVATURES]),
            Readout("start", "new loss at the old minimum:", by, [f"{loss[0]:.2f}" for loss in losses]),
            Readout("end", "after eight steps:", by, [f"{loss[-1]:.2f}" for loss in losses]),
        ],
        beside=Field(Axis("steps of gradient descent", 0, 8),
                     Axis("loss of the new task", LEAST, 1e3, log=True),
                     "The loss of the new task over eight steps, on a logarithmic axis: it falls or grows."),
    )  # fmt: skip


PICTURES = {
    "alignment": alignment,
    "misalignment": misalignment,
    "tangent": tangent,
    "landscape": landscape,
}
