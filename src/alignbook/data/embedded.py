"""Image sets that need no download: their pixels lie inside installed packages.

``photos``
    32×32 colour crops of ten colour photographs that the wheels of scikit-image and scikit-learn carry
    (one through a telescope, one through a microscope, one of a retina); class = photograph. Photographs
    are first shrunk by an integer factor, by averaging, to a shorter side of about 200 to 300 pixels, so
    that a crop shows more than a smooth patch. Test crops come from a vertical band of each photograph
    that no training crop touches. 200 training and 50 test crops a class, in a fixed random order.
``digits``
    scikit-learn's 8×8 grey digits, scaled to 0 … 255; 1,400 for training, the other 397 for testing.
"""

import functools
import importlib.util
from pathlib import Path

import numpy as np

try:
    from PIL import Image
except ModuleNotFoundError:  # scikit-image, which holds photographs, brings it
    pass

from ..seeding import numpy_stream

SIDE = 32
TRAIN_CROPS, TEST_CROPS = 200, 50  # per photograph
TEST_BAND = (0.55, 0.75)  # of the photograph's width
SHORTER_SIDE = 200  # pixels; shrinking stops above this
PHOTOGRAPHS = {
    "astronaut": ("skimage", "data/astronaut.png"),
    "cat": ("skimage", "data/chelsea.png"),
    "coffee": ("skimage", "data/coffee.png"),
    "galaxies": ("skimage", "data/hubble_deep_field.jpg"),
    "motorcycle": ("skimage", "data/motorcycle_left.png"),
    "retina": ("skimage", "data/retina.jpg"),
    "rocket": ("skimage", "data/rocket.jpg"),
    "tissue": ("skimage", "data/ihc.png"),
    "flower": ("sklearn", "datasets/images/flower.jpg"),
    "temple": ("sklearn", "datasets/images/china.jpg"),
}


@functools.cache
def photos():
    """The five arrays of ``photos``: x (N, 32, 32, 3) uint8, y (N,) uint8, classes (10,) str."""
    train, test = [], []
    for name in PHOTOGRAPHS:
        photograph = _photograph(name)
        width = photograph.shape[1]
        low, high = (round(width * end) for end in TEST_BAND)
        columns = np.arange(width - SIDE + 1)  # left edge of a crop
        inside = (columns >= low) & (columns + SIDE <= high)
        outside = (columns + SIDE <= low) | (columns >= high)
        rng = numpy_stream(0, "photos", name)
        train.append(_crops(photograph, columns[outside], TRAIN_CROPS, rng))
        test.append(_crops(photograph, columns[inside], TEST_CROPS, rng))
    return _arrays(train, test, list(PHOTOGRAPHS))


@functools.cache
def digits():
    """The five arrays of ``digits``: x (N, 8, 8) uint8, y (N,) uint8, classes (10,) str."""
    from sklearn.datasets import load_digits  # takes a second

    images, labels = load_digits(return_X_y=True)
    images = np.round(images.reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)
    order = numpy_stream(0, "digits").permutation(len(images))
    train, test = order[:1400], order[1400:]
    labels = labels.astype(np.uint8)
    return {
        "x_train": images[train],
        "y_train": labels[train],
        "x_test": images[test],
        "y_test": labels[test],
        "classes": np.array([str(digit) for digit in range(10)]),
    }


def _photograph(name):
    """(H, W, 3) uint8."""
    package, path = PHOTOGRAPHS[name]
    folder = importlib.util.find_spec(package).submodule_search_locations[0]  # imports nothing
    with Image.open(Path(folder) / path) as image:
        pixels = np.asarray(image.convert("RGB"), dtype=np.uint16)
    height, width, _ = pixels.shape
    factor = min(height, width) // SHORTER_SIDE
    height, width = height // factor, width // factor
    blocks = pixels[: height * factor, : width * factor].reshape(height, factor, width, factor, 3)
    # Integer rounding: the same pixels on every machine that decodes the file alike.
    return ((blocks.sum(axis=(1, 3), dtype=np.uint32) + factor**2 // 2) // factor**2).astype(np.uint8)


def _crops(photograph, columns, count, rng):
    """``count`` different crops whose left edge is one of ``columns``: (count, 32, 32, 3) uint8."""
    rows = photograph.shape[0] - SIDE + 1
    corners = rng.choice(rows * len(columns), size=count, replace=False)
    return np.stack(
        [
            photograph[top : top + SIDE, left : left + SIDE]
            for top, left in zip(corners // len(columns), columns[corners % len(columns)], strict=True)
        ]
    )


def _arrays(train, test, classes):
    arrays = {"classes": np.array(classes)}
    for split, crops in (("train", train), ("test", test)):
        labels = np.repeat(np.arange(len(crops), dtype=np.uint8), [len(part) for part in crops])
        order = numpy_stream(0, "photos", split).permutation(len(labels))
        arrays[f"x_{split}"] = np.concatenate(crops)[order]
        arrays[f"y_{split}"] = labels[order]
    return arrays


EMBEDDED = {"photos": photos, "digits": digits}
