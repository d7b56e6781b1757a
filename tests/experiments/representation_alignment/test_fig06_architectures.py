"""Figures 6, 17 and 18: settings, the curve against Equation 2, claims on made-up tables."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.data.tables import available, load_table
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT, OPEN
from companion.studies.representation_alignment.fig06_architectures import design, reading
from companion.studies.representation_alignment.shared import alignment_grid
from tests import judging

PARAMETERS = judging.given(
    "representation_alignment/fig06_architectures", datasets=["mnist"], optimisers=["adam", "slow sgd"]
)
claims, outcomes = judging.of(reading, PARAMETERS)


def made_up(trained, test=None, settings=None):
    """Areas in which each setting goes from 0.2 to ``trained``, {setting: area}; 0.3 of the inputs.

    test : the area after training on test data, where it is another
    """

    def after(row):
        if row.split == "test" and test is not None and row.setting != "inputs":
            return test
        return trained.get(row.setting, trained[None])

    trained = {"inputs": 0.3} | trained
    return judging.rows(
        noise=0.002,
        kind="area",
        dataset="mnist",
        seed=range(4),
        split=["train", "test"],
        setting=["inputs", *(settings or design.settings(PARAMETERS))],
        init=lambda row: 0.3 if row.setting == "inputs" else 0.2,
        trained=lambda row: after(row) + row.noise,
        loss=lambda row: np.nan if row.setting == "inputs" else 0.2,
    )


@pytest.mark.parametrize(
    ("trained", "test", "found"),
    [
        ({None: 0.6}, None, (HOLDS, HOLDS)),
        # Above its start, below the inputs.
        ({None: 0.6, "linear": 0.25}, None, (CONTRADICTED, CONTRADICTED)),
        ({None: 0.6}, 0.1, (HOLDS, CONTRADICTED)),
        ({None: 0.6}, 0.312, (HOLDS, OPEN)),
    ],
)
def test_the_setting_that_gains_least_decides(trained, test, found):
    made = outcomes(made_up(trained, test=test))
    assert (made["raises"], made["test"]) == found


def test_a_network_that_has_not_learned_its_labels_does_not_count():
    table = made_up({None: 0.6, "slow sgd": 0.1})
    assert outcomes(table)["raises"] == CONTRADICTED
    slow = table["setting"] == "slow sgd"
    table = table.assign(loss=table["loss"].mask(slow, 0.9))  # bits
    assert outcomes(table)["raises"] == HOLDS
    assert list(reading.combinations(table, PARAMETERS)) == [len(design.settings(PARAMETERS)) - 1]
    assert list(reading.gains(table.replace("mnist", "ct_slices"), "ct_slices")) == []  # 0.289 at the start


@pytest.mark.parametrize(
    ("shallow", "deep", "found"),
    [
        (0.4, 0.7, (HOLDS, HOLDS)),
        (0.6, 0.6, (NO_EFFECT, NO_EFFECT)),
        (0.7, 0.5, (CONTRADICTED, CONTRADICTED)),
    ],
)
def test_depth_is_judged_up_to_the_base_and_beyond_it(shallow, deep, found):
    table = made_up({None: 0.6, "depth 1": shallow, "depth 8": deep}, settings=["base", "depth 1", "depth 8"])
    made = outcomes(table, depths=[1, 4, 8])
    assert (made["depth-to-base"], made["depth-images"]) == found
    # The data set that shows it least decides up to the base.
    falls = made_up({None: 0.6, "depth 1": 0.9}, settings=["base", "depth 1", "depth 8"])
    both = pd.concat([table, falls.assign(dataset="cifar10")])
    made = outcomes(both, depths=[1, 4, 8], datasets=["mnist", "cifar10"])
    assert made["depth-to-base"] == CONTRADICTED


@pytest.mark.parametrize(("linear", "outcome"), [(0.85, HOLDS), (0.5, CONTRADICTED)])
def test_whether_the_curves_of_a_family_overlap(linear, outcome):
    made = claims(made_up({None: 0.85, "linear": linear}))
    assert made["overlap-mnist-activation"].outcome == outcome
    assert made["overlap-mnist-activation"].measured == pytest.approx(0.855 - linear, abs=0.02)
    assert made["overlap-mnist-depth"].outcome == HOLDS


def test_the_curve_is_equation_2():
    draw = np.random.default_rng(1)
    features, labels = draw.normal(size=(30, 7)), draw.normal(size=30)
    rows = np.hstack([features, np.ones((30, 1))])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    left, singular, _ = np.linalg.svd(rows, full_matrices=False)
    gains = np.square(left.T @ labels)
    area, alignment = alignment_grid.curve(torch.tensor(features), torch.tensor(labels))
    assert area == pytest.approx((singular * gains).sum() / (labels @ labels) / np.sqrt(30))
    grid = np.linspace(0, np.sqrt(30), alignment_grid.THRESHOLDS)
    plain = [gains[singular >= tau].sum() / (labels @ labels) for tau in grid]
    np.testing.assert_allclose(alignment, plain, atol=1e-12)


def test_nonnegative_features_have_a_ceiling():
    # The page's bound: 1/√2 for two balanced classes, reached by one direction for each class.
    labels = torch.tensor([1.0, -1.0] * 20)
    draw = np.random.default_rng(0)
    for sharpness in (1, 5, 50):
        features = torch.tensor(draw.random((40, 3))) + sharpness * torch.eye(3)[(labels > 0).long()]
        assert alignment_grid.curve(features, labels)[0] < 0.5**0.5
    apart = 1e4 * torch.eye(2)[(labels > 0).long()]
    assert alignment_grid.curve(apart, labels)[0] == pytest.approx(0.5**0.5, rel=1e-3)
    assert alignment_grid.curve(1e4 * labels[:, None], labels)[0] == pytest.approx(1, rel=1e-3)


def test_what_outputs_of_zero_lose_is_the_mean_square_of_the_labels():
    for name in filter(available, reading.SQUARES):
        y = load_table(name).y
        moved = 2 * (y - y.min()) / (y.max() - y.min()) - 1
        if len(y) < 1000:  # the rows at hand, which the stored runs rest on, not all that can be downloaded
            assert (moved**2).mean() == pytest.approx(reading.SQUARES[name], abs=5e-4)
