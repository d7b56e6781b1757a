"""Figures 21 and 22: approximated images, curves with one top, and claims that come out either way."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.metrics import patch_covariance
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT, NOT_RUN
from companion.studies.random_labels.fig21_from_gaussian_to_images import design, experiment, reading
from tests import judging


def images(n, side=(6, 9), seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 3, *side, generator=generator)
    x[:, :, :, 1:] += x[:, :, :, :-1].clone()  # neighbours correlate
    return x * torch.linspace(0.5, 2, side[0])[:, None] + 0.2  # and rows differ


def test_patches_come_back():
    x = images(5)
    patches = experiment.cut(x)
    assert patches.shape == (5, 6, 27)
    assert torch.equal(patches[1, 4], x[1, :, 3:6, 3:6].reshape(-1))  # row 1, column 1 of 2 × 3
    assert torch.equal(experiment.joined(patches, (3, 6, 9)), x)


def test_permuted_patches_keep_their_position():
    x = images(50)
    other = experiment.cut(experiment.approximated(x, "permuted", torch.Generator().manual_seed(1)))
    for place in range(6):
        one, two = (torch.tensor(sorted(p[:, place, 0].tolist())) for p in (other, experiment.cut(x)))
        assert torch.equal(one, two)
    whole = (other[:, 0, 0][:, None] == experiment.cut(x)[:, 0, 0]).int().argmax(1)
    beside = (other[:, 1, 0][:, None] == experiment.cut(x)[:, 1, 0]).int().argmax(1)
    assert (whole == beside).float().mean() < 0.2  # torn from their neighbours


def test_gaussian_patches_have_the_covariance():
    x = images(4000, (3, 6))
    real = experiment.cut(x).double()
    for inputs in ("gaussian", "positions"):
        made = experiment.approximated(x, inputs, torch.Generator().manual_seed(2))
        drawn = experiment.cut(made).double()
        assert drawn.mean().abs() < 0.05  # though that of the images is 0.2
        places = [slice(0, 1), slice(1, 2)] if inputs == "positions" else [slice(0, 2)]
        for place in places:
            one, two = (np.cov(p[:, place].reshape(-1, 27).T.numpy()) for p in (drawn, real))
            assert np.abs(one - two).max() < 0.1 * np.abs(two).max()
        across = np.corrcoef(drawn[:, 0, 2], drawn[:, 1, 0])[0, 1]
        assert abs(across) < 0.06 < abs(np.corrcoef(real[:, 0, 2], real[:, 1, 0])[0, 1])
    whole = patch_covariance(x, 3, 3).cov
    assert np.abs(patch_covariance(made, 3, 3).cov - whole).max() < 0.1 * np.abs(whole).max()


def brute_force(values, grid):
    """The nearest sequence with one top among all on a grid: least squared error."""
    least = np.inf
    for candidate in itertools.product(grid, repeat=len(values)):
        steps = np.sign(np.diff(candidate))
        turned = np.maximum.accumulate(steps < 0)
        if not (turned & (steps > 0)).any():
            least = min(least, np.square(np.array(candidate) - values).sum())
    return least


def test_the_nearest_curve_with_one_top():
    rng = np.random.default_rng(3)
    for _ in range(6):
        values = rng.integers(0, 4, 4).astype(float)
        near = reading.up_and_down(values)
        top = near.argmax()
        assert (np.diff(near[: top + 1]) >= 0).all() and (np.diff(near[top:]) <= 0).all()
        error = np.square(near - values).sum()
        assert error <= brute_force(values, np.arange(0, 3.01, 0.5)) + 1e-12
    assert reading.departure([0, 1, 3, 2]) == reading.departure([3, 1]) == 0
    assert reading.departure([1, 1, 1]) == 0
    # 2, 1, 2 becomes 2, 1.5, 1.5 or its mirror image: a residual of 0.5 twice, over a height of 0.5.
    assert reading.departure([2, 1, 2]) == pytest.approx(np.sqrt(0.5 / 3) / 0.5)


def made_up(dips, seeds=4):
    """τ that grows, falls at the end, and has a dip of the given depth in its rise."""
    shape = {step: np.array([0, 0.1, 0.3, 0.6 - dip, 0.7, 1.0, 0.9]) for step, dip in dips.items()}
    tables = []
    for draw, step in enumerate(dips):
        inputs, stride = design.STEPS[step]
        tables.append(
            judging.rows(
                0.002, draw, inputs=inputs, stride=stride, seed=range(seeds), index=range(7), tau_start=0.3,
                sigma=lambda row: 0.1 * row.index,
                tau=lambda row, shape=shape[step]: 0.3 * np.exp(shape[row.index] + row.noise),
            )
        )  # fmt: skip
    return pd.concat(tables, ignore_index=True)


judged = judging.of(reading)[1]


def test_dips_decide():
    printed = dict(zip(design.STEPS, [0.0, 0.0, 0.02, 0.4, 0.6, 0.9], strict=True))
    assert set(judged(made_up(printed)).values()) == {HOLDS}
    # A departure that the line of a drawn curve covers is no finding, however many networks show it.
    slight = judged(made_up(printed | {"images, stride 3": 0.32}, seeds=20))
    assert slight["neighbours-seeds"] == slight["neighbours-mean"] == NO_EFFECT
    turned = judged(made_up(dict(zip(design.STEPS, [0.0, 0.0, 0.9, 0.6, 0.5, 0.4], strict=True))))
    for id in ("neighbours-seeds", "neighbours-mean", "stride-own", "stride-ideal", "still-close"):
        assert turned[id] == CONTRADICTED
    part = judged(made_up({"images, stride 2": 0.5, "images, stride 1": 0.7}))
    assert part["stride-own"] == part["still-close"] == part["ideal"] == NOT_RUN


def test_a_departure_is_relative_to_the_curves_own_height():
    """A curve of half the height with half the dip departs as far, and undivided half as far."""
    assert reading.departure([2, 1, 2]) == pytest.approx(reading.undivided([2, 1, 2]) / 0.5)
    table = made_up({"one covariance": 0.0, "images, stride 2": 0.4, "images, stride 1": 0.4})
    lower = table["tau"].where(table["stride"] != 1, 0.3 * np.sqrt(table["tau"] / 0.3))
    table, pair = table.assign(tau=lower), ("images, stride 2", "images, stride 1")
    assert reading.further(table, {}, *pair).mean() == pytest.approx(0, abs=0.01)
    assert reading.further(table, {}, *pair, "ideal").mean() < -0.01


def test_noise_departs_and_averages_out():
    table = made_up({"permuted patches": 0.0}, seeds=40)
    rough = table.assign(tau=table["tau"] * np.exp(np.random.default_rng(1).normal(0, 0.1, len(table))))
    alone, mean = reading.departures(rough, "permuted patches"), reading.of_mean(rough, "permuted patches")
    assert mean.mean() < 0.3 * alone.mean()
    # Of a statistic that is a mean, pseudo-values are the values.
    logs = np.log(reading.growth(reading.rows_of(table, "permuted patches")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "departure", lambda values: float(np.mean(values)))
        found = reading.of_mean(table, "permuted patches")
    assert found.to_numpy() == pytest.approx(logs.mean(axis=1).to_numpy())
    assert reading.of_mean(table, "images, stride 1").empty
