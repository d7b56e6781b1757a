"""A second source: EfficientNet-Lite0 trained on ImageNet. The paper's images, but not its ResNet-50.

Table 1 and Figures 4 and 5 show it beside our own pre-training. Its images are brought to 96×96, each step
is dear, and so its targets have fewer images and its runs fewer steps than ours.
"""

import torch
from torch import nn

from alignbook.data import digest
from alignbook.metrics.landscape import batch_norm
from alignbook.metrics.weight_deviation import weight_deviation
from alignbook.seeding import torch_stream
from alignbook.training.fine_tune import accuracy_and_loss, fine_tune
from alignbook.training.imagenet import ImageNetNetwork, imagenet_network
from alignbook.training.pretrained import SOURCES, checkpoint
from alignbook.training.resnet import ResNet, conv_layers, fresh_head_
from companion.studies.transferability.shared.tuned import Tuned, recorded, target

STAND_IN = 8  # width of the network that stands in where the weights are not installed
# Of batch norm's running statistics, as PyTorch's ResNet-50 has it. The package's own 0.01 is for training of
# many thousands of steps: after the few here the statistics would still be those of ImageNet's images.
MOMENTUM = 0.1


def given(parameters, epochs):
    """Weights, images, batches and steps of ``epochs`` passes over a target, as arguments of a job."""
    return {
        "weights": parameters["imagenet_weights"],
        "examples": parameters["imagenet_examples"],
        "test_images": parameters["imagenet_test_images"],
        "batch_size": parameters["batch_size"],
        "steps": epochs * (parameters["imagenet_examples"] // parameters["batch_size"]),
    }


def initial(weights, start, dataset, part, classes, seed):
    """A network before training on a target: evaluation mode, ``features``, a new ``head``.

    weights : "imagenet", or "random": a small network in place of it that has learned nothing, to try the
    code where the weights are not installed. start : "pretrained"; "scratch", random weights that no other
    target starts from; "shared", those from which every target of this seed starts.
    Raises AlignbookError where the weights are not installed, ValueError for another start.
    """
    streams = {
        "pretrained": (0, "imagenet", "in its place"),
        "scratch": (seed, "imagenet", "scratch", dataset, part),
        "shared": (seed, "imagenet", "shared"),
    }
    if start not in streams:
        raise ValueError(f"start is {start!r}; known: {', '.join(streams)}")
    generator = torch_stream(*streams[start])
    if weights == "imagenet":
        net = imagenet_network(pretrained=start == "pretrained", generator=generator)
    else:
        net = ResNet(classes, width=STAND_IN, generator=generator)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = MOMENTUM
    return fresh_head_(net, classes, torch_stream(seed, "head", dataset, part)).eval()


def images_of(dataset, part, examples, test_images, seed):
    """(x, y, x_test, y_test, classes) as :func:`target`, of its test images the first ``test_images``."""
    x, y, x_test, y_test, classes = target(dataset, examples, seed, part)
    return x, y, x_test[:test_images], y_test[:test_images], classes


def imagenet_tuned(
    dataset,
    *,
    part,
    weights,
    start,
    examples,
    test_images,
    steps,
    batch_size,
    learning_rate,
    stop_at_loss=None,
    seed,
    device="cpu",
    report=None,
):
    """A :class:`Tuned` network: :func:`initial`, all of it trained on ``dataset`` at a constant rate.

    Its rows hold ``step`` and ``deviation``, the last one losses and errors, too. Arguments as those of
    ``fine_tune``; kept as :func:`checkpoint` does. Raises Diverged, DataError, AlignbookError, ValueError.
    """

    def train():
        *images, classes = images_of(dataset, part, examples, test_images, seed)
        x, y, x_test, y_test = (tensor.to(device) for tensor in images)
        net = initial(weights, start, dataset, part, classes, seed)
        before = {name: value.clone() for name, value in net.state_dict().items()}
        net, rows = net.to(device), []

        def on(step, net):
            moved = weight_deviation(before, net, n=examples).total
            rows.append({"step": step, "deviation": moved})

        taken = fine_tune(
            net,
            x,
            y,
            steps=steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            stop_at_loss=stop_at_loss,
            generator=torch_stream(seed, "fine-tuning", dataset, part, start),
            at=recorded(steps),
            on=on,
            report=report,
        )
        if rows[-1]["step"] != taken:
            on(taken, net)
        fit, test = accuracy_and_loss(net, x, y), accuracy_and_loss(net, x_test, y_test)
        rows[-1] |= {"train_loss": fit[1], "train_error": 100 * (1 - fit[0])}
        rows[-1] |= {"test_loss": test[1], "test_error": 100 * (1 - test[0])}
        after = {name: value.cpu().contiguous() for name, value in net.state_dict().items()}
        return {"after": after, "rows": rows, "steps": taken}

    arguments = {
        "dataset": dataset,
        "data": digest(dataset),
        "part": part,
        "weights": weights,
        "start": start,
        "examples": examples,
        "test_images": test_images,
        "steps": steps,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "stop_at_loss": stop_at_loss,
        "momentum": MOMENTUM,
        "seed": seed,
        "device": str(device).partition(":")[0],
    }
    sources = (*SOURCES, ImageNetNetwork, imagenet_network, initial, imagenet_tuned, fine_tune, target)
    kept = checkpoint(arguments, (*sources, accuracy_and_loss, weight_deviation), train)
    classes = len(kept["after"]["head.bias"])
    before, after = (initial(weights, start, dataset, part, classes, seed) for _ in range(2))
    after.load_state_dict(kept["after"])
    return Tuned(before, after, kept["rows"], kept["steps"])


def first_convolutions(net):
    """Names of the convolutions with which the blocks of ``net`` begin, from the input on.

    Of EfficientNet-Lite0 the 1×1 ones that widen, in all blocks but the first, which has none; of the network
    in its place the first of every block.
    """
    names = [name for name, _ in conv_layers(net)]
    ending = "_expand_conv" if isinstance(net, ImageNetNetwork) else ".conv1"
    return [name for name in names if name.endswith(ending)]


class Rest(nn.Module):
    """``net``, an ImageNetNetwork, from block ``first`` on: maps what enters that block to logits."""

    def __init__(self, net, first):
        super().__init__()
        self.net, self.first = net, first

    def forward(self, x):
        body = self.net.body
        for block in body._blocks[self.first :]:
            x = block(x)
        return self.net.head(body._swish(body._bn1(body._conv_head(x))).mean((2, 3)))


def from_layer(net, name, x):
    """(module, inputs, name of the layer in it): ``net`` from the block of layer ``name`` on.

    With batch norm in training mode. What comes before does not change while that layer moves, and is
    computed once. The network in its place is taken whole.
    """
    if not isinstance(net, ImageNetNetwork):
        return net, x, name
    first = int(name.split(".")[2])  # body._blocks.5._expand_conv
    entered = []
    hook = net.body._blocks[first].register_forward_pre_hook(lambda block, inputs: entered.append(*inputs))
    buffers = {name: value.clone() for name, value in net.named_buffers()}
    try:
        with torch.no_grad(), batch_norm(net, "train"):
            net(x)
    finally:
        hook.remove()
        net.load_state_dict(buffers, strict=False)  # running statistics as they were
    return Rest(net, first), entered[0], f"net.{name}"
