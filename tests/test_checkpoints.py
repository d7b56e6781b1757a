"""Checkpoints: by what they are kept apart, who waits for whom, and what they spare."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from alignbook import checkpoints, system
from alignbook.checkpoints import checkpoint
from alignbook.data import tables
from alignbook.runs import digest


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGNBOOK_CHECKPOINTS", str(tmp_path / "kept"))
    # Functions of a test have no digest.
    monkeypatch.setattr(digest, "code_digest", lambda function: function.__doc__ or "")
    return tmp_path / "kept"


calls = []


def slow(*, n, device, report):
    """The code."""
    calls.append(n)
    time.sleep(0.5)
    return {"value": torch.arange(n)}


def outer(*, n, device, report):
    time.sleep(0.2)
    return checkpoint(slow, {"n": n}, data=[], device=device)


def other(*, n, device, report):
    """The code."""
    return n


def test_of_two_that_want_one_one_makes_and_one_waits():
    calls.clear()
    with ThreadPoolExecutor(2) as pool:  # a lock of its own for each file that was opened
        found = [pool.submit(checkpoint, slow, {"n": 3}, data=[], device="cpu") for _ in range(2)]
    assert [part.result()["value"].tolist() for part in found] == [[0, 1, 2], [0, 1, 2]]
    assert calls == [3]


def test_everything_that_the_content_depends_on_is_in_the_key(monkeypatch, folder):
    def kept():
        checkpoint(slow, {"n": 1}, data=["photos"], device="cpu")
        return len(list(folder.glob("*.pt")))

    assert (kept(), kept()) == (1, 1)
    changes = [
        (slow, "__doc__", "Other code."),
        (tables, "digest", lambda name: "other data"),
        (system, "versions", lambda: {"torch": "0"}),
        (system, "features", lambda kind: {"kind": kind, "capability": "another"}),
    ]
    for number, (where, name, value) in enumerate(changes):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, value)
            assert kept() == number + 2, name
    assert kept() == 1 + len(changes)
    assert checkpoint(other, {"n": 1}, data=["photos"], device="cpu") == 1  # of the same code and arguments


def test_the_digest_of_the_code_covers_all_that_the_function_calls(monkeypatch):
    monkeypatch.undo()
    from alignbook.studies.transferability import imagenet_source, tuned
    from alignbook.studies.transferability.fig08_inputs_and_labels import (
        experiment as fig08_inputs_and_labels,
    )
    from alignbook.training import pretrained

    measured = {"accuracy_and_loss", "evaluation_mode", "fine_tune", "torch_stream"}
    makers = {
        pretrained._states: {"half", "crops_and_flips", "PAD", "WARM_UP", "random_labels", "torch_stream"},
        tuned._trained: {*measured, "_weights", "half", "TEST_IMAGES", "_states", "fresh_head_"},
        imagenet_source._trained: {*measured, "_weights", "images_of", "ImageNetNetwork", "MOMENTUM"},
        fig08_inputs_and_labels._lenet: {"LeNet", "fine_tune", "UPSIDE_DOWN", "torch_stream"},
        fig08_inputs_and_labels._labelled: {*measured, "upper_colours", "ResNet", "COLOURS"},
    }
    for maker, calls in makers.items():
        seen, waiting = set(), [(maker.__module__, maker.__name__)]
        while waiting:
            place = waiting.pop()
            if place not in seen and place not in digest.BOUNDARY:
                seen.add(place)
                waiting.extend(digest._visit(*place)[1])
        missing = {"load", "colour32", "he_normal_layer_", "train", *calls} - {name for _, name in seen}
        assert not missing, (maker, missing)
        assert not {module for module, _ in seen} & {"alignbook.checkpoints", "alignbook.runs.digest"}


def test_what_a_checkpoint_spares_is_counted():
    before = checkpoints.spared()
    checkpoint(slow, {"n": 5}, data=[], device="cpu")
    assert checkpoints.spared() == before
    checkpoint(outer, {"n": 5}, data=[], device="cpu")  # which finds the first
    inner = checkpoints.spared() - before
    assert 0.4 < inner < 1
    checkpoint(outer, {"n": 5}, data=[], device="cpu")
    assert checkpoints.spared() - before - inner > 0.6  # 0.2 s of its own, and the other's 0.5 s
