"""Images of the domains: three kinds of digits, or Office-31's from its folders."""

from dataclasses import dataclass

import torch

from alignbook.data import colour32, load
from alignbook.data.folders import image_folder
from alignbook.data.images import location
from alignbook.data.street_digits import street_digits
from alignbook.errors import AlignbookError
from alignbook.seeding import torch_stream

from .design import DOMAINS

SIDE = 96  # pixels of Office-31's images here
TEST_SHARE = 0.2  # of a domain of Office-31, which has no test images of its own


@dataclass(frozen=True)
class Domain:
    """Images (n, 3, side, side) in [-1, 1] and labels (n,) to train and to test with."""

    x: torch.Tensor
    y: torch.Tensor
    x_test: torch.Tensor
    y_test: torch.Tensor
    classes: int


def domain(domains, name, *, handwritten, sizes, test_images, seed):
    """The :class:`Domain` called ``name`` of :data:`DOMAINS` [``domains``], drawn by ``seed``.

    Of digits: handwritten : the image set that ``handwritten`` and ``street`` are made of, no image in both;
    sizes : training images, one number per domain in its order; test_images : at most so many.
    Raises DataError, AlignbookError, or ValueError where there are fewer images.
    """
    if domains == "office31":
        return _office(name, seed)
    size = dict(zip(DOMAINS["digits"], sizes, strict=True))
    if name == "coarse":
        train, test = load("digits", n=size[name], seed=seed), load("digits", "test")
        x, x_test = colour32(train.x), colour32(test.x)
        return Domain(x, train.y, x_test[:test_images], test.y[:test_images], 10)
    train = load(handwritten, n=size["handwritten"] + size["street"], seed=seed)
    test = load(handwritten, "test")
    half = min(test_images, len(test) // 2)
    first = name == "handwritten"
    of = slice(0, size["handwritten"]) if first else slice(size["handwritten"], None)
    of_test = slice(0, half) if first else slice(half, 2 * half)
    parts = {"train": train.x[of], "test": test.x[of_test]}
    if first:
        parts = {split: colour32(x) for split, x in parts.items()}
    else:
        parts = {
            split: _street(x, torch_stream(seed, "fig16", "street", split)) for split, x in parts.items()
        }
    return Domain(parts["train"], train.y[of], parts["test"], test.y[of_test], 10)


def _street(x, generator):
    """Street digits of grey ones, which are brought to 28×28 pixels."""
    if x.shape[2:] != (28, 28):
        x = torch.nn.functional.interpolate(x, (28, 28), mode="bilinear")
    return street_digits(x, generator)


def _office(name, seed):
    """A domain of Office-31 in the folder ``office31/<name>``, or ``images`` in it, beside the image sets."""
    root = location("office31").with_suffix("")
    found = {}
    for one in DOMAINS["office31"]:
        folder = root / one
        found[one] = folder / "images" if (folder / "images").is_dir() else folder
    classes = {one: sorted(item.name for item in folder.glob("*/")) for one, folder in found.items()}
    images = image_folder(found[name], SIDE)
    for one, names in classes.items():
        if names != classes[name]:
            raise AlignbookError(f"{found[one]} has other classes than {found[name]}")
    order = torch.randperm(len(images), generator=torch_stream(seed, "fig16", "split", name))
    tests = max(1, round(TEST_SHARE * len(order)))
    test, train = order[:tests], order[tests:]
    y = images.y
    return Domain(images.x[train], y[train], images.x[test], y[test], len(images.classes))
