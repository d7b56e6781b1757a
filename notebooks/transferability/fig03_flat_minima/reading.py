"""Are minima reached from pre-trained weights flatter? Spectra, and how the loss rises around them."""

import numpy as np
import pandas as pd

from companion.claims import interval
from companion.over_seeds import across, at, means, ratio
from companion.statements import Case, Number, Statement
from companion.studies.transferability.shared.target_rows import of_target
from companion.studies.transferability.shared.targets import STARTS


def spectra(table, name, mode="eval", fixed_steps=False):
    """Rows of the spectra of the target ``name``, at equal loss or after a fixed number of steps."""
    rows = at(of_target(table, name), mode=mode)
    return curved(rows[rows["stop_at_loss"].isna() == fixed_steps]) if len(rows) else rows


def settled(table, name):
    """Rows of the spectra at settled minima of the target ``name``, and of the rises around them.

    Measured on all training images; without networks that get one of them wrong, which are at no minimum.
    """
    rows = at(of_target(table, name), train_error=0)
    if "settle_steps" not in rows:
        return rows.iloc[:0]
    rows = rows.assign(images_loss=rows["train_loss"], circle=rows["around"], reached=True)
    return curved(rows[rows["settle_steps"].notna()])


def curved(rows):
    """With each eigenvalue's magnitude, and times ‖W‖², which batch norm makes free."""
    size = rows["eigenvalue"].abs()
    return rows.assign(size=size, times_norm=size * rows["norm"] ** 2)


def minima(table, name):
    """The spectra that are compared: at settled minima where there are any, else where training stopped."""
    rows = settled(table, name)
    return rows[rows["index"].notna()] if len(rows) else spectra(table, name)


def rises(table, name, radius):
    """Rows of the rise of the loss around the minima that are compared, at one radius."""
    rows = settled(table, name)
    return at(rows if len(rows) else of_target(table, name), circle=radius)


def networks(rows, column):
    """(seeds × starts) frame of the mean of ``column`` over the rows of each network.

    Only seeds with both starts, both of which reached the loss to stop at.
    """
    return across(at(rows, reached=True), "start", list(STARTS), lambda own: means(own, column))


def ratios(rows, column):
    """The mean of ``column`` from random over that from pre-trained weights, a sample."""
    both = networks(rows, column)
    found = ratio(both["scratch"], both["pretrained"])
    return found[found > 0]


def first(parameters):
    """The target that the figure is about."""
    return parameters["targets"][0]


def curvature(table, parameters, column):
    return ratios(minima(table, first(parameters)), column)


def rise(table, parameters, radius):
    return ratios(rises(table, first(parameters), radius), "rise")


def of_start(table, parameters, start, column):
    """Mean of ``column`` at the minima reached from one start, a sample."""
    return networks(minima(table, first(parameters)), column)[start]


def each_scale(parameters):
    return [
        Case("raw", "as they are", {"column": "size"}),
        Case("scaled", "times the squared length of the weights", {"column": "times_norm"}),
    ]


def each_radius(parameters):
    return [Case(f"{radius:g}", f"radius {radius:g}", {"radius": radius}) for radius in parameters["radii"]]


def each_start(column, **more):
    return lambda parameters: [Case(start, "", {"start": start, "column": column} | more) for start in STARTS]


RATIO = {"above": 0, "matters": 0.14, "unit": "log2 of random over pre-trained"}
STATEMENTS = [
    Statement(
        "eigenvalues",
        "The largest eigenvalues of the Hessian are smaller at minima reached from pre-trained weights.",
        source="Figure 3 (a), Section 3", headline=True, each=each_scale,
        of=lambda t, p, column: np.log2(curvature(t, p, column)),
        because="a ratio of 1.1; the curves of Figure 3 (a) lie further apart", **RATIO,
    ),
    Statement(
        "rise", "The loss rises less around minima reached from pre-trained weights.",
        source="Figures 3 and 10", each=each_radius, of=lambda t, p, radius: np.log2(rise(t, p, radius)),
        because="a ratio of 1.1, as for the eigenvalues", **RATIO,
        post_hoc="we had planned the difference in nats, and both rises at radius 0.1 are smaller than the "
        "0.05 nats that were to matter",
    ),
]  # fmt: skip
NUMBERS = [
    Number("flatter", "λ‖W‖², random over pre-trained", lambda t, p: curvature(t, p, "times_norm")),
    Number("sharper", "λ, random over pre-trained", lambda t, p: curvature(t, p, "size")),
    Number("length", "length, pre-trained over random", lambda t, p: 1 / curvature(t, p, "norm")),
    Number("rises", "rise of the loss, random over pre-trained", rise, each=each_radius),
    Number("test", "test error", of_start, unit="%", each=each_start("test_error")),
]


def conditions(table, parameters):
    """One row per way of training and measuring: errors and losses of random / pre-trained, and ratios."""
    name = first(parameters)
    kinds = {
        "settled": settled(table, name)[lambda rows: rows["index"].notna()],
        "stopped at one loss": spectra(table, name),
        "… with batch statistics": spectra(table, name, "train"),
        "after equal steps": spectra(table, name, fixed_steps=True),
    }
    return pd.DataFrame({"training": kind} | _condition(rows) for kind, rows in kinds.items() if len(rows))


def _condition(rows):
    error, loss = (networks(rows, column).mean() for column in ("train_error", "images_loss"))
    return {
        "training error, %": "\u00a0/\u00a0".join(f"{error[start]:.1f}" for start in STARTS),
        "loss, nats": "\u00a0/\u00a0".join(f"{loss[start]:.2g}" for start in STARTS),
        "λ, ratio": interval(ratios(rows, "size")),
        "λ‖W‖², ratio": interval(ratios(rows, "times_norm")),
    }
