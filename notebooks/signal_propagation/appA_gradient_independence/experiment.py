"""Finite width, the independence of Wᵀ, and Theorem A (Lou et al. 2022, Appendices A and B.4).

Networks of Equation 8, z_1 = W_1 x, z_l = W_l φ(z_{l-1}), W ~ N(0, 2/fan_in), φ ReLU, one output f = z_L, on
pairs of inputs of length √N with cosine c. Infinitely wide, they have

    K_l(x, x') = N c_l Π_{k=l}^{L-1} g'(c_k),        K = Σ_l K_l        (Appendix A.3),

c_l the correlation of the pre-activations, g ReLU's correlation map. Lemma 1 says that in the backward pass
Wᵀ may be replaced by the transpose of an independent copy when gradient covariances and K are computed.
"""

import math

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional

from alignbook.kernels.relu_correlation import relu_correlation
from alignbook.seeding import torch_stream
from companion.jobs import Job
from companion.studies.signal_propagation.shared.dense import error_signal

from ..shared.tangent_step import flat, gradient, product

FACTORS = {"standard": 2.0, "as printed": 4.0, "√2 for 2": 2.0}  # variance of a weight times its fan-in
BIASES = ("none", "first layer", "all layers")
CLASSES, EXAMPLES = 10, 20  # of Theorem A's networks
POINTS = 120  # coordinates of the update that are kept for the figure


def jobs(parameters):
    """Per seed: one per depth, one of single neurons, one of parameterisations, one of Theorem A."""
    p = parameters
    shared = {name: p[name] for name in ("widths", "correlations", "networks")}
    made = []
    for seed in range(p["seeds"]):
        for depth in p["depths"]:
            arguments = shared | {"depth": depth, "seed": seed}
            made.append(Job(f"depth{depth}-seed{seed}", compute_backward, arguments))
        arguments = {name: p[name] for name in ("widths", "layers", "draws")} | {"seed": seed}
        made.append(Job(f"neurons-seed{seed}", compute_neurons, arguments))
        arguments = {"width": p["width"], "depth": max(p["depths"]), "networks": p["networks"], "seed": seed}
        made.append(Job(f"scales-seed{seed}", compute_scales, arguments))
        arguments = {"width": p["update_width"], "depth": min(p["depths"]), "seed": seed}
        made.append(Job(f"update-seed{seed}", compute_update, arguments))
    return made


@torch.no_grad()
def compute_backward(*, widths, depth, correlations, networks, seed, device, report):
    """The backward pass with Wᵀ, with a fresh copy and with a second one, over ``networks`` draws, float32.

    Rows by ``kind``, per width and correlation, in units of the infinitely wide network's value (none where
    that is 0): ``apart``, the root mean square over the draws of Wᵀ's less the first copy's; ``copies``, of
    the first's less the second's; ``own`` and ``fresh``, the means with Wᵀ and with the first copy.

    ``kernel``: K. ``gradient``: the gradient covariance of layer 1 … L - 1. ``link``, once per width: the
    correlation over the draws of f(x) with Σ_i z_1^i ∂f/∂z_1^i, which is f itself with Wᵀ (own), and may be
    anything with a copy (fresh).
    """
    cosine = torch.tensor(correlations, device=device)
    tables = []
    for n, width in enumerate(widths):
        found, links = [], []
        for index in range(networks):
            draw = torch_stream(seed, "appA", "network", depth, width, index, device=device)
            kinds, link = three_passes(cosine, width, depth, draw)
            found.append(kinds)
            links.append(link)
            report((n + (index + 1) / networks) / len(widths), f"width {width}, network {index + 1}")
        found = torch.stack(found).double().cpu().numpy()
        rows = _rows(found, correlations, depth, width)
        own, fresh, _, f = np.array(links).T
        link = {"own": float(np.corrcoef(own, f)[0, 1]), "fresh": float(np.corrcoef(fresh, f)[0, 1])}
        tables.append(pd.DataFrame([*rows, {"kind": "link", **link}]).assign(width=width, depth=depth))
    return pd.concat(tables, ignore_index=True)


def three_passes(cosine, width, depth, draw):
    """One network, with Wᵀ and two fresh copies: (3, L + 1, pairs), covariances of layers 1 … L, K.

    And [z_1·∂f/∂z_1 of each, f], all of the input x.
    """
    x = pairs(cosine, width, draw)
    weights = [weight(width, width, draw) for _ in range(depth - 1)] + [weight(1, width, draw)]
    active, forward, first, f = forward_pass(weights, x)
    kinds, link = [], []
    for fresh in (False, True, True):
        back, last = backward_pass(weights, active, draw if fresh else None)
        kinds.append(torch.cat([back, (forward * back).sum(0, keepdim=True)]))
        link.append(float(first @ last))
    return torch.stack(kinds), [*link, float(f)]


