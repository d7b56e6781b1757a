import pytest
import torch

from alignbook.training.nets import SimpleCNN, he_normal_
from alignbook.training.transfer import copy_convolutions_, layer_norms, layers_of, rescale_


def network(seed, bias=0.0):
    net = he_normal_(SimpleCNN((3, 6, 6), [4, 5], 8, 3), 1.0, torch.Generator().manual_seed(seed))
    for layer in layers_of(net):
        torch.nn.init.constant_(layer.bias, bias)
    return net


def test_norm_is_that_of_weights_and_biases_together():
    net = network(0, bias=0.5)
    for layer, norm in zip(layers_of(net), layer_norms(net), strict=True):
        both = torch.cat([layer.weight.flatten(), layer.bias])
        assert norm == pytest.approx(both.norm().item(), rel=1e-5)


def test_rescaling_restores_the_norms_and_keeps_each_layers_direction():
    net, before = network(0, bias=0.5), layer_norms(network(1))
    weights = [layer.weight.detach().clone() for layer in layers_of(net)]
    rescale_(net, before)
    assert layer_norms(net) == pytest.approx(before)
    for old, layer in zip(weights, layers_of(net), strict=True):
        factor = (layer.weight / old).flatten()
        assert factor.min() > 0
        assert torch.allclose(factor, factor[0].expand_as(factor), rtol=1e-4)


@pytest.mark.parametrize(("bias", "same"), [(0.0, True), (0.5, False)])
def test_predictions_survive_rescaling_only_without_biases(bias, same):
    """A.4 says that rescaling never changes predictions; with biases it does."""
    x = torch.randn(500, 3, 6, 6, generator=torch.Generator().manual_seed(2))
    net = network(0, bias)
    before = net(x).argmax(1)
    rescale_(net, [3.0, 0.5, 2.0, 1.0])
    assert torch.equal(net(x).argmax(1), before) is same


def test_copies_the_first_convolutions_only():
    net, source, fresh = network(0), network(1, bias=0.5), network(0)
    copy_convolutions_(net, source, 1)
    assert torch.equal(net.convs[0].weight, source.convs[0].weight)
    assert torch.equal(net.convs[0].bias, source.convs[0].bias)
    for layer, untouched in zip(layers_of(net)[1:], layers_of(fresh)[1:], strict=True):
        assert torch.equal(layer.weight, untouched.weight)
        assert torch.equal(layer.bias, untouched.bias)
