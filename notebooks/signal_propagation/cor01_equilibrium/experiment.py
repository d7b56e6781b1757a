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

from alignbook.claims import Claim, KeyNumber
from alignbook.experiments import Unit
from alignbook.kernels.relu_correlation import relu_correlation
from alignbook.seeding import torch_stream

PER_DECADE = 20  # points per decade of every logarithmic axis
FIGURE_3_DEPTHS = range(10, 101, 10)  # Figure 3: depth 10j, j = 1, ..., 10
PAPER_SLOPE = 3 / 5  # Corollary 1
PAPER_FORWARD_LIMIT = 1 / 2  # Theorem 1
# Statements that hold or fail for every ε by itself.
BACKWARD = "As L grows, the backward loss at a fixed layer falls as L^-3."
SHARE = "At l = αL the deviation from α³ has reached log(L)/L with the coefficient of our expansion."
DEEP = "The equilibrium layer grows as L^(3/5) at the deepest end."
KAPPA = "The slope at the deepest end does not depend on κ."
FIGURE_3 = "Over the depths 10 to 100 of Figure 3 the equilibrium layer already has slope 3/5."
HAYOU_CONSTANT = 9 * math.pi**2 / 2  # 1 - c_l ~ this / l^2; Hayou et al. 2020, Appendix Lemma 1
LOG_COEFFICIENT = 9 / 2  # κ of g'(c_l) = 1 - 3/l + κ log(l)/l² + O(l⁻²); our expansion, the paper gives κ > 0


def units(parameters):
    """One unit per ε (deterministic, seed 0), one per width and seed for the finite networks."""
    recursions = [
        Unit(
            f"eps{eps:g}",
            compute_recursion,
            {
                "eps": eps,
                "depth": parameters["depth"],
                "kappas": list(parameters["kappas"]),
                "shares": list(parameters["shares"]),
                "seed": 0,
            },
        )
        for eps in parameters["epsilons"]
    ]
    networks = [
        Unit(
            f"width{width}-seed{seed}",
            compute_network,
            {
                "width": width,
                "layers": parameters["network_depth"],
                "correlations": list(parameters["correlations"]),
                "networks": parameters["networks"],
                "outputs": parameters["outputs"],
                "seed": seed,
            },
        )
        for width in parameters["widths"]
        for seed in range(parameters["seeds"])
    ]
    return recursions + networks


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


def end_slope(x, y):
    """d log y / d log x between the last two of the ascending points x, y."""
    (x0, x1), (y0, y1) = np.log(x[-2:]), np.log(y[-2:])
    return float((y1 - y0) / (x1 - x0))


def fitted_slope(depths, layers):
    """Least-squares slope of log layer over log depth: Figure 3's line of best fit."""
    return float(np.polyfit(np.log(depths), np.log(layers), 1)[0])


def figure_3_slope(table, eps, kappa, shift=0, whole=False, kind="equilibrium"):
    """Slope that a fit over the depths of Figure 3 gives for the exact equilibrium layer, or None.

    shift : added to the layer (an off-by-one in counting layers); whole : round to whole layers;
    kind : ``equilibrium`` (suprema, the paper's) or ``one pair``.
    """
    rows = select(table, kind, eps=eps, kappa=kappa)
    rows = rows[rows.depth.isin(FIGURE_3_DEPTHS)]
    layer = rows.layer + shift
    if len(rows) < len(FIGURE_3_DEPTHS) or (layer <= 0).any():
        return None
    return fitted_slope(rows.depth, layer.round() if whole else layer)


def local_slope(rows, layer):
    """Slope of log value over log layer: a line through the stored layers within √2 of ``layer``."""
    near = rows[(rows.layer >= layer / 2**0.5) & (rows.layer <= layer * 2**0.5)]
    return fitted_slope(near.layer, near.value)


def share_ratio(rows):
    """Coefficient of log(L)/L in Theorem 2's first case over our expansion's κ (1/α - 1), deepest end.

    rows : rows ``share`` of one ε and one share. L deviation / α³ = κ (1/α - 1) log L + O(1), so a ratio
    of 1 confirms the log(L)/L, and 0 would mean a plain 1/L.
    """
    rows, alpha = rows.iloc[-2:], (rows.layer / rows.depth).iloc[-2:]
    scaled = (rows.depth * rows.value / alpha**3).to_numpy()
    slope = np.diff(scaled)[0] / np.diff(np.log(rows.depth))[0]
    return float(slope / (LOG_COEFFICIENT * (1 / rows.share.iloc[0] - 1)))


