"""Figure 3: matches of eigenvectors, halves of Table D.1, and claims that come out either way."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED
from alignbook.errors import AlignbookError
from alignbook.metrics import misalignment, misalignment_basis
from alignbook.runs import notebooks, parameters
from alignbook.statements import judged as judge
from alignbook.studies.random_labels.fig03_filters import design, eigenvectors, experiment, reading

BOOK = notebooks.find("random_labels/fig03_filters")
QUIET = {"device": torch.device("cpu"), "report": lambda done, text: None}
D = design.DIMENSION
ASKED = {"groups": 3, "images": 500, "blocks": 1}


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
        tables.append(
            pd.DataFrame(made, columns=names).assign(
                kind="filter", seed=run, unit=f"run{run}", accuracy=0.99, grown=5.0
            )
        )
    return pd.concat(tables, ignore_index=True)


def judged(table, groups=3):
    return {id: claim.outcome for id, claim in claims(table, groups=groups).items()}


def claims(table, **other):
    return {claim.id: claim for claim in judge(reading.STATEMENTS, table, ASKED | other)}


def test_filters_of_the_datas_directions_match_and_others_do_not():
    table = made_up(turned=False)
    found = eigenvectors.by_group(table, 3)
    assert len(found) == 3 and (found["matched"] == 10).all() and (found["chance"] < 2).all()
    assert (found["misalignment"] < found["least"]).all() and (found["first"] > found["last"]).all()
    outcomes = judged(table)
    assert outcomes["matched"] == outcomes["aligned"] == HOLDS and outcomes["table-d1"] == NOT_JUDGED
    other = judged(made_up(turned=True))
    assert other["matched"] in (ABSENT, UNDECIDED, CONTRADICTED) and other["aligned"] != HOLDS
    assert other["one-or-two"] != HOLDS
    said = reading.finding(table, ASKED, claims(table))
    number = reading.one_or_two(table)
    ten = "all ten" if number == 10 else f"{number} of ten"
    assert f"all runs pooled, as in the paper, {ten} match one direction or a mixture of two;" in said
    assert "stands in for the paper's" in said
    unlearned = table.assign(accuracy=0.9 * table["accuracy"])
    assert judged(unlearned)["matched"] == NOT_JUDGED


def test_halves_of_the_same_filters_agree():
    rng = np.random.default_rng(1)
    run = rng.normal(size=(200, D)) * 0.7 ** np.arange(D)
    assert eigenvectors.agreement([run, run]) == pytest.approx(np.ones(12))
    plain = rng.normal(size=(200, D))
    assert eigenvectors.agreement([plain[:100], plain[100:]]).mean() < 0.5
    # Three runs make halves of one each.
    assert eigenvectors.agreement([run, run, plain]) == pytest.approx(np.ones(12))


def test_table_d1_is_judged_at_the_papers_size_alone(monkeypatch):
    monkeypatch.setattr(reading, "PRINTED_RUNS", 2)
    monkeypatch.setattr(reading, "pairs", lambda table: eigenvectors.pairs(table, 2))
    table = made_up(turned=False, filters=960)  # two runs have the 1,920 filters of thirty
    found = claims(table)["table-d1"]
    assert found.outcome == NOT_JUDGED and "images" in found.test  # at 1 % of the images
    whole = claims(table, images=50_000)["table-d1"]
    assert whole.seeds == 3 and whole.outcome == CONTRADICTED  # of pairs that share no run
    runs = list(eigenvectors.weights(table).values())
    apart = [eigenvectors.agreement(runs[k : k + 4], 2).mean() for k in (0, 4, 8)]
    assert whole.measured == pytest.approx(np.mean(apart))
    few = claims(made_up(turned=False, filters=900), images=50_000)["table-d1"]
    assert few.outcome == NOT_JUDGED and "filters" in few.test


def test_leading_directions_are_judged_where_halves_have_the_papers_filters():
    few = claims(made_up(turned=False))["leading-measured"]
    assert few.outcome == NOT_JUDGED and few.requires[0]["measured"] == 2 * 60  # of four runs
    many = made_up(turned=False, filters=960)
    assert judged(many)["leading-measured"] == ABSENT  # directions whose variances differ are all measured
    spread, rng = np.where(np.arange(D) < 3, 4.0 - np.arange(D), 0.5), np.random.default_rng(3)
    names, filters = [f"w{k}" for k in range(D)], many["kind"] == "filter"
    steep = many.copy()
    steep.loc[filters, names] = rng.normal(size=(filters.sum(), D)) * spread
    assert judged(steep)["leading-measured"] == HOLDS


def test_one_or_two_counts_no_more_than_ten():
    table = made_up(turned=False)
    rows = eigenvectors.by_group(table, 3)
    assert (rows[["one", "two", "more"]].sum(axis=1) == rows["matched"]).all()
    claim = claims(table)["one-or-two"]
    assert claim.statement.startswith("One group of runs could have all ten match")
    assert claim.measured == pytest.approx((rows["one"] + rows["two"]).mean())
    assert claim.interval is None or claim.interval[1] <= 10


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


def test_a_group_is_measured_once(monkeypatch):
    calls = []
    bases = eigenvectors.random_bases
    monkeypatch.setattr(eigenvectors, "random_bases", lambda *given: calls.append(1) or bases(*given))
    table = made_up(turned=False, seed=5)
    found = claims(table)
    reading.finding(table, ASKED, found)
    reading.key_numbers(table, ASKED)
    assert len(calls) == 3  # groups
    other = table.assign(w0=table["w0"] * 1.01)
    assert not eigenvectors.by_group(other, 3).equals(eigenvectors.by_group(table, 3))


def test_nothing_and_too_little():
    few = judged(made_up(turned=False, runs=2))
    assert few["matched"] == NOT_RUN and few["table-d1"] == NOT_JUDGED


def test_a_run_gives_its_filters():
    jobs = {job.name: job for job in experiment.jobs(parameters.resolve(BOOK, "smoke"))}
    assert len(jobs) == 7
    data = experiment.covariance(**jobs["data"].arguments, **QUIET)
    run = experiment.compute(**jobs["run1"].arguments, **QUIET)
    assert len(run) == 32 and run["grown"].iloc[0] > 1.0
    table = pd.concat([data.assign(seed=0), run.assign(seed=1)])
    cov, vectors = eigenvectors.data_basis(table)
    assert cov.shape == (D, D) and np.allclose(vectors.T @ vectors, np.eye(D))
    assert (np.diff(np.diag(vectors.T @ cov @ vectors)) <= 1e-12).all()
    assert eigenvectors.weights(table)[1].shape == (32, D)
    # Without training the filters are those of the initialisation, and have not grown.
    still = experiment.compute(**jobs["run1"].arguments | {"epochs": 0}, **QUIET)
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
