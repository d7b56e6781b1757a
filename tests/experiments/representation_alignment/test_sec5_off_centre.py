"""A shared direction lowers Equation 2's area and not the centred one; statements come out either way."""

import numpy as np
import pandas as pd
import pytest
import torch

from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT
from companion.over_seeds import at
from companion.studies.representation_alignment.sec5_off_centre import experiment, reading
from tests import judging

N = 80


@pytest.fixture(scope="module")
def features():
    """(features (N, 30), labels, shuffled labels): the labels along one of several directions, centred."""
    draw = np.random.default_rng(0)
    y = np.repeat([1.0, -1.0], N // 2)
    phi = draw.standard_normal((N, 30)) + 3 * y[:, None] * draw.standard_normal(30)
    return (*map(torch.from_numpy, (phi - phi.mean(0), y, draw.permutation(y))),)


def test_a_shared_direction_takes_what_the_length_of_the_mean_says(features):
    phi, y, shuffled = features
    direction = torch.ones(30, dtype=torch.float64)
    centred, shifted = (experiment.measured(phi + size * direction, y, shuffled) for size in (0, 60))
    assert shifted["centred"] == pytest.approx(centred["centred"])
    assert shifted["area"] < 0.2 * centred["area"] and shifted["floor"] < 0.2 * shifted["centred"]
    assert shifted["mean"] > 0.98 and centred["mean"] < 0.2
    assert shifted["area"] / shifted["centred"] == pytest.approx(np.sqrt(1 - shifted["mean"] ** 2), rel=0.1)
    assert shifted["steps"] > 10 * shifted["steps_centred"]


def test_the_centred_area_by_its_definition(features):
    phi, y, _ = features
    gram = (phi @ phi.T).numpy()
    values, vectors = np.linalg.eigh(gram)
    expected = np.sqrt(values.clip(0)) @ np.square(vectors.T @ y.numpy()) / (N * np.sqrt(np.trace(gram)))
    assert experiment.centred_area(phi, y) == pytest.approx(expected)
    assert experiment.centred_area(y[:, None] * torch.ones(1, 3), y) == pytest.approx(1)


def table(kept, centred, steps=64.0):
    """Rows in which the last representations keep these shares of the inputs' area, 1, by either measure."""
    rows = []
    for seed in range(4):
        noise = 1 + 0.01 * seed
        common = {"dataset": "photos", "seed": seed, "floor": 0.01, "steps_centred": 1.0}
        whole = {"area": 1.0, "centred": 1.0, "mean": 0.05, "steps": 1.0}
        rows.append({"family": "inputs", "state": "before", "step": 0} | whole | common)
        for family in ("dense", "wide", "untrained"):
            for step, share in enumerate((0.9, kept), 1):
                found = {"area": share * noise, "centred": centred * noise, "mean": 1 - share}
                found["steps"] = steps * noise
                rows.append({"family": family, "state": "before", "step": step} | found | common)
        after = {"area": 0.7, "centred": 3 * noise, "mean": 0.7, "steps": 1.0}
        rows.append({"family": "dense", "state": "after", "step": 2} | after | common)
    return pd.DataFrame(rows).sample(frac=1, random_state=0)


_, outcomes = judging.of(reading)


def test_features_that_are_off_centre():
    found = outcomes(table(kept=0.1, centred=0.9))
    assert set(found.values()) == {HOLDS} and len(found) == 6


def test_features_that_are_misaligned():
    found = outcomes(table(kept=0.1, centred=0.1, steps=1.0))
    assert found["poor"] == HOLDS and found["restored-dense"] == CONTRADICTED
    assert found["slower"] == NO_EFFECT


def test_shares_are_percentages_of_the_inputs_area():
    rows = reading.shares(table(kept=0.1, centred=0.9))
    last = at(rows, family="dense", state="before", step=2, seed=0)
    assert last.set_index("measure")["share"].round(6).to_dict() == {"area": 10, "centred": 90, "floor": 1}
