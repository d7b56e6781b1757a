"""How deep a network must be before its equilibrium layer grows as L^(3/5) (Corollary 1)."""

import math

import numpy as np

from alignbook.claims import CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, KeyNumber
from alignbook.over_seeds import at, exponent
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import clauses, replicates

from .design import FIGURE_3_DEPTHS, PAPER_SLOPE

COLUMNS = ["kind", "eps", "kappa", "share", "depth", "layer", "value"]
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


def share_ratio(rows):
    """Coefficient of log(L)/L in Theorem 2's first case over our expansion's κ (1/α - 1), deepest end.

    rows : rows ``share`` of one ε and one share. L deviation / α³ = κ (1/α - 1) log L + O(1), so a ratio
    of 1 confirms the log(L)/L, and 0 would mean a plain 1/L.
    """
    rows, alpha = rows.iloc[-2:], (rows.layer / rows.depth).iloc[-2:]
    scaled = (rows.depth * rows.value / alpha**3).to_numpy()
    slope = np.diff(scaled)[0] / np.diff(np.log(rows.depth))[0]
    return float(slope / (LOG_COEFFICIENT * (1 / rows.share.iloc[0] - 1)))


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


def forward_constant(table, parameters):
    """1 - c_l at the deepest layer over (9π²/2) l^-2."""
    rows = farthest(table).iloc[-1:]
    return float((2 * rows.value * rows.layer**2).iloc[0]) / HAYOU_CONSTANT if len(rows) else None


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


def worst_share(table, parameters, eps):
    """:func:`share_ratio` of the α for which it is farthest from 1."""
    ratios = [share_ratio(part) for _, part in select(table, "share", eps=eps).groupby("share")]
    return max(ratios, key=lambda ratio: abs(ratio - 1), default=None)


def deep_slopes(table, eps):
    """{κ: slope of the equilibrium layer at the deepest end}."""
    rows = select(table, "equilibrium", eps=eps).groupby("kappa").tail(2)
    return {kappa: exponent(part.depth, part.layer) for kappa, part in rows.groupby("kappa")}


def deep_slope(table, parameters, eps):
    """That at the κ nearest to 1."""
    return deep_slopes(table, eps).get(central_kappa(parameters))


def kappa_spread(table, parameters, eps):
    """The largest less the smallest over κ."""
    ends = deep_slopes(table, eps).values()
    return max(ends) - min(ends) if len(ends) > 1 else None


def shown_slope(table, parameters, eps):
    """:func:`figure_3_slope` at the κ nearest to 1."""
    return figure_3_slope(table, eps, central_kappa(parameters))


def shown_slopes(table, parameters, eps):
    """:func:`figure_3_slope` at every κ at which it has a value."""
    found = (figure_3_slope(table, eps, kappa) for kappa in parameters["kappas"])
    return [slope for slope in found if slope is not None]


def open_slopes(table, parameters, eps):
    """{choice: :func:`figure_3_slope`, None where the losses do not cross}, of what the paper leaves open.

    Every κ, and at the κ nearest to 1 the choices in ``OTHERWISE``.
    """
    found = {f"κ = {kappa:g}": figure_3_slope(table, eps, kappa) for kappa in parameters["kappas"]}
    middle = central_kappa(parameters)
    return found | {name: figure_3_slope(table, eps, middle, **choice) for name, choice in OTHERWISE.items()}


def same_at_every_kappa(table, parameters, eps):
    """A condition: all of :func:`shown_slopes` lie on one side of the margin around the paper's."""
    found = shown_slopes(table, parameters, eps)
    return len({abs(slope - PAPER_SLOPE) <= SHOWN_MARGIN for slope in found}) == 1


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


def epsilons(parameters):
    return [Case(f"eps{eps:g}", f"ε = {eps:g}", {"eps": eps}) for eps in parameters["epsilons"]]


