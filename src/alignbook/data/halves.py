"""Natural and artificial classes of the colour image sets: two sources, or targets, that differ in kind.

Both parts of a set have equally many classes, so that neither the number of images nor the difficulty of
telling more classes apart separates them; so not every class of a set is in a part. CIFAR-10 has four
vehicles and no other artefact: beside them stand its four mammals. CIFAR-100 has 30 classes of artefacts
(six superclasses): beside them stand its 25 mammals that are no people, and its five reptiles.
"""

from dataclasses import replace

import torch

from .images import DataError

HALVES = {
    "cifar10": {
        "natural": ("cat", "deer", "dog", "horse"),
        "artificial": ("airplane", "automobile", "ship", "truck"),
    },
    "cifar100": {
        "natural": (
            *("beaver", "dolphin", "otter", "seal", "whale"),
            *("bear", "leopard", "lion", "tiger", "wolf"),
            *("camel", "cattle", "chimpanzee", "elephant", "kangaroo"),
            *("fox", "porcupine", "possum", "raccoon", "skunk"),
            *("hamster", "mouse", "rabbit", "shrew", "squirrel"),
            *("crocodile", "dinosaur", "lizard", "snake", "turtle"),
        ),
        "artificial": (
            *("bottle", "bowl", "can", "cup", "plate"),
            *("clock", "keyboard", "lamp", "telephone", "television"),
            *("bed", "chair", "couch", "table", "wardrobe"),
            *("bridge", "castle", "house", "road", "skyscraper"),
            *("bicycle", "bus", "motorcycle", "pickup_truck", "train"),
            *("lawn_mower", "rocket", "streetcar", "tank", "tractor"),
        ),
    },
    "photos": {
        "natural": ("cat", "flower", "galaxies", "retina", "tissue"),
        "artificial": ("astronaut", "coffee", "motorcycle", "rocket", "temple"),
    },
}


def half(images, part):
    """The images of ``part`` ("natural" or "artificial") of the ImageSet ``images``, in their order.

    Labels count the part's classes from 0, in the order of ``images.classes``. Raises DataError for a set
    without parts, ValueError for another part.
    """
    if images.name not in HALVES:
        known = ", ".join(HALVES)
        raise DataError(f"{images.name} has no natural and artificial part; sets that have: {known}")
    if part not in ("natural", "artificial"):
        raise ValueError(f"part is {part!r}; it is either 'natural' or 'artificial'")
    missing = set(HALVES[images.name][part]) - set(images.classes)
    if missing:
        raise DataError(f"{images.name} lacks the classes {', '.join(sorted(missing))}")
    names = [name for name in images.classes if name in HALVES[images.name][part]]
    to = torch.tensor([names.index(name) if name in names else -1 for name in images.classes])
    y = to[images.y]
    return replace(images, x=images.x[y >= 0], y=y[y >= 0], classes=names)


def colour32(x):
    """Images (n, C, H, W) in [-1, 1] as (n, 3, 32, 32): grey ones get three equal channels.

    Sides of at most 16 pixels are first enlarged by an integer factor; then black (-1) is put around, two
    pixels on each side of 28×28 ones. Raises ValueError for sides above 32 or two or four channels.
    """
    n, channels, height, width = x.shape
    if channels not in (1, 3) or height != width or height > 32:
        raise ValueError(f"images must be (n, 1 or 3, side, side), side up to 32, not {tuple(x.shape)}")
    factor = 32 // height
    x = x.repeat_interleave(factor, 2).repeat_interleave(factor, 3)
    before = (32 - x.shape[2]) // 2
    after = 32 - x.shape[2] - before
    x = torch.nn.functional.pad(x, (before, after, before, after), value=-1.0)
    return x.expand(n, 3, 32, 32).contiguous()
