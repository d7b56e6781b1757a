"""Whether Wᵀ may be taken as independent of W, and Theorem A (Appendix A, B.4). No torch."""

import numpy as np

from companion.over_seeds import across, at, last, sample, slope
from companion.statements import Case, Number, Statement, among, crossed, over, pooled

# Fixed before any result was seen.
EXACT = 1e-8  # relative error of an identity, in float64
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


def kurtosis_falls(table, parameters, layer):
    """With which power of the width a neuron's excess kurtosis falls, by seed."""
    return slope(over_log2(neurons(table, parameters, layer, "kurtosis").dropna()))


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


depths = over("depths", "{} layers".format, "depth")
layers = over("layers", "layer {}".format, "layer")  # at which single neurons are looked at
quantities = crossed(among("kind", KINDS), depths)


def off(table, parameters):
    """How far a copy leads the kernel off at the largest width and the least depth, in %, by seed."""
    return 100 * 2.0 ** last(differences(table, parameters, "kernel", min(parameters["depths"])))


EXPONENT = {"unit": "in the exponent of N", "because": "0.1 halves an error over a thousandfold width"}
BIASES = {
    "few": (["none", "first layer"], "no biases, or in the first layer, Equations 8, A(1) and A(2)"),
    "all": ("all layers", "biases in all layers, as Appendix A counts parameters"),
}
STATEMENTS = [
    Statement(
        "independent", "The wider the network, the less a fresh copy in place of Wᵀ changes the result: "
        "exponent of the width, mean over kernel, gradients and depths.",
        source="Appendix A.2, Lemma 1", of=pooled(falls, quantities), below=0.0, matters=0.1,
        headline=True, **EXPONENT,
    ),
    Statement(
        "rate", f"From width {WIDE} on, this difference is of order N^(-1/2) in the width N (kernel).",
        source="Appendix A.2; the rate is ours", of=lambda t, p, depth: rate(t, p, "kernel", depth),
        each=depths, near=-0.5, within=0.1, ours=True, **EXPONENT,
    ),
    Statement(
        "copies", "At the largest width, Wᵀ and a copy differ as much as two copies (log2 of the ratio, mean "
        "over the depths).",
        source="Appendix A.2; the comparison is ours", of=pooled(against_copies, depths), near=0.0,
        within=0.3, ours=True,
    ),
    Statement(
        "gaussian", "A neuron's excess kurtosis falls as N^(-1/2) or faster (mean over the layers).",
        source="Appendix A.1", of=pooled(kurtosis_falls, layers), below=-0.5, matters=0.1, **EXPONENT,
    ),
    Statement(
        "printed", "Equations A(5) and A(6) as printed give the covariance of the standard parameterisation.",
        source="Appendix A.4", of=lambda t, p: doublings(t, p, "as printed"), exactly=0.0, within=0.01,
        unit="in log2 per layer",
    ),
    Statement(
        "theorem-a", "A step of gradient descent is exactly that of Theorem A.",
        source="Theorem A, Equation B(7)", exactly=0.0, within=EXACT,
        of=lambda t, p, biases: largest_error(t, p, "update", biases=biases),
        each=lambda p: [Case(id, words, {"biases": names}) for id, (names, words) in BIASES.items()],
    ),
]  # fmt: skip
NUMBERS = [
    Number("off", "% by which a copy changes the kernel at the largest width", off),
    Number("exponent", "exponent of the width", falls, each=quantities),
]
