"""Figure 19: untrained networks against plain code, and statements that come out either way."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED
from alignbook.errors import AlignbookError
from alignbook.metrics import alignment_curve
from alignbook.seeding import torch_stream
from alignbook.statements import judged
from alignbook.studies.representation_alignment.fig19_depth import experiment, reading
from alignbook.studies.representation_alignment.two_classes import images

PARAMETERS = {
    "datasets": ["cifar100", "cifar10"], "networks": ["vgg16", "resnet50", "resnet101"], "side": 32,
    "points": 20, "widths": [], "trained": ["resnet18"], "trained_seeds": 1, "seeds": 1,
}  # fmt: skip
PLAIN = {"vgg16": 0.3, "resnet50": 0.2, "resnet101": 0.1, "inputs": 0.4}


@pytest.fixture(scope="module")
def table():
    job, *_ = experiment.jobs(PARAMETERS | {"datasets": ["photos"], "networks": ["resnet18"]})
    return job.compute(**job.arguments, device=torch.device("cpu"), report=lambda done, text: None)


def test_areas_are_those_of_the_last_hidden_layer(table):
    rows = table[table["kind"] == "area"].set_index(["network", "mode"])
    assert set(rows.index) == {("inputs", "inputs"), ("resnet18", "evaluation"), ("resnet18", "batch")}
    classes = tuple(rows[["first", "second"]].iloc[0].astype(int))
    draw = experiment.numpy_stream(0, "fig19", "classes", "photos")
    assert tuple(draw.choice(10, 2, replace=False)) == classes
    x, y = images("photos", 20, classes, 0)["train"]
    net = experiment.untrained("resnet18", torch_stream(0, "fig19", "photos", "resnet18"))
    mean, std = (torch.tensor(part).view(3, 1, 1) for part in (experiment.MEAN, experiment.STD))
    with torch.no_grad():
        seen = ((x.float().view(20, 3, 32, 32) + 1) / 2 - mean) / std
        found = {"inputs": x, "resnet18": net(seen).double()}
    for name, features in found.items():
        thresholds, alignment = alignment_curve(features, y)
        area = float((alignment[1:] * np.diff(thresholds)).sum()) / 20**1.5
        assert rows.loc[name, "area"].iloc[0] == pytest.approx(area, rel=1e-4), name
    assert rows["features"].tolist() == [3072, 512, 512]


def test_random_features_are_relus_of_the_same_images(table):
    made = experiment.jobs(PARAMETERS | {"datasets": ["photos"], "networks": [], "widths": [4, 64]})
    assert [job.compute for job in made] == [experiment.compute, experiment.wide, experiment.stand_in]
    found = made[1].compute(**made[1].arguments, device="cpu", report=lambda done, text: None)
    rows = found[found["kind"] == "area"].set_index("width")
    assert rows.index.tolist() == [0, 4, 64] and rows["features"].tolist() == [3072, 4, 64]
    inputs = table[(table["kind"] == "area") & (table["network"] == "inputs")]
    assert rows["area"][0] == pytest.approx(inputs["area"].item())
    x, y = images("photos", 20, tuple(rows[["first", "second"]].iloc[0].astype(int)), 0)["train"]
    draw = torch_stream(0, "fig19", "random features", "photos", 4)
    features = (x @ torch.randn(3072, 4, dtype=torch.float64, generator=draw)).clamp(min=0)
    assert rows["area"][4] == pytest.approx(experiment.curve(features, y)[0])
    # Least squares on the rows of length one, with the constant, as everywhere in the chapter.
    assert rows["fitted"][64] == pytest.approx(1) and rows["fitted"][4] < 1


def test_trained_networks_are_seen_before_and_after_on_the_same_images(table, monkeypatch):
    asked = []

    def stub(size, pretrained, generator):
        asked.append((size, pretrained, generator.initial_seed()))
        net = nn.Identity()
        net.features = lambda x: x.flatten(1) if pretrained else x[:, :1].flatten(1)
        return net

    monkeypatch.setattr(experiment, "lite_network", stub)
    *_, job = experiment.jobs(PARAMETERS | {"datasets": ["photos"], "networks": [], "trained": ["lite2"]})
    found = job.compute(**job.arguments, device="cpu", report=lambda done, text: None)
    assert [ask[:2] for ask in asked] == [(2, False), (2, True)] and len({ask[2] for ask in asked}) == 1
    rows = found[found["kind"] == "area"].set_index("state")
    inputs = table[(table["kind"] == "area") & (table["network"] == "inputs")]
    assert rows["area"]["inputs"] == pytest.approx(inputs["area"].item())
    assert rows["area"]["after"] == pytest.approx(rows["area"]["inputs"], rel=1e-4)  # all pixels, in float32
    assert rows["features"].tolist() == [3072, 1024, 3072]
    *_, job = experiment.jobs(PARAMETERS | {"datasets": ["photos"]})
    other = job.compute(**job.arguments, device="cpu", report=lambda done, text: None)
    assert other.columns.isin([*found.columns]).all() and set(other["state"]) == {"inputs", "before", "after"}
    with pytest.raises(AlignbookError, match="resnet18, a stand-in, alone"):
        experiment.jobs(PARAMETERS | {"trained": ["resnet18", "lite0"]})


def test_networks_are_drawn_by_the_seed_and_keep_their_statistics():
    state = torch.get_rng_state()
    one, same, other = (experiment.untrained("resnet18", torch_stream(seed, "test")) for seed in (1, 1, 2))
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(one.conv1.weight, same.conv1.weight)
    assert not torch.equal(one.conv1.weight, other.conv1.weight)
    x = 2 * torch.rand(4, 3072, dtype=torch.float64) - 1
    before = experiment._through(one, "evaluation", x, 32, "cpu")
    batch = experiment._through(one, "batch", x, 32, "cpu")
    assert not torch.allclose(before, batch)
    assert torch.equal(before, experiment._through(one, "evaluation", x, 32, "cpu"))
    *_, dense, _, _, last = experiment.untrained("vgg16", torch_stream(0, "test")).classifier
    assert isinstance(last, nn.Identity) and dense.weight.std().item() == pytest.approx(0.01, rel=1e-2)
    assert (dense.bias == 0).all()
    # He normal by the outputs, torchvision's own: 7² · 64 of ResNet's first convolution.
    assert one.conv1.weight.std().item() == pytest.approx((2 / (49 * 64)) ** 0.5, rel=0.02)


def drawn(row, area):
    """A curve of this area; the larger area has the higher curve at every threshold but the last."""
    return [
        row | {"kind": "curve", "area": np.nan, "threshold": t, "alignment": area * (1 - t)}
        for t in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]


def made_up(batch=1.0, seeds=4, wide=0.2, fitted=1.0, before=0.2, after=0.6, first=reading.SEEN, **means):
    """``first`` : the first seed; by default none had been seen."""
    rows, draws = [], np.random.default_rng(0)
    for seed in range(first, first + seeds):
        for dataset in PARAMETERS["datasets"]:
            for name, mean in (PLAIN | means).items():
                for mode in ("evaluation", "batch") if name.startswith("resnet") else ("evaluation",):
                    area = mean if mode == "evaluation" else 0.4 - batch * (0.4 - mean)
                    row = {"kind": "area", "dataset": dataset, "seed": seed, "network": name}
                    row |= {"mode": "inputs" if name == "inputs" else mode}
                    rows.append(row | {"area": area * (1 + 0.01 * draws.standard_normal())})
                    rows += drawn(row, area)
    for seed in range(seeds):
        for dataset in PARAMETERS["datasets"]:
            for width, area in ((0, 0.4), (64, 0.39), (4096, wide)):
                row = {"kind": "area", "dataset": dataset, "seed": seed, "width": width, "fitted": fitted}
                rows.append(row | {"area": area * (1 + 0.01 * draws.standard_normal())})
            for state, name, area in (
                ("inputs", "inputs", 0.4), ("before", "lite0", before), ("after", "lite0", after),
            ):  # fmt: skip
                row = {
                    "kind": "area",
                    "dataset": dataset,
                    "seed": reading.SEEN + seed,
                    "trained": name,
                    "state": state,
                }
                rows.append(row | {"area": area * (1 + 0.01 * draws.standard_normal())})
                rows += drawn(row, area)
    return pd.DataFrame(rows)


def claims(table):
    given = PARAMETERS | {"trained": ["lite0"]}
    return {claim.id: claim for claim in judged(reading.STATEMENTS, table, given)}


def test_statements_come_out_either_way():
    held = claims(made_up())
    assert {claim.outcome for claim in held.values()} == {HOLDS}
    assert held["deeper-cifar100"].measured == pytest.approx(25, abs=2)
    assert held["poor-resnet101-cifar10"].measured == pytest.approx(75, abs=2)
    turned = claims(made_up(vgg16=0.1, resnet101=0.3, batch=0.5))
    outcomes = {id.rsplit("-", 1)[0]: claim.outcome for id, claim in turned.items()}
    assert {id for id, one in outcomes.items() if one == CONTRADICTED} == {
        "deeper", "step-resnet50", "step-resnet101", "deeper-batch", "batch-step",
    }  # fmt: skip
    assert claims(made_up(vgg16=0.5))["poor-vgg16-cifar10"].outcome == CONTRADICTED
    assert claims(made_up(wide=0.5))["wide-cifar10"].outcome == CONTRADICTED
    assert held["after-lite0-cifar10"].measured == pytest.approx(0.2, abs=0.02)
    assert claims(made_up(before=0.5))["before-lite0-cifar10"].outcome == CONTRADICTED
    assert claims(made_up(after=0.3))["after-lite0-cifar10"].outcome == CONTRADICTED
    assert claims(made_up(fitted=0.9))["wide-cifar10"].outcome == NOT_JUDGED
    alike = claims(made_up(vgg16=0.2, resnet101=0.2))
    assert alike["deeper-cifar10"].outcome == ABSENT
    assert {id for id, claim in held.items() if claim.ours} == {
        f"{id}-{data}" for id in ("deeper-batch", "batch-step", "wide") for data in PARAMETERS["datasets"]
    }  # fmt: skip
    # One step that falls is enough: the weaker of both decides.
    mixed = claims(made_up(resnet101=0.25))
    assert mixed["deeper-cifar10"].outcome == CONTRADICTED and mixed["step-resnet50-cifar10"].outcome == HOLDS


def test_a_larger_area_is_judged_only_with_a_curve_that_is_mostly_higher():
    """The areas stay; one curve falls below the other at most thresholds."""
    table = made_up()
    later = table["kind"].eq("curve") & table["threshold"].between(0.2, 0.9)
    deep = later & table["network"].eq("resnet50") & table["mode"].eq("evaluation")
    found = claims(table.assign(alignment=table["alignment"].mask(deep, 0.0)))
    ids = ("deeper", "step-resnet101")
    unmet = {f"{id}-{data}" for id in ids for data in PARAMETERS["datasets"]}
    assert {id for id, claim in found.items() if claim.outcome == NOT_JUDGED} == unmet
    trained = later & table["state"].eq("after")
    found = claims(table.assign(alignment=table["alignment"].mask(trained, 0.0)))
    unmet = {f"after-lite0-{data}" for data in PARAMETERS["datasets"]}
    assert {id for id, claim in found.items() if claim.outcome == NOT_JUDGED} == unmet
    there = table.assign(alignment=table["alignment"].mask(deep & table["dataset"].eq("cifar10"), 0.0))
    assert " %; on CIFAR-10, two ways of comparing curves disagree. With" in finding(there)
    assert reading.nowhere_apart(made_up(resnet101=0.2), "cifar10") == [
        "ResNet-50 and ResNet-101 in 4 of 4 runs"
    ]
    assert reading.nowhere_apart(table, "cifar10") == []


def test_a_step_with_no_room_left_is_not_judged():
    """ResNet-50 at 4 % of the inputs' area: ResNet-101 cannot lie 5 % lower; VGG-16 has room."""
    found = claims(made_up(resnet50=0.016, resnet101=0.004))
    unmet = {id for id, claim in found.items() if claim.outcome == NOT_JUDGED}
    ids = ("deeper", "step-resnet101", "deeper-batch")
    assert unmet == {f"{id}-{data}" for id in ids for data in PARAMETERS["datasets"]}
    assert found["step-resnet101-cifar10"].requires[0]["measured"] == pytest.approx(4, abs=0.1)
    half = claims(made_up(resnet50=0.016, resnet101=0.004, batch=0.5))  # the batch's statistics leave half
    assert half["deeper-batch-cifar10"].requires[0]["met"] and half["deeper-cifar10"].outcome == NOT_JUDGED
    # Too little by area, and lower at every threshold: there the two do not agree.
    assert half["deeper-batch-cifar10"].outcome == NOT_JUDGED
    assert claims(made_up(resnet50=0.024, resnet101=0.002))["deeper-cifar10"].outcome == HOLDS  # 6 % left


