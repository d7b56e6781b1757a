"""Digits as on house walls: colour, texture and jitter put on grey digits, in place of SVHN."""

import torch


def street_digits(x, generator):
    """(n, 3, 32, 32) float32 in [-1, 1] of grey digits ``x`` (n, 1, 28, 28) in [-1, 1].

    Each digit is moved by up to 3 pixels either way and drawn in a random colour on a ground of another one,
    which changes smoothly over the image; both get a grain. ``generator`` is a CPU torch.Generator.
    Raises ValueError for other shapes.
    """
    if x.ndim != 4 or x.shape[1:] != (1, 28, 28):
        raise ValueError(f"grey digits are (n, 1, 28, 28), not {tuple(x.shape)}")
    n = len(x)
    padded = torch.nn.functional.pad((x + 1) / 2, (5, 5, 5, 5))  # 38 pixels wide, of which 32 are kept
    top, left = torch.randint(7, (2, n, 1), generator=generator)
    rows, columns = top + torch.arange(32), left + torch.arange(32)
    ink = padded[torch.arange(n)[:, None, None], 0, rows[:, :, None], columns[:, None, :]][:, None]
    ground = torch.rand(n, 3, 1, 1, generator=generator)
    # A colour at least 0.35 from the ground's in every channel, so that a digit can be read.
    shift = 0.35 + 0.3 * torch.rand(n, 3, 1, 1, generator=generator)
    colour = torch.where(ground < 0.5, ground + shift, ground - shift)
    slope = 0.3 * (torch.rand(n, 3, 2, 2, generator=generator) - 0.5)
    ground = ground + torch.nn.functional.interpolate(slope, (32, 32), mode="bilinear", align_corners=True)
    grain = 0.06 * torch.randn(n, 3, 32, 32, generator=generator)
    image = ground * (1 - ink) + colour * ink + grain
    return (2 * image.clamp(0, 1) - 1).float()
