"""What the probe's report says."""

import math

import pandas as pd
import pytest
from matplotlib.figure import Figure

from alignbook.pages import probe_figures, probe_page
from alignbook.pages.probe_words import FRESH, sentences
from alignbook.probing import Probe


def slices(**rises):
    """A table of slices: by network, how far the loss rises on both sides."""
    return pd.DataFrame(
        [
            {"network": who, "alpha": alpha, "loss": abs(alpha) * rise}
            for who, rise in rises.items()
            for alpha in (-1.0, 0.0, 1.0)
        ]
    )


@pytest.mark.parametrize(
    ("rises", "said"),
    [
        ((1, 1, 1), "{} by 1 within 1 of each filter's length"),
        (
            (1, 2, 2),
            "{} by 1 within 1 of each filter's length; before and at random weights: {} by 2 within 1 of "
            "each filter's length",
        ),
        (
            (2, 2, 3),
            "the network and before: {} by 2 within 1 of each filter's length; "
            "at random weights: {} by 3 within 1 of each filter's length",
        ),
    ],
)
def test_networks_of_which_the_same_is_found_are_named_together(rises, said):
    rows = slices(**dict(zip(("network", "before", FRESH), rises, strict=True)))
    assert sentences("slice", rows) == said.replace("{}", "the loss rises")


def test_the_network_at_random_weights_is_called_that_in_every_table():
    probe = Probe(
        {who: {"class": "Net"} for who in ("network", FRESH)}, {"slice": slices(network=1, **{FRESH: 2})}
    )
    page = probe_page.page(probe, "A probe")
    assert page.count(">random weights</td>") == 4 and FRESH not in page.replace(
        "landscapes_at_initialisation", ""
    )


def test_how_far_weights_moved_is_a_share_of_their_length():
    """The longest move need not be that of the weight which moved most for its length."""
    rows = pd.DataFrame(
        {"layer": ["a", "b", "c"], "deviation": [6.0, 2.0, 1.0], "relative": [0.27, 1.1, math.inf]}
    )
    assert sentences("deviation", rows) == (
        "farthest relative to its norm, in b (110\u00a0%); in length, in a (6)"
    )
    from_zero = sentences("deviation", rows.assign(relative=math.inf))
    assert from_zero == "farthest in length, in a (6)"
    ax = Figure().subplots()
    probe_figures.DRAW["deviation"](ax, rows.iloc[:2])
    assert ax.lines[0].get_ydata() == pytest.approx([27, 110])


def test_slices_of_losses_that_lie_far_apart_are_drawn_from_one_level():
    rows = slices(network=1, before=3)
    rows.loc[rows["network"] == "before", "loss"] += 13
    ax = Figure().subplots()
    probe_figures.DRAW["slice"](ax, rows)
    drawn = {line.get_label(): line.get_ydata().tolist() for line in ax.lines}
    assert drawn == {"network (0 at α = 0)": [1, 0, 1], "before (13 at α = 0)": [3, 0, 3]}
