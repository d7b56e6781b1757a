"""Figure 5: Hessian products against autograd's, where first order is exact, verdicts on made-up tables."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from alignbook.claims import CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN
from alignbook.errors import AlignbookError
from alignbook.experiments.signal_propagation import fig05_second_order as experiment
from alignbook.experiments.signal_propagation.dense import centred_labels, error_signal
from alignbook.kernels.mlp_sgd import MLP
from alignbook.runs import notebooks, parameters

PARAMETERS = {
    "dataset": "cifar10", "layers": [1, 2, 3], "epochs_at": [0, 1, 4], "more_examples": 9, "eigenvalues": 4,
}  # fmt: skip
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
        for shape, part in zip(shapes, experiment.split(net, theta), strict=True):
            z = h @ part.view(shape).T
            h = z.clamp(min=0)
        return (z * v).sum()

    theta = experiment.flat(net)
    by_theta = torch.autograd.functional
    return by_theta.jacobian(total, theta), by_theta.hessian(total, theta)


def test_row_against_matrices():
    net, rate = network(), 1e-3
    with torch.no_grad():
        w = error_signal(net(X), Y)
    centred = centred_labels(Y).double()
    (label, by_label), (descent, by_w) = (features(net, v) for v in (centred, w))
    row, given, change, predicted = experiment.second_order(net, X, Y, rate)
    torch.testing.assert_close(given, label)
    torch.testing.assert_close(predicted, -by_w @ label)
    assert row["swapped"] == pytest.approx(experiment.cosine(by_label @ descent, by_w @ label), abs=1e-9)
    assert row["gradients"] == pytest.approx(-experiment.cosine(descent, label), abs=1e-9)
    assert row["theorem_a"] < 1e-12
    theta = experiment.flat(net)
    moved = experiment.put(network(), theta - rate * descent)
    torch.testing.assert_close(change, features(moved, centred)[0] - label)
    torch.testing.assert_close(experiment.flat(net), theta)  # left as it was


def test_first_order_is_exact_without_switching():
    net = network(depth=4, width=9)
    row, *_ = experiment.second_order(net, X, Y, 1e-5)
    assert row["relus_held"] == pytest.approx(1, abs=1e-4)
    fixed = experiment.held(net, X)
    torch.testing.assert_close(fixed(X), net(X))
    # Held, the network is linear in each layer, also where the weights change their signs.
    last = net[-1].weight.detach().clone()
    with torch.no_grad():
        net[0].weight.mul_(-1)
        torch.testing.assert_close(fixed(X), -experiment.held(network(depth=4, width=9), X)(X))
        assert not torch.allclose(fixed(X), net(X))
    assert torch.equal(last, net[-1].weight)


def test_theorem_fails_with_a_bias():
    net = nn.Sequential(nn.Linear(7, 5), nn.ReLU(), nn.Linear(5, 10)).double()
    error = experiment.product(net, X, w := error_signal(net(X).detach(), Y))(experiment.flat(net))
    assert (error - experiment.gradient(net, X, w)).norm() > 1e-3


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


def made_up(predicted=0.9, energies=(0.2, 0.8, 0.3), symmetric=True, seeds=3):
    rng = np.random.default_rng(0)
    rows = []
    for seed in range(seeds):
        for epoch in (0.0, 0.5, 1.0, 4.0):
            noise = 1e-2 * rng.standard_normal(4)
            cosines = dict.fromkeys(
                ("predicted", "first_order", "swapped", "gradients", "taken", "relus_held"),
                predicted + noise[0],
            )
            step = cosines | {"collinearity": 0.95, "theorem_a": 1e-15, "epoch": epoch, "seed": seed}
            rows += [{"kind": kind, **step} for kind in ("step", "more", "top")]
            for index in range(1, 11):
                sign = (-1) ** index if symmetric or index > 8 + seed else 1
                energy = {
                    f"energy_{n}": value * (0.5 if epoch == 0 else 1) + noise[n]
                    for n, value in enumerate(energies, start=1)
                }
                rows.append(
                    {
                        "kind": "pair",
                        "index": index,
                        "eigenvalue": sign * (15.0 - index // 2 + noise[0]),
                        "epoch": epoch,
                        "seed": seed,
                    }
                    | energy
                )
    return pd.DataFrame(rows)


def outcomes(table):
    return {c.id: c.outcome for c in experiment.claims(table, PARAMETERS)}


def test_claims_hold():
    judged = outcomes(made_up())
    assert {judged.pop(f"largest-{epoch}") for epoch in (0, 1, 4)} == {NOT_JUDGED}
    assert set(judged.values()) == {HOLDS} and len(judged) == 10


def test_claims_disagree():
    table = made_up(predicted=0.1, energies=(0.9, 0.2, 0.3), symmetric=False)
    table.loc[table["epoch"] == 0, "energy_2"] = 0.7 + 0.01 * table["seed"]
    table.loc[table["kind"] == "step", "theorem_a"] = 1e-3
    judged = outcomes(table)
    assert {judged.pop(f"largest-{epoch}") for epoch in (0, 1, 4)} == {NOT_JUDGED}
    assert set(judged.values()) == {CONTRADICTED}


def test_early_is_a_mean_over_the_first_epoch():
    table = pd.DataFrame({"kind": "step", "seed": 0, "epoch": [0, 0.5, 1, 4], "predicted": [0, 1, 1, 9]})
    assert experiment.early(table, "predicted")[0] == pytest.approx(0.75)
    alone = table[table["epoch"] == 0].assign(predicted=0.3)
    assert experiment.early(alone, "predicted")[0] == 0.3


def test_the_ends_of_the_spectrum():
    table = made_up(symmetric=False)
    pairs = table[(table["kind"] == "pair") & (table["epoch"] == 1)]
    both = [experiment.most(table, 1, sign) for sign in (1, -1)]
    pd.testing.assert_series_equal(both[0], pairs.groupby("seed")["eigenvalue"].max(), check_names=False)
    assert (both[1] == -pairs.groupby("seed")["eigenvalue"].min()).all()
    assert experiment.most(pd.DataFrame({"unit": []}), 1).empty


def test_sizes_of_eigenvalues_end_at_zero():
    table = made_up()
    table.loc[table["seed"] == 0, "eigenvalue"] *= 30
    (claim,) = (c for c in experiment.claims(table, PARAMETERS) if c.id == "largest-1")
    assert claim.interval[0] == 0 and claim.interval[1] > claim.measured
    assert "(0 to " in experiment.key_numbers(table, PARAMETERS)[1].here


def test_of_nothing_nothing_is_said():
    assert set(outcomes(pd.DataFrame({"unit": []})).values()) == {NOT_RUN}
    said = experiment.finding(made_up(), PARAMETERS)
    assert "0.80 in layer 2" in said and "cosine 0.9" in said
    assert len(experiment.key_numbers(made_up(), PARAMETERS)) == 3


def test_units_and_refusals():
    book = notebooks.find("signal_propagation/fig05_second_order")
    values = parameters.resolve(book, "smoke", {"epochs_at": [0, 1], "eigenvalues": 4, "train_images": 128})
    unit = experiment.units(values)[0]
    table = experiment.compute(**unit.arguments, device=torch.device("cpu"), report=lambda *_: None)
    steps = table[table["kind"] == "step"]
    assert list(steps["step"]) == sorted(steps["step"]) and steps["taken"].isna().sum() == 1
    assert (steps["theorem_a"] < 1e-8).all() and steps["relus_held"].iloc[0] > 0.9
    assert len(table[table["kind"] == "pair"]) == 8
    with pytest.raises(AlignbookError, match="dataset"):
        parameters.resolve(book, "quick", {"dataset": "photos"})
