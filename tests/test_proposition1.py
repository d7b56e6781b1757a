"""Maennel et al., Proposition 1: training commutes with orthogonal maps of inputs and first layer."""

import torch
from scipy.stats import ortho_group
from torch import nn

from alignbook.seeding import numpy_stream, torch_stream
from alignbook.training.train import fit


def trained(x, y, first):
    """First-layer weights (16, 7) of a small ReLU network whose first layer began at ``first``."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    net[0].weight.data = first.clone()
    fit(net, x, y, steps=150, batch_size=16, learning_rate=0.05, generator=torch_stream(0, "batches"))
    return net[0].weight.detach()


def test_training_commutes_with_orthogonal_maps():
    stream = torch_stream(0, "data")
    x = torch.randn(64, 7, generator=stream, dtype=torch.float64) * torch.linspace(0.5, 2, 7)
    y = torch.randint(3, (64,), generator=stream)  # random labels
    first = torch.randn(16, 7, generator=stream, dtype=torch.float64) / 7**0.5
    rotation = torch.from_numpy(ortho_group.rvs(7, random_state=numpy_stream(0, "rotation")))

    plain = trained(x, y, first)
    rotated = trained(x @ rotation.T, y, first @ rotation.T)
    torch.testing.assert_close(rotated, plain @ rotation.T, rtol=0, atol=1e-5)  # the loss is in float32

    # Controls: it trained, and rotating the data alone gives other weights.
    assert (plain - first).norm() > 0.1 * first.norm()
    assert (trained(x @ rotation.T, y, first) - plain @ rotation.T).norm() > 0.1 * plain.norm()
