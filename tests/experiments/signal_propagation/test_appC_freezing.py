"""Appendix C: steps and kernels against Jacobians, verdicts on made-up tables."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from alignbook.kernels.mlp_sgd import MLP
from alignbook.metrics.tangent_alignment import tangent_alignment
from companion.claims import CONTRADICTED, HOLDS
from companion.studies.signal_propagation.appC_freezing import experiment, reading
from companion.studies.signal_propagation.shared.dense import centred_labels, error_signal
from tests import judging

PARAMETERS = {"datasets": ["mnist"]}
X = torch.randn(20, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
Y = torch.arange(20) % 10


def network(depth=3, width=6):
    return MLP(7, width, depth, 10, torch.Generator().manual_seed(2), dtype=torch.float64).sequential()


def kernels(net):
    """K_l as matrices (nk, nk), from autograd's Jacobians."""
    names = [name for name, _ in net.named_parameters()]
    weights = tuple(p.detach() for p in net.parameters())

    def outputs(*weights):
        return torch.func.functional_call(net, dict(zip(names, weights, strict=True)), X).flatten()

    jacobians = torch.autograd.functional.jacobian(outputs, weights)
    return [j.flatten(1) @ j.flatten(1).T for j in jacobians]


def test_steps_against_kernels():
    net, rate = network(), 1e-4
    rows = experiment.first_steps(net, X, Y, rate)
    w, labels = error_signal(net(X).detach(), Y).flatten(), centred_labels(Y).double().flatten()
    aligned = tangent_alignment(net, X, Y)
    centring = torch.eye(200, dtype=torch.float64) - 1 / 200
    changes = list(experiment.changes(net, X, Y, rate))
    for kernel, row, (actual, first_order, by_labels), a in zip(
        kernels(net), rows, changes, aligned, strict=True
    ):
        torch.testing.assert_close(first_order.flatten(), -rate * kernel @ w)
        torch.testing.assert_close(by_labels.flatten(), rate / 20 * kernel @ labels)
        assert row["trace"] == pytest.approx(float(kernel.trace()))
        assert row["share"] == pytest.approx(float(labels @ kernel @ labels))
        norm = float((centring @ kernel @ centring).norm())
        assert row["share"] == pytest.approx(a * norm * float(labels @ labels), rel=1e-6)
        assert row["error"] < 0.05 and row["norm"] == pytest.approx(float(actual.norm()))
        assert row["bound"] == pytest.approx(row["norm"] / (rate / 20 * row["trace"] * float(labels.norm())))
        assert row["summed"] == pytest.approx(1, abs=0.05)
        mean = actual.mean(0, keepdim=True).expand_as(actual)
        assert row["common"] == pytest.approx(float((mean.norm() / actual.norm()) ** 2))
    assert rows[-1]["error"] < 1e-8  # the last layer is linear


def test_one_layer_alone():
    net = network().float()
    before = [p.clone() for p in net.parameters()]
    x = X.float()
    drop, change = experiment.alone(net, 1, x, Y, 0.05, 0.9, 2)
    assert all(torch.equal(p, kept) for p, kept in zip(net.parameters(), before, strict=True))
    twin, velocity = network().float(), 0
    for _ in range(2):
        (gradient,) = torch.autograd.grad(functional.cross_entropy(twin(x), Y), [twin[2].weight])
        velocity = 0.9 * velocity + gradient
        with torch.no_grad():
            twin[2].weight.sub_(0.05 * velocity)
    with torch.no_grad():
        losses = [float(functional.cross_entropy(n(x), Y)) for n in (net, twin)]
        assert drop == pytest.approx(losses[0] - losses[1], rel=1e-4) and drop > 0
        assert change == pytest.approx(float((twin(x) - net(x)).square().mean().sqrt()), rel=1e-4)


def made_up(sign=1, cosine=0.97, gained=1.0):
    """Networks whose alignment differs at every layer, and columns that rise (1) or fall (-1) with it."""
    return judging.rows(
        0.004,
        dataset="mnist",
        seed=range(8),
        layer=range(1, 7),
        start=[0, 1, "mean"],
        kind=lambda row: "mean" if row.start == "mean" else "layer",
        alignment=lambda row: 0.1 * (7 - row.layer) + row.noise,
        norm=lambda row: 1 + sign * row.alignment + 1e-4 * (row.seed % 3),
        drop=lambda row: row.norm,
        share=lambda row: 1 + row.alignment,
        cosine=lambda row: cosine + 1e-3 * row.seed,
        gained=lambda row: gained * (1 + row.noise),
    )


claims, outcomes = judging.of(reading, PARAMETERS)


def test_claims_come_out_either_way():
    assert set(outcomes(made_up()).values()) == {HOLDS}
    assert set(outcomes(made_up(-1, cosine=0.2, gained=0.5)).values()) == {CONTRADICTED}


def test_correlations_within_a_layer_know_nothing_of_the_profile():
    """Alignment falls over the layers and so does the change; at a fixed layer they run apart."""
    table = made_up(-1)
    table["norm"] += 100.0 * (7 - table["layer"])
    claim = claims(table)["controls-mnist"]
    assert claim.outcome == CONTRADICTED and claim.what == "layer" and claim.seeds == 6
    assert reading.between("alignment", "norm")(table, PARAMETERS, "mnist").min() == 1.0
    layer = table[(table["kind"] == "layer") & (table["start"] == 0) & (table["layer"] == 3)]
    plain = np.corrcoef(layer["alignment"], layer["norm"])[0, 1]
    assert reading.within("alignment", "norm")(table, PARAMETERS, "mnist")[3] == pytest.approx(plain)
