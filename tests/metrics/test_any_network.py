"""What the public function refuses or rewrites before it measures."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import alignbook
from alignbook import metrics


def data(n=12, k=3, side=4):
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(n, 2, side, side, generator=generator, dtype=torch.float64)
    return inputs, torch.arange(n) % k


def flat(*layers):
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), *layers).double()


def test_it_is_the_plain_function_where_nothing_is_wrong():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 3))
    model = model.double()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    found = alignbook.tangent_alignment(model, *data())
    np.testing.assert_array_equal(found, metrics.tangent_alignment(model, *data()))
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert all(module.training and not module._forward_hooks for module in model.modules())
    assert alignbook.tangent_alignment.__doc__ == metrics.tangent_alignment.__doc__


@pytest.mark.parametrize("n", [12, 300])  # 300: the route that the plain one would fail on
def test_convolutions_with_one_position_are_linear_layers(n):
    inputs, labels = data(n)
    torch.manual_seed(0)
    first, second = nn.Conv2d(2, 8, 3, padding=1, stride=3, dilation=2), nn.Conv2d(8, 3, 3, padding=1)
    convolutions = nn.Sequential(first, nn.ReLU(), second, nn.Flatten()).double()
    assert convolutions[:3](inputs).shape == (n, 3, 1, 1)
    linear = flat(nn.Linear(32, 8), nn.ReLU(), nn.Linear(8, 3))
    with torch.no_grad():  # what the convolutions see of the image, and of a map of one position
        unit = torch.eye(32, dtype=torch.float64).reshape(32, 2, 4, 4)
        bias = first.bias[:, None, None]
        linear[1].weight.copy_((first(unit) - bias).flatten(1).T)
        linear[1].bias.copy_(first.bias)
        linear[3].weight.copy_(second.weight[:, :, 1, 1])
        linear[3].bias.copy_(second.bias)
    seen = (linear[1].weight != 0).any(0)
    assert seen.sum() < 32  # dilation and padding leave pixels out, which the linear kernel must not count
    linear[1].weight = nn.Parameter(linear[1].weight[:, seen].detach())
    linear[0] = nn.Sequential(nn.Flatten(), _Columns(seen))
    found = alignbook.tangent_alignment(convolutions, inputs, labels)
    np.testing.assert_allclose(found, metrics.tangent_alignment(linear, inputs, labels), rtol=1e-9)
    assert type(convolutions[0]) is nn.Conv2d


class _Columns(nn.Module):
    def __init__(self, kept):
        super().__init__()
        self.kept = kept

    def forward(self, x):
        return x[:, self.kept]


def test_inference_mode_is_no_hindrance():
    model = flat(nn.Linear(32, 5), nn.ReLU(), nn.Linear(5, 3))
    plain = alignbook.tangent_alignment(model, *data())
    with torch.inference_mode():
        np.testing.assert_array_equal(alignbook.tangent_alignment(model, *data()), plain)


class Functional(nn.Module):
    """Its second layer is used by its weight only, or not at all."""

    def __init__(self, use):
        super().__init__()
        self.first, self.second, self.use = nn.Linear(32, 3), nn.Linear(3, 3), use

    def forward(self, x):
        x = self.first(x.flatten(1))
        return functional.linear(x, self.second.weight) if self.use else x


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(32, 3), nn.Linear(3, 3)

    def forward(self, x):
        with torch.no_grad():
            x = self.first(x.flatten(1))
        return self.second(x)


class Rows(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x.reshape(-1, 4)).reshape(len(x), -1, 3).mean(1)


def tied():
    model = flat(nn.Linear(32, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3))
    model[3].weight = model[2].weight
    return model


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Functional(True), "layer second is not called"),
        (Functional(False), "layer second is not called"),
        (Frozen(), "layer first is called without gradients"),
        (Rows(), "16 rows for 2 examples"),
        (tied(), "share one weight"),
        (flat(nn.Linear(32, 3), nn.BatchNorm1d(3, track_running_stats=False)), "layer 2 mixes examples"),
        (nn.Conv1d(1, 2, 3), "model .* is neither"),
    ],
)
def test_what_would_go_wrong_is_refused(model, message):
    with pytest.raises(ValueError, match=message):
        alignbook.tangent_alignment(model.double(), *data())
    assert not any(module._forward_hooks for module in model.modules())


def test_no_examples():
    inputs, labels = data()
    with pytest.raises(ValueError, match="no examples"):
        alignbook.tangent_alignment(flat(nn.Linear(32, 3)), inputs[:0], labels[:0])
