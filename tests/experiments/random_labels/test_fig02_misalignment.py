"""Figure 2 of Maennel et al. 2020."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.seeding import numpy_stream
from alignbook.training.nets import SimpleCNN, he_normal_
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT
from companion.studies.random_labels.fig02_misalignment import experiment, reading
from companion.studies.random_labels.shared import filter_training
from companion.studies.random_labels.shared.random_bases import random_bases
from tests import judging
from tests.judging import QUIET


def test_aligned_filters_score_zero_with_the_data_only():
    rng = numpy_stream(0, "test")
    (vectors,) = random_bases(5, 1, rng)
    cov_x = vectors @ np.diag([1.0, 2, 3, 4, 5]) @ vectors.T
    tau = np.array([3.0, 1, 2, 5, 4])
    weights = np.concatenate([(tau * vectors).T, -(tau * vectors).T])  # rows ± τᵢ vᵢ, mean zero
    score, curve = filter_training.measure(cov_x, weights, random_bases(5, 4, rng), 3, rng)
    assert score["misalignment"] == pytest.approx(0, abs=1e-9)
    assert score["uncentred"] == pytest.approx(0, abs=1e-9)
    assert score["basis_min"] > 0.01
    assert score["flip_high"] == pytest.approx(0, abs=1e-9)  # one component each: no sign can matter
    # The sample covariance of the ten rows is 2 τᵢ² / 9 along vᵢ.
    assert [p["tau"] for p in curve] == pytest.approx(tau * math.sqrt(2 / 9))
    assert [p["sigma"] for p in curve] == pytest.approx(np.sqrt([1, 2, 3, 4, 5]))


def test_floor_is_the_same_for_all_spectra_and_has_the_exact_mean():
    settings = {"filters": 60, "dimension": 6, "draws": 300, "seed": 0}
    table = experiment.compute_floor(**settings, **QUIET)
    wide = table.pivot(index="draw", columns="spectrum", values="misalignment")
    assert np.ptp(wide.to_numpy(), axis=1).max() < 1e-9
    values = wide["flat"]
    error = values.std() / math.sqrt(len(values))
    assert abs(values.mean() - reading.expected_floor(60, 6)) < 4 * error


def test_evaluation_against_one_image_at_a_time():
    generator = torch.Generator().manual_seed(0)
    net = he_normal_(SimpleCNN((3, 6, 6), [4], 5, 10), 1.0, generator)
    with torch.no_grad():
        net.dense.bias[2] = -1e3  # this unit is dead
    x, y = torch.randn(7, 3, 6, 6, generator=generator), torch.arange(7)
    found = filter_training.evaluation(net, x, y, "float32", batch_size=3)
    logits = torch.cat([net(x[i : i + 1]) for i in range(7)]).detach()
    loss = torch.nn.functional.cross_entropy(logits.double(), y).item()
    hidden = net.dense(net.features(x, 1).permute(0, 2, 3, 1).flatten(1))
    assert found["loss"] == pytest.approx(loss, rel=1e-5)
    assert found["accuracy"] == pytest.approx((logits.argmax(1) == y).double().mean().item())
    assert found["dead_units"] == int((hidden <= 0).all(0).sum()) >= 1
    assert not net.dense._forward_hooks


def figure_table(labels, own, basis, seeds=6, moved=0.5):
    """Score rows; ``own`` is the misalignment after the start and ``moved`` the displacement at the end."""
    return judging.rows(
        kind="score", labels=labels, seed=range(seeds), epoch=[0, 1, 2], basis_mean=basis,
        misalignment=lambda row: (own if row.epoch else 9.0) + 0.01 * row.seed,
        displacement=lambda row: moved * row.epoch / 2, accuracy=lambda row: 0.95 + 0.01 * row.seed,
    )  # fmt: skip


outcomes = judging.of(reading, {"filters": 256, "init_scale": 0.1})[1]


def test_claims_follow_the_worst_epoch_after_the_start():
    table = pd.concat([figure_table("real", 1.6, 8.0), figure_table("random", 7.0, 3.5)])
    found = outcomes(table)
    assert found["ends-below-random-basis"] == CONTRADICTED  # with one kind of labels
    for id in ("below-random-basis", "very-small"):
        assert (found[f"{id}-real"], found[f"{id}-random"]) == (HOLDS, CONTRADICTED)
    one_bad_epoch = pd.concat([figure_table(kind, 1.6, 8.0) for kind in reading.LABELS])
    one_bad_epoch.loc[one_bad_epoch["epoch"] == 1, "misalignment"] += 7
    found = outcomes(one_bad_epoch)
    assert found["ends-below-random-basis"] == HOLDS and found["very-small-real"] == CONTRADICTED
    assert found["below-random-basis-real"] == CONTRADICTED
    alike = outcomes(pd.concat([figure_table(kind, 3.0, 3.0) for kind in reading.LABELS]))
    assert alike["ends-below-random-basis"] == alike["very-small-real"] == NO_EFFECT


def test_every_recorded_epoch_starts_where_the_filters_have_moved():
    # At the first epoch the filters have not moved and random bases happen to fit better.
    table = figure_table("random", 1.6, 8.0, moved=0.15)
    table.loc[table["epoch"] == 1, "basis_mean"] = 1.0
    assert (table["displacement"] < 0.1)[table["epoch"] == 1].all()
    assert outcomes(table)["below-random-basis-random"] == HOLDS
    late = table.assign(displacement=2 * table["displacement"])
    assert outcomes(late)["below-random-basis-random"] == CONTRADICTED


def test_a_step_changes_a_unit_by_the_square_of_the_scale():
    asked = {"filters": 32, "hidden": 8, "learning_rate": 0.01}
    one, three = (reading.step_of_a_unit(asked, scale, images=8) for scale in (0.1, 0.3))
    assert three == pytest.approx(9 * one) and reading.step_of_a_unit(
        asked | {"learning_rate": 0.02}, 0.1, images=8
    ) == pytest.approx(2 * one)
