"""Whether Σ_w is aligned with Σ_x on Gaussian inputs (Proposition 1), and what breaks it."""

import numpy as np

from alignbook.claims import CONTRADICTED, HOLDS, NOT_JUDGED, KeyNumber, interval
from alignbook.over_seeds import at, curves, difference, ratio, sample
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import by_verdict

from .design import WORDS, wide

WITHIN = 0.05  # of the misalignment with random bases
MEAN_WITHIN = 5e-4  # of the mean square length: a mean of 2 % of the filters' length
MANY = 2000  # inputs of E.1, the fewest that stand for infinitely many beside an infinite width
SEEN_FROM = 0.03  # misalignment with random bases, less the floor, from which there is something to see


def words(condition):
    """How a sentence calls a condition."""
    return WORDS.get(condition, condition.replace("-", " "))


def measured(table, condition, column):
    """``column`` of the rows of kind ``misalignment`` of one condition, by seed."""
    return sample(at(table, kind="misalignment", condition=condition), column)


def to_see(table, condition, alone=""):
    """Misalignment with random bases, less the floor, by seed; ``alone`` is "alone_" for single networks."""
    return difference(*(measured(table, condition, f"{alone}{column}") for column in ("random", "floor")))


def left(own, floor, bases):
    """What is left of the misalignment ``bases``, both beyond ``floor``: 0 aligned, 1 not at all."""
    return ratio(difference(own, floor), difference(bases, floor))


def share(table, parameters, condition):
    """What is left of the misalignment with random bases."""
    return left(*(measured(table, condition, column) for column in ("misalignment", "floor", "random")))


def share_alone(table, parameters):
    """The same of single networks of the largest width; the floor is of filters drawn one by one."""
    widest = wide(max(parameters["wide"]))
    return left(*(measured(table, widest, column) for column in ("alone", "alone_floor", "alone_random")))


def equality(table, parameters):
    """0: Σ_w is aligned with a Σ_x that has equal eigenvalues; 1: as far from it as where they differ."""
    own, floor = (measured(table, "repeated", column) for column in ("misalignment", "floor"))
    return left(own, floor, measured(table, "plain", "merged"))


def visible(alone=""):
    """Σ_w must differ from a multiple of the identity, which is aligned with everything."""
    return Requirement(
        "misalignment with random bases, beyond sampling error",
        lambda t, p, condition=None: to_see(t, condition or wide(max(p["wide"])), alone).mean(),
        at_least=SEEN_FROM,
    )


def of(*conditions):
    """``each``: cases for these conditions."""
    return lambda parameters: [Case(name, words(name), {"condition": name}) for name in conditions]


def of_widths(parameters):
    """Cases for the larger widths."""
    return [Case(str(width), f"width {width}", {"condition": wide(width)}) for width in parameters["wide"]]


MANY_INPUTS = Requirement(
    "inputs of the network",
    lambda t, p: p["inputs"],
    at_least=MANY,
    because="However wide a network is, few inputs do not have the covariance of their distribution",
)
UNIT = "of random bases’"
ALIGNED = {"near": 0, "within": WITHIN, "unit": UNIT, "requires": (visible(),)}
BROKEN = {
    "above": 0, "matters": WITHIN, "unit": UNIT, "requires": (visible(),),
    "because": "a twentieth of what a random basis shows, the margin within which others count as aligned",
}  # fmt: skip
STATEMENTS = [
    Statement("aligned", "The covariance of the trained weights is aligned with that of the inputs.",
              "Proposition 1 (2)", share, each=of("plain"), headline=True, **ALIGNED),
    Statement("mean", "The trained weights have mean zero (its squared length is measured).",
              "Proposition 1 (1)", lambda t, p: measured(t, "plain", "mean_square"),
              near=0, within=MEAN_WITHIN, unit="of the mean squared length"),
    Statement("equal",
              "Where eigenvalues of the inputs' covariance are equal, so are those of the weights'.",
              "Definition 1, Proposition 1", equality, near=0, within=WITHIN, unit="of where they differ",
              requires=(Requirement(
                  "misalignment where these eigenvalues differ, beyond sampling error", at_least=SEEN_FROM,
                  of=lambda t, p: difference(*(measured(t, "plain", c) for c in ("merged", "floor"))).mean(),
              ),)),
    Statement("loss", "The proof holds for every loss of the network's output.",
              "Appendix C, Proposition 1", share, each=of("squared"), **ALIGNED),
    Statement("width", "The alignment holds at every width.", "Section 2.2, Proposition 1", share,
              each=of_widths, **ALIGNED),
    Statement("optimiser", "The alignment also holds with an adaptive optimiser.",
              "Appendix C, a remark", share, each=of("adam"), **ALIGNED),
    Statement("optimiser", "With inputs along the axes, an adaptive optimiser keeps the alignment.",
              "Appendix C states it for all inputs", share, each=of("adam-on-axes"), ours=True, **ALIGNED),
    Statement("excluded", "An optimiser that the proof excludes leaves the weights misaligned.",
              "Appendix C, Proposition 1", share, each=of("exponentiated"), ours=True, **BROKEN),
    Statement("without", "Without one of the proposition's assumptions, the weights are misaligned.",
              "Proposition 1 assumes isotropic initial weights and centred inputs", share,
              each=of("stretched", "shifted"), ours=True, **BROKEN),
    Statement("without-mean", "With inputs that are not centred, the weights' mean is not zero.",
              "Proposition 1 assumes centred inputs", lambda t, p: measured(t, "shifted", "mean_square"),
              above=0, matters=MEAN_WITHIN, unit="of the mean squared length", ours=True,
              because="a mean of 2 % of the filters' length"),
    Statement("one-network", "A single, very wide network is aligned, too.",
              "Section 2.2, after Proposition 1", share_alone, near=0, within=WITHIN, unit=UNIT, ours=True,
              requires=(visible("alone_"), MANY_INPUTS)),
]  # fmt: skip

