"""Of the paper's ranges of initial scales, the part that VGG-16 has here."""

import math

from alignbook.errors import AlignbookError


def pair(parameters, name):
    """The range that the parameter ``name`` gives: (low, high). Raises AlignbookError where it is none."""
    values = parameters[name]
    if len(values) != 2 or not 0 < values[0] < values[1]:
        raise AlignbookError(f"{name} must be two numbers, the lower first, not {values}")
    return tuple(values)


def for_vgg(parameters, scale):
    """A printed initial scale of VGG-16, at the same place of the part of the range that it has."""
    low, high = pair(parameters, "second_scales")
    least, most = within(parameters, (low, high))
    return float(f"{least * (most / least) ** (math.log(scale / low) / math.log(high / low)):.4g}")


def within(parameters, scales):
    """The part of a range of initial scales that VGG-16 has: what lies within ``vgg_scales``."""
    least, most = pair(parameters, "vgg_scales")
    low, high = max(scales[0], least), min(scales[1], most)
    if low >= high:
        raise AlignbookError(f"vgg_scales {[least, most]} has no part of the range {list(scales)}")
    return low, high
