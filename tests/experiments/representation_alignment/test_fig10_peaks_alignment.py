"""Figure 10: curves, areas and claims that come out either way."""

import numpy as np
import pytest
import torch

from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT, OPEN
from companion.studies.representation_alignment.fig10_peaks_alignment import experiment as fig10, reading
from companion.studies.representation_alignment.shared.alignment_area import area
from companion.studies.representation_alignment.shared.peaks_design import (
    NORMALISATIONS,
    REPRESENTATIONS,
    TASKS,
)
from tests import judging

_, outcomes = judging.of(reading)


def test_the_transferred_representation_is_the_trained_one():
    job = fig10.jobs(judging.given("representation_alignment/fig10_peaks_alignment"))[0]
    rows = judging.compute(job, max_epochs=3, checkpoints=[3], window=3).assign(seed=0)
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


@pytest.mark.parametrize(
    ("related", "source", "unrelated", "found"),
    [
        (0.9, 0.8, 0.1, (HOLDS, HOLDS, HOLDS)),
        (0.1, 0.2, 0.9, (CONTRADICTED, CONTRADICTED, CONTRADICTED)),
        (0.503, 0.8, 0.508, (NO_EFFECT, HOLDS, OPEN)),
    ],
)
def test_claims_follow_the_areas(related, source, unrelated, found):
    """Areas of 0.5, after training these."""
    after = {"related": related, "source": source, "unrelated": unrelated}
    about = {"kind": "area", "normalisation": NORMALISATIONS[0], "seed": range(3)}

    def area(row):
        return after[row.task] + 0.001 * row.seed if row.representation == "transfer" else 0.5

    table = judging.rows(**about, task=[*after], representation=[*REPRESENTATIONS], area=area)
    outcome = outcomes(table)
    assert tuple(outcome[id] for id in ("related-above", "source-above", "unrelated-below")) == found