SAID = by_verdict(
    holds="Over many networks the trained weights share the principal axes of the inputs",
    contradicted="Even over many networks the weights do not share the principal axes of the inputs",
    absent="The trained weights are too little off the principal axes of the inputs to matter",
    undecided="It is undecided whether the trained weights share the principal axes of the inputs",
    not_judged="Alignment is not judged, since the trained weights have no directions of their own",
)


def finding(table, parameters, claims):
    """The proposition's verdict with what is left of a random basis's misalignment, Adam's, one network's."""
    claim, adam = claims["aligned-plain"], claims["optimiser-adam"]
    if claim.outcome not in SAID:
        return "No network trained by gradient descent is among the results: there is nothing to see."
    text = f"{SAID[claim.outcome]}: beyond sampling error their misalignment is "
    text += f"{_percent(claim.measured)} of that with random axes"
    if adam.outcome == CONTRADICTED:
        text += f"; with Adam it is {_percent(adam.measured)}, against what the paper says"
    elif adam.outcome == HOLDS:
        text += "; with Adam it is the same"
    if _apart(claims["one-network"]):
        if parameters["inputs"] < MANY:
            few = f"but sees only {parameters['inputs']} inputs (not judged)"
            return f"{text}. A single wide network is not aligned here, {few}."
        return f"{text}. A single wide network is not aligned; the paper's is infinitely wide."
    return f"{text}. Our networks are small."


def _apart(claim):
    """Whether one network is off the inputs' axes, although its weights have directions to see."""
    if claim.outcome not in (CONTRADICTED, NOT_JUDGED) or not claim.requires[0]["met"]:
        return False
    return claim.interval is not None and claim.interval[0] > WITHIN


def _percent(value):
    return f"{100 * max(value, 0):.0f} %"


def key_numbers(table, parameters):
    """What is left of the misalignment with random bases: gradient descent, Adam, one wide network."""
    widest = max(parameters["wide"])
    found = [
        ("gradient descent", share(table, parameters, "plain"), 0),
        ("Adam", share(table, parameters, "adam"), 0),
        (f"one network alone, {widest} units wide", share_alone(table, parameters), "0 if infinitely wide"),
    ]
    what = "misalignment beyond sampling, % of random bases’"
    return [
        KeyNumber(f"{what}: {name}", interval(100 * values, "{:.1f}"), printed)
        for name, values, printed in found
        if len(values)
    ]


def correlations(table, condition):
    """Mean over the seeds of |correlation| of the weights along two eigenvectors of Σ_x, (d, d), 0 on the
    diagonal; None without results."""
    found, entries = [], at(table, kind="entry", condition=condition)
    for _, one in entries.groupby("seed") if len(entries) else ():
        half = one.pivot(index="row", columns="column", values="value").to_numpy()
        scale = np.sqrt(np.diag(half))
        half = np.triu(np.abs(half / np.outer(scale, scale)), 1)
        found.append(half + half.T)
    return np.mean(found, axis=0) if found else None


def deviations(table, condition):
    """(seeds × directions) frame of the weights' root mean square along the eigenvectors of Σ_x, τ."""
    entries = at(table, kind="entry", condition=condition)
    own = entries[entries["row"] == entries["column"]] if len(entries) else entries
    return np.sqrt(curves(own, "row", "value"))
