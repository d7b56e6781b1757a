"""Figures 14, 15 and 21: what hidden layers put out, which images are drawn, statements on made-up tables."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.data import load
from alignbook.errors import AlignbookError
from alignbook.training.resnet import ResNet
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT, OPEN
from companion.studies.representation_alignment.fig14_natural_artificial import experiment, reading
from tests import judging

PAIRS = {"natural": ["bird-cat", "cat-deer", "deer-dog"], "artificial": ["airplane-ship", "ship-truck"]}
GAPS = {1: 0.01, 2: 0.02, 3: 0.03, 4: 0.04}  # of the area, over 0.1 from the unlike source
THRESHOLDS = np.array([0.0, 0.1, 0.2, 0.3, 1.0])
FALL = np.array([1.0, 0.8, 0.5, 0.2, 0.0])  # of the curve from the unlike source
TUNED = {"natural": 4.0, "artificial": 2.0}


def made_up(gaps=GAPS, tuned=TUNED, dip=0.0, kinds=(1, 1), noise=0.01):
    """``dip``: of the curves' difference at the third threshold; ``kinds``: factors on the gaps by kind."""
    rng, rows = np.random.default_rng(0), []
    for seed in range(4):
        for part in reading.PARTS:
            for factor, (target, pairs) in zip(kinds, PAIRS.items(), strict=True):
                like = part == target
                about = {"part": part, "target": target, "seed": seed}
                accuracy = 70.0 + tuned[target] * like + 0.1 * rng.standard_normal()
                rows.append(about | {"kind": "accuracy", "accuracy": accuracy})
                for pair in pairs:
                    for layer, gap in gaps.items():
                        gap = factor * gap * (1 + noise * rng.standard_normal()) * like
                        one = about | {"pair": pair, "layer": layer}
                        rows.append(one | {"kind": "area", "area": 0.1 + gap})
                        curve = FALL + gap * np.array([0, 1, 1, 1, 0]) - dip * like * (THRESHOLDS == 0.2)
                        rows += [
                            one | {"kind": "curve", "threshold": t, "alignment": a}
                            for t, a in zip(THRESHOLDS, curve, strict=True)
                        ]
    return pd.DataFrame(rows)


claims, outcomes = judging.of(reading)


def test_what_the_paper_shows_holds():
    found = outcomes(made_up())
    assert set(found.values()) == {HOLDS} and len(found) == 8
    assert claims(made_up())["tuned"].paper == pytest.approx((4.06 + 1.44) / 2)


def test_differences_are_those_computed_by_hand():
    table, by_hand = made_up(), []
    for target, pairs in PAIRS.items():
        rows = table[(table["seed"] == 1) & (table["layer"] == 3) & table["pair"].isin(pairs)]
        means = rows[rows["kind"] == "area"].groupby("part")["area"].mean()
        (other,) = set(reading.PARTS) - {target}
        by_hand.append((means[target] - means[other]) / means[other])
    found = reading.balanced_gaps(table)
    assert list(found.index) == [0, 1, 2, 3] and found.loc[1, 3] == pytest.approx(100 * np.mean(by_hand))
    curve = reading.curve_gaps(table, 3)
    np.testing.assert_allclose(curve.loc[1, [0.0, 0.1, 1.0]], [0, 0.1 * np.mean(by_hand), 0], atol=1e-12)


def test_a_source_that_is_better_for_every_target_cancels_out():
    table = made_up(kinds=(1, -1))
    assert claims(table)["higher-layer4"].measured == pytest.approx(0, abs=0.5)
    assert outcomes(table)["higher-layer4"] == NO_EFFECT and outcomes(table)["either"] == CONTRADICTED


@pytest.mark.parametrize(
    ("table", "outcome", "ids"),
    [
        (made_up(gaps={layer: -gap for layer, gap in GAPS.items()}), CONTRADICTED,
         ["higher-layer1", "higher-layer4", "either", "everywhere", "later"]),
        (made_up(gaps=dict.fromkeys(GAPS, 0.001)), NO_EFFECT, ["higher-layer1", "either", "later"]),
        (made_up(gaps={1: 0.01, 2: 0.06, 3: 0.04, 4: 0.03}), CONTRADICTED, ["later"]),
        # The first convolution is none of the paper's layers: its gap moves no statement on stages.
        (made_up(gaps={1: 0.09, 2: 0.02, 3: 0.03, 4: 0.04}), HOLDS, ["later", "higher-layer1"]),
        (made_up(tuned={"natural": -3.0, "artificial": -2.0}), CONTRADICTED, ["tuned"]),
        (made_up(tuned={"natural": -3.0, "artificial": 5.0}), HOLDS, ["tuned"]),
        (made_up(dip=0.1), CONTRADICTED, ["everywhere"]),
        (made_up(dip=0.1), HOLDS, ["higher-layer1"]),
        (made_up(noise=5.0), OPEN, ["higher-layer1"]),
    ],
)  # fmt: skip
def test_what_the_paper_does_not_show_is_told(table, outcome, ids):
    found = outcomes(table)
    assert {id: found[id] for id in ids} == dict.fromkeys(ids, outcome)


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
    assert not torch.equal(found, experiment.drawn("photos", "cat", 6, 4).flatten(1))
    with pytest.raises(AlignbookError, match="200 training images of cat, not 201"):
        experiment.drawn("photos", "cat", 201, 0)
