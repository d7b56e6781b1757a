"""VGG and ResNet-18: the layer lists of the papers, shapes, and networks of torchvision as reference."""

import pytest
import torch
from torch import nn

from alignbook.data.torchvision_shim import import_torchvision
from alignbook.training.deep import VGG, ResNet18


def models():
    import_torchvision()
    import torchvision.models

    return torchvision.models


def convolutions(net):
    return [module for module in net.modules() if isinstance(module, nn.Conv2d)]


@pytest.mark.parametrize("depth", [16, 19])
def test_vgg_is_torchvisions(depth):
    vgg = models().vgg
    theirs = vgg.make_layers(vgg.cfgs[{16: "D", 19: "E"}[depth]])
    net = VGG(depth, (3, 32, 32), 7)
    assert [conv.weight.shape for conv in net.convs] == [conv.weight.shape for conv in convolutions(theirs)]
    assert net.head.weight.shape == (7, 512)
    for ours, their in zip(net.convs, convolutions(theirs), strict=True):
        ours.load_state_dict(their.state_dict())
    x = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(net.features(x, depth - 3), theirs(x))


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_resnet_is_torchvisions_on_small_images(norm):
    theirs = models().resnet18(
        num_classes=5, norm_layer=nn.BatchNorm2d if norm == "batch" else lambda n: nn.GroupNorm(8, n)
    )
    theirs.conv1, theirs.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
    net = ResNet18((3, 16, 16), 5, norm=norm)
    names = {"stem": "conv1", "norm": "bn1", "head": "fc", "stages.": "layer", ".norm1": ".bn1"}
    names |= {".norm2": ".bn2", ".shortcut_norm": ".downsample.1", ".shortcut": ".downsample.0"}
    weights, state = theirs.state_dict(), {}
    for name in net.state_dict():
        their = name
        if name.startswith("stages."):
            their = f"layer{int(name[7]) + 1}{name[8:]}"
            for ours, other in list(names.items())[4:]:
                their = their.replace(ours + ".", other + ".") if ours + "." in their else their
        else:
            head = name.split(".")[0]
            their = name.replace(head, names[head], 1)
        state[name] = weights[their]
    net.load_state_dict(state)
    x = torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(net.eval()(x), theirs.eval()(x), rtol=1e-3, atol=1e-4)


def test_version_2_normalises_before_each_convolution():
    net = ResNet18((1, 8, 8), 4, width=8, norm=None, version=2).eval()
    x = torch.randn(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        y = net.stem(x)
        for block in (block for stage in net.stages for block in stage):
            inner, stride = y.relu(), block.stride
            beside = y
            if block.shortcut is not None:
                beside = nn.functional.conv2d(inner, block.shortcut.weight, stride=stride)
            y = beside + block.conv2(block.conv1(inner).relu())
        torch.testing.assert_close(net(x), net.head(y.relu().mean((2, 3))))


@pytest.mark.parametrize("side", [9, 16])
def test_odd_shapes_and_widths(side):
    x = torch.randn(2, 1, side, side + 3)
    assert VGG(16, (1, side, side + 3), 5, width=4, norm="group")(x).shape == (2, 5)
    assert ResNet18((1, side, side + 3), 5, width=6, norm="group", version=2)(x).shape == (2, 5)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: VGG(11, (3, 8, 8), 2), "16, 19"),
        (lambda: VGG(16, (3, 8, 8), 2, norm="layer"), "batch, group"),
        (lambda: ResNet18((3, 8, 8), 2, version=3), "known: 1, 2"),
    ],
)
def test_what_is_unknown_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()
