"""What the probe's report says."""

import math

import pandas as pd
import pytest
from matplotlib.figure import Figure

from alignbook.report import FRESH, figures, sentences


def slices(**rises):
    """A table of slices: by network, how far the loss rises on both sides."""
    return pd.DataFrame(
        [
            {"network": who, "alpha": alpha, "loss": abs(alpha) * rise}
            for who, rise in rises.items()
            for alpha in (-1.0, 0.0, 1.0)
        ]
    )


def found(name, rows):
    """What is said of a single network."""
    ((whose, said),) = sentences(name, rows)
    assert whose == "network"
    return said


def test_a_slope_is_no_rise_and_a_negative_eigenvalue_is_not_the_largest():
    rows = slices(network=1).assign(loss=[-0.012, 0.0, 0.017])
    assert found("slice", rows).endswith("differs by -0.012 and +0.017, 0.0025 on average")
    row = {"eigenvalue": -42.8, "residual": 0.1, "trace": 3.0, "trace_low": 2.0, "trace_high": 4.0}
    said = found("curvature", pd.DataFrame([row]))
    assert said == "the eigenvalue of largest magnitude is -42.8, the trace 3 (2 to 4)"


def test_the_layer_that_knows_most_is_the_one_furthest_above_chance():
    """A layer of many directions holds many of any labels."""
    shares = {"in": (0.2, 0.1), "wide": (0.5, 0.45), "narrow": (0.4, 0.1)}
    rows = pd.DataFrame(
        [{"layer": name, "k": 10, "share": s, "chance": c} for name, (s, c) in shares.items()]
        + [{"layer": "(output)", "k": 3, "share": 0.3, "chance": 0.05}]
    )
    assert found("features", rows) == (
        "20\u00a0% of the targets on the top 10 singular vectors at in, 30\u00a0% on all 3 at "
        "(output), furthest above chance at narrow (40\u00a0%, where chance is 10\u00a0%)"
    )


def test_every_network_has_the_chance_of_its_own_labels():
    rows = pd.DataFrame(
        [
            {"network": who, "depth": 0, "alignment": a, "chance": c}
            for who, a, c in (("network", 0.5, 0.1), ("before", 0.2, 0.15), (FRESH, 0.1, 0.1))
        ]
    )
    ax = Figure().subplots()
    figures.DRAW["tangent"](ax, rows)
    assert [line.get_ydata()[0] for line in ax.lines if line.get_linestyle() == ":"] == [0.1, 0.15, 0.1]


def test_how_far_weights_moved_is_a_share_of_their_length():
    """The longest move need not be that of the weight which moved most for its length."""
    rows = pd.DataFrame(
        {"layer": ["a", "b", "c"], "deviation": [6.0, 2.0, 1.0], "relative": [0.27, 1.1, math.inf]}
    )
    assert found("deviation", rows) == (
        "farthest relative to its norm, in b (110\u00a0%); in length, in a (6)"
    )
    from_zero = found("deviation", rows.assign(relative=math.inf))
    assert from_zero == "farthest in length, in a (6)"
    ax = Figure().subplots()
    figures.DRAW["deviation"](ax, rows.iloc[:2])
    assert ax.lines[0].get_ydata() == pytest.approx([27, 110])


def test_slices_of_losses_that_lie_far_apart_are_drawn_from_one_level():
    rows = slices(network=1, before=3)
    rows.loc[rows["network"] == "before", "loss"] += 13
    ax = Figure().subplots()
    figures.DRAW["slice"](ax, rows)
    drawn = {line.get_label(): line.get_ydata().tolist() for line in ax.lines}
    assert drawn == {"network (0 at α = 0)": [1, 0, 1], "before (13 at α = 0)": [3, 0, 3]}
