"""Figures 12 to 18: the balanced fraction, areas and gains, statements either way."""

import itertools
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import torch

from companion.claims import CONTRADICTED, HOLDS, NOT_RUN, OPEN
from companion.studies.random_labels.fig12_sweeps import design as sweeps, experiment, reading
from companion.studies.random_labels.shared import sweep_analysis as analysis, sweep_design as design
from tests import judging

FACTORS = {"seed": [0, 1, 2], "scale": (0.5, 2.0), "classes": [2, 5, 10, 25, 50], "filters": [8, 16]}
JOB = experiment.jobs(judging.given("random_labels/fig12_sweeps"))[0]


@pytest.mark.parametrize("count", [1, 7, 12, 15])
def test_a_balanced_fraction_is_balanced(count):
    groups = design.balanced_design(FACTORS, count, 4, "test")
    frame = pd.DataFrame(groups)
    levels = {"seed": 3, "scale": 4, "classes": 5, "filters": 2}
    for name, many in levels.items():
        times = [*Counter(frame[name]).values(), *[0] * (many - frame[name].nunique())]
        assert max(times) - min(times) <= 1 and sum(times) == count
    assert groups == design.balanced_design(FACTORS, count, 4, "test")
    assert count == 1 or groups != design.balanced_design(FACTORS, count, 4, "another")


def total(columns, values):
    return sum(
        design.imbalance(columns[a], columns[b], (values[a], values[b]))
        for a, b in itertools.combinations(range(len(values)), 2)
    )


def test_no_exchange_makes_the_fraction_more_balanced():
    values, count = (3, 4, 5, 2), 11
    columns = design._nearly_orthogonal(values, count, ("test",))
    least = total(columns, values)
    for column in range(len(values)):
        for one, other in itertools.combinations(range(count), 2):
            changed = [list(entries) for entries in columns]
            changed[column][one], changed[column][other] = changed[column][other], changed[column][one]
            assert total(changed, values) >= least - 1e-9
    rng = np.random.default_rng(0)
    shuffled = [total([rng.permutation(entries).tolist() for entries in columns], values) for _ in range(20)]
    assert least < 0.7 * np.mean(shuffled)


def test_ranges_are_cut_evenly_on_a_logarithmic_axis():
    assert design.centres(1, 16, 2) == [2.0, 8.0]
    drawn = [group["scale"] for group in design.random_design({"scale": (0.5, 2.0)}, 400, "test")]
    assert 0.5 <= min(drawn) and max(drawn) <= 2.0
    assert np.mean(np.log(drawn)) == pytest.approx(0, abs=0.1)  # log-uniform: symmetric around 1


def test_orthogonal_filters_have_orthonormal_rows_or_columns():
    generator = torch.Generator().manual_seed(0)
    wide, tall = torch.nn.Conv2d(3, 5, 3), torch.nn.Linear(4, 9)
    for layer in (wide, tall):
        experiment.draw_layer_(layer, "orthogonal", 0.5, generator)
        assert not layer.bias.any()
    rows, columns = wide.weight.detach().flatten(1), tall.weight.detach()
    torch.testing.assert_close(rows @ rows.T, 0.25 * torch.eye(5))
    torch.testing.assert_close(columns.T @ columns, 0.25 * torch.eye(4))


def test_networks_of_a_group_differ_by_what_is_transferred():
    """Networks from scratch do not depend on pre-training; the others do."""
    table, other = (judging.compute(JOB, downstream=40, upstream_epochs=epochs) for epochs in (2, 9))
    for start, same in (("scratch", True), ("all", False)):
        one, two = (part[part["start"] == start] for part in (table, other))
        assert one.equals(two) == same


