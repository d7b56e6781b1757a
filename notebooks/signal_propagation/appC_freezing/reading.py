"""Whether a layer's alignment says what training it alone gains (Section 2.1, Appendix C). No torch."""

import numpy as np

from alignbook import over_seeds
from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import at, rank_correlation
from alignbook.statements import Case, Statement

from ..names import called

# Fixed before any result was seen.
NEAR = 0.9  # a cosine that counts as "≈", as on the page of Figure 6
CLOSE = 0.1  # relative error below which a first order counts as the step
STARTS = {0: "at initialisation", 1: "after one epoch"}


def curves(table, dataset, column, start=0, kind="layer"):
    """(seeds × layers) frame of one column."""
    where = {"kind": kind, "dataset": dataset} | ({"start": start} if kind == "layer" else {})
    return over_seeds.curves(at(table, **where), "layer", column)


def ranks(one, other):
    """A reading: rank correlation over the layers of two columns, by seed."""
    return lambda t, p, dataset, start: rank_correlation(
        curves(t, dataset, one, start), curves(t, dataset, other, start)
    )


def would(table, parameters, dataset, column="by_labels"):
    """Rank correlation of A_l with ‖η K_l Ỹ‖ before training, on networks that nothing else is read from."""
    return rank_correlation(*(curves(table, dataset, n, kind="uniform") for n in ("alignment", column)))


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


RANK = {
    "above": 0.0,
    "matters": 0.3,
    "because": "a smaller one explains less than a tenth of the variance of ranks",
    "bounds": (-1, 1),
}
STATEMENTS = [
    Statement(
        "controls", "The larger a layer's A_l, the more a step on it changes the outputs (rank correlation).",
        source="Section 2.1, conclusion", of=ranks("alignment", "norm"), each=early, headline=True, **RANK,
    ),
    Statement(
        "would", "With probabilities of 1/k, the change would grow with A_l (rank correlation with ‖K_l Ỹ‖).",
        source="Section 2.1, Equation 4", of=would, each=datasets, ours=True,
        post_hoc="asked after two networks had been seen; judged on networks of other seeds", **RANK,
    ),
    Statement(
        "contributes", "The larger Tr(K_l ỸỸᵀ), the further a layer's step goes along Ỹ (rank correlation).",
        source="Equation 5", of=ranks("share", "along"), each=early, **RANK,
    ),
    Statement(
        "gains", "The larger A_l, the more training the layer alone lowers the loss (rank correlation).",
        source="Section 2.1, hypothesis; that the loss shows it is ours", of=ranks("alignment", "drop"),
        each=both, ours=True, **RANK,
    ),
    Statement(
        "share-gains", "The larger Tr(K_l ỸỸᵀ), the more such training lowers the loss (rank correlation).",
        source="Equation 5; that the loss shows it is ours", of=ranks("share", "drop"), each=both,
        ours=True, **RANK,
    ),
    Statement(
        "kernel", "A step changes the outputs by -η K_l (Z - Y) (mean relative error; ours: below 0.1).",
        source="Section 2.1; at the rate of Figure 2", of=over_layers("error"), each=datasets, below=CLOSE,
        matters=0.02, because="a fifth of our threshold",
    ),
    Statement(
        "labels", "In one network at initialisation, that change points along K_l Ỹ (mean cosine over "
        "layers; ours: above 0.9).",
        source="Equation 4, which averages; of one network it is ours", ours=True, each=datasets,
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
        source="Equation 5", of=over_layers("summed"), each=datasets, near=1.0, within=0.1,
    ),
    Statement(
        "bound", "No layer's step changes the outputs by more than η Tr(K_l) ‖Ỹ‖ (largest ratio).",
        source="Section 2.1", of=over_layers("bound", "max"), each=datasets, below=1.0, matters=0.1,
        because="a tenth of the bound", bounds=(0, np.inf),
    ),
]  # fmt: skip

SAID = {
    HOLDS: "The better a layer is aligned, the more a step on it alone changes the outputs",
    CONTRADICTED: "A step on a better aligned layer alone does not change the outputs more",
    ABSENT: "How far a layer alone changes the outputs has nothing to do with its alignment",
    UNDECIDED: "It is undecided whether better aligned layers change the outputs more",
}


def finding(table, parameters, claims):
    """Whether alignment ranks layers by what they change; what does rank the loss; why."""
    heads = [claims[f"controls-{case.id}"] for case in early(parameters)]
    groups = {}
    for claim, dataset in zip(heads, parameters["datasets"], strict=True):
        if claim.outcome in SAID:
            groups.setdefault(claim.outcome, []).append((called(dataset), claim.measured))
    if not groups:
        return "No layer was trained."
    parts = []
    for outcome, members in groups.items():
        where = "" if len(groups) == 1 else f" ({', '.join(name for name, _ in members)})"
        parts.append(f"{SAID[outcome]}{where}")
    values = [claim.measured for claim in heads if claim.measured is not None]
    said = f"{'; '.join(parts)}: rank correlation {np.mean(values):.2f} before training."
    gains = [claims[f"gains-{case.id}"].outcome for case in both(parameters)]
    if CONTRADICTED in groups and all(claims[f"would-{n}"].outcome == HOLDS for n in parameters["datasets"]):
        said += " It would if the untrained network gave all classes the same probability."
    elif HOLDS in gains:
        said += f" It does lower the loss more in {gains.count(HOLDS)} of {len(gains)} cases (data sets, "
        said += "before and after an epoch)."
    return f"{said} Measured on {parameters['images']} training images."


def key_numbers(table, parameters):
    """Of the first data set: rank correlations at initialisation, and the cosine of Equation 4."""
    dataset, result = parameters["datasets"][0], []
    wanted = (
        ("rank correlation of A_l with the change of the outputs", ranks("alignment", "norm"), {"start": 0}),
        ("rank correlation of Tr(K_l ỸỸᵀ) with the drop of the loss", ranks("share", "drop"), {"start": 0}),
        ("cosine of a step with Equation 4's", over_layers("cosine"), {}),
    )
    for what, of, more in wanted:
        values = of(table, parameters, dataset=dataset, **more)
        if len(values):
            result.append(KeyNumber(f"{what}, {called(dataset)}", interval(values, within=(-1, 1))))
    return result
