"""How much the loss varies along its gradient during training (Figures 6 and 11).

The same training as of Tables 1 and 2, from pre-trained and from random weights. At some of its steps the
loss of a fixed batch is followed against its gradient: by steps in proportion to the gradient's size (Figure
6), and by steps of fixed length (Figure 11).
"""

import math

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.claims import Claim, KeyNumber
from alignbook.experiments import Unit
from alignbook.metrics import loss_variation
from alignbook.seeding import torch_stream
from alignbook.studies.transferability.by_seed import factor
from alignbook.studies.transferability.tab01_weight_deviation.experiment import source_units
from alignbook.studies.transferability.targets import name_of, named, start_of, training_of
from alignbook.studies.transferability.tuned import started, target
from alignbook.training.fine_tune import fine_tune

HEADLINE = "smaller"
STARTS = {"scratch": "random weights", "pretrained": "pre-trained"}
PROTOCOLS = {"scaled": "steps scaled by the gradient", "fixed": "steps of fixed length"}
SOURCES = {"scaled": "Figure 6, Section 4", "fixed": "Figure 11, Section B.2"}
EARLIEST = "Sections 1 and 4"  # say that the landscape is better at the start and in the early stages
EARLY = (0, 1, 2, 4, 8, 16, 32)  # steps recorded beside every eighth of all: the loss falls fastest there
# Parts of training, as shares of its steps.
PARTS = {"all steps": (0, 1), "before the first step": (0, 0), "first tenth": (0, 0.1), "rest": (0.1, 1)}
LOSSES = 50  # training losses at which both ways are compared


def recorded(steps):
    """The step counts at which the variation is measured in a run of ``steps`` steps; ascending."""
    return sorted({step for step in EARLY if step <= steps} | {round(steps * n / 8) for n in range(9)})


