"""Where the minima lie: distances between the weights of networks trained on several targets (Figure 4).

The paper embeds the weights in the plane by t-SNE, which keeps neighbours and no distances. The distances
themselves are measured here, and the picture is made from them.
"""

import itertools
import math

import numpy as np
import pandas as pd

from alignbook.claims import Claim, KeyNumber, interval
from alignbook.experiments import Unit
from alignbook.studies.transferability import imagenet_source
from alignbook.studies.transferability.tab01_weight_deviation.experiment import source_units
from alignbook.studies.transferability.targets import named, start_of, training_of
from alignbook.studies.transferability.tuned import kernels, recorded, tuned

HEADLINE = "near"
WHERE = "Figure 4, Section 3"
SOURCES = "Each pre-training has a group of minima of its own."
# The start's name: how it is made. The second source is a part of the first (in place of Places).
STARTS = {
    "pretrained": ("pretrained", "all"),
    "pretrained on a part": ("pretrained", "artificial"),
    "random, its own": ("scratch", "all"),
    "random, shared": ("shared", "all"),
}
# The same for EfficientNet-Lite0, which has no source like Places.
IMAGENET_STARTS = {"pretrained": "pretrained", "random, its own": "scratch"}
OTHER_SOURCE = {"pretrained": "pretrained on a part", "pretrained on a part": "pretrained"}


def units(parameters):
    """One unit per pair of targets (a target with itself, too) and seed."""
    made = []
    for one, two in itertools.combinations_with_replacement(parameters["targets"], 2):
        second = {"other": named(two)["dataset"], "other_part": named(two)["part"]}
        arguments = training_of(parameters) | start_of(parameters) | named(one) | second
        arguments |= {
            "learning_rate": parameters["learning_rate"],
            "scratch_rate": parameters["scratch_rate"],
            "part_epochs": parameters["part_epochs"],
        }
        for seed in range(parameters["seeds"]):
            made.append(Unit(f"{one}-{two}-seed{seed}", compute, arguments | {"seed": seed}))
    return made + imagenet_units(parameters) + source_units(parameters)


def imagenet_units(parameters):
    """One unit per pair of targets and seed, from weights trained on ImageNet and from random ones."""
    shared = imagenet_source.given(parameters, parameters["imagenet_epochs"]) | {
        "learning_rate": parameters["learning_rate"],
        "scratch_rate": parameters["scratch_rate"],
    }
    made = []
    for one, two in itertools.combinations_with_replacement(parameters["imagenet_targets"], 2):
        second = {"other": named(two)["dataset"], "other_part": named(two)["part"]}
        for seed in range(parameters["seeds"]):
            arguments = shared | named(one) | second | {"seed": seed}
            made.append(Unit(f"imagenet-{one}-{two}-seed{seed}", imagenet_pairs, arguments))
    return made


def compute(
    *,
    dataset,
    part,
    other,
    other_part,
    learning_rate,
    scratch_rate,
    pretrain_epochs,
    pretrain_images,
    part_epochs,
    steps,
    decay_at,
    seed,
    device,
    report,
    **given,
):
    """Distances between the networks of two targets, from every start, after training.

    Columns ``start``, ``other_start`` (of :data:`STARTS`), ``distance``: ‖W − W'‖ over all convolution
    kernels in one vector, heads left out (targets differ in their classes). For a target with itself each
    pair of starts once, and ``moved``: the distance of a network from its own start; ``norm`` of it.
    """
    pairs = {}
    for number, (start, (kind, subset)) in enumerate(STARTS.items()):
        for image_set, its_part in {(dataset, part), (other, other_part)}:
            whole = subset == "all"
            found = tuned(
                image_set,
                part=its_part,
                start=kind,
                subset=subset,
                pretrain_epochs=pretrain_epochs if whole else part_epochs,
                pretrain_images=pretrain_images if whole else None,
                steps=steps,
                decay_at=tuple(decay_at),
                learning_rate=learning_rate if kind == "pretrained" else scratch_rate,
                record=recorded(steps),
                seed=seed,
                device=device,
                report=lambda done, text, number=number: report((number + done) / len(STARTS), text),
                **given,
            )
            pairs[start, image_set, its_part] = (kernels(found.before), kernels(found.after))
    same = (dataset, part) == (other, other_part)
    rows = []
    for start, other_start in itertools.product(STARTS, repeat=2):
        before, one = pairs[start, dataset, part]
        two = pairs[other_start, other, other_part][1]
        row = {"start": start, "other_start": other_start, "distance": float(np.linalg.norm(one - two))}
        if same and start == other_start:
            row |= {"moved": float(np.linalg.norm(one - before)), "norm": float(np.linalg.norm(one))}
        rows.append(row)
    return pd.DataFrame(rows)


