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
from companion.studies.representation_alignment.shared.peaks_design import REPRESENTATIONS
from tests import judging

_, outcomes = judging.of(reading)


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


def made_up(**order):
    """Errors and weights after the start: 1, 2 and 4 in the ``order`` of the representations on each task."""
    about = {
        "task": [*order],
        "representation": [*REPRESENTATIONS],
        "seed": range(3),
        "linear_step_size": 1.0,
    }

    def level(row):
        return 2 ** order[row.task].index(row.representation) * (1 + 0.001 * row.seed)

    def error(row):
        return level(row) if row.step else 100.0

    curves = judging.rows(kind="step", **about, step=[0, 100, 300], train_error=error, test_error=error)
    weights = judging.rows(kind="reduction", **about, reduction=40, weight_norm=level)
    return pd.concat([curves, weights])


PRINTED = reading.ORDER
REVERSED = {task: order[::-1] for task, order in PRINTED.items()}
ALL = ("related", "unrelated", "mirrors-best", "weights")


@pytest.mark.parametrize(
    ("order", "found"),
    [
        (PRINTED, dict.fromkeys(ALL, HOLDS)),
        (REVERSED, dict.fromkeys(ALL, CONTRADICTED)),
        # With the same order on both tasks one of them has another than its areas.
        (dict.fromkeys(PRINTED, PRINTED["related"]),
         {"related": HOLDS, "unrelated": CONTRADICTED, "mirrors-best": CONTRADICTED, "mirrors-last": HOLDS}),
        (dict.fromkeys(PRINTED, PRINTED["unrelated"]),
         {"related": CONTRADICTED, "unrelated": HOLDS, "mirrors-best": CONTRADICTED, "mirrors-last": HOLDS}),
    ],
)  # fmt: skip
def test_claims_follow_the_order_of_the_errors(order, found):
    outcome = outcomes(made_up(**order))
    assert {id: outcome[id] for id in found} == found


def test_errors_are_read_at_equal_step_times_step_size():
    about = {"kind": "step", "task": "related", "representation": [*REPRESENTATIONS], "seed": range(3)}

    def error(row):
        return row.seed + row.step * row.linear_step_size

    table = judging.rows(**about, linear_step_size=[0.1, 1.0], step=[0, 20, 200], train_error=error)
    for size in (0.1, 1.0):
        errors = reading.errors(table, {"fast_phase": 20}, "related", "train_error", "fast", size)
        assert errors["init"].tolist() == [20.0, 21.0, 22.0]