def test_the_step_to_batch_normalisation_is_judged_with_the_batchs_statistics_on_later_seeds():
    """ResNet-50 drops less than VGG-16 with the batch's statistics alone."""
    found = claims(made_up(vgg16=0.25, batch=0.5))  # drops of 37.5 and 25 %
    assert found["batch-step-cifar10"].outcome == CONTRADICTED
    assert found["step-resnet50-cifar10"].outcome == found["deeper-batch-cifar10"].outcome == HOLDS
    assert found["batch-step-cifar10"].measured == pytest.approx(-12.5, abs=1)
    assert claims(made_up(vgg16=0.3, batch=0.51))["batch-step-cifar10"].outcome == ABSENT
    seen = claims(made_up(vgg16=0.25, batch=0.5, first=0))
    assert seen["batch-step-cifar10"].outcome == NOT_JUDGED and seen["batch-step-cifar10"].measured < -10
    table = made_up()
    assert claims(table[table["network"] != "vgg16"])["batch-step-cifar10"].outcome == NOT_RUN


def test_the_finding_is_short_under_every_outcome():
    table = made_up()
    made = claims(table)
    ids = [f"{id}-{data}" for id in ("deeper", "deeper-batch") for data in PARAMETERS["datasets"]]
    for found in product((HOLDS, CONTRADICTED, ABSENT, UNDECIDED, NOT_JUDGED), repeat=4):
        turned = {id: replace(made[id], outcome=one) for id, one in zip(ids, found, strict=True)}
        said = reading.finding(table, PARAMETERS, made | turned)
        assert found[0] != HOLDS or "With the batch's own statistics" in said, said
        assert said.endswith(".") and len(said) <= 300, said


