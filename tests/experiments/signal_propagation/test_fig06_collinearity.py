"""Figure 6: the correlation against autograd and NumPy, where it stops, verdicts on made-up tables."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn import functional

from alignbook.claims import CONTRADICTED, HOLDS, NOT_RUN, UNDECIDED
from alignbook.errors import AlignbookError
from alignbook.experiments.signal_propagation import dense
from alignbook.experiments.signal_propagation import fig06_collinearity as experiment
from alignbook.runs import notebooks, parameters
from alignbook.training.deep import ResNet18

PARAMETERS = {"datasets": ["mnist"], "conv_networks": ["vgg19"], "conv_dataset": "cifar10"}
PARAMETERS |= {"conv_width": 8, "conv_images": 12800, "batch_size": 128}


def made_up(values, aligned=(0.1, 0.2, 0.5, 0.5), network="dense", dataset="mnist", seeds=3):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "network": network, "dataset": dataset, "seed": seed, "step": step, "epoch": step / 10,
            "collinearity": value + 1e-3 * rng.standard_normal(), "constant": 1.0, "alignment": height,
            "loss": 2 - step / 10, "accuracy": step / 20,
        }
        for seed in range(seeds)
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


def test_steps_hold_the_ends():
    for per_epoch, epochs in ((1, 1), (3, 2), (469, 2)):
        steps = experiment.steps_to_look_at(per_epoch, epochs)
        assert (
            steps == sorted(set(steps)) and {0, per_epoch} <= set(steps) and steps[-1] == per_epoch * epochs
        )


def test_summary_of_a_curve():
    rows = experiment.summary(made_up((1.0, 0.95, 0.8, 0.5)), "dense", "mnist").mean()
    assert rows["epoch"] == pytest.approx(((1 + 0.95) / 2 + (0.95 + 0.8) / 2) / 2, abs=2e-3)
    assert rows["end"] == pytest.approx(0.8, abs=2e-3) == rows["lowest"]
    assert rows["left"] == 10 and rows["left_accuracy"] == 0.5 and rows["left_loss"] == 1
    assert rows["rise"] == pytest.approx(0.8, abs=2e-3)  # the alignment reaches 0.3 between steps 5 and 10
    flat = experiment.summary(made_up((1, 1, 1, 1), aligned=(0.5, 0.4, 0.3, 0.2)), "dense", "mnist")
    assert flat["rise"].isna().all() and flat["left"].isna().all()


@pytest.mark.parametrize(
    ("values", "outcome"), [((1, 0.99, 0.97, 0.5), HOLDS), ((0.9, 0.6, 0.4, 0.3), CONTRADICTED)]
)
def test_claims_come_out_either_way(values, outcome):
    made = experiment.claims(made_up(values), PARAMETERS)
    outcomes = {c.id: c.outcome for c in made}
    assert (
        outcomes["epoch-dense-mnist"]
        == outcomes["end-dense-mnist"]
        == outcomes["rise-dense-mnist"]
        == outcome
    )
    assert outcomes["epoch-vgg19-cifar10"] == NOT_RUN
    assert {c.ours for c in made if c.id.startswith(("end", "rise"))} == {True}
    said = experiment.finding(made_up(values), PARAMETERS)
    assert "fully connected, MNIST" in said and said.endswith("width 8 of 64, 100 of 390 steps an epoch.")
    full = PARAMETERS | {"conv_width": 64, "conv_images": 0}
    assert "of 64" not in experiment.finding(made_up(values), full)
    assert len(experiment.key_numbers(made_up(values), PARAMETERS)) == 1


def test_one_seed_decides_nothing():
    made = experiment.claims(made_up((1, 1, 1, 1), seeds=1), PARAMETERS)
    assert {c.outcome for c in made} == {UNDECIDED, NOT_RUN}


def test_units_and_refusals():
    book = notebooks.find("signal_propagation/fig06_collinearity")
    made = experiment.units(parameters.resolve(book, "smoke"))
    table = experiment.compute(**made[0].arguments, device=torch.device("cpu"), report=lambda *_: None)
    assert list(table["step"])[:2] == [0, 1] and table["collinearity"].between(-1, 1).all()
    assert table["alignment"].notna().all() and table["epoch"].iloc[-1] == made[0].arguments["epochs"]
    with pytest.raises(AlignbookError, match="conv_networks"):
        parameters.resolve(book, "quick", {"conv_networks": ["vgg16"]})
