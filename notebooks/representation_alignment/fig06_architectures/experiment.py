"""Alignment before and after training, over architecture, optimiser and batch size (Figures 6, 17, 18).

A *setting* is a network and how it is trained. Each of five families varies one choice around the base: four
hidden layers of width 128, ReLU, Adam (Section 5).
"""

import math
from dataclasses import asdict, dataclass, replace
from itertools import pairwise

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.claims import CONTRADICTED, HOLDS, UNDECIDED, Claim, KeyNumber
from alignbook.data.tables import TABLES
from alignbook.experiments import Unit
from alignbook.seeding import torch_stream
from alignbook.studies.representation_alignment.alignment_grid import DIGITS, THRESHOLDS, curve
from alignbook.studies.representation_alignment.hidden_layers import logistic, squared
from alignbook.studies.representation_alignment.two_classes import labelled
from alignbook.training.loop import module_step, train

HEADLINE = "raises"
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
SHOWN = 3  # exceptions that the finding names
NAMES = {"ct_slices": "CT Position", "mnist": "MNIST", "cifar10": "CIFAR-10"}
SHORT = {"leaky relu": "LeakyReLU", "prelu": "PReLU", "relu": "ReLU", "adam": "Adam", "rmsprop": "RMSprop"}


@dataclass(frozen=True)
class Setting:
    """One network and its training; the defaults are the base of Section 5."""

    depth: int = 4
    width: int = 128
    activation: str = "relu"
    optimiser: str = "adam"
    batch_size: int = 64


BASE = Setting()
FAMILIES = {
    "depths": "depth",
    "widths": "width",
    "activations": "activation",
    "optimisers": "optimiser",
    "batch_sizes": "batch_size",
}


def families(parameters):
    """{field of a setting: {value: Setting}}, the base among each where its value is asked for."""
    return {
        field: {value: replace(BASE, **{field: value}) for value in parameters[name]}
        for name, field in FAMILIES.items()
    }


def settings(parameters):
    """{label: Setting}, each once, in the order of the families; the base is ``base``."""
    made = {}
    for field, members in families(parameters).items():
        for value, setting in members.items():
            made["base" if setting == BASE else label(field, value)] = setting
    return made


def label(field, value):
    """A setting's name: what it changes of the base."""
    word = SHORT.get(value, value)
    return f"{field.replace('_', ' ')} {word}" if isinstance(value, int) else str(word)


def units(parameters):
    """One unit per data set and seed, with all settings; another of slow SGD alone where it is to go on."""
    chosen = {name: asdict(setting) for name, setting in settings(parameters).items()}
    slow = {"slow sgd": asdict(replace(BASE, optimiser="slow sgd"))}
    kinds = [("", compute, parameters["steps"], chosen)]
    if parameters["slow_steps"]:
        kinds.append(("-slow", compute_slow, parameters["slow_steps"], slow))
    return [
        Unit(
            f"{dataset}{word}-seed{seed}",
            function,
            {
                "dataset": dataset,
                "points": parameters["points"],
                "steps": steps,
                "settings": which,
                "seed": seed,
            },
        )
        for word, function, steps, which in kinds
        for dataset in parameters["datasets"]
        for seed in range(parameters["seeds"])
    ]


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


def areas(table, dataset, split):
    """(seeds × (quantity, setting)) frame, quantities ``init``, ``trained`` and ``loss``; empty if none."""
    if "kind" not in table:
        return pd.DataFrame()
    rows = table[(table["kind"] == "area") & (table["dataset"] == dataset) & (table["split"] == split)]
    return rows.pivot(index="seed", columns="setting", values=["init", "trained", "loss"])


def gains(table, dataset, split, against):
    """(seeds × settings) frame: area after training less that ``against``: init, inputs or the larger."""
    found = areas(table, dataset, split)
    if found.empty:
        return found
    names = [name for name in found["trained"] if name != "inputs"]
    init, inputs = found["init"][names], found["init", "inputs"]
    if against == "inputs":
        init = init.mul(0).add(inputs, axis=0)
    elif against == "larger":
        init = init.clip(lower=inputs, axis=0)
    return found["trained"][names] - init


def over_thresholds(table, split="train"):
    """(share of cases (data set, setting, threshold) in which training raises alignment, largest fall).

    Of means over the runs; the fall over ‖y‖². Thresholds at which it neither rises nor falls (those above
    every singular value) are left out.
    """
    rows = table[(table["kind"] == "curve") & (table["split"] == split) & (table["setting"] != "inputs")]
    change = (rows["trained"] - rows["init"]).groupby([rows["dataset"], rows["setting"], rows["threshold"]])
    mean = change.mean()
    moved = mean[mean.abs() > 10.0**-DIGITS]
    return float((moved > 0).mean()), max(float(-moved.min()), 0.0)


# {id: (split, what is compared with, in short, statement, source)}
STATEMENTS = {
    "raises": (
        "train",
        "init",
        "area after training less before it",
        "Training raises alignment with the training labels.",
        "Figures 6 and 17, Section 5",
    ),
    "inputs": (
        "train",
        "inputs",
        "area after training less that of the inputs",
        "After training, the last hidden layer aligns more than the inputs.",
        "Figures 6 and 17, Section 5",
    ),
    "test": (
        "test",
        "larger",
        "area on test data after training less the larger of both",
        "On test data, too, training raises alignment above that before training and that of the inputs.",
        "Figure 18, Section 5",
    ),
}


