"""Figures 1 and 5: linear models against gradient descent, the representations, claims on made-up tables."""

import numpy as np
import pandas as pd
import pytest
import torch

from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT, OPEN
from companion.studies.representation_alignment.fig01_three_representations import (
    design,
    experiment,
    reading,
)
from tests import judging

REPRESENTATIONS = ["relu", "rbf", "dictionary", design.OTHER]


def made_up(areas=(0.5, 0.2, 0.1), errors=(0.1, 0.2, 0.4), other=None, kept=0.8, unfitted=1e-20, seeds=4):
    """Of ReLU network, RBF network and dictionary; ``other``: (area, error) of the second bandwidth."""
    second = other or (areas[1], errors[1])
    area = dict(zip(REPRESENTATIONS, (*areas, second[0]), strict=True))
    error = dict(zip(REPRESENTATIONS, (*errors, second[1]), strict=True))
    about = {"seed": range(seeds), "representation": REPRESENTATIONS}
    whole = judging.rows(
        0.01, 0, **about, kind="area", unfitted=unfitted, points=40, square=0.2,
        area=lambda row: area[row.representation] + row.noise,
    )  # fmt: skip
    curve = judging.rows(
        0.01, 1, **about, kind="curve", threshold=[0.0, 0.25], alignment=lambda row: kept + row.noise
    )
    steps = judging.rows(
        0.01, 2, **about, kind="step", step_size=[0.1, 1.0], step=[100, 200],
        train_error=lambda row: 0.4 / (1 + row.step_size // 1) * error[row.representation] * (1 + row.noise),
        test_error=lambda row: 2 * row.train_error,
    )  # fmt: skip
    return pd.concat([whole, curve, steps], ignore_index=True)


_, outcomes = judging.of(reading)


def test_the_printed_order_holds():
    found = outcomes(made_up())
    assert set(found.values()) == {HOLDS} and len(found) == 6


@pytest.mark.parametrize(
    ("table", "outcome", "ids"),
    [
        (made_up(errors=(0.2, 0.1, 0.4)), CONTRADICTED, ["faster-rbf", f"faster-{design.OTHER}"]),
        (made_up(errors=(0.201, 0.2, 0.4)), NO_EFFECT, ["faster-rbf"]),
        (made_up(areas=(0.2, 0.5, 0.1)), CONTRADICTED, ["first"]),
        (made_up(areas=(0.5, 0.1, 0.3)), CONTRADICTED, ["second"]),
        # The second bandwidth turns its own cases alone.
        (made_up(other=(0.2, 0.01)), CONTRADICTED, [f"faster-{design.OTHER}"]),
        (made_up(other=(0.2, 0.01)), HOLDS, ["faster-rbf", "first"]),
        (made_up(kept=0.3), CONTRADICTED, ["most"]),
        (made_up(unfitted=8e-5), CONTRADICTED, ["fits"]),
        (made_up(seeds=1), OPEN, ["faster-rbf", "first", "most"]),
    ],
)  # fmt: skip
def test_another_order_disagrees(table, outcome, ids):
    found = outcomes(table)
    assert {id: found[id] for id in ids} == dict.fromkeys(ids, outcome)


def test_radial_basis_functions_and_their_centres():
    draw = torch.Generator().manual_seed(0)
    centres, x = torch.randn(6, 4, generator=draw), torch.randn(3, 4, generator=draw)
    net = experiment.RadialBasis(centres, 0.7, draw)
    plain = [[torch.exp(-(a - c).square().sum() / (2 * 0.49)) for c in centres] for a in x]
    torch.testing.assert_close(net.features(x), torch.tensor(plain))
    net(x).sum().backward()
    assert net.centres.grad.abs().sum() > 0 and net(x).shape == (3, 1)


def test_alignment_is_that_of_the_matrix_on_which_linear_models_are_trained(smoke):
    table = smoke("representation_alignment/fig01_three_representations").table
    whole = table[table["kind"] == "area"].set_index(["seed", "representation"])
    curves = table[table["kind"] == "curve"].set_index(["seed", "representation"])
    beyond = curves[curves["threshold"] > whole["largest"].loc[curves.index]]
    assert len(beyond) and (beyond["alignment"] == 0).all()  # no direction is longer than the longest
    # What least squares leaves is what no singular vector has: alignment at threshold 0 is the rest.
    start = curves[curves["threshold"] == 0]["alignment"]
    np.testing.assert_allclose(1 - start, whole["unfitted"].loc[start.index], atol=1e-6)


def test_step_sizes_that_diverge_are_left_out():
    draw = torch.Generator().manual_seed(0)
    hidden = torch.randn(30, 5, generator=draw, dtype=torch.float64).abs()
    y = torch.randn(30, generator=draw, dtype=torch.float64)
    made = experiment.measured(hidden, y, hidden, y, [0.1, 10.0], 50, 10)
    assert set(made["step_size"].dropna()) == {0.1}
