"""Figures 14, 15 and 21: what hidden layers put out, which images are drawn, statements on made-up tables."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED
from alignbook.data import load
from alignbook.errors import AlignbookError
from alignbook.runs import notebooks, parameters
from alignbook.studies.representation_alignment.fig14_natural_artificial import experiment, reading
from alignbook.training.resnet import ResNet
from tests import judging

BOOK = notebooks.find("representation_alignment/fig14_natural_artificial")
PARAMETERS = parameters.resolve(BOOK, "quick")
PAIRS = {"natural": ["bird-cat", "cat-deer", "deer-dog"], "artificial": ["airplane-ship", "ship-truck"]}
GAPS = {1: 0.01, 2: 0.02, 3: 0.03, 4: 0.04}  # of the area, over 0.1 from the unlike source
THRESHOLDS = np.array([0.0, 0.1, 0.2, 0.3, 1.0])
FALL = np.array([1.0, 0.8, 0.5, 0.2, 0.0])  # of the curve from the unlike source
TUNED = {"natural": 4.0, "artificial": 2.0}
SEEN = reading.SEEN


def made_up(gaps=GAPS, tuned=TUNED, source=40.0, seeds=4, dip=0.0, kinds=(1, 1), noise=0.01, first=SEEN):
    """``dip``: of the curves' difference at the third threshold; ``kinds``: factors on the gaps by kind.

    first : the first seed; by default none had been seen.
    """
    rng, rows = np.random.default_rng(0), []
    for seed in range(first, first + seeds):
        for part in reading.PARTS:
            rows.append({"kind": "source", "part": part, "seed": seed, "accuracy": source})
            for factor, (target, pairs) in zip(kinds, PAIRS.items(), strict=True):
                like = part == target
                about = {"part": part, "target": target, "seed": seed}
                accuracy = 70.0 + tuned[target] * like + 0.1 * rng.standard_normal()
                rows.append(about | {"kind": "accuracy", "accuracy": accuracy, "train_accuracy": 90.0})
                for pair in pairs:
                    for layer, gap in gaps.items():
                        gap = factor * gap * (1 + noise * rng.standard_normal()) * like
                        one = about | {"pair": pair, "layer": layer}
                        rows.append(one | {"kind": "area", "area": 0.1 + gap, "features": 8})
                        curve = FALL + gap * np.array([0, 1, 1, 1, 0]) - dip * like * (THRESHOLDS == 0.2)
                        rows += [
                            one | {"kind": "curve", "threshold": t, "alignment": a}
                            for t, a in zip(THRESHOLDS, curve, strict=True)
                        ]
    return pd.DataFrame(rows)


claims, outcomes, finding = judging.of(reading, PARAMETERS)
EITHER = [f"either-kind-{case.id}" for case in reading.EARLIER]


def test_what_the_paper_shows_holds():
    table = made_up()
    assert set(outcomes(table).values()) == {HOLDS} and len(outcomes(table)) == 18
    assert {id for id, claim in claims(table).items() if claim.ours} == {"higher-layer1", "everywhere-layer1"}
    assert claims(table)["tuned-natural"].paper == pytest.approx(4.06)
    assert claims(table)["tuned-artificial"].paper == pytest.approx(1.44)
    said = finding(table)
    assert "better in all three stages of the network, most in the last (by 40 % in area); accuracy" in said
    assert "accuracy after fine-tuning is higher on both kinds" in said
    keys = reading.key_numbers(table, PARAMETERS)
    assert keys[0].here.startswith("+40") and keys[1].here[:2] in ("+4", "+3")
    shown = reading.accuracy_table(table)
    assert shown.loc["from natural", "natural: ResNet18"] == "94.55"
    assert shown.loc["from artificial", "artificial: T2T-ViT"] == "92.80"
    assert shown.loc["from natural", "natural: here"].startswith("74.")


def test_differences_are_those_computed_by_hand():
    table = made_up()
    found = reading.area_gaps(table)
    assert list(found.index) == list(table["seed"].unique())
    by_hand = []
    for target, pairs in PAIRS.items():
        for pair in pairs:
            rows = table[(table["seed"] == SEEN + 1) & (table["layer"] == 3) & (table["pair"] == pair)]
            rows = rows[rows["kind"] == "area"].set_index("part")["area"]
            (other,) = set(reading.PARTS) - {target}
            by_hand.append(rows[target] - rows[other])
    assert found.loc[SEEN + 1, 3] == pytest.approx(100 * np.mean(by_hand) / 0.1)
    curve = reading.curve_gaps(table, 3)
    np.testing.assert_allclose(curve.loc[SEEN + 1, [0.0, 0.1, 1.0]], [0, np.mean(by_hand), 0], atol=1e-12)


def test_percentages_are_of_the_area_in_the_same_layer_with_the_same_targets():
    table = made_up()
    alone = reading.area_gaps(table, target="natural")
    for scaled in ({"layer": 4}, {"layer": 2}, {"target": "artificial"}):
        other = table.copy()
        other.loc[(other[list(scaled)] == pd.Series(scaled)).all(axis=1), "area"] *= 3
        pd.testing.assert_frame_equal(reading.area_gaps(other, target="natural"), alone)
        if "layer" in scaled:
            pd.testing.assert_frame_equal(reading.area_gaps(other), reading.area_gaps(table))


def test_a_run_without_one_source_is_left_out():
    table = made_up()
    table = table[(table["seed"] > SEEN) | (table["part"] == "natural")]
    assert list(reading.area_gaps(table).index) == [SEEN + 1, SEEN + 2, SEEN + 3]
    assert claims(table)["tuned-natural"].seeds == 3
    assert outcomes(table)["higher-layer4"] == HOLDS


@pytest.mark.parametrize(
    ("table", "outcome", "ids"),
    [
        (made_up(gaps={layer: -gap for layer, gap in GAPS.items()}), CONTRADICTED,
         ["higher-layer1", "higher-layer4", "everywhere-layer1", "later", "both-kinds-natural"]),
        (made_up(gaps=dict.fromkeys(GAPS, 0.001)), ABSENT, ["higher-layer1", "higher-layer4", "later"]),
        (made_up(gaps={1: 0.01, 2: 0.04, 3: 0.03, 4: 0.06}), CONTRADICTED, ["each-later"]),
        (made_up(gaps={1: 0.01, 2: 0.06, 3: 0.04, 4: 0.03}), CONTRADICTED, ["later", "each-later"]),
        # The first convolution is none of the paper's layers: its gap moves no statement of theirs.
        (made_up(gaps={1: 0.09, 2: 0.02, 3: 0.03, 4: 0.04}), HOLDS, ["later", "each-later", "higher-layer1"]),
        (made_up(tuned={"natural": -3.0, "artificial": -2.0}), CONTRADICTED,
         ["tuned-natural", "tuned-artificial"]),
        (made_up(dip=0.1), CONTRADICTED, ["everywhere-layer1", "everywhere-layer4"]),
        # One source is better for every target: of the two kinds, one falls.
        (made_up(kinds=(1, -1)), CONTRADICTED, ["both-kinds-artificial", *EITHER[1::2]]),
        (made_up(kinds=(1, -1)), HOLDS, ["both-kinds-natural", *EITHER[::2]]),
        (made_up(kinds=(1, 0.01)), ABSENT, ["both-kinds-artificial", *EITHER[1::2]]),
        # What was chosen after these seeds had been seen waits for others.
        (made_up(first=SEEN - 1, seeds=3), NOT_JUDGED, ["each-later", *EITHER]),
        (made_up(first=SEEN - 1, seeds=3), HOLDS, ["later", "higher-layer2", "both-kinds-natural"]),
        (made_up(source=20.0), NOT_JUDGED,
         ["higher-layer1", "everywhere-layer1", "later", "tuned-natural", "each-later", *EITHER]),
        (made_up(noise=5.0), UNDECIDED, ["higher-layer1"]),
    ],
)  # fmt: skip
def test_what_the_paper_does_not_show_is_told(table, outcome, ids):
    found = outcomes(table)
    assert {id: found[id] for id in ids} == dict.fromkeys(ids, outcome)


def test_a_dip_that_is_no_fault_of_the_area_is_seen_by_the_thresholds_alone():
    found = outcomes(made_up(dip=0.1))
    assert found["higher-layer1"] == HOLDS and found["everywhere-layer1"] == CONTRADICTED
    made = claims(made_up())
    turned = {f"everywhere-{case.id}": UNDECIDED for case in reading.OVER_STAGES[:1]}
    turned = made | {id: replace(made[id], outcome=one) for id, one in turned.items()}
    said = reading.finding(made_up(), PARAMETERS, turned)
    assert "better in all three stages (at all thresholds in stages 2 and 3), most in the last (by" in said


def test_the_finding_tells_layers_and_targets_apart():
    table = made_up(gaps={1: -0.02, 2: 0.001, 3: -0.02, 4: 0.04}, tuned={"natural": 3.0, "artificial": 0.01})
    said = finding(table)
    assert "in stage 3 (by 40 % in the last), worse in stage 2, no better in stage 1; " in said
    assert "layer" not in said
    assert "fine-tuned accuracy is no higher on artificial classes; on natural ones it is higher." in said


def test_the_finding_is_short_under_every_outcome(monkeypatch):
    table = made_up()
    made, gaps = claims(table), reading.area_gaps(table)
    monkeypatch.setattr(reading, "area_gaps", lambda table: gaps)  # once, not for every outcome
    verdicts = (HOLDS, CONTRADICTED, ABSENT, UNDECIDED, NOT_JUDGED)
    turning = [*(f"higher-{case.id}" for case in reading.OVER_STAGES), "tuned-natural", "tuned-artificial"]
    for found in product(verdicts, repeat=len(turning)):
        turned = dict(zip(turning, found, strict=True))
        turned = made | {id: replace(made[id], outcome=one) for id, one in turned.items()}
        said = reading.finding(table, PARAMETERS, turned)
        assert said.endswith(".") and len(said) <= 300, said


def test_of_nothing_nothing_is_said():
    nothing = pd.DataFrame({"unit": []})
    assert finding(nothing) == "No run has finished."


def test_hidden_layers_are_what_the_network_computes():
    net = ResNet(3, width=2, generator=torch.Generator().manual_seed(0)).eval()
    x = torch.randn(5, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    found = experiment.hidden(net, x, "cpu")
    assert [part.shape for part in found] == [(5, 512), (5, 512), (5, 256), (5, 128)]
    with torch.no_grad():
        logits = net.head(found[-1].unflatten(1, (8, 16)).mean(2))  # 4×4 places of 8 channels
        stem = net.norm(net.stem(x)).relu()
        torch.testing.assert_close(logits, net(x))
    torch.testing.assert_close(found[0], stem.flatten(1))


def test_images_are_of_their_class_and_both_sources_see_the_same():
    images = load("photos")
    cats = images.x[images.y == images.classes.index("cat")].flatten(1)
    found = experiment.drawn("photos", "cat", 6, 3).flatten(1)
    assert (found[:, None] == cats).all(2).any(1).all() and len(found.unique(dim=0)) == 6
    torch.testing.assert_close(found, experiment.drawn("photos", "cat", 6, 3).flatten(1))
    assert not torch.equal(found, experiment.drawn("photos", "cat", 6, 4).flatten(1))
    with pytest.raises(AlignbookError, match="200 training images of cat, not 201"):
        experiment.drawn("photos", "cat", 201, 0)


def test_jobs_share_all_but_their_source():
    found = experiment.jobs(parameters.resolve(BOOK, "smoke"))
    assert [job.name for job in found] == [f"{p}-seed{s}" for s in range(2) for p in reading.PARTS]
    first, second = (job.arguments for job in found[:2])
    assert {key for key in first if first[key] != second[key]} == {"part"}


def test_a_run_measures_every_pair_and_both_targets():
    smoke = parameters.resolve(BOOK, "smoke") | {"points": 4, "examples": 8, "tune_batch_size": 16}
    job = experiment.jobs(smoke)[0]
    table = job.compute(**job.arguments, device="cpu", report=lambda done, text: None)
    areas = table[table["kind"] == "area"]
    assert len(areas) == 2 * 10 * 4 and areas["area"].between(0, 1).all()
    tops = table[(table["kind"] == "curve") & (table["threshold"] == 0)]
    assert len(tops) == len(areas)  # more features than images: these span all labels
    np.testing.assert_allclose(tops["alignment"], 1, atol=1e-5)
    accuracy = table[table["kind"] == "accuracy"].set_index("target")
    assert set(accuracy.index) == set(reading.PARTS) and accuracy["accuracy"].between(0, 100).all()
    assert (table["kind"] == "source").sum() == 1
