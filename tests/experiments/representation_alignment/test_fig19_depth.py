"""Figure 19: untrained networks against plain code, and statements that come out either way."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from alignbook.metrics import alignment_curve
from alignbook.seeding import torch_stream
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT
from companion.studies.representation_alignment.fig19_depth import experiment, reading
from companion.studies.representation_alignment.shared.two_classes import images
from tests import judging

NAME = "representation_alignment/fig19_depth"
PARAMETERS = judging.given(
    NAME, datasets=["cifar100", "cifar10"], networks=["vgg16", "resnet50", "resnet101"]
)
claims, outcomes = judging.of(reading, PARAMETERS)
PLAIN = {"vgg16": 0.3, "resnet50": 0.2, "resnet101": 0.1, "inputs": 0.4}


@pytest.fixture
def areas(smoke):
    table = smoke(NAME).table
    return table[table["kind"] == "area"]


def drawn(areas):
    """The images and labels of the smoke run."""
    classes = tuple(areas[["first", "second"]].iloc[0].astype(int))
    return images("photos", 20, classes, 0)["train"]


def test_areas_are_those_of_the_last_hidden_layer(areas):
    rows = areas[areas["network"].isin(["inputs", "resnet18"])].set_index(["network", "mode"])
    assert set(rows.index) == {("inputs", "inputs"), ("resnet18", "evaluation"), ("resnet18", "batch")}
    x, y = drawn(areas)
    net = experiment.untrained("resnet18", torch_stream(0, "fig19", "photos", "resnet18"))
    mean, std = (torch.tensor(part).view(3, 1, 1) for part in (experiment.MEAN, experiment.STD))
    with torch.no_grad():
        seen = ((x.float().view(20, 3, 32, 32) + 1) / 2 - mean) / std
        found = {"inputs": x, "resnet18": net(seen).double()}
    for name, features in found.items():
        thresholds, alignment = alignment_curve(features, y)
        area = float((alignment[1:] * np.diff(thresholds)).sum()) / 20**1.5
        assert rows.loc[name, "area"].iloc[0] == pytest.approx(area, rel=1e-4), name


def test_random_features_are_relus_of_the_same_images(areas):
    rows = areas[areas["width"].notna()].set_index("width")
    assert rows["features"].to_dict() == {0: 3072, 8: 8, 64: 64}
    assert rows["area"][0] == pytest.approx(areas[areas["network"] == "inputs"]["area"].item())
    x, y = drawn(areas)
    draw = torch_stream(0, "fig19", "random features", "photos", 8)
    features = (x @ torch.randn(3072, 8, dtype=torch.float64, generator=draw)).clamp(min=0)
    assert rows["area"][8] == pytest.approx(experiment.curve(features, y)[0])
    # Least squares on the rows of length one, with the constant, as everywhere in the chapter.
    assert rows["fitted"][64] == pytest.approx(1) and rows["fitted"][8] < 1


def test_networks_are_drawn_by_the_seed_and_keep_their_statistics():
    one, other = (experiment.untrained("resnet18", torch_stream(seed, "test")) for seed in (1, 2))
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


def made_up(batch=1.0, wide=0.2, after=0.6, **means):
    """Areas of four seeds; ``batch``: how much of the networks' drop is left with the batch's statistics."""
    made, draws = [], np.random.default_rng(0)
    for name, area in (PLAIN | means).items():
        made.append((area, {"network": name, "mode": "inputs" if name == "inputs" else "evaluation"}))
        if name.startswith("resnet"):
            made.append((0.4 - batch * (0.4 - area), {"network": name, "mode": "batch"}))
    made += [(area, {"width": width, "fitted": 1.0}) for width, area in ((0, 0.4), (64, 0.39), (4096, wide))]
    made += [(0.4, {"trained": "inputs", "state": "inputs"}), (0.2, {"trained": "lite0", "state": "before"})]
    made += [(after, {"trained": "lite0", "state": "after"})]
    return pd.DataFrame(
        {"kind": "area", "dataset": dataset, "seed": seed}
        | row
        | {"area": area * (1 + 0.01 * draws.standard_normal())}
        for seed, dataset in product(range(4), PARAMETERS["datasets"])
        for area, row in made
    )


ALL = ("deeper", "factor", "poor", "wide", "after")


@pytest.mark.parametrize(
    ("table", "found"),
    [
        (made_up(resnet50=0.1, resnet101=0.02), dict.fromkeys(ALL, HOLDS)),
        (made_up(vgg16=0.1, resnet50=0.3, resnet101=0.7), dict.fromkeys(ALL[:2], CONTRADICTED)),
        # Little is left to lose in percent, and the factor is the same.
        (made_up(vgg16=0.04, resnet50=0.01, resnet101=0.002), dict(deeper=NO_EFFECT, factor=HOLDS)),
        (made_up(vgg16=0.5, wide=0.6, after=0.2), dict.fromkeys(ALL[2:], CONTRADICTED)),
        (made_up(vgg16=0.4, resnet50=0.39, resnet101=0.385, wide=0.4, after=0.41),
         dict.fromkeys(ALL, NO_EFFECT)),
    ],
)  # fmt: skip
def test_statements_come_out_either_way(table, found):
    made = outcomes(table)
    for id, outcome in found.items():
        assert {made[one] for one in made if one.split("-")[0] == id} == {outcome}, id


def test_the_factor_is_the_least_of_the_steps():
    table = made_up(vgg16=0.32, resnet50=0.16, resnet101=0.02)
    assert claims(table)["factor"].measured == pytest.approx(1, abs=0.05)
    assert claims(table)["deeper"].measured == pytest.approx(100 * 0.14 / 0.4, abs=1.5)
