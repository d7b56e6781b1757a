"""Maps by what batch norm normalises with, and statements that can come out either way."""

import numpy as np
import torch
from torch.nn import functional

from alignbook.training.resnet import ResNet
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT
from companion.studies.transferability.sec4_batch_norm_mode import experiment, reading
from companion.studies.transferability.sec4_batch_norm_mode.design import MODES
from tests import judging

GIVEN = judging.given("transferability/sec4_batch_norm_mode", "quick")
_, outcomes = judging.of(reading, GIVEN)
SMALL, GUESSING = dict.fromkeys(MODES, 0.01), dict.fromkeys(MODES, 4.6)


def maps(span, centre):
    """Maps of 3 × 3 points that span so many nats, by mode, around a loss of so many."""
    sides = [-0.1, 0.0, 0.1]
    return judging.rows(
        start="random",
        layers=reading.depths(GIVEN),
        mode=list(MODES),
        seed=range(4),
        alpha=sides,
        beta=sides,
        tilt=lambda row: (row.alpha + row.beta) / 0.4 * (1 + row.seed / (50 + len(row.mode))),
        loss=lambda row: centre[row.mode] + row.seed / 100 + span[row.mode] * row.tilt,
    )


def test_statements_hold_and_fail():
    claims = outcomes(maps(SMALL | {"running": 10.0}, GUESSING | {"running": 50}))
    assert claims["varies-running"] == claims["large-running"] == claims["settled-49"] == HOLDS
    assert claims["varies-batch"] == claims["bumpy-batch"] == claims["bumpy-running"] == CONTRADICTED
    assert claims["large-batch"] == NO_EFFECT
    assert outcomes(maps(SMALL | {"settled": 1.0}, GUESSING))["settled-50"] == CONTRADICTED


def test_a_statement_about_two_networks_is_about_the_one_that_shows_it_less():
    table = maps(SMALL | {"running": 10.0}, GUESSING)
    table.loc[table["layers"] == reading.RESNET50, "loss"] = maps(SMALL, GUESSING)["loss"]
    assert outcomes(table)["varies-running"] == CONTRADICTED


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
