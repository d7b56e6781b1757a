import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.experiments.representation_alignment import fig10_peaks_alignment as fig10

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
    unit = fig10.units(PARAMETERS)[seed]
    return unit.compute(**unit.arguments, device=torch.device("cpu"), report=silent).assign(seed=seed)


@pytest.fixture(scope="module")
def table():
    return pd.concat([compute(seed) for seed in range(3)], ignore_index=True)


def test_units_are_one_per_seed_and_complete():
    units = fig10.units(PARAMETERS)
    assert [unit.arguments["seed"] for unit in units] == [0, 1, 2]
    assert all(set(unit.arguments) == set(PARAMETERS) - {"seeds"} | {"seed"} for unit in units)


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
    arguments = fig10.units(PARAMETERS | {"max_epochs": 3, "tolerance": 0.0})[0].arguments
    rows = fig10.compute(**arguments, device=torch.device("cpu"), report=silent).assign(seed=0)
    assert rows.loc[rows["kind"] == "training", "epoch"].item() == 3
    last = rows[(rows["kind"] == "checkpoint") & (rows["epoch"] == 3)].set_index("task")["area"]
    for task in ("source", "related", "unrelated"):
        areas = fig10.final_areas(rows, task)
        assert areas["transfer"].item() == last[task] != areas["init"].item()


def test_checkpoint_zero_is_the_initial_representation(table):
    rows = table[table["seed"] == 0]
    start = rows[(rows["kind"] == "checkpoint") & (rows["epoch"] == 0)].set_index("task")["area"]
    for task in ("source", "related", "unrelated"):
        assert start[task] == fig10.final_areas(rows, task)["init"].item()


@pytest.mark.parametrize("normalisation", fig10.NORMALISATIONS)
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
    measured = fig10.area(torch.from_numpy(features), torch.from_numpy(labels), normalisation)
    assert measured == pytest.approx(expected / (labels @ labels * np.sqrt(40)))


def test_area_is_one_when_labels_lie_on_the_only_direction():
    labels = torch.tensor([1.0, -1.0] * 10, dtype=torch.float64)
    assert fig10.area(labels[:, None], labels, "no constant") == pytest.approx(1)


@pytest.mark.parametrize(
    "value, more, less", [(0.9, "holds", "contradicted"), (0.1, "contradicted", "holds")]
)
def test_claims_follow_the_areas(table, value, more, less):
    rows = table[table["kind"] == "area"].assign(area=0.5)
    rows.loc[rows["representation"] == "transfer", "area"] = value + 0.001 * rows["seed"]
    assert [claim.outcome for claim in fig10.claims(rows, PARAMETERS)] == [more] * 4 + [less] * 2


def test_the_finding_and_the_key_numbers_follow_the_areas(table):
    rows = table[table["kind"] == "area"].assign(area=0.5)
    rows.loc[rows["representation"] == "transfer", "area"] = 0.4
    rows.loc[(rows["representation"] == "transfer") & (rows["task"] == "source"), "area"] = 1.0
    said = fig10.finding(rows, PARAMETERS)
    assert "source +100 %, related -20 %, unrelated -20 %" in said
    assert [key.here for key in fig10.key_numbers(rows, PARAMETERS)] == ["+0.500", "-0.100", "-0.100"]


def test_claims_on_little_or_nothing(table):
    few = fig10.claims(table[table["seed"] == 0], PARAMETERS)
    assert {claim.outcome for claim in few} == {"undecided"}
    none = fig10.claims(pd.DataFrame({"unit": []}), PARAMETERS)
    assert {claim.outcome for claim in none} == {"not run"} and len(none) == len(few)
