"""How deep a network must be before its equilibrium layer grows as L^(3/5) (Corollary 1)."""

import math

import numpy as np

from companion.over_seeds import at, exponent
from companion.statements import Number, Statement, among, pooled

from .design import FIGURE_3_DEPTHS, PAPER_SLOPE

COLUMNS = ["kind", "eps", "kappa", "depth", "layer", "value"]
HAYOU_CONSTANT = 9 * math.pi**2 / 2  # 1 - c_l ~ this / l^2; Hayou et al. 2020, Appendix Lemma 1
OTHERWISE = {  # other choices than in Corollary 1's proof, where the paper leaves them open
    "one pair": {"kind": "one pair"},
    "l + 1": {"shift": 1},
    "l - 1": {"shift": -1},
    "whole layers": {"whole": True},
}
LOG_COEFFICIENT = 9 / 2  # κ of g'(c_l) = 1 - 3/l + κ log(l)/l² + O(l⁻²); our expansion, the paper gives κ > 0


def figure_3_slope(table, eps, kappa, shift=0, whole=False, kind="equilibrium"):
    """Slope that a fit over the depths of Figure 3 gives for the exact equilibrium layer, or None.

    shift : added to the layer (an off-by-one in counting layers); whole : round to whole layers;
    kind : ``equilibrium`` (suprema, the paper's) or ``one pair``.
    """
    rows = at(select(table, kind, eps=eps, kappa=kappa), depth=FIGURE_3_DEPTHS)
    layer = rows.layer + shift
    if len(rows) < len(FIGURE_3_DEPTHS) or (layer <= 0).any():
        return None
    return exponent(rows.depth, layer.round() if whole else layer)


def central_kappa(parameters):
    """The κ nearest to 1 (in ratio) among those asked for."""
    return min(parameters["kappas"], key=lambda kappa: abs(math.log(kappa)))


def select(table, kind, **columns):
    """Rows of one kind with the given values in the named columns; empty where a column is missing."""
    rows = at(table, kind=kind, **columns)
    return rows if "kind" in rows else rows.reindex(columns=COLUMNS)


def farthest(table):
    """Rows of the forward loss of opposite inputs, which are in every E_ε: those of one ε are enough."""
    rows = select(table, "forward", correlation=-1.0)
    return rows[rows.eps == rows.eps.iloc[0]] if len(rows) else rows


def forward_rate(table, parameters):
    """Slope of log forward loss over log layer at the deepest end."""
    rows = farthest(table).iloc[-2:]
    return exponent(rows.layer, rows.value) if len(rows) else None


def worst(measure, target, take=max):
    """A reading: ``measure(table, parameters, eps)`` of the ε for which it is farthest from ``target``.

    take : ``min`` for the one for which it is nearest
    """

    def of(table, parameters):
        values = [measure(table, parameters, eps) for eps in parameters["epsilons"]]
        return take((v for v in values if v is not None), key=lambda v: abs(v - target), default=None)

    return of


def backward_rate(table, parameters, eps):
    """Slope of log backward loss over log L, at the grid's layer nearest L^(3/5), at the deepest end."""
    rows = select(table, "backward", eps=eps)
    if rows.empty:
        return None
    depths = np.sort(rows.depth.unique())[-2:]
    shallow = rows[rows.depth == depths[0]].layer.to_numpy()
    layer = shallow[np.argmin(np.abs(np.log(shallow / parameters["depth"] ** PAPER_SLOPE)))]
    value = [rows[(rows.depth == depth) & (rows.layer == layer)].value.iloc[0] for depth in depths]
    return exponent(depths, value)


def deep_slopes(table, eps):
    """{κ: slope of the equilibrium layer at the deepest end}."""
    rows = select(table, "equilibrium", eps=eps).groupby("kappa").tail(2)
    return {kappa: exponent(part.depth, part.layer) for kappa, part in rows.groupby("kappa")}


def deep_slope(table, parameters, eps):
    """That at the κ nearest to 1."""
    return deep_slopes(table, eps).get(central_kappa(parameters))


def shown_slope(table, parameters, eps):
    """:func:`figure_3_slope` at the κ nearest to 1."""
    return figure_3_slope(table, eps, central_kappa(parameters))


