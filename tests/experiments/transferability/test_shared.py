"""What the studies share: targets and their names, landscapes as rows of a table, how factors are written."""

import numpy as np
import pandas as pd
import pytest

from alignbook.data import load
from alignbook.data.halves import HALVES
from alignbook.metrics.landscape import Landscape
from companion.studies.transferability.shared.by_seed import factor
from companion.studies.transferability.shared.planes import grid, rows_of
from companion.studies.transferability.shared.target_rows import of_target, words
from companion.studies.transferability.shared.targets import CLASSES, name_of, named


def test_names_and_back():
    for name in ("cifar10", "cifar10-natural", "fashion_mnist"):
        assert name_of(**named(name)) == name
    assert words("cifar10-natural") == "animals of CIFAR-10" and words("shapes") == "shapes"
    table = pd.DataFrame({"dataset": ["cifar10", "cifar10"], "part": ["all", "natural"]})
    assert list(of_target(table, "cifar10-natural").index) == [1]


def test_how_many_classes_a_target_has():
    parts = {f"{name}-{part}": len(classes) for name, two in HALVES.items() for part, classes in two.items()}
    assert parts.items() <= CLASSES.items()
    for name in ("shapes", "digits", "photos"):
        assert CLASSES[name] == len(load(name, "test").classes)


def test_landscapes_as_rows_and_back():
    landscape = np.linspace(-0.3, 0.3, 5), np.linspace(-0.1, 0.1, 3), np.arange(15.0).reshape(5, 3)
    rows = rows_of(Landscape(*landscape))
    for ours, own in zip(grid(rows.sample(frac=1, random_state=0)), landscape, strict=True):
        np.testing.assert_allclose(ours, own)
    with pytest.raises(ValueError, match="duplicate"):
        grid(pd.concat([rows, rows]))


def test_a_factor_is_a_geometric_mean_with_the_interval_of_the_logarithm():
    assert factor([]) == "–"
    assert factor([1.0]) == "2.0" == factor([1.0, 1.0, 1.0])
    # mean 1, standard deviation 1 over three: t = 4.3027, half a width of 4.3027 / √3 = 2.484
    assert factor([0.0, 1.0, 2.0], 2) == "2.00 (0.36 to 11.19)"
