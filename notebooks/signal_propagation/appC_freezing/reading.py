"""Whether a layer's alignment says what training it alone gains (Section 2.1, Appendix C). No torch."""

import numpy as np

from alignbook import over_seeds
from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import agree, at, rank_correlation
from alignbook.statements import Case, Requirement, Statement
from alignbook.wording import OTHERWISE, clauses, counted, fitting, listed, named, replicates, sentences

from ..names import called

# Fixed before any result was seen.
NEAR = 0.9  # a cosine that counts as "≈", as on the page of Figure 6
CLOSE = 0.1  # relative error below which a first order counts as the step
SEEN = 5  # seeds that had been seen when Appendix C's conclusion was added
STARTS = {0: "at initialisation", 1: "after one epoch"}


def curves(table, dataset, column, start=0, kind="layer"):
    """(seeds × layers) frame of one column."""
    where = {"kind": kind, "dataset": dataset} | ({"start": start} if kind == "layer" else {})
    return over_seeds.curves(at(table, **where), "layer", column)


def ranks(one, other):
    """A reading: rank correlation over layers of two columns, by seed; not ``ranked``: of their values."""
    return lambda t, p, dataset, start, ranked=True: rank_correlation(
        curves(t, dataset, one, start), curves(t, dataset, other, start), ranked
    )


def would(table, parameters, dataset, column="by_labels", ranked=True):
    """Rank correlation of A_l with ‖η K_l Ỹ‖ before training, on networks that nothing else is read from.

    ``ranked`` as for :func:`ranks`
    """
    aligned, change = (curves(table, dataset, name, kind="uniform") for name in ("alignment", column))
    return rank_correlation(aligned, change, ranked)


def turns(table, parameters, dataset, ranked=True):
    """Rank correlation of A_l with the cosine of δf and Ỹ; Ỹ has one length for all layers of a seed.

    ``ranked`` as for :func:`ranks`
    """
    aligned, along, norm = (curves(table, dataset, name) for name in ("alignment", "along", "norm"))
    return rank_correlation(aligned, along / norm, ranked)


def over_layers(column, take="mean", kind="layer"):
    """A reading: mean, or largest (``max``), over the layers of a column before training, by seed."""
    return lambda t, p, dataset: getattr(curves(t, dataset, column, kind=kind), take)(axis=1)


def both(parameters):
    """A case per data set and start."""
    return [
        Case(f"{dataset}-{start}", f"{called(dataset)}, {words}", {"dataset": dataset, "start": start})
        for dataset in parameters["datasets"]
        for start, words in STARTS.items()
    ]


def early(parameters):
    """A case per data set, before any training."""
    return [Case(f"{dataset}-0", f"{called(dataset)}, {STARTS[0]}", {"dataset": dataset, "start": 0})
            for dataset in parameters["datasets"]]  # fmt: skip


def datasets(parameters):
    """A case per data set."""
    return [Case(dataset, called(dataset), {"dataset": dataset}) for dataset in parameters["datasets"]]


MATTERS = 0.3  # of a correlation


def by_rank(of):
    """What the statements on a rank correlation have in common; ``of`` as :func:`ranks` gives it."""

    def same(table, parameters, **given):
        return agree(*(of(table, parameters, **given, ranked=r) for r in (True, False)), matters=MATTERS)

    return {
        "of": of, "above": 0.0, "matters": MATTERS, "bounds": (-1, 1),
        "because": "a smaller one explains less than a tenth of the variance of ranks",
        "requires": (Requirement(BY_VALUES, same, because="The paper names no measure"),),
    }  # fmt: skip


