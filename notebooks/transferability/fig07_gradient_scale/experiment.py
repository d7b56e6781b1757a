"""How the gradient's size changes on its way back to the images, random and pre-trained weights (Figure 7).

The gradient of each image's loss by what a layer reads is what back-propagation hands on (∂L/∂X, Section 4).
Its size is followed from the last convolution to the images, beside that of the gradient by the layer's
weights.
"""

import math

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.claims import UNDECIDED, Claim, KeyNumber, interval
from alignbook.experiments import Unit
from alignbook.metrics import gradient_projections, layer_gradients
from alignbook.seeding import torch_stream
from alignbook.studies.transferability.by_seed import factor
from alignbook.studies.transferability.fig05_landscapes_at_initialisation.experiment import (
    main_layers,
    middle,
)
from alignbook.studies.transferability.fig06_loss_variation.experiment import STARTS, started
from alignbook.studies.transferability.planes import where
from alignbook.studies.transferability.tab01_weight_deviation.experiment import named, source_units, start_of
from alignbook.studies.transferability.tuned import target
from alignbook.training.fine_tune import fine_tune

HEADLINE = "steeper"
BIN = 0.1  # decades, of the histogram
MEASURES = {  # of a layer's gradient: columns of the table, and what they are
    "inputs": "by what the layer reads",
    "weights": "by the layer's weights",
    "weights_relative": "by the weights, times their norm",
}
READINGS = {  # of "projection of weight on the singular vectors of gradient"
    "both": "|u_i' W v_i|, on both singular vectors",
    "left": "‖u_i' W‖, on the one of the outputs",
    "right": "‖W v_i‖, on the one of the inputs",
}
LEADING = 0.1  # share of the singular vectors that lead
TRAINING = ("batch_size", "learning_rate", "steps")  # arguments of a unit that say how it is trained
STABLE = (
    1.0  # |log2| of the size at the images over that at the last convolution, up to which we call it stable
)


def units(parameters):
    """One unit per target, start and seed; where ``activations`` asks for them, one of those beside it."""
    made = []
    for name in parameters["targets"]:
        arguments = named(name) | start_of(parameters)
        for key in ("examples", "batch_size", "learning_rate", "batch"):
            arguments[key] = parameters[key]
        per_epoch = parameters["examples"] // parameters["batch_size"]
        arguments["steps"] = sorted({0, *(epoch * per_epoch for epoch in parameters["epochs"])})
        for start in STARTS:
            for seed in range(parameters["seeds"]):
                given = arguments | {"start": start, "seed": seed}
                made.append(Unit(f"{name}-{start}-seed{seed}", compute, given))
                if parameters["activations"]:
                    kept = {key: value for key, value in given.items() if key not in TRAINING}
                    made.append(Unit(f"{name}-activations-{start}-seed{seed}", activations, kept))
    return made + source_units(parameters)


def compute(
    *,
    dataset,
    part,
    start,
    source,
    pretrain_epochs,
    pretrain_images,
    width,
    blocks,
    examples,
    batch_size,
    learning_rate,
    batch,
    steps,
    seed,
    device,
    report,
):
    """Train to the last of ``steps``, and at each measure the gradients, in batches of ``batch`` images.

    Rows of three kinds, all with ``step`` and ``kind``:
    "scale": ``layer``, its ``position`` from the images on (the head is last); ``inputs``: root mean square
    over images of ‖∂L_i/∂X‖; ``spread``: standard deviation of its log10; ``weights``: root mean square over
    batches of ‖∂L/∂W‖; ``weights_relative``: that times ‖W‖.
    "projection": ``layer``, ``position``, ``index`` of the singular value and :func:`gradient_projections`
    of the batches, means; not for the head.
    "histogram", of the middle layer: ``decade``, lower end of a bin of log10 |∂L_i/∂x|, x an entry of what
    the layer reads; ``count`` of entries; zeros are left out.
    """
    x, y, *_, classes = target(dataset, examples, seed, part)
    x, y = x.to(device), y.to(device)
    net = started(
        start,
        classes,
        (dataset, part),
        source,
        pretrain_epochs,
        pretrain_images,
        width,
        blocks,
        seed,
        device,
        lambda done, text: report(done / 2, text),
    )
    rows = []
    fine_tune(
        net,
        x,
        y,
        steps=max(steps),
        batch_size=batch_size,
        learning_rate=learning_rate,
        generator=torch_stream(seed, "fine-tuning", dataset, part, start),
        at=steps,
        on=lambda step, net: rows.append(measured(net, x, y, batch).assign(step=step)),
        report=lambda done, text: report(0.5 + done / 2, text),
    )
    return pd.concat(rows, ignore_index=True)