def imagenet_pairs(
    *, dataset, part, other, other_part, learning_rate, scratch_rate, seed, device, report, **given
):
    """Distances as :func:`compute` has them, from the :data:`IMAGENET_STARTS` of EfficientNet-Lite0.

    Beside ``moved`` also ``train_error``: how many of its training images the network has wrong, in percent.
    """
    ends = {}
    for number, (start, kind) in enumerate(IMAGENET_STARTS.items()):
        for image_set, its_part in {(dataset, part), (other, other_part)}:
            found = imagenet_source.imagenet_tuned(
                image_set,
                part=its_part,
                start=kind,
                learning_rate=learning_rate if kind == "pretrained" else scratch_rate,
                seed=seed,
                device=device,
                report=lambda done, text, number=number: report((number + done) / len(IMAGENET_STARTS), text),
                **given,
            )
            wrong = found.rows[-1]["train_error"]
            ends[start, image_set, its_part] = (kernels(found.before), kernels(found.after), wrong)
    rows = []
    for start, other_start in itertools.product(IMAGENET_STARTS, repeat=2):
        before, one, wrong = ends[start, dataset, part]
        two = ends[other_start, other, other_part][1]
        row = {"start": start, "other_start": other_start, "distance": float(np.linalg.norm(one - two))}
        if (dataset, part) == (other, other_part) and start == other_start:
            row |= {"moved": float(np.linalg.norm(one - before)), "norm": float(np.linalg.norm(one))}
            row["train_error"] = wrong
        rows.append(row)
    return pd.DataFrame(rows)


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
    table = table[table["distance"].notna()]

    def name(dataset, part):
        return [d if p == "all" else f"{d}-{p}" for d, p in zip(dataset, part, strict=True)]

    return table.assign(
        target=name(table["dataset"], table["part"]),
        other_target=name(table["other"], table["other_part"]),
    )


def embedded(matrix, perplexity, seed):
    """t-SNE (scikit-learn) of a matrix of distances: (n, 2). ``perplexity`` at most n - 1."""
    from sklearn.manifold import TSNE

    chosen = min(perplexity, len(matrix) - 1)
    return TSNE(
        metric="precomputed", init="random", perplexity=chosen, learning_rate="auto", random_state=seed
    ).fit_transform(matrix)


def summary(table):
    """One row per seed and start: mean distances, each over targets.

    within : between different targets, same start; across : to the network of the same target that started
    from random weights of its own; sources : to the network of the same target from the other pre-training;
    moved : to its own start; norm : of all kernels in one vector.
    """
    rows = with_targets(table)
    same_target = rows["target"] == rows["other_target"]
    result = []
    for (seed, start), own in rows.groupby(["seed", "start"]):
        within = own[(own["other_start"] == start) & (own["target"] != own["other_target"])]
        across = own[same_target.loc[own.index] & (own["other_start"] == "random, its own")]
        result.append(
            {
                "seed": seed,
                "start": start,
                "within": within["distance"].mean(),
                "across": across["distance"].mean() if start != "random, its own" else math.nan,
                "sources": own.loc[
                    same_target.loc[own.index] & (own["other_start"] == OTHER_SOURCE.get(start)), "distance"
                ].mean(),
                "moved": own["moved"].mean(),
                "norm": own["norm"].mean(),
            }
        )
    return pd.DataFrame(result)


def _values(table, start, measure):
    if table.empty:
        return []
    rows = summary(table)
    values = measure(rows[rows["start"] == start])
    return [value for value in values if math.isfinite(value)]


