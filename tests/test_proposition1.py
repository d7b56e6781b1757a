"""Maennel et al., Proposition 1: training commutes with orthogonal maps of inputs and first layer."""

import numpy as np
import torch
from hypothesis import given, settings, strategies as st
from scipy.stats import ortho_group
from torch import nn

from alignbook.seeding import numpy_stream, torch_stream


def train(x, y, initial, weight_decay, steps=150):
    """First-layer weights (width, d) and the losses of a small ReLU network trained from ``initial``."""
    width, d = initial[0].shape
    net = nn.Sequential(nn.Linear(d, width), nn.ReLU(), nn.Linear(width, 8), nn.ReLU(), nn.Linear(8, 3))
    net.double()
    with torch.no_grad():
        for parameter, value in zip(net.parameters(), initial, strict=True):
            parameter.copy_(value)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=weight_decay)
    order = torch_stream(0, "batches")
    losses = []
    for _ in range(steps):
        batch = torch.randint(len(x), (16,), generator=order)
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(net(x[batch]), y[batch])
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return net[0].weight.detach(), losses


@settings(deadline=None, max_examples=3)
@given(seed=st.integers(0, 2**20), weight_decay=st.sampled_from([0.0, 1e-3]))
def test_training_commutes_with_orthogonal_maps(seed, weight_decay):
    d, width, n = 7, 16, 64
    stream = torch_stream(seed, "network")
    shapes = [(width, d), (width,), (8, width), (8,), (3, 8), (3,)]
    initial = [
        torch.randn(shape, generator=stream, dtype=torch.float64) / shape[-1] ** 0.5 for shape in shapes
    ]
    x = torch.randn(n, d, generator=stream, dtype=torch.float64) * torch.linspace(0.5, 2, d)
    y = torch.randint(3, (n,), generator=stream)  # random labels
    rotation = torch.from_numpy(ortho_group.rvs(d, random_state=numpy_stream(seed, "rotation")))

    plain, losses = train(x, y, initial, weight_decay)
    rotated, _ = train(x @ rotation.T, y, [initial[0] @ rotation.T, *initial[1:]], weight_decay)
    torch.testing.assert_close(rotated, plain @ rotation.T, rtol=0, atol=1e-9)

    # Controls: it trained, and rotating the data alone gives other weights.
    assert np.mean(losses[-20:]) < np.mean(losses[:20]) - 0.05
    assert (plain - initial[0]).norm() > 0.1 * initial[0].norm()
    data_only, _ = train(x @ rotation.T, y, initial, weight_decay)
    assert (data_only - plain @ rotation.T).norm() > 0.1 * plain.norm()