BY_VALUES = "the verdict is the same with the values' own correlation"
STATEMENTS = [
    Statement(
        "would", "With probabilities of 1/k, the larger a layer's A_l, the more a step on it changes the "
        "outputs (rank correlation with ‖K_l Ỹ‖).",
        source="Section 2.1, conclusion, under Equation 4", each=datasets, headline=True,
        post_hoc="asked after two networks had been seen, and judged on networks of other seeds; made the "
        "main claim after all results had been seen, which changed the headline's verdict",
        **by_rank(would),
    ),
    Statement(
        "controls", "With a network's own probabilities, too, a step on a layer of larger A_l changes the "
        "outputs more (rank correlation).",
        source="Section 2.1, conclusion; without its premise, Equation 4, ours",
        each=early, ours=True, **by_rank(ranks("alignment", "norm")),
    ),
    Statement(
        "turns", "The larger A_l, the more a step on the layer goes along the labels (rank correlation with "
        "the cosine of δf and Ỹ).",
        source="Appendix C, end", each=datasets, seen=SEEN,
        post_hoc="added when all results had been seen", **by_rank(turns),
    ),
    Statement(
        "contributes", "The larger Tr(K_l ỸỸᵀ), the further a layer's step goes along Ỹ (rank correlation).",
        source="Equation 5", each=early, **by_rank(ranks("share", "along")),
    ),
    Statement(
        "gains", "The larger A_l, the more training the layer alone lowers the loss (rank correlation).",
        source="Section 2.1, hypothesis; that the loss shows it is ours", each=both, ours=True,
        **by_rank(ranks("alignment", "drop")),
    ),
    Statement(
        "share-gains", "The larger Tr(K_l ỸỸᵀ), the more such training lowers the loss (rank correlation).",
        source="Equation 5; that the loss shows it is ours", each=both, ours=True,
        **by_rank(ranks("share", "drop")),
    ),
    Statement(
        "kernel", "A step changes the outputs by -η K_l (Z - Y) (mean relative error; ours: below 0.1).",
        source="Section 2.1; at the rate of Figure 2", of=over_layers("error"), each=datasets, below=CLOSE,
        ours=True, matters=0.02, because="a fifth of our threshold",
    ),
    Statement(
        "labels", "In one network at initialisation, that change points along K_l Ỹ (mean cosine over "
        "layers; ours: above 0.9).",
        source="Equation 4, about an average over networks; for one network ours", ours=True, each=datasets,
        of=over_layers("cosine"), above=NEAR, matters=0.02, bounds=(-1, 1),
        because="a fifth of the distance from our threshold to 1",
    ),
    Statement(
        "labels-mean", "Averaged over networks, a step goes along Ỹ as far as Equation 4 says (ratio).",
        source="Appendix C", of=over_layers("gained", kind="mean"), each=datasets, near=1.0, within=0.1,
    ),
    Statement(
        "adds-up",
        "Along Ỹ, a step on all layers goes as far as the layers' separate steps together (ratio).",
        source="Equation 5; that it reaches to the rate of Figure 2, and the margin, are ours",
        of=over_layers("summed"), each=datasets, near=1.0, within=0.1, ours=True,
    ),
    Statement(
        "bound", "No layer's step changes the outputs by more than η Tr(K_l) ‖Ỹ‖ (largest ratio).",
        source="Section 2.1", of=over_layers("bound", "max"), each=datasets, below=1.0, matters=0.1,
        because="a tenth of the bound", bounds=(0, np.inf),
    ),
]  # fmt: skip

DECIDED = {HOLDS: "more{}", CONTRADICTED: "less{}", ABSENT: "no more{}"}
MORE = DECIDED | {UNDECIDED: "maybe more (undecided){}", NOT_JUDGED: "maybe more (not judged){}"}


def finding(table, parameters, claims):
    """Whether alignment ranks layers by what they change: under Equation 4, in fact, and along the labels."""
    found = replicates(claims, "would")
    if not found:
        return "No layer was trained."
    said = "If an untrained network found all classes equally likely, as the paper assumes, a step on a "
    said += f"better aligned layer would change its outputs {changes(claims, found)}"
    real = "With its real outputs, such a step changes them "
    found, more = replicates(claims, "controls"), f"Measured on {parameters['images']} images"
    if len(found) == 1:
        (fact,) = found
        mean = np.mean([claim.measured for claim in found[fact]])
        sure = f" (mean correlation {mean:.2f})" * (fact in (HOLDS, CONTRADICTED))
        more = f"{real}{MORE[fact].format('')}{sure}{along_labels(claims, fact)}"
    elif HOLDS in found:
        more = f"{real}more{counted(found[HOLDS], sum(map(len, found.values())))}"
    short = said.replace(", as the paper assumes,", ",")
    brief = more.replace("such a step changes", "it changes")
    return fitting(*(sentences(one, two) for two in (more, brief) for one in (said, short)), f"{short}.")


def changes(claims, found):
    """``more on MNIST and less on CIFAR-10; Fashion-MNIST is undecided``."""
    decided = clauses(claims, "would", DECIDED, of_some)
    if not decided:
        return f"maybe more ({' or '.join(OTHERWISE[outcome] for outcome in found)})"
    open = [
        f"{listed(names)} {{}} {OTHERWISE[outcome]}".format("is" if len(names) == 1 else "are")
        for outcome in (UNDECIDED, NOT_JUDGED)
        if (names := [claim.case for claim in found.get(outcome, ())])
    ]
    return "; ".join([decided.replace("; ", " and "), *open])


def of_some(claims, total):
    """`` on MNIST and CIFAR-10``; nothing of all."""
    return named(claims) * (len(claims) < total)


def along_labels(claims, fact):
    """``, but turns more towards the labels``: Appendix C's conclusion, where all data sets say the same."""
    found = replicates(claims, "turns")
    measured = [claim.measured for some in found.values() for claim in some]
    signs = {HOLDS if value > 0 else CONTRADICTED for value in measured}
    if len(found) != 1 or (NOT_JUDGED in found and len(signs) > 1):
        return ""
    (outcome,) = signs if NOT_JUDGED in found else found
    said = f"{'and' if outcome == fact else 'but'} turns {MORE[outcome].format('')} towards the labels"
    return f", {said}" + " (not judged)" * (NOT_JUDGED in found)


def key_numbers(table, parameters):
    """Of the first data set: rank correlations with and without Equation 4's premise, and its cosine."""
    dataset, result = parameters["datasets"][0], []
    wanted = (
        ("rank correlation of A_l with the change, were all classes equally probable", would, {}),
        ("rank correlation of A_l with the change of the outputs", ranks("alignment", "norm"), {"start": 0}),
        ("cosine of a step with Equation 4's", over_layers("cosine"), {}),
    )
    for what, of, more in wanted:
        values = of(table, parameters, dataset=dataset, **more)
        if len(values):
            result.append(KeyNumber(f"{what}, {called(dataset)}", interval(values, within=(-1, 1))))
    return result
