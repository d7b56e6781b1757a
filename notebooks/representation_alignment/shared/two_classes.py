"""Points with one label each, for training and for testing: images of two classes, or rows of a table."""

from functools import cache

import torch

from alignbook.data import load
from alignbook.data.tables import TABLES, load_table
from alignbook.errors import AlignbookError
from alignbook.seeding import numpy_stream


def labelled(dataset, points, seed):
    """{"train", "test": (x (n, d), y (n,))}, float64, drawn by ``seed``.

    An image set gives ``points`` images of its first two classes, equally many of each, labelled −1 and 1
    (fewer for testing where it has fewer), pixels in [−1, 1]. A table gives half of its rows to either, at
    most ``points``, labels moved to [−1, 1] (Figure 6). Raises AlignbookError where there are too few images.
    """
    return rows(dataset, points, seed) if dataset in TABLES else images(dataset, points, (0, 1), seed)


def rows(dataset, points, seed):
    """The same for a table."""
    table = load_table(dataset)
    order = numpy_stream(seed, "labelled", dataset).permutation(len(table.y))
    count = min(points, len(order) // 2)
    x, y = torch.from_numpy(table.x), torch.from_numpy(table.y)
    y = 2 * (y - y.min()) / (y.max() - y.min()) - 1
    parts = {"train": order[:count], "test": order[count : 2 * count]}
    return {name: (x[part], y[part]) for name, part in parts.items()}


def images(dataset, points, classes, seed):
    """The same for two ``classes`` of an image set, the second labelled 1; x (n, C·H·W)."""
    parts = {}
    for split in ("train", "test"):
        x, y = _pixels(dataset, split, classes)
        order = torch.from_numpy(numpy_stream(seed, "labelled", dataset, split, *classes).permutation(len(y)))
        each = min(points // 2, *(int((y == label).sum()) for label in (-1, 1)))
        if split == "train" and each < points // 2:
            raise AlignbookError(f"{dataset} has {each} images of a class, not {points // 2}")
        picked = torch.cat([order[y[order] == label][:each] for label in (-1, 1)])
        parts[split] = x[picked].flatten(1).double(), y[picked]
    return parts


@cache
def _pixels(dataset, split, classes):
    """(x (n, C, H, W) float32, y (n,) of ±1 float64): the images of two classes, kept for the next seed."""
    data = load(dataset, split)
    chosen = (data.y == classes[0]) | (data.y == classes[1])
    return data.x[chosen], torch.where(data.y[chosen] == classes[1], 1.0, -1.0).double()
