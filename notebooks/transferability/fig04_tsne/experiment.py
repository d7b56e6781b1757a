"""Where the minima lie: distances between the weights of networks trained on several targets (Figure 4).

The paper embeds the weights in the plane by t-SNE, which keeps neighbours and no distances. The distances
themselves are measured here, and the picture is made from them.
"""

import itertools

import numpy as np
import pandas as pd

from companion.jobs import arguments_of, jobs_over
from companion.studies.transferability.shared import imagenet_source
from companion.studies.transferability.shared.pretrained_source import source_jobs
from companion.studies.transferability.shared.targets import named, start_of, training_of
from companion.studies.transferability.shared.tuned import kernels, recorded, tuned

from .design import IMAGENET_STARTS, STARTS


def jobs(parameters):
    """One job per pair of targets (a target with itself, too) and seed."""
    made = []
    for one, two in itertools.combinations_with_replacement(parameters["targets"], 2):
        second = {"other": named(two)["dataset"], "other_part": named(two)["part"]}
        arguments = training_of(parameters) | start_of(parameters) | named(one) | second
        arguments |= arguments_of(parameters, "learning_rate scratch_rate part_epochs")
        seeds = range(parameters["seeds"])
        made += jobs_over(f"{one}-{two}-seed{{seed}}", compute, arguments, seed=seeds)
    return made + imagenet_jobs(parameters) + source_jobs(parameters)


def imagenet_jobs(parameters):
    """One job per pair of targets and seed, from weights trained on ImageNet and from random ones."""
    shared = imagenet_source.given(parameters, parameters["imagenet_epochs"])
    shared |= arguments_of(parameters, "learning_rate scratch_rate")
    made, seeds = [], range(parameters["imagenet_seeds"])
    for one, two in itertools.combinations_with_replacement(parameters["imagenet_targets"], 2):
        second = {"other": named(two)["dataset"], "other_part": named(two)["part"]}
        arguments = shared | named(one) | second
        made += jobs_over(f"imagenet-{one}-{two}-seed{{seed}}", imagenet_pairs, arguments, seed=seeds)
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
