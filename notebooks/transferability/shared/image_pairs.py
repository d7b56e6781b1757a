"""Two-class tasks from real images, on the unit sphere: what Section 6 asks of inputs and labels.

A seed draws the classes and the images. The data set's mean image is subtracted, then every image is
scaled to norm 1; the first class of a pair has the label 1, the second -1.
"""

from dataclasses import dataclass, field

import torch
from scipy import ndimage

from alignbook.data import load
from alignbook.data.embedded import EMBEDDED
from alignbook.errors import AlignbookError
from alignbook.seeding import numpy_stream

POOL = 6000  # images among which a seed draws


@dataclass
class Pool:
    """Images of one data set, in a random order, of which none is given out twice.

    images : (N, C, H, W) float64; y : (N,) int64; order : the classes, in the seed's order
    """

    images: torch.Tensor
    y: torch.Tensor
    order: list
    used: dict = field(default_factory=dict)

    def pair(self, first, count):
        """(images (count, C, H, W), labels (count,) ±1) of the classes at ``order[first]`` and the next.

        Raises AlignbookError when the pool has fewer.
        """
        parts, signs = [], []
        classes = self.order[first : first + 2]
        for label, size, sign in zip(classes, (count - count // 2, count // 2), (1.0, -1.0), strict=True):
            begin = self.used.get(label, 0)
            chosen = torch.nonzero(self.y == label)[begin : begin + size, 0]
            if len(chosen) < size:
                raise AlignbookError(f"fewer than {begin + size} images of class {label} among {len(self.y)}")
            self.used[label] = begin + size
            parts.append(self.images[chosen])
            signs += [sign] * size
        return torch.cat(parts), torch.tensor(signs, dtype=torch.float64)

    def on_sphere(self, images):
        """Rows (n, C·H·W) of norm 1, the pool's mean image subtracted."""
        rows = (images - self.images.mean(0)).flatten(1)
        return rows / rows.norm(dim=1, keepdim=True)


def pool(dataset, seed):
    """The :class:`Pool` of the training images of ``dataset`` under ``seed``."""
    found = load(dataset, n=None if dataset in EMBEDDED else POOL, seed=seed)
    shuffled = numpy_stream(seed, "image-pairs", dataset).permutation(len(found))
    order = numpy_stream(seed, "class-pairs", dataset).permutation(len(found.classes))
    return Pool(found.x[shuffled].double(), found.y[shuffled], order.tolist())


def rotated(images, angle):
    """Images (n, C, H, W) turned by ``angle`` degrees (linear interpolation, edges repeated)."""
    if angle == 0:
        return images
    turned = ndimage.rotate(images.numpy(), angle, axes=(2, 3), reshape=False, order=1, mode="nearest")
    return torch.from_numpy(turned)


def flipped(y, share, seed):
    """Labels y (n,) with the first ``share`` of them, in a random order of the seed, turned around."""
    order = numpy_stream(seed, "flipped-labels").permutation(len(y))
    found = y.clone()
    found[torch.from_numpy(order[: round(share * len(y))])] *= -1
    return found


def related(images, angles, shares, count, seed):
    """[(family, step, images, labels)] of tasks ever less like the pool's first pair of classes.

    images : :class:`Pool`, none of whose images is used twice; count : int, images a task

    ``rotated``: new images of these classes, turned by ``step`` degrees; ``flipped``: the same images, the
    labels of a share ``step`` turned around; ``classes``: two other classes, ``step`` 0.
    """
    same, labels = images.pair(0, count)
    others, other_labels = images.pair(2, count)
    return [
        *(("rotated", angle, rotated(same, angle), labels) for angle in angles),
        *(("flipped", share, same, flipped(labels, share, seed)) for share in shares),
        ("classes", 0.0, others, other_labels),
    ]