def measured(net, x, y, batch):
    """The rows of :func:`compute` for one network; images that fill no batch are left out."""
    layers = [*main_layers(net), "head"]
    central = middle(layers[:-1])[1]
    sizes = {name: [] for name in layers}  # of each image's gradient
    weights = {name: [] for name in layers}  # of each batch's
    profiles = {name: [] for name in layers[:-1]}
    entries = []
    for start in range(0, len(x) - batch + 1, batch):
        images = x[start : start + batch].contiguous(memory_format=torch.channels_last)
        found = layer_gradients(net, images, y[start : start + batch], layers)
        for name in layers:
            sizes[name].append(found.inputs[name].flatten(1).norm(dim=1).double().cpu().numpy())
            weights[name].append(found.weights[name].double().norm().item())
        for name, profile in profiles.items():
            both = gradient_projections(net.get_submodule(name).weight, found.weights[name])
            profile.append(pd.DataFrame(both))
        entries.append(found.inputs[central].abs().double().cpu().numpy().ravel())
    parts = []
    for position, name in enumerate(layers):
        size = np.concatenate(sizes[name])
        norm = math.sqrt(np.mean(np.square(weights[name])))
        row = {
            "kind": "scale",
            "inputs": math.sqrt(np.mean(size**2)),
            "spread": float(np.std(np.log10(size[size > 0]))),
            "weights": norm,
            "weights_relative": norm * net.get_submodule(name).weight.detach().double().norm().item(),
        }
        parts.append(pd.DataFrame([row]).assign(layer=name, position=position))
        if name in profiles:
            mean = sum(profiles[name]) / len(profiles[name])
            mean = mean.assign(kind="projection", index=np.arange(len(mean)), layer=name, position=position)
            parts.append(mean)
    values = np.concatenate(entries)
    bins = np.floor(np.log10(values[values > 0]) / BIN).astype(int)
    decades, counts = np.unique(bins, return_counts=True)
    parts.append(
        pd.DataFrame(
            {"kind": "histogram", "layer": central, "decade": np.round(decades * BIN, 9), "count": counts}
        )
    )
    return pd.concat(parts, ignore_index=True)


def activations(
    *, dataset, part, start, source, pretrain_epochs, pretrain_images, width, blocks, examples, batch, seed,
    device, report,
):  # fmt: skip
    """Before training: how a convolution multiplies the leading directions of the gradient by its output.

    Back-propagation multiplies ∂L/∂X_k, the gradient by what layer k gives out, with the layer's weight W
    (Section 4). Over all images and places of it, ∂L_i/∂X_k is a matrix (channels, images · places) =
    Σ_i σ_i u_i v_i', σ descending. Rows of kind "activation", at ``step`` 0, one per convolution and
    direction: ``layer``, ``position``, ``index``; ``singular``, σ_i; ``left``, ‖u_i'W‖; ``shuffled``, what
    the same weights in a random order would give, see :func:`shuffled_left`; ``norm``, ‖W‖.
    """
    x, y, *_, classes = target(dataset, examples, seed, part)
    x, y = x.to(device), y.to(device)
    length = (source, pretrain_epochs, pretrain_images, width, blocks)
    net = started(start, classes, (dataset, part), *length, seed, device, report).train()
    parts = []
    for position, (name, gram) in enumerate(output_grams(net, x, y, batch).items()):
        weight = net.get_submodule(name).weight.detach().cpu().double().flatten(1)
        values, vectors = torch.linalg.eigh(gram)
        u = vectors.flip(1)
        found = {
            "index": range(len(u)),
            "singular": values.flip(0).clamp(min=0).sqrt(),
            "left": (u.T @ weight).norm(dim=1),
            "shuffled": shuffled_left(u, weight),
            "norm": weight.norm().item(),
        }
        parts.append(pd.DataFrame(found).assign(layer=name, position=position))
    return pd.concat(parts, ignore_index=True).assign(kind="activation", step=0)


