"""Which of several alignment curves is the higher one: by their areas, over thresholds, from layer to layer.

Curves are frames (seeds × thresholds), areas frames (seeds × layers), layer 0 the inputs; see
:mod:`alignbook.over_seeds`.
"""

import numpy as np
import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_RUN, UNDECIDED
from alignbook.over_seeds import curves, from_seed, strongest, verdict, weakest
from alignbook.statements import Requirement

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
DISAGREE = "two ways of comparing curves disagree"  # their areas and most thresholds
MOST, SHARE = 0.5, 0.05  # of the thresholds at which two curves differ: most of them; what counts as a half


def beside_smallest(claim, what):
    """A sentence or two: how large the effect of a ``claim`` is beside the smallest that matters.

    what : what it is called, with a capital letter; "" where nothing was measured
    """
    if claim.measured is None:
        return ""
    unit, small = claim.unit, claim.measured < claim.matters
    said = (
        f"{what} is {claim.measured:.1f} {unit}, {'less' if small else 'no less'} than the {claim.matters:g} "
        f"{unit} that we call the smallest effect that matters."
    )
    if small and claim.outcome == HOLDS:
        said += (
            " The claim holds because the interval lies above 0 and reaches beyond that size; a narrower "
            "interval around the same mean would make the effect too small to matter."
        )
    return said


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


def percent_above(one, other):
    """``63 %``: mean of :func:`share_above` over the runs in which the curves differ, or a dash."""
    share = share_above(one, other).dropna()
    return f"{100 * share.mean():.0f} %" if len(share) else "–"


def by_thresholds(*shares):
    """The outcome of "this curve is the higher one at most of the thresholds at which the two differ".

    shares : :func:`share_above` of one pair of curves or more; of several, the least favourable decides.
        Where all runs have the same share it decides without an interval. A run whose curves differ nowhere
        shows neither and counts as a half; where no run's curves differ, absent. Without any, not run.
    """
    nowhere = any(share.isna().all() for share in shares)
    shares = [share.fillna(MOST) for share in shares if share.notna().any()]
    alike = [share.iloc[0] for share in shares if share.nunique() == 1]
    found = [HOLDS if one > MOST else CONTRADICTED if one < MOST else UNDECIDED for one in alike]
    found += [ABSENT] * nowhere
    if apart := [share for share in shares if share.nunique() > 1]:
        found.append(verdict(weakest(*apart), matters=SHARE, above=MOST))
    order = (CONTRADICTED, ABSENT, UNDECIDED, HOLDS)
    return next((outcome for outcome in order if outcome in found), NOT_RUN)


def same_by_thresholds(areas, *shares, matters):
    """Whether a sample of areas that is to lie above 0 has the verdict of :func:`by_thresholds`, too.

    So it is, too, where areas decide nothing; None of no areas.
    """
    if areas is None or len(areas) == 0:
        return None
    return verdict(areas, matters) in (UNDECIDED, by_thresholds(*shares))


def wide(areas, shares, matters, seen=0):
    """A condition of a statement on areas: that it comes out the same by the paper's own words.

    areas : as a statement's ``of``; shares : (table, parameters, **given) → list of :func:`share_above`
    matters, seen : the statement's
    """

    def same(table, parameters, **given):
        found = areas(table, parameters, **given)
        parts = [share for share in shares(table, parameters, **given) if share is not None]
        if found is not None:
            found = from_seed(found.dropna(), seen)
        return same_by_thresholds(found, *(from_seed(share, seen) for share in parts), matters=matters)

    return Requirement(
        "the verdict is the same by areas and by the share of thresholds at which a curve is the higher one",
        same, because="Section 4 calls alignment higher if it is so over a wide range of thresholds",
    )  # fmt: skip


def by_area(of, by, *needs, matters=LARGER["matters"], seen=0):
    """``of`` a statement on areas, judged only where the thresholds, the shares ``by``, say the same.

    As :func:`wide`; needs : further conditions, which come before this one
    """
    return {"of": of, "requires": (*needs, wide(of, by, matters, seen))}


def above_previous(layers):
    """{``layer 2 above layer 1``: :func:`percent_above`} of the curves of layers 0, 1, …, a list."""
    names = ["inputs", *(f"layer {n}" for n in range(1, len(layers)))]
    return {
        f"{names[n]} above {names[n - 1]}": percent_above(layers[n], layers[n - 1])
        for n in range(1, len(layers))
    }


def by_layer(rows, epoch=None):
    """Areas, (seeds × layers) frame, after each run's last epoch, or after ``epoch`` of those measured then.

    rows : with columns seed, epoch, layer and area; may be empty
    """
    if rows.empty:
        return pd.DataFrame()
    wanted = rows.groupby("seed")["epoch"].transform("max") if epoch is None else epoch
    return curves(rows[rows["epoch"] == wanted].astype({"layer": int}), "layer", "area")


def _steps(values):
    """Rises of the area from each hidden layer to the next, of a (seeds × layers) frame: a frame."""
    return values if values.empty else values.drop(columns=0).diff(axis=1).iloc[:, 1:]


def weakest_step(values):
    """The rise of the area between the two neighbouring hidden layers that show one least, by seed.

    values : (seeds × layers) frame of areas
    """
    steps = _steps(values)
    return weakest(*(steps[layer] for layer in steps))


def surest_fall(values):
    """The fall of the area between two neighbouring hidden layers that is surest, by seed: one is to be one.

    values : as for :func:`weakest_step`
    """
    steps = _steps(values)
    return strongest(*(-steps[layer] for layer in steps))


def monotone(values):
    """Whether the areas of a seed rise from each hidden layer to the next, (seeds,) Series of bool."""
    return (_steps(values) > 0).all(axis=1)


def arrows(values, digits=3):
    """``0.12 → 0.34``: mean areas of the hidden layers, first to last."""
    return " → ".join(f"{value:.{digits}f}" for value in values.drop(columns=0).mean())
