"""How much the loss varies along its gradient during training (Figures 6 and 11).

The same training as of Tables 1 and 2, from pre-trained and from random weights. At some of its steps the
loss of a fixed batch is followed against its gradient: by steps in proportion to the gradient's size (Figure
6), and by steps of fixed length (Figure 11).
"""

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.metrics.loss_variation import loss_variation
from alignbook.seeding import torch_stream
from alignbook.training.fine_tune import fine_tune
from companion.jobs import jobs_over
from companion.studies.transferability.shared.pretrained_source import source_jobs
from companion.studies.transferability.shared.targets import STARTS, named, start_of, training_of
from companion.studies.transferability.shared.tuned import started, target

from .design import PROTOCOLS

EARLY = (0, 1, 2, 4, 8, 16, 32)  # steps recorded beside every eighth of all: the loss falls fastest there


def recorded(steps):
    """The step counts at which the variation is measured in a run of ``steps`` steps; ascending."""
    return sorted({step for step in EARLY if step <= steps} | {round(steps * n / 8) for n in range(9)})


def jobs(parameters):
    """One job per target, start and seed."""
    made = []
    for name in parameters["targets"]:
        arguments = named(name) | training_of(parameters) | start_of(parameters)
        for key in ("learning_rate", "images", "lengths", "near"):
            arguments[key] = parameters[key]
        seeds = range(parameters["seeds"])
        made += jobs_over(f"{name}-{{start}}-seed{{seed}}", compute, arguments, start=STARTS, seed=seeds)
    return made + source_jobs(parameters)


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
