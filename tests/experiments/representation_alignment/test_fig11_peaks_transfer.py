"""Figure 11: descents beside their loops, and claims that come out either way."""

import numpy as np
import pandas as pd
import pytest

from companion.claims import CONTRADICTED, HOLDS
from companion.studies.representation_alignment.fig11_peaks_transfer import (
    design,
    experiment as fig11,
    reading,
)
from tests import judging

PARAMETERS = dict(
    points=300, width=10, batch_size=32, step_size=0.001, window=2, tolerance=0.01, max_epochs=4, few=30,
    test_points=50, linear_step_sizes=[0.1, 1.0], iterations=200, fast_phase=20, seeds=3,
)  # fmt: skip
claims, outcomes = judging.of(reading, PARAMETERS)


@pytest.fixture(scope="module")
def table(computed):
    return computed(fig11, PARAMETERS)


def random_problem(n, d, seed=0):
    generator = np.random.default_rng(seed)
    phi = generator.normal(size=(n, d))
    return phi / np.linalg.norm(phi, axis=1, keepdims=True), generator.normal(size=n)


@pytest.mark.parametrize("n, d, repeated", [(20, 6, False), (6, 20, False), (20, 6, True)])
@pytest.mark.parametrize("step_size", [0.01, 0.5, 1.0])
def test_descent_against_its_own_loop(n, d, repeated, step_size):
    phi, y = random_problem(n, d)
    if repeated:
        phi[:, 1] = phi[:, 0]  # a direction of singular value zero
    path = fig11.descend(phi, y, step_size, 50)
    w = np.zeros(d)
    for step in range(51):
        np.testing.assert_allclose(path["basis"] @ path["coordinates"][step], w, atol=1e-12)
        assert path["norm"][step] == pytest.approx(np.linalg.norm(w), abs=1e-12)
        assert path["train_error"][step] == pytest.approx(np.mean((phi @ w - y) ** 2))
        w = w - step_size / n * phi.T @ (phi @ w - y)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7])
def test_descent_of_a_direction_that_is_gone_after_one_step(n):
    y = np.ones(n)
    path = fig11.descend(np.ones((n, 1)), y, 1.0, 3)  # η σ²/n = 1, for n = 2 and 5 above it by rounding
    assert path["train_error"].tolist() == pytest.approx([1, 0, 0, 0], abs=1e-12)
    assert path["norm"].tolist() == pytest.approx([0, 1, 1, 1])


def test_norms_are_those_of_the_first_step_that_reduces_enough():
    phi, y = random_problem(30, 5)
    path = fig11.descend(phi, y, 0.5, 300)
    frame = fig11.norms_at_reductions(path)
    start = path["train_error"][0]
    for row in frame.itertuples():
        step = next(t for t, e in enumerate(path["train_error"]) if 100 * (1 - e / start) >= row.reduction)
        assert (row.step, row.weight_norm) == (step, path["norm"][step])
    assert 0 < len(frame) < len(design.REDUCTIONS)  # five features do not fit thirty random labels


def with_errors(table, **level):
    """Errors and weights of ``level`` = {representation: value} after the start; runs differ a little."""
    rows, later = table.copy(), table["step"] > 0
    for name, value in level.items():
        mine = later & (rows["representation"] == name)
        for column in ("train_error", "test_error", "weight_norm"):
            rows.loc[mine, column] = value * (1 + 0.001 * rows["seed"])
    rows.loc[later, "test_error"] *= 2  # so that there is a gap
    rows.loc[~later, ["train_error", "test_error"]] = 100.0  # so that all have reduced the loss enough
    return rows


@pytest.mark.parametrize(
    ("transfer", "related", "unrelated"), [(0.5, HOLDS, CONTRADICTED), (9.0, CONTRADICTED, HOLDS)]
)
def test_claims_follow_the_errors(table, transfer, related, unrelated):
    made = outcomes(with_errors(table, original=1.0, init=2.0, transfer=transfer))
    assert (made["related"], made["unrelated"]) == (related, unrelated)
    assert made["mirrors-best"] == CONTRADICTED  # one of the two tasks has another order
    assert made["mirrors-last"] == HOLDS


@pytest.mark.parametrize("mirror", [True, False])
def test_errors_that_mirror_alignment(table, mirror):
    made = pd.concat(
        with_errors(
            table, **dict(zip(order, (1.0, 2.0, 4.0) if mirror else (4.0, 2.0, 1.0), strict=True))
        ).loc[lambda rows, task=task: rows["task"] == task]
        for task, order in reading.ORDER.items()
    )
    found = outcomes(made)
    assert {found[id] for id in ("mirrors-best", "weights", "related", "unrelated")} == {
        HOLDS if mirror else CONTRADICTED
    }


def test_errors_are_read_at_equal_step_times_step_size(table):
    one, ten = (
        reading.errors(table, PARAMETERS, "related", "train_error", "fast", size)["init"]
        for size in (1.0, 0.1)
    )
    rows = table[
        (table["kind"] == "step") & (table["task"] == "related") & (table["representation"] == "init")
    ]
    for found, size, step in ((one, 1.0, 20), (ten, 0.1, 200)):
        own = rows[(rows["linear_step_size"] == size) & (rows["step"] == step)].set_index("seed")[
            "train_error"
        ]
        assert found.tolist() == own.tolist()
    np.testing.assert_allclose(one, ten, rtol=0.02)
