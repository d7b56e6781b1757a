"""Figure 6: the correlation against autograd and NumPy, where it stops, verdicts on made-up tables."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn import functional

from alignbook.training.deep import ResNet18
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT
from companion.studies.signal_propagation.fig06_collinearity import experiment, reading
from companion.studies.signal_propagation.shared import dense
from tests import judging

PARAMETERS = {"datasets": ["mnist"], "conv_networks": ["vgg19"], "conv_dataset": "cifar10"}


def made_up(values, aligned=(0.1, 0.2, 0.5, 0.5)):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "network": "dense", "dataset": "mnist", "seed": seed, "step": step, "epoch": step / 10,
            "collinearity": value + 1e-3 * rng.standard_normal(), "alignment": height, "accuracy": step / 20,
        }
        for seed in range(3)
        for step, value, height in zip((0, 5, 10, 20), values, aligned, strict=True)
    )  # fmt: skip


def test_error_signal_is_the_gradient_and_its_correlation_pearsons():
    generator = torch.Generator().manual_seed(0)
    logits = (2 * torch.randn(7, 5, generator=generator)).double().requires_grad_(True)
    y = torch.tensor([0, 1, 4, 4, 2, 0, 3])
    (gradient,) = torch.autograd.grad(functional.cross_entropy(logits, y), logits)
    w = dense.error_signal(logits.detach(), y)
    torch.testing.assert_close(w, gradient)
    centred = dense.centred_labels(y, 5).double()
    expected = -np.corrcoef(centred.numpy().ravel(), w.numpy().ravel())[0, 1]
    assert experiment.collinearity(logits.detach(), y) == pytest.approx(expected, rel=1e-6)


def test_closed_forms():
    y = torch.arange(40) % 10
    assert experiment.collinearity(torch.zeros(40, 10), y) == pytest.approx(1)
    sure = torch.zeros(40, 10)
    sure[:30] = 50.0 * functional.one_hot(y[:30], 10)  # three quarters learned, a quarter undecided
    assert experiment.collinearity(sure, y) == pytest.approx(0.5, abs=1e-4)
    p = torch.linspace(0.05, 0.15, 10)  # the same prediction for all, classes balanced
    expected = 0.9 / np.sqrt(0.9 * (1 - 0.2 + float(p.square().sum())))
    assert experiment.collinearity(p.log().expand(40, 10), y) == pytest.approx(expected, rel=1e-5)


def test_measuring_leaves_batch_normalisation_alone():
    torch.manual_seed(0)
    net = ResNet18((3, 9, 9), 10, width=8).eval()
    x = torch.randn(5, 3, 9, 9)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    with torch.no_grad():
        outputs = experiment.in_training(net, x, 3)
        assert not net.training
        assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
        net.train()
        expected = torch.cat([net(x[:3]), net(x[3:])])
    torch.testing.assert_close(outputs, expected)


def test_summary_of_a_curve():
    rows = reading.summary(made_up((1.0, 0.95, 0.8, 0.5)), "dense", "mnist").mean()
    assert rows["epoch"] == pytest.approx(((1 + 0.95) / 2 + (0.95 + 0.8) / 2) / 2, abs=2e-3)
    assert rows["left"] == 10 and rows["left_accuracy"] == 0.5
    assert rows["rise"] == pytest.approx(0.8, abs=2e-3)  # the alignment reaches 0.3 between steps 5 and 10
    flat = reading.summary(made_up((1, 1, 1, 1), aligned=(0.5, 0.4, 0.3, 0.2)), "dense", "mnist")
    assert flat["rise"].isna().all() and flat["left"].isna().all()


claims, outcomes = judging.of(reading, PARAMETERS)


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ((1, 0.99, 0.97, 0.5), HOLDS),
        ((0.9, 0.6, 0.4, 0.3), CONTRADICTED),
        ((0.9, 0.9, 0.9, 0.9), NO_EFFECT),
    ],
)
def test_claims_come_out_either_way(values, outcome):
    found = outcomes(made_up(values))
    assert found["epoch-dense-mnist"] == found["rise"] == outcome


def test_at_initialisation_networks_that_are_not_trained_decide():
    """Where there are any, the trained ones do not enter."""
    trained = made_up((0.5, 0.9, 0.9, 0.9))
    assert claims(trained)["initial-dense"].outcome == CONTRADICTED
    alone = judging.rows(
        network="dense", dataset="mnist", seed=range(3, 9), initial=lambda row: 0.97 + 0.001 * row.seed
    )
    claim = claims(pd.concat([trained, alone], ignore_index=True))["initial-dense"]
    assert claim.outcome == HOLDS and claim.seeds == 6
    assert claim.measured == pytest.approx(0.97 + 0.0055)
