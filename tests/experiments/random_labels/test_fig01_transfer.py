"""Figure 1: its runs at small size, areas between curves, and signs that come out either way."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED
from alignbook.errors import AlignbookError
from alignbook.runs import notebooks, parameters
from alignbook.statements import judged as judge
from alignbook.studies.random_labels.fig01_transfer import experiment, reading

BOOK = notebooks.find("random_labels/fig01_transfer")
QUIET = {"device": torch.device("cpu"), "report": lambda done, text: None}
SMALL = {
    "side": 8, "upstream": 12, "downstream": 20, "test": 10, "batch_size": 5, "points": 2, "seeds": 1,
    "stops": 2, "epoch_share": 0.015,
}  # fmt: skip


def asked(**other):
    return parameters.resolve(BOOK, "smoke", other)


def made_up(shifts, noise=0.01, seeds=4):
    """A table whose pre-trained curves lie ``shifts[experiment]`` above those from scratch."""
    rng, rows = np.random.default_rng(0), []
    for number, (name, labels, _) in reading.EXPERIMENTS.items():
        for seed in range(seeds):
            job = {"classes": reading.SETTINGS[name].classes, "seed": seed, "labels": labels}
            for epoch in (0, 10, 40):
                for start in ("pretrained", "scratch"):
                    value = 0.5 + shifts[number] * (start == "pretrained") + rng.normal(0, noise)
                    rows.append(job | {"start": start, "epoch": epoch, "accuracy": value, "test": 1 - value})
            if labels == "real":
                rows.append(job | {"labels": None, "start": "upstream", "epoch": 5, "accuracy": 0.97})
    return pd.DataFrame(rows)


def judged(table):
    return {claim.id: claim.outcome for claim in judge(reading.STATEMENTS, table, asked())}


def found(table):
    claims = {claim.id: claim for claim in judge(reading.STATEMENTS, table, asked())}
    said = reading.finding(table, asked(), claims)
    assert len(said) <= 300
    return said


def test_signs_decide():
    printed = {1: 0.1, 2: 0.1, 3: -0.1, 4: -0.1}
    assert set(judged(made_up(printed)).values()) == {HOLDS, CONTRADICTED}
    assert judged(made_up(printed)) == {
        "signs": HOLDS, "experiment-1": HOLDS, "experiment-2": HOLDS, "experiment-3": HOLDS,
        "experiment-4": HOLDS, "test-1": HOLDS, "test-3": CONTRADICTED,
    }  # fmt: skip
    outcomes = judged(made_up(printed | {4: 0.1}))
    assert outcomes["signs"] == outcomes["experiment-4"] == CONTRADICTED
    assert outcomes["experiment-3"] == HOLDS
    assert judged(made_up(printed | {2: 0.0}, noise=0.05))["signs"] == UNDECIDED
    assert judged(made_up(printed | {2: 0.0}, noise=0.002))["signs"] == ABSENT


def test_the_area_is_a_mean_over_epochs():
    table = made_up({1: 0.2, 2: 0.0, 3: 0.0, 4: 0.0}, noise=0.0)
    assert reading.gain(table, 1).tolist() == pytest.approx([20.0] * 4)
    late = table.assign(accuracy=table["accuracy"].where(table["epoch"] > 0, 0.0))
    # Up to epoch 10 the difference grows from 0: half of it is lost over a quarter of the run.
    assert reading.gain(late, 1).tolist() == pytest.approx([20.0 * 0.875] * 4)


def test_nothing_and_parts():
    table = made_up({1: 0.1, 2: 0.1, 3: -0.1, 4: -0.1})
    first = table[table["classes"] == 5]
    assert judged(first)["signs"] == NOT_RUN and judged(first)["experiment-2"] == HOLDS
    assert "speeds training up in both" in found(table) and "not all among" in found(first)


def test_a_seed_that_goes_the_other_way_is_told():
    table = made_up({1: 0.06, 2: 0.1, 3: -0.1, 4: -0.1}, seeds=6)
    one = (table["seed"] == 2) & (table["start"] == "pretrained") & (table["labels"] == "real")
    table.loc[one & (table["classes"] == 5), "accuracy"] -= 0.23
    assert judged(table)["experiment-1"] == judged(table)["signs"] == UNDECIDED
    assert "with real labels the gain is undecided and the loss holds." in found(table)


@pytest.mark.parametrize(
    ("shifts", "said"),
    [
        ({1: 0.0, 3: 0.0}, "with random labels both signs hold; with real labels neither sign is decided."),
        ({3: 0.0}, "with real labels the gain holds and the loss is undecided."),
        (
            {2: -0.3, 4: 0.3},
            "with random labels both signs are the opposite; with real labels both signs hold.",
        ),
    ],
)
def test_random_and_real_labels_are_told_apart(shifts, said):
    assert said in found(made_up({1: 0.3, 2: 0.3, 3: -0.3, 4: -0.3} | shifts, noise=0.05))
    assert "by at least 29 points" in found(made_up({1: 0.3, 2: 0.3, 3: -0.3, 4: -0.3}))


def test_without_memorised_labels_nothing_is_judged():
    table = made_up({1: 0.1, 2: 0.1, 3: -0.1, 4: -0.1})
    half = table.assign(accuracy=table["accuracy"].where(table["start"] != "upstream", 0.5))
    assert set(judged(half).values()) == {NOT_JUDGED}
    part = table[(table["start"] != "upstream") | (table["classes"] == 5)]
    assert judged(part)["signs"] == judged(part)["experiment-3"] == NOT_JUDGED
    assert judged(part)["experiment-1"] == HOLDS


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


def test_where_one_diverges_the_others_are_run_alone(monkeypatch):
    arguments = experiment.jobs(asked(**SMALL | {"seeds": 8, "together": 2}))[-1].arguments
    real = experiment.compute

    def compute(*, seed, **other):
        if seed == arguments["seeds"][0]:
            raise experiment.Diverged(3)
        return real(seed=seed, **other)

    def diverge(**other):
        raise experiment.Diverged(1)

    monkeypatch.setattr(experiment, "_together", diverge)
    monkeypatch.setattr(experiment, "compute", compute)
    assert set(experiment.compute_together(**arguments, **QUIET)["seed"]) == {arguments["seeds"][1]}
    monkeypatch.setattr(experiment, "compute", diverge)
    with pytest.raises(experiment.Diverged):
        experiment.compute_together(**arguments, **QUIET)


def test_bad_parameters():
    with pytest.raises(AlignbookError, match="epoch_share"):
        asked(epoch_share=0.0)
    with pytest.raises(ValueError, match="whole blocks"):
        setting = experiment.jobs(asked(**SMALL | {"side": 7}))[0].arguments
        experiment.compute(**setting, **QUIET)
