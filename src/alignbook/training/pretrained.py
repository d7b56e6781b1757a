"""Networks pre-trained here, kept as checkpoints beside the results: trained once, then read.

The paper takes ResNet-50 pre-trained on ImageNet, on Places or on Food-101 (ICLR 2020 submission, Appendix
A). Here a small residual network is trained on an image set that is at hand.
"""

import math

import torch

from alignbook import checkpoints
from alignbook.data import colour32, digest, half, load, random_labels
from alignbook.seeding import torch_stream

from . import loop
from .fine_tune import crops_and_flips
from .nets import he_normal_layer_
from .resnet import Block, ResNet, conv_layers, fresh_head_

WARM_UP = 0.2  # of all steps, in which the rate of "one-cycle" rises


def pretrained(
    source,
    *,
    epochs,
    images=None,
    subset="all",
    labels="real",
    label_noise=0.0,
    width=32,
    blocks=1,
    stride=2,
    batch_size=64,
    learning_rate=0.1,
    schedule="one-cycle",
    regularised=True,
    checkpoints=None,
    seed,
    device="cpu",
    report=None,
):
    """A :class:`ResNet` trained on the image set ``source``; grey images count as :func:`colour32` ones.

    epochs : how often every image is seen. images : None for all, else so many of the (sub)set, chosen by
    ``seed``. subset : "all", or "natural" or "artificial", see :func:`alignbook.data.half`.
    labels : "real", or "random" (uniform, independent of the images).
    label_noise : share of the labels, in [0, 1], that are drawn anew, uniformly over all classes.
    width, blocks, stride : of the network. batch_size, learning_rate : of SGD with momentum 0.9.
    schedule : "one-cycle" raises the rate linearly over the first fifth of the steps to ``learning_rate``
    and lowers it along a cosine to 0; "constant" keeps it.
    regularised : whether images are cropped and flipped at random and weights decay, at 5·10⁻⁴.
    checkpoints : None, or epochs (0: before training) after which the network is kept.
    seed : of the weights, the order of the images and the labels. device : "cpu", "cuda".
    report : ``report(done, text)``, ``done`` in 0..1.

    Returns the trained network, or {epoch: network} for ``checkpoints``; in evaluation mode, on ``device``.
    Its head tells the classes of the source apart: put :func:`alignbook.training.resnet.fresh_head_` on.
    A checkpoint is read from the results store where there is one for the same arguments, data, kind of
    device and code, however it came there; a process that wants one which another is making waits for it.
    Raises Diverged, DataError and, for other arguments, ValueError.
    """
    choices = (
        ("labels", labels, ("real", "random")),
        ("schedule", schedule, ("one-cycle", "constant")),
        ("subset", subset, ("all", "natural", "artificial")),
    )
    for name, value, known in choices:
        if value not in known:
            raise ValueError(f"{name} is {value!r}; known: {', '.join(known)}")
    kept = sorted({epochs} if checkpoints is None else set(checkpoints))
    if not kept or not 0 <= kept[0] <= kept[-1] <= epochs:
        raise ValueError(f"checkpoints must be epochs from 0 to {epochs}, not {kept}")
    arguments = {
        "warm-up": WARM_UP,
        "source": source,
        "data": digest(source),
        "epochs": epochs,
        "images": images,
        "subset": subset,
        "labels": labels,
        "label_noise": label_noise,
        "width": width,
        "blocks": blocks,
        "stride": stride,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "schedule": schedule,
        "regularised": regularised,
        "checkpoints": kept,
        "seed": seed,
        "device": torch.device(device).type,
    }

    def train():
        x, y, classes = source_examples(source, images, subset, labels, label_noise, seed=seed)
        net = ResNet(
            classes, width=width, blocks=blocks, stride=stride, generator=torch_stream(seed, "pretrained")
        )
        return _train(
            net.to(device),
            x.to(device),
            y.to(device),
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            schedule=schedule,
            regularised=regularised,
            kept=kept,
            generator=torch_stream(seed, "pretrained", "batches"),
            report=report,
        )

    states = checkpoint(arguments, SOURCES, train)
    made = {}
    for epoch, state in states.items():
        net = ResNet(len(state["head.bias"]), width=width, blocks=blocks, stride=stride)
        net.load_state_dict(state)
        made[epoch] = net.to(device).eval()
    return made[epochs] if checkpoints is None else made


def checkpoint(arguments, sources, make):
    """What ``make()`` returns, read where it was kept under the same key: :func:`alignbook.checkpoints.kept`.

    sources : not used: the digest of the code says what counts. It stays in the calls until the results that
        they are part of are computed anew, since their text counts.
    """
    return checkpoints.kept(make, arguments)


def source_examples(source, images=None, subset="all", labels="real", label_noise=0.0, *, seed):
    """What :func:`pretrained` sees for these arguments: (x (N, 3, 32, 32), y (N,), number of classes)."""
    chosen = load(source)
    if subset != "all":
        chosen = half(chosen, subset)
    x, y, classes = chosen.x, chosen.y, len(chosen.classes)
    if images is not None:
        if not 1 <= images <= len(y):
            raise ValueError(f"images is {images}, but there are {len(y)}")
        index = torch.randperm(len(y), generator=torch_stream(seed, "pretrained", "images"))[:images]
        x, y = x[index], y[index]
    generator = torch_stream(seed, "pretrained", "labels")
    drawn = random_labels(len(y), classes, generator)
    share = 1.0 if labels == "random" else label_noise
    y = torch.where(torch.rand(len(y), generator=generator) < share, drawn, y)
    return colour32(x), y, classes


def _train(net, x, y, *, epochs, batch_size, learning_rate, schedule, regularised, kept, generator, report):
    """{epoch: state_dict}, tensors on the CPU."""
    states = {}
    net.to(memory_format=torch.channels_last).train()
    decay = 5e-4 if regularised else 0.0
    optimiser = torch.optim.SGD(net.parameters(), lr=learning_rate, momentum=0.9, weight_decay=decay)
    transform = (lambda batch: crops_and_flips(batch, generator)) if regularised else None
    per_epoch = len(x) // batch_size
    steps = epochs * per_epoch
    loop.train(
        loop.module_step(net, x, y, optimiser, transform=transform),
        len(x),
        batch_size=batch_size,
        epochs=epochs,
        rate=learning_rate if schedule == "constant" else lambda n: learning_rate * _rate((n - 1) / steps),
        last_batch="drop",
        generator=generator,
        device=x.device,
        at=[epoch * per_epoch for epoch in kept],
        on=lambda count: states.update({count // per_epoch: _copy(net)}),
        report=None if report is None else lambda done, text: report(done, f"pre-training: {text}"),
    )
    return states


def _rate(done):
    """Share of the peak's rate after the share ``done`` of the steps."""
    if done < WARM_UP:
        return max(done / WARM_UP, 0.02)
    return (1 + math.cos(math.pi * (done - WARM_UP) / (1 - WARM_UP))) / 2


def _copy(net):
    return {
        name: value.detach().to("cpu", copy=True).contiguous() for name, value in net.state_dict().items()
    }


# What calls of checkpoint() still name.
LOOP = (loop.train, loop.module_step)
NETWORK = (Block, ResNet, conv_layers, fresh_head_, he_normal_layer_)
SOURCES = (source_examples, _train, *LOOP, _rate, crops_and_flips, *NETWORK)
