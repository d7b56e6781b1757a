"""Which layers are handed on; statements come out either way."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.training.nets import SimpleCNN
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT
from companion.studies.random_labels.sec3_later_layers import design, experiment, reading
from tests import judging

PARAMETERS = judging.given("random_labels/sec3_later_layers")
SCALES = [0.5, 1.0, 2.0, 4.0]


def network():
    return SimpleCNN((3, 8, 8), [4, 4], 6, 3)


@pytest.mark.parametrize(
    ("start", "same"),
    [
        (design.SCRATCH, []), (design.FIRST, ["convs.0"]), (design.EARLY, ["convs.0", "convs.1"]),
        (design.LATE, ["dense"]), (design.ALL, ["convs.0", "convs.1", "dense"]),
    ],
)  # fmt: skip
def test_only_the_named_layers_are_handed_on(start, same):
    torch.manual_seed(0)
    net, source = network(), network()
    experiment.hand_on_(net, source, start)
    for name in ("convs.0", "convs.1", "dense", "head"):
        equal = torch.equal(net.get_submodule(name).weight, source.get_submodule(name).weight)
        assert equal == (name in same), name


def test_units_that_are_never_active_are_dead():
    net, x = network(), torch.rand(10, 3, 8, 8)
    with torch.no_grad():
        net.dense.weight.zero_()
        net.dense.bias.copy_(torch.tensor([1.0, -1.0, 1.0, -1.0, -1.0, 0.0]))
    assert experiment.dead(net, x) == pytest.approx(4 / 6)


def table(slopes, known=1.0):
    """Runs in which a start gains ``slope`` times −log2 of the scale, in points."""

    def accuracy(row):
        gain = -slopes.get(row.start, 0.0) * (np.log2(row.init_scale) - 0.5)
        return 0.5 + (gain + 0.01 * [*design.STARTS].index(row.start) * row.seed) / 100

    jobs = {"seed": range(5), "init_scale": SCALES}
    upstream = judging.rows(**jobs, start="upstream", epoch=9, accuracy=known)
    curves = judging.rows(
        **jobs, labels=[*design.KINDS], start=[*design.STARTS], epoch=[0, 1], accuracy=accuracy
    )
    return pd.concat([upstream, curves])


_, outcomes = judging.of(reading)


def test_later_layers_hurt():
    found = outcomes(table({design.LATE: 8, design.ALL: 8}))
    assert found["late"] == found["early"] == found["turns"] == HOLDS
    assert found["first"] == NO_EFFECT
    scales = reading.crossing(design.ALL)(table({design.ALL: 8}), PARAMETERS)
    assert scales.to_numpy() == pytest.approx(np.full(5, 2**0.5), rel=0.05)


def test_early_layers_hurt():
    found = outcomes(table({design.EARLY: 8, design.ALL: 4}))
    assert found["late"] == NO_EFFECT and found["early"] == CONTRADICTED


def test_runs_that_have_not_learned_do_not_count():
    assert reading.gains(table({}, known=0.5)).empty
