"""One network under all four papers' instruments while it trains: what changes when. No paper has this.

A unit is one network from its initial weights: trained on real labels (``real``), or on random ones
(``random``) and then, with a new head, on the real labels of other images (``fine-tuned``). Its table has one
row per task and recorded step.
"""

import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional

from alignbook.claims import CONTRADICTED, HOLDS, NOT_JUDGED, Claim, KeyNumber
from alignbook.data import load, random_labels
from alignbook.errors import AlignbookError
from alignbook.experiments import Unit
from alignbook.metrics import (
    alignment_curve,
    hessian_eigenvalues,
    misalignment,
    misalignment_basis,
    patch_covariance,
)
from alignbook.metrics.tangent_alignment import tangent_alignment
from alignbook.seeding import numpy_stream, torch_stream
from alignbook.studies.random_labels.random_bases import random_bases
from alignbook.training.loop import module_step, train
from alignbook.training.nets import SimpleCNN, he_normal_, he_normal_layer_

HEADLINE = "features-first"
CLASSES = 10
MOMENTUM = 0.9
PATCH = 3  # pixels: the filters' side
BASES = 20  # random orthonormal bases, in place of the data's eigenvectors
TOLERANCE = 0.1  # of the curvature's residual over the eigenvalue, whose own error is about the square
PRODUCTS = 60  # Hessian-vector products at most
SETTLED = 0.25  # of the range over the run: nearer to the last value than this is settled
LARGEST_LAG = 6  # half-octaves of steps
LEAST_PAIRS = 5  # of changes, for a correlation

NETWORKS = {"convolutional": "convolutional", "dense": "fully connected"}
TASKS = {"real": "real labels", "random": "random labels", "fine-tuned": "fine-tuned from random labels"}
INSTRUMENTS = {
    "filters": "filters with data",
    "features": "features with labels",
    "tangent": "tangent kernel with labels",
    "curvature": "curvature",
}
PAIRS = tuple(itertools.combinations(INSTRUMENTS, 2))


def units(parameters):
    """Two networks per kind and seed: real labels; random labels and then fine-tuned."""
    p = parameters
    entries = 3 * PATCH**2
    if "convolutional" in p["networks"] and p["filters"][0] <= entries:
        raise AlignbookError(
            f"filters must begin with more than {entries}, not {p['filters'][0]}: else the covariance of the "
            "first layer's weights has no inverse"
        )
    names = "dataset side images init_scale learning_rate batch_size steps"
    names += " feature_images tangent_images curvature_images"
    shared = {name: p[name] for name in names.split()}
    sizes = {"convolutional": [*p["filters"], p["units"]], "dense": [p["width"]] * p["hidden"]}
    return [
        Unit(
            f"{network}-{labels}-seed{seed}",
            compute,
            {"network": network, "labels": labels, "sizes": sizes[network], "seed": seed, **shared},
        )
        for network in p["networks"]
        for labels in ("real", "random")
        for seed in range(p["seeds"])
    ]


