"""Statistics change without weights; what each arm loses; statements come out either way."""

import itertools

import pandas as pd
import pytest
import torch
from torch import nn

from companion.claims import HOLDS, NO_EFFECT
from companion.studies.representation_alignment.sec7_stale_statistics import design, experiment, reading
from tests import judging

CPU = torch.device("cpu")


def test_statistics_are_those_of_the_images_and_no_weight_changes():
    net = experiment.base_network("random", 32, 0, CPU)
    x = torch.rand(100, 3, 32, 32) + 1
    found = experiment.with_statistics(net, x)
    norm = next(part for part in found.modules() if isinstance(part, nn.BatchNorm2d))
    torch.testing.assert_close(norm.running_mean, found.stem(x).mean((0, 2, 3)), rtol=1e-3, atol=1e-4)
    for name, value in net.named_parameters():
        torch.testing.assert_close(found.get_parameter(name), value)
    assert not found.training and not torch.equal(norm.running_mean, net.norm.running_mean)


def test_the_probe_does_not_depend_on_scale_or_shift():
    draw = torch.Generator().manual_seed(0)
    y = torch.arange(200) % 10
    features = nn.functional.one_hot(y, 10).double() + 0.1 * torch.randn(200, 10, generator=draw).double()
    assert experiment.probe(features, y, 100) > 95
    assert experiment.probe(1000 * features + 7, y, 100) == experiment.probe(features, y, 100)
    assert experiment.probe(features, y[torch.randperm(200, generator=draw)], 100) < 50


def table(kept, alone, fair, probe=0.0):
    """Runs in which the arms lose these percentages of the area, and labels so many points of the probe."""
    areas = {
        (design.NONE, design.KEPT): 0, (design.NONE, design.TARGET): 0,
        (design.STATISTICS, design.KEPT): alone, (design.LABELS, design.KEPT): kept,
        (design.LABELS, design.TARGET): fair,
    }  # fmt: skip
    tables = []
    for start, target in itertools.permutations(design.DOMAINS, 2):
        for (arm, statistics), lost in areas.items():
            moved = 0.1 * (arm != design.NONE)
            tables.append(
                judging.rows(
                    kind="measured", seed=range(4), start=start, target=target, arm=arm,
                    statistics=statistics,
                    area=lambda row, lost=lost, moved=moved: 1 - (lost + moved * row.seed) / 100,
                    probe=lambda row: 80 - (row.arm == design.LABELS) * (probe + 0.1 * row.seed),
                )
            )  # fmt: skip
    return pd.concat(tables)


_, outcomes = judging.of(reading)


def test_statistics_explain_the_loss():
    found = outcomes(table(kept=40, alone=35, fair=0))
    assert found["kept"] == found["statistics"] == HOLDS
    assert found["fair"] == found["probe"] == NO_EFFECT


def test_labels_explain_the_loss():
    found = outcomes(table(kept=40, alone=0, fair=40, probe=10))
    assert found["fair"] == found["probe"] == HOLDS
    assert found["statistics"] == NO_EFFECT


def test_a_loss_is_a_percentage_of_the_area_before():
    assert pytest.approx(40.15) == reading.loss(design.LABELS, design.KEPT)(table(40, 0, 0), {}).mean()
