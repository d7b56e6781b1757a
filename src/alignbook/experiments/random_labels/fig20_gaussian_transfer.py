"""Transfer functions of Gaussian inputs that only fall, rise and fall, only rise (Figure 20, Appendix E.1).

The network of the right panel is the one of Figure 4 (left): its units are Figure 4's, stored there.
"""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import torch

from alignbook.claims import CONTRADICTED, HOLDS, UNDECIDED, Claim, KeyNumber
from alignbook.data import random_labels
from alignbook.errors import require_finite
from alignbook.experiments import Unit
from alignbook.kernels.many_mlps import step as descend
from alignbook.seeding import torch_stream

from . import fig04_transfer_function as fig04

HEADLINE = "shapes"
# E.1: inputs' dimension and smallest variance, both hidden widths, inputs; whether f rises, whether it falls.
PRINTED = {
    "left": ((10, 1.0, 2048, 256, 10_000), (False, True)),
    "middle": ((30, 0.1, 2048, 256, 10_000), (True, True)),
    "right": ((30, 0.1, 256, 256, 2_000), (True, False)),
}
SAID = {"left": "only falls", "middle": "rises, then falls", "right": "only rises"}
UNITS = {"left": "left-", "middle": "middle-", "right": "gaussian-"}  # how the names of their units begin
SOURCE = "Figure 20, Appendix E.1"


def settings(parameters):
    """{panel: (dimension, smallest variance, first width, second width, inputs)} of ``parameters``."""
    wide = (parameters["first_hidden"], parameters["hidden"], parameters["inputs"])
    equal = (parameters["hidden"], parameters["hidden"], parameters["inputs_right"])
    return {
        "left": (parameters["dimension_left"], 1.0, *wide),
        "middle": (parameters["dimension"], 0.1, *wide),
        "right": (parameters["dimension"], 0.1, *equal),
    }


def units(parameters):
    """Groups of networks for each panel; the right panel's are Figure 4's."""
    shared = {name: parameters[name] for name in ("networks", "rate", "goal", "max_steps", "hidden")}
    made = []
    for panel in ("left", "middle"):
        dimension, lowest, first, _, inputs = settings(parameters)[panel]
        for group in range(parameters["groups"]):
            own = {"dimension": dimension, "lowest": lowest, "first_hidden": first, "inputs": inputs}
            made.append(Unit(f"{panel}-group{group}", compute, shared | own | {"seed": group}))
    dimension, *_, inputs = settings(parameters)["right"]
    for group in range(parameters["groups_right"]):
        arguments = shared | {"dimension": dimension, "inputs": inputs, "seed": group}
        made.append(Unit(f"gaussian-{inputs}-group{group}", fig04.compute, arguments))
    return made


def compute(
    *,
    dimension,
    lowest,
    first_hidden,
    hidden,
    inputs,
    networks,
    rate,
    goal,
    max_steps,
    seed,
    device,
    report,
):
    """Train ``networks`` networks dimension-first_hidden-hidden-10 on Gaussian inputs, as Figure 4's.

    Covariance diag(lowest, lowest + 0.1, …); He normal weights, zero biases; every network has ``inputs``
    inputs and random labels of its own and descends their mean cross-entropy at ``rate``. Its first layer is
    taken when its loss, looked at every 10 steps, is first below ``goal`` (nats), else after ``max_steps``.
    Columns as in Figure 4's: one row per network and direction. Raises Diverged.
    """
    sigma = (lowest + 0.1 * torch.arange(dimension, dtype=torch.float64)).sqrt()
    generator = torch_stream(seed, "figure 20", dimension, inputs)
    x = torch.randn(networks, inputs, dimension, generator=generator) * sigma.float()
    labels = random_labels(networks * inputs, fig04.CLASSES, generator).reshape(networks, inputs)
    sizes = [dimension, first_hidden, hidden, fig04.CLASSES]
    weights = [
        (torch.randn(networks, before, after, generator=generator) * math.sqrt(2 / before)).to(device)
        for before, after in zip(sizes, sizes[1:], strict=False)
    ]
    biases = [torch.zeros(networks, 1, after, device=device) for after in sizes[1:]]
    x = x.to(device)
    targets = torch.nn.functional.one_hot(labels, fig04.CLASSES).float().to(device)
    start = weights[0].clone()
    left = list(range(networks))  # whose goal is not reached; only these are trained on
    tables = {}
    for count in range(max_steps + 1):
        look = count % fig04.CHECK_EVERY == 0 or count == max_steps
        before = weights[0].clone() if look else None
        losses = descend(weights, biases, x, targets, rate)
        if not look:
            continue
        values = losses.tolist()
        require_finite(sum(values), count)
        done = [k for k, loss in enumerate(values) if loss < goal or count == max_steps]
        for k in done:
            found = {"steps": count, "loss": values[k], "converged": int(values[k] < goal)}
            tables[left[k]] = _rows(sigma, start[left[k]], before[k]).assign(
                kind="gaussian", network=seed * networks + left[k], **found
            )
        if done:
            kept = [k for k in range(len(left)) if k not in done]
            left = [left[k] for k in kept]
            weights, biases = ([part[kept] for part in parts] for parts in (weights, biases))
            x, targets = x[kept], targets[kept]
        if not left:
            break
        report(count / max_steps, f"step {count}, loss {max(values):.3f}")
    return pd.concat([tables[k] for k in range(networks)], ignore_index=True)


