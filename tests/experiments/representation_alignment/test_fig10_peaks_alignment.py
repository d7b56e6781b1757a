"""Figure 10: curves, areas and claims that come out either way."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, UNDECIDED
from alignbook.statements import judged
from alignbook.studies.representation_alignment.alignment_area import area
from alignbook.studies.representation_alignment.fig10_peaks_alignment import experiment as fig10
from alignbook.studies.representation_alignment.fig10_peaks_alignment import reading
from alignbook.studies.representation_alignment.peaks_design import NORMALISATIONS, TASKS

PARAMETERS = {
    "points": 300,
    "width": 10,
    "batch_size": 32,
    "step_size": 0.001,
    "window": 2,
    "tolerance": 0.01,
    "max_epochs": 6,
    "checkpoints": [1, 3, 1000],
    "seeds": 3,
}


def silent(done, text):
    pass


def compute(seed):
    job = fig10.jobs(PARAMETERS)[seed]
    return job.compute(**job.arguments, device=torch.device("cpu"), report=silent).assign(seed=seed)


@pytest.fixture(scope="module")
def table():
    return pd.concat([compute(seed) for seed in range(3)], ignore_index=True)


def test_jobs_are_one_per_seed_and_complete():
    jobs = fig10.jobs(PARAMETERS)
    assert [job.arguments["seed"] for job in jobs] == [0, 1, 2]
    assert all(set(job.arguments) == set(PARAMETERS) - {"seeds"} | {"seed"} for job in jobs)


def test_table_has_every_curve_and_repeats_bit_for_bit(table):
    curves = table[table["kind"] == "curve"]
    assert (curves.groupby(["seed", "task", "representation"]).size() == fig10.THRESHOLDS).all()
    assert len(curves) == 3 * 9 * fig10.THRESHOLDS
    assert set(table[table["kind"] == "checkpoint"]["epoch"]) == {0, 1, 3}
    pd.testing.assert_frame_equal(compute(1), table[table["seed"] == 1].reset_index(drop=True))


def test_curves_fall_and_start_at_most_at_the_squared_length(table):
    for _, curve in table[table["kind"] == "curve"].groupby(["seed", "task", "representation"]):
        values = curve.sort_values("threshold")["alignment"].to_numpy()
        assert (np.diff(values) <= 1e-9).all()
        assert values[0] <= 300 / 12 * 1.3  # n times the variance of a uniform variable, with sampling error


def test_the_transferred_representation_is_the_trained_one():
    arguments = fig10.jobs(PARAMETERS | {"max_epochs": 3, "tolerance": 0.0})[0].arguments
    rows = fig10.compute(**arguments, device=torch.device("cpu"), report=silent).assign(seed=0)
    assert rows.loc[rows["kind"] == "training", "epoch"].item() == 3
    last = rows[(rows["kind"] == "checkpoint") & (rows["epoch"] == 3)].set_index("task")["area"]
    for task in TASKS:
        areas = reading.final_areas(rows, task)
        assert areas["transfer"].item() == last[task] != areas["init"].item()


def test_checkpoint_zero_is_the_initial_representation(table):
    rows = table[table["seed"] == 0]
    start = rows[(rows["kind"] == "checkpoint") & (rows["epoch"] == 0)].set_index("task")["area"]
    for task in TASKS:
        assert start[task] == reading.final_areas(rows, task)["init"].item()


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


def test_area_is_one_when_labels_lie_on_the_only_direction():
    labels = torch.tensor([1.0, -1.0] * 10, dtype=torch.float64)
    assert area(labels[:, None], labels, "no constant") == pytest.approx(1)


SIDES = ("related-above", "source-above", "unrelated-below")
IDS = [f"{side}-{other}" for side in SIDES for other in ("original", "init")]


def outcomes(table, of=reading.STATEMENTS):
    return {claim.id: claim.outcome for claim in judged(of, table, PARAMETERS)}


def with_areas(table, related, source, unrelated):
    """Areas of 0.5, after training these; seeds differ a little."""
    rows = table[table["kind"].isin(["area", "curve"])].copy()
    rows["area"] = 0.5
    for task, value in (("related", related), ("source", source), ("unrelated", unrelated)):
        mine = (rows["representation"] == "transfer") & (rows["task"] == task)
        rows.loc[mine, "area"] = value + 0.001 * rows["seed"]
    return rows


def test_claims_follow_the_areas(table):
    assert outcomes(with_areas(table, 0.9, 0.8, 0.1)) == dict.fromkeys(IDS, HOLDS)
    assert outcomes(with_areas(table, 0.1, 0.2, 0.9)) == dict.fromkeys(IDS, CONTRADICTED)
    found = outcomes(with_areas(table, 0.503, 0.8, 0.9))  # a change that no reader could see
    assert found["related-above-init"] == ABSENT and found["source-above-init"] == HOLDS
    assert found["unrelated-below-original"] == CONTRADICTED


def test_claims_on_other_areas(table):
    """What the page asks: would another normalisation, or an earlier end, change a verdict?"""
    rows = with_areas(table, 0.9, 0.8, 0.1)
    other = rows["normalisation"].eq(NORMALISATIONS[2]) & rows["representation"].eq("transfer")
    rows.loc[other, "area"] = 0.2 + 0.001 * rows["seed"]
    plain = reading.statements(lambda t, task: reading.final_areas(t, task, NORMALISATIONS[2]))
    turned = outcomes(rows, plain)
    assert turned["related-above-init"] == CONTRADICTED and turned["unrelated-below-init"] == HOLDS
    early = reading.areas_at(table, "related", 3)
    by_hand = table[(table["kind"] == "checkpoint") & (table["epoch"] == 3) & (table["task"] == "related")]
    assert early["transfer"].tolist() == by_hand.sort_values("seed")["area"].tolist()
    assert (early["init"] == reading.final_areas(table, "related")["init"]).all()
    assert reading.areas_at(table, "related", 999).empty


def test_the_finding_and_the_key_numbers_follow_the_areas(table):
    def said(rows):
        claims = {claim.id: claim for claim in judged(reading.STATEMENTS, rows, PARAMETERS)}
        return reading.finding(rows, PARAMETERS, claims)

    rows = with_areas(table, 0.75, 1.0, 0.4)
    assert said(rows).startswith("Training on one task also aligns features with a related task (the")
    assert "the area under their alignment curve is 50 % larger than the inputs'); with" in said(rows)
    assert "with an unrelated task they align less than the inputs." in said(rows) and len(said(rows)) <= 300
    turned = said(with_areas(table, 0.25, 1.0, 0.6))
    assert "does not align" in turned and "50 % smaller" in turned and "better than the inputs, too" in turned
    keys = reading.key_numbers(rows, PARAMETERS)
    assert [key.here for key in keys] == ["2.00", "1.50", "0.80"]


def test_the_share_of_thresholds_comes_from_the_curves(table):
    """An area says nothing of the range: a trained curve below all others has a share of 0."""
    rows = with_areas(table, 0.9, 0.9, 0.9)
    trained = (rows["kind"] == "curve") & (rows["representation"] == "transfer")
    rows.loc[trained, "alignment"] = -1.0
    assert set(reading.thresholds(rows).to_numpy().ravel()) == {"0 %"}
    rows.loc[trained, "alignment"] = 1e6
    assert set(reading.thresholds(rows).to_numpy().ravel()) == {"100 %"}


def test_claims_on_little_or_nothing(table):
    assert outcomes(table[table["seed"] == 0]) == dict.fromkeys(IDS, UNDECIDED)
