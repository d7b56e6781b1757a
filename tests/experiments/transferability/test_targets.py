"""What the studies share about their targets and their source."""

import pandas as pd

from alignbook.data import load
from alignbook.data.halves import HALVES
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