def open_slopes(table, parameters, eps):
    """{choice: :func:`figure_3_slope`, None where the losses do not cross}, of what the paper leaves open.

    Every κ, and at the κ nearest to 1 the choices in ``OTHERWISE``.
    """
    found = {f"κ = {kappa:g}": figure_3_slope(table, eps, kappa) for kappa in parameters["kappas"]}
    middle = central_kappa(parameters)
    return found | {name: figure_3_slope(table, eps, middle, **choice) for name, choice in OTHERWISE.items()}


def all_shown(table, parameters):
    """:func:`figure_3_slope` at every ε, κ and other choice at which it has a value."""
    slopes = [open_slopes(table, parameters, eps) for eps in parameters["epsilons"]]
    return [slope for some in slopes for slope in some.values() if slope is not None]


def lemma_2_ratio(table, parameters):
    """k / (9/2) of log r_l = const + k log(l)/l + O(1/l) at the deepest end; Lemma 2 says k = +κ = 9/2.

    At the largest ε, where corrections are smallest.
    """
    rows = select(table, "lemma 2", eps=max(parameters["epsilons"])).iloc[-2:]
    if len(rows) < 2:
        return None
    # l (log r_l - log r_2l) = (k / 2) log l + const, so the unknown constant of log r_l drops out.
    return float(2 * np.diff(rows.value)[0] / np.diff(np.log(rows.layer))[0]) / LOG_COEFFICIENT


def network_ratios(table, kind, width=None):
    """Measured over expected of the networks of one kind and width (default: the widest), by seed.

    Regression through 0 over pairs and layers: small values weigh little.
    """
    rows = select(table, kind)
    if rows.empty:
        return None
    here = at(rows, width=width or rows.width.max())
    sums = here.assign(over=here.value * here.expected, square=here.expected**2).groupby("seed").sum()
    return sums.over / sums.square


SHOWN_MARGIN = 0.05  # of the slope over Figure 3's depths
STATEMENTS = [
    Statement(
        "deep-slope", "The equilibrium layer grows as L^(3/5) at the largest depths (worst ε).",
        source="Corollary 1", of=worst(deep_slope, PAPER_SLOPE), exactly=PAPER_SLOPE, within=0.02,
        headline=True,
    ),
    Statement(
        "figure3-slope",
        "Over Figure 3's depths, 10 to 100, the equilibrium layer of all inputs in E_ε has slope 3/5 "
        "(ε that comes nearest).",
        source="Corollary 1 as used in Figure 3", of=worst(shown_slope, PAPER_SLOPE, min),
        exactly=PAPER_SLOPE, within=SHOWN_MARGIN, ours=True,
    ),
    Statement(
        "forward-rate", "The forward loss falls as l^-2 in the deepest layers.", source="Theorem 1",
        of=forward_rate, exactly=-2.0, within=0.02,
    ),
    Statement(
        "backward-rate", "As L grows, the backward loss at a fixed layer falls as L^-3 (worst ε).",
        source="Theorem 2, second case", of=worst(backward_rate, -3.0), exactly=-3.0, within=0.02,
    ),
    Statement(
        "lemma2-sign", "The coefficient of log(l)/l in log(l³ ζ_l) is +9/2: the measured one over 9/2 is 1.",
        source="Appendix B.2, Lemma 2 and its use, with 9/2 (ours) for κ", of=lemma_2_ratio, exactly=1.0,
        within=0.05,
    ),
    Statement(
        "finite", "Wide networks at initialisation match the recursion (ratio of the two, mean over "
        "forward and backward).",
        source="Section 3.2, Appendix A.3", near=1.0, within=0.05,
        of=pooled(
            lambda t, p, kind: network_ratios(t, f"network {kind}"),
            among("kind", {kind: f"{kind} information" for kind in ("forward", "backward")}),
        ),
    ),
]  # fmt: skip
NUMBERS = [
    Number(
        "smallest", "smallest slope over Figure 3's depths",
        lambda t, p: min(all_shown(t, p), default=None),
    ),
    Number(
        "largest", "largest slope over Figure 3's depths",
        lambda t, p: max(all_shown(t, p), default=None),
    ),
]  # fmt: skip
