"""Which neurons fire: against a network written out layer by layer."""

import numpy as np
import torch

from alignbook.training.nets import SimpleCNN, he_normal_
from companion.studies.random_labels.shared import activations


def test_shares_are_those_of_the_layers_outputs():
    net = he_normal_(SimpleCNN((3, 6, 5), [4, 7], 9, 3), 1.0, torch.Generator().manual_seed(0))
    x = torch.randn(11, 3, 6, 5, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        first, second = net.convs[0](x).relu(), net.convs[1](net.convs[0](x).relu()).relu()
        dense = net.dense(second.permute(0, 2, 3, 1).flatten(1)).relu()
    found = activations.active_shares(net, x, batch_size=4)
    assert [len(neurons) for neurons, _ in found] == [4 * 30, 7 * 30, 9]
    for (neurons, examples), output in zip(found, (first, second, dense), strict=True):
        active = (output.flatten(1) != 0).double().numpy()
        np.testing.assert_allclose(neurons, active.mean(0))
        np.testing.assert_allclose(examples, active.mean(1))


def test_histograms_add_up_and_put_every_share_into_its_bin():
    net = SimpleCNN((1, 4, 4), [2], 6, 2)
    with torch.no_grad():
        net.dense.weight.zero_()
        net.dense.bias.copy_(torch.tensor([1.0, 1.0, 1.0, -1.0, -1.0, 0.0]))
    x = torch.randn(7, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    table = activations.histograms(net, x)
    assert np.allclose(table.groupby(["layer", "of"])["share"].sum(), 1)
    last = table[table["layer"] == 2].pivot(index="of", columns="bin", values="share")
    assert last.loc["neurons", 0] == last.loc["neurons", 9] == 0.5  # never or always active
    assert last.loc["examples", 5] == 1.0  # every image activates half of them
    assert activations.summary(net, x)[-1] == {"layer": 2, "activation": 0.5, "dead": 0.5}
