"""Figure 1: its runs at small size, areas between curves, and signs that come out either way."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import CONTRADICTED, HOLDS, NOT_RUN, UNDECIDED
from alignbook.errors import AlignbookError
from alignbook.experiments.random_labels import fig01_transfer as experiment
from alignbook.runs import notebooks, parameters

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
    for number, (name, labels, _) in experiment.EXPERIMENTS.items():
        for seed in range(seeds):
            unit = {"unit": f"{name.replace(' ', '-')}-seed{seed}", "seed": seed, "labels": labels}
            for epoch in (0, 10, 40):
                for start in ("pretrained", "scratch"):
                    value = 0.5 + shifts[number] * (start == "pretrained") + rng.normal(0, noise)
                    rows.append(unit | {"start": start, "epoch": epoch, "accuracy": value, "test": 1 - value})
            rows.append(unit | {"start": "upstream", "epoch": 5, "accuracy": 0.97})
    return pd.DataFrame(rows)


def judged(table):
    return {claim.id: claim.outcome for claim in experiment.claims(table, asked())}


def test_signs_decide():
    printed = {1: 0.1, 2: 0.1, 3: -0.1, 4: -0.1}
    assert set(judged(made_up(printed)).values()) == {HOLDS, CONTRADICTED}
    assert judged(made_up(printed)) == {
        "signs": HOLDS, "experiment-1": HOLDS, "experiment-2": HOLDS, "experiment-3": HOLDS,
        "experiment-4": HOLDS, "test-1": HOLDS, "test-3": CONTRADICTED,
    }  # fmt: skip
    found = judged(made_up(printed | {4: 0.1}))
    assert found["signs"] == found["experiment-4"] == CONTRADICTED and found["experiment-3"] == HOLDS
    assert judged(made_up(printed | {2: 0.0}))["signs"] == UNDECIDED


def test_the_area_is_a_mean_over_epochs():
    table = made_up({1: 0.2, 2: 0.0, 3: 0.0, 4: 0.0}, noise=0.0)
    assert experiment.gain(table, 1).tolist() == pytest.approx([20.0] * 4)
    late = table.assign(accuracy=table["accuracy"].where(table["epoch"] > 0, 0.0))
    # Up to epoch 10 the difference grows from 0: half of it is lost over a quarter of the run.
    assert experiment.gain(late, 1).tolist() == pytest.approx([20.0 * 0.875] * 4)


def test_nothing_and_parts():
    nothing = pd.DataFrame({"unit": []})
    assert set(judged(nothing).values()) == {NOT_RUN}
    table = made_up({1: 0.1, 2: 0.1, 3: -0.1, 4: -0.1})
    first = table[table["unit"].str.startswith("1")]
    assert judged(first)["signs"] == NOT_RUN and judged(first)["experiment-2"] == HOLDS
    assert "+10." in experiment.finding(table, asked()) and "97 %" in experiment.finding(table, asked())


def test_runs_share_all_but_pre_training():
    units = {unit.name: unit for unit in experiment.units(asked(**SMALL))}
    assert len(units) == 2
    setting = units["3-and-4-seed0"].arguments
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


def test_bad_parameters():
    with pytest.raises(AlignbookError, match="epoch_share"):
        asked(epoch_share=0.0)
    with pytest.raises(ValueError, match="whole blocks"):
        setting = experiment.units(asked(**SMALL | {"side": 7}))[0].arguments
        experiment.compute(**setting, **QUIET)
