"""Many networks at once against one at a time with autograd."""

import pytest
import torch
from torch.nn import functional

from alignbook.kernels import many_mlps

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def problem(networks, examples, sizes, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=dtype)

    weights = [draw(networks, a, b) for a, b in zip(sizes, sizes[1:], strict=False)]
    biases = [draw(networks, 1, b) for b in sizes[1:]]
    x = draw(networks, examples, sizes[0])
    y = torch.randint(sizes[-1], (networks, examples), generator=generator)
    return weights, biases, x, y


def reference(weights, biases, x, y, rate, steps):
    """One network: (weights, biases, loss before each step)."""
    weights = [w.clone().requires_grad_() for w in weights]
    biases = [b.clone().requires_grad_() for b in biases]
    losses = []
    for _ in range(steps):
        hidden = x
        for w, b in zip(weights[:-1], biases[:-1], strict=True):
            hidden = (hidden @ w + b).relu()
        loss = functional.cross_entropy(hidden @ weights[-1] + biases[-1], y)
        grads = torch.autograd.grad(loss, [*weights, *biases])
        with torch.no_grad():
            for p, g in zip([*weights, *biases], grads, strict=True):
                p -= rate * g
        losses.append(loss.detach())
    return weights, biases, torch.stack(losses)


# On a CPU: chunks of an example, odd chunks with a rest, whole networks, pairs with a rest, all at once
@pytest.mark.parametrize("cached", [1, 4, 11, 25, 1000])
@pytest.mark.parametrize("sizes", [[4, 6, 5, 3], [5, 2], [3, 9, 9, 9, 2]], ids=str)
@pytest.mark.parametrize("device", DEVICES)
def test_steps_equal_autograd_one_network_at_a_time(monkeypatch, device, sizes, cached):
    monkeypatch.setattr(many_mlps, "CACHED", cached)
    networks, classes, rate, steps = 3, sizes[-1], 0.3, 4
    weights, biases, x, y = problem(networks, 11, sizes)
    expected = [reference([w[k] for w in weights], [b[k] for b in biases], x[k], y[k], rate, steps)
                for k in range(networks)]  # fmt: skip
    weights, biases = ([v.to(device) for v in values] for values in (weights, biases))
    x, targets = x.to(device), functional.one_hot(y, classes).double().to(device)
    losses = torch.stack([many_mlps.step(weights, biases, x, targets, rate) for _ in range(steps)], 1).cpu()
    for k, (ws, bs, loss) in enumerate(expected):
        torch.testing.assert_close(losses[k], loss)
        for mine, theirs in zip([*weights, *biases], [*ws, *bs], strict=True):
            torch.testing.assert_close(mine[k].cpu(), theirs.detach())


@pytest.mark.parametrize("device", DEVICES)
def test_float32_stays_close_to_float64(device):
    """At the width of Figure 4, by whichever library float32 products take."""
    weights, biases, x, y = problem(2, 300, [30, 256, 256, 10])
    weights = [w / w.shape[1] ** 0.5 for w in weights]
    targets = functional.one_hot(y, 10)
    start = weights[1].clone()
    narrow = [[v.to(device, torch.float32) for v in values] for values in (weights, biases)]
    for _ in range(5):
        exact = many_mlps.step(weights, biases, x, targets.double(), 0.1)
        losses = many_mlps.step(*narrow, x.to(device).float(), targets.to(device).float(), 0.1)
    torch.testing.assert_close(losses.cpu().double(), exact, rtol=1e-5, atol=0)
    moved = (weights[1] - start).norm()
    assert (narrow[0][1].cpu().double() - weights[1]).norm() < 1e-4 * moved
