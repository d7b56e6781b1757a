"""What the studies share about their targets and their source."""

import pandas as pd

from alignbook.data import load
from alignbook.data.halves import HALVES
from companion.jobs import Job
from companion.runs import results
from companion.studies.transferability.shared import pretrained_source
from companion.studies.transferability.shared.target_rows import of_target, source_said, words
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


START = {"source": "photos", "pretrain_epochs": 1, "pretrain_images": 64, "width": 8, "blocks": 1}


def test_the_source_is_said_where_it_was_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(results.paths, "results", lambda: tmp_path)
    parameters = START | {"seeds": 2, "source_accuracy": False}
    table = pd.DataFrame({"kind": ["source", "source", "scale"], "source_test_accuracy": [30.0, 34.0, None]})
    table["source_train_accuracy"] = [50.0, 52.0, None]
    assert "32 % of their source's test images and 51 % of its training images" in source_said(
        table, parameters
    )
    without = table[table["kind"] == "scale"]
    assert "has not been measured" in source_said(without, parameters)
    # Of the same networks another page has stored seed 1; other networks are not looked at.
    for seed, width, accuracy in ((1, 8, 20.0), (0, 16, 90.0)):
        job = Job(
            f"source-seed{seed}", pretrained_source.source_accuracy, START | {"seed": seed, "width": width}
        )
        row = {"kind": "source", "step": 0, "source_test_accuracy": accuracy, "source_train_accuracy": 21.0}
        results.store(job, pd.DataFrame([row]), results.origin(job), device="cpu", wall_time=1.0)
    assert "networks (1 of 2 measured) classify 20 %" in source_said(without, parameters)
