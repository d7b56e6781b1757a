"""Figures 6, 17 and 18: settings, the curve against Equation 2, claims on made-up tables."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import CONTRADICTED, HOLDS, NOT_RUN, OPPOSED, UNDECIDED
from alignbook.errors import AlignbookError
from alignbook.experiments.representation_alignment import fig06_architectures as experiment
from alignbook.experiments.representation_alignment import two_classes
from alignbook.runs import notebooks, parameters

PARAMETERS = {
    "datasets": ["mnist"], "points": 20, "steps": 3, "depths": [1, 4], "widths": [8, 128],
    "activations": ["relu", "linear"], "optimisers": ["adam", "slow sgd"], "batch_sizes": [64], "seeds": 4,
}  # fmt: skip


def made_up(trained, init=0.2, inputs=0.3, test=None):
    """A table in which every setting goes from ``init`` to ``trained`` ({setting: area} for exceptions)."""
    rng, rows = np.random.default_rng(0), []
    for seed in range(4):
        for split in ("train", "test"):
            about = {"kind": "area", "dataset": "mnist", "seed": seed, "split": split}
            rows.append(about | {"setting": "inputs", "init": inputs, "trained": inputs})
            for name in experiment.settings(PARAMETERS):
                value = trained.get(name, trained[None]) + 0.01 * rng.standard_normal()
                if split == "test" and test is not None:
                    value = test + 0.01 * rng.standard_normal()
                rows.append(about | {"setting": name, "init": init, "trained": value, "loss": 0.1})
                curve = about | {"kind": "curve", "setting": name, "init": 0.5}
                rows += [curve | {"threshold": t, "trained": 0.5 + s} for t, s in ((0, 0), (0.5, 0.1))]
    return pd.DataFrame(rows)


def outcomes(table, id):
    made = experiment.claims(table, PARAMETERS)
    return {claim.id: claim.outcome for claim in made if claim.id.startswith(f"{id}-")}


def test_settings_change_one_choice_of_the_base_each():
    made = experiment.settings(PARAMETERS)
    assert list(made) == ["depth 1", "base", "width 8", "linear", "slow sgd"]
    assert made["base"] == experiment.BASE and made["width 8"].width == 8 and made["width 8"].depth == 4
    book = notebooks.find("representation_alignment/fig06_architectures")
    quick = experiment.settings(parameters.resolve(book, "quick"))
    assert len(quick) == 17 and len(experiment.units(parameters.resolve(book, "quick"))) == 15


def test_the_curve_is_equation_2():
    draw = np.random.default_rng(1)
    features, labels = draw.normal(size=(30, 7)), draw.normal(size=30)
    rows = np.hstack([features, np.ones((30, 1))])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    left, singular, _ = np.linalg.svd(rows, full_matrices=False)
    gains = np.square(left.T @ labels)
    area, alignment = experiment.curve(torch.tensor(features), torch.tensor(labels))
    assert area == pytest.approx((singular * gains).sum() / (labels @ labels) / np.sqrt(30))
    grid = np.linspace(0, np.sqrt(30), experiment.THRESHOLDS)
    plain = [gains[singular >= tau].sum() / (labels @ labels) for tau in grid]
    np.testing.assert_allclose(alignment, plain, atol=1e-12)


def test_nonnegative_features_have_a_ceiling():
    # The page's bound: 1/√2 for two balanced classes, reached by one direction for each class.
    labels = torch.tensor([1.0, -1.0] * 20)
    draw = np.random.default_rng(0)
    for sharpness in (1, 5, 50):
        features = torch.tensor(draw.random((40, 3))) + sharpness * torch.eye(3)[(labels > 0).long()]
        assert experiment.curve(features, labels)[0] < 0.5**0.5
    apart = 1e4 * torch.eye(2)[(labels > 0).long()]
    assert experiment.curve(apart, labels)[0] == pytest.approx(0.5**0.5, rel=1e-3)
    assert experiment.curve(1e4 * labels[:, None], labels)[0] == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("activation", experiment.ACTIVATIONS)
def test_networks_have_the_shape_of_their_setting(activation):
    setting = experiment.Setting(depth=3, width=5, activation=activation)
    net = experiment.network(setting, 7, torch.Generator().manual_seed(0))
    linear = [module for module in net if isinstance(module, torch.nn.Linear)]
    assert [tuple(m.weight.shape) for m in linear] == [(5, 7), (5, 5), (5, 5), (1, 5)]
    assert net[:-1](torch.randn(4, 7)).shape == (4, 5)
    assert linear[0].weight.abs().max() <= 7**-0.5 < 1.2 * linear[0].weight.abs().max()
    again = experiment.network(setting, 7, torch.Generator().manual_seed(0))
    assert torch.equal(again[0].weight, net[0].weight)


def test_a_unit_trains_and_measures_both_splits():
    unit = experiment.units(PARAMETERS | {"datasets": ["diabetes"], "steps": 30})[1]
    table = unit.compute(**unit.arguments, device=torch.device("cpu"), report=lambda *_: None)
    table = table.assign(dataset="diabetes", seed=1)
    found = experiment.areas(table, "diabetes", "train")
    assert set(found["trained"]) == {"inputs", *experiment.settings(PARAMETERS)}
    assert found["init", "inputs"][1] == found["trained", "inputs"][1]
    assert found["trained", "base"][1] > found["init", "base"][1]
    curves = table[table["kind"] == "curve"]
    assert len(curves) == 2 * 6 * experiment.THRESHOLDS
    assert curves["trained"].between(0, 1 + 1e-9).all()


def test_training_that_raises_alignment_holds():
    table = made_up({None: 0.6, "depth 1": 0.5})
    for id in experiment.STATEMENTS:
        assert set(outcomes(table, id).values()) == {HOLDS}
    assert outcomes(table, "depth") == {"depth-mnist": OPPOSED}
    said = experiment.finding(table, PARAMETERS)
    assert experiment.over_thresholds(table) == (1.0, 0.0)
    assert "5 of 5 settings, linear networks among them" in said and "in 5, on test data too" in said
    assert "undecided" not in said and "not:" not in said
    assert [key.here for key in experiment.key_numbers(table, PARAMETERS)][1:] == ["100%; 0.00%", "5 / 5 / 5"]


def test_exceptions_are_named():
    table = made_up({None: 0.6, "slow sgd": 0.1, "linear": 0.25}, test=0.25)
    judged = outcomes(table, "raises")
    assert judged["raises-mnist-slow-sgd"] == CONTRADICTED and judged["raises-mnist-linear"] == HOLDS
    assert outcomes(table, "inputs")["inputs-mnist-linear"] == CONTRADICTED
    assert set(outcomes(table, "test").values()) == {CONTRADICTED}
    said = experiment.finding(table, PARAMETERS)
    assert "4 of 5 settings (not: MNIST, plain SGD at 0.01), linear" in said
    assert "inputs in 3 (not: MNIST, linear; MNIST, plain SGD at 0.01), on test data in 0" in said
    assert "and 2 more)" in said


def test_a_mean_above_nothing_is_no_verdict():
    table = made_up({None: 0.6})
    wide = (table["setting"] == "linear") & (table["split"] == "test") & (table["kind"] == "area")
    for seed, value in enumerate((0.9, 0.31, 0.1)):
        table.loc[wide & (table["seed"] == seed), "trained"] = value
    table = table[table["seed"] < 3]
    assert experiment.exceptions(table, PARAMETERS, "test") == {"MNIST, linear": UNDECIDED}
    said = experiment.finding(table, PARAMETERS)
    assert "inputs in 5, on test data in 4 (undecided: MNIST, linear)" in said


def test_the_slope_over_depth():
    table = made_up({None: 0.6, "depth 1": 0.5})
    slopes = experiment.depth_slopes(table, PARAMETERS, "mnist")
    found = experiment.areas(table, "mnist", "train")["trained"]
    np.testing.assert_allclose(slopes, (found["base"] - found["depth 1"]) / 2)
    one = PARAMETERS | {"depths": [4]}
    assert experiment.depth_slopes(table, one, "mnist") is None


def test_one_seed_and_nothing():
    one = made_up({None: 0.6}).query("seed == 0")
    assert set(outcomes(one, "raises").values()) == {UNDECIDED}
    nothing = pd.DataFrame({"unit": []})
    assert {claim.outcome for claim in experiment.claims(nothing, PARAMETERS)} == {NOT_RUN}
    assert experiment.key_numbers(nothing, PARAMETERS) == []


def test_points_of_two_classes_and_of_a_table():
    data = two_classes.labelled("digits", 50, seed=2)
    assert data["train"][0].shape == (50, 64) and data["train"][1].sum() == 0
    assert len(data["test"][1]) == 50 and data["train"][0].min() == -1
    again = two_classes.labelled("digits", 50, seed=2)["train"][0]
    assert torch.equal(again, data["train"][0])
    assert not torch.equal(two_classes.labelled("digits", 50, seed=3)["train"][0], again)
    x, y = two_classes.labelled("diabetes", 1000, seed=0)["test"]
    assert x.shape == (221, 10) and y.abs().max() <= 1
    with pytest.raises(AlignbookError, match="images of a class"):
        two_classes.labelled("digits", 5000, seed=0)


def test_bad_parameters():
    book = notebooks.find("representation_alignment/fig06_architectures")
    for bad in ({"activations": ["gelu"]}, {"depths": [0]}, {"optimisers": []}):
        with pytest.raises(AlignbookError):
            parameters.resolve(book, "smoke", bad)