def made_up(gain, figures=("12", "13"), groups=12, noise=0.005, reached=0.95, known=1.0):
    """Learning curves 0.1 → ``reached`` from scratch; ``gain(start, job)`` higher when pre-trained."""
    jobs = {
        "figure": [*figures],
        "architecture": [*sweeps.ARCHITECTURES],
        "number": range(groups),
        **{name: JOB.arguments[name] for name in ("init", "classes", *analysis.SETTINGS)},
        "seed": lambda row: row.number % 3,
        "init_scale": lambda row: (0.5, 0.7, 1.4, 2.0)[row.number // 3 % 4],
        "upstream_classes": lambda row: (2, 10, 50)[row.number // 3 % 3],
        "unit": lambda row: f"{row.figure}-{row.architecture}-{row.number:02d}-seed{row.seed}",
    }

    def accuracy(row):
        more = 0.0 if row.start == "scratch" else gain(row.start, vars(row))
        return (0.1 if row.epoch == 0 else reached) + more + row.noise

    curves = {"labels": ["real", "random"], "start": ["scratch", "one", "all"], "epoch": [0, 4]}
    table = judging.rows(noise=noise, **jobs, **curves, accuracy=accuracy)
    upstream = judging.rows(**jobs, start="upstream", epoch=9, accuracy=known)
    return pd.concat([upstream, table], ignore_index=True).drop(columns=["figure", "number"])


claims, judged = judging.of(reading)


def test_areas_are_means_over_training():
    points = analysis.comparisons(made_up(lambda start, job: 0.2, noise=0, reached=0.9, groups=1))
    assert len(points) == 2 * 3 * 2 * 2 and set(points["figure"]) == {"12", "13"}
    assert points["area_scratch"].to_numpy() == pytest.approx(0.5)
    assert points["gain"].to_numpy() == pytest.approx(20)


def test_groups_that_share_their_draws_are_not_a_sample_of_draws():
    """One seed of three gains in all its groups: over groups that is sure, over seeds it is open."""
    found = claims(made_up(lambda start, job: 0.1 if job["seed"] == 0 else -0.1, groups=60))["often-all"]
    assert (found.outcome, found.seeds, found.what) == (OPEN, 3, "seed")
    assert found.measured == pytest.approx(1 / 3)


def test_what_did_not_learn_or_was_not_pretrained_does_not_count():
    table = made_up(lambda start, job: 0.02, noise=0, reached=0.17)
    assert not analysis.comparisons(table)["learned"].any() and set(judged(table).values()) == {NOT_RUN}
    table = made_up(lambda start, job: 0.1, known=0.9)
    assert set(judged(table).values()) == {NOT_RUN}
    assert len(analysis.compared(table, "12", fitted=False)) == 3 * 12 * 4
    ends = table["start"].eq("all") & table["labels"].eq("real") & table["epoch"].eq(4)
    diverged = table.assign(accuracy=table["accuracy"].mask(ends))
    assert len(analysis.comparisons(diverged)) == 3 / 4 * len(analysis.comparisons(table))


@pytest.mark.parametrize(("sign", "outcome"), [(1, HOLDS), (-1, CONTRADICTED)])
def test_claims_come_out_either_way(sign, outcome):
    def gain(start, job):
        odd = job["unit"].endswith("-00-seed0")  # shares of settings need some spread
        return sign * (-0.02 if odd else {"one": 0.05, "all": 0.1}[start])

    found = judged(made_up(gain, ("12", "13", "14", "15"), groups=90))
    for id in ("often-one", "often-all", "rarely-hurts", "more-layers", "resnet-second"):
        assert found[id] == outcome
    assert found["turns"] == CONTRADICTED  # one half of the scales gains, or loses, as the other


@pytest.mark.parametrize("sign", [1, -1])
def test_what_turns_the_sign_is_found(sign):
    outcome = HOLDS if sign > 0 else CONTRADICTED
    by_scale = judged(made_up(lambda start, job: -0.2 * sign * np.log(job["init_scale"]), groups=36))
    assert by_scale["turns"] == by_scale["scale"] == outcome
    by_classes = judged(made_up(lambda start, job: -0.1 * sign * np.log(job["upstream_classes"]), groups=36))
    assert by_classes["classes"] == outcome


def test_points_per_doubling_are_the_slope_of_a_line():
    points = pd.DataFrame({"group": list("aabb"), "init_scale": [1, 1, 4, 4], "gain": [0.0, 2.0, 7.0, 7.0]})
    assert analysis.per_doubling(points, "init_scale") == pytest.approx(3)
    assert np.isnan(analysis.per_doubling(points[:2], "init_scale"))