def output_grams(net, x, y, batch):
    """{convolution: Σ g g', (channels, channels) float64}, g the gradient of an image's loss by what the
    convolution gives out at one place; over all places of all images, but for those that fill no batch.

    Batch norm is in training mode; running statistics of ``net`` move.
    """
    layers = main_layers(net)
    given, grams = {}, dict.fromkeys(layers, 0.0)
    hooks = [
        net.get_submodule(name).register_forward_hook(
            lambda module, inputs, output, name=name: given.update({name: output})
        )
        for name in layers
    ]
    for start in range(0, len(x) - batch + 1, batch):
        images = x[start : start + batch].contiguous(memory_format=torch.channels_last)
        loss = nn.functional.cross_entropy(net(images), y[start : start + batch], reduction="sum")
        found = torch.autograd.grad(loss, [given[name] for name in layers])
        for name, gradient in zip(layers, found, strict=True):
            rows = gradient.transpose(0, 1).flatten(1).double().cpu()  # (channels, images · places)
            grams[name] = grams[name] + rows @ rows.T
    for hook in hooks:
        hook.remove()
    return grams


def shuffled_left(u, weight):
    """Root mean square of ‖u_i'W‖ over all orders of the entries of W (out, else), one per column of u.

    With q the mean square of an entry and c the mean product of two different ones, u_i of norm 1,
    the mean square is else · (q + c ((Σ_a u_ai)² - 1)).
    """
    square, count = weight.square().sum(), weight.numel()
    product = (weight.sum().square() - square) / (count * (count - 1))
    return (weight.shape[1] * (square / count + product * (u.sum(0).square() - 1))).clamp(min=0).sqrt()


def rows_of(table, target, kind, step=None):
    """The rows of one target and kind at a step, by default the first."""
    rows = where(table, kind=kind, **named(target))
    return rows if rows.empty else rows[rows["step"] == (rows["step"].min() if step is None else step)]


def convolutions(rows):
    """The rows without the head's, from the images on.

    The mean over places before the head divides the gradient by the root of their number, whatever the
    weights; sizes are therefore compared from the last convolution on.
    """
    return rows[rows["layer"] != "head"].sort_values("position")


def slope(rows, measure="inputs"):
    """By how many decades per convolution log10 of a measure grows towards the images, least squares."""
    rows = convolutions(rows)
    return -float(np.polyfit(rows["position"], np.log10(rows[measure]), 1)[0])


def growth(rows):
    """log2 of the size of the gradient at the images over that at the last convolution."""
    sizes = convolutions(rows)["inputs"]
    return math.log2(sizes.iloc[0] / sizes.iloc[-1])


def middle_of(rows):
    """The rows of the middle one of the convolutions."""
    rows = convolutions(rows)
    return rows[rows["layer"] == middle(list(rows["layer"].unique()))[1]]


def leading(rows, reading="both"):
    """Mean projection on the leading singular vectors over that on all, of one layer."""
    values = rows.sort_values("index")[reading].to_numpy()
    return float(values[: max(1, round(LEADING * len(values)))].mean() / values.mean())


def values_of(rows, measure):
    """DataFrame (seeds × starts) of ``measure`` of the rows of each; seeds without both are left out."""
    found = {}
    if len(rows):
        for (seed, start), part in rows.groupby(["seed", "start"]):
            found.setdefault(start, {})[seed] = measure(part)
    return pd.DataFrame(found, columns=list(STARTS), dtype=float).dropna()


def difference(rows, measure):
    """``measure`` of random less that of pre-trained weights, list with one value per seed."""
    values = values_of(rows, measure)
    return [value for value in values["scratch"] - values["pretrained"] if math.isfinite(value)]