def finding(table):
    return reading.finding(table, PARAMETERS, claims(table))


def test_the_finding_follows_the_headline():
    said = finding(made_up())
    assert said == (
        "Deeper networks start with less alignment on CIFAR-100, with batch norm's running statistics: "
        "ResNet-101 starts 75 % below the inputs, VGG-16 26 %. "
        "With the batch's own statistics in batch norm, the trend among residual networks is shown."
    )
    table = made_up()
    there = (table["dataset"] == "cifar10") & (table["kind"] == "area")
    deepest, before = (there & (table["network"] == name) for name in ("resnet101", "resnet50"))
    table.loc[deepest, "area"] = table.loc[before, "area"].to_numpy() - 1e-4
    line = (table["dataset"] == "cifar10") & (table["kind"] == "curve")
    high, low = (line & (table["network"] == name) for name in ("resnet50", "resnet101"))
    table.loc[low, "alignment"] = table.loc[high, "alignment"].to_numpy()
    assert " %; on CIFAR-10, ResNet-101 starts too little below ResNet-50 to matter. With" in finding(table)
    table = table.copy()
    table.loc[(table["dataset"] == "cifar10") & (table["network"] == "resnet101"), "area"] = 0.3
    table.loc[low, "alignment"] *= 1.5
    assert " %; on CIFAR-10, they do not. With" in finding(table)
    table = table.copy()
    table.loc[before, "area"] = 0.01
    said = "on CIFAR-10, ResNet-50 already starts so low that a further drop cannot be judged."
    assert said in finding(table)
    table = table.copy()
    table.loc[(table["mode"] == "batch") & (table["dataset"] == "cifar10"), "area"] = 0.3
    assert "is shown or " in finding(table)
    assert finding(made_up(resnet101=0.3)).startswith("Deeper networks do not start with less alignment")
    assert finding(made_up(vgg16=0.2, resnet101=0.2)).startswith("One deeper network starts with hardly less")
    assert len(reading.key_numbers(made_up(), PARAMETERS)) == 2
    nothing = pd.DataFrame({"unit": []})
    assert finding(nothing) == "Nothing has finished."