def _rows(found, correlations, depth, width):
    """The rows ``kernel`` and ``gradient`` of one width from ``found`` (draws, 3, depth + 1, pairs)."""
    rows = []
    for column, c in enumerate(correlations):
        u, slope = relu_correlation(1 - c, depth)
        ahead = np.exp([slope[layer:-1].sum() for layer in range(depth)])  # Π g'(c_k), 1 at layer L
        theory = [*ahead, width * float((1 - u) @ ahead)]
        for row in [*range(depth - 1), depth]:
            if not theory[row] > 0:
                continue
            own, fresh, other = found[:, :, row, column].T / theory[row]
            rows.append(
                {
                    "kind": "kernel" if row == depth else "gradient",
                    "correlation": c,
                    "layer": math.nan if row == depth else row + 1,
                    "apart": float(np.sqrt(np.mean((own - fresh) ** 2))),
                    "copies": float(np.sqrt(np.mean((fresh - other) ** 2))),
                    "own": float(own.mean()),
                    "fresh": float(fresh.mean()),
                }
            )
    return rows


def pairs(cosine, width, draw):
    """(1 + pairs, width): x and its partners, of length √width, with ``cosine`` (pairs,) to x."""
    basis = torch.linalg.qr(torch.randn(width, 2, generator=draw, device=cosine.device))[0].T
    basis = basis * math.sqrt(width)
    partners = cosine[:, None] * basis[0] + (1 - cosine**2).sqrt()[:, None] * basis[1]
    return torch.cat([basis[:1], partners])


def weight(out, fan_in, draw, factor=2.0):
    """(out, fan_in) independent N(0, factor/fan_in)."""
    return torch.randn(out, fan_in, generator=draw, device=draw.device) * math.sqrt(factor / fan_in)


def forward_pass(weights, x):
    """Masks (L - 1, inputs, width), φ(z_{l-1}(x))·φ(z_{l-1}(x')) (L, pairs), and z_1 and f of x."""
    active, forward, h = [], [], x
    for layer, w in enumerate(weights, start=1):
        forward.append(h[1:] @ h[0])
        z = h @ w.T
        if layer == 1:
            first = z[0]
        if layer < len(weights):
            active.append(z > 0)
        h = z.relu()
    return torch.stack(active), torch.stack(forward), first, z[0, 0]


def backward_pass(weights, active, draw=None):
    """∂f/∂z_l(x)·∂f/∂z_l(x') for l = 1 … L (L, pairs), and ∂f/∂z_1(x); ``draw``: with fresh weights."""
    delta = torch.ones(active.shape[1], 1, device=active.device)
    back = [delta[1:] @ delta[0]]
    for layer in range(len(weights) - 1, 0, -1):
        w = weights[layer] if draw is None else weight(*weights[layer].shape, draw)
        delta = (delta @ w) * active[layer - 1]
        back.append(delta[1:] @ delta[0])
    return torch.stack(back[::-1]), delta[0]


@torch.no_grad()
def compute_neurons(*, widths, layers, draws, seed, device, report):
    """How far z_l^i(x) of one input is from Gaussian, over ``draws`` networks and all neurons of a layer.

    Given z_{l-1}, W_l φ(z_{l-1}) has the law of ‖φ(z_{l-1})‖ √(2/N) ξ, ξ ~ N(0, I): no matrix is drawn.
    Rows: width, layer, kurtosis (excess), error (of a layer's mean square about its limit, relative: root
    mean square over the networks).
    """
    rows = []
    for n, width in enumerate(widths):
        draw = torch_stream(seed, "appA", "neurons", width, device=device)
        scale = torch.full((draws, 1), math.sqrt(2), dtype=torch.float64, device=device)  # z_1 ~ N(0, 2)
        for layer in range(1, max(layers) + 1):
            z = scale * torch.randn(draws, width, generator=draw, dtype=torch.float64, device=device)
            if layer in layers:
                square = z.square()
                kurtosis = float(square.square().mean() / square.mean() ** 2) - 3
                error = float((square.mean(1) / 2 - 1).square().mean().sqrt())
                rows.append({"width": width, "layer": layer, "kurtosis": kurtosis, "error": error})
            scale = z.relu().square().mean(1, keepdim=True).mul(2).sqrt()
        report((n + 1) / len(widths), f"width {width}")
    return pd.DataFrame(rows).assign(kind="neurons")


