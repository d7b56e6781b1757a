"""``shapes``: rendered shapes in colour, 32×32, made here; class = shape.

One shape an image, of random place, size, angle and colour, with soft edges, before a background of random
colour and texture. 500 training and 100 test images a class, in a fixed random order. Only operations that
IEEE arithmetic rounds correctly are used (no sine, no matrix product), so that every machine makes the
same pixels.
"""

import functools

import numpy as np

from ..seeding import numpy_stream
from .embedded import EMBEDDED

SIDE = 32
TRAIN, TEST = 500, 100  # per class
RADIUS = (7.0, 13.0)  # pixels, of the circle around a shape
CONTRAST = 0.35  # least distance of the two colours in one channel, of 1
# (cosine, sine) of i/5 turns: normals of a pentagon's sides.
FIFTHS = (
    (1.0, 0.0),
    (0.30901699437494745, 0.9510565162951535),
    (-0.8090169943749475, 0.5877852522924731),
    (-0.8090169943749475, -0.5877852522924731),
    (0.30901699437494745, -0.9510565162951535),
)


def _box(u, v, half_u, half_v):
    return np.maximum(np.abs(u) - half_u, np.abs(v) - half_v)


def _disc(u, v, radius, at=(0.0, 0.0)):
    return np.sqrt((u - at[0]) ** 2 + (v - at[1]) ** 2) - radius


def _star(u, v):
    sides = np.stack([a * u + b * v - 0.309 for a, b in FIFTHS])
    return np.sort(sides, axis=0)[3]  # inside at least four of five sides


# Class → signed distance (negative inside, roughly) at points (u, v) of the unit disc.
SHAPES = {
    "bar": lambda u, v: _box(u, v, 0.95, 0.25),
    "crescent": lambda u, v: np.maximum(_disc(u, v, 0.95), -_disc(u, v, 0.8, (0.45, 0.0))),
    "cross": lambda u, v: np.minimum(_box(u, v, 0.95, 0.26), _box(u, v, 0.26, 0.95)),
    "disc": lambda u, v: _disc(u, v, 0.85),
    "frame": lambda u, v: np.abs(_box(u, v, 0.6, 0.6)) - 0.13,
    "half_disc": lambda u, v: np.maximum(_disc(u, v, 0.95), -v - 0.1),
    "ring": lambda u, v: np.abs(_disc(u, v, 0.75)) - 0.16,
    "square": lambda u, v: _box(u, v, 0.68, 0.68),
    "star": _star,
    "triangle": lambda u, v: np.maximum(
        -v - 0.45, np.maximum(0.866 * u + 0.5 * v, -0.866 * u + 0.5 * v) - 0.45
    ),
}


@functools.cache
def shapes():
    """The five arrays of ``shapes``: x (N, 32, 32, 3) uint8, y (N,) uint8, classes (10,) str."""
    arrays = {"classes": np.array(list(SHAPES))}
    for split, count in (("train", TRAIN), ("test", TEST)):
        x = np.concatenate([_images(name, count, numpy_stream(0, "shapes", split, name)) for name in SHAPES])
        y = np.repeat(np.arange(len(SHAPES), dtype=np.uint8), count)
        order = numpy_stream(0, "shapes", split).permutation(len(y))
        arrays[f"x_{split}"], arrays[f"y_{split}"] = x[order], y[order]
    return arrays


def _images(name, count, rng):
    """(count, 32, 32, 3) uint8."""
    radius = rng.uniform(*RADIUS, size=(count, 1, 1))
    places = rng.uniform(-0.35, 0.35, size=(2, count, 1, 1)) * (SIDE - 2 * radius) + (SIDE - 1) / 2
    # A rotation without sine and cosine: (1 - t²) / (1 + t²) and 2t / (1 + t²), in any of four quarters.
    t = rng.uniform(-0.41421356, 0.41421356, size=(count, 1, 1))
    cos, sin = (1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)
    quarter = rng.integers(4, size=(count, 1, 1))
    cos, sin = np.where(quarter % 2, -sin, cos), np.where(quarter % 2, cos, sin)
    sign = np.where(quarter < 2, 1.0, -1.0)
    rows, columns = np.arange(SIDE)[:, None] - places[0], np.arange(SIDE) - places[1]
    u = sign * (cos * columns + sin * rows) / radius  # (count, 32, 32)
    v = sign * (cos * rows - sin * columns) / radius
    cover = np.clip(0.5 - SHAPES[name](u, v) * radius, 0, 1)[..., None]
    back, front = _colours(count, rng)
    back = back + _texture(count, 4, 0.25, rng) + _texture(count, 1, 0.06, rng)
    front = front + _texture(count, 8, 0.1, rng) + _texture(count, 1, 0.06, rng)
    image = np.clip(back + cover * (front - back), 0, 1)
    return np.floor(image * 255 + 0.5).astype(np.uint8)


def _colours(count, rng):
    """Colours of background and shape, (count, 1, 1, 3) each, apart by CONTRAST in some channel."""
    back, front = rng.random((2, count, 3))
    channel = rng.integers(3, size=count)
    each = np.arange(count)
    value = back[each, channel]
    gap = CONTRAST + (0.5 - CONTRAST) * rng.random(count)
    front[each, channel] = np.where(value < 0.5, value + gap, value - gap)
    return back[:, None, None], front[:, None, None]


def _texture(count, cell, size, rng):
    """Noise in ±size on cells of ``cell`` pixels, (count, 32, 32, 3); some images have less of it."""
    noise = rng.uniform(-1, 1, size=(count, SIDE // cell, SIDE // cell, 3))
    noise = noise * (size * rng.random((count, 1, 1, 1)))
    return noise.repeat(cell, axis=1).repeat(cell, axis=2)


# Entered here, not where the table stands: a result depends on the images that it names, and those have a
# digest of their own.
EMBEDDED["shapes"] = shapes