def test_what_the_batchs_statistics_reverse_is_said():
    """With the batch's statistics ResNet-50 drops by 25 %, VGG-16 by 37.5 %."""
    table = made_up(vgg16=0.25, batch=0.5)
    said = "With the batch's own statistics in batch norm, ResNet-50 starts higher than VGG-16 (25 % below"
    assert f"{said} the inputs), and the trend from there on is shown." in finding(table)
    seen = made_up(vgg16=0.25, batch=0.5, first=0)
    assert f"{said} the inputs; not judged)" in finding(seen)
    assert "starts higher" not in finding(made_up())


def test_why_the_headline_is_not_judged_is_said():
    rows = made_up(resnet101=0.15)
    alike = rows["kind"].eq("curve") & rows["network"].eq("resnet101") & rows["seed"].gt(reading.SEEN)
    high = rows["kind"].eq("curve") & rows["network"].eq("resnet50") & rows["seed"].gt(reading.SEEN)
    rows.loc[alike, "alignment"] = rows.loc[high, "alignment"].to_numpy()
    assert claims(rows)["deeper-cifar100"].outcome == NOT_JUDGED
    assert finding(rows).startswith(
        "We do not judge whether deeper networks start with less alignment on CIFAR-100: VGG-16 starts 26 % "
        "below the inputs, ResNet-50 lower still, but the curves of ResNet-50 and ResNet-101 hardly differ "
        "at our thresholds"
    )
    # A step before them that does not hold is not told of.
    made = claims(rows)
    made["step-resnet50-cifar100"] = replace(made["step-resnet50-cifar100"], outcome=UNDECIDED)
    assert "26 % below the inputs, but the curves of ResNet-50" in reading.finding(rows, PARAMETERS, made)
    # Nor is a step blamed whose curves differ in most runs and that is judged.
    made["step-resnet101-cifar100"] = replace(made["step-resnet101-cifar100"], outcome=HOLDS)
    assert " %, but two ways of comparing curves disagree" in reading.finding(rows, PARAMETERS, made)
    assert "but ResNet-50 already starts so low" in finding(made_up(resnet50=0.016, resnet101=0.004))


def test_over_how_many_thresholds_trained_networks_are_above_the_inputs():
    """Curves that cross: above at one of the three thresholds at which they differ."""
    lines = {("lite0", "after"): (1.0, 0.9, 0.1, 0.0), ("inputs", "inputs"): (1.0, 0.5, 0.3, 0.2)}
    rows = [
        {"kind": "curve", "dataset": "cifar10", "seed": 0, "trained": name, "state": state} | one
        for (name, state), line in lines.items()
        for one in ({"threshold": n / 4, "alignment": value} for n, value in enumerate(line))
    ]
    below = [row | {"state": "before", "alignment": 0.0} for row in rows[:4]]
    table = pd.DataFrame(rows + below)
    assert reading.above_inputs(table, "cifar10", "lite0") == "33 %"
    assert reading.above_inputs(table, "cifar10", "lite1") == "–"
    assert reading.above_inputs(table.drop(columns="trained"), "cifar10", "lite0") == "–"
