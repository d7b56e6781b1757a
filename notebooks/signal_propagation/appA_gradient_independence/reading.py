"""Whether Wᵀ may be taken as independent of W, and Theorem A (Appendix A, B.4). No torch."""

import numpy as np

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import across, at, last, sample, slope
from alignbook.statements import Case, Statement
from alignbook.wording import fitting, sentences

# Fixed before any result was seen.
EXACT, DECOMPOSED = 1e-8, 1e-10  # relative errors of identities, in float64
WIDE = 128  # widths from which the rate N^(-1/2) is read: below, 5 L/N is no small number
KINDS = {"kernel": "tangent kernel", "gradient": "gradient covariances"}


def differences(table, parameters, kind, depth, column="apart"):
    """(seeds × widths) frame: log2 of ``column``, mean over pairs and layers (of a geometric mean)."""
    rows = at(table, kind=kind, depth=depth)
    widths = [width for width in parameters["widths"] if (rows["width"] == width).any()]
    return across(
        rows, "width", widths, lambda r: np.log2(r.set_index("seed")[column]).groupby(level=0).mean()
    )


def over_log2(frame):
    """``frame`` with the logarithm (base 2) of its columns: slopes are exponents."""
    return frame.rename(columns=np.log2)


def falls(table, parameters, kind, depth):
    """Exponent of the width with which the difference between Wᵀ and a copy falls, by seed."""
    return slope(over_log2(differences(table, parameters, kind, depth)))


def rate(table, parameters, kind, depth):
    """The same over the widths from ``WIDE`` on."""
    frame = differences(table, parameters, kind, depth)
    return slope(over_log2(frame[[width for width in frame if width >= WIDE]]))


def against_copies(table, parameters, depth):
    """log2 of Wᵀ's difference from a copy over that of two copies, of the kernel at the largest width."""
    apart, copies = (differences(table, parameters, "kernel", depth, name) for name in ("apart", "copies"))
    return last(apart - copies)


def neurons(table, parameters, layer, column):
    """(seeds × widths) frame of log2 of kurtosis or error; NaN where a kurtosis came out below 0."""
    rows = at(table, kind="neurons", layer=layer)
    frame = across(rows, "width", parameters["widths"], lambda r: sample(r, column))
    return np.log2(frame.where(frame > 0))


def exponent_of(column):
    """A reading: with which power of the width ``column`` falls, by seed."""
    return lambda t, p, layer: slope(over_log2(neurons(t, p, layer, column).dropna()))


def doublings(table, parameters, scaling):
    """log2 per layer by which q_l outgrows that of He's initialisation; of the seed where that is most."""
    frames = [
        at(table, kind="scales", scaling=name).pivot(index="seed", columns="layer", values="variance")
        for name in (scaling, "standard")
    ]
    growth = slope(np.log2(frames[0] / frames[1]))
    return None if growth.empty else growth.loc[growth.abs().idxmax()]


def largest_error(table, parameters, kind, **where):
    """The largest relative error of an identity in any seed."""
    errors = at(table, kind=kind, **where)["error"]
    return None if errors.empty else errors.max()


def quantities(parameters):
    """A case per quantity and depth."""
    return [
        Case(f"{kind}-{depth}", f"{word}, {depth} layers", {"kind": kind, "depth": depth})
        for kind, word in KINDS.items()
        for depth in parameters["depths"]
    ]


def depths(parameters):
    """A case per depth."""
    return [Case(str(depth), f"{depth} layers", {"depth": depth}) for depth in parameters["depths"]]


def layers(parameters):
    """A case per layer at which single neurons are looked at."""
    return [Case(str(layer), f"layer {layer}", {"layer": layer}) for layer in parameters["layers"]]


