"""Does fine-tuning go as far as Theorem 2's bound says, and does the bound order sources by test loss?"""

import math
from dataclasses import replace

import numpy as np
import pandas as pd

from alignbook.claims import NOT_JUDGED, KeyNumber, t_interval
from alignbook.over_seeds import at, difference, exponent
from alignbook.statements import Case, Requirement, Statement
from alignbook.studies.transferability.by_seed import mean_spread, over_sets, per_seed, widest
from alignbook.studies.transferability.targets import each, words
from alignbook.wording import by_verdict, fitting, listed, over_cases, sentences

MARGIN = 0.05  # for the error terms of Theorem 2 at a finite m and κ: deviation over bound may reach 1 + this
HALF = 0.5  # share of labels turned around at which they are random
ROOM = "the 5 % allowed for the theorem's error terms"
ALIKE = {"same-classes": ("the same classes", {"family": "rotated", "step": 0.0})}  # id: (words, rows)
UNLIKE = {
    "reversed": ("reversed labels", {"family": "flipped", "step": 1.0}),
    "other-classes": ("two other classes", {"family": "classes"}),
}
ENDS = {"deviation": "deviation", "test_loss": "test loss"}  # what is held against training from scratch


def of_sources(table, scratch=False):
    """Rows of the sources, or those of fine-tuning from scratch."""
    rows = at(table, kind="source")
    return rows[(rows["family"] == "scratch") == scratch] if len(rows) else rows


def ratio(rows):
    """|W(Q) - W(P)|_F over its bound, per row."""
    return rows.deviation / rows.bound


def mean_ratio(rows):
    """Its mean over the sources."""
    return ratio(rows).mean()


def order(rows, one, other):
    """Spearman's rank correlation over the rows of two columns; NaN where one of them is constant."""
    return float(rows[[one, other]].rank().corr().iloc[0, 1])


def room(rows):
    """1 + MARGIN less the largest deviation over bound of any source."""
    return 1 + MARGIN - ratio(rows).max()


def at_widest(measure, scratch=False):
    """A statement's ``of``: ``measure`` of the rows of the sources at the largest m, by seed.

    Of one ``dataset`` where it is given, else the mean over the data sets.
    """

    def of(table, parameters, dataset=None, **given):
        rows = widest(of_sources(table, scratch))
        rows = rows if dataset is None else at(rows, dataset=dataset)
        return over_sets(per_seed(rows, lambda part: measure(part, **given)))

    return of


tightness = at_widest(mean_ratio)
ranked = at_widest(lambda rows, one: order(rows, one, "bound"))


def excess_rate(table, parameters, dataset):
    """Exponent α with which the largest excess of deviation over bound falls like m^-α, by least squares.

    Of one ``dataset``. A width at which no source exceeds its bound has no logarithm; at least three widths.
    """

    def rate(rows):
        excess = (ratio(rows) - 1).groupby(rows["width"]).max()
        excess = excess[excess > 0]
        return -exponent(excess.index, excess) if len(excess) > 2 else math.nan

    return over_sets(per_seed(at(of_sources(table), dataset=dataset), rate))


def of_needed_width(table, parameters, dataset, scratch=False):
    """The largest width over the least at which fine-tuning can leave every unit within Lemma 2's radius.

    Over m units the root mean square move is deviation / √m; it is to be at most κ λ_Q / n_Q². The trace of
    H_Q^∞ is n_Q / 2, so that λ_Q is at most n_Q / 2 of λ_Q / λ_max. Median over the seeds.
    """
    rows = at(widest(of_sources(table, scratch)), dataset=dataset)
    moved, share = per_seed(rows, lambda part: part.deviation.max()), smallest_eigenvalue(table)
    both = pd.DataFrame({"moved": moved, "share": share}).dropna()
    radius = parameters["kappa"] * both["share"] / (2 * parameters["examples"])
    return (rows["width"].max() * (radius / both["moved"]) ** 2).median() if len(both) else None


def pairs(table, dataset):
    """Rows of the pairs of classes of one data set, with the ``condition`` number λ_max / λ_Q of H_Q^∞."""
    rows = at(table, kind="pair", dataset=dataset)
    return rows.assign(condition=rows["largest"] / rows["smallest"]) if len(rows) else rows


def singular(table, parameters, dataset):
    """Slope of log deviation on log condition number over the pairs of classes of ``dataset``, by seed."""
    return over_sets(
        per_seed(pairs(table, dataset), lambda rows: exponent(rows["condition"], rows["deviation"]))
    )


def ranks_of_pairs(table, dataset, one, other):
    """Rank correlation of two columns over those pairs, by seed."""
    return over_sets(per_seed(pairs(table, dataset), lambda rows: order(rows, one, other)))