@torch.no_grad()
def compute_scales(*, width, depth, networks, seed, device, report):
    """q_l = mean of (z_l^i)² under three parameterisations of the same network, mean over ``networks``.

    Rows: scaling (a name of ``FACTORS``), layer, variance (of z_l, in units of an input's mean square).
    """
    found = torch.zeros(len(FACTORS), depth, dtype=torch.float64)
    for index in range(networks):
        for row, factor in enumerate(FACTORS.values()):
            draw = torch_stream(seed, "appA", "scales", index, device=device)  # the same draws for all
            h = pairs(torch.tensor([0.0], device=device), width, draw)[:1]
            for layer in range(depth):
                z = h @ weight(width, width, draw, factor).T
                found[row, layer] += float(z.square().mean()) / networks
                h = z.relu()
        report((index + 1) / networks, f"network {index + 1} of {networks}")
    return pd.DataFrame(
        {"kind": "scales", "scaling": name, "layer": layer + 1, "variance": float(found[row, layer])}
        for row, name in enumerate(FACTORS)
        for layer in range(depth)
    )


def compute_update(*, width, depth, seed, device, report):
    """One step of gradient descent (η = 1) against Theorem A, with and without biases; Equation 9; float64.

    Cross-entropy on ``EXAMPLES`` Gaussian inputs of ``width`` entries with random labels.
    Rows by ``kind``: ``update`` (biases, a name of ``BIASES``): error, the length of θ(t+1) less Theorem A's,
    over the step's. ``coordinate``: actual and predicted change of some coordinates of θ. ``equation 9``:
    error, the largest of |K_l - K→ ∘ K←| over that of |K_l|, of output 1 and hidden layers.
    """
    draw = torch_stream(seed, "appA", "update")
    x = torch.randn(EXAMPLES, width, generator=draw, dtype=torch.float64).to(device)
    y = torch.randint(CLASSES, (EXAMPLES,), generator=draw).to(device)
    rows = []
    for n, biases in enumerate(BIASES):
        net = network(width, depth, biases, draw).to(device)
        parts = torch.autograd.grad(functional.cross_entropy(net(x), y), list(net.parameters()))
        actual = -torch.cat([part.reshape(-1) for part in parts])
        w = error_signal(net(x).detach(), y)
        predicted = -product(net, x, w)(flat(net)) / (linears(net) - 1)
        error = float((actual - predicted).norm() / actual.norm())
        rows.append({"kind": "update", "biases": biases, "error": error})
        chosen = torch.randperm(len(actual), generator=draw)[:POINTS].to(device)
        rows += [
            {"kind": "coordinate", "biases": biases, "actual": float(a), "predicted": float(p)}
            for a, p in zip(actual[chosen], predicted[chosen], strict=True)
        ]
        if biases == "none":
            rows.append({"kind": "equation 9", "error": decomposition_error(net, x)})
        report((n + 1) / len(BIASES), biases)
    return pd.DataFrame(rows)


def network(width, depth, biases, draw):
    """``depth`` linear layers, ReLU between, float64; He's weights, and biases N(0, 1/fan_in) if any."""
    modules = []
    for layer in range(depth):
        with_bias = biases == "all layers" or (biases == "first layer" and layer == 0)
        out = CLASSES if layer == depth - 1 else width
        linear = nn.Linear(width, out, bias=with_bias, dtype=torch.float64)
        with torch.no_grad():
            linear.weight.copy_(torch.randn(linear.weight.shape, generator=draw, dtype=torch.float64))
            linear.weight.mul_(math.sqrt(2 / width))
            if with_bias:
                linear.bias.copy_(torch.randn(linear.bias.shape, generator=draw, dtype=torch.float64))
                linear.bias.div_(math.sqrt(width))
        modules += [linear, nn.ReLU()]
    return nn.Sequential(*modules[:-1])


def linears(net):
    """L, the number of linear layers."""
    return sum(isinstance(module, nn.Linear) for module in net)


def decomposition_error(net, x):
    """max |K_l - K→_l ∘ K←_l| / max |K_l| over hidden layers; K_l from autograd, example by example."""
    output = torch.eye(CLASSES, dtype=x.dtype, device=x.device)[:1]
    tangents = torch.stack([gradient(net, row[None], output) for row in x])
    sizes = [p.numel() for p in net.parameters()]
    tangents = tangents.split(sizes, dim=1)
    h, inputs, outputs = x, [], []
    for module in net:
        if isinstance(module, nn.Linear):
            inputs.append(h)
        h = module(h)
        if isinstance(module, nn.Linear):
            outputs.append(h)
    deltas = torch.autograd.grad(h[:, 0].sum(), outputs)
    worst = 0.0
    for layer in range(1, len(sizes) - 1):
        kernel = tangents[layer] @ tangents[layer].T
        forward, backward = (side @ side.T for side in (inputs[layer].detach(), deltas[layer]))
        worst = max(worst, float((kernel - forward * backward).abs().max() / kernel.abs().max()))
    return worst
