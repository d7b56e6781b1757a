"""Figures 13, 19 and 20: descents against plain ones, hand-made features, claims on made-up tables."""

import sys

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import CONTRADICTED, HOLDS, NOT_RUN, UNDECIDED
from alignbook.errors import AlignbookError
from alignbook.experiments.representation_alignment import fig13_pretrained as experiment
from alignbook.experiments.representation_alignment import image_features
from alignbook.runs import notebooks, parameters

PARAMETERS = {
    "datasets": ["photos"], "network": "random", "points": 12, "test_points": 6, "dictionary": 8,
    "bandwidth": 1.0, "step_sizes": [0.1, 1.0], "iterations": 30, "early": 10, "seeds": 3,
}  # fmt: skip
AREAS = {"transfer": 0.5, "original": 0.3, "init": 0.1, "hog": 0.4, "sift": 0.2, "rbf": 0.05}
LEFT = {"transfer": 0.1, "hog": 0.3, "sift": 0.4, "rbf": 0.9}


def made_up(areas=AREAS, left=LEFT, unfitted=1e-12, seeds=4, drop=(1.0, 0.9, 0.8, 0.0, 0.0)):
    rng, rows = np.random.default_rng(0), []
    for seed in range(seeds):
        for name, area in areas.items():
            about = {"dataset": "photos", "seed": seed, "representation": name}
            area = area + 0.01 * rng.standard_normal()
            rows.append(about | {"kind": "area", "area": area, "unfitted": unfitted, "wrong": 0.0})
            curve = np.array(drop) * (1 - 0.01 * rng.random())
            rows += [
                about | {"kind": "curve", "threshold": n / 4, "alignment": a} for n, a in enumerate(curve)
            ]
            for loss in experiment.LOSSES if name in left else ():
                for size in (0.1, 1.0):
                    for step in (10, 30):
                        value = left[name] * (2 - size) + 0.005 * rng.standard_normal()
                        found = {"step_size": size, "step": step, "train": value, "test": value}
                        rows.append(about | {"kind": "step", "loss": loss} | found)
    return pd.DataFrame(rows)


def outcomes(table):
    return {claim.id: claim.outcome for claim in experiment.claims(table, PARAMETERS)}


def test_what_the_paper_shows_holds():
    table = made_up()
    assert outcomes(table)["deeper"] == NOT_RUN
    assert {one for id, one in outcomes(table).items() if id != "deeper"} == {HOLDS}
    assert len(outcomes(table)) == 14
    said = experiment.finding(table, PARAMETERS)
    assert "align better than all others: 0." in said and "next HOG 0.39" in said
    assert said.endswith("fastest by squared and logistic loss.")
    assert len(experiment.key_numbers(table, PARAMETERS)) == 3


def test_what_it_does_not_show_disagrees():
    areas = AREAS | {"original": 0.05, "hog": 0.7}
    judged = outcomes(made_up(areas, LEFT | {"transfer": 0.35, "rbf": 0.05}, unfitted=0.1))
    disagree = {"better-photos-hog", "poor-photos", "rbf-slow-photos", "rbf-fits-photos"}
    disagree |= {f"{id}-{loss}-photos" for id in ("faster", "test") for loss in experiment.LOSSES}
    assert {id for id, outcome in judged.items() if outcome == CONTRADICTED} == disagree
    assert judged["better-photos-original"] == HOLDS
    assert "not better than HOG on photos: 0." in experiment.finding(made_up(areas), PARAMETERS)


def test_the_finding_names_what_is_undecided():
    table = made_up()
    wide = (table["kind"] == "area") & (table["representation"] == "hog")
    for seed, area in enumerate((0.1, 0.9, 0.3, 0.4)):
        table.loc[wide & (table["seed"] == seed), "area"] = area
    assert outcomes(table)["better-photos-hog"] == UNDECIDED
    assert "better than all others but HOG on photos (undecided)" in experiment.finding(table, PARAMETERS)
    one = experiment.finding(made_up(seeds=1), PARAMETERS)
    assert "and 3 more (undecided)" in one


def test_a_sudden_drop_and_a_gradual_one():
    by_hand = made_up(drop=(1.0, 0.9, 0.8, 0.0, 0.0))
    scale = by_hand[(by_hand["representation"] == "transfer") & (by_hand["threshold"] == 0)]["alignment"]
    # (1 + 0.9)/2 + (0.9 + 0.8)/2 + 0.8/2 over three steps
    found = experiment.before_gone(by_hand, "photos")
    np.testing.assert_allclose(found, scale.to_numpy() * 2.2 / 3)
    assert outcomes(made_up(drop=(1.0, 0.75, 0.5, 0.25, 0.0)))["sudden-photos"] == CONTRADICTED
    assert outcomes(made_up(drop=(1.0, 0.3, 0.2, 0.1, 0.0)))["sudden-photos"] == CONTRADICTED


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
    assert grey.shape == (3, 32, 32) and grey[2] == pytest.approx(0.5)
    assert image_features.grey(x[:, :1])[1] == pytest.approx((x[1, 0] + 1) / 2)
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


def test_a_unit_with_an_untrained_network():
    unit = experiment.units(PARAMETERS)[0]
    made = [unit.compute(**unit.arguments, device=torch.device("cpu"), report=lambda *_: None) for _ in "ab"]
    pd.testing.assert_frame_equal(*made)
    areas = made[0][made[0]["kind"] == "area"].set_index("representation")
    assert set(areas.index) == set(experiment.NAMES) and areas["area"].between(0, 1).all()
    assert areas.loc["rbf", "features"] == 12 and areas.loc["original", "features"] == 3072
    assert set(made[0].loc[made[0]["kind"] == "step", "representation"]) == set(experiment.LEARNED)
    start = made[0][(made[0]["kind"] == "step") & (made[0]["step"] == 0)]
    assert start["train"].to_numpy() == pytest.approx(1.0)


def test_one_line_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    unit = experiment.units(PARAMETERS | {"network": "imagenet"})[0]
    with pytest.raises(AlignbookError, match=r"pip install 'alignbook\[imagenet\]'"):
        unit.compute(**unit.arguments, device=torch.device("cpu"), report=lambda *_: None)


def test_one_seed_nothing_and_bad_parameters():
    single = {id: v for id, v in outcomes(made_up(seeds=1)).items() if id != "rbf-fits-photos"}
    assert single.pop("deeper") == NOT_RUN and set(single.values()) == {UNDECIDED}
    nothing = pd.DataFrame({"unit": []})
    assert set(outcomes(nothing).values()) == {NOT_RUN}
    book = notebooks.find("representation_alignment/fig13_pretrained")
    for bad in ({"network": "vgg16"}, {"datasets": ["mnist"]}, {"bandwidth": 0.0}):
        with pytest.raises(AlignbookError):
            parameters.resolve(book, "smoke", bad)
