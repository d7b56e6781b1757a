"""Figures 6 and 9: which layers are transferred, slopes of areas, claims that come out either way."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN
from alignbook.errors import AlignbookError
from alignbook.experiments.random_labels import fig01_transfer as fig01
from alignbook.experiments.random_labels import fig06_more_layers as experiment
from alignbook.runs import notebooks, parameters

BOOK = notebooks.find("random_labels/fig06_more_layers")
QUIET = {"device": torch.device("cpu"), "report": lambda done, text: None}


def same(one, other):
    """Whether all parameters of two lists of modules agree."""
    pairs = zip(torch.nn.ModuleList(one).parameters(), torch.nn.ModuleList(other).parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("column", experiment.COLUMNS)
def test_the_first_layers_are_handed_on(column):
    nets = [experiment.network(column, (3, 6, 6), 4, 8) for _ in range(2)]
    for module in (m for net in nets for m in net.modules() if isinstance(m, torch.nn.GroupNorm)):
        torch.nn.init.normal_(module.weight)  # they start alike
    parts = [experiment.parts(net) for net in nets]
    assert len(parts[0]) == experiment.depth(column)
    assert not any(same(one, other) for one, other in zip(*parts, strict=True))
    experiment.transfer_(*nets, 2)
    assert [same(one, other) for one, other in zip(*parts, strict=True)] == [
        number < 2 for number in range(len(parts[0]))
    ]
    experiment.transfer_(*nets, len(parts[0]))
    one, other = (dict(net.named_parameters()) for net in nets)
    assert {name for name in one if not torch.equal(one[name], other[name])} == {"head.weight", "head.bias"}


def made_up(rises, seeds=4, columns=tuple(experiment.COLUMNS)):
    """Curves that lie ``rises[column]`` · (share of layers) above those from scratch, on average."""
    rng, rows = np.random.default_rng(0), []
    for column in columns:
        depth = experiment.depth(column)
        for labels in ("random", "real"):
            for seed in range(seeds):
                for count in (0, 1, depth):
                    for epoch, height in ((0, 0.5), (10, 1.5)):
                        value = 0.4 + height * rises[column] * count / depth + rng.normal(0, 0.001)
                        row = {"labels": labels, "seed": seed, "epoch": epoch, "accuracy": value}
                        if column == "vgg" and count in (0, depth):
                            start = "pretrained" if count else "scratch"
                            rows.append(row | {"unit": f"1-and-2-seed{seed}", "start": start})
                        else:
                            rows.append(row | {"unit": f"{column}-seed{seed}", "layers": count})
    return pd.DataFrame(rows)


def judged(table):
    return {claim.id: claim.outcome for claim in experiment.claims(table, {})}


def test_slopes_decide():
    up = {"cnn": 0.1, "vgg": 0.2, "resnet": 0.1}
    assert set(judged(made_up(up)).values()) == {HOLDS}
    assert experiment.slopes(made_up(up), "vgg", "random").mean() == pytest.approx(20, abs=1)
    found = judged(made_up(up | {"resnet": -0.1}))
    assert found["more-layers"] == found["resnet-random"] == CONTRADICTED and found["cnn-random"] == HOLDS
    part = judged(made_up(up, columns=["cnn"]))
    assert part["more-layers"] == part["vgg-real"] == NOT_RUN and part["cnn-real"] == HOLDS
    assert set(judged(pd.DataFrame({"unit": []})).values()) == {NOT_RUN}
    assert "6 of 6 decided as rising. 0 of 12 single steps" in experiment.finding(made_up(up), {})


def test_a_line_rises_over_a_step_that_goes_down():
    table = made_up({"cnn": 0.1, "vgg": 0.2, "resnet": 0.1})
    back = (table["unit"].str.startswith("cnn")) & (table["layers"] == 1) & (table["labels"] == "random")
    table.loc[back, "accuracy"] -= 0.06  # the first step, of 2.5 points, falls back
    found = experiment.steps(table, "cnn", "random")
    assert list(found) == ["0 to 1", "1 to 4"] and found.mean().tolist() == pytest.approx([-3.5, 13.5], abs=1)
    outcomes = judged(table)
    assert outcomes["cnn-random"] == HOLDS and outcomes["steps-cnn-random"] == CONTRADICTED
    assert outcomes["steps-cnn-real"] == outcomes["steps-vgg-random"] == HOLDS
    ends = table[(table["layers"] != 1) | (table["labels"] == "random")]
    assert judged(ends)["steps-vgg-real"] == NOT_JUDGED  # no more than the line has
    assert "1 of 12 single steps" in experiment.finding(table, {})


def test_figure_1_has_the_ends_of_vgg():
    frames = experiment.curves(made_up({"cnn": 0, "vgg": 0, "resnet": 0}), "vgg", "real")
    assert list(frames) == [0, 1, 13] and frames[13].shape == (4, 2)
    for profile in ("quick", "paper"):
        other = parameters.resolve(notebooks.find("random_labels/fig01_transfer"), profile)
        theirs = [unit.arguments for unit in fig01.units(other)]
        asked = parameters.resolve(BOOK, profile)
        shared = [u for u in experiment.units(asked) if u.compute is fig01.compute]
        # As many of Figure 1's as this figure has seeds, and not computed again.
        assert len(shared) == asked["seeds"] and all(unit.arguments in theirs for unit in shared)


@pytest.mark.parametrize("column", ["cnn", "resnet"])
def test_a_run_stops_early_and_scratch_is_scratch(column):
    asked = parameters.resolve(BOOK, "smoke", {"epoch_share": 0.02, "stops": 2, "points": 3})
    (unit,) = [u for u in experiment.units(asked) if u.name == f"{column}-seed0"]
    setting = experiment.COLUMNS[column]
    assert unit.arguments["upstream"] == round(20 * setting.images / 25_000)
    table = unit.compute(**unit.arguments, **QUIET)
    tuned = table[table["layers"] >= 0]
    assert sorted(tuned["epoch"].unique()) == [0, 1, 2]
    assert tuned["layers"].unique().tolist() == unit.arguments["layers"]
    # What no layer is handed on to does not depend on pre-training.
    other = unit.compute(**unit.arguments | {"upstream_epochs": 0}, **QUIET)
    ends = [frame[frame["layers"] == 0]["accuracy"].tolist() for frame in (table, other)]
    assert ends[0] == ends[1]


def test_bad_parameters():
    for name, value in (("cnn_layers", [5]), ("vgg_layers", [13]), ("stops", 0)):
        with pytest.raises(AlignbookError, match=name):
            parameters.resolve(BOOK, "quick", {name: value})
