"""Convolutional networks side by side against one after the other."""

import copy
import functools
import zlib

import pytest
import torch
from torch import nn
from torch.nn import functional

from alignbook.kernels.many_convnets import _Dense, stacked, step_of, unstack_
from alignbook.training.deep import VGG
from alignbook.training.fine_tune import crops_and_flips
from alignbook.training.loop import module_step, train
from alignbook.training.nets import he_normal_
from alignbook.training.resnet import ResNet

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
NETWORKS, EXAMPLES, BATCH, CLASSES = 3, 22, 5, 4


def stream(*seeds):
    return torch.Generator().manual_seed(zlib.crc32(repr(seeds).encode()))


def vgg(seed):
    """Convolutions of images, of 16, 8 and 4 pixels a side, and of 2 and 1, which are dense layers."""
    return he_normal_(VGG(16, (3, 16, 16), CLASSES, width=4), 1.0, stream(seed))


def resnet(seed):
    """Strided convolutions, projections and batch norm."""
    return ResNet(CLASSES, width=8, generator=stream(seed))


def problem(make, dtype=torch.float64, device="cpu"):
    """Networks, images and labels, each network's own, as are its running statistics."""
    draw = stream("images")
    x = [torch.randn(EXAMPLES, 3, 16, 16, generator=draw, dtype=dtype).to(device) for _ in range(NETWORKS)]
    y = [torch.randint(CLASSES, (EXAMPLES,), generator=draw).to(device) for _ in range(NETWORKS)]
    nets = [make(seed).to(device, dtype) for seed in range(NETWORKS)]
    for net, images in zip(nets, x, strict=True):
        net(images)
    return nets, x, y


def trained(step, generator, last_batch, **end):
    """What the loop returns; the rate falls along the way."""
    return train(
        step, EXAMPLES, batch_size=BATCH, rate=lambda count: 0.05 / count, last_batch=last_batch,
        generator=generator, **end,
    )  # fmt: skip


def sgd(net):
    return torch.optim.SGD(net.parameters(), lr=1.0, momentum=0.9, weight_decay=0.01)


def crops(generators, augment):
    return [functools.partial(crops_and_flips, generator=one) for one in generators] if augment else None


@pytest.mark.parametrize(
    ("make", "last_batch", "augment"),
    [(vgg, "keep", False), (vgg, "drop", True), (resnet, "keep", True), (resnet, "drop", False)],
)
@pytest.mark.parametrize("device", DEVICES)
def test_training_equals_one_network_after_the_other(device, make, last_batch, augment):
    nets, x, y = problem(make, device=device)
    images = x[0][:2]
    many = stacked(nets, images)
    taken = copy.deepcopy(nets)  # which the networks side by side are written into
    losses = []
    for k, net in enumerate(nets):
        generator = stream("batches", k)
        transform = crops([generator], augment)
        step = module_step(
            net.to(memory_format=torch.channels_last), x[k], y[k], sgd(net),
            transform=transform and transform[0],
        )  # fmt: skip
        losses.append(trained(step, generator, last_batch, steps=6, device=device).loss)
    generators = [stream("batches", k) for k in range(NETWORKS)]
    transforms = crops(generators, augment)
    step = step_of(many, x, y, sgd(many), generators=generators, transforms=transforms)
    loss = trained(step, stream("unused"), last_batch, steps=6, device=device).loss
    assert loss == pytest.approx(sum(losses) / NETWORKS, rel=1e-9)
    many.eval()
    outputs = many(torch.cat([images] * NETWORKS, 1))
    for net, mine, output in zip(nets, unstack_(many, taken), outputs, strict=True):
        for name, value in net.state_dict().items():
            torch.testing.assert_close(mine.state_dict()[name], value, msg=name)
        torch.testing.assert_close(output, net.eval()(images))


@pytest.mark.parametrize("make", [vgg, resnet])
def test_float32_stays_close(make):
    """Weights after a few steps, by what training moved them, against float64."""
    ends = []
    for dtype in (torch.float64, torch.float32):
        nets, x, y = problem(make)
        many = stacked([net.to(dtype) for net in nets], x[0][:2].to(dtype))
        start = [p.detach().double().clone() for p in many.parameters()]
        step = step_of(
            many, [images.to(dtype) for images in x], y, sgd(many),
            generators=[stream(k) for k in range(NETWORKS)],
        )  # fmt: skip
        trained(step, stream("unused"), "drop", steps=5)
        moves = zip(many.parameters(), start, strict=True)
        ends.append(torch.cat([(after.detach().double() - before).flatten() for after, before in moves]))
    exact, moved = ends
    assert (moved - exact).norm() < 1e-4 * exact.norm()


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 1), (2, 2)], ids=str)
def test_small_maps_as_dense_layers(shape):
    draw = stream("dense")

    def normal(*size):
        return torch.randn(*size, generator=draw, dtype=torch.float64)

    x = normal(5, 3 * 4, *shape).requires_grad_()
    weight = normal(3 * 6, 4, 3, 3).requires_grad_()
    outputs, wanted = _Dense.apply(x, weight, 3), functional.conv2d(x, weight, padding=1, groups=3)
    torch.testing.assert_close(outputs, wanted)
    gradient = normal(*wanted.shape)
    for mine, other in zip(
        torch.autograd.grad(outputs, (x, weight), gradient),
        torch.autograd.grad(wanted, (x, weight), gradient),
        strict=True,
    ):
        torch.testing.assert_close(mine, other)


class Mixing(nn.Module):
    """A softmax over channels between two layers."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 8, 3), nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.conv(x).softmax(1).mean((2, 3)))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda seed: VGG(16, (3, 16, 16), 4, width=8, norm="group"), "GroupNorm"),
        (lambda seed: nn.Sequential(nn.Conv2d(4, 8, 3, groups=2)), "groups=2"),
        (lambda seed: VGG(16, (3, 16, 16), 4 + seed, width=4), "not of one architecture"),
        (lambda seed: VGG(16, (3, 16, 16), 4, width=4 * (1 + seed)), "not of one architecture"),
        (lambda seed: VGG(16, (3, 48, 48), 4, width=4), "mixed between layers"),  # places at the head
        (lambda seed: Mixing(), "mixed between layers"),
    ],
    ids=["group norm", "groups", "classes", "width", "places", "softmax"],
)
def test_what_would_go_wrong_is_refused(make, said):
    side = 48 if said.startswith("mixed") else 16
    with pytest.raises(ValueError, match=said):
        stacked([make(0), make(1)], torch.randn(2, 3, side, side, generator=stream("images")))
