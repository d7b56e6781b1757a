"""Theorems 1 and 2 and Corollary 1 of Lou et al. 2022 from the exact infinite-width recursion.

Notation of the paper (Section 3.4, Appendices A and B): c_l is the correlation of the pre-activations
z_l of two inputs on the sphere, c_1 that of the inputs, g the correlation map of ReLU. In the paper's
normalisation the informations are

    I^f_l = c_l / 2,      I^b_l = Π_{k=l}^{L-1} g'(c_k),

and the supremum runs over pairs with c_1 in [-1, 1 - ε). Both grow with c_1, so the suprema are read
off at the two ends of that interval: sup |I^f_l - 1/2| at c_1 = -1 whatever ε is, sup I^b_l in the
limit c_1 → 1 - ε. The rows ``supremum`` check this over a grid instead of assuming it.

Equilibrium is defined here as the layer l (between layers: monotone cubic interpolation in log l) where

    sup |I^f_l - 1/2| = κ sup I^b_l,      κ > 0 a free number,

which is what Θ in the Equilibrium Hypothesis leaves open.
"""

import math

import numpy as np
import pandas as pd
import torch
from scipy.interpolate import PchipInterpolator

from alignbook.kernels.relu_correlation import relu_correlation
from alignbook.seeding import torch_stream
from companion.jobs import jobs_over

from .design import FIGURE_3_DEPTHS, PAPER_SLOPE

PER_DECADE = 20  # points per decade of every logarithmic axis


def jobs(parameters):
    """One job per ε (deterministic, seed 0), one per width and seed for the finite networks."""
    p = parameters
    recursion = {name: p[name] for name in ("depth", "kappas", "shares")} | {"seed": 0}
    network = {name: p[name] for name in ("correlations", "networks", "outputs")}
    network["layers"] = p["network_depth"]
    return [
        *jobs_over("eps{eps:g}", compute_recursion, recursion, eps=p["epsilons"]),
        *jobs_over(
            "width{width}-seed{seed}", compute_network, network, width=p["widths"], seed=range(p["seeds"])
        ),
    ]


def log_grid(low, high):
    """Distinct integers from ``low`` to ``high``, about ``PER_DECADE`` per decade; int64 array."""
    count = max(2, round(PER_DECADE * math.log10(high / low)) + 1)
    return np.unique(np.rint(np.geomspace(low, high, count)).astype(np.int64))


def equilibrium_layer(forward, log_product, depths, kappa):
    """Layers at which ``forward`` loss = ``kappa`` × backward loss, for each depth.

    forward : (layers,) float, sup |I^f_l - 1/2| for l = 1, 2, ...; positive and decreasing
    log_product : (layers,) float, log ζ_l = Σ_{k<l} log g'(c_k) of the pair that attains sup I^b
    depths : (m,) int, each ≤ layers
    kappa : float > 0

    Returns (m,) float64, NaN where the losses do not cross within layers 1 ... depth.
    """
    # The backward loss is exp(log ζ_L - log ζ_l): they cross where log(forward_l) + log ζ_l = level.
    balance = np.log(forward) + log_product
    level = math.log(kappa) + log_product[depths - 1]
    log_layer = PchipInterpolator(-balance, np.log(np.arange(1, len(forward) + 1)), extrapolate=False)
    layer = np.exp(log_layer(-level))
    return np.where(layer <= depths, layer, np.nan)


def equilibrium_curves(epsilons, kappas, depths):
    """Equilibrium layers by the exact recursion, float (ε, κ, depth); NaN where the losses do not cross.

    epsilons : floats in (0, 1); kappas : floats > 0; depths : ints ≥ 2. The same as the stored rows
    ``equilibrium``, for κ and depths of one's own.
    """
    depths = np.asarray(depths)
    layers = int(depths.max()) + 1  # one more, which the interpolation before it sees
    u_far, _ = relu_correlation(2.0, layers)
    curves = []
    for eps in epsilons:
        product = np.concatenate([[0.0], np.cumsum(relu_correlation(eps, layers)[1][:-1])])
        curves.append([equilibrium_layer(u_far / 2, product, depths, kappa) for kappa in kappas])
    return np.array(curves)


