"""Many networks at once against one at a time with autograd."""

import torch
from torch.nn import functional

from alignbook.kernels.many_mlps import step


def test_steps_equal_autograd_one_network_at_a_time():
    generator = torch.Generator().manual_seed(0)
    networks, inputs, sizes, rate = 3, 11, [4, 6, 5, 3], 0.3

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    weights = [draw(networks, a, b) for a, b in zip(sizes, sizes[1:], strict=False)]
    biases = [draw(networks, 1, b) for b in sizes[1:]]
    x = draw(networks, inputs, sizes[0])
    y = torch.randint(sizes[-1], (networks, inputs), generator=generator)
    reference = []
    for k in range(networks):
        ws = [w[k].clone().requires_grad_() for w in weights]
        bs = [b[k].clone().requires_grad_() for b in biases]
        losses = []
        for _ in range(4):
            hidden = x[k]
            for w, b in zip(ws[:-1], bs[:-1], strict=True):
                hidden = (hidden @ w + b).relu()
            loss = functional.cross_entropy(hidden @ ws[-1] + bs[-1], y[k])
            grads = torch.autograd.grad(loss, [*ws, *bs])
            with torch.no_grad():
                for p, g in zip([*ws, *bs], grads, strict=True):
                    p -= rate * g
            losses.append(loss.item())
        reference.append((ws, bs, losses))
    targets = functional.one_hot(y, sizes[-1]).double()
    losses = torch.stack([step(weights, biases, x, targets, rate) for _ in range(4)], 1)
    for k, (ws, bs, expected) in enumerate(reference):
        torch.testing.assert_close(losses[k], torch.tensor(expected, dtype=torch.float64))
        for mine, theirs in zip([*weights, *biases], [*ws, *bs], strict=True):
            torch.testing.assert_close(mine[k], theirs.detach())
