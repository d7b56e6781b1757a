"""How far ends of training lie apart: on several targets from one start, on one from several starts."""

import numpy as np
import pandas as pd

from alignbook.claims import HOLDS, NOT_RUN, KeyNumber, interval
from alignbook.over_seeds import at, curves, ratio
from alignbook.statements import Requirement, Statement
from alignbook.studies.transferability import imagenet_rows
from alignbook.studies.transferability.targets import LEARNED, name_of, words
from alignbook.wording import by_verdict, sentences

from .design import STARTS

OWN = "random, its own"  # the start of networks that share it with no other
OTHER_SOURCE = {"pretrained": "pretrained on a part", "pretrained on a part": "pretrained"}
SHOWN = ("pretrained", "random, shared", "pretrained on a part", OWN)  # of STARTS, the control second


def called(start):
    """A start in the book's spelling; results have it without the hyphen."""
    return start.replace("pretrained", "pre-trained")


def distances(table, seed):
    """(distances, names): a symmetric matrix over all networks of one seed, ``names`` [(start, target)].

    Raises KeyError where a pair is missing.
    """
    rows = with_targets(table[table["seed"] == seed])
    names = [(start, target) for start in STARTS for target in dict.fromkeys(rows["target"])]
    place = {name: position for position, name in enumerate(names)}
    matrix = np.full((len(names), len(names)), np.nan)
    for row in rows.itertuples():
        one, two = place[row.start, row.target], place[row.other_start, row.other_target]
        matrix[one, two] = matrix[two, one] = row.distance
    if np.isnan(matrix).any():
        raise KeyError("a pair of networks is missing")
    return matrix, names


def with_targets(table):
    """Rows of ``table`` with a distance, the targets' names in columns ``target`` and ``other_target``."""
    if "distance" not in table:
        return table.iloc[:0].assign(start=[], other_start=[], target=[], other_target=[])
    table = table[table["distance"].notna()]
    names = [
        [name_of(*pair) for pair in zip(table[dataset], table[part], strict=True)]
        for dataset, part in (("dataset", "part"), ("other", "other_part"))
    ]
    return table.assign(target=names[0], other_target=names[1])


def embedded(matrix, perplexity, seed):
    """t-SNE (scikit-learn) of a matrix of distances: (n, 2). ``perplexity`` at most n - 1."""
    from sklearn.manifold import TSNE

    chosen = min(perplexity, len(matrix) - 1)
    return TSNE(
        metric="precomputed", init="random", perplexity=chosen, learning_rate="auto", random_state=seed
    ).fit_transform(matrix)


def mean_of(rows, column="distance"):
    """Mean of ``column`` over the pairs of targets, a sample."""
    pairs = [f"{one} {two}" for one, two in zip(rows["target"], rows["other_target"], strict=True)]
    found = curves(rows.assign(pair=pairs), "pair", column)
    return found.mean(axis=1).dropna() if len(found) else pd.Series(dtype=float)


def within(table, start):
    """Distance between different targets from the same start, a sample."""
    rows = at(with_targets(table), start=start, other_start=start)
    return mean_of(rows[rows["target"] != rows["other_target"]])


def to(table, start, other_start):
    """Distance of one target's networks from two starts, a sample."""
    rows = at(with_targets(table), start=start, other_start=other_start)
    return mean_of(rows[rows["target"] == rows["other_target"]])


def of_itself(table, start, column):
    """``moved``, the distance of a network from its own start, or ``norm``: a sample."""
    return mean_of(at(with_targets(table), start=start, other_start=start), column)


def summary(table, starts=SHOWN):
    """{start: {within, across, sources, moved, norm: sample}}; what a start has not is left out."""
    found = {}
    for start in starts:
        samples = {"within": within(table, start)}
        samples |= {"across": to(table, start, OWN)} if start != OWN else {}
        samples |= {"sources": to(table, start, OTHER_SOURCE[start])} if start in OTHER_SOURCE else {}
        samples |= {column: of_itself(table, start, column) for column in ("moved", "norm")}
        found[start] = {name: values for name, values in samples.items() if len(values)}
    return {start: samples for start, samples in found.items() if samples}


def near(table, start):
    """log2 of the distance between two starts of one target over that between two targets of one start."""
    return np.log2(ratio(to(table, start, OWN), within(table, start)))


def around(table, start):
    """log2 of the distance between two starts of one target over that from the network's own start."""
    return np.log2(ratio(to(table, start, OWN), of_itself(table, start, "moved")))


def sources(table, start):
    """log2 of the distance between two pre-trainings of one target over that between two targets of one."""
    return np.log2(ratio(to(table, start, OTHER_SOURCE[start]), within(table, start)))


