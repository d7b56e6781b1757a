"""Filters with the learned spectrum in several bases; statements come out either way."""

import numpy as np
import pytest
import torch

from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT
from companion.studies.random_labels.sec2_second_moments import design, experiment, reading
from tests import judging


@pytest.fixture(scope="module")
def covariances():
    """({start: covariance of many filters}, Σ, V): a spectrum that is not flat, not in the data's basis."""
    draw = np.random.default_rng(0)
    basis, other = (np.linalg.qr(draw.standard_normal((6, 6)))[0] for _ in range(2))
    sigma = other * np.geomspace(1, 0.01, 6) @ other.T
    made = experiment.starts(sigma, basis, np.random.default_rng(1), 200_000)
    return {name: np.cov(rows.T) for name, rows in made.items()}, sigma, basis


def test_the_spectrum_stays_and_the_basis_changes(covariances):
    found, sigma, _ = covariances
    np.testing.assert_allclose(found[design.COVARIANCE], sigma, atol=0.01)
    values = np.linalg.eigvalsh(sigma)
    np.testing.assert_allclose(np.linalg.eigvalsh(found[design.ROTATED]), values, atol=0.01)
    assert np.abs(found[design.ROTATED] - sigma).max() > 0.1


def test_in_the_basis_of_the_data_only_the_diagonal_stays(covariances):
    found, sigma, basis = covariances
    inside, whole = (basis.T @ matrix @ basis for matrix in (found[design.DIAGONAL], sigma))
    np.testing.assert_allclose(inside, np.diag(np.diag(whole)), atol=0.01)
    assert np.abs(whole - np.diag(np.diag(whole))).max() > 0.1


def test_the_norm_of_the_weights_stays():
    weight = torch.nn.Parameter(torch.randn(4, 3, 3, 3))
    norm, rows = weight.norm().item(), np.random.default_rng(0).standard_normal((4, 27))
    experiment.replace_(weight, rows)
    assert weight.norm().item() == pytest.approx(norm)
    direction = weight.detach().flatten().double().numpy() / norm
    np.testing.assert_allclose(direction, rows.ravel() / np.linalg.norm(rows), atol=1e-6)


def table(**gains):
    """Learning curves whose mean accuracy is higher than that from scratch by these points."""
    return judging.rows(
        seed=range(6), start=[*design.STARTS], epoch=[0, 1], fitted=1.0,
        accuracy=lambda row: 0.5 + gains.get(row.start, 0.0) / 100
        + 0.0002 * row.seed * [*design.STARTS].index(row.start),
    )  # fmt: skip


_, outcomes = judging.of(reading)


def test_alignment_is_what_helps():
    found = outcomes(table(filters=3.0, covariance=3.0, diagonal=3.0))
    assert found["aligned"] == found["gains"] == found["recovers"] == found["transfer"] == HOLDS


def test_the_spectrum_is_what_helps():
    found = outcomes(table(filters=3.0, covariance=3.0, diagonal=1.0, rotated=3.0))
    assert found["aligned"] == NO_EFFECT and found["spectrum"] == HOLDS and found["transfer"] == CONTRADICTED
