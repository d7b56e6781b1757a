"""Transfer function f(σ) from data to first-layer weights (Maennel et al. 2020, Figure 4).

``gaussian-…`` units: fully connected networks on Gaussian inputs with random labels (left, E.1). The
centre and right panels take Figure 2's runs as they are, so that these are computed and stored once.
"""

import math

import numpy as np
import pandas as pd
import torch

from alignbook.claims import Claim, KeyNumber, interval
from alignbook.data import random_labels
from alignbook.errors import require_finite
from alignbook.experiments import Unit
from alignbook.kernels.many_mlps import step as descend
from alignbook.seeding import torch_stream

from . import fig02_misalignment as fig02

CLASSES = 10  # E.1
ONLY_RISES = (30, 256, 2000)  # E.1, Figure 20 (right): dimension, width and inputs of a curve without a fall
FEWEST_STEPS = 5 * 195  # caption: the first curve drawn is after 5 epochs of about 195 steps
HEADLINE = "falls-random"
RISES, FALLS = "Training makes f(σ) rise at first.", "Training makes f(σ) fall in the end."
CHECK_EVERY = 10  # steps between looks at the losses


def units(parameters):
    """Groups of networks for every number of inputs (left), and Figure 2's runs (centre, right).

    As in Figure 2's sweep, one trial run of each kind of labels for every scale in ``other_scales``.
    """
    result = []
    for inputs in parameters["inputs"]:
        for group in range(parameters["groups"]):
            arguments = {
                "inputs": inputs,
                "networks": parameters["networks"],
                "dimension": parameters["dimension"],
                "hidden": parameters["gaussian_hidden"],
                "rate": parameters["rate"],
                "goal": parameters["goal"],
                "max_steps": parameters["max_steps"],
                "seed": group,
            }
            result.append(Unit(f"gaussian-{inputs}-group{group}", compute, arguments))
    for scale in parameters["other_scales"]:
        result += fig02.sweep_units(parameters, scale, 1)
    return result + fig02.figure_units(parameters)


def variances(dimension):
    """Eigenvalues σ² of the input covariance, 0.1, 0.2, … (caption of Figure 4, E.1); (dimension,)."""
    return 0.1 * np.arange(1, dimension + 1)


def compute(*, inputs, networks, dimension, hidden, rate, goal, max_steps, seed, device, report):
    """Train ``networks`` networks to convergence on data of their own, all in one batched program.

    Network: dimension-hidden-hidden-10, ReLU, He normal weights, zero biases. Each sees ``inputs``
    Gaussian vectors with covariance diag(0.1, 0.2, …) and random labels, and descends the mean
    cross-entropy of all of them at ``rate``. Its first layer is taken when its loss, looked at every 10
    steps, is first below ``goal`` (nats), else after ``max_steps``.

    Returns one row per network and input direction, ``kind == "gaussian"``: ``network`` (0, 1, …),
    ``index``, ``sigma``, ``tau`` (standard deviation over the network's filters), ``mean`` (over them),
    ``tau_start`` (before training), ``steps``, ``loss``, ``converged`` (0 or 1), ``displacement``.
    Raises Diverged.
    """
    variance = torch.tensor(variances(dimension), dtype=torch.float32)
    generator = torch_stream(seed, "gaussian", inputs)
    x = torch.randn(networks, inputs, dimension, generator=generator) * variance.sqrt()
    labels = random_labels(networks * inputs, CLASSES, generator).reshape(networks, inputs)
    sizes = [dimension, hidden, hidden, CLASSES]
    weights = [
        (torch.randn(networks, before, after, generator=generator) * math.sqrt(2 / before)).to(device)
        for before, after in zip(sizes, sizes[1:], strict=False)
    ]
    biases = [torch.zeros(networks, 1, after, device=device) for after in sizes[1:]]
    x = x.to(device)
    targets = torch.nn.functional.one_hot(labels, CLASSES).float().to(device)
    start = weights[0].clone()
    taken = [None] * networks  # (first layer, steps, loss, converged) of each network
    for count in range(max_steps + 1):
        look = count % CHECK_EVERY == 0 or count == max_steps
        before = weights[0].clone() if look else None
        losses = descend(weights, biases, x, targets, rate)
        if look:
            values = losses.tolist()
            require_finite(sum(values), count)
            for k, loss in enumerate(values):
                if taken[k] is None and (loss < goal or count == max_steps):
                    taken[k] = (before[k].clone(), count, loss, int(loss < goal))
            if all(taken):
                break
            report(count / max_steps, f"step {count}, loss {max(values):.3f}")
    rows = []
    for k, (layer, count, loss, converged) in enumerate(taken):
        first = start[k].double().cpu().numpy()
        layer = layer.double().cpu().numpy()  # (dimension, hidden): columns are filters
        shared = {
            "kind": "gaussian",
            "network": seed * networks + k,
            "steps": count,
            "loss": loss,
            "converged": converged,
            "displacement": np.linalg.norm(layer - first) / np.linalg.norm(first),
        }
        curve = zip(np.sqrt(variances(dimension)), layer.std(1), layer.mean(1), first.std(1), strict=True)
        rows += [
            {**shared, "index": i, "sigma": sigma, "tau": tau, "mean": mean, "tau_start": tau_start}
            for i, (sigma, tau, mean, tau_start) in enumerate(curve)
        ]
    return pd.DataFrame(rows)


