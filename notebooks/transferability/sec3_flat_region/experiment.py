"""The source's loss on the line from its weights to fine-tuned ones, and on a random line (Section 3).

All parameters of the feature extractor move, batch norm's scales and shifts included; the head stays.
On the random line every filter moves as far as on the fine-tuned one.
"""

import copy

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.data import colour32, load
from alignbook.metrics.landscape import batch_norm, loss_at
from alignbook.seeding import torch_stream
from alignbook.training.fine_tune import accuracy_and_loss, fine_tune
from alignbook.training.pretrained import pretrained, source_examples
from alignbook.training.resnet import fresh_head_
from companion.jobs import Job
from companion.studies.transferability.shared.targets import start_of, training_of
from companion.studies.transferability.shared.tuned import TEST_IMAGES, kernels

HELD_OUT = "held-out"  # the target of the source's own classes: test images, which it has not seen
CLASSES = 10  # of every target, so that all heads are alike
SHARES = np.linspace(0, 1, 11)  # of the line
MODES = {"batch": "train", "kept": "eval"}  # whose statistics batch norm takes, and its mode


def jobs(parameters):
    """One job per target and seed."""
    shared = start_of(parameters) | training_of(parameters)
    shared |= {name: parameters[name] for name in ("learning_rate", "images", "regularised")}
    made = []
    for name in (*parameters["similar"], *parameters["unlike"]):
        own = {"target": name, "dataset": parameters["source"] if name == HELD_OUT else name}
        for seed in range(parameters["seeds"]):
            made.append(Job(f"{name}-seed{seed}", lines, shared | own | {"seed": seed}))
    return made


def lines(
    *, target, dataset, source, pretrain_epochs, pretrain_images, regularised, width, blocks, examples,
    batch_size, learning_rate, steps, decay_at, images, seed, device, report,
):  # fmt: skip
    """Rows of ``line`` ("tuned", "random"), ``statistics``, ``share`` of the line and ``loss`` of the source.

    statistics : "batch", batch norm normalises with those of the source's ``images`` themselves; "kept", with
    the running ones of pre-training. In every row: ``classes`` of the source, its ``source_accuracy`` on test
    images and ``source_train_accuracy`` on ``images`` of pre-training, the target's ``train_error`` after
    fine-tuning (all in percent) and ``moved``, ‖W − W(0)‖ over ‖W(0)‖ of all convolution kernels.
    """
    net = pretrained(
        source, epochs=pretrain_epochs, images=pretrain_images, width=width, blocks=blocks,
        regularised=regularised, seed=seed, device=device, report=lambda done, text: report(done / 2, text),
    )  # fmt: skip
    x, y = (value.to(device) for value in target_images(target, dataset, examples, seed))
    tuned = fresh_head_(copy.deepcopy(net), CLASSES, torch_stream(seed, "flat region", "head", target))
    fine_tune(
        tuned, x, y, steps=steps, batch_size=batch_size, learning_rate=learning_rate,
        decay_at=tuple(decay_at), generator=torch_stream(seed, "flat region", "fine-tuning", target),
        report=lambda done, text: report(0.5 + 0.4 * done, text),
    )  # fmt: skip
    test = load(source, "test")
    x_test, y_test = colour32(test.x[:TEST_IMAGES]).to(device), test.y[:TEST_IMAGES].to(device)
    x_source, y_source, _ = source_examples(source, pretrain_images, seed=seed)
    x_source, y_source = x_source[:images].to(device), y_source[:images].to(device)
    start = kernels(net)
    about = {
        "classes": len(test.classes),
        "source_accuracy": 100 * accuracy_and_loss(net, x_test, y_test)[0],
        "source_train_accuracy": 100 * accuracy_and_loss(net, x_source, y_source)[0],
        "train_error": 100 * (1 - accuracy_and_loss(tuned, x, y)[0]),
        "moved": np.linalg.norm(kernels(tuned) - start) / np.linalg.norm(start),
    }
    ends = dict(tuned.named_parameters())
    way = {
        name: (ends[name] - value).detach()
        for name, value in net.named_parameters()
        if not name.startswith("head.")
    }
    ways = {"tuned": way, "random": random_like(way, torch_stream(seed, "flat region", "random", target))}
    rows = [
        {"line": line, "statistics": statistics, "share": round(float(share), 9), "loss": loss}
        for line, direction in ways.items()
        for statistics, mode in MODES.items()
        for share, loss in losses(net, direction, x_source, y_source, mode)
    ]
    report(1.0, "the lines")
    return pd.DataFrame(rows).assign(**about)


def target_images(target, dataset, examples, seed):
    """(x (examples, 3, 32, 32), y in 0..9) of ``CLASSES`` classes of a target, drawn by ``seed``."""
    chosen = load(dataset, "test" if target == HELD_OUT else "train")
    generator = torch_stream(seed, "flat region", target)
    classes = torch.randperm(len(chosen.classes), generator=generator)[:CLASSES].sort().values
    among = torch.isin(chosen.y, classes).nonzero()[:, 0]
    if examples > len(among):
        raise ValueError(f"examples is {examples}, but {target} has {len(among)} in {CLASSES} classes")
    drawn = among[torch.randperm(len(among), generator=generator)[:examples]]
    return colour32(chosen.x[drawn]), torch.searchsorted(classes, chosen.y[drawn])


def random_like(way, generator):
    """{name: Gaussian values}: each filter, and each of batch norm's vectors, as long as in ``way``."""
    made = {}
    for name, part in way.items():
        rows = part.cpu().double().reshape(len(part) if part.ndim > 1 else 1, -1)
        drawn = torch.randn(rows.shape, generator=generator, dtype=torch.float64)
        drawn *= rows.norm(dim=1, keepdim=True) / drawn.norm(dim=1, keepdim=True)
        made[name] = drawn.view(part.shape).to(part)
    return made


@torch.no_grad()
def losses(net, way, x, y, mode):
    """[(share, mean cross-entropy of ``net`` on ``x``, ``y`` at θ + share · way)]; batch norm in ``mode``."""
    parameters = dict(net.named_parameters())
    found = []
    with batch_norm(net, mode):
        for share in SHARES:
            moved = {name: parameters[name] + float(share) * part for name, part in way.items()}
            point = {**parameters, **moved}
            found.append((share, loss_at(net, point, nn.functional.cross_entropy, x, y)))
    return found
