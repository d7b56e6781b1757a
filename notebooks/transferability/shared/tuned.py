"""Networks transferred to a target, kept with their start: several notebooks look at the same ones.

Table 1 follows their weights, Table 2 those trained from scratch, Figure 3 the minima that they reach and
Figure 4 where these lie.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch

from alignbook.data import colour32, digest, half, load
from alignbook.metrics.weight_deviation import weight_deviation
from alignbook.seeding import torch_stream
from alignbook.training.fine_tune import accuracy_and_loss, features_of, fine_tune
from alignbook.training.pretrained import SOURCES, checkpoint, pretrained
from alignbook.training.resnet import ResNet, fresh_head_

TEST_IMAGES = 2000  # of a target's test images, on which errors are measured
# Of the steps, with a row each.
SHARES = (0, 1 / 24, 1 / 12, 1 / 6, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8, 1)


def recorded(steps):
    """The step counts at which the notebooks record a run of ``steps`` steps; ascending."""
    return sorted({round(share * steps) for share in SHARES})


@dataclass(frozen=True)
class Tuned:
    """A network before and after training on a target, and what was measured on the way.

    before, after : networks in evaluation mode on the CPU; rows : list of dicts, one per recorded step:
    ``step``, ``deviation`` (Σ_l ‖W_l − W_l(0)‖_F / √n, see :func:`weight_deviation`), ``train_loss``,
    ``train_error``, ``test_loss``, ``test_error`` (losses in nats, errors in percent); steps : how many
    were taken.
    """

    before: ResNet
    after: ResNet
    rows: list
    steps: int


def target(dataset, examples, seed, part="all"):
    """(x, y, x_test, y_test, classes): ``examples`` training images, drawn by ``seed``, as 32×32 colour.

    part : "all", "natural" or "artificial" (:func:`alignbook.data.half`). Of the test images the first
    ``TEST_IMAGES``. Raises ValueError where there are fewer training images.
    """
    test = load(dataset, "test")
    if part == "all":
        train = load(dataset, n=examples, seed=seed)
        x, y = train.x, train.y
    else:
        train, test = half(load(dataset), part), half(test, part)
        if examples > len(train.y):
            raise ValueError(f"examples is {examples}, but {dataset}, {part}, has {len(train.y)} images")
        chosen = torch.randperm(len(train.y), generator=torch_stream(seed, "target", dataset))[:examples]
        x, y = train.x[chosen], train.y[chosen]
    return colour32(x), y, colour32(test.x[:TEST_IMAGES]), test.y[:TEST_IMAGES], len(test.classes)


def tuned(
    dataset,
    *,
    part="all",
    examples,
    start,
    source,
    subset="all",
    pretrain_epochs,
    pretrain_images=None,
    width,
    blocks,
    steps,
    learning_rate,
    decay_at=(),
    augment=False,
    fixed=False,
    stop_at_loss=None,
    batch_size=32,
    record=(),
    seed,
    device="cpu",
    report=None,
):
    """A :class:`Tuned` network: ``start`` "pretrained" on ``source``, or random, trained on ``dataset``.

    start : "pretrained"; "scratch", random weights that no other target starts from; "shared", the random
    weights, but for the head, from which every target of this seed starts.

    source, subset, pretrain_epochs, pretrain_images : see :func:`pretrained`; not used from scratch.
    record : steps at which rows are measured; the start (0) and the end always are.
    The other arguments are those of :func:`fine_tune`. Kept as :func:`checkpoint` does.
    Raises Diverged, DataError, and ValueError for another ``start``.
    """
    if start not in ("pretrained", "scratch", "shared"):
        raise ValueError(f"start is {start!r}; known: pretrained, scratch, shared")
    own = start != "pretrained"
    record = sorted({0, *(step for step in record if step < steps), steps})

    def initial(classes, share):
        if own:
            named = (dataset, part) if start == "scratch" else ("shared",)
            generator = torch_stream(seed, "scratch", *named)
            return ResNet(classes, width=width, blocks=blocks, generator=generator).eval()
        net = pretrained(
            source,
            epochs=pretrain_epochs,
            images=pretrain_images,
            subset=subset,
            width=width,
            blocks=blocks,
            seed=seed,
            device=device,
            report=None if report is None else lambda done, text: report(share * done, text),
        ).cpu()
        return fresh_head_(net, classes, torch_stream(seed, "head", dataset, part)).eval()

    def train():
        *images, classes = target(dataset, examples, seed, part)
        x, y, x_test, y_test = (tensor.to(device) for tensor in images)
        before = initial(classes, 0.5)
        start_state = {name: value.clone() for name, value in before.state_dict().items()}
        net, rows = before.to(device), []

        def on(step, net):
            fit, test = accuracy_and_loss(net, x, y), accuracy_and_loss(net, x_test, y_test)
            rows.append(
                {
                    "step": step,
                    "deviation": weight_deviation(start_state, net.cpu(), n=examples).total,
                    "train_loss": fit[1],
                    "train_error": 100 * (1 - fit[0]),
                    "test_loss": test[1],
                    "test_error": 100 * (1 - test[0]),
                }
            )
            net.to(device)

        taken = fine_tune(
            net,
            x,
            y,
            steps=steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            decay_at=decay_at,
            augment=augment,
            fixed=fixed,
            stop_at_loss=stop_at_loss,
            generator=torch_stream(seed, "fine-tuning", dataset, part, start),
            at=record,
            on=on,
            report=None if report is None else lambda done, text: report(0.5 + done / 2, text),
        )
        if rows[-1]["step"] != taken:
            on(taken, net)
        after = {name: value.cpu().contiguous() for name, value in net.state_dict().items()}
        return {"before": start_state, "after": after, "rows": rows, "steps": taken}

    arguments = {
        "dataset": dataset,
        "data": digest(dataset),
        "part": part,
        "examples": examples,
        "test_images": TEST_IMAGES,
        "start": start,
        "source": None if own else [source, digest(source), subset, pretrain_epochs, pretrain_images],
        "network": [width, blocks],
        "steps": steps,
        "learning_rate": learning_rate,
        "decay_at": list(decay_at),
        "augment": augment,
        "fixed": fixed,
        "stop_at_loss": stop_at_loss,
        "batch_size": batch_size,
        "record": record,
        "seed": seed,
        "device": torch.device(device).type,
    }
    sources = (*SOURCES, pretrained, fine_tune, target, features_of, weight_deviation, tuned)
    kept = checkpoint(arguments, sources, train)
    nets = []
    for name in ("before", "after"):
        net = ResNet(len(kept[name]["head.bias"]), width=width, blocks=blocks)
        net.load_state_dict(kept[name])
        nets.append(net.eval())
    return Tuned(*nets, kept["rows"], kept["steps"])


def started(
    start, classes, name, source, pretrain_epochs, pretrain_images, width, blocks, seed, device, report
):
    """The network before training on the target ``name`` (image set, part): that of :func:`tuned.tuned`.

    start : "pretrained" on ``source``, under a new head, or "scratch".
    """
    if start == "scratch":
        generator = torch_stream(seed, "scratch", *name)
        return ResNet(classes, width=width, blocks=blocks, generator=generator).to(device)
    net = pretrained(
        source,
        epochs=pretrain_epochs,
        images=pretrain_images,
        width=width,
        blocks=blocks,
        seed=seed,
        device=device,
        report=report,
    )
    return fresh_head_(net, classes, torch_stream(seed, "head", *name))


def kernels(net):
    """All convolution kernels of ``net`` in one vector, float64."""
    return np.concatenate(
        [
            value.detach().double().cpu().numpy().ravel()
            for name, value in net.state_dict().items()
            if value.ndim == 4
        ]
    )


def head_deviation(found, n):
    """(1/√n) ‖W − W(0)‖_F of the head of a Tuned network."""
    return weight_deviation(found.before, found.after).layers["head.weight"] / math.sqrt(n)