def compute(
    *,
    dataset,
    network,
    labels,
    sizes,
    side,
    images,
    init_scale,
    learning_rate,
    batch_size,
    steps,
    feature_images,
    tangent_images,
    curvature_images,
    seed,
    device,
    report,
):
    """Train one network at a constant rate and measure it at :func:`recorded` steps of each task.

    sizes : widths of the hidden layers, of ``convolutional`` those of its convolutions and of the dense layer
    after them. images : training images of a task; random labels are drawn for as many others. side : their
    side in pixels, which must divide the data's. feature_images, tangent_images, curvature_images : how many
    of the task's images the three instruments see.

    One row per task and recorded step: task, step; loss (nats) and accuracy (0 to 1) on ``feature_images``;
    misalignment of the first layer's weights with the data, random_bases (its mean with those in place of the
    data's eigenvectors), features (:func:`share_on_top`), tangent1, tangent2, … (A_l of each layer),
    curvature (the Hessian's eigenvalue of largest magnitude) and converged. Raises Diverged.
    """
    whole = load(dataset, n=2 * images, seed=seed)
    x = functional.avg_pool2d(whole.x, whole.x.shape[-1] // side)
    random = random_labels(images, CLASSES, torch_stream(seed, "one network", "labels"))
    net = network_of(network, x.shape[1:], sizes)
    he_normal_(net, init_scale, torch_stream(seed, "one network", network, "weights"))
    net = net.to(device, memory_format=torch.channels_last)
    seen = axes(network, x)
    orthonormal = random_bases(len(seen[0]), BASES, numpy_stream(seed, "one network", "bases"))
    tasks = [("real", x[images:], whole.y[images:])]
    if labels == "random":
        tasks = [("random", x[:images], random), ("fine-tuned", x[images:], whole.y[images:])]
    rows = []
    for number, (task, inputs, targets) in enumerate(tasks):
        if task == "fine-tuned":
            he_normal_layer_(head_of(net), init_scale, torch_stream(seed, "one network", network, "head"))
        inputs = inputs if network == "convolutional" else inputs.flatten(1)
        inputs, targets = inputs.to(device), targets.to(device)

        def on(step, task=task, inputs=inputs, targets=targets):
            found = filter_scores(net, *seen, orthonormal)
            found |= learned(net, inputs[:feature_images], targets[:feature_images])
            few = slice(tangent_images)
            for layer, value in enumerate(tangent_alignment(net, inputs[few], targets[few]), 1):
                found[f"tangent{layer}"] = value
            few = slice(curvature_images)
            rows.append({"task": task, "step": step, **found, **curvature(net, inputs[few], targets[few])})

        train(
            module_step(net, inputs, targets, torch.optim.SGD(net.parameters(), learning_rate, MOMENTUM)),
            len(inputs),
            batch_size=batch_size,
            steps=steps,
            rate=learning_rate,
            # Both networks that learn the real labels see them in the same order.
            generator=torch_stream(seed, "one network", "order", task == "random"),
            device=device,
            at=recorded(steps),
            on=on,
            report=lambda done, text, n=number, task=task: report((n + done) / len(tasks), f"{task}, {text}"),
        )
    return pd.DataFrame(rows)


def recorded(steps):
    """Octaves of steps up to 8 and half-octaves from there: 0, 1, 2, 4, 8, 11, 16, 23, … and ``steps``."""
    wanted = {0, 1, 2, 4, steps, *(round(2 ** (half / 2)) for half in range(6, 2 * steps.bit_length()))}
    return sorted(step for step in wanted if step <= steps)


def network_of(network, in_shape, sizes):
    """The untrained network, with biases: :class:`SimpleCNN`, max pooling by 2, or linear layers and ReLU."""
    if network == "convolutional":
        return SimpleCNN(tuple(in_shape), sizes[:-1], sizes[-1], CLASSES, pool=(2, 2, "valid"))
    widths = [math.prod(in_shape), *sizes]
    hidden = [(nn.Linear(*pair), nn.ReLU()) for pair in itertools.pairwise(widths)]
    return nn.Sequential(*itertools.chain(*hidden), nn.Linear(sizes[-1], CLASSES))


def head_of(net):
    """The last layer, whose outputs are the logits."""
    return net.head if isinstance(net, SimpleCNN) else net[-1]


def axes(network, x):
    """What the first layer's weights are held against: (covariance (d, d), axes (inputs, d)), float64.

    Of the convolutional network the covariance of the patches, whose axes are the pixels: the identity. A
    fully connected layer has more inputs than units, so that the covariance of its weights has no inverse: of
    this the images' d leading principal axes, with d the number of entries of a patch.
    """
    dimension = x.shape[1] * PATCH**2
    if network == "convolutional":
        return np.asarray(patch_covariance(x, PATCH).cov), np.eye(dimension)
    flat = x.flatten(1).double().numpy()
    values, vectors = np.linalg.eigh(np.cov(flat, rowvar=False))
    return np.diag(values[-dimension:]), vectors[:, -dimension:]


def filter_scores(net, cov_x, directions, orthonormal):
    """Misalignment of the first layer's weights with the data (Maennel et al., 2.2) and with random bases."""
    first = net.convs[0] if isinstance(net, SimpleCNN) else net[0]
    weights = first.weight.detach().flatten(1).double().cpu().numpy() @ directions
    cov_w = np.cov(weights, rowvar=False)
    return {
        "misalignment": misalignment(cov_x, cov_w),
        "random_bases": np.mean([misalignment_basis(basis, cov_w) for basis in orthonormal]),
    }


@torch.no_grad()
def learned(net, x, y):
    """Loss, accuracy and the alignment of the last hidden layer's features with the labels."""
    kept = []
    handle = head_of(net).register_forward_pre_hook(lambda module, arguments: kept.append(arguments[0]))
    try:
        logits = net(x)
    finally:
        handle.remove()
    return {
        "loss": float(functional.cross_entropy(logits, y)),
        "accuracy": float((logits.argmax(1) == y).double().mean()),
        "features": share_on_top(kept[0], y),
    }


def share_on_top(features, y):
    """Share of ‖Ỹ‖² on the ten top left singular vectors of ``features`` (n, d) (Imani et al., Equation 2).

    Ỹ : one-hot labels less the mean of each column, since the constant feature would catch this; ten as there
    are classes. With labels that have nothing to do with the features about 10 / n.
    """
    centred = functional.one_hot(y, CLASSES).double()
    centred = (centred - centred.mean(0)).cpu().numpy()
    total = 0.0
    for column in centred.T:
        _, along = alignment_curve(features.cpu(), column)  # thresholds ascend
        total += along[max(0, len(along) - CLASSES)]
    return total / np.square(centred).sum()


def curvature(net, x, y):
    """The eigenvalue of largest magnitude of the loss's Hessian (ICLR 2020 submission, Figure 3a)."""
    found = hessian_eigenvalues(
        net, functional.cross_entropy, x, y, k=1, tol=TOLERANCE, batch_size=len(x), max_products=PRODUCTS
    )
    return {"curvature": found.eigenvalues[0], "converged": found.converged}


# What the claims rest on. Times are in octaves of steps, log₂(1 + step), so that a difference is a factor.


def tangents(rows):
    """A_l of a run, frame of (steps × layers), layers from 1."""
    layers = {name: int(name[7:]) for name in rows.columns if re.fullmatch(r"tangent\d+", name)}
    frame = rows.set_index("step")[list(layers)].rename(columns=layers)
    return frame.dropna(axis="columns", how="all")  # the other kind of network may have more layers


def instruments(rows):
    """The four instruments of one run, frame of (steps × INSTRUMENTS).

    filters : misalignment with random bases less that with the data; features : :func:`share_on_top`;
    tangent : A_l of the layer that leads at the end; curvature : log₁₀ of the eigenvalue's magnitude.
    """
    layers, rows = tangents(rows), rows.set_index("step")
    leads = layers.iloc[-1]
    size = rows["curvature"].abs()
    return pd.DataFrame(
        {
            "filters": rows["random_bases"] - rows["misalignment"],
            "features": rows["features"],
            "tangent": layers[leads.idxmax()] if leads.notna().any() else math.nan,
            "curvature": np.log10(size.where(size > 0)),
        }
    )


def half_time(series, net_change=False):
    """When half of all change has been made, in octaves, by linear interpolation; nan without change.

    series : values by step. Change is the length of the path, Σ |v_i − v_{i−1}|, which a value that rises and
    falls has, too. net_change : instead the first time at which the value is half way from first to last.
    """
    values, times = series.to_numpy(dtype=float), octaves(series.index)
    if not np.isfinite(values).all():
        return math.nan
    path = np.append(0.0, np.cumsum(np.abs(np.diff(values))))
    if net_change:
        path = (values - values[0]) * np.sign(values[-1] - values[0])
    if not path[-1] > 0:
        return math.nan
    after = int(np.argmax(path >= path[-1] / 2))
    part = (path[-1] / 2 - path[after - 1]) / (path[after] - path[after - 1])
    return times[after - 1] + part * (times[after] - times[after - 1])


def settled(series):
    """From which recorded step on, in octaves, the value stays within a quarter of its range of the last.

    inf where that is the last one itself: such a value has not settled within the run (a censored time).
    """
    values = series.to_numpy(dtype=float)
    if not np.isfinite(values).all():
        return math.nan
    return _after(np.abs(values - values[-1]) > SETTLED * np.ptp(values), series.index)


def _after(elsewhere, steps):
    """The first record (octaves) after the last of ``elsewhere`` (booleans); inf if it is the last of all."""
    others = np.flatnonzero(elsewhere)
    first = others[-1] + 1 if len(others) else 0
    return math.inf if 0 < first == len(steps) - 1 else octaves(steps)[first]


def octaves(steps):
    """log₂(1 + step), float64."""
    return np.log2(1 + np.asarray(steps, dtype=float))


def steps_of(times):
    """Steps of the mean of ``times`` in octaves."""
    return 2 ** float(np.mean(times)) - 1


def median_steps(times, last):
    """Steps of the median of ``times`` in octaves, as text; ``> last`` where that one is censored."""
    middle = float(np.median(times))
    return f"{2**middle - 1:.0f}" if math.isfinite(middle) else f"> {last}"


def runs(table):
    """[((network, task, seed), rows by step)] of the runs that were recorded three times and more."""
    if "task" not in table:
        return []
    grouped = table.groupby(["network", "task", "seed"], sort=False)
    return [(key, rows.sort_values("step")) for key, rows in grouped if len(rows) > 2]


def summary(table):
    """One row per run: network, task, seed; loss and accuracy at the end.

    half_…, net_…, settled_… of each instrument: :func:`half_time`, with the net change, :func:`settled`
    leader : the layer (from 1) whose tangent kernel leads at the end; leads_since : the record, in octaves,
    from which on it does without a break, inf for the last one; leader_start : the one that leads before
    training
    hidden : at the end, the largest A_l of a layer between the first and the last less the larger of theirs
    """
    made = []
    for (network, task, seed), rows in runs(table):
        series, layers = instruments(rows), tangents(rows)
        row = {"network": network, "task": task, "seed": seed}
        row |= {name: rows[name].iloc[-1] for name in ("loss", "accuracy")}
        for name, values in series.items():
            row |= {f"half_{name}": half_time(values), f"net_{name}": half_time(values, net_change=True)}
            row[f"settled_{name}"] = settled(values)
        if layers.notna().all(axis=None) and len(layers.columns) > 2:
            leaders = layers.idxmax(axis=1).to_numpy()
            end = layers.iloc[-1]
            row |= {
                "leader": int(leaders[-1]),
                "leader_start": int(leaders[0]),
                "leads_since": _after(leaders != leaders[-1], layers.index),
                "hidden": end.iloc[1:-1].max() - end.iloc[[0, -1]].max(),
            }
        made.append(row)
    columns = "network task seed loss accuracy leader leader_start leads_since hidden".split()
    columns += [f"{kind}_{name}" for kind in ("half", "net", "settled") for name in INSTRUMENTS]
    return pd.DataFrame(made, columns=columns)


def changes(rows):
    """Changes of the four instruments from half-octave to half-octave of steps, from step 1 to the last."""
    series = instruments(rows)
    series = series[series.index > 0]
    logs = np.log2(series.index.to_numpy(dtype=float))
    grid = np.arange(0, logs[-1] + 1e-9, 0.5)
    return pd.DataFrame({name: np.diff(np.interp(grid, logs, values)) for name, values in series.items()})


def correlations(table, pairs=PAIRS):
    """Lag correlations, one row per run, pair of instruments and lag.

    Columns network, task, seed, first, second, lag (octaves), correlation : of the changes of ``first`` with
    those of ``second`` at ``lag`` octaves more of steps, a positive lag where the second comes later; nan
    with fewer than five pairs of changes.
    """
    made = []
    for (network, task, seed), rows in runs(table):
        moves = changes(rows)
        for first, second in pairs:
            for lag in range(-LARGEST_LAG, LARGEST_LAG + 1):
                value = _correlation(*_shifted(moves[first].to_numpy(), moves[second].to_numpy(), lag))
                made.append((network, task, seed, first, second, lag / 2, value))
    names = ["network", "task", "seed", "first", "second", "lag", "correlation"]
    return pd.DataFrame(made, columns=names)


def _shifted(first, second, lag):
    """The parts of two series in which the second one is ``lag`` places later."""
    if lag < 0:
        second, first = _shifted(second, first, -lag)
        return first, second
    return first[: max(0, len(first) - lag)], second[lag:]


def _correlation(a, b):
    if len(a) < LEAST_PAIRS or not np.isfinite([a, b]).all() or np.ptp(a) == 0 or np.ptp(b) == 0:
        return math.nan
    return float(np.corrcoef(a, b)[0, 1])


def asymmetry(lags):
    """Mean correlation at positive lags less that at negative ones, by run (Series over network, task, seed).

    lags : :func:`correlations` of one pair. Above 0 where changes of the first go with later changes of the
    second more than with earlier ones.
    """
    rows = lags.dropna(subset="correlation")
    keys = ["network", "task", "seed"]
    later, sooner = (rows[side].groupby(keys)["correlation"].mean() for side in (rows.lag > 0, rows.lag < 0))
    return (later - sooner).dropna()


def cases(parameters):
    """[(network, task)]"""
    return [(network, task) for network in parameters["networks"] for task in TASKS]


def title(network, task):
    """``convolutional network, real labels``."""
    return f"{NETWORKS[network]} network, {TASKS[task]}"


FEATURES_FIRST = (
    "The features of the last hidden layer have made half of their change towards the labels before the "
    "first layer's weights have made half of theirs towards the data."
)
TANGENT_FIRST = (
    "The tangent kernel of the layer that leads at the end has made half of its change before the "
    "features have."
)


LAST = "curvature-settles-last"


def _settles_last(found):
    others = found[["settled_filters", "settled_features", "settled_tangent"]]
    return found["settled_curvature"] - others.max(axis=1, skipna=False)


def unsettled(found):
    """Whether any of the four instruments has not settled within the run, by run (Series)."""
    times = found[[f"settled_{name}" for name in INSTRUMENTS]].astype(float)
    return np.isinf(times).any(axis=1)


# id -> (statement, unit, what of the summary is above 0, where the papers come nearest)
STATEMENTS = {
    HEADLINE: (
        FEATURES_FIRST,
        "octaves of steps",
        lambda found: found["half_filters"] - found["half_features"],
        "compare Maennel Figure 2 and Imani Figure 2",
    ),
    "curvature-first": (
        "The curvature has made half of its change before the features have.",
        "octaves of steps",
        lambda found: found["half_features"] - found["half_curvature"],
        "compare Imani Figure 2 and ICLR 2020 Figure 3",
    ),
    "tangent-first": (
        TANGENT_FIRST,
        "octaves of steps",
        lambda found: found["half_features"] - found["half_tangent"],
        "compare Lou Figure 2 and Imani Figure 2",
    ),
    LAST: (
        "The curvature settles after the three alignments have.",
        "octaves of steps",
        _settles_last,
        "compare ICLR 2020 Figure 3",
    ),
    "hidden-leads": (
        "At the end a hidden layer's tangent kernel leads: it is above the first and the last layer's.",
        "A_l",
        lambda found: found["hidden"],
        "compare Lou Section 2.3",
    ),
}
SOONER = "Fine-tuned from random labels, the features make half of their change sooner than from scratch."
LAGGED = "Changes of the features go with later changes of the filters more than with earlier ones."


def claims(table, parameters):
    """Orders of half-times and settling, the leading layer, fine-tuning against scratch, lags: all ours."""
    found, made = summary(table), []
    for id, (statement, unit, measure, where) in STATEMENTS.items():
        values = measure(found).astype(float)
        for network, task in cases(parameters):
            case = (found["network"] == network) & (found["task"] == task)
            about = f"{id}-{network}-{task}", title(network, task), statement, unit, where
            if id == LAST and (open_runs := int(unsettled(found[case]).sum())):
                claim = _greater(*about, [])
                why = f"in {open_runs} of {case.sum()} runs an instrument has not settled at the last record"
                made.append(replace(claim, outcome=NOT_JUDGED, test=why, seeds=int(case.sum())))
                continue
            made.append(_greater(*about, values[case].dropna()))
    for network in parameters["networks"]:
        about = f"sooner-{network}", f"{NETWORKS[network]} network", SOONER, "octaves of steps"
        made.append(_greater(*about, "compare Maennel Figure 1", sooner(found, network)))
    apart = -asymmetry(correlations(table, [("filters", "features")]))
    for network, task in cases(parameters):
        here = [value for key, value in apart.items() if key[:2] == (network, task)]
        about = f"features-lead-{network}-{task}", title(network, task), LAGGED
        made.append(_greater(*about, "difference of correlations", "no paper", here))
    return made


def _greater(id, name, statement, unit, where, values):
    said = f"{name[0].upper()}{name[1:]}: {statement[0].lower()}{statement[1:-1]} ({unit})."
    if len(values):
        return Claim.greater(id, said, where, values).tagged(statement, ours=True)
    return Claim.missing(id, said, where, "no run was measured").tagged(statement, ours=True)


def sooner(found, network):
    """By how many octaves sooner fine-tuned features make half of their change, by seed (Series)."""
    here = found[found["network"] == network].set_index("seed")
    halves = {task: here.loc[here["task"] == task, "half_features"].astype(float) for task in TASKS}
    return (halves["real"] - halves["fine-tuned"]).dropna()


def half_times(found, network, task, kind="half"):
    """{instrument: steps at which half of its change was made}, mean over the seeds; soonest first."""
    here = found[(found["network"] == network) & (found["task"] == task)]
    means = {name: here[f"{kind}_{name}"].astype(float).dropna() for name in INSTRUMENTS}
    steps = {name: steps_of(values) for name, values in means.items() if len(values)}
    return dict(sorted(steps.items(), key=lambda item: item[1]))


def finding(table, parameters):
    """Which of features and filters is first, by network, as the headline's claims have it; by how much."""
    found = summary(table)
    apart = STATEMENTS[HEADLINE][2](found).astype(float)
    apart = apart.groupby([found["network"], found["task"]]).mean().dropna()
    if apart.empty:
        return "Nothing was measured: every run diverged or was too short."
    verdicts = {claim.id: claim.outcome for claim in claims(table, parameters)}
    parts, orders = [], set()
    for network in parameters["networks"]:
        cases_here = [verdicts[f"{HEADLINE}-{network}-{task}"] for task in TASKS]
        features, filters = cases_here.count(HOLDS), cases_here.count(CONTRADICTED)
        counts = {"features": features, "filters": filters, "undecided": len(TASKS) - features - filters}
        listed = ", ".join(f"{name} in {count}" for name, count in counts.items() if count)
        parts.append(f"{NETWORKS[network]} network, {listed} of {len(TASKS)} kinds of labels")
        orders |= {np.sign(features - filters)}
    turned = " The two networks have opposite orders." if {-1, 1} <= orders else ""
    return (
        f"What has made half of its change first, features or filters: {'; '.join(parts)}.{turned} "
        f"Features are ahead by {apart.min():+.1f} to {apart.max():+.1f} octaves of steps."
    )


def key_numbers(table, parameters):
    """Half-times of all instruments with real labels, and the layers that lead at the end."""
    found, made = summary(table), []
    for network in parameters["networks"]:
        order = half_times(found, network, "real")
        if order:
            listed = ", ".join(f"{name} {steps:.0f}" for name, steps in order.items())
            made.append(KeyNumber(f"half-times in steps, {title(network, 'real')}", listed))
    leaders = found.dropna(subset="leader")
    if len(leaders):
        per = leaders.groupby("network", sort=False)["leader"].agg(lambda values: _range(values.astype(int)))
        listed = "; ".join(f"{NETWORKS[network]}: {layers}" for network, layers in per.items())
        made.append(KeyNumber("layer whose tangent kernel leads at the end, all labels and seeds", listed))
    return made[:3]


def _range(values):
    return f"{values.min()}" if values.nunique() == 1 else f"{values.min()} to {values.max()}"