def _near(rows):
    return np.log2(rows["across"] / rows["within"])


def claims(table, parameters):
    """Distances compared as base-2 logarithms of ratios of means over targets, one per seed."""
    made, second, table = [], imagenet_source.trained(table), imagenet_source.own(table)
    near = (
        "From the same pre-trained weights, minima of different targets lie nearer to each other than two of "
    )
    near += "the same target from different starts."
    around = "Minima lie nearer to the pre-trained weights than to the minimum of training from scratch."
    for number, start in enumerate(("pretrained", "pretrained on a part")):
        suffix = "" if number == 0 else "-part"
        where = f"{start}; log2 of the ratio of the two mean distances"
        made += [
            _greater(f"near{suffix}", f"{near} ({where})", _values(table, start, _near)).tagged(near),
            _greater(
                f"around{suffix}",
                f"{around} ({where})",
                _values(table, start, lambda rows: np.log2(rows["across"] / rows["moved"])),
            ).tagged(around),
        ]
        sources = (
            "Of one target, minima from the two pre-trainings lie farther apart than those of different "
            f"targets from one of them ({where})"
        )
        values = _values(table, start, lambda rows: np.log2(rows["sources"] / rows["within"]))
        made.append(_greater(f"sources{suffix}", sources, values).tagged(SOURCES))
    made.append(
        _greater(
            "near-shared",
            "Pre-training is not needed: from the same random weights, too, minima of different targets lie "
            "nearer to each other than to that of the same target from others (log2 of the ratio).",
            _values(table, "random, shared", _near),
        ).tagged(ours=True)
    )
    where = f"{imagenet_source.NAME} trained on ImageNet; log2 of the ratio of the two mean distances"
    for id, group, measure in (
        ("near", near, _near),
        ("around", around, lambda rows: np.log2(rows["across"] / rows["moved"])),
    ):
        about = (f"{id}-imagenet", f"{group} ({where})")
        if second.empty:
            claim = Claim.missing(*about, WHERE, "no weights trained on ImageNet are among the results")
        else:
            claim = _greater(*about, _values(second, "pretrained", measure))
            if not arrived(second):
                claim = claim.not_judged("not every network has all its training images right in evaluation")
        made.append(claim.tagged(group))
    return made


def arrived(second):
    """Whether all networks of the second source have all their training images right."""
    return bool((second["train_error"].dropna() == 0).all())


def _greater(id, statement, values):
    if not values:
        return Claim.missing(id, statement, WHERE, "fewer than two targets")
    return Claim.greater(id, statement, WHERE, values)


def finding(table, parameters):
    """How much nearer, from pre-trained and from shared random weights."""
    second, table = imagenet_source.trained(table), imagenet_source.own(table)
    near, part, shared = (
        [2**value for value in _values(table, start, _near)]
        for start in ("pretrained", "pretrained on a part", "random, shared")
    )
    if not near:
        return "Fewer than two targets: there is nothing to compare."
    said = (
        f"Networks of one target from two starts lie {interval(near, '{:.1f}')} times as far apart as those "
        f"of two targets from one, pre-trained on {parameters['source']} (for ImageNet); on its artificial "
        f"part (for Places) {interval(part, '{:.1f}')}, from the same random weights "
        f"{interval(shared, '{:.1f}')}"
    )
    trained = [2**value for value in _values(second, "pretrained", _near)]
    if trained and arrived(second):
        said += f", in {imagenet_source.NAME} from ImageNet {interval(trained, '{:.0f}')}"
    return f"{said}."


def key_numbers(table, parameters):
    """Mean distances of our own source, seed by seed."""
    table = imagenet_source.own(table)
    if table.empty:
        return []
    rows = summary(table)
    own = rows[rows["start"] == "pretrained"]
    named = {
        "within": "distance between targets, same pre-trained start",
        "across": "distance between starts, same target",
        "moved": "distance from the pre-trained weights",
    }
    return [KeyNumber(name, interval(own[column].dropna(), "{:.1f}")) for column, name in named.items()]