def _pretrained(id, text, measure, **more):
    """The statement about networks pre-trained on the source, and the same on a part of it."""
    rule = {
        "source": "Figure 4, Section 3", "above": 0, "matters": 0.14, "unit": "in log2",
        "because": "a tenth of the distance",
    }  # fmt: skip
    return [
        Statement(
            id, f"{text}.", of=lambda t, p: measure(imagenet_rows.own(t), "pretrained"), **rule, **more,
            requires=(LEARNED,),
        ),
        Statement(
            f"{id}-part", f"{text} (pre-trained on a part).", **rule, requires=(LEARNED,),
            of=lambda t, p: measure(imagenet_rows.own(t), "pretrained on a part"),
        ),
        Statement(
            f"{id}-imagenet", f"{text} ({imagenet_rows.NAME} from ImageNet).", requires=(FITTED,), **rule,
            of=lambda t, p: measure(imagenet_rows.trained(t), "pretrained"),
        ),
    ]  # fmt: skip


FITTED = Requirement(
    "training error of the worst network, %",
    lambda t, p: imagenet_rows.trained(t)["train_error"].max(),
    at_most=0,
)
STATEMENTS = [
    *_pretrained(
        "near", "Training on different targets from the same pre-trained weights ends closer together than "
        "training on one target from different starts: log2 of the ratio of the mean distances", near,
        headline=True,
    ),
    Statement(
        "near-shared", "Pre-training is not needed for that: training on different targets from the same "
        "random weights ends closer together than training on one target from different ones: log2.",
        source="Figure 4, Section 3", of=lambda t, p: near(imagenet_rows.own(t), "random, shared"), above=0,
        matters=0.14, unit="in log2", because="a tenth of the distance", ours=True,
    ),
    *_pretrained(
        "around", "Training ends closer to the pre-trained weights than to where training from scratch ends: "
        "log2", around,
    ),
    *_pretrained(
        "sources", "Training on one target from two pre-trainings ends farther apart than training on "
        "different targets from the same pre-training: log2", sources,
    )[:2],
]  # fmt: skip

SAID = by_verdict(
    "Ends of training on different targets lie together if they share a pre-trained start",
    "Ends of training on different targets lie apart although they share a pre-trained start",
    "Sharing a pre-trained start does not bring ends of training on different targets together",
    "sharing a pre-trained start brings ends of training on different targets together",
)
CONTROL = by_verdict(
    "Shared random weights bring them together, too", "Shared random weights leave them apart",
    "Shared random weights do not bring them together",
    undecided="Whether shared random weights do is undecided",
    not_judged="Whether shared random weights do is not judged",
)  # fmt: skip


def finding(table, parameters, claims):
    """How much nearer, from pre-trained and from shared random weights; words follow both verdicts."""
    own, shared = claims["near"], claims["near-shared"]
    if NOT_RUN in (own.outcome, shared.outcome):
        return "With fewer than two targets there is nothing to compare."
    text = f"{SAID[own.outcome]}: ends on one target from two starts lie "
    text += f"{2**own.measured:.1f} times as far apart"
    control = f"{CONTROL[shared.outcome]} ({2**shared.measured:.1f} times)"
    control += ", so this may only show how little weights move" * (own.outcome == shared.outcome == HOLDS)
    return sentences(text, control, "our networks are small")


# How Table 2, which trains the same networks, calls what they start from.
SETTINGS = {"fine-tuned": "pre-trained weights", "scratch": "random weights of their own"}


def training_errors(parameters):
    """Rows of ``train_error``, percent, at the end of networks trained alike, with their ``words``.

    From the results of Table 2, which records it; empty where it has none of such networks.
    """
    from alignbook.runs import engine, notebooks
    from alignbook.runs import parameters as of_pages

    book = notebooks.find("transferability/tab02_from_scratch")
    values = of_pages.resolve(book, "quick")
    alike = {name: parameters[name] for name in values if name in parameters}
    run = engine.load_values(book, values | alike | {"rate_targets": []})
    if run is None:
        return pd.DataFrame({"setting": [], "target": [], "train_error": []})
    rows = at(run.table, setting=list(SETTINGS))
    rows = rows[rows["step"] == rows["step"].max()]
    names = [name_of(*pair) for pair in zip(rows["dataset"], rows["part"], strict=True)]
    return rows.assign(target=names)


def errors_said(rows):
    """A sentence on the :func:`training_errors` of either start: the largest mean of a target."""
    if rows.empty:
        return "The training errors at the end have not been recorded."
    means, said = rows.groupby(["setting", "target"])["train_error"].mean(), []
    for setting, start in SETTINGS.items():
        worst = means[setting].idxmax()
        said.append(f"from {start} at most {means[setting, worst]:.1f} % ({words(worst)})")
    return f"Training errors at the end of networks trained in the same way: {' and '.join(said)}."


def key_numbers(table, parameters):
    """Mean distances of our own source."""
    table = imagenet_rows.own(table)
    told = {
        "distance between targets, same pre-trained start": within(table, "pretrained"),
        "distance between targets, same random start": within(table, "random, shared"),
        "distance between starts, same target": to(table, "pretrained", OWN),
    }
    return [KeyNumber(name, interval(values, "{:.1f}")) for name, values in told.items()]
