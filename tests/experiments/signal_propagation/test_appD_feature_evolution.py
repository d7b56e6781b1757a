"""Appendix D: traces and steps against matrices, verdicts on made-up tables."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.kernels.mlp_sgd import MLP
from alignbook.metrics.tangent_alignment import tangent_alignment
from companion.claims import CONTRADICTED, HOLDS
from companion.studies.signal_propagation.appD_feature_evolution import experiment, reading
from companion.studies.signal_propagation.shared import tangent_step
from companion.studies.signal_propagation.shared.dense import centred_labels, error_signal
from tests import judging

PARAMETERS = {"learning_rate": 0.003, "shorter": [1.0, 10000.0], "examples": 256}
X = torch.randn(12, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
Y = torch.arange(12) % 10


def network(depth=3, width=4):
    return MLP(5, width, depth, 10, torch.Generator().manual_seed(2), dtype=torch.float64).sequential()


def hessian(net, v):
    product = tangent_step.product(net, X, v)
    return torch.stack([product(e) for e in torch.eye(product.size, dtype=torch.float64)])


def test_traces_are_those_of_the_matrix():
    net = network()
    with torch.no_grad():
        w = error_signal(net(X), Y)
    matrix = hessian(net, w)
    torch.manual_seed(0)
    ratios, vectors, signs = experiment.moments(net.float(), X.float(), Y, 8, 300, 0)
    sizes = [p.numel() for p in net.parameters()]
    powers = [
        torch.stack([part.sum() for part in torch.linalg.matrix_power(matrix, m).diagonal().split(sizes)])
        for m in (2, 3, 4)
    ]
    third, fourth = powers[1] / powers[0], powers[2] / powers[0]
    assert ((ratios[0] - third).abs() < 4 * ratios[2] + 1e-3).all()
    torch.testing.assert_close(ratios[1], fourth, rtol=0.1, atol=0)
    of_vectors = (vectors @ matrix * vectors).sum(1)
    assert (of_vectors.sign() == signs).all() and vectors.shape == (8, sum(sizes))


def test_steps_against_formulas():
    net, rate = network(), 1e-7
    others = {kind: experiment.orthogonal(Y, kind, 3, 0) for kind in experiment.KINDS}
    target = centred_labels(Y).double()
    for u in torch.cat(list(others.values())):
        assert abs(float((u * target).sum())) < 1e-9 and float(u.norm()) == pytest.approx(
            float(target.norm())
        )
    traces = torch.tensor([[1.0, 2, 3], [4, 5, 6], [0, 0, 0]], dtype=torch.float64)
    theta = tangent_step.flat(net)
    *rows, ((_, before, after),) = experiment.evolution(net, X, Y, others, [rate], traces)
    torch.testing.assert_close(tangent_step.flat(net), theta)  # left as it was
    with torch.no_grad():
        w = error_signal(net(X), Y)
    descent = tangent_step.gradient(net, X, w)
    torch.testing.assert_close(after - before, -rate * hessian(net, target) @ descent, rtol=1e-3, atol=1e-12)
    step = rows[1]
    for kind, several in others.items():
        lengths = [float((hessian(net, u) @ descent).square().sum()) for u in several]
        expected = np.sqrt(np.mean(lengths)) / float((hessian(net, target) @ descent).norm())
        assert step[f"moved_{kind}"] == pytest.approx(expected, rel=1e-3)
    layers = pd.DataFrame(rows[2:])
    assert layers["by_25"].tolist() == pytest.approx([-2 * rate * n for n in (1, 2, 3)], rel=1e-5)
    moved = experiment.squares(net, before - rate * hessian(net, w) @ before) / experiment.squares(
        net, before
    )
    assert layers["by_23"].tolist() == pytest.approx(moved - 1, rel=1e-5)
    tangent_step.put(net, theta - rate * descent)
    grown = tangent_alignment(net, X, Y) / layers["alignment"] - 1
    assert layers["growth"].tolist() == pytest.approx(grown.tolist())


def made_up(right=1, moved=0.02, grown=0.01, gain=1):
    """Networks in which Equation 25 and the signs of Equation 10 are right (1) or the other way (-1)."""
    rng, rows = np.random.default_rng(0), []
    for seed, step in itertools.product(range(7), (0, 1, 20, 100)):
        here, wobble = {"seed": seed, "step": step, "epoch": step / 100}, 1 + 0.01 * rng.standard_normal()
        kept, moves = 2 ** (grown * step / 100 * wobble), moved + 0.01 * rng.random()
        rows.append(here | {"kind": "state", "random": kept, "shuffled": kept})
        for rate in reading.rates(PARAMETERS):
            rows.append(here | {"kind": "step", "rate": rate, "moved_random": moves, "moved_shuffled": moves})
            for layer in range(1, 7):
                row = {"growth": rate * (1 + 0.1 * layer), "by_25": right * rate * (1 + 0.1 * layer) * wobble}
                rows.append(here | {"kind": "layer", "rate": rate, "layer": layer, **row})
            for sign in (-1, 1):
                row = {"old": 1.0, "new": 1 - 2 * rate * gain * sign * wobble}
                rows.append(here | {"kind": "pair", "rate": rate, "sign": sign, **row})
    return pd.DataFrame(rows)


claims, outcomes = judging.of(reading, PARAMETERS)


def test_claims_come_out_either_way():
    assert set(outcomes(made_up()).values()) == {HOLDS}
    assert set(outcomes(made_up(-1, moved=0.9, grown=0.8, gain=-1)).values()) == {CONTRADICTED}


def test_one_step_in_which_a_relu_switched_does_not_decide_the_median():
    table = made_up()
    odd = (table["kind"] == "pair") & (table["step"] == 20)
    table.loc[odd, "new"] -= 1e-2 * table["sign"] * -1 * (1 + table["seed"] % 3)
    claim = claims(table)["signs"]
    assert claim.outcome == HOLDS and claim.measured == pytest.approx(1, abs=0.05)