def _rows(sigma, first, last):
    """One network's rows: ``first``, ``last`` (dimension, filters), its first layer before and after."""
    first, last = (layer.double().cpu().numpy() for layer in (first, last))
    return pd.DataFrame(
        {
            "index": range(len(sigma)),
            "sigma": sigma.numpy(),
            "tau": last.std(1),
            "mean": last.mean(1),
            "tau_start": first.std(1),
            "displacement": np.linalg.norm(last - first) / np.linalg.norm(first),
        }
    )


def rows_of(table, panel):
    """The rows of one panel; none where nothing is stored."""
    return table[table["unit"].astype(str).str.startswith(UNITS[panel])]


def growth(rows):
    """τ after training over τ before: (networks × directions) frame, columns σ ascending."""
    after, before = (
        rows.pivot(index="network", columns="index", values=name) for name in ("tau", "tau_start")
    )
    return (after / before).set_axis(sorted(rows["sigma"].unique()), axis=1)


def transfer(rows):
    """τ after training, as Figure 20 draws it: (networks × directions) frame, columns σ ascending."""
    after = rows.pivot(index="network", columns="index", values="tau")
    return after.set_axis(sorted(rows["sigma"].unique()), axis=1)


def changes(table, curves=growth):
    """{panel: (rises, falls)}, :func:`fig04.rise_and_fall` of every network, of panels with results.

    curves : :func:`growth` or :func:`transfer`
    """
    found = {panel: rows_of(table, panel) for panel in PRINTED}
    return {panel: fig04.rise_and_fall(curves(rows)) for panel, rows in found.items() if len(rows)}


def claims(table, parameters):
    """Every panel rises or does not, falls or does not, as Figure 20 has it; and all of it at once.

    All of it holds where each of the six does, and disagrees where one does: it is the one that is
    furthest from holding. Settings of sizes other than E.1's are ours. Fixed before the first run; the same
    six of τ itself, by the same rule, were added after it.
    """
    said = "The growth of τ has the shape of its panel: it only falls, rises and then falls, only rises."
    about = (HEADLINE, f"{said} Measured: of its six parts the furthest from it.", SOURCE)
    found = changes(table)
    made = _parts(found, parameters, "growth of τ, after over before training,", "Growth")
    drawn = _parts(changes(table, transfer), parameters, "τ = f(σ) as drawn", "τ itself", before="tau-")
    if len(found) < len(PRINTED):
        return [Claim.missing(*about, "not all three settings are among the results"), *made, *drawn]
    order = [CONTRADICTED, UNDECIDED, HOLDS]
    low = {c.id: c.interval[0] if c.interval else -math.inf for c in made}
    weakest = min(made, key=lambda c: (order.index(c.outcome), low[c.id]))
    named = dict(zip(("id", "statement", "source"), about, strict=True))
    test = f"{weakest.id}: {weakest.test}"
    whole = replace(weakest, **named, test=test, group=None, ours=any(c.ours for c in made))
    return [whole, *made, *drawn]


def _parts(found, parameters, what, group, before=""):
    """The six statements about curves of ``what``, whose rises and falls are ``found`` (:func:`changes`)."""
    made = []
    for panel, setting in settings(parameters).items():
        printed, shape = PRINTED[panel]
        words = f"{setting[2]}-{setting[3]} wide, {setting[4]:,} inputs of dimension {setting[0]}"
        for number, (word, does) in enumerate(zip(("rises", "falls"), shape, strict=True)):
            id = before + (f"{panel}-{word}" if does else f"{panel}-no-{word[:-1]}")
            statement = f"{panel}: {what} {'' if does else 'nowhere '}{word} ({words})."
            if panel not in found:
                claim = Claim.missing(id, statement, SOURCE, "not among the results")
            else:
                sign = 1 if does else -1
                values = sign * found[panel][number]
                claim = Claim.greater(id, statement, SOURCE, values, what="network")
            made.append(claim.tagged(f"{group}, {panel}: {SAID[panel]}.", ours=setting != printed))
    return made


def percent(values):
    """Mean change of a curve in percent, from differences of its logarithm."""
    return f"{100 * np.expm1(np.mean(values)):+.1f} %"


def finding(table, parameters):
    """How far τ's growth rises and falls in each panel, beside Figure 20's words, and how τ itself fares."""
    found = changes(table)
    if not found:
        return "No network is among the results: there is nothing to see."
    parts = [
        f"{panel} ({SAID[panel]} in the paper) {percent(rises)}, then {percent(-falls)}"
        for panel, (rises, falls) in found.items()
    ]
    ours = [panel for panel, setting in settings(parameters).items() if setting != PRINTED[panel][0]]
    sizes = f" Sizes of {' and '.join(ours)} are ours." if ours else ""
    drawn = [claim for claim in claims(table, parameters) if claim.id.startswith("tau-")]
    holds = sum(claim.outcome == HOLDS for claim in drawn)
    return (
        f"Growth of τ by training, to its top and from there: {'; '.join(parts)}. "
        f"τ itself has {holds} of {len(drawn)} parts of the shapes.{sizes}"
    )


def key_numbers(table, parameters):
    """Rise and fall of every panel beside the words of E.1."""
    return [
        KeyNumber(f"rise / fall of τ's growth, {panel}", f"{percent(rises)} / {percent(-falls)}", SAID[panel])
        for panel, (rises, falls) in changes(table).items()
    ]
