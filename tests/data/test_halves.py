"""Natural and artificial classes; grey images as colour ones."""

import numpy as np
import pytest
import torch

from alignbook.data import HALVES, DataError, ImageSet, colour32, half, load


@pytest.mark.parametrize("name", HALVES)
def test_parts_are_disjoint_and_of_one_size(name):
    natural, artificial = (HALVES[name][part] for part in ("natural", "artificial"))
    assert len(set(natural)) == len(natural) == len(artificial) == len(set(artificial))
    assert not set(natural) & set(artificial)


def test_half_of_the_photographs():
    images = load("photos")
    parts = {part: half(images, part) for part in ("natural", "artificial")}
    assert len(parts["natural"]) + len(parts["artificial"]) == len(images)
    for part, chosen in parts.items():
        names = [images.classes[label] for label in images.y]
        expected = [i for i, name in enumerate(names) if name in HALVES["photos"][part]]
        assert torch.equal(chosen.x, images.x[expected])
        assert [chosen.classes[label] for label in chosen.y] == [names[i] for i in expected]


def test_bad_parts():
    images = load("photos", n=5)
    with pytest.raises(ValueError, match="'living'"):
        half(images, "living")
    with pytest.raises(DataError, match="shapes has no natural"):
        half(load("shapes", n=5), "natural")
    with pytest.raises(DataError, match="lacks the classes"):
        half(ImageSet("photos", images.x, images.y, ["cat"] * 10), "natural")


@pytest.mark.parametrize(
    ("side", "factor", "before"), [(28, 1, 2), (8, 4, 0), (32, 1, 0), (27, 1, 2), (10, 3, 1)]
)
def test_colour32(side, factor, before):
    grey = np.random.default_rng(side).random((3, 1, side, side), dtype=np.float32)
    expected = np.full((3, 3, 32, 32), -1, dtype=np.float32)
    for i in range(side * factor):
        for j in range(side * factor):
            expected[:, :, before + i, before + j] = grey[:, :, i // factor, j // factor]
    np.testing.assert_array_equal(colour32(torch.from_numpy(grey)).numpy(), expected)
