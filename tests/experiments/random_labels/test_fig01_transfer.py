"""Figure 1: its runs at small size, areas between curves, and signs that come out either way."""

import pandas as pd
import pytest

from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT, NOT_RUN, OPEN
from companion.studies.random_labels.fig01_transfer import experiment, reading
from tests import judging
from tests.judging import QUIET


def made_up(shifts, noise=0.01, seeds=4):
    """A table whose pre-trained curves lie ``shifts[experiment]`` above those from scratch."""
    tables = []
    for number, (name, labels, _) in reading.EXPERIMENTS.items():
        job = {"classes": reading.SETTINGS[name].classes, "seed": range(seeds)}
        curve = judging.rows(
            noise, number, **job, labels=labels, start=["pretrained", "scratch"], epoch=[0, 10, 40],
            accuracy=lambda row, up=shifts[number]: 0.5 + up * (row.start == "pretrained") + row.noise,
            test=lambda row: 1 - row.accuracy,
        )  # fmt: skip
        tables += [curve, judging.rows(**job, labels=None, start="upstream", epoch=5, accuracy=0.97)]
    return pd.concat(tables)


judged = judging.of(reading)[1]


def test_signs_decide():
    printed = {1: 0.1, 2: 0.1, 3: -0.1, 4: -0.1}
    assert judged(made_up(printed)) == {
        "experiment-1": HOLDS, "experiment-2": HOLDS, "experiment-3": HOLDS, "experiment-4": HOLDS,
        "test": CONTRADICTED,  # in one of two settings
    }  # fmt: skip
    turned = judged(made_up({number: -shift for number, shift in printed.items()}))
    assert set(turned.values()) == {CONTRADICTED}
    assert judged(made_up(dict.fromkeys(printed, 0.1)))["test"] == HOLDS
    assert judged(made_up(printed | {2: 0.0}, noise=0.05))["experiment-2"] == OPEN
    assert judged(made_up(printed | {2: 0.0}, noise=0.002))["experiment-2"] == NO_EFFECT
    table = made_up(printed)
    first = judged(table[table["classes"] == 5])
    assert first["experiment-3"] == NOT_RUN and first["experiment-2"] == HOLDS


def test_the_area_is_a_mean_over_epochs():
    table = made_up({1: 0.2, 2: 0.0, 3: 0.0, 4: 0.0}, noise=0.0)
    assert reading.gain(table, 1).tolist() == pytest.approx([20.0] * 4)
    late = table.assign(accuracy=table["accuracy"].where(table["epoch"] > 0, 0.0))
    # Up to epoch 10 the difference grows from 0: half of it is lost over a quarter of the run.
    assert reading.gain(late, 1).tolist() == pytest.approx([20.0 * 0.875] * 4)


def test_runs_share_all_but_pre_training():
    job = experiment.jobs(judging.given("random_labels/fig01_transfer"))[0]
    table = judging.compute(job, upstream_epochs=0)
    curves = [table[table["start"] == start].drop(columns="start") for start in ("pretrained", "scratch")]
    pd.testing.assert_frame_equal(*(curve.reset_index(drop=True) for curve in curves))


def test_side_by_side_only_rounding_differs():
    jobs = experiment.jobs(judging.given("random_labels/fig01_transfer", seeds=8, together=2))
    (job, _) = [job for job in jobs if job.compute is experiment.compute_together]
    given = {name: value for name, value in job.arguments.items() if name != "seeds"}
    alone = [experiment.compute(**given, **QUIET, seed=seed).assign(seed=seed) for seed in (6, 7)]
    together, each = (
        table.fillna({"labels": "none"}).set_index(["seed", "start", "labels", "epoch"]).sort_index()
        for table in (judging.compute(job), pd.concat(alone))
    )
    # Of 20 images none, or one whose two largest logits are alike, is counted differently.
    pd.testing.assert_frame_equal(together, each, check_like=True, atol=0.051)
    assert len(set(together["accuracy"])) > 3