def lemma_2_coefficient(table, eps):
    """k in log r_l = const + k log(l)/l + O(1/l) at the deepest end, or None; Lemma 2 says +κ."""
    rows = select(table, "lemma 2", eps=eps).iloc[-2:]
    if len(rows) < 2:
        return None
    # l (log r_l - log r_2l) = (k / 2) log l + const, so the unknown constant of log r_l drops out.
    return float(2 * np.diff(rows.value)[0] / np.diff(np.log(rows.layer.to_numpy(float)))[0])


def central_kappa(parameters):
    """The κ nearest to 1 (in ratio) among those asked for."""
    return min(parameters["kappas"], key=lambda kappa: abs(math.log(kappa)))


def network_ratio(rows):
    """Measured over expected: regression through 0 over pairs and layers; small values weigh little."""
    return float((rows.value * rows.expected).sum() / (rows.expected**2).sum())


def select(table, kind, **columns):
    """Rows of one kind with the given values in the named columns; empty where a column is missing."""
    wanted = {"kind": kind, **columns}
    if not set(wanted) <= set(table.columns):
        return table.iloc[:0].reindex(columns=["kind", "eps", "kappa", "share", "depth", "layer", "value"])
    keep = np.logical_and.reduce([table[name] == value for name, value in wanted.items()])
    return table[keep]


def claims(table, parameters):
    """Rates and slopes at the deepest end ± 0.02, Figure 3's range and ratios ± 0.05.

    All margins were fixed before the first run. Claims about the deepest end say what is reached at the
    deepest network computed; a theorem about L → ∞ is not refuted by one that is not reached yet.
    """
    found = _forward_claims(table, parameters)
    for eps in parameters["epsilons"]:
        found += _backward_claims(table, eps, parameters["depth"])
        found += _equilibrium_claims(table, eps, central_kappa(parameters))
    return [*found, _lemma_2_claim(table, parameters), *_network_claims(table)]


HEADLINE = "deep-slope"


def finding(table, parameters):
    """The slope at the deepest end and over Figure 3's depths, for every ε."""
    deep, shallow = _slopes(table, parameters)
    if not deep or not shallow:
        return "No recursion has run."
    return (
        f"Its slope over depth is {min(deep):.3f} to {max(deep):.3f} at L = {parameters['depth']} (theory: "
        f"{PAPER_SLOPE:g}), and {min(shallow):.2f} to {max(shallow):.2f} over Figure 3's 10 to 100 layers "
        f"(κ = {central_kappa(parameters):g})."
    )


def key_numbers(table, parameters):
    """Both slopes beside the paper's."""
    deep, shallow = _slopes(table, parameters)
    return [
        KeyNumber(f"slope {where}, over ε", f"{min(slopes):.3g} to {max(slopes):.3g}", PAPER_SLOPE)
        for where, slopes in ((f"at L = {parameters['depth']}", deep), ("over 10 to 100 layers", shallow))
        if slopes
    ]


def _slopes(table, parameters):
    """(slopes at the deepest end, slopes over Figure 3's depths), one of each per ε that has run."""
    kappa = central_kappa(parameters)
    claims = [claim for eps in parameters["epsilons"] for claim in _equilibrium_claims(table, eps, kappa)]

    def measured(name):
        return [c.measured for c in claims if c.id.startswith(name) and c.measured is not None]

    return measured("deep-slope"), measured("figure3-slope")


def _forward_claims(table, parameters):
    rate = (
        "forward-rate",
        f"the forward loss falls as l^-2: slope at l = {parameters['depth']}",
        "Theorem 1",
    )
    constant = (
        "forward-constant",
        "1 - c_l tends to (9π²/2) l^-2: ratio of the two at the deepest layer",
        "Theorem 1, whose constant is not printed (Hayou et al. 2020)",
    )
    rows = select(table, "forward", correlation=-1.0)
    if rows.empty:
        return [
            Claim.missing(*rate, "no recursion has run", -2.0),
            Claim.missing(*constant, "no recursion has run", 1.0),
        ]
    rows = rows[rows.eps == rows.eps.iloc[0]]  # the antipodal pair is in every E_ε: one is enough
    last = rows.iloc[-1]
    ratio = 2 * last.value * last.layer**2 / HAYOU_CONSTANT
    slope = end_slope(rows.layer.to_numpy(), rows.value.to_numpy())
    return [Claim.computed(*rate, slope, -2.0, 0.02), Claim.computed(*constant, ratio, 1.0, 0.02)]


