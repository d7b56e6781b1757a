"""Tangent kernel alignment against float64 Jacobians by automatic differentiation (Lou et al., Eq. 6, 7)."""

import copy
import importlib

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given, settings, strategies as st
from torch import nn

import alignbook
from alignbook.metrics.tangent_alignment import tangent_alignment
from tests import dense

layer_kernel = importlib.import_module("alignbook.kernels.layer_kernel")
linear_kernel = importlib.import_module("alignbook.kernels.linear_kernel")
FUNCTIONS = tangent_alignment, alignbook.tangent_alignment  # for the experiments, and for everyone


def network(widths, bias=False, inplace=False, seed=0):
    """widths: inputs, hidden …, outputs."""
    torch.manual_seed(seed)
    layers = [nn.Flatten()]
    for before, after in zip(widths, widths[1:], strict=False):
        layers += [nn.Linear(before, after, bias=bias), nn.ReLU(inplace=inplace)]
    return nn.Sequential(*layers[:-1]).double()


def case(seed, n, k, side=3):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(n, 1, side, side, generator=generator, dtype=torch.float64)
    return inputs, torch.randint(k, (n,), generator=generator)


@settings(deadline=None, max_examples=50)
@given(
    seed=st.integers(0, 2**20),
    n=st.integers(2, 9),
    k=st.integers(2, 4),
    hidden=st.lists(st.integers(4, 9), max_size=3),
    bias=st.booleans(),
    tile=st.sampled_from([1, 100, 2**19]),
    function=st.sampled_from(FUNCTIONS),
)
@example(seed=10498, n=2, k=2, hidden=[4, 4, 4], bias=True, tile=1, function=FUNCTIONS[0])  # wholly dead
@example(seed=10498, n=2, k=2, hidden=[4, 4, 4], bias=True, tile=1, function=FUNCTIONS[1])
def test_equals_jacobians(seed, n, k, hidden, bias, tile, function):
    model = network([9, *hidden, k], bias=bias, seed=seed)
    inputs, labels = case(seed, n, k)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layer_kernel, "TILE", tile)
        patch.setattr(linear_kernel, "TILE", tile)
        alignment = function(model, inputs, labels)
    assert alignment.dtype == np.float64 and alignment.shape == (len(hidden) + 1,)
    expected = dense.alignments(model, inputs, labels)
    alive = ~np.isnan(alignment)  # a ReLU layer of a small network may be dead, or the whole of it
    assert (alive == np.isfinite(expected)).all()
    assume(np.isfinite(expected).any())
    assert alive.any()
    np.testing.assert_allclose(alignment[alive], expected[alive], rtol=1e-8, atol=1e-12)
    assert (alignment[alive] >= 0).all() and (alignment[alive] <= 1 + 1e-12).all()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_float32_of_deep_networks(function):
    inputs, labels = case(1, 40, 5)
    model = network([9, *[30] * 40, 5], seed=1)
    wide = tangent_alignment(model, inputs, labels)
    narrow = function(copy.deepcopy(model).float(), inputs.float(), labels)
    assert np.isfinite(wide).all()
    np.testing.assert_allclose(narrow, wide, rtol=1e-4)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_scale_drops_out_where_float32_would_underflow(function):
    inputs, labels = case(2, 20, 3)
    model = network([9, 20, 20, 3], seed=2).float()
    plain = function(model, inputs.float(), labels)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 2.0**-40
    np.testing.assert_allclose(function(model, inputs.float(), labels), plain, rtol=1e-6)


def test_perfect_alignment_is_one():
    # One example per class, one-hot, and a linear layer: K = I ⊗ I; centred it is a projection of rank
    # nk - 1, so the alignment is 1/√(nk - 1): the reference value for an isotropic kernel.
    model = nn.Sequential(nn.Linear(3, 3, bias=False)).double()
    labels = torch.arange(3)
    alignment = tangent_alignment(model, torch.eye(3, dtype=torch.float64), labels)
    np.testing.assert_allclose(alignment, [1 / np.sqrt(8)])
    # Two outputs that move in opposite ways, features that are ±1 with the label: rank one along Ỹ.
    model = nn.Sequential(nn.Linear(1, 1, bias=False), Opposite()).double()
    inputs = torch.tensor([[1.0], [-1.0], [1.0]], dtype=torch.float64)
    np.testing.assert_allclose(tangent_alignment(model, inputs, torch.tensor([0, 1, 0])), [1.0])


