"""Largest Hessian eigenvalues against eigh of the dense float64 Hessian (torch.func.jacrev twice)."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector

from alignbook.metrics import hessian_eigenvalues
from tests import dense
from tests.memory import Largest

cross_entropy = nn.functional.cross_entropy


def reference(model, loss, inputs, targets, k):
    return dense.largest(torch.linalg.eigvalsh(dense.hessian(model, loss, inputs, targets)), k)


def mlp(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Flatten(), nn.Linear(8, 7), nn.ReLU(), nn.Linear(7, 5), nn.Tanh(), nn.Linear(5, 4)
    ).double()


def case(n, shape=(8,), seed=0):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(n, *shape, generator=generator, dtype=torch.float64)
    return inputs, torch.randint(4, (n,), generator=generator)


@pytest.mark.parametrize("k", [1, 2, 20, 100])
@pytest.mark.parametrize("n", [1, 5, 33])
def test_fully_connected(n, k):
    model, (inputs, targets) = mlp(), case(n)
    result = hessian_eigenvalues(model, cross_entropy, inputs, targets, k=k, tol=1e-7)
    expected = reference(model, cross_entropy, inputs, targets, k)
    assert result.converged and result.eigenvalues.dtype == result.residuals.dtype == np.float64
    np.testing.assert_allclose(np.abs(result.eigenvalues), np.abs(expected), rtol=1e-6, atol=1e-10)
    assert (expected < 0).any() or k < 20  # negative curvature is among them
    h = dense.hessian(model, cross_entropy, inputs, targets)
    vectors = result.eigenvectors
    actual = (vectors @ h - torch.tensor(result.eigenvalues)[:, None] * vectors).norm(dim=1).numpy()
    assert (actual <= 2 * result.residuals + 1e-14).all()
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(k), atol=1e-9)


def test_default_tolerance_bounds_the_error():
    model, (inputs, targets) = mlp(), case(33)
    result = hessian_eigenvalues(model, cross_entropy, inputs, targets, k=10)
    expected = reference(model, cross_entropy, inputs, targets, 10)
    assert (result.residuals <= 1.1e-3 * np.abs(result.eigenvalues)).all()
    assert (np.abs(result.eigenvalues - expected) <= result.residuals).all()


def test_one_batch_takes_the_loss_as_it_is_and_several_refuse_a_sum():
    def total(outputs, targets):
        return cross_entropy(outputs, targets, reduction="sum")

    model, (inputs, targets) = mlp(), case(33)
    result = hessian_eigenvalues(model, total, inputs, targets, k=6, tol=1e-8)
    expected = reference(model, cross_entropy, inputs, targets, 6)
    np.testing.assert_allclose(result.eigenvalues, 33 * expected, rtol=1e-7)
    with pytest.raises(ValueError, match="mean"):
        hessian_eigenvalues(model, total, inputs, targets, k=6, batch_size=10)


def test_no_tensor_grows_with_the_number_of_batches():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 100), nn.Tanh(), nn.Linear(100, 4)).double()
    largest = []
    for n in (20, 80):
        inputs, targets = case(n, (1,))
        with Largest(inputs, targets) as seen:
            hessian_eigenvalues(
                model, cross_entropy, inputs, targets, k=2, batch_size=20, basis=12, max_products=14
            )
        largest.append(seen.bytes)
    assert largest[0] == largest[1] < 8 * 80 * 100


def test_a_saddle_with_more_negative_curvature():
    def flipped(outputs, targets):
        return -cross_entropy(outputs, targets)

    model, (inputs, targets) = mlp(), case(12)
    plain = hessian_eigenvalues(model, cross_entropy, inputs, targets, k=6, tol=1e-8)
    turned = hessian_eigenvalues(model, flipped, inputs, targets, k=6, tol=1e-8)
    np.testing.assert_allclose(turned.eigenvalues, -plain.eigenvalues, rtol=1e-9)
    assert turned.eigenvalues[0] < 0


def test_squared_error_of_a_linear_model_repeats_every_eigenvalue():
    inputs, _ = case(30)
    targets = torch.randn(30, 3, dtype=torch.float64)
    model = nn.Linear(8, 3, bias=False).double()  # H = I ⊗ 2 XᵀX / 90
    result = hessian_eigenvalues(model, nn.functional.mse_loss, inputs, targets, k=9, tol=1e-8)
    single = np.linalg.eigvalsh((inputs.T @ inputs).numpy() * 2 / 90)[::-1]
    np.testing.assert_allclose(result.eigenvalues, np.repeat(single[:3], 3), rtol=1e-9)


def test_float32_and_a_fresh_seed_agree_with_float64():
    model, (inputs, targets) = mlp(), case(33)
    wide = hessian_eigenvalues(model, cross_entropy, inputs, targets, k=8, tol=1e-8)
    narrow = hessian_eigenvalues(
        copy.deepcopy(model).float(), cross_entropy, inputs.float(), targets, k=8, seed=7
    )
    assert narrow.eigenvectors.dtype == torch.float32 and narrow.converged
    np.testing.assert_allclose(narrow.eigenvalues, wide.eigenvalues, rtol=1e-4)
    assert (np.abs(narrow.eigenvalues - wide.eigenvalues) <= narrow.residuals).all()


def test_too_few_products_are_reported():
    model, (inputs, targets) = mlp(), case(33)
    result = hessian_eigenvalues(model, cross_entropy, inputs, targets, k=10, tol=1e-9, max_products=11)
    assert not result.converged and result.residuals.max() > 1e-9
    values = np.linalg.eigvalsh(dense.hessian(model, cross_entropy, inputs, targets))
    gaps = np.abs(result.eigenvalues[:, None] - values).min(1)
    assert (gaps <= result.residuals + 1e-12).all()  # the norms are true all the same


def frozen():
    return mlp().requires_grad_(False)


def weighted(outputs, targets):
    """A mean, but not the plain one: classes count differently."""
    return cross_entropy(outputs, targets, weight=torch.arange(1.0, 1 + outputs.shape[1]).to(outputs))


def partly_ignored(outputs, targets):
    """The mean over other labels than 0, which only the last example of the case has."""
    return cross_entropy(outputs, targets, ignore_index=0)


def mixing():
    return mlp().insert(2, nn.BatchNorm1d(7, track_running_stats=False, dtype=torch.float64))


def at_zero():
    """Every example has the same loss, so that values alone do not tell a weighted mean from a plain one."""
    model = mlp()
    nn.init.zeros_(model[-1].weight)
    nn.init.zeros_(model[-1].bias)
    return model


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.TransformerEncoderLayer(4, 2, dim_feedforward=4, batch_first=True)
        self.head = nn.Linear(4, 4)

    def forward(self, x):
        return self.head(self.block(x).mean(1))


def test_attention():
    torch.manual_seed(0)
    model, (inputs, targets) = Attention().double().eval(), case(6, (3, 4))
    result = hessian_eigenvalues(model, cross_entropy, inputs, targets, k=4, tol=1e-8)
    # Row by row: jacrev twice gives another matrix here, by half a per cent.
    parameters = list(model.parameters())
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        loss = cross_entropy(model(inputs), targets)
    gradient = parameters_to_vector(torch.autograd.grad(loss, parameters, create_graph=True))
    rows = [torch.autograd.grad(entry, parameters, retain_graph=True) for entry in gradient]
    values = torch.linalg.eigvalsh(torch.stack([parameters_to_vector(row) for row in rows]))
    np.testing.assert_allclose(result.eigenvalues, dense.largest(values, 4), rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0}, "k must be an integer from 1 on, not 0"),
        ({"k": 127}, "below the 127 parameters"),
        ({"model": frozen()}, "no parameter"),
        ({"loss": lambda o, t: cross_entropy(o, t, reduction="none")}, "scalar"),
        ({"loss": lambda o, t: cross_entropy(o, t) * float("inf")}, "loss is inf"),
        ({"loss": lambda o, t: cross_entropy(o.detach(), t)}, "does not depend"),
        ({"loss": lambda o, t: (o - o).abs().sqrt().mean()}, "gradient has entries"),
        ({"loss": partly_ignored, "batch_size": 5}, "mean over examples"),
        ({"loss": weighted, "batch_size": 3}, "plain mean over examples"),
        ({"inputs": case(4)[0]}, "4 inputs, 10 targets"),
        ({"model": mixing(), "batch_size": 3}, "must not be random nor mix examples"),
        ({"model": at_zero(), "loss": weighted, "batch_size": 3}, "plain mean over examples"),
        ({"basis": 14, "k": 5}, "at least k"),
        ({"max_products": 5, "k": 5}, "above k"),
        ({"tol": 0.0}, "tol"),
    ],
)
def test_bad_input(change, message):
    inputs, targets = case(10)
    arguments = {"model": mlp(), "loss": cross_entropy, "inputs": inputs, "targets": targets} | change
    with pytest.raises(ValueError, match=message):
        hessian_eigenvalues(**arguments)
