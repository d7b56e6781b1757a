"""What the public function refuses or rewrites before it measures."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import prune

import alignbook
from alignbook.metrics.tangent_alignment import tangent_alignment as plain
from tests import dense


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
    np.testing.assert_array_equal(alignbook.tangent_alignment(model, *data()), plain(model, *data()))


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
    np.testing.assert_allclose(found, plain(linear, inputs, labels), rtol=1e-9)
    assert type(convolutions[0]) is nn.Conv2d


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(32, 3)

    def forward(self, x):
        return self.layer(torch.relu_(x.sub_(0.1)).flatten(1)).tanh_()


def test_a_network_that_changes_its_input_in_place():
    torch.manual_seed(0)
    model, (inputs, labels) = InPlace().double(), data()
    kept = inputs.clone()
    found = alignbook.tangent_alignment(model, inputs, labels)
    assert torch.equal(inputs, kept)
    np.testing.assert_allclose(found, dense.alignments(model, inputs, labels), rtol=1e-9)


class Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(32, 3), nn.Linear(32, 4)

    def forward(self, x):
        self.unused(x.flatten(1))
        return self.used(x.flatten(1))


def test_a_layer_that_the_outputs_do_not_depend_on_has_no_alignment():
    torch.manual_seed(0)
    model, (inputs, labels) = Unused().double(), data()
    found = alignbook.tangent_alignment(model, inputs, labels)  # in the order of the calls
    assert np.isnan(found[0])
    expected = alignbook.tangent_alignment(nn.Sequential(nn.Flatten(), model.used), inputs, labels)
    np.testing.assert_array_equal(found[1:], expected)


def test_a_constant_sum_of_outputs_hides_nothing():
    torch.manual_seed(0)
    model, (inputs, labels) = flat(nn.Linear(32, 3), nn.Softmax(1)), data()
    found = alignbook.tangent_alignment(model, inputs, labels)
    np.testing.assert_allclose(found, dense.alignments(model, inputs, labels), rtol=1e-9)


class _Columns(nn.Module):
    def __init__(self, kept):
        super().__init__()
        self.kept = kept

    def forward(self, x):
        return x[:, self.kept]


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


class Standardised(nn.Conv2d):
    def forward(self, x):
        weight = (self.weight - self.weight.mean((1, 2, 3), keepdim=True)) / self.weight.std()
        return functional.conv2d(x, weight, self.bias)


class Then(nn.Module):
    """One linear layer, then ``change``, which sees its outputs and the layer."""

    def __init__(self, change):
        super().__init__()
        self.layer, self.change = nn.Linear(32, 3), change

    def forward(self, x):
        return self.change(self.layer(x.flatten(1)), self.layer)


class Gain(Then):
    def __init__(self):
        super().__init__(None)
        self.gain = nn.Parameter(torch.ones(3))


def hooked_gate():
    model = flat(nn.Linear(32, 3))
    model[1].register_forward_hook(lambda module, given, output: output * output.sigmoid())
    return model


def pruned():
    return prune.l1_unstructured(nn.Linear(32, 3), "weight", amount=0.5)


MIXES, MORE, CALLS = (
    "the model mixes examples or their order",
    "does more with its weight",
    "is not called once",
)
REFUSED = [
    (Then(lambda h, _: h - h.mean(0)), MIXES),
    (Then(lambda h, _: h.flip(0)), MIXES),
    (Then(lambda h, _: h + (h.flip(0) - h.flip(0).detach())), MORE),  # only its gradients mix
    (Then(lambda h, _: h.detach()), "outputs have no gradient"),
    (Then(lambda h, _: h[:, 0]), r"one tensor \(n, k\), not .*2.* for 2 examples"),
    (Then(lambda h, _: functional.dropout(h)), "is random"),
    (Then(lambda h, layer: functional.linear(h.sigmoid(), layer.weight.T)[:, :3]), MORE),
    (Then(lambda h, _: (h, h)), r"one tensor \(n, k\), not tuple"),
    (Then(lambda h, _: h / 0), "not finite"),
    (Gain(), r"the model \(Gain\) has parameters \(gain\)"),
    (hooked_gate(), MORE),
    (nn.Sequential(Standardised(2, 3, 4), nn.Flatten()), MORE),
    (flat(pruned()), r"layer 1 \(Linear\) computes its weight"),
    (nn.Sequential(nn.Linear(4, 3), nn.Flatten()), MORE),
    (Functional(True), CALLS),
    (Frozen(), CALLS),
    (Rows(), CALLS),
    (tied(), MORE),
]


@pytest.mark.parametrize(("model", "message"), REFUSED)
def test_what_would_go_wrong_is_refused(model, message):
    torch.manual_seed(1)  # three entries that are dropped twice are the same ones now and then
    model = model.double().train()
    with pytest.raises(ValueError, match=message) as error:
        alignbook.tangent_alignment(model, *data())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (data()[0].numpy(), "inputs must be a floating-point tensor .*, not ndarray"),
        (data()[0].to(torch.uint8), "inputs must be a floating-point tensor .*, not torch.uint8"),
        (data()[0] / 0, "inputs have entries that are not finite"),
    ],
)
def test_bad_inputs(inputs, message):
    with pytest.raises(ValueError, match=message) as error:
        alignbook.tangent_alignment(flat(nn.Linear(32, 3)), inputs, data()[1])
    assert "\n" not in str(error.value)