EXPONENT = {"unit": "in the exponent of N", "because": "0.1 halves an error over a thousandfold width"}
STATEMENTS = [
    Statement(
        "independent", "The wider the network, the less a fresh copy in place of Wᵀ changes the result.",
        source="Appendix A.2, Lemma 1", of=falls, each=quantities, below=0.0, matters=0.1, headline=True,
        **EXPONENT,
    ),
    Statement(
        "rate", f"From width {WIDE} on, this difference is of order N^(-1/2) in the width N.",
        source="Appendix A.2; the rate is ours", of=rate, each=quantities, near=-0.5, within=0.1, ours=True,
        **EXPONENT,
    ),
    Statement(
        "copies", "At the largest width, Wᵀ and a copy differ as much as two copies (log2 of the ratio).",
        source="Appendix A.2; the comparison is ours", of=against_copies, each=depths, near=0.0, within=0.3,
        ours=True,
    ),
    Statement(
        "gaussian", "A neuron's excess kurtosis falls as N^(-1/2) or faster.",
        source="Appendix A.1; the kurtosis is ours", of=exponent_of("kurtosis"), each=layers, below=-0.5,
        matters=0.1, **EXPONENT,
    ),
    Statement(
        "monte-carlo", "A layer's mean square differs from its limit by order N^(-1/2) in the width N.",
        source="Appendix A.1, which has it as a bound; that it is the exact rate is ours", ours=True,
        of=exponent_of("error"), each=layers, near=-0.5, within=0.1, **EXPONENT,
    ),
    Statement(
        "printed", "Equations A(5) and A(6) as printed give the covariance of the standard parameterisation.",
        source="Appendix A.4", of=lambda t, p: doublings(t, p, "as printed"), exactly=0.0, within=0.01,
        unit="in log2 per layer",
    ),
    Statement(
        "corrected", "With √2 in place of 2 in Equations A(5) and A(6), both covariances are the same.",
        source="Appendix A.4; the factor is ours", of=lambda t, p: doublings(t, p, "√2 for 2"), exactly=0.0,
        within=0.01, unit="in log2 per layer", ours=True,
    ),
    Statement(
        "decomposition", "At finite width a hidden layer's kernel is exactly forward times backward kernel.",
        source="Equation 9", of=lambda t, p: largest_error(t, p, "equation 9"), exactly=0.0,
        within=DECOMPOSED,
    ),
    Statement(
        "theorem-a", "A step of gradient descent is exactly that of Theorem A.",
        source="Theorem A, Equation B(7)", exactly=0.0, within=EXACT,
        of=lambda t, p, biases: largest_error(t, p, "update", biases=biases),
        each=lambda p: [
            Case("none", "no biases, Equation 8", {"biases": "none"}),
            Case("first", "a bias in the first layer, Equations A(1) and A(2)", {"biases": "first layer"}),
        ],
    ),
    Statement(
        "theorem-a-biases",
        "Theorem A also holds with biases in all layers, which Appendix A counts as parameters.",
        source="Theorem A with P of Appendix A; that it should hold there is ours",
        of=lambda t, p: largest_error(t, p, "update", biases="all layers"), exactly=0.0,
        within=EXACT, ours=True,
    ),
]  # fmt: skip

SAID = {
    HOLDS: "In wide networks the backward pass may use fresh weights",
    CONTRADICTED: "The backward pass may not use fresh weights, however wide the network is",
    ABSENT: "Width hardly changes the effect of fresh weights in the backward pass",
    UNDECIDED: "It is undecided whether the backward pass may use fresh weights in wide networks",
    NOT_JUDGED: "We do not judge whether the backward pass may use fresh weights in wide networks",
}


def off(table, parameters):
    """How far a copy leads the kernel off at the largest width and the least depth, in %, by seed."""
    return 100 * 2.0 ** last(differences(table, parameters, "kernel", min(parameters["depths"])))


def finding(table, parameters, claims):
    """Whether gradient independence holds, and what of the appendix does not."""
    id = f"independent-kernel-{min(parameters['depths'])}"
    if claims[id].outcome == NOT_RUN:
        return "No network was measured."
    if claims[id].outcome == NOT_JUDGED:
        return f"{SAID[NOT_JUDGED]}: {claims[id].test}."
    here = off(table, parameters).mean()
    narrows = "narrows" if claims[id].outcome == HOLDS else "does not clearly narrow"
    off_by = f"{SAID[claims[id].outcome]}: with them, the tangent kernel of {min(parameters['depths'])} wide "
    off_by += f"layers differs by {here:.0f} %"
    alike = claims[f"copies-{min(parameters['depths'])}"].outcome == HOLDS
    gap, misprint = f"a gap that {narrows} with width", ""
    if claims["printed"].outcome == CONTRADICTED:
        misprint = "An equation of Appendix A.4 seems misprinted: taken literally, the variance doubles "
        misprint += "with every layer"
    parts = [f"{off_by}, as two draws of fresh weights do, {gap}"] * alike + [f"{off_by}, {gap}"]
    return fitting(*(sentences(text, misprint) for text in parts))


def key_numbers(table, parameters):
    """The kernel's difference at the largest width, the exponent, and the growth as printed."""
    depth, result = min(parameters["depths"]), []
    values = off(table, parameters) if "depth" in table else []
    if len(values):
        what = f"% by which a copy of W^T changes the kernel, {depth} layers of {max(parameters['widths'])}"
        result.append(KeyNumber(what, interval(values, "{:.0f}", (0, np.inf))))
        exponent = rate(table, parameters, "kernel", depth)
        if len(exponent):
            result.append(KeyNumber(f"exponent of this in the width, from {WIDE} on", interval(exponent)))
    growth = doublings(table, parameters, "as printed") if "scaling" in table else None
    if growth is not None:
        result.append(KeyNumber("doublings of the variance per layer, A(6) as printed", f"{growth:.2f}", 0.0))
    return result
