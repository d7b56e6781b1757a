"""Figure 10: curves, areas and claims that come out either way."""

import numpy as np
import pytest
import torch

from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT, OPEN
from companion.studies.representation_alignment.fig10_peaks_alignment import experiment as fig10, reading
from companion.studies.representation_alignment.shared.alignment_area import area
from companion.studies.representation_alignment.shared.peaks_design import NORMALISATIONS, TASKS
from tests import judging
from tests.judging import QUIET

PARAMETERS = dict(
    points=300, width=10, batch_size=32, step_size=0.001, window=2, tolerance=0.01, max_epochs=6,
    checkpoints=[1, 3, 1000], seeds=3,
)  # fmt: skip
_, outcomes = judging.of(reading, PARAMETERS)


@pytest.fixture(scope="module")
def table(computed):
    return computed(fig10, PARAMETERS)


def test_the_transferred_representation_is_the_trained_one():
    arguments = fig10.jobs(PARAMETERS | {"max_epochs": 3, "tolerance": 0.0})[0].arguments
    rows = fig10.compute(**arguments, **QUIET).assign(seed=0)
    assert rows.loc[rows["kind"] == "training", "epoch"].item() == 3
    last = rows[(rows["kind"] == "checkpoint") & (rows["epoch"] == 3)].set_index("task")["area"]
    for task in TASKS:
        areas = reading.final_areas(rows, task)
        assert areas["transfer"].item() == last[task] != areas["init"].item()


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
def test_area_against_a_full_decomposition(normalisation):
    generator = np.random.default_rng(0)
    features, labels = generator.normal(size=(40, 6)) * 3, generator.normal(size=40)
    phi = features.copy()
    if normalisation.startswith("length one"):
        phi /= np.linalg.norm(phi, axis=1, keepdims=True)
    if normalisation != "no constant":
        phi = np.hstack([phi, np.ones((40, 1))])
    phi /= np.linalg.norm(phi, axis=1, keepdims=True)
    left, singular, _ = np.linalg.svd(phi)
    expected = sum(s * (u @ labels) ** 2 for s, u in zip(singular, left.T, strict=False))
    measured = area(torch.from_numpy(features), torch.from_numpy(labels), normalisation)
    assert measured == pytest.approx(expected / (labels @ labels * np.sqrt(40)))


def with_areas(table, related, source, unrelated):
    """Areas of 0.5, after training these; seeds differ a little."""
    rows = table[table["kind"] == "area"].assign(area=0.5)
    for task, value in (("related", related), ("source", source), ("unrelated", unrelated)):
        mine = (rows["representation"] == "transfer") & (rows["task"] == task)
        rows.loc[mine, "area"] = value + 0.001 * rows["seed"]
    return rows


@pytest.mark.parametrize(
    ("areas", "found"),
    [
        ((0.9, 0.8, 0.1), (HOLDS, HOLDS, HOLDS)),
        ((0.1, 0.2, 0.9), (CONTRADICTED, CONTRADICTED, CONTRADICTED)),
        ((0.503, 0.8, 0.508), (NO_EFFECT, HOLDS, OPEN)),
    ],
)
def test_claims_follow_the_areas(table, areas, found):
    made = outcomes(with_areas(table, *areas))
    for id, outcome in zip(("related-above", "source-above", "unrelated-below"), found, strict=True):
        assert made[id] == outcome
