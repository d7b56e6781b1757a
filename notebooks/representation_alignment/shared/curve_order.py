"""Which of several alignment curves is the higher one: by their areas, over thresholds, from layer to layer.

Curves are frames (seeds × thresholds), areas frames (seeds × layers), layer 0 the inputs; see
:mod:`companion.over_seeds`.
"""

import numpy as np
import pandas as pd

from companion.over_seeds import curves, weakest

# Of a statement that some area is the larger one; data/plans/representation_alignment.yaml has the effect.
LARGER = {
    "above": 0,
    "matters": 0.01,
    "unit": "of the largest possible area",
    "because": "a hundredth of the largest possible area is about what the width of a drawn curve covers",
}
# Of a statement that a curve is the higher one at most thresholds, see share_above.
HIGHER = {
    "above": 0.5,
    "matters": 0.05,
    "unit": "of the thresholds",
    "because": "a twentieth more or less than one half is no clear majority",
    "bounds": (0, 1),
}
EQUAL = 0.01  # of the largest alignment, about the width of a drawn curve: what is nearer is the same


def share_above(one, other):
    """Share of the thresholds at which the curve ``one`` lies above ``other``, of those at which they differ.

    Thresholds count evenly in log τ, since gradient descent needs 1/τ² steps (Proposition 2). One value per
    seed that has both; NaN where the two are the same throughout. An area says how much more of the labels a
    curve has, not over how wide a range of thresholds.
    """
    apart = (one - other).dropna(how="all").dropna(axis=1)
    apart = apart[[threshold for threshold in apart if threshold > 0]]
    size = EQUAL * max(np.abs(one.to_numpy()).max(initial=0), np.abs(other.to_numpy()).max(initial=0))
    weight = 1 / apart.columns.to_numpy(dtype=float)
    above, differ = ((chosen * weight).sum(axis=1) for chosen in (apart > size, apart.abs() > size))
    return above / differ.where(differ > 0)


def by_layer(rows, epoch=None):
    """Areas, (seeds × layers) frame, after each run's last epoch, or after ``epoch`` of those measured then.

    rows : with columns seed, epoch, layer and area; may be empty
    """
    if rows.empty:
        return pd.DataFrame()
    wanted = rows.groupby("seed")["epoch"].transform("max") if epoch is None else epoch
    return curves(rows[rows["epoch"] == wanted].astype({"layer": int}), "layer", "area")


def weakest_step(values):
    """The rise of the area from a layer to the next of the step that shows one least, by seed.

    values : (seeds × layers) frame of areas
    """
    steps = values if values.empty else values.diff(axis=1).iloc[:, 1:]
    return weakest(*(steps[layer] for layer in steps))