def compute_recursion(*, eps, depth, kappas, shares, seed, device, report):
    """Both information losses, the equilibrium layer and Theorem 2's first case for one ε.

    eps : float in (0, 1); depth : int, deepest network; kappas : list of float > 0;
    shares : list of float in (0, 1), α of l = αL; seed and device are unused (nothing is random).

    Rows by ``kind`` (columns that do not apply are NaN):

    ``forward``     (correlation, layer): |I^f_l - 1/2|
    ``backward``    (depth, layer): sup I^b_l
    ``equilibrium`` (kappa, depth): layer, and value = d log l / d log L by central differences
    ``one pair``    (kappa, depth): the same with both losses of the pair c_1 = 1 - ε, without suprema
    ``share``       (share, depth): sup |I^b_l - α³|, layer = l nearest αL and α = l / L
    ``lemma 2``     (layer): l (log r_l - log r_2l), r_l = l³ ζ_l
    ``supremum``    (correlation, layer, depth): value = I^f loss, backward = I^b, at one layer and depth
    """
    total = 2 * depth

    def progress(layer):
        report(layer / total, f"layer {min(layer, depth)} of {depth}")

    u_far, slope_far = relu_correlation(2.0, depth, progress)
    u_near, slope_near = relu_correlation(eps, depth, lambda layer: progress(depth + layer))
    product = np.concatenate([[0.0], np.cumsum(slope_near[:-1])])  # log ζ_l at index l - 1
    layers, rows = log_grid(1, depth), []

    for correlation, u in ((-1.0, u_far), (1 - eps, u_near)):
        rows += [
            {"kind": "forward", "correlation": correlation, "layer": int(n), "value": u[n - 1] / 2}
            for n in layers
        ]
    decades = [10**k for k in range(2, 10) if 10**k < depth] + [depth]
    for deep in decades:
        rows += [
            {
                "kind": "backward",
                "depth": deep,
                "layer": int(n),
                "value": math.exp(product[deep - 1] - product[n - 1]),
            }
            for n in layers[layers <= deep]
        ]

    depths = np.unique(np.concatenate([log_grid(5, depth), FIGURE_3_DEPTHS]))
    for kind, u, kappa in [("equilibrium", u_far, k) for k in kappas] + [
        ("one pair", u_near, k) for k in kappas
    ]:
        found = equilibrium_layer(u / 2, product, depths, kappa)
        deep, layer = depths[np.isfinite(found)], found[np.isfinite(found)]
        if len(deep) > 1:
            local = np.gradient(np.log(layer), np.log(deep))
            rows += [
                {"kind": kind, "kappa": kappa, "depth": int(d), "layer": n, "value": s}
                for d, n, s in zip(deep, layer, local, strict=True)
            ]

    for share in shares:
        for deep in log_grid(10, depth):
            layer = max(2, round(share * deep))
            target = (layer / deep) ** 3
            gains = [math.exp(s[layer - 1 : deep - 1].sum()) for s in (slope_near, slope_far)]
            worst = max(abs(gain - target) for gain in gains)
            rows.append({"kind": "share", "share": share, "depth": int(deep), "layer": layer, "value": worst})

    log_r = product + 3 * np.log(np.arange(1, depth + 1))
    rows += [
        {"kind": "lemma 2", "layer": int(n), "value": n * (log_r[n - 1] - log_r[2 * n - 1])}
        for n in log_grid(10, depth // 2)
    ]

    probe = min(depth, 1000)
    layer = round(probe**PAPER_SLOPE)
    for correlation in np.linspace(-1, 1 - eps, 41):
        u, slope = relu_correlation(min(2.0, float(1 - correlation)), probe)
        rows.append(
            {
                "kind": "supremum",
                "correlation": float(correlation),
                "layer": layer,
                "depth": probe,
                "value": u[layer - 1] / 2,
                "backward": math.exp(slope[layer - 1 : probe - 1].sum()),
            }
        )
    return pd.DataFrame(rows).assign(eps=eps)


@torch.no_grad()
def compute_network(*, width, layers, correlations, networks, outputs, seed, device, report):
    """Networks of Equation 8 at initialisation (all weights N(0, 2/fan_in)) beside the recursion.

    width : int, hidden width and input dimension; layers : int ≥ 3, L; correlations : list of float in
    [-1, 1), of the input pairs on the sphere of radius sqrt(width); networks : int, independent networks
    averaged; outputs : int, linear heads averaged, each one the 1-dimensional output of the paper.

    Rows by ``kind``, value = mean over networks, expected = infinite width with variance of z_1 as drawn
    (that is 2, not the 1 that the proof of Theorem 1 assumes):

    ``network forward``  (correlation, layer 2 ... L): 1 - cosine of φ(z_{l-1}(x)), φ(z_{l-1}(x'))
    ``network backward`` (correlation, layer 2 ... L - 1): width × I^b_l of Definition 2
    ``network forward norm``, ``network backward norm`` (layer): I^f_l(x, x), width × I^b_l(x, x)
    """
    cosine = torch.tensor(correlations, dtype=torch.float64, device=device)
    forward = torch.zeros(layers + 1, len(correlations), dtype=torch.float64)
    backward, norms = torch.zeros_like(forward), torch.zeros(2, layers + 1, dtype=torch.float64)

    for index in range(networks):
        draw = torch_stream(seed, "cor01-network", index, width, device=device)

        def normal(*shape, draw=draw):
            return torch.randn(*shape, generator=draw, dtype=torch.float64, device=device)

        basis = torch.linalg.qr(normal(width, 2))[0].T * math.sqrt(width)  # (2, width), orthogonal
        pair = cosine[:, None] * basis[0] + (1 - cosine**2).sqrt()[:, None] * basis[1]
        x = torch.cat([basis[:1], pair])  # (1 + pairs, width)

        weights = [normal(width, width) * math.sqrt(2 / width) for _ in range(layers - 1)]
        weights.append(normal(outputs, width) * math.sqrt(2 / width))
        active, h = [None], x
        for layer, weight in enumerate(weights, start=1):
            if layer > 1:
                overlap = h[1:] @ h[0] / (h[1:].norm(dim=1) * h[0].norm())
                forward[layer] += (1 - overlap).cpu() / networks
                norms[0, layer] += float(h[0].square().mean()) / networks
            z = h @ weight.T
            active.append(z > 0)
            h = z.relu()
        report((index + 0.5) / networks, f"network {index + 1} of {networks}: forward")

        # (inputs, outputs, width): ∂f/∂z_l, from the last hidden layer down; ∂f/∂z_L = 1.
        gradient = weights[-1].expand(len(x), -1, -1)
        for layer in range(layers - 1, 0, -1):
            gradient = gradient * active[layer][:, None, :]
            product = (gradient[1:] * gradient[0]).sum(2).mean(1)
            backward[layer] += product.cpu() / networks
            norms[1, layer] += float(gradient[0].square().sum(1).mean()) / networks
            if layer > 1:
                gradient = gradient @ weights[layer - 1]
        report((index + 1) / networks, f"network {index + 1} of {networks}")

    rows = []
    for column, correlation in enumerate(correlations):
        u, slope = relu_correlation(1 - correlation, layers)
        for layer in range(2, layers + 1):
            rows.append(("network forward", correlation, layer, float(forward[layer, column]), u[layer - 1]))
            if layer < layers:
                exact = math.exp(slope[layer - 1 : layers - 1].sum())
                rows.append(("network backward", correlation, layer, float(backward[layer, column]), exact))
    for layer in range(2, layers + 1):
        rows.append(("network forward norm", math.nan, layer, float(norms[0, layer]), 1.0))
        if layer < layers:
            rows.append(("network backward norm", math.nan, layer, float(norms[1, layer]), 1.0))
    return pd.DataFrame(rows, columns=["kind", "correlation", "layer", "value", "expected"])
