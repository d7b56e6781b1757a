"""The rendered shapes: what they hold, alike wherever they are made, told apart by their outline."""

import numpy as np

from alignbook.data import load
from alignbook.data.shapes import SHAPES, shapes


def test_promised_sizes():
    train, test = load("shapes"), load("shapes", "test")
    assert train.x.shape == (5000, 3, 32, 32) and test.x.shape == (1000, 3, 32, 32)
    assert train.y.bincount().tolist() == [500] * 10 and test.y.bincount().tolist() == [100] * 10
    assert train.classes == list(SHAPES)
    assert len(set(train.y[:100].tolist())) > 5  # mixed
    every = np.concatenate([shapes()["x_train"], shapes()["x_test"]]).reshape(6000, -1)
    assert len(np.unique(every, axis=0)) == 6000  # no image twice, none in both parts


def test_every_shape_covers_its_own_area():
    rows, columns = np.mgrid[-1:1:201j, -1:1:201j]
    area = {name: float((distance(columns, rows) < 0).mean() * 4) for name, distance in SHAPES.items()}
    expected = {
        "bar": 1.9 * 0.5,
        "cross": 2 * 1.9 * 0.52 - 0.52**2,
        "disc": np.pi * 0.85**2,
        "frame": 1.46**2 - 0.94**2,
        "ring": np.pi * (0.91**2 - 0.59**2),
        "square": 1.36**2,
    }
    for name, value in expected.items():
        assert abs(area[name] - value) < 0.06, name
    outside = rows**2 + columns**2 > 1.08
    assert not any((distance(columns, rows) < 0)[outside].any() for distance in SHAPES.values())
