"""Equation 3 beside gradient descent, Proposition 2's bound, two labels that cross (Section 6, Figure 9).

The representation is the hidden layer of a ReLU network on images of two classes, before (``init``) and after
training (``transfer``), with a constant and rows of length one; the labels are ±1. Step sizes are given as
multiples of σ_max⁻².
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import torch

from alignbook.claims import Claim, KeyNumber, interval
from alignbook.data import load
from alignbook.errors import AlignbookError
from alignbook.experiments import Unit
from alignbook.kernels.two_layer_adam import TwoLayer, adam_step
from alignbook.seeding import numpy_stream, torch_stream
from alignbook.studies.representation_alignment.constant_feature import with_constant
from alignbook.studies.representation_alignment.linear_descent import (
    descend,
    first_steps,
    reducible,
    spectrum,
)
from alignbook.training.loop import train

HEADLINE = "equation-3"
REPRESENTATIONS = {"init": "random features", "transfer": "learned features"}
NAMES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}
TOLERANCE = 1e-10  # of max(‖y‖², the loss): what rounding may leave; fixed before any run
LARGEST = 1e12  # a diverging run is compared until its loss is this many times ‖y‖²
RATIO = 0.9  # of Proposition 2
# {label: {singular vector: share of ‖y‖²}}; the shares are ours.
FIGURE_9 = {"y1": {10: 1.0}, "y2": {5: 0.9, 50: 0.1}}
PRINTED_9 = {5: 115.0, 10: 70.0, 50: 30.0}  # Section 6.2: singular values, approximately
POINTS_9 = 1000  # Section 6.2
EARLY, LATE = 0.5, 0.01  # of y_1's loss left: where Figure 9's curves are compared


def units(parameters):
    """One unit per seed."""
    shared = {name: value for name, value in parameters.items() if name not in ("seeds", "step_size")}
    return [Unit(f"seed{seed}", compute, shared | {"seed": seed}) for seed in range(parameters["seeds"])]


def compute(*, dataset, points, width, epochs, batch_size, rate, multiples, iterations, seed, device, report):
    """Train a network, then linear models on its hidden layer before and after. Rows, by ``kind``:

    ``spectrum`` : representation, index (from 1), sigma, gain, (u_iᵀ y)² over ‖y‖²;
    ``loss`` : representation, multiple, step, loss, ‖Φw_t − y‖² of gradient descent over ‖y‖², and
        equation, the same by Equation 3, at some steps;
    ``deviation`` : representation, multiple, deviation, largest difference over all steps of either line of
        Equation 3 (squared) over the larger of ‖y‖² and the loss; falls, whether no step raises the loss
        (beyond rounding).
    """
    x, y = images(dataset, points, seed)
    generator = torch_stream(seed, "prop01", "network")
    network = TwoLayer(x.shape[1], width, generator, device=device)
    features = {"init": network.hidden(x.to(device)).cpu()}
    train(
        adam_step(network, x.to(device), y.to(device)),
        len(y),
        batch_size=batch_size,
        epochs=epochs,
        rate=rate,
        generator=torch_stream(seed, "prop01", "batches"),
        device=device,
        report=lambda done, text: report(done / 2, text),
    )
    features["transfer"] = network.hidden(x.to(device)).cpu()
    tables = []
    for done, (name, hidden) in enumerate(features.items()):
        rows = linear_models(with_constant(hidden).numpy(), y.numpy(), multiples, iterations)
        tables.append(rows.assign(representation=name))
        report((2 + done + 1) / 4, REPRESENTATIONS[name])
    return pd.concat(tables, ignore_index=True)


def images(dataset, points, seed):
    """(x (n, pixels), rows of length one, y (n,) of ±1), float64: equally many of the first two classes."""
    data = load(dataset)
    order = numpy_stream(seed, "prop01", "images", dataset).permutation(len(data))
    picked = []
    for label in (0, 1):
        chosen = order[(data.y[order] == label).numpy()][: points // 2]
        if len(chosen) < points // 2:
            raise AlignbookError(f"{dataset} has {len(chosen)} images of class {label}, not {points // 2}")
        picked.append(chosen)
    picked = np.concatenate(picked)
    x = (data.x[picked].flatten(1).double() + 1) / 2
    y = torch.where(data.y[picked] == 1, 1.0, -1.0).double()
    return torch.nn.functional.normalize(x, dim=1), y


def linear_models(phi, y, multiples, iterations):
    """The rows of :func:`compute` for one Φ (n, d) and y (n,), float64."""
    left, singular = spectrum(phi)
    gains, size = np.square(left.T @ y), float(y @ y)
    rates = np.array(multiples) / singular[0] ** 2
    loss, distance = descend(phi, y, rates, iterations)
    every = np.arange(iterations + 1)
    stored = np.unique([0, *np.geomspace(1, iterations, 25).round().astype(int)])
    index = np.arange(1, len(singular) + 1)
    tables = [pd.DataFrame({"kind": "spectrum", "index": index, "sigma": singular, "gain": gains / size})]
    for n, (multiple, rate) in enumerate(zip(multiples, rates, strict=True)):
        exact = reducible(singular, gains, rate, every)
        total = exact + max(size - gains.sum(), 0.0)
        kept = total <= LARGEST * size
        scale = np.maximum(size, total[kept])
        found = np.maximum(
            np.abs(loss[kept, n] - total[kept]) / scale, np.abs(distance[kept, n] - exact[kept]) / scale
        )
        rises = np.diff(loss[kept, n]) / size
        row = {"kind": "deviation", "multiple": multiple, "deviation": found.max()}
        tables.append(pd.DataFrame([row | {"falls": float((rises <= TOLERANCE).all())}]))
        at = stored[kept[stored]]
        curve = {"multiple": multiple, "step": at, "loss": loss[at, n] / size, "equation": total[at] / size}
        tables.append(pd.DataFrame({"kind": "loss"} | curve))
    return pd.concat(tables, ignore_index=True)


def bounds(singular, gains, multiple, ratio=RATIO):
    """Proposition 2 at τ = every σ_i: steps until the loss is down by ``ratio`` · Alignment(Φ, y, τ).

    Frame with ``tau``, ``share`` (alignment over the reducible loss), ``needed`` (steps, by Equation 3),
    ``bound``, −log(1 − ratio) / (2ητ²). Where the alignment is all of the reducible loss the rest is what
    the ratio leaves.
    """
    rate = multiple / singular[0] ** 2
    alignment = np.cumsum(gains)
    needed = first_steps(singular, gains, rate, alignment[-1] - ratio * alignment)
    bound = -np.log(1 - ratio) / (2 * rate * singular**2)
    return pd.DataFrame(
        {"tau": singular, "share": alignment / alignment[-1], "needed": needed, "bound": bound}
    )


def best_bound(singular, gains, multiple, ratio=RATIO):
    """(steps until ``ratio`` of the reducible loss is gone, Proposition 2's least bound over all τ)."""
    rate = multiple / singular[0] ** 2
    alignment = np.cumsum(gains)
    wanted = ratio * alignment[-1]
    enough = alignment > wanted
    bound = -np.log(1 - wanted / alignment[enough]) / (2 * rate * singular[enough] ** 2)
    return first_steps(singular, gains, rate, [alignment[-1] - wanted])[0], bound.min()


def spectra(table):
    """{(seed, representation): (σ (r,), (u_iᵀ y)² over ‖y‖² (r,))}."""
    if table.empty or "kind" not in table:
        return {}
    rows = table[table["kind"] == "spectrum"].sort_values("index")
    groups = rows.groupby(["seed", "representation"])
    return {key: (part["sigma"].to_numpy(), part["gain"].to_numpy()) for key, part in groups}


def two_labels(singular):
    """{y1, y2: gains (r,)} of Figure 9, or None where there are too few singular values."""
    if len(singular) < max(PRINTED_9):
        return None
    result = {}
    for name, shares in FIGURE_9.items():
        result[name] = np.zeros(len(singular))
        for index, share in shares.items():
            result[name][index - 1] = share
    return result


def crossing(table, step_size):
    """Per seed, on learned features: ``early``, how much less of y_2's loss than of y_1's is left when half
    of y_1's is, ``late``, how much more when 1 % of y_1's is, and ``step``, the first at which it is more.
    """
    rows = []
    for (seed, name), (singular, _) in spectra(table).items():
        labels = two_labels(singular)
        if name != "transfer" or labels is None:
            continue
        rate = step_size / singular[0] ** 2
        times = first_steps(singular, labels["y1"], rate, [EARLY, LATE])
        first, second = (reducible(singular, gains, rate, times) for gains in labels.values())
        row = {"seed": seed, "early": first[0] - second[0], "late": second[1] - first[1], "step": np.nan}
        if min(row["early"], row["late"]) > 0:
            # One change of sign in between: y_1's loss is geometric, y_2's a sum of such.
            low, high = times
            while high - low > 1:
                middle = np.floor((low + high) / 2)
                left = [reducible(singular, labels[name], rate, [middle])[0] for name in ("y1", "y2")]
                low, high = (low, middle) if left[1] > left[0] else (middle, high)
            row["step"] = high
        rows.append(row)
    return pd.DataFrame(rows, columns=["seed", "early", "late", "step"]).set_index("seed")


def excess(table, multiple):
    """(cases, largest number of steps above Proposition 2's bound, which is rounded up to whole steps)."""
    parts = [bounds(*values, multiple) for values in spectra(table).values()]
    if not parts:
        return 0, np.nan
    rows = pd.concat(parts)
    return len(rows), float((rows["needed"] - np.ceil(rows["bound"] * (1 - 1e-12))).max())


def deviations(table):
    """The rows of kind ``deviation``, empty where there are none."""
    return table[table["kind"] == "deviation"] if "kind" in table else pd.DataFrame(columns=["multiple"])


def claims(table, parameters):
    """Rules written before quick ran. Equation 3 and Proposition 2 know no chance: every case counts."""
    rows = deviations(table)
    multiple = parameters["step_size"]
    groups = (
        (
            "equation-3",
            "Equation 3 is gradient descent to rounding for step sizes below σ^-2_1 (largest difference).",
            "Proposition 1, Equation 3",
            rows["multiple"] < 1,
            False,
        ),
        (
            "equation-3-beyond",
            "Equation 3 is gradient descent to rounding for larger step sizes, too (largest difference).",
            "Proposition 1 states it below σ^-2_1",
            rows["multiple"] >= 1,
            True,
        ),
    )
    made = []
    for id, statement, source, chosen, ours in groups:
        found = rows[chosen]
        if found.empty:
            claim = Claim.missing(id, statement, source, "no such step size")
        else:
            claim = Claim.computed(id, statement, source, found["deviation"].max(), 0.0, TOLERANCE)
            claim = replace(claim, test=f"{claim.test}, the largest of {len(found)} cases")
        made.append(claim.tagged(ours=ours))
    about = (
        "stable-below-2",
        "No step raises the loss below 2 σ^-2_1, and some do above (cases otherwise).",
        "Section 6.1 asks for half of it",
    )
    apart = rows[rows["multiple"] != 2]
    if apart.empty:
        made.append(Claim.missing(*about, "nothing was computed").tagged(ours=True))
    else:
        otherwise = ((apart["multiple"] < 2) != (apart["falls"] == 1)).sum()
        made.append(Claim.computed(*about, otherwise, 0, 0).tagged(ours=True))
    return [*made, _bound_claim(table, multiple), *_figure_9_claims(table, multiple)]


def _bound_claim(table, multiple):
    cases, above = excess(table, multiple)
    about = (
        "bound",
        "Proposition 2 bounds the steps (largest number above the bound, which is rounded up).",
        "Proposition 2, Appendix B",
    )
    if not cases:
        return Claim.missing(*about, "nothing was computed")
    claim = Claim.computed(*about, max(above, 0.0), 0, 0)
    return replace(claim, test=f"{claim.test}, the largest of {cases} thresholds and runs")


def _figure_9_claims(table, multiple):
    values = crossing(table, multiple)
    made = []
    for id, statement in (
        ("early", "At first y_2 is learned faster: share of its loss less when half of y_1's is left."),
        ("late", "Later y_2 is behind: share of its loss more when 1 % of y_1's is left."),
    ):
        about = (id, statement, "Figure 9, Section 6.2")
        if values.empty:
            made.append(Claim.missing(*about, "fewer than 50 singular values"))
        else:
            made.append(Claim.greater(*about, values[id]))
    # If the 5th singular value is 115, so at least are four before it, and so on.
    least, below = 0.0, 0
    for index, sigma in PRINTED_9.items():
        least, below = least + (index - below) * sigma**2, index
    claim = Claim.computed(
        "unit-rows",
        "The rows of Figure 9's representation have at most length one (mean squared length, at least).",
        "Sections 4 and 6.2",
        least / POINTS_9,
        1.0,
        0.0,
    )
    if least > POINTS_9:
        claim = claim.not_judged(
            f"the squares of {POINTS_9} such rows' singular values sum to {POINTS_9} at most, the printed "
            f"ones to {least:.0f} at least; Section 6.2 does not say that the rows are scaled"
        )
    return [*made, claim]


def finding(table, parameters):
    """Whether Equation 3 is gradient descent, where the loss falls, and where Figure 9's curves cross."""
    rows = deviations(table)
    if rows.empty:
        return "Nothing was computed."
    below, beyond = rows[rows["multiple"] < 1], rows[rows["multiple"] >= 1]
    judged = below if len(below) else rows
    exact = judged["deviation"].max() <= TOLERANCE
    said = (
        f"Equation 3 {'predicts' if exact else 'does not predict'} every step of gradient descent to rounding"
    )
    said += f" (largest difference {judged['deviation'].max():.0e}"
    if len(below) and len(beyond):
        said += f", beyond the printed step sizes {beyond['deviation'].max():.0e}"
    said += ")"
    falling = rows[rows["multiple"] < 2]
    if len(falling):
        until = falling["falls"].eq(1).all()
        said += f"; below 2 σ^-2_1 the loss {'always falls' if until else 'rises in some runs'}"
    values = crossing(table, parameters["step_size"])
    if len(values) and values["step"].notna().all():
        data = NAMES.get(parameters["dataset"], parameters["dataset"])
        said += f". Figure 9's curves, on features learned from {data} (in place of CT slices), cross after "
        said += f"{interval(values['step'], '{:.0f}', (0, np.inf))} steps"
    return f"{said}."


def key_numbers(table, parameters):
    """The largest difference, the largest stable step size, how tight the bound is."""
    rows = deviations(table)
    if rows.empty:
        return []
    stable = rows.groupby("multiple")["falls"].min()
    stable = stable.index[stable == 1]
    tight = []
    for name, label in REPRESENTATIONS.items():
        found = [
            best_bound(*values, parameters["step_size"])
            for (_, of), values in spectra(table).items()
            if of == name
        ]
        needed, bound = (np.mean(part) for part in zip(*found, strict=True))
        tight.append(f"{needed:.0f} / {bound:.0f} ({label})")
    return [
        KeyNumber("largest difference from Equation 3", f"{rows['deviation'].max():.0e}", "0"),
        KeyNumber(
            "largest step size tried of which no step raises the loss, η over σ^-2_1",
            f"{stable.max():g}" if len(stable) else None,
            "below 1",
        ),
        KeyNumber(
            f"steps to {RATIO:.0%} of the reducible loss / Proposition 2's bound at the best τ",
            ", ".join(tight),
            "at most 1 in ratio",
        ),
    ]
