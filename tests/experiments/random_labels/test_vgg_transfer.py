"""VGG-16 of Figure 1: pre-training with rescaling."""

import pytest
import torch

from alignbook.training.train import accuracy, fit
from alignbook.training.transfer import layer_norms
from companion.studies.random_labels.shared import vgg_transfer


def test_pre_training_changes_directions_and_no_norm():
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(23, 3, 8, 8, generator=generator), torch.arange(23) % 3
    made = {"width": 8, "init_scale": 1.3, "seed": 5}
    start = vgg_transfer.network(x.shape[1:], 3, name="upstream", **made)
    net = vgg_transfer.pretrained(x, y, 3, learning_rate=0.05, epochs=2, batch_size=7, **made)
    assert layer_norms(net) == pytest.approx(layer_norms(start), rel=1e-6)
    assert not torch.allclose(net.convs[0].weight, start.convs[0].weight, atol=1e-5)


@pytest.mark.parametrize(("stops", "epochs_seen"), [(4, [0, 2, 4]), (99, [0, 3, 6])])
def test_the_first_epochs_are_those_of_the_whole_training(stops, epochs_seen):
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(22, 3, 8, 8, generator=generator), torch.arange(22) % 3
    nets = [vgg_transfer.network(x.shape[1:], 3, width=8, init_scale=1.3, seed=5, name="a") for _ in "ab"]
    training = {"batch_size": 5, "learning_rate": 0.1}
    curve = vgg_transfer.first_epochs(
        nets[0], x, y, epochs=6, stops=stops, points=2, generator=torch.Generator().manual_seed(2),
        extra=lambda net: {"norm": layer_norms(net)[0]}, **training,
    )  # fmt: skip
    whole = {}
    fit(
        nets[1], x, y, steps=24, generator=torch.Generator().manual_seed(2), at=[4 * e for e in epochs_seen],
        on=lambda step, net: whole.update({step: (accuracy(net, x, y), layer_norms(net)[0])}), **training,
    )  # fmt: skip
    assert curve["epoch"].tolist() == epochs_seen
    assert list(zip(curve["accuracy"], curve["norm"], strict=True)) == list(whole.values())