def _backward_claims(table, eps, deepest):
    rate = (
        f"backward-rate-eps{eps:g}",
        f"as L grows, the backward loss at a fixed layer falls as L^-3, half of (L/l)^-3 (ε = {eps:g})",
        "Theorem 2, second case, whose other half, the growth over l, the page shows",
    )
    share = (
        f"share-rate-eps{eps:g}",
        f"at l = αL the deviation from α³ has reached log(L)/L: its coefficient over 9/2 (1/α - 1), "
        f"worst α (ε = {eps:g})",
        "Theorem 2, first case; the coefficient is ours",
    )
    rows = select(table, "backward", eps=eps)
    if rows.empty:
        why = "its recursion has not run"
        return [
            Claim.missing(*rate, why, -3.0).tagged(BACKWARD),
            Claim.missing(*share, why, 1.0).tagged(SHARE, ours=True),
        ]
    # The two deepest depths at the grid's layer nearest L^(3/5), so that L/l grows with L alone.
    depths = np.sort(rows.depth.unique())[-2:]
    shallow = rows[rows.depth == depths[0]].layer.to_numpy()
    layer = shallow[np.argmin(np.abs(np.log(shallow / deepest**PAPER_SLOPE)))]
    value = [rows[(rows.depth == depth) & (rows.layer == layer)].value.iloc[0] for depth in depths]
    ratios = [share_ratio(part) for _, part in select(table, "share", eps=eps).groupby("share")]
    worst = max(ratios, key=lambda ratio: abs(ratio - 1))
    return [
        Claim.computed(*rate, end_slope(depths / layer, value), -3.0, 0.02).tagged(BACKWARD),
        Claim.computed(*share, worst, 1.0, 0.05).tagged(SHARE, ours=True),
    ]


def _lemma_2_claim(table, parameters):
    eps = max(parameters["epsilons"])  # all ε share the sign; corrections are smallest at the largest
    claim = (
        "lemma2-sign",
        f"the coefficient of log(l)/l in log(l^3 ζ_l) is +9/2: measured coefficient over 9/2 (ε = {eps:g})",
        "Appendix B.2, Lemma 2 and its use, with 9/2 (ours) for κ",
    )
    coefficient = lemma_2_coefficient(table, eps)
    if coefficient is None:
        return Claim.missing(*claim, "its recursion has not run", 1.0).tagged(ours=True)
    return Claim.computed(*claim, coefficient / LOG_COEFFICIENT, 1.0, 0.05).tagged(ours=True)


def _equilibrium_claims(table, eps, kappa):
    deep = (
        f"deep-slope-eps{eps:g}",
        f"the equilibrium layer grows as L^(3/5) at the deepest end (ε = {eps:g}, κ = {kappa:g})",
        "Corollary 1",
    )
    spread = (
        f"kappa-eps{eps:g}",
        f"the slope at the deepest end does not depend on κ: largest minus smallest (ε = {eps:g})",
        "Corollary 1",
    )
    fit = (
        f"figure3-slope-eps{eps:g}",
        f"over depths 10 to 100 the equilibrium layer already has slope 3/5 (ε = {eps:g}, κ = {kappa:g})",
        "Corollary 1 as used in Figure 3; κ is ours",
    )
    rows = select(table, "equilibrium", eps=eps)
    ends = {k: end_slope(part.depth.to_numpy(), part.layer.to_numpy()) for k, part in rows.groupby("kappa")}
    why = "its recursion has not run, or the losses do not cross"
    reached = (
        Claim.computed(*deep, ends[kappa], PAPER_SLOPE, 0.02)
        if kappa in ends
        else Claim.missing(*deep, why, PAPER_SLOPE)
    )
    found = [reached.tagged(DEEP)]
    if len(ends) > 1:
        width = max(ends.values()) - min(ends.values())
        found.append(Claim.computed(*spread, width, 0.0, 0.02).tagged(KAPPA))
    slope = figure_3_slope(table, eps, kappa)
    fitted = (
        Claim.missing(*fit, why, PAPER_SLOPE)
        if slope is None
        else Claim.computed(*fit, slope, PAPER_SLOPE, 0.05)
    )
    return [*found, fitted.tagged(FIGURE_3)]


def _network_claims(table):
    statements = [
        (
            "network forward",
            "finite-forward",
            "the forward loss of a wide network at initialisation is the recursion's: ratio",
            "Section 3.2",
            1.0,
        ),
        (
            "network backward",
            "finite-backward",
            "width times the backward information of a wide network is the recursion's: ratio",
            "Appendix A.3",
            1.0,
        ),
        (
            "network forward norm",
            "forward-limit",
            "under Equation 8 and He initialisation the forward information of equal inputs is 1/2",
            "Appendix B.1, proof of Theorem 1",
            PAPER_FORWARD_LIMIT,
        ),
    ]
    found = []
    for kind, *claim, target in statements:
        rows = select(table, kind)
        if rows.empty:
            found.append(Claim.missing(*claim, "no finite network has run", target))
            continue
        widest = rows[rows.width == rows.width.max()]
        values = [network_ratio(part) for _, part in widest.groupby("seed")]
        found.append(Claim.equals(*claim, values, target, 0.05))
    return found