def of_alike(table, parameters):
    """What the ranks of the pairs say of classes that are alike: a paragraph, not judged."""
    names = parameters["datasets"]

    def where(column, sign):
        ends = {name: t_interval(ranks_of_pairs(table, name, "distance", column))[2] for name in names}
        found = [
            words(name) for name, pair in ends.items() if pair and (pair[0] if sign > 0 else -pair[1]) > 0
        ]
        return f"on {listed(found)}" if found else "on no data set"

    return (
        f"Pairs of classes that are alike move the weights further {where('deviation', -1)}; the paper "
        "expects this, because it expects their matrix to be more singular. It is more singular "
        f"{where('condition', -1)} and less singular {where('condition', 1)}. (We count a sign where the "
        "95 % interval excludes 0.)"
    )


def pairs_of_classes(table, parameters, dataset):
    """How many pairs of classes of one data set and seed are stored, at the least."""
    rows = pairs(table, dataset)
    return rows.groupby("seed").size().min() if len(rows) else 0


def smallest_eigenvalue(table):
    """λ_Q / λ_max of H_Q^∞ per (data set, seed), from the first step of Theorem 3's bound.

    Smaller is more singular. Empty where no losses are stored.
    """
    if "k" not in table:
        return pd.Series(dtype=float)
    steps = table[(table.kind == "loss") & (table.k >= 1)]
    first = steps.sort_values("k").groupby(["dataset", "seed"]).first()
    return 2 * (1 - first.limit ** (1 / first.k)) / first["step_size"]


def _turned(rows, half):
    """Rows of the source with half its labels turned around, or those of the other sources."""
    return rows[((rows["family"] == "flipped") & (rows["step"] == HALF)) == half]


def random_excess(table, parameters, dataset):
    """Deviation over bound after random labels less its mean after the other sources, at the largest m."""
    rows = at(widest(of_sources(table)), dataset=dataset)
    return over_sets(difference(*(per_seed(_turned(rows, half), mean_ratio) for half in (True, False))))


def random_fall(table, parameters, dataset):
    """Deviation over bound after random labels at the smallest m less that at the largest."""
    own = at(_turned(of_sources(table), True), dataset=dataset)
    ends = sorted(own["width"].unique())[:: max(1, own["width"].nunique() - 1)]
    if len(ends) < 2:
        return None
    return over_sets(difference(*(per_seed(at(own, width=m), mean_ratio) for m in ends)))


def against_scratch(table, parameters, column, source):
    """log2 of ``column`` after one source over the same after training from scratch, at the largest m.

    source : {column: value} of its rows, as ``ALIKE`` and ``UNLIKE`` have them
    """
    own, scratch = (
        per_seed(widest(rows), lambda part: part[column].mean())
        for rows in (at(of_sources(table), **source), of_sources(table, scratch=True))
    )
    return np.log2(own / scratch).dropna()


def beside_scratch(sources):
    """Cases: each of ``sources``, by deviation and by test loss."""
    return lambda parameters: [
        Case(f"{name}-{column}".replace("_", "-"), f"{words}, {said}", {"column": column, "source": rows})
        for name, (words, rows) in sources.items()
        for column, said in ENDS.items()
    ]


