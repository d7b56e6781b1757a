"""Figure 3: matches of eigenvectors, halves of Table D.1, and claims that come out either way."""

import numpy as np
import pandas as pd
import pytest

from alignbook.metrics import misalignment, misalignment_basis
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT
from companion.studies.random_labels.fig03_filters import design, eigenvectors, reading
from tests import judging

D = design.DIMENSION


def test_matches_are_counted():
    turn = np.eye(4)
    angle = np.radians(30)
    turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    assert eigenvectors.matches(np.eye(4), turn) == [[0, 1], [1, 0], [2], [3]]
    assert eigenvectors.matches(-np.eye(4), turn) == [[0, 1], [1, 0], [2], [3]]
    even = np.full((9, 1), 1 / 3)  # 0.33 with every axis
    assert eigenvectors.matches(np.eye(9), even) == [[]]


def made_up(turned, runs=12, filters=60, seed=0):
    """Filters whose covariance has the data's eigenvectors, or with ``turned`` others; spectra fall."""
    rng = np.random.default_rng(seed)
    basis, other = (np.linalg.qr(rng.normal(size=(D, D)))[0] for _ in range(2))
    names = [f"w{k}" for k in range(D)]
    cov_x = basis * 0.8 ** np.arange(D) @ basis.T
    own = other if turned else basis
    tables = [pd.DataFrame(cov_x, columns=names).assign(kind="data", seed=0, unit="data")]
    for run in range(runs):
        made = rng.normal(size=(filters, D)) * np.maximum(0.7 ** np.arange(D), 0.01) @ own.T
        about = {"kind": "filter", "seed": run, "unit": f"run{run}", "accuracy": 0.99, "grown": 5.0}
        tables.append(pd.DataFrame(made, columns=names).assign(**about))
    return pd.concat(tables, ignore_index=True)


_, judged = judging.of(reading)


def test_filters_of_the_datas_directions_match_and_others_do_not():
    table = made_up(turned=False)
    found = eigenvectors.by_group(table, 3)
    assert len(found) == 3 and (found["matched"] == 10).all() and (found["chance"] < 2).all()
    assert (found["misalignment"] < found["least"]).all() and (found["first"] > found["last"]).all()
    assert (found[["one", "two", "more"]].sum(axis=1) == found["matched"]).all()
    outcomes = judged(table)
    assert {outcomes[id] for id in ("matched", "aligned", "one-or-two")} == {HOLDS}
    other = judged(made_up(turned=True))
    assert other["matched"] != HOLDS and other["aligned"] != HOLDS and other["one-or-two"] == CONTRADICTED


def test_what_sampling_leaves_is_told_from_a_turn():
    """Filters whose components are independent, and those of which the first two are correlated."""
    plain = made_up(turned=False, filters=200)
    assert abs(eigenvectors.of_all(plain)["correlation"]) < 0.1 and judged(plain)["sampling"] == HOLDS
    turned, basis = plain.copy(), eigenvectors.data_basis(plain)[1]
    rows, names = plain["kind"] == "filter", [f"w{k}" for k in range(D)]
    parts = plain.loc[rows, names].to_numpy() @ basis
    parts[:, 1] += 0.3 * parts[:, 0]
    turned.loc[rows, names] = parts @ basis.T
    found = eigenvectors.of_all(turned)
    assert found["correlation"] > 0.2 and found["misalignment"] > 1.1 * found["flipped"]
    assert judged(turned)["sampling"] == CONTRADICTED


def test_leading_directions_are_measured_better_where_the_others_are_close():
    many = made_up(turned=False, filters=960)
    assert judged(many)["leading-measured"] == NO_EFFECT  # variances that differ are all measured well
    spread, rng = np.where(np.arange(D) < 3, 4.0 - np.arange(D), 0.5), np.random.default_rng(3)
    names, filters = [f"w{k}" for k in range(D)], many["kind"] == "filter"
    many.loc[filters, names] = rng.normal(size=(filters.sum(), D)) * spread
    assert judged(many.copy())["leading-measured"] == HOLDS


def test_halves_of_the_same_filters_agree():
    rng = np.random.default_rng(1)
    run = rng.normal(size=(200, D)) * 0.7 ** np.arange(D)
    assert eigenvectors.agreement([run, run]) == pytest.approx(np.ones(12))
    plain = rng.normal(size=(200, D))
    assert eigenvectors.agreement([plain[:100], plain[100:]]).mean() < 0.5
    # Three runs make halves of one each.
    assert eigenvectors.agreement([run, run, plain]) == pytest.approx(np.ones(12))


def test_many_bases_at_once_are_each_of_them():
    rng = np.random.default_rng(2)
    bases = eigenvectors.random_bases(D, 5, rng)
    filters = rng.normal(size=(300, D)) * 0.9 ** np.arange(D)
    cov = np.cov(filters, rowvar=False)
    top = eigenvectors.leading(cov)[1][:, :10]
    assert eigenvectors.with_bases(bases, cov) == pytest.approx([misalignment_basis(b, cov) for b in bases])
    chance = [sum(map(bool, eigenvectors.matches(basis, top))) for basis in bases]
    assert eigenvectors.by_chance(bases, top) == np.mean(chance)
    other = np.cov(rng.normal(size=(300, D)) * 0.95 ** np.arange(D), rowvar=False)
    own = eigenvectors.leading(other)[1][None]
    assert eigenvectors.with_bases(own, cov)[0] == pytest.approx(misalignment(other, cov))
