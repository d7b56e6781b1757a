"""Figure 3: matches of eigenvectors, halves of Table D.1, and claims that come out either way."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED
from alignbook.errors import AlignbookError
from alignbook.experiments.random_labels import fig03_filters as experiment
from alignbook.runs import notebooks, parameters

BOOK = notebooks.find("random_labels/fig03_filters")
QUIET = {"device": torch.device("cpu"), "report": lambda done, text: None}
D = experiment.DIMENSION


def test_matches_are_counted():
    turn = np.eye(4)
    angle = np.radians(30)
    turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    assert experiment.matches(np.eye(4), turn) == [[0, 1], [1, 0], [2], [3]]
    assert experiment.matches(-np.eye(4), turn) == [[0, 1], [1, 0], [2], [3]]
    even = np.full((9, 1), 1 / 3)  # 0.33 with every axis
    assert experiment.matches(np.eye(9), even) == [[]]


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
        tables.append(
            pd.DataFrame(made, columns=names).assign(
                kind="filter", seed=run, unit=f"run{run}", accuracy=0.99, grown=5.0
            )
        )
    return pd.concat(tables, ignore_index=True)


def judged(table, groups=3):
    return {claim.id: claim.outcome for claim in experiment.claims(table, {"groups": groups})}


def test_filters_of_the_datas_directions_match_and_others_do_not():
    table = made_up(turned=False)
    found = experiment.by_group(table, {"groups": 3})
    assert len(found) == 3 and (found["matched"] == 10).all() and (found["chance"] < 2).all()
    assert (found["misalignment"] < found["least"]).all() and (found["first"] > found["last"]).all()
    outcomes = judged(table)
    assert outcomes["matched"] == outcomes["aligned"] == HOLDS and outcomes["table-d1"] == NOT_JUDGED
    other = judged(made_up(turned=True))
    assert other["matched"] in (UNDECIDED, CONTRADICTED) and other["aligned"] != HOLDS
    assert other["one-or-two"] != HOLDS
    assert "10.0" in experiment.finding(table, {"groups": 3})


def test_halves_of_the_same_filters_agree():
    rng = np.random.default_rng(1)
    run = rng.normal(size=(200, D)) * 0.7 ** np.arange(D)
    assert experiment.agreement([run, run]) == pytest.approx(np.ones(12))
    plain = rng.normal(size=(200, D))
    assert experiment.agreement([plain[:100], plain[100:]]).mean() < 0.5
    # Three runs make halves of one each.
    assert experiment.agreement([run, run, plain]) == pytest.approx(np.ones(12))


def test_as_many_filters_as_printed_are_judged(monkeypatch):
    monkeypatch.setattr(experiment, "PRINTED_RUNS", 4)
    monkeypatch.setattr(experiment, "PRINTED_FILTERS", 4 * 60)
    table = made_up(turned=False)
    mean, half, groups = experiment.one_pair(table, {"groups": 3})
    assert groups == 3 and half > 0
    assert mean == pytest.approx(experiment.halvings(table).mean(axis=None))
    (claim,) = [c for c in experiment.claims(table, {"groups": 3}) if c.id == "table-d1"]
    assert claim.interval == pytest.approx((mean - half, mean + half)) and claim.outcome != NOT_JUDGED
    far = {"agreement": experiment.PRINTED["agreement"] * 0 + mean - half - 0.1}
    monkeypatch.setattr(experiment, "PRINTED", experiment.PRINTED.assign(**far))
    assert judged(table)["table-d1"] == CONTRADICTED
    assert judged(table, groups=2)["table-d1"] == NOT_JUDGED


def test_no_more_than_ten_are_counted(monkeypatch):
    found = pd.DataFrame({"matched": [10, 10, 10], "one": [3, 2, 1], "two": [7, 8, 8], "more": [0, 0, 1]})
    monkeypatch.setattr(experiment, "by_group", lambda table, parameters: found.assign(chance=0.5))
    (claim,) = [c for c in experiment.claims(pd.DataFrame(), {}) if c.id == "one-or-two"]
    assert claim.measured == pytest.approx(29 / 3) and claim.interval[1] == 10
    monkeypatch.undo()
    table = made_up(turned=False)
    rows = experiment.by_group(table, {"groups": 3})
    assert (rows[["one", "two", "more"]].sum(axis=1) == rows["matched"]).all()


def test_nothing_and_too_little():
    assert set(judged(pd.DataFrame({"unit": []})).values()) == {NOT_RUN}
    few = judged(made_up(turned=False, runs=2))
    assert few["matched"] == NOT_RUN and few["table-d1"] == NOT_JUDGED


def test_a_run_gives_its_filters():
    units = {unit.name: unit for unit in experiment.units(parameters.resolve(BOOK, "smoke"))}
    assert len(units) == 7
    data = experiment.covariance(**units["data"].arguments, **QUIET)
    run = experiment.compute(**units["run1"].arguments, **QUIET)
    assert len(run) == 32 and run["grown"].iloc[0] > 1.0
    table = pd.concat([data.assign(seed=0), run.assign(seed=1)])
    cov, vectors = experiment.data_basis(table)
    assert cov.shape == (D, D) and np.allclose(vectors.T @ vectors, np.eye(D))
    assert (np.diff(np.diag(vectors.T @ cov @ vectors)) <= 1e-12).all()
    assert experiment.weights(table)[1].shape == (32, D)
    # Without training the filters are those of the initialisation, and have not grown.
    still = experiment.compute(**units["run1"].arguments | {"epochs": 0}, **QUIET)
    assert still["grown"].iloc[0] == pytest.approx(1.0)


@pytest.mark.parametrize(("blocks", "stride", "side"), [(1, 2, 9), (2, 1, 8)])
def test_the_network_of_any_size(blocks, stride, side):
    net = experiment.WideResNet(filters=16, width=8, blocks=blocks, stride=stride)
    assert len(net.groups) == 3 * blocks and net.stem.weight[0].numel() == D
    assert net(torch.zeros(2, 3, side, side)).shape == (2, 10)
    assert [block.stride for block in net.groups][::blocks] == [stride, 2, 2]


def test_bad_parameters():
    for name, value in (("stride", 3), ("groups", 0), ("side", 7)):
        with pytest.raises(AlignbookError, match=name):
            parameters.resolve(BOOK, "quick", {name: value})
    with pytest.raises(ValueError, match="middle"):
        experiment.middle(torch.zeros(1, 3, 8, 12), 9)