NEW_SEEDS = Requirement("judged on seeds 3 and later", of=lambda t, p, **_: t["seed"].min() >= 3)
WIDE = Requirement(
    "largest width over the smallest at which no unit need leave Lemma 2's radius", of=of_needed_width,
    at_least=1, because="The theorem needs a width that the paper does not print; we take the lemma's "
    "constant as one",
)  # fmt: skip
WIDE_ALONE = replace(WIDE, of=lambda t, p, dataset: of_needed_width(t, p, dataset, scratch=True))
SETS = each("datasets", "dataset")
PAIRS = Requirement("pairs of classes stored of the data set", of=pairs_of_classes, at_least=3)
SCRATCH = {
    "source": "Section 6.3", "of": lambda t, p, **case: over_sets(against_scratch(t, p, **case)),
    "matters": 0.14, "unit": "log2 of the ratio",
    "because": "a tenth of the distance, or of the test loss", "requires": (NEW_SEEDS,),
    "post_hoc": "chosen after seeds 0 to 2 had been computed; judged on seeds 3 to 11",
}  # fmt: skip
ERROR_TERMS = {
    "source": "our reading of Theorem 2's error terms", "above": 0, "matters": 0.05, "unit": "of the bound",
    "because": ROOM, "ours": True,
}  # fmt: skip
STATEMENTS = [
    Statement(
        "excess-rate", "The largest excess of deviation over bound falls with the width (exponent of 1/m).",
        source="Theorem 2's error terms", of=excess_rate, above=0, matters=0.1,
        because="at m^-0.1 the excess falls by a third over our widths", ours=True, headline=True,
        post_hoc="chosen after it was seen to fall in all nine stored runs; judged on seeds 3 to 11",
        requires=(NEW_SEEDS,), each=SETS,
    ),
    Statement(
        "bound",
        f"The deviation stays below {1 + MARGIN:g} times its bound after every source: room left below it.",
        source="Theorem 2; the 5 % for its error terms are ours", of=at_widest(room), above=0, matters=0.05,
        unit="of the bound", because=ROOM, ours=True, requires=(WIDE,), each=SETS,
    ),
    Statement(
        "tight", "The bound is reached: deviation over bound, mean over the sources, is 1.",
        source="Equation 42", of=tightness, near=1, within=MARGIN, requires=(WIDE,), each=SETS,
    ),
    Statement(
        "convergence", "The loss stays below (1 − η λ_Q / 2)^k at every step k after every source.",
        source="Theorem 3", of=at_widest(lambda rows: -rows.worst.max()), above=0, matters=0.01,
        unit="decades", because="a hundredth of a decade is 2 % of the loss", each=SETS,
    ),
    Statement(
        "scratch", "From the random network, the deviation is at most its bound, up to the same 5 %: room "
        "left below it.",
        source="Section 6.3, where the root is not legible in our copy",
        of=at_widest(room, scratch=True), above=0, matters=0.01, unit="of the bound",
        because="the 5 % are part of the claim; ratios are given to 1 %", requires=(WIDE_ALONE,), each=SETS,
    ),
    Statement(
        "alike", "Fine-tuning after a similar source ends below training from scratch.", below=0,
        each=beside_scratch(ALIKE), **SCRATCH,
    ),
    Statement(
        "unlike", "Fine-tuning after a discrepant source ends above training from scratch.",
        above=0, each=beside_scratch(UNLIKE), ours=True, **SCRATCH,
    ),
    Statement(
        "test", "A source with a larger bound leads to a larger test loss and test error.", of=ranked,
        source="Section 6.3", above=0, matters=0.04, bounds=(-1, 1),
        because="one swap of neighbours among seven sources lowers a rank correlation by 0.04",
        each=lambda p: [Case(one, f"test {one}", {"one": f"test_{one}"}) for one in ("loss", "error")],
    ),
    Statement(
        "singular", "Among tasks of one data set, those with a more singular H_Q have a larger deviation.",
        source="Section 6.3; between pairs of classes ours", of=singular, above=0, ours=True, matters=0.1,
        because="a tenth of the deviation per factor e of the condition number",
        requires=(PAIRS,), each=SETS,
    ),
    Statement(
        "random-labels",
        "After random labels, the deviation exceeds its bound by more than after other sources.",
        of=random_excess, each=SETS, **ERROR_TERMS,
    ),
    Statement(
        "random-labels-width", "After random labels, the ratio of deviation to bound falls with the width.",
        of=random_fall, each=SETS, **ERROR_TERMS,
    ),
]  # fmt: skip

SAID = by_verdict(
    "The wider the network, the less fine-tuning exceeds the bound",
    "The wider the network, the more fine-tuning exceeds the bound",
    "Wide networks exceed the bound as much as narrow ones",
    "wider networks exceed the bound by less",
)
TEST = by_verdict(
    "A larger bound goes with a larger test loss, as claimed",
    "A larger bound goes with a smaller test loss",
    "The bound does not order sources by test loss",
    undecided="Whether the bound predicts the test loss is undecided",
    not_judged="Whether the bound predicts the test loss is not judged",
)  # fmt: skip


def finding(table, parameters, claims):
    """Whether the excess over the bound falls with the width, how far the weights move, and the order."""
    said = over_cases(
        claims, [f"excess-rate-{name}" for name in parameters["datasets"]], SAID, "on {} data sets"
    )
    rows = widest(of_sources(table))
    if rows.empty:
        return "Nothing has finished."
    said = said or "Whether the excess over the bound falls with the width was not measured"
    times, test = _most(rows), claims["test-loss"].outcome
    moved = f"{said}: at the widest, after the worst source, the weights move {times}"
    bounds = {claims[f"bound-{name}"].outcome for name in parameters["datasets"]}
    wide = "The theorem is about far wider networks"
    if bounds == {NOT_JUDGED}:
        wide = f"We do not judge the bound itself, as {wide[0].lower()}{wide[1:]}"
    told = [TEST[test], wide] if test in TEST else [wide]
    return fitting(sentences(moved, *told), sentences(moved, told[0]))


def _most(rows):
    """``1.05 to 1.16 times the bound, by data set``: after the source that exceeds it most, in the mean."""
    worst = per_seed(rows, lambda part: ratio(part).max()).groupby(level=0).mean()
    ends = dict.fromkeys(f"{end:.2f}" for end in (worst.min(), worst.max()))
    return f"{' to '.join(ends)} times the bound" + ", by data set" * (len(ends) > 1)


def key_numbers(table, parameters):
    """How tight the bound is and its ordering; the paper prints none."""
    tight, ranks = tightness(table, parameters), ranked(table, parameters, one="test_loss")
    if tight.empty:
        return []
    return [
        KeyNumber("deviation over bound, mean over sources", mean_spread(tight), "at most 1 in the limit"),
        KeyNumber("rank correlation of bound and test loss", mean_spread(ranks)),
    ]