SHOWN_MARGIN = 0.05  # of the slope over Figure 3's depths
AT_EVERY_KAPPA = Requirement(
    "the verdict is the same at every κ", same_at_every_kappa, because="The paper leaves κ open",
)  # fmt: skip
STATEMENTS = [
    Statement(
        "deep-slope", "The equilibrium layer grows as L^(3/5) at the largest depths.", source="Corollary 1",
        of=deep_slope, exactly=PAPER_SLOPE, within=0.02, each=epsilons, headline=True,
    ),
    Statement(
        "figure3-slope",
        "Over Figure 3's depths, 10 to 100, the equilibrium layer of all inputs in E_ε has slope 3/5.",
        source="Corollary 1 as used in Figure 3; that it is reached there is ours", of=shown_slope,
        exactly=PAPER_SLOPE, within=SHOWN_MARGIN, each=epsilons, ours=True, requires=(AT_EVERY_KAPPA,),
    ),
    Statement(
        "kappa", "The slope at the largest depths does not depend on κ: largest minus smallest is 0.",
        source="Corollary 1", of=kappa_spread, exactly=0.0, within=0.02, each=epsilons,
    ),
    Statement(
        "forward-rate", "The forward loss falls as l^-2 in the deepest layers.", source="Theorem 1",
        of=forward_rate, exactly=-2.0, within=0.02,
    ),
    Statement(
        "forward-constant", "1 - c_l tends to (9π²/2) l^-2: the ratio of the two at the deepest layer is 1.",
        source="Theorem 1, whose constant is not printed (Hayou et al. 2020)", of=forward_constant,
        exactly=1.0, within=0.02,
    ),
    Statement(
        "backward-rate", "As L grows, the backward loss at a fixed layer falls as L^-3.",
        source="Theorem 2, second case; the page shows its other half, the growth over l",
        of=backward_rate, exactly=-3.0, within=0.02, each=epsilons,
    ),
    Statement(
        "share-rate", "At l = αL the deviation from α³ has reached log(L)/L with our coefficient, "
        "9/2 (1/α - 1): the ratio, at the worst α, is 1.", source="Theorem 2, first case; coefficient ours",
        of=worst_share, exactly=1.0, within=0.05, each=epsilons, ours=True,
    ),
    Statement(
        "lemma2-sign", "The coefficient of log(l)/l in log(l³ ζ_l) is +9/2: the measured one over 9/2 is 1.",
        source="Appendix B.2, Lemma 2 and its use, with 9/2 (ours) for κ", of=lemma_2_ratio, exactly=1.0,
        within=0.05, ours=True,
    ),
    Statement(
        "finite-forward", "The forward loss of a wide network at initialisation matches the recursion.",
        source="Section 3.2", of=lambda t, p: network_ratios(t, "network forward"), near=1.0, within=0.05,
    ),
    Statement(
        "finite-backward", "Width times the backward information of a wide network matches the recursion.",
        source="Appendix A.3", of=lambda t, p: network_ratios(t, "network backward"), near=1.0, within=0.05,
    ),
    Statement(
        "forward-limit", "With He initialisation the forward information of equal inputs is 1/2.",
        source="Appendix B.1, proof of Theorem 1", of=lambda t, p: network_ratios(t, "network forward norm"),
        near=1 / 2, within=0.05,
        opposed_by="Section 3.2 has 2x·x'/d in the first layer, so that the forward information is 1",
    ),
]  # fmt: skip

THEORY = "In exact theory the equilibrium layer"
SAID = {
    HOLDS: f"{THEORY} does grow as the power 3/5 of depth{{}}, but only in very deep networks",
    CONTRADICTED: f"{THEORY} does not grow as the power 3/5 of depth{{}}, even in very deep networks",
    UNDECIDED: f"{THEORY} may or may not grow as the power 3/5 of depth{{}}",
    NOT_JUDGED: f"Whether {THEORY[0].lower()}{THEORY[1:]} grows as the power 3/5 of depth is not judged{{}}",
}


def finding(table, parameters, claims):
    """Whether the exponent is reached at the deepest end, and how near Figure 3's depths come to it."""
    said = clauses(claims, "deep-slope", SAID, lambda some, n: " for some inputs" * (len(some) < n))
    if not said:
        return "No recursion has run."
    found = replicates(claims, "deep-slope")
    shown = [slope for e in parameters["epsilons"] for slope in open_slopes(table, parameters, e).values()]
    shown = [slope for slope in shown if slope is not None]
    if shown and set(found) == {HOLDS}:
        said += f": over Figure 3's depths the exponent is {span(shown)}, depending on constants and how "
        said += "layers are counted, both left open"
    else:
        deep = [claim.measured for some in found.values() for claim in some]
        said += f": at {parameters['depth']:,} layers the exponent is {span(deep)}"
    return f"{said}. The forward loss is that of opposite inputs, which no two images are."


def span(values):
    """``0.60``, or ``0.60 to 0.62`` where they differ."""
    low, high = (f"{end:.2f}" for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def key_numbers(table, parameters):
    """The slope at the largest depths beside the paper's; that over Figure 3's, where it prints none."""
    result, depth = [], f"at {parameters['depth']:,} layers"
    shown = f"over 10 to 100 layers (limit: {PAPER_SLOPE:g})"
    for measure, where, paper in ((deep_slope, depth, PAPER_SLOPE), (shown_slope, shown, None)):
        found = [measure(table, parameters, eps) for eps in parameters["epsilons"]]
        if found := [slope for slope in found if slope is not None]:
            kappa = f"κ = {central_kappa(parameters):g}"
            what = f"slope of the equilibrium layer {where}, {kappa}, smallest and largest over ε"
            result.append(KeyNumber(what, f"{min(found):.3g} to {max(found):.3g}", paper))
    return result
