"""Figure 20: curves that only fall, rise and fall, only rise, on made-up tables."""

import numpy as np
import pandas as pd
import pytest

from companion.claims import CONTRADICTED, HOLDS, OPEN
from companion.studies.random_labels.fig20_gaussian_transfer import experiment, reading
from tests import judging

SHAPES = {
    "left": lambda s: 2 - s,
    "middle": lambda s: 1 - (s - 0.5) ** 2,
    "right": lambda s: 1 + s,
}


def made_up(shapes=SHAPES, networks=6, noise=0.001, group=10):
    """Networks of one group; by default of one that had not been run when the margin was fixed."""
    sizes = {"left": (1.0, 512, 1000), "middle": (0.1, 512, 1000), "right": (None, None, 2000)}
    return pd.concat(
        judging.rows(
            noise, draw, seed=group, network=range(networks), index=range(9),
            sigma=lambda row: 0.1 + 0.1 * row.index, tau_start=0.3, converged=1,
            tau=lambda row, shape=shape: 0.3 * shape(row.sigma) * (1 + row.noise),
            **dict(zip(("lowest", "first_hidden", "inputs"), sizes[panel], strict=True)),
        )
        for draw, (panel, shape) in enumerate(shapes.items())
    )  # fmt: skip


outcomes = judging.of(reading)[1]


def test_the_printed_shapes_hold():
    assert set(outcomes(made_up()).values()) == {HOLDS}


def test_another_shape_contradicts_its_panel_alone():
    found = outcomes(made_up(SHAPES | {"right": SHAPES["middle"]}))
    assert [id for id, outcome in found.items() if outcome != HOLDS] == ["shapes-right"]
    turned = outcomes(made_up(SHAPES | {"left": SHAPES["right"], "right": SHAPES["left"]}))
    assert turned["shapes-left"] == turned["shapes-right"] == CONTRADICTED
    flat = outcomes(made_up(SHAPES | {"left": lambda s: 1.0}, noise=0.01))
    assert flat["shapes-left"] == OPEN


def test_a_fall_that_cannot_be_seen_is_no_fall():
    # A rise by 0.4 in ln and a fall by 0.02 after it: any fall was once held against the right panel.
    table = made_up(SHAPES | {"right": lambda s: np.exp(np.where(s < 0.85, 0.5 * s, 0.38))}, noise=1e-4)
    fall = reading.percent(table, {}, "right", reading.FALL)
    assert (fall > 1.5).all() and outcomes(table)["shapes-right"] == HOLDS
    visible = made_up(SHAPES | {"right": lambda s: np.exp(np.where(s < 0.85, 0.5 * s, 0.25))}, noise=1e-4)
    assert outcomes(visible)["shapes-right"] == CONTRADICTED


def test_networks_stop_one_by_one_and_the_others_do_not_notice():
    job = experiment.jobs(judging.given("random_labels/fig20_gaussian_transfer", goal=0.05))[0]
    table = judging.compute(job, inputs=20, max_steps=2000)
    one = table.groupby("network").first()
    assert (one["converged"] == 1).all() and (one["loss"] < 0.05).all()
    assert one["steps"].nunique() > 1
    assert table["sigma"].iloc[:5].tolist() == pytest.approx(np.sqrt([1.0, 1.1, 1.2, 1.3, 1.4]))
    # Up to where the first one stops, none has left.
    early = judging.compute(job, inputs=20, max_steps=int(one["steps"].min()))
    first = one["steps"].idxmin()
    kept = [frame[frame["network"] == first].reset_index(drop=True) for frame in (table, early)]
    pd.testing.assert_frame_equal(*kept)
    late = table[table["network"] != first].merge(early, on=["network", "index"])
    assert np.allclose(late["tau_start_x"], late["tau_start_y"], rtol=1e-6)
