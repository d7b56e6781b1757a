"""Figure 1: its runs at small size, areas between curves, and signs that come out either way."""

import pandas as pd
import pytest

from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT, NOT_RUN, OPEN
from companion.runs import notebooks, parameters
from companion.studies.random_labels.fig01_transfer import experiment, reading
from tests import judging
from tests.judging import QUIET

BOOK = notebooks.find("random_labels/fig01_transfer")
SMALL = {
    "side": 8, "upstream": 12, "downstream": 20, "test": 10, "batch_size": 5, "points": 2, "seeds": 1,
    "stops": 2, "epoch_share": 0.015,
}  # fmt: skip


def asked(**other):
    return parameters.resolve(BOOK, "smoke", other)


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


judged = judging.of(reading, asked())[1]


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
    jobs = {job.name: job for job in experiment.jobs(asked(**SMALL))}
    assert len(jobs) == 2
    setting = jobs["3-and-4-seed0"].arguments
    assert setting["init_scale"] == pytest.approx(0.612 * 2.0) and setting["learning_rate"] == 0.009
    assert (setting["classes"], setting["upstream_epochs"], setting["epochs"]) == (50, 1, 3)
    table = experiment.compute(**setting, **QUIET)
    counts = table.groupby(["start", "labels"], dropna=False).size()
    assert counts["pretrained", "real"] == counts["scratch", "random"] == 3  # epochs 0, 1, 2, and not 3
    assert table["test"].notna().equals(table["labels"] == "real")
    # Without pre-training there is nothing between the two.
    none = experiment.compute(**setting | {"upstream_epochs": 0, "labels": ["real"]}, **QUIET)
    parts = [none[none["start"] == start]["accuracy"].tolist() for start in ("pretrained", "scratch")]
    assert parts[0] == parts[1]


def test_side_by_side_only_rounding_differs(monkeypatch):
    monkeypatch.setattr(experiment, "ALONE", 1)
    jobs = experiment.jobs(asked(**SMALL | {"seeds": 4, "together": 2}))
    names = [job.name for job in jobs if job.name.startswith("1")]
    assert names == ["1-and-2-seed0", "1-and-2-seeds1-2", "1-and-2-seeds3-3"]
    arguments = next(job for job in jobs if job.name == names[1]).arguments
    columns = ["seed", "start", "labels", "epoch"]
    both = experiment.compute_together(**arguments, **QUIET).fillna({"labels": "none"}).set_index(columns)
    alone = {name: value for name, value in arguments.items() if name != "seeds"}
    each = [experiment.compute(**alone, seed=seed, **QUIET).assign(seed=seed) for seed in arguments["seeds"]]
    each = pd.concat(each).fillna({"labels": "none"}).set_index(columns)
    # Of 20 images none, or one whose two largest logits are alike, is counted differently.
    pd.testing.assert_frame_equal(both.sort_index(), each.sort_index(), check_like=True, atol=0.051)
    assert len(set(both["accuracy"])) > 3
