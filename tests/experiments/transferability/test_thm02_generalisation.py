"""Theorems 2 and 3: a small run against its bound, claims that come out either way."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from companion.claims import CONTRADICTED, HOLDS, NOT_RUN, OPEN
from companion.studies.transferability.thm02_generalisation import experiment, reading
from tests import judging

ASKED = {"kappa": 0.3, "widths": [64, 2048], "examples": 10, "class_pairs": 0}
PARAMETERS = judging.given("transferability/thm02_generalisation", **ASKED)


def claims(table):
    datasets = list(dict.fromkeys(table["dataset"]))
    return judging.of(reading, PARAMETERS | {"datasets": datasets})[0](table)


@pytest.fixture(scope="module")
def table(computed):
    return computed(experiment, PARAMETERS)


def test_wide_networks_move_as_far_as_the_bound(table):
    rows = reading.of_sources(table)
    assert len(rows) == 2 * 2 * 4 and (rows.residual <= 0.01).all()
    off = {m: (reading.ratio(part) - 1).abs().mean() for m, part in rows.groupby("width")}
    assert off[2048] < 0.15 and off[2048] < off[64]
    assert rows[rows.width == 2048].worst.max() < 0
    scratch = reading.of_sources(table, scratch=True)
    ratios = reading.ratio(scratch[scratch.width == 2048])
    assert len(scratch) == 4 and ratios.mean() == pytest.approx(1, abs=0.1)


def test_pairs_of_classes_from_the_most_alike_to_the_least(table):
    jobs = experiment.jobs(PARAMETERS | {"class_pairs": 3, "seeds": 1, "examples": 40})
    assert [job.compute for job in jobs] == [experiment.compute, experiment.of_pairs]
    assert all(job.compute is experiment.compute for job in experiment.jobs(PARAMETERS))
    found = judging.joined(jobs[1:], [judging.compute(jobs[1])])
    assert len(found) == 3 and found.classes.nunique() == 3 and found.distance.is_monotonic_increasing
    images = experiment.pool("digits", 0)
    means = [images.on_sphere(images.images[images.y == label]).mean(0) for label in range(10)]
    apart = torch.cdist(torch.stack(means), torch.stack(means))
    apart = apart[torch.triu(torch.ones(10, 10), 1) == 1].sort().values.tolist()
    assert found.distance.tolist() == pytest.approx([apart[0], apart[22], apart[-1]])
    # Images of classes alike make the Gram matrix singular; wide networks move as far as their bounds say.
    assert found.smallest.iloc[0] < found.smallest.iloc[2] and (found.residual <= 0.01).all()
    assert (found.deviation / found.bound).mean() == pytest.approx(1, abs=0.2)
    assert (found.scratch / found.scratch_bound).mean() == pytest.approx(1, abs=0.2)
    both = pd.concat([table, found], ignore_index=True).assign(step_size=1.0)
    alone = table.assign(step_size=1.0)
    one, other = claims(both), claims(alone)
    assert {id for id in one if one[id] != other[id]} == {"singular-digits"}
    slope = stats.linregress(np.log(found.largest / found.smallest), np.log(found.deviation)).slope
    assert one["singular-digits"].measured == pytest.approx(slope)
    ranks = stats.spearmanr(found.distance, found.deviation).statistic
    assert list(reading.ranks_of_pairs(both, "digits", "distance", "deviation")) == pytest.approx([ranks])


def made_up(ratio=0.98, order=1, test=1):
    """Sources whose bound grows; deviation = ratio × bound, or its reverse; test loss grows or falls."""
    return judging.rows(
        noise=0.7,
        kind="source",
        dataset=["one", "two"],
        seed=range(3),
        width=100,
        family="rotated",
        step=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        bound=lambda row: row.step,
        deviation=lambda row: ratio * (row.bound if order > 0 else 7 - row.bound) * (1 + row.noise / 1000),
        test_loss=lambda row: test * row.bound + row.noise,
        test_error=lambda row: 0.5 + 0.05 * row.test_loss,
    )


def test_singular_tasks_are_judged_within_each_data_set():
    draw = np.random.default_rng(3)
    pairs = [
        {"kind": "pair", "dataset": dataset, "seed": seed, "largest": 1.0, "smallest": condition**-1.0}
        | {"deviation": condition ** (0.5 * sign) * (1 + 0.2 * draw.standard_normal()), "bound": 1.0}
        for dataset, sign in (("one", 1), ("two", -1))
        for seed in range(4)
        for condition in (2.0, 3.0, 5.0, 8.0, 12.0)
    ]
    assert claims(made_up())["singular-one"].outcome == NOT_RUN
    table = pd.concat([made_up(), pd.DataFrame(pairs)], ignore_index=True)
    for name, sign, outcome in (("one", 1, HOLDS), ("two", -1, CONTRADICTED)):
        claim = claims(table)[f"singular-{name}"]
        assert claim.outcome == outcome and claim.seeds == 4
        assert claim.measured == pytest.approx(0.5 * sign, abs=0.2)


@pytest.mark.parametrize(("power", "outcome"), [(0.3, HOLDS), (-0.3, CONTRADICTED)])
def test_the_rate_of_the_excess(power, outcome):
    table = pd.concat([made_up().assign(width=width) for width in (10, 100, 1000)], ignore_index=True)
    excess = 0.2 * (table["width"] / 100) ** -power
    table["deviation"] = table["bound"] * (1 + excess + 1e-3 * (table["seed"] == 1))
    claim = claims(table)["excess-rate"]
    assert claim.outcome == outcome and claim.measured == pytest.approx(power, abs=0.05)
    assert claims(table[table["width"] > 10])["excess-rate"].outcome == NOT_RUN  # two widths


@pytest.mark.parametrize(("ratio", "outcome"), [(1.0, HOLDS), (1.2, CONTRADICTED)])
def test_the_bound_is_reached_or_not(ratio, outcome):
    found = claims(made_up(ratio))
    assert {found[id].outcome for id in ("tight-one", "tight-two")} == {outcome}
    assert found["tight-one"].measured == pytest.approx(ratio, abs=0.01)
    table = made_up(ratio)
    table["deviation"] *= 1 + 0.1 * (table["seed"] - 1)
    assert claims(table)["tight-one"].outcome == OPEN


@pytest.mark.parametrize(("sign", "outcome"), [(1, HOLDS), (-1, CONTRADICTED)])
def test_the_same_classes_are_held_against_training_from_scratch(sign, outcome):
    table = judging.rows(
        noise=0.02,
        kind="source",
        dataset="one",
        seed=range(4),
        width=[5, 10],
        family=["scratch", "rotated"],
        step=[0, 90],
        bound=1.0,
        worst=-0.1,
        test_error=0.1,
        # The widest alone counts, and the smallest angle.
        helps=lambda row: row.family == "rotated" and row.step == 0 and row.width == 10,
        deviation=lambda row: 2 ** (row.noise - 0.5 * sign * row.helps),
        test_loss=lambda row: row.deviation**2,
    )
    claim = claims(table)["alike"]
    assert claim.outcome == outcome and claim.measured == pytest.approx((0.5 if sign > 0 else -1), abs=0.1)


@pytest.mark.parametrize(("order", "test"), [(1, 1), (1, -1), (-1, 1)])
def test_statements_come_out_either_way(order, test):
    table = made_up(order=order, test=test)
    assert claims(table)["test"].outcome == (HOLDS if test > 0 else CONTRADICTED)
    ranks = reading.at_widest(lambda rows: reading.order(rows, "deviation", "bound"))(table, PARAMETERS)
    assert list(ranks) == pytest.approx([order] * 3)