class Opposite(nn.Module):
    def forward(self, z):
        return torch.cat([z, -z], dim=1)


def test_order_of_examples_and_common_rotation_of_inputs_change_nothing():
    inputs, labels = case(3, 12, 3)
    model = network([9, 8, 8, 3], seed=3)
    plain = tangent_alignment(model, inputs, labels)
    order = torch.randperm(12)
    np.testing.assert_allclose(tangent_alignment(model, inputs[order], labels[order]), plain, rtol=1e-10)
    rotation = torch.linalg.qr(torch.randn(9, 9, dtype=torch.float64))[0]
    with torch.no_grad():
        model[1].weight.copy_(model[1].weight @ rotation.T)
    turned = inputs.flatten(1) @ rotation.T
    np.testing.assert_allclose(tangent_alignment(model, turned, labels), plain, rtol=1e-9)


def test_dead_and_constant_kernels_are_nan():
    inputs, labels = case(5, 10, 3)
    model = network([9, 8, 8, 3], seed=5)
    with torch.no_grad():
        model[3].weight.copy_(-model[3].weight.abs())  # all pre-activations below zero
    assert np.isnan(tangent_alignment(model, inputs, labels)).all()
    # Both outputs move together, and inputs differ by rounding: all entries of the kernel are equal.
    constant = nn.Sequential(nn.Linear(1, 1, bias=False), Together()).double()
    steps, labels = torch.arange(6, dtype=torch.float64)[:, None], torch.arange(6) % 2
    assert np.isnan(tangent_alignment(constant, 1 + 1e-16 * steps, labels)).all()
    assert np.isfinite(tangent_alignment(constant, 1 + 1e-3 * steps, labels)).all()


class Together(nn.Module):
    def forward(self, z):
        return torch.cat([z, z], dim=1)


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.GroupNorm(2, channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, (1, 3), padding=(0, 1)),
        )

    def forward(self, x):
        return x + self.body(x)


def convolutional(k, seed=0):
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, stride=2),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        Residual(4),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 5, 2, dilation=2, padding=1),
        nn.Flatten(),
        nn.LayerNorm(20),
        nn.ReLU(),
        nn.Linear(20, 7),
        nn.Tanh(),
        nn.Linear(7, k),
    ).double()
    with torch.no_grad():
        for module in model.modules():  # normalisation that changes something
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)
    return model


@pytest.mark.parametrize("route", ["grams", "gradients", None])
@pytest.mark.parametrize(("n", "k", "tile", "held"), [(7, 3, 2**19, 2**26), (6, 2, 1, 1), (9, 4, 3000, 5000)])
def test_convolutions_equal_jacobians(route, n, k, tile, held, monkeypatch):
    monkeypatch.setattr(layer_kernel, "TILE", tile)
    monkeypatch.setattr(layer_kernel, "HELD", held)
    monkeypatch.setattr(layer_kernel, "CHUNK", held)
    if route:
        monkeypatch.setattr(layer_kernel.LayerKernel, "route", lambda self: route)
    model = convolutional(k).eval()
    inputs = torch.randn(n, 2, 8, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(n))
    labels = torch.arange(n) % k
    expected = dense.alignments(model, inputs, labels)
    assert len(expected) == 6 and np.isfinite(expected).all() and expected.min() > 1e-6
    np.testing.assert_allclose(tangent_alignment(model, inputs, labels), expected, rtol=1e-9)
    narrow = tangent_alignment(copy.deepcopy(model).float(), inputs.float(), labels)
    np.testing.assert_allclose(narrow, expected, rtol=1e-4)


