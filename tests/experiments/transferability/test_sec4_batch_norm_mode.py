"""Maps by what batch norm normalises with, and statements that can come out either way."""

import itertools

import numpy as np
import pandas as pd
import torch
from torch.nn import functional

from alignbook.training.resnet import ResNet
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT
from companion.runs import notebooks, parameters
from companion.statements import judged
from companion.studies.transferability.sec4_batch_norm_mode import experiment, reading
from companion.studies.transferability.sec4_batch_norm_mode.design import MODES
from tests.judging import QUIET

GIVEN = parameters.resolve(notebooks.find("transferability/sec4_batch_norm_mode"), "quick")


def made_up(span, centre):
    """Maps of 3 × 3 points that span so many nats, by mode, around a loss of so many."""
    rng, rows = np.random.default_rng(0), []
    sides = (-0.1, 0.0, 0.1)
    for layers, mode, seed in itertools.product(reading.depths(GIVEN), MODES, range(4)):
        level, height = centre[mode] + 0.01 * rng.random(), span[mode] * (1 + 0.05 * rng.random())
        for alpha, beta in itertools.product(sides, sides):
            rows.append((layers, mode, seed, alpha, beta, level + (alpha + beta) / 0.4 * height))
    table = pd.DataFrame(rows, columns=["layers", "mode", "seed", "alpha", "beta", "loss"])
    return table.assign(start="random")


def outcomes(table):
    found = {}
    for claim in judged(reading.STATEMENTS, table, GIVEN):
        found.setdefault(claim.id.rsplit("-", 1)[0], set()).add(claim.outcome)
    return found


def test_statements_hold_and_fail():
    stale = made_up(
        dict.fromkeys(MODES, 0.01) | {"running": 10.0}, dict.fromkeys(MODES, 4.6) | {"running": 50}
    )
    found = outcomes(stale)
    for id in ("varies-running", "large-running", "rougher", "settled"):
        assert found[id] == {HOLDS}
    assert found["varies-batch"] == {CONTRADICTED} and found["large-batch"] == {NO_EFFECT}
    assert found["bumpy-running"] == found["bumpy-batch"] == {CONTRADICTED}  # a plane
    alike = outcomes(made_up(dict.fromkeys(MODES, 0.01) | {"settled": 1.0}, dict.fromkeys(MODES, 4.6)))
    assert alike["rougher"] == {NO_EFFECT} and alike["settled"] == {CONTRADICTED}


def test_settled_statistics_give_the_loss_of_the_images_own():
    net = ResNet(5, width=4, blocks=1, generator=torch.Generator().manual_seed(0))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    x, y = torch.randn(64, 3, 32, 32, generator=torch.Generator().manual_seed(1)), torch.arange(64) % 5
    table = experiment.planes(net, "stages.1.0.conv1", x, y, 0.1, 3, 0, lambda done, text: None)
    centre = table[(table["alpha"] == 0) & (table["beta"] == 0)].set_index("mode")["loss"]
    assert abs(centre["settled"] - centre["batch"]) < 0.01 < abs(centre["running"] - centre["batch"])
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    with torch.no_grad():
        own = functional.cross_entropy(net.eval()(x), y)
    np.testing.assert_allclose(centre["running"], float(own), rtol=1e-5)


def test_depths_are_numbers_of_convolutions():
    for blocks in (1, 2):
        table = experiment.compute(
            dataset="photos", images=4, radius=0.1, points=3, width=4, blocks=blocks, start="random", seed=0,
            **QUIET,
        )  # fmt: skip
        assert set(table["layers"]) == {6 * blocks + 1} and len(table) == 27