def pooled(rows):
    """f(σ) of the covariance of all networks' filters together (Section 2.3), from "gaussian" rows.

    Returns a table with ``sigma``, ``tau`` and ``low``, ``high``: mean ± one standard deviation of τ
    over the networks.
    """
    result = []
    for _, group in rows.groupby("index"):
        square = (group["tau"] ** 2 + group["mean"] ** 2).mean() - group["mean"].mean() ** 2
        spread = group["tau"].std(ddof=1) if len(group) > 1 else 0.0
        centre = group["tau"].mean()
        sigma = group["sigma"].iloc[0]
        result.append({"sigma": sigma, "tau": square**0.5, "low": centre - spread, "high": centre + spread})
    return pd.DataFrame(result)


def growth(table, unit):
    """τ at the last recorded epoch over τ before training of one of Figure 2's units, against σ.

    Columns ``sigma`` and ``growth``, one row per direction; empty where the unit is not in ``table``.
    """
    rows = table[(table["unit"] == unit) & (table["kind"] == "transfer")]
    if rows.empty:
        return pd.DataFrame(columns=["sigma", "growth"])
    tau = rows.pivot(index="index", columns="epoch", values="tau").sort_index(axis=1)
    sigma = rows.groupby("index")["sigma"].first()
    return pd.DataFrame({"sigma": sigma, "growth": tau.iloc[:, -1] / tau.iloc[:, 0]})


def rise_and_fall(curves):
    """How far f rises from its smallest σ to its peak and falls from there to its largest σ.

    curves : (n, d), τ of n networks or seeds along d ≥ 3 directions, σ ascending. The curves are split
    into two halves, and each is measured at the peak of the *other* half's mean: the highest of many noisy
    points of a curve itself would lie above both ends by chance. For the rise the first point may not be
    the peak, for the fall the last one may not: so a curve that only rises has a negative fall.

    Returns (rise, fall), each (n,): differences of ln τ, expected to be 0 for a flat curve.
    """
    log_tau = np.log(np.asarray(curves))
    rise, fall = np.empty(len(log_tau)), np.empty(len(log_tau))
    halves = np.arange(len(log_tau)) % 2
    for half in (0, 1):
        own = halves == half
        other = log_tau[~own].mean(0) if (~own).any() else log_tau[0]
        part = log_tau[own]
        rise[own] = part[:, 1 + other[1:].argmax()] - part[:, 0]
        fall[own] = part[:, other[:-1].argmax()] - part[:, -1]
    return rise, fall


