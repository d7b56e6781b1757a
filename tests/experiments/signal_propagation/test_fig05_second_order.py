"""Figure 5: Hessian products against autograd's, where first order is exact, verdicts on made-up tables."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.kernels.mlp_sgd import MLP
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT
from companion.studies.signal_propagation.fig05_second_order import experiment, reading
from companion.studies.signal_propagation.shared import tangent_step
from companion.studies.signal_propagation.shared.dense import centred_labels, error_signal
from tests import judging

PARAMETERS = {"layers": [1, 2, 3], "epochs_at": [0, 1, 4], "examples": 6, "more_examples": 9}
X = torch.randn(6, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
Y = torch.tensor([0, 3, 9, 9, 1, 5])


def network(depth=3, width=5):
    generator = torch.Generator().manual_seed(2)
    return MLP(7, width, depth, 10, generator, dtype=torch.float64).sequential()


def features(net, v):
    """Ψv and the matrix H_v, from the formula of the network and autograd's own second derivatives."""
    shapes = [p.shape for p in net.parameters()]

    def total(theta):
        h = X
        for shape, part in zip(shapes, tangent_step.split(net, theta), strict=True):
            z = h @ part.view(shape).T
            h = z.clamp(min=0)
        return (z * v).sum()

    theta = tangent_step.flat(net)
    by_theta = torch.autograd.functional
    return by_theta.jacobian(total, theta), by_theta.hessian(total, theta)


def test_row_against_matrices():
    net, rate = network(), 1e-3
    with torch.no_grad():
        w = error_signal(net(X), Y)
    centred = centred_labels(Y).double()
    (label, by_label), (descent, by_w) = (features(net, v) for v in (centred, w))
    row, given, change, predicted = tangent_step.second_order(net, X, Y, rate)
    torch.testing.assert_close(given, label)
    torch.testing.assert_close(predicted, -by_w @ label)
    assert row["swapped"] == pytest.approx(tangent_step.cosine(by_label @ descent, by_w @ label), abs=1e-9)
    assert row["gradients"] == pytest.approx(-tangent_step.cosine(descent, label), abs=1e-9)
    assert row["theorem_a"] < 1e-12
    theta = tangent_step.flat(net)
    moved = tangent_step.put(network(), theta - rate * descent)
    torch.testing.assert_close(change, features(moved, centred)[0] - label)
    torch.testing.assert_close(tangent_step.flat(net), theta)  # left as it was


def test_first_order_is_exact_without_switching():
    net = network(depth=4, width=9)
    row, *_ = tangent_step.second_order(net, X, Y, 1e-5)
    assert row["relus_held"] == pytest.approx(1, abs=1e-4)
    fixed, before = tangent_step.held(net, X), net(X)
    torch.testing.assert_close(fixed(X), before)
    with torch.no_grad():
        net[0].weight.mul_(-1)
        torch.testing.assert_close(fixed(X), -before)  # linear in each layer, whatever its weights' signs


def test_spectrum_is_that_of_the_matrix():
    net = network().float()
    with torch.no_grad():
        w = error_signal(net(X.float()), Y)
    _, matrix = features(net.double(), w.double())
    values, vectors = np.linalg.eigh(matrix.numpy())
    order = np.argsort(-np.abs(values))[:3]
    change = torch.randn(len(values), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows = experiment.spectrum(net.float(), X.float(), Y, 3, change, change)
    assert [abs(row["eigenvalue"]) for row in rows[:3]] == pytest.approx(np.abs(values[order]), rel=1e-3)
    assert [row["index"] for row in rows[:3]] == [1, 2, 3]
    squares = [sum(row[f"energy_{layer}"] ** 2 for layer in (1, 2, 3)) for row in rows[:3]]
    assert squares == pytest.approx([1, 1, 1], abs=1e-4)
    assert rows[3]["predicted"] == pytest.approx(1) and rows[3]["converged"] == 1


def made_up(predicted=0.9, energies=(0.2, 0.8, 0.3), symmetric=True, seeds=6):
    rng = np.random.default_rng(0)
    rows = []
    for seed in range(seeds):
        for epoch in (0.0, 0.5, 1.0, 4.0):
            noise = 1e-2 * rng.standard_normal(4)
            row = {"epoch": epoch, "seed": seed}
            cosines = dict.fromkeys(("predicted", "first_order", "swapped"), predicted + noise[0])
            rows += [row | {"kind": kind, **cosines} for kind in ("step", "more")]
            for index in range(1, 11):
                sign = (-1) ** index if symmetric or index > 8 + seed % 3 else 1
                energy = {
                    f"energy_{n}": value * (0.5 if epoch == 0 else 1) + noise[n]
                    for n, value in enumerate(energies, start=1)
                }
                pair = {"kind": "pair", "index": index, "eigenvalue": sign * (15.0 - index // 2 + noise[0])}
                rows.append(row | pair | energy)
    return pd.DataFrame(rows)


_, outcomes = judging.of(reading, PARAMETERS)


def test_claims_come_out_either_way():
    assert set(outcomes(made_up()).values()) == {HOLDS}
    table = made_up(predicted=0.1, energies=(0.9, 0.2, 0.3), symmetric=False)
    table.loc[(table["epoch"] == 0) & (table["kind"] == "pair"), "energy_2"] = 0.7 + 0.01 * table["seed"]
    table["eigenvalue"] *= 2
    assert set(outcomes(table).values()) == {CONTRADICTED}
    assert outcomes(made_up(predicted=reading.HIGH))["first-order"] == NO_EFFECT  # just at the threshold


def test_how_near_the_shortest_steps_come_is_a_maximum_over_the_first_epoch():
    table = made_up(predicted=-0.1)
    table.loc[(table["kind"] == "step") & (table["epoch"] == 0.5), "swapped"] = 0.85
    table.loc[table["epoch"] == 4, "swapped"] = 0.95  # not in the first epoch
    assert reading.best(table, PARAMETERS, "step") == pytest.approx(0.85)


def test_early_is_a_mean_over_the_first_epoch():
    table = pd.DataFrame({"kind": "step", "seed": 0, "epoch": [0, 0.5, 1, 4], "predicted": [0, 1, 1, 9]})
    assert reading.early(table, "predicted")[0] == pytest.approx(0.75)
    alone = table[table["epoch"] == 0].assign(predicted=0.3)
    assert reading.early(alone, "predicted").empty  # one step has no mean over an epoch
