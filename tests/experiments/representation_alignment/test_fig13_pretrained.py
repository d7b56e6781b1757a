"""Figures 13, 19 and 20: descents against plain ones, hand-made features, claims on made-up tables."""

import numpy as np
import pandas as pd
import pytest
import torch

from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT, OPEN
from companion.studies.representation_alignment.fig13_pretrained import experiment, reading
from companion.studies.representation_alignment.shared import image_features
from tests import judging

AREAS = {"transfer": 0.5, "original": 0.3, "init": 0.1, "hog": 0.4, "sift": 0.2, "rbf": 0.05}
LEFT = {"transfer": 0.1, "hog": 0.3, "sift": 0.4, "rbf": 0.9}


def made_up(areas=AREAS, left=LEFT, late=None, seeds=4):
    """Areas, and losses ``left`` at each step size, but ``late`` after the last step at 0.1, the best one."""
    late, about = late or left, {"dataset": "photos", "seed": range(seeds)}

    def area(row):
        return areas[row.representation] + row.noise

    def loss(row):
        name, last = row.representation, (row.step_size, row.step) == (0.1, 60)
        return (late[name] - 0.01 if last else left[name]) + row.noise

    steps = {"loss": [*reading.LOSSES], "step_size": [0.1, 1.0], "step": [20, 60]}
    return pd.concat(
        [
            judging.rows(0.01, **about, kind="area", representation=[*areas], area=area),
            judging.rows(0.002, **about, kind="step", representation=[*left], **steps, train=loss, test=loss),
        ]
    )


_, outcomes = judging.of(reading)


def test_what_the_paper_shows_holds():
    found = outcomes(made_up())
    assert set(found.values()) == {HOLDS} and len(found) == 7


@pytest.mark.parametrize(
    ("table", "found"),
    [
        (made_up(areas=AREAS | {"transfer": 0.32}), {"better": CONTRADICTED}),
        (made_up(areas=AREAS | {"init": 0.7}), {"better": CONTRADICTED}),
        (made_up(left=LEFT | {"transfer": 0.5}), {"faster-early": CONTRADICTED}),
        # SIFT overtakes all others in the end, at its best step size.
        (made_up(late=LEFT | {"sift": 0.02}),
         {"faster-early": HOLDS, "ordered-early": HOLDS}
         | {"faster-last": CONTRADICTED, "ordered-last": CONTRADICTED}),
        (made_up(left=LEFT | {"rbf": 0.2}), {"rbf-slow": CONTRADICTED, "ordered-early": CONTRADICTED}),
        (made_up(left=LEFT | {"sift": 0.301}), {"ordered-early": NO_EFFECT}),
        (made_up(seeds=1), {"better": OPEN, "faster-early": OPEN}),
    ],
)  # fmt: skip
def test_what_it_does_not_show_disagrees(table, found):
    made = outcomes(table)
    assert {id: made[id] for id in found} == found


def test_the_prediction_is_one_minus_alignment_at_the_steps_threshold():
    curves = {"transfer": lambda t: (1 - t) ** 2, "hog": lambda t: 1 - t}
    about, grid = {"dataset": "photos", "seed": 0, "representation": [*curves]}, [*np.linspace(0, 1, 41)]

    def value(row):
        return curves[row.representation](row.threshold)

    alignment = judging.rows(**about, kind="curve", threshold=grid, alignment=value)
    about |= {"loss": "squared", "step_size": 1.0, "train": 0.5, "test": 0.5}
    steps = judging.rows(**about, kind="step", step=[0, 2, 50, 10_000])
    rows = reading.predicted(pd.concat([alignment, steps]), "photos")
    # At thresholds 0.5 and 0.1; those of later steps are not resolved.
    assert rows.set_index(["representation", "step"])["predicted"].to_dict() == pytest.approx(
        {("transfer", 2): 0.75, ("transfer", 50): 0.19, ("hog", 2): 0.5, ("hog", 50): 0.1}
    )


def test_logistic_descent_is_gradient_descent():
    draw = np.random.default_rng(0)
    phi, phi_test = draw.normal(size=(9, 14)), draw.normal(size=(4, 14))
    y, y_test = np.sign(draw.normal(size=9)), np.sign(draw.normal(size=4))
    steps = np.array([0, 1, 5])
    train, test = experiment.logistic_descent(phi, y, phi_test, y_test, [0.1, 3.0], steps)
    for number, size in enumerate((0.1, 3.0)):
        w = torch.zeros(14, dtype=torch.float64, requires_grad=True)

        def loss(features, labels, w=w):
            margins = torch.tensor(labels) * (torch.tensor(features) @ w)
            return torch.log1p(torch.exp(-margins)).mean() / np.log(2)

        for step in range(6):
            value = loss(phi, y)
            if step in steps:
                at = list(steps).index(step)
                assert train[at, number] == pytest.approx(value.item())
                assert test[at, number] == pytest.approx(loss(phi_test, y_test).item())
            (gradient,) = torch.autograd.grad(value, w)
            w.data -= size * gradient
    assert train[0].tolist() == [1.0, 1.0]


def test_large_steps_of_the_logistic_loss_stay_finite():
    phi = np.array([[1.0], [-1.0], [1.0]])
    y = np.array([1.0, -1.0, -1.0])
    train, _ = experiment.logistic_descent(phi, y, phi, y, [1e6], np.array([0, 3]))
    assert np.isfinite(train).all()


def test_the_closed_form_solution():
    draw = np.random.default_rng(0)
    wide, tall, y = draw.normal(size=(6, 9)), np.ones((6, 1)), np.array([1, 1, 1, 1, 1, -1.0])
    assert experiment.closed_form(wide, y)["unfitted"] < 1e-20
    found = experiment.closed_form(tall, y)
    assert found["unfitted"] == pytest.approx(1 - (4 / 6) ** 2) and found["wrong"] == pytest.approx(1 / 6)


def test_hand_made_features():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (3, 3, 32, 32))
    x[2] = 0.0  # flat: no keypoint
    grey = image_features.grey(x)
    assert grey[2] == pytest.approx(0.5)
    assert image_features.histograms_of_gradients(grey).shape == (3, 324)
    found = image_features.descriptors(grey)
    assert len(found[0]) > 0 == len(found[2]) and found[0].shape[1] == 128
    words = image_features.words(found, 5, np.random.default_rng(0))
    counts = image_features.bags(found, words)
    assert words.shape == (5, 128) and counts.sum(1).tolist() == [len(one) for one in found]
    distances = np.square(found[1][:, None] - words).sum(2).argmin(1)
    assert counts[1].tolist() == np.bincount(distances, minlength=5).tolist()
    few = image_features.words([one[:2] for one in found], 50, np.random.default_rng(0))
    assert len(few) == 4


def test_radial_basis_functions():
    rng = np.random.default_rng(0)
    x, centres = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
    plain = [[np.exp(-np.square(a - c).sum() / (2 * 0.49)) for c in centres] for a in x]
    np.testing.assert_allclose(image_features.radial_basis(x, centres, 0.7), plain)
