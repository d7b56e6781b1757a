"""What range the inputs have, and whether it is the one that the network says it was trained on."""

import torch

from .data import leaves

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
APART = 0.15  # of the expected range, by which the actual one may miss its ends


def ranges(data, model):
    """Lines for a reader: the range of the inputs that are floats; what a network's configuration expects."""
    lines = []
    for values in leaves(data.inputs):
        if values.is_floating_point():
            low, high = float(values.min()), float(values.max())
            middle, spread = float(values.double().mean()), float(values.double().std())
            lines.append(
                f"inputs from {low:.3g} to {high:.3g}, mean {middle:.2g}, standard deviation {spread:.2g}"
            )
    expected = configured(model)
    if expected is not None and data.only is not None and data.only.ndim == 4:
        lines += mismatch(data.only, *expected)
    return lines


def configured(model):
    """(mean, std, who says so) of each channel that weights of this network expect; None: not known.

    timm's networks carry a configuration; torchvision's weights for ImageNet and for segmentation share one.
    """
    config = getattr(model, "pretrained_cfg", None)
    mean, std = (
        config.get(n) if isinstance(config, dict) else getattr(config, n, None) for n in ("mean", "std")
    )
    if mean and std:
        return mean, std, "the network's configuration expects"
    made_by, last = type(model).__module__, [len(p) for p in model.parameters() if p.ndim][-1:]
    if made_by.startswith("torchvision.models.segmentation") or (
        made_by.startswith("torchvision.models") and last == [1000]
    ):
        return *IMAGENET, "torchvision's weights for this network expect"
    return None


def mismatch(images, mean, std, who):
    """A line where images (n, C, H, W) do not have the range of [0, 1] less ``mean`` over ``std``."""
    if images.shape[1] != len(mean):
        return []
    mean, std = torch.tensor(mean), torch.tensor(std)
    lowest, highest = -mean / std, (1 - mean) / std
    flat = images.cpu().transpose(0, 1).flatten(1)
    apart = torch.maximum((flat.amin(1) - lowest).abs(), (flat.amax(1) - highest).abs())
    if (apart <= APART * (highest - lowest)).all():
        return []
    numbers = [",".join(f"{v:.3g}" for v in values.tolist()) for values in (mean, std)]
    return [
        f"{who} images from 0 to 1 less mean {numbers[0]} over standard deviation {numbers[1]}: "
        "these have another range (--mean, --std)"
    ]
