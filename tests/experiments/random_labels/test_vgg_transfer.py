"""VGG-16 of Figure 1: pre-training with rescaling."""

import pytest
import torch

from alignbook.experiments.random_labels import vgg_transfer
from alignbook.training.transfer import layer_norms


def test_pre_training_changes_directions_and_no_norm():
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(23, 3, 8, 8, generator=generator), torch.arange(23) % 3
    made = {"width": 8, "init_scale": 1.3, "seed": 5}
    start = vgg_transfer.network(x.shape[1:], 3, name="upstream", **made)
    seen = []
    net = vgg_transfer.pretrained(
        x, y, 3, learning_rate=0.05, epochs=2, batch_size=7, at=[0, 6],
        on=lambda step, net: seen.append((step, layer_norms(net))), **made,
    )  # fmt: skip
    assert layer_norms(net) == pytest.approx(layer_norms(start), rel=1e-6)
    assert [step for step, _ in seen] == [0, 6]
    assert seen[0][1] == pytest.approx(layer_norms(start), rel=1e-12)
    assert seen[1][1] != pytest.approx(layer_norms(start), rel=1e-6)
    assert not torch.allclose(net.convs[0].weight, start.convs[0].weight, atol=1e-5)
