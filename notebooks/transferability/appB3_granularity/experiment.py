"""Coarse against fine targets of one image set, fine-tuned and from scratch (Appendix B.3).

A seed draws k superclasses and orders the k classes of each: a grid with a row per superclass. Targets of k
labels are cut from it: "coarse", all classes, labelled by superclass; "fine", those of one row; "distant",
those of one column. All have equally many images.
"""

import pandas as pd
import torch

from alignbook.data import colour32, load
from alignbook.data.superclasses import SUPERCLASSES
from alignbook.errors import AlignbookError
from alignbook.metrics.weight_deviation import weight_deviation
from alignbook.seeding import torch_stream
from alignbook.training.fine_tune import accuracy_and_loss, fine_tune
from companion.jobs import jobs_over
from companion.studies.transferability.shared.pretrained_source import source_jobs
from companion.studies.transferability.shared.targets import STARTS, start_of, training_of
from companion.studies.transferability.shared.tuned import started

from .design import KINDS


def jobs(parameters):
    """One job per kind of target and seed, and the accuracy of each seed's source.

    Raises AlignbookError where targets of a kind would be the same, or lack a class.
    """
    k, images = parameters["labels"], min(parameters["examples"], parameters["test_images"])
    if parameters["draws"] > k or images < k * k:
        raise AlignbookError(f"with {k} labels, draws are at most {k} and images at least {k * k}")
    names = ("dataset", "labels", "draws", "test_images", "learning_rate")
    shared = {name: parameters[name] for name in names} | training_of(parameters) | start_of(parameters)
    made = jobs_over("{kind}-seed{seed}", compute, shared, seed=range(parameters["seeds"]), kind=KINDS)
    return made + source_jobs(parameters)


def compute(
    *, dataset, kind, labels, draws, examples, test_images, source, pretrain_epochs, pretrain_images, width,
    blocks, steps, decay_at, batch_size, learning_rate, seed, device, report,
):  # fmt: skip
    """Train on ``draws`` targets of ``kind``, each from the pre-trained network and from random weights.

    A row per target (``draw``) and ``start``: ``train_error`` and ``test_error`` at the end of training, in
    percent, and ``deviation`` from the start. Both starts see the same images in the same order.
    """
    rows, found = grid(dataset, labels, seed), []
    train, test = load(dataset), load(dataset, "test")
    length = (source, pretrain_epochs, pretrain_images, width, blocks, seed, device)
    for draw in range(draws):
        seen = chosen(train, rows, kind, draw, examples, seed, device)
        unseen = chosen(test, rows, kind, draw, test_images, seed, device)
        for start in STARTS:
            net = started(start, labels, (dataset, kind, draw), *length, report)
            before = {name: value.clone() for name, value in net.state_dict().items()}
            order = torch_stream(seed, "granularity", "order", kind, draw)
            fine_tune(
                net, *seen, steps=steps, batch_size=batch_size, learning_rate=learning_rate,
                decay_at=tuple(decay_at), generator=order,
            )  # fmt: skip
            errors = [100 * (1 - accuracy_and_loss(net, *images)[0]) for images in (seen, unseen)]
            found.append((draw, start, *errors, weight_deviation(before, net, n=examples).total))
            report(len(found) / (draws * len(STARTS)), f"{kind} target {draw + 1}: {start}")
    columns = ["draw", "start", "train_error", "test_error", "deviation"]
    return pd.DataFrame(found, columns=columns).assign(kind=kind)


def grid(dataset, k, seed):
    """``k`` superclasses of ``dataset``, drawn by ``seed``: a list of lists of ``k`` class names."""
    generator, groups = torch_stream(seed, "granularity", "classes"), list(SUPERCLASSES[dataset].values())
    drawn = [groups[place] for place in torch.randperm(len(groups), generator=generator)[:k]]
    return [[row[place] for place in torch.randperm(len(row), generator=generator)[:k]] for row in drawn]


def labelled(rows, kind, draw):
    """{class: label} of the target number ``draw`` of a kind, for the ``rows`` of :func:`grid`."""
    if kind == "coarse":
        return {name: label for label, row in enumerate(rows) for name in row}
    names = rows[draw] if kind == "fine" else [row[draw] for row in rows]
    return {name: label for label, name in enumerate(names)}


def chosen(images, rows, kind, draw, count, seed, device):
    """(x (n, 3, 32, 32), y (n,)): about ``count`` of ``images``, as many of each class of the target.

    Targets of one kind share no image. Raises AlignbookError where a class has too few.
    """
    labels = labelled(rows, kind, draw)
    each = count // len(labels)
    first = draw * each if kind == "coarse" else 0
    order, places = torch.randperm(len(images), generator=torch_stream(seed, "granularity", "images")), []
    for name in labels:
        places.append(order[images.y[order] == images.classes.index(name)][first : first + each])
        if len(places[-1]) < each:
            raise AlignbookError(f"{images.name} has too few images of {name} for targets of {count}")
    y = torch.tensor(list(labels.values())).repeat_interleave(each)
    return colour32(images.x[torch.cat(places)]).to(device), y.to(device)
