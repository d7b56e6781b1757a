"""Alignment before and after training, over architecture, optimiser and batch size (Figures 6, 17, 18).

A *setting* is a network and how it is trained. Each of five families varies one choice around the base: four
hidden layers of width 128, ReLU, Adam (Section 5).
"""

import math
from dataclasses import asdict, replace
from itertools import pairwise

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.data.tables import TABLES
from alignbook.seeding import torch_stream
from alignbook.training.loop import module_step, train
from companion.jobs import jobs_over
from companion.studies.representation_alignment.shared.alignment_grid import DIGITS, THRESHOLDS, curve
from companion.studies.representation_alignment.shared.hidden_layers import logistic, squared
from companion.studies.representation_alignment.shared.two_classes import labelled

from .design import BASE, Setting, settings

ACTIVATIONS = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "prelu": nn.PReLU,
    "leaky relu": nn.LeakyReLU,
    "linear": nn.Identity,
}
# {name: (optimiser, step size)}; the paper gives neither.
OPTIMISERS = {
    "adam": (torch.optim.Adam, 0.001),
    "rmsprop": (torch.optim.RMSprop, 0.001),
    "momentum": (torch.optim.SGD, 0.01),
    "sgd": (torch.optim.SGD, 0.1),
    "slow sgd": (torch.optim.SGD, 0.01),
}


def jobs(parameters):
    """One job per data set and seed, with all settings; another of slow SGD alone where it is to go on."""
    chosen = {name: asdict(setting) for name, setting in settings(parameters).items()}
    slow = {"slow sgd": asdict(replace(BASE, optimiser="slow sgd"))}
    kinds = [("", compute, parameters["steps"], chosen)]
    if parameters["slow_steps"]:
        kinds.append(("-slow", compute_slow, parameters["slow_steps"], slow))
    datasets, seeds = parameters["datasets"], range(parameters["seeds"])
    made = []
    for word, function, steps, which in kinds:
        shared = {"points": parameters["points"], "steps": steps, "settings": which}
        made += jobs_over(f"{{dataset}}{word}-seed{{seed}}", function, shared, dataset=datasets, seed=seeds)
    return made


def compute(*, dataset, points, steps, settings, seed, device, report):
    """Train one network per setting and measure its last hidden layer. Rows of the table, by ``kind``:

    ``area`` : setting (``inputs`` for the data themselves), split, init and trained: :func:`curve`'s areas
        before and after training, of the inputs both the same, and loss, the last epoch's mean;
    ``curve`` : setting, split, threshold (over √n), init and trained: alignment over ‖y‖².
    """
    data = labelled(dataset, points, seed)
    loss = squared if dataset in TABLES else logistic
    rows = []
    for split, (x, y) in data.items():
        found = curve(x, y)
        rows += _rows("inputs", split, found, found, math.nan)
    x, y = (part.to(device, torch.float32) for part in data["train"])
    for done, (name, values) in enumerate(settings.items()):
        setting = Setting(**values)
        net = network(setting, x.shape[1], torch_stream(seed, "fig06", "network")).to(device)
        before = measured(net, data)
        make, rate = OPTIMISERS[setting.optimiser]
        more = {"fused": True} if setting.optimiser == "adam" else {}
        more |= {"momentum": 0.9} if setting.optimiser == "momentum" else {}
        optimiser = make(net.parameters(), lr=rate, **more)
        trained = train(
            module_step(net, x, y, optimiser, loss=loss),
            len(y),
            batch_size=setting.batch_size,
            steps=steps,
            rate=rate,
            generator=torch_stream(seed, "fig06", "batches"),
            device=device,
        )
        for split, found in measured(net, data).items():
            rows += _rows(name, split, before[split], found, trained.loss)
        report((done + 1) / len(settings), name)
    return pd.DataFrame(rows)


def compute_slow(**arguments):
    """The rows of :func:`compute`, their kinds ``slow area`` and ``slow curve``: another number of steps."""
    table = compute(**arguments)
    return table.assign(kind="slow " + table["kind"])


def network(setting, inputs, generator):
    """nn.Sequential of ``setting`` for ``inputs`` features, one output, with biases.

    Weights and biases are uniform on ± 1/√fan_in, the default of nn.Linear; PReLU starts at a slope of 0.25.
    """
    modules = []
    for fan_in, out in pairwise([inputs, *[setting.width] * setting.depth, 1]):
        linear = nn.Linear(fan_in, out, device="meta")
        for name, shape in (("weight", (out, fan_in)), ("bias", (out,))):
            draw = (2 * torch.rand(shape, generator=generator) - 1) / math.sqrt(fan_in)
            setattr(linear, name, nn.Parameter(draw))
        modules += [linear, ACTIVATIONS[setting.activation]()]
    return nn.Sequential(*modules[:-1])


@torch.no_grad()
def measured(net, data):
    """{split: :func:`curve` of the last hidden layer}."""
    device = next(net.parameters()).device
    return {split: curve(net[:-1](x.to(device, torch.float32)).cpu(), y) for split, (x, y) in data.items()}


def _rows(setting, split, before, after, loss):
    about = {"setting": setting, "split": split}
    areas = {"init": before[0], "trained": after[0], "loss": loss}
    grid = np.linspace(0, 1, THRESHOLDS).round(DIGITS)
    curves = zip(grid, before[1].round(DIGITS), after[1].round(DIGITS), strict=True)
    return [
        {"kind": "area"} | about | areas,
        *({"kind": "curve"} | about | {"threshold": t, "init": b, "trained": a} for t, b, a in curves),
    ]