def claims(table, parameters):
    """One claim per statement, data set and setting; and what Section 5 and the abstract say of depth."""
    made = []
    for id, (split, against, short, statement, source) in STATEMENTS.items():
        for dataset in parameters["datasets"]:
            found = gains(table, dataset, split, against)
            for name in settings(parameters):
                said = f"{NAMES.get(dataset, dataset)}, {name}: {short}."
                about = (f"{id}-{dataset}-{name.replace(' ', '-')}", said, source)
                if found.empty:
                    claim = Claim.missing(*about, "nothing was computed")
                else:
                    claim = Claim.greater(*about, found[name])
                made.append(claim.tagged(group=statement))
    return [*made, *_depth_claims(table, parameters)]


def _depth_claims(table, parameters):
    statement = "The deeper the network, the more alignment after training."
    made = []
    for dataset in parameters["datasets"]:
        said = f"{NAMES.get(dataset, dataset)}: slope of the area over the number of layers, per doubling."
        about = (f"depth-{dataset}", said, "Abstract, (a); Figure 6")
        slopes = depth_slopes(table, parameters, dataset)
        if slopes is None:
            claim = Claim.missing(*about, "fewer than two depths")
        else:
            claim = Claim.greater(*about, slopes).opposed(
                "the abstract has more alignment arising from depth, Section 5 finds no consistent increase"
            )
        made.append(claim.tagged(group=statement))
    return made


def depth_slopes(table, parameters, dataset):
    """Least-squares slope of the area after training over log₂ of the depth, one per seed, or None."""
    found = areas(table, dataset, "train")
    depths = families(parameters)["depth"]
    if found.empty or len(depths) < 2:
        return None
    names = {depth: "base" if setting == BASE else label("depth", depth) for depth, setting in depths.items()}
    return np.polyfit(np.log2(list(names)), found["trained"][list(names.values())].T, 1)[0]


def exceptions(table, parameters, id="raises"):
    """{``data set, setting``: outcome} of the settings in which the statement ``id`` is not found to hold."""
    split, against, *_ = STATEMENTS[id]
    found = {}
    for dataset in parameters["datasets"]:
        for name, values in gains(table, dataset, split, against).items():
            outcome = Claim.greater(id, "", "", values).outcome
            if outcome != HOLDS:
                found[f"{NAMES.get(dataset, dataset)}, {plain(name)}"] = outcome
    return found


def plain(name):
    """A setting's name in words: plain SGD has two step sizes."""
    return f"plain SGD at {OPTIMISERS[name][1]:g}" if name in ("sgd", "slow sgd") else name


def _but(found):
    """`` (undecided: MNIST, linear)``: the first of ``exceptions`` by outcome, or nothing."""
    words = {UNDECIDED: "undecided", CONTRADICTED: "not"}
    parts = []
    for outcome, word in words.items():
        names = [name for name, one in found.items() if one == outcome]
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        parts += [f"{word}: {'; '.join(names[:SHOWN])}{more}"] if names else []
    return f" ({', '.join(parts)})" if parts else ""


def finding(table, parameters):
    """In how many settings each statement holds, and the exceptions by name."""
    cases = len(parameters["datasets"]) * len(settings(parameters))
    if "kind" not in table:
        return "Nothing was computed."
    fall, inputs, test = (exceptions(table, parameters, id) for id in STATEMENTS)
    linear = "linear" in parameters["activations"] and not any("linear" in name for name in fall)
    said = (
        f"Training raises alignment with the labels (area under the curve) in {cases - len(fall)} of {cases} "
        f"settings{_but(fall)}{', linear networks among them' * linear}. Afterwards it lies above that of "
        f"the inputs in {cases - len(inputs)}"
    )
    if inputs == test:
        said += f", on test data too{_but(test)}"
    else:
        said += f"{_but(inputs)}, on test data in {cases - len(test)}{_but(test)}"
    return f"{said}{'; CT Position: only the rows at hand' * ('ct_slices' in parameters['datasets'])}."


def key_numbers(table, parameters):
    """The base network's areas, the share of thresholds, and the settings that hold on test data."""
    if "kind" not in table:
        return []
    shown = {}
    for dataset in parameters["datasets"]:
        found = areas(table, dataset, "train")
        if "base" in found["trained"]:
            values = (found["init", "inputs"], found["trained", "base"])
            shown[NAMES.get(dataset, dataset)] = " / ".join(f"{part.mean():.2f}" for part in values)
    share, fall = over_thresholds(table)
    what = f"area, inputs / base network after training: {', '.join(shown)}"
    result = [KeyNumber(what, ", ".join(shown.values()))]
    where = "settings and thresholds at which training raises alignment; largest fall elsewhere, of ‖y‖²"
    result.append(KeyNumber(where, f"{share:.0%}; {fall:.2%}"))
    cases = len(parameters["datasets"]) * len(settings(parameters))
    held = [str(cases - len(exceptions(table, parameters, id))) for id in STATEMENTS]
    what = f"settings of {cases}: above before training / above the inputs / above both on test data"
    return [*result, KeyNumber(what, " / ".join(held), "all")]
