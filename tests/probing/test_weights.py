"""Weights as trainers keep them, under the names of the network; another head; several networks."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import alignbook
from alignbook.errors import AlignbookError
from alignbook.probing import weights

N = 24


def make(classes=3):
    torch.manual_seed(classes)
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, classes))


def data():
    return torch.randn(N, 5, generator=torch.Generator().manual_seed(0)), torch.arange(N) % 3


def lightning(prefix):
    """A checkpoint whose network has a name of its own, with a weight of the loss beside it."""
    state = {prefix + name: values for name, values in make().state_dict().items()}
    return {"epoch": 3, "state_dict": {**state, "loss.weight": torch.ones(3)}, "optimizer_states": [{}]}


class Classifier(nn.Module):
    """A pre-trained network inside of one with another head."""

    def __init__(self, base, head):
        super().__init__()
        self.base, self.head = base, head

    def forward(self, x):
        return self.head(self.base(x))


def test_the_network_that_a_classifier_was_made_of_is_found_in_it():
    base, (x, y) = make(), data()
    net = Classifier(base, nn.Linear(3, 3))
    start = {name: values.clone() for name, values in base.state_dict().items()}
    with torch.no_grad():
        base[0].weight.add_(1)
    only = ["features", "tangent", "curvature", "slice", "initialisation"]
    for before in (start, make()):
        found = alignbook.probe(net, x, y, before=before, without=only)
        moved = found.tables["deviation"]
        assert moved["layer"].tolist() == ["base.0", "base.3"] and moved["deviation"][0] > 0
        assert "before: its weights are compared with those under base." in found.said
        assert "since before: only now, left out: head.weight, head.bias" in found.said
    twins = nn.ModuleDict({"a": make(), "b": make()})  # of which of the two is not known
    assert weights.matched(start, twins.state_dict())[0] == start
    wrapped = nn.Sequential(make())
    inside, _ = weights.filled(wrapped, weights.matched(start, wrapped.state_dict())[0])
    assert torch.equal(inside[0][0].weight, start["0.weight"])


@pytest.mark.parametrize("prefix", ["net.", "model.", "module._orig_mod.", "0."])
def test_whatever_names_begin_with_goes_where_the_network_fits(tmp_path, prefix):
    torch.save(lightning(prefix), tmp_path / "a.ckpt")
    x, y = data()
    only = ["features", "tangent", "curvature", "initialisation"]
    for before in (lightning(prefix), str(tmp_path / "a.ckpt"), tmp_path / "a.ckpt"):
        found = alignbook.probe(make(), x, y, before=before, without=only)
        assert f"before: of its weights those under {prefix} are taken; left over: loss.weight" in found.said
        assert found.network["before"]["loss"] == found.network["network"]["loss"]
        assert found.tables["deviation"]["deviation"].tolist() == [0, 0]
    inside = nn.ModuleDict({"net": make()})
    state, left = weights.matched(inside.state_dict(), make().state_dict())
    assert left is None and list(state) == list(make().state_dict())


def test_safetensors_are_read_by_their_own_package(tmp_path, monkeypatch):
    package = SimpleNamespace(load_file=lambda path: {"w": torch.ones(2)} if path.stat().st_size else None)
    monkeypatch.setitem(sys.modules, "safetensors", SimpleNamespace(torch=package))
    monkeypatch.setitem(sys.modules, "safetensors.torch", package)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    assert torch.equal(weights.read(tmp_path)["w"], torch.ones(2))
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(AlignbookError, match="model.safetensors holds no state dict"):
        weights.read(tmp_path)
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(AlignbookError, match="model.safetensors cannot be read: ModuleNotFoundError"):
        weights.read(tmp_path)


class Tied(nn.Module):
    """A head whose weights are those of the embedding, as language models have it."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(11, 4), nn.Linear(4, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.embedding(tokens))


def test_weights_that_are_tied_need_to_be_there_once():
    net, trained = Tied(), Tied()
    once = {"embedding.weight": trained.embedding.weight}  # as safetensors keeps them
    network, why = weights.filled(net, once)
    assert why is None and torch.equal(network.head.weight, trained.head.weight)
    assert network.head.weight is network.embedding.weight
    apart = Tied()
    apart.head.weight = nn.Parameter(torch.zeros(11, 4))
    assert weights.filled(apart, once) == (None, "its weights lack head.weight")


def test_of_another_head_the_shared_part_is_compared():
    found = alignbook.probe(make(), *data(), before=make(7).state_dict(), without=["curvature"])
    assert (
        "before: its weights have other shapes: 3.weight, 3.bias; only its weights are compared" in found.said
    )
    assert set(found.tables["deviation"]["layer"]) == {"0"} and "before" not in found.network
    assert "since before: of other shapes, left out: 3.weight, 3.bias" in found.said


def test_weights_that_do_not_fit_are_compared_where_both_have_them():
    state = make().state_dict()
    state["extra.weight"] = state.pop("3.weight")
    net = make()
    with torch.no_grad():
        net[0].weight += 1
    found = alignbook.probe(net, *data(), before=state, without=["curvature"])
    assert any(
        line.startswith("before: its weights lack 3.weight and have extra.weight beside")
        for line in found.said
    )
    assert {"network", "initialisation"} == set(found.tables["features"]["network"])
    moved = found.tables["deviation"]
    assert moved["layer"].tolist() == ["0"] and moved["deviation"].iloc[0] == pytest.approx(40**0.5)


def test_probes_compared_and_read_back(tmp_path):
    x, y = data()
    without = ["filters", "curvature"]
    first, second = (alignbook.probe(make(c), x, y, examples=16, without=without) for c in (3, 4))
    assert set(first.examples.values()) == {16}
    first.to_json(tmp_path / "first.json")
    again = alignbook.Probe.from_json(tmp_path / "first.json")
    assert again.as_dict() == first.as_dict() and again.data == second.data
    joined = again.tables["features"].merge(again.tables["tangent"], on=["layer", "network"])
    assert set(joined["layer"]) == {"0", "3"}
    both = alignbook.compare(start=again, end=second)
    assert set(both.tables["tangent"]["network"]) == {"start", "end", "initialisation"}
    of_end = both.tables["slice"].query("network == 'end'")["loss"].to_numpy()
    assert np.array_equal(of_end, second.tables["slice"].query("network == 'network'")["loss"].to_numpy())
    assert not any("different examples" in line for line in both.said)
    other = alignbook.probe(make(), x + 1, y, examples=8, without=without)
    said = alignbook.compare(first, other).said
    assert any("different examples" in line for line in said) and any(
        "slice saw another" in line for line in said
    )
    page = both.to_html(tmp_path / "both.html")
    assert page.count("<svg") >= 3 and (tmp_path / "both.html").read_text() == page
    with pytest.raises(ValueError, match="two or more"):
        alignbook.compare(first)
    (tmp_path / "first.json").write_text('{"tables": 3}')
    with pytest.raises(AlignbookError, match="no probe"):
        alignbook.Probe.from_json(tmp_path / "first.json")