def units(parameters):
    """One unit per target, start and seed."""
    made = []
    for name in parameters["targets"]:
        arguments = named(name) | training_of(parameters) | start_of(parameters)
        for key in ("learning_rate", "images", "lengths", "near"):
            arguments[key] = parameters[key]
        for start in STARTS:
            for seed in range(parameters["seeds"]):
                given = arguments | {"start": start, "seed": seed}
                made.append(Unit(f"{name}-{start}-seed{seed}", compute, given))
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
    steps,
    batch_size,
    learning_rate,
    decay_at,
    images,
    lengths,
    near,
    seed,
    device,
    report,
):
    """Train, and follow the loss of the first ``images`` training images along its gradient.

    lengths : of the steps, as multiples of ``learning_rate``; those up to ``near`` are near.
    Columns ``step``, ``protocol`` ("scaled" or "fixed"), ``loss`` at the weights themselves,
    ``gradient_norm``, and smallest and largest loss of the line, the weights included: ``near_low``,
    ``near_high`` over near steps, ``far_low``, ``far_high`` over all.
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
    multiples = np.sort(lengths)
    some = slice(0, int((multiples <= near).sum()))
    batch, labels = x[:images].contiguous(memory_format=torch.channels_last), y[:images]
    rows = []

    def on(step, net):
        for protocol in PROTOCOLS:
            found = loss_variation(
                net,
                nn.functional.cross_entropy,
                batch,
                labels,
                learning_rate * multiples,
                scaled=protocol == "scaled",
                mode="train",
            )
            close, every = (np.append(found.loss[part], found.start) for part in (some, slice(None)))
            rows.append(
                {
                    "step": step,
                    "protocol": protocol,
                    "loss": found.start,
                    "gradient_norm": found.gradient_norm,
                    "near_low": close.min(),
                    "near_high": close.max(),
                    "far_low": every.min(),
                    "far_high": every.max(),
                }
            )

    fine_tune(
        net,
        x,
        y,
        steps=steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        decay_at=tuple(decay_at),
        generator=torch_stream(seed, "fine-tuning", dataset, part, start),
        at=recorded(steps),
        on=on,
        report=lambda done, text: report(0.5 + done / 2, text),
    )
    return pd.DataFrame(rows)


def series(table, target, protocol):
    """Rows of one target and protocol, ascending in steps; none where nothing was measured."""
    if "protocol" not in table:
        return pd.DataFrame({name: [] for name in ("seed", "start", "step", "loss", "near", "far")})
    names = [name_of(*pair) for pair in zip(table["dataset"], table["part"], strict=True)]
    rows = table[(np.array(names) == target) & (table["protocol"] == protocol)].sort_values("step")
    near, far = (rows[f"{reach}_high"] - rows[f"{reach}_low"] for reach in ("near", "far"))
    return rows.assign(near=near, far=far)


def mean_over(rows, column, share=(0, 1)):
    """Mean of ``column`` over the steps from and to a ``share`` of the last; its value where the two are one.

    Between records, and where a part of the steps begins or ends, the column is a straight line.
    """
    if rows.empty:
        return math.nan
    rows = rows.sort_values("step")
    steps, values = rows["step"].to_numpy(float), rows[column].to_numpy(float)
    low, high = (end * steps[-1] for end in share)
    places = np.concatenate([[low], steps[(steps > low) & (steps < high)], [high]])
    found = np.interp(places, steps, values)
    return float(np.trapezoid(found, places) / (high - low)) if low < high else float(found[0])


def ratios(table, target, protocol, reach="near", part="all steps"):
    """log2 of the variation from random weights over that from pre-trained ones, one per seed.

    Each is the mean over a part of the steps, of :data:`PARTS`. Seeds without both, or in which a loss is
    not finite, are left out.
    """
    return _by_seed(
        series(table, target, protocol),
        lambda scratch, pretrained: math.log2(
            mean_over(scratch, reach, PARTS[part]) / mean_over(pretrained, reach, PARTS[part])
        ),
    )


def matched(table, target, protocol):
    """The same at equal loss: mean difference of log2 of the near variation over the losses that both pass.

    Between records log2 of the variation is a straight line over the logarithm of the loss.
    """
    return _by_seed(series(table, target, protocol), _at_equal_loss)


def _at_equal_loss(scratch, pretrained):
    curves = []
    for rows in (scratch, pretrained):
        rows = rows.sort_values("loss")
        curves.append((np.log(rows["loss"].to_numpy(float)), np.log2(rows["near"].to_numpy(float))))
    low, high = max(loss[0] for loss, _ in curves), min(loss[-1] for loss, _ in curves)
    if low >= high:
        return math.nan
    grid = np.linspace(low, high, LOSSES)
    return float(np.mean(np.interp(grid, *curves[0]) - np.interp(grid, *curves[1])))


def _by_seed(rows, measure):
    values = []
    for _, part in rows.groupby("seed"):
        ways = [part[part["start"] == start] for start in STARTS]
        if all(len(way) for way in ways):
            values.append(measure(*ways))
    return [value for value in values if math.isfinite(value)]


def claims(table, parameters):
    """The mean over all steps, the start and the early steps as the paper says; the others are ours.

    What counts as early, the first tenth, is ours as well.
    """
    less = "The loss varies less along its gradient from pre-trained than from random weights"
    said = {
        "smaller": (f"{less}, mean over all steps.", lambda *which: ratios(table, *which)),
        "first": (
            f"{less}, before the first step.",
            lambda *which: ratios(table, *which, part="before the first step"),
        ),
        "early": (
            f"{less}, in the first tenth of the steps.",
            lambda *which: ratios(table, *which, part="first tenth"),
        ),
        "late": (f"{less}, after that.", lambda *which: ratios(table, *which, part="rest")),
        "far": (
            f"{less}, mean over all steps, along a hundred steps of training's rate.",
            lambda *which: ratios(table, *which, reach="far"),
        ),
        "matched": (f"{less}, at equal training loss.", lambda *which: matched(table, *which)),
    }
    made = []
    for id, (statement, measure) in said.items():
        for protocol, words in PROTOCOLS.items():
            for name in parameters["targets"]:
                values = measure(name, protocol)
                about = (
                    f"{id}-{protocol}-{name}",
                    f"{statement} {words.capitalize()}, {name}: log2 of the ratio.",
                    EARLIEST if id in ("first", "early") else SOURCES[protocol],
                )
                if values:
                    claim = Claim.greater(*about, values)
                else:
                    claim = Claim.missing(*about, "nothing to compare")
                made.append(claim.tagged(group=statement, ours=id in ("late", "far", "matched")))
    return made


def shown(parameters):
    """[(protocol, target)] of the two figures: the first target for Figure 6, the last for Figure 11."""
    return list(zip(PROTOCOLS, (parameters["targets"][0], parameters["targets"][-1]), strict=True))


def times(values):
    """The ratio of log2 ``values``, one per seed: geometric mean and the interval of the mean logarithm."""
    return factor(values, 2)


def finding(table, parameters):
    """How many times as much the loss varies from random weights, over all steps and their first tenth."""
    parts, early = [], []
    for protocol, name in shown(parameters):
        values = ratios(table, name, protocol)
        if values:
            parts.append(f"{times(values)} with {PROTOCOLS[protocol]} ({name})")
            first = ratios(table, name, protocol, part="first tenth")
            early += [times(first)] if first else []
    if not parts:
        return "There is nothing to compare."
    said = f"; in the first tenth of the steps {' and '.join(early)}" if early else ""
    return (
        f"Variation of loss along its gradient, random over pre-trained weights "
        f"({parameters['source']}): {', '.join(parts)}{said}."
    )


def key_numbers(table, parameters):
    """The two ratios of the figures, and that at equal loss."""
    result = []
    for protocol, name in shown(parameters):
        where = f"variation from random / pre-trained weights, {PROTOCOLS[protocol]}, {name}"
        result.append(KeyNumber(where, times(ratios(table, name, protocol))))
    protocol, name = shown(parameters)[0]
    equal = f"the same at equal training loss, {PROTOCOLS[protocol]}, {name}"
    return [*result, KeyNumber(equal, times(matched(table, name, protocol)))]
