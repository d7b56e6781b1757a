"""What comes from elsewhere is data: it runs no code, leaves no folder and writes no HTML."""

import os
import pickle
from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch import nn

from alignbook import checkpoints
from alignbook.data import DataError, load
from alignbook.errors import AlignbookError
from alignbook.probing import probe, sources
from companion.runs import notebooks, parameters


class Writes:
    """A pickle that makes a file when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture
def harm(tmp_path):
    """The path of what a file with code in it would make."""
    path = tmp_path / "harm"
    pickle.loads(pickle.dumps(Writes(path)))  # it does
    path.rmdir()
    yield path
    assert not path.exists()


def test_archives_of_pickles_are_refused(harm, tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGNBOOK_DATA", str(tmp_path))
    evil = np.array([Writes(harm)], dtype=object)
    np.savez(tmp_path / "mnist.npz", **dict.fromkeys(("x_train", "y_train", "x_test", "y_test"), evil))
    np.savez(tmp_path / "own.npz", x=evil, y=evil)
    with pytest.raises(DataError, match="mnist.npz"):
        load("mnist", n=10, seed=0)
    with pytest.raises(AlignbookError, match="own.npz"):
        sources.examples(str(tmp_path / "own.npz"), 10)


def test_weights_that_are_pickles_of_more_are_refused(harm, tmp_path):
    torch.save({"state_dict": {"weight": Writes(harm)}}, tmp_path / "weights.pt")
    with pytest.raises(AlignbookError, match="weights.pt cannot be read"):
        sources.network(str(tmp_path / "weights.pt"))


def test_a_checkpoint_that_is_a_pickle_of_more_is_made_anew(harm, tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGNBOOK_CHECKPOINTS", str(tmp_path / "kept"))
    monkeypatch.setattr(checkpoints, "_key", lambda make, arguments: "key")
    assert checkpoints.kept(lambda: {"a": 1}, {})["a"] == 1
    file = tmp_path / "kept" / "key.pt"
    assert torch.load(file)["made"] == {"a": 1}
    torch.save({"made": Writes(harm), "seconds": 0.0}, file)
    assert checkpoints.kept(lambda: {"a": 2}, {})["a"] == 2


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.mkdir", "!!python/object/new:os.mkdir"])
def test_yaml_makes_no_objects(harm, tag, tmp_path):
    profiles = tmp_path / "profiles.yaml"
    profiles.write_text(f"quick: {tag} [{harm}]")
    with pytest.raises(AlignbookError, match="cannot read"):
        parameters.from_yaml(profiles)
    with pytest.raises(AlignbookError, match="cannot read"):
        parameters.from_text([f"rate={tag} [{harm}]"])


@pytest.mark.parametrize("name", ["../mnist", "/etc/passwd", "a/../../b", ".hidden", "mnist\0", "C:mnist"])
def test_names_stay_in_their_folders(name):
    with pytest.raises(DataError, match="is no name of an image set"):
        load(name, n=1, seed=0)
    with pytest.raises(AlignbookError, match="no notebook"):
        notebooks.find(name)


def test_names_of_layers_are_text_on_a_page():
    name = '<img src="x" onerror="alert(1)">'
    layers = {name: nn.Linear(3, 4), "act": nn.ReLU(), "</td>": nn.Linear(4, 2)}
    net = nn.Sequential(OrderedDict(layers))
    stream = torch.Generator().manual_seed(0)
    x, y = torch.randn(20, 3, generator=stream), torch.randint(0, 2, (20,), generator=stream)
    found = probe(net, x, y, without=["curvature", "slice", "tangent"], seed=0)
    report = found.to_html(title=f"{name} on digits")
    assert "&lt;img src=" in report and "<img src=" not in report and "<td></td>" not in report