def claims(table, parameters):
    """Growth, size and projections before training as the paper has them; other readings and steps ours."""
    made = []

    def judge(id, statement, values, ours, build=Claim.greater, **margin):
        for name in parameters["targets"]:
            found = values(name)
            about = (f"{id}-{name}", f"{statement} {name}.", "Figure 7, Section 4")
            if found:
                claim = build(*about, found, **margin)
            else:
                claim = Claim.missing(*about, "nothing to compare")
            made.append(claim.tagged(group=statement, ours=ours))

    def scale(measure, step=None):
        return lambda name: difference(rows_of(table, name, "scale", step), measure)

    def of(start, measure):
        return lambda name: list(values_of(rows_of(table, name, "scale"), measure)[start])

    judge(
        "steeper",
        "On its way back to the images the gradient grows faster with random than with pre-trained weights "
        "(difference of the slopes of log10 ‖∂L/∂X‖, per layer).",
        scale(slope),
        False,
    )
    judge(
        "grows",
        "With random weights the gradient grows on its way back (slope of log10 ‖∂L/∂X‖, per layer).",
        of("scratch", slope),
        False,
    )
    judge(
        "stays",
        "With pre-trained weights it stays: at the images within a factor of two of that at the last "
        "convolution (log2).",
        of("pretrained", growth),
        True,
        Claim.equals,
        paper=0.0,
        tolerance=STABLE,
    )
    judge(
        "smaller",
        "In the middle layer the gradient is smaller with pre-trained weights (log2 of the ratio).",
        scale(lambda rows: math.log2(middle_of(rows)["inputs"].iloc[0])),
        False,
    )
    judge(
        "narrower",
        "In the middle layer its size differs less from image to image (standard deviation of log10).",
        scale(lambda rows: middle_of(rows)["spread"].iloc[0]),
        True,
    )
    for reading, words in READINGS.items():
        judge(
            f"suppressed-{reading}",
            "Pre-trained weights lie less than random ones in the leading singular directions of the middle "
            f"layer's gradient (log2 of the ratio of leading to mean; {words}).",
            lambda name, reading=reading: difference(
                rows_of(table, name, "projection"),
                lambda rows: math.log2(leading(middle_of(rows), reading)),
            ),
            reading != "both",
        )
    for measure, words in MEASURES.items():
        if measure != "inputs":
            judge(
                f"steeper-{measure}",
                f"The same difference of slopes for the gradient {words}.",
                scale(lambda rows, measure=measure: slope(rows, measure)),
                True,
            )
    steps = sorted(table["step"].unique()) if "step" in table else []
    last = steps[-1] if steps else None
    judge(
        "steeper-later",
        "The same difference of slopes after the last epoch measured (‖∂L/∂X‖).",
        (lambda name: scale(slope, last)(name) if len(steps) > 1 else []),
        True,
    )
    return made


def finding(table, parameters):
    """Growth from the last convolution to the images with both weights, and the leading projections."""
    name = parameters["targets"][0]
    sizes = values_of(rows_of(table, name, "scale"), growth)
    if sizes.empty:
        return "There is nothing to compare."
    random, trained = (factor(sizes[start]) for start in STARTS)
    lead = difference(rows_of(table, name, "projection"), lambda part: math.log2(leading(middle_of(part))))
    led = ""
    if lead:
        outcome = Claim.greater("lead", "", "", lead).outcome
        led = f" Leading projections, random over pre-trained: {factor(lead, 2)}"
        led += ", which leaves the explanation open." if outcome == UNDECIDED else "."
    return (
        f"On its way to the images ({name}) the gradient grows {random} times with random weights, {trained} "
        f"times with those pre-trained on {parameters['source']} (for ImageNet).{led}"
    )


def key_numbers(table, parameters):
    """Slope, size in the middle and leading projections, random against pre-trained, as in the claims."""
    name = parameters["targets"][0]
    scale, projections = (rows_of(table, name, kind) for kind in ("scale", "projection"))
    slopes = difference(scale, slope)
    larger = difference(scale, lambda rows: math.log2(middle_of(rows)["inputs"].iloc[0]))
    lead = difference(projections, lambda rows: math.log2(leading(middle_of(rows))))
    told = {
        f"{name}: growth per layer, random less pre-trained (decades)": slopes and interval(slopes, "{:.3f}"),
        "gradient in the middle layer, random / pre-trained": larger and factor(larger, 2),
        "leading projections, random / pre-trained": lead and factor(lead, 2),
    }
    return [KeyNumber(what, value) for what, value in told.items() if value]
