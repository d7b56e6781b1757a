"""Whether Equation 3 is gradient descent, Proposition 2's bound, and two labels that cross (Figure 9)."""

import numpy as np
import pandas as pd

from companion.over_seeds import at, weakest
from companion.statements import Number, Statement, among

from ..shared.linear_descent import first_steps, reducible
from .design import REPRESENTATIONS, TOLERANCE

RATIO = 0.9  # of Proposition 2
# {label: {singular vector: share of ‖y‖²}}; the shares are ours.
FIGURE_9 = {"y1": {10: 1.0}, "y2": {5: 0.9, 50: 0.1}}
PRINTED_9 = {5: 115.0, 10: 70.0, 50: 30.0}  # Section 6.2: singular values, approximately
POINTS_9 = 1000  # Section 6.2
EARLY, LATE = 0.5, 0.01  # of y_1's loss left: where Figure 9's curves are compared


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
    """(steps until ``ratio`` of the reducible loss is gone, Proposition 2's least bound over all τ).

    The bound is rounded up, as steps are whole numbers.
    """
    rate = multiple / singular[0] ** 2
    alignment = np.cumsum(gains)
    wanted = ratio * alignment[-1]
    enough = alignment > wanted
    bound = -np.log(1 - wanted / alignment[enough]) / (2 * rate * singular[enough] ** 2)
    return first_steps(singular, gains, rate, [alignment[-1] - wanted])[0], whole(bound.min())


def whole(bound):
    """``bound`` rounded up; a whole number that is one but for rounding errors is left as it is."""
    return np.ceil(bound * (1 - 1e-12))


def spectra(table):
    """{(seed, representation): (σ (r,), (u_iᵀ y)² over ‖y‖² (r,))}."""
    rows = at(table, kind="spectrum")
    if rows.empty:
        return {}
    groups = rows.sort_values("index").groupby(["seed", "representation"])
    return {key: (part["sigma"].to_numpy(), part["gain"].to_numpy()) for key, part in groups}


def two_labels(singular):
    """{y1, y2: gains (r,)} of Figure 9, or None where there are too few singular values."""
    if len(singular) < max(PRINTED_9):
        return None
    index = np.arange(1, len(singular) + 1)
    return {
        name: sum(share * (index == place) for place, share in shares.items())
        for name, shares in FIGURE_9.items()
    }


def crossing(table, step_size):
    """Per seed, on learned features: ``early``, how much less of y_2's loss than of y_1's is left when half
    of y_1's is, ``late``, how much more when 1 % of y_1's is, both over what is left of y_1's then, and
    ``step``, the first at which it is more.
    """
    rows = {}
    for (seed, name), (singular, _) in spectra(table).items():
        labels = two_labels(singular)
        if name != "transfer" or labels is None:
            continue
        rate = step_size / singular[0] ** 2

        def lead(steps, singular=singular, labels=labels, rate=rate):
            """How much less of y_2's loss is left than of y_1's after these steps."""
            left = (reducible(singular, labels[name], rate, steps) for name in ("y1", "y2"))
            return np.subtract(*left)

        times = first_steps(singular, labels["y1"], rate, [EARLY, LATE])
        early, late = lead(times)
        rows[seed] = {"early": early / EARLY, "late": -late / LATE, "step": np.nan}
        if early > 0 > late:
            # One change of sign in between: y_1's loss is geometric, y_2's a sum of such.
            low, high = times
            while high - low > 1:
                middle = np.floor((low + high) / 2)
                low, high = (middle, high) if lead([middle])[0] >= 0 else (low, middle)
            rows[seed]["step"] = high
    return pd.DataFrame.from_dict(rows, orient="index", columns=["early", "late", "step"])


def worst(table, parameters):
    """The largest difference between Equation 3 and gradient descent below σ_max⁻², or None."""
    rows = at(table, kind="deviation")
    rows = rows[rows["multiple"] < 1] if len(rows) else rows
    return float(rows["deviation"].max()) if len(rows) else None


def above_bound(table, parameters):
    """The largest number of steps above Proposition 2's bound, rounded up, at least 0; None without runs."""
    every = [bounds(*values, parameters["step_size"]) for values in spectra(table).values()]
    if not every:
        return None
    rows = pd.concat(every)
    return max(float((rows["needed"] - whole(rows["bound"])).max()), 0.0)


def least_square(table, parameters):
    """Mean squared length that rows with Figure 9's printed singular values have at least.

    If the 5th singular value is 115, so at least are the four before it, and so on. None without runs.
    """
    places = [0, *PRINTED_9]
    least = np.diff(places) @ np.square(list(PRINTED_9.values()))
    return float(least) / POINTS_9 if spectra(table) else None


def tightness(table, parameters, name):
    """Steps to remove ``RATIO`` of the reducible loss over Proposition 2's bound, rounded up, by seed."""
    found = {
        seed: best_bound(*values, parameters["step_size"])
        for (seed, of), values in spectra(table).items()
        if of == name
    }
    return pd.Series({seed: steps / bound for seed, (steps, bound) in found.items()}, dtype=float)


ROUNDING = {
    "exactly": 0.0, "within": TOLERANCE, "unit": "of the larger of ‖y‖² and the loss, the largest difference",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "equation-3", "Equation 3 predicts every step of gradient descent at step sizes below σ^-2_1.",
        source="Proposition 1, Equation 3", of=worst, headline=True, **ROUNDING,
    ),
    Statement(
        "bound", "Proposition 2 bounds the number of steps.", source="Proposition 2, Appendix B",
        of=above_bound, exactly=0.0, within=0.0, unit="steps above the bound, rounded up",
    ),
    Statement(
        "cross", "Of two labellings, the one that is ahead when half of the other's loss is left is behind "
        "when 1 % of it is.",
        source="Figure 9, Section 6.2", above=0, matters=0.1, unit="of what is left of y_1's loss",
        because="a tenth of a curve's height can be seen",
        of=lambda t, p: weakest(*(crossing(t, p["step_size"])[when] for when in ("early", "late"))),
    ),
    Statement(
        "unit-rows", "Figure 9's printed singular values are those of rows of at most length one.",
        source="Sections 4 and 6.2", of=least_square, exactly=1.0, within=0.0,
        unit="mean squared length, at least", post_hoc="asked after the printed values had been seen",
    ),
]  # fmt: skip
NUMBERS = [
    Number("step", "step at which the curves cross", lambda t, p: crossing(t, p["step_size"])["step"]),
    Number(
        "tight", "steps over the bound", tightness, paper="at most 1",
        each=among("name", REPRESENTATIONS),
    ),
]  # fmt: skip