@pytest.mark.parametrize("strip", [1, 3, 32])
@pytest.mark.parametrize("held", [1, 200, 2**26])
def test_the_routes_agree_on_a_linear_layer(strip, held, monkeypatch):
    monkeypatch.setattr(layer_kernel, "STRIP", strip)
    monkeypatch.setattr(layer_kernel, "HELD", held)
    monkeypatch.setattr(layer_kernel, "TILE", 25)  # several blocks of examples, the last one smaller
    generator = torch.Generator().manual_seed(0)
    h = torch.randn(7, 5, generator=generator, dtype=torch.float64)
    g = torch.randn(4, 7, 8, generator=generator, dtype=torch.float64)
    kernel = torch.einsum("id,jd,aio,bjo->iajb", h, h, g, g)
    layer = layer_kernel.LayerKernel(h, g)
    for route in ("grams", "gradients", "moments"):
        assert layer.squares(route=route) == pytest.approx(float(kernel.square().sum()), rel=1e-12)
        assert layer.squares(torch.float32, route) == pytest.approx(float(kernel.square().sum()), rel=1e-5)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    ("part", "dtype", "rtol"),
    # In the first, ‖CKC‖² is 1e-11 of ‖K‖²: float64 itself leaves nearly as much, by the weights drawn.
    [(3e-3, torch.float64, 2e-5), (1e-2, torch.float64, 1e-6), (3e-2, torch.float32, 1e-3)],
)
def test_a_kernel_close_to_constant_keeps_its_digits(part, dtype, rtol, function):
    inputs, labels = case(7, 30, 3)
    torch.manual_seed(8)
    model = nn.Sequential(nn.Linear(9, 3, bias=False), nn.Linear(3, 3, bias=False)).double()
    with torch.no_grad():  # but for a small part, all outputs move together and all examples are equal
        model[1].weight.copy_(torch.ones(3, 3) + part * model[1].weight)
    near = inputs.flatten(1) * part + 1
    expected = dense.alignments(model, near, labels)
    assert np.isfinite(expected).all()
    alignment = function(model.to(dtype), near.to(dtype), labels)
    np.testing.assert_allclose(alignment, expected, rtol=rtol)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(9, 9)

    def forward(self, x):
        return self.layer(self.layer(x.flatten(1)))


@pytest.mark.parametrize(
    ("model", "labels", "message"),
    [
        (nn.Sequential(nn.Conv1d(1, 2, 3)), None, r"layer 0 \(Conv1d\) is neither"),
        (nn.Sequential(nn.Flatten(), nn.PReLU(), nn.Linear(9, 3)), None, "PReLU"),
        (nn.Sequential(nn.Conv2d(2, 2, 3, groups=2), nn.Flatten()), None, "one group"),
        (nn.Sequential(nn.Conv2d(1, 2, 3, padding="same"), nn.Flatten()), None, "in numbers"),
        (nn.Sequential(nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular")), None, "with zeros"),
        (nn.Sequential(nn.Linear(3, 3), nn.Flatten()), None, "not \\(n, features\\)"),
        (Twice(), None, "more than once"),
        (nn.Flatten(), None, "linear or convolutional"),
        (nn.Sequential(nn.Flatten(), nn.Linear(9, 1)), None, "k ≥ 2"),
        (nn.Sequential(nn.Flatten(), nn.Linear(9, 3)), torch.tensor([0, 1, 2, 3]), "labels"),
        (nn.Sequential(nn.Flatten(), nn.Linear(9, 3)), torch.tensor([0, -1, 2, 0]), "labels"),
    ],
)
def test_bad_input(model, labels, message):
    labels = torch.tensor([0, 1, 0, 1]) if labels is None else labels
    with pytest.raises(ValueError, match=message):
        tangent_alignment(model, torch.randn(4, 1, 3, 3), labels)


@pytest.mark.parametrize(
    "function",
    [
        # A fix would make the results of every study that uses it stale: to go with the next one that does.
        pytest.param(FUNCTIONS[0], marks=pytest.mark.xfail(raises=(RuntimeError, UserWarning), strict=True)),
        FUNCTIONS[1],
    ],
)
def test_a_convolution_to_one_place_with_many_classes(function):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 9, 3), nn.Flatten(), nn.Linear(9, 60)).double()
    inputs, labels = case(0, 20, 60)
    np.testing.assert_allclose(
        function(model, inputs, labels), dense.alignments(model, inputs, labels), rtol=1e-8
    )
