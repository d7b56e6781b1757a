"""What the studies share about their targets and their source."""

import pandas as pd

from alignbook.studies.transferability.targets import name_of, named, of_target, source_said, words


def test_names_and_back():
    for name in ("cifar10", "cifar10-natural", "fashion_mnist"):
        assert name_of(**named(name)) == name
    assert words("cifar10-natural") == "animals of CIFAR-10" and words("shapes") == "shapes"
    table = pd.DataFrame({"dataset": ["cifar10", "cifar10"], "part": ["all", "natural"]})
    assert list(of_target(table, "cifar10-natural").index) == [1]


def test_the_source_is_said_where_it_was_measured():
    table = pd.DataFrame({"kind": ["source", "source", "scale"], "source_test_accuracy": [30.0, 34.0, None]})
    table["source_train_accuracy"] = [50.0, 52.0, None]
    assert "32 % of their source's test images and 51 % of its training images" in source_said(table)
    assert "was not measured" in source_said(table[table["kind"] == "scale"])
