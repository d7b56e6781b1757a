"""Maennel et al., Proposition 1: training commutes with orthogonal maps of inputs and first layer."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ortho_group
from torch import nn

from alignbook.seeding import numpy_stream, torch_stream
from alignbook.train import fit, mean_loss


def train(x, y, initial, weight_decay):
    """First-layer weights (width, d) of a small ReLU network trained from ``initial``, and its loss."""
    width, d = initial[0].shape
    net = nn.Sequential(nn.Linear(d, width), nn.ReLU(), nn.Linear(width, 8), nn.ReLU(), nn.Linear(8, 3))
    net.double()
    with torch.no_grad():
        for parameter, value in zip(net.parameters(), initial, strict=True):
            parameter.copy_(value)
    fit(
        net, x, y, steps=150, batch_size=16, learning_rate=0.1, momentum=0.9, weight_decay=weight_decay,
        schedule="constant", generator=torch_stream(0, "batches"),
    )  # fmt: skip
    return net[0].weight.detach(), mean_loss(net, x, y)


@settings(deadline=None, max_examples=5)
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

    plain, loss = train(x, y, initial, weight_decay)
    rotated, _ = train(x @ rotation.T, y, [initial[0] @ rotation.T, *initial[1:]], weight_decay)
    # The weights are float64, but the loss sees logits in float32.
    torch.testing.assert_close(rotated, plain @ rotation.T, rtol=0, atol=1e-4)

    # Controls: it trained, and rotating the data alone gives other weights.
    assert loss < np.log(3) - 0.05
    assert (plain - initial[0]).norm() > 0.1 * initial[0].norm()
    data_only, _ = train(x @ rotation.T, y, initial, weight_decay)
    assert (data_only - plain @ rotation.T).norm() > 0.1 * plain.norm()