def panels_of(table, parameters):
    """(id, name, rows after training, rows before, what an interval is over) of each panel."""
    panels = []
    table = fig02.complete(table)
    for inputs in parameters["inputs"]:
        rows = table[(table["kind"] == "gaussian") & (table["inputs"] == inputs)]
        before = rows.assign(tau=rows["tau_start"])
        panels.append((f"gaussian-{inputs}", f"Gaussian inputs ({inputs} of them)", rows, before, "network"))
    for labels in ("random", "real"):
        rows = fig02.runs(table, labels)
        rows = rows[rows["kind"] == "transfer"]
        last, first = (rows[rows["epoch"] == epoch] for epoch in (rows["epoch"].max(), rows["epoch"].min()))
        panels.append((labels, f"{parameters['dataset']} with {labels} labels", last, first, "seed"))
    return panels


def _changes(rows, before, over):
    """(rises, falls) of :func:`rise_and_fall`, one of each per network or seed."""
    after, start = (part.pivot(index=over, columns="index", values="tau") for part in (rows, before))
    return rise_and_fall(after / start)


def finding(table, parameters):
    """By how much the curve rises and falls in each panel."""
    changes = {"images": [], "Gaussian inputs": []}
    for _, _, rows, before, over in panels_of(table, parameters):
        if not rows.empty:
            rise, fall = (values.mean() for values in _changes(rows, before, over))
            changes["images" if over == "seed" else "Gaussian inputs"].append((rise, -fall))
    parts = []
    for where, found in changes.items():
        if found:
            up, down = (_range(np.expm1(values)) for values in zip(*found, strict=True))
            parts.append(f"{where} {up}, then {down}")
    return f"Change of f(σ) by training, from small σ to the peak and from there on: {'; '.join(parts)}."


def _range(values):
    """``+11 %`` or ``+11 to +21 %``: the value nearest to zero and the farthest of shares ``values``."""
    ends = sorted((min(values), max(values)), key=abs)
    return " to ".join(dict.fromkeys(f"{100 * value:+.0f}" for value in ends)) + " %"


def key_numbers(table, parameters):
    """The fall in the panels with images."""
    result = []
    for name, where, rows, before, over in panels_of(table, parameters):
        if name in ("random", "real") and not rows.empty:
            _, falls = _changes(rows, before, over)
            result.append(KeyNumber(f"fall of f(σ) from its top, {where}", interval(falls, "{:.2g}")))
    return result


def claims(table, parameters):
    """Rises, then falls, in each panel: :func:`rise_and_fall` of τ after over τ before training is positive.

    The third rule; the page says why the others were given up. Runs on images of fewer steps than the
    figure's first curve are not judged: so since the results of profile quick, which this takes verdicts
    from. Nor is the fall of a network of which the paper says both.
    """
    result = []
    short = parameters["epochs"] * (parameters["images"] // parameters["batch_size"]) < FEWEST_STEPS
    *of_network, inputs = ONLY_RISES
    same = [parameters["dimension"], parameters["gaussian_hidden"]] == of_network
    both = f"gaussian-{inputs}" if same else None
    why = f"fewer than the {FEWEST_STEPS} steps of the figure's first curve: shown as measured, not judged"
    for name, where, rows, before, over in panels_of(table, parameters):
        rise = (f"rises-{name}", f"{where}: training makes f(σ) rise at first.", "Figure 4, Section 2.3")
        fall = (f"falls-{name}", f"{where}: training makes f(σ) fall in the end.", "Figure 4, Section 2.3")
        if rows.empty:
            result += [Claim.missing(*which, "not among the results") for which in (rise, fall)]
            continue
        rises, falls = _changes(rows, before, over)
        found = [
            Claim.greater(*rise, rises, what=over).tagged(RISES),
            Claim.greater(*fall, falls, what=over).tagged(FALLS),
        ]
        if short and over == "seed":
            found = [claim.not_judged(why) for claim in found]
        if name == both:
            found[1] = found[1].opposed("Figure 4 falls; Figure 20 (right) has this network only rise")
        result += found
    return result
