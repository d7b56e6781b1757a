"""Which axis holds the examples, in layers that read them first, second, packed, merged, or not at all."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

import alignbook
from alignbook.probing.features import spectrum

N, WIDTH = 32, 5
ONLY = ["tangent", "slice", "curvature", "initialisation"]


class Recurrent(nn.Module):
    """The same function, whichever axis its recurrent layer takes the examples on."""

    def __init__(self, kind, how):
        super().__init__()
        self.how = how
        self.rnn = kind(WIDTH, 8, batch_first=how != "time first")
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        if self.how == "time first":
            return self.head(self.rnn(x.transpose(0, 1))[0][-1])
        if self.how == "packed":
            packed = pack_padded_sequence(x, [x.shape[1]] * len(x), batch_first=True)
            packed, _ = self.rnn(packed)
            return self.head(nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)[0][:, -1])
        return self.head(self.rnn(x)[0][:, -1])


def features(net, x, y, **given):
    found = alignbook.probe(net, x, y, without=ONLY, **given)
    return found.tables["features"].drop(columns="network"), found.left_out


@pytest.mark.parametrize(("kind", "how"), [(nn.LSTM, "time first"), (nn.LSTM, "packed"), (nn.GRU, "packed")])
@pytest.mark.parametrize("steps", [8, N])
def test_recurrent_layers_read_the_same_on_either_axis(kind, steps, how):
    first, other = Recurrent(kind, "examples first"), Recurrent(kind, how)
    other.load_state_dict(first.state_dict())
    x, y = torch.randn(120, steps, WIDTH), torch.arange(120) % 3
    for count in (N, 120):
        expected, found = (features(net, x[:count], y[:count])[0] for net in (first, other))
        assert found["layer"].tolist() == expected["layer"].tolist()
        np.testing.assert_allclose(found["share"], expected["share"], atol=1e-5)
        cka = alignbook.layer_cka(first, x[:count], other)
        assert cka.loc["rnn", "rnn"] == pytest.approx(1) and cka.loc["head", "head"] == pytest.approx(1)
        tables = []
        for net in (first, other):
            recorder = alignbook.Recorder((x[:count], y[:count]), ["alignment"], share=None)
            recorder.step(net, 0)
            tables.append(recorder.table.set_index("layer")["value"])
        np.testing.assert_allclose(*tables, rtol=1e-3)
        assert set(tables[1].index) == {"rnn", "head", "(output)"}


def test_packed_sequences_of_several_lengths_hold_zeros_after_their_ends():
    class Packs(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.GRU(WIDTH, 8, batch_first=True), nn.Linear(8, 3)

        def forward(self, x, lengths):
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=self.ordered)
            return self.head(self.rnn(packed)[1][0])

    x, y, lengths = torch.randn(130, 7, WIDTH), torch.arange(130) % 3, torch.arange(130) % 6 + 1
    kept = x * (torch.arange(7) < lengths[:, None])[..., None]
    _, centred = None, nn.functional.one_hot(y).double()
    for ordered in (False, True):
        net = Packs()
        net.ordered = ordered
        order = lengths.argsort(descending=True, stable=True) if ordered else torch.arange(130)
        table, left = features(net, (x[order], lengths[order]), y[order])
        assert not any("rnn" in name for name in left)
        share, *_ = spectrum(kept.flatten(1)[order], (centred - centred.mean(0))[order])
        rows = table.query("layer == 'rnn'")
        np.testing.assert_allclose(rows["share"], share[rows["k"] - 1], atol=1e-6)


def test_the_nodes_of_a_graph_are_no_examples():
    nodes, mix = torch.randn(60, 6), torch.rand(60, 60).softmax(1)
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(net, asked):
        return net(mix @ nodes)[asked]

    y = nodes[:, :3].argmax(1)
    for asked in (torch.arange(60), torch.randperm(60), torch.randperm(60)[:40]):
        table, left = features(net, asked, y[asked], forward=forward)
        assert set(table["layer"]) == {"(output)"}
        assert {left["features of 0"], left["features of 2"]} == {"what it reads tells no examples apart"}
        recorder = alignbook.Recorder((asked, y[asked]), ["alignment"], forward=forward)
        recorder.step(net, 0)
        assert recorder.table["layer"].tolist() == ["(output)"]
        assert recorder.left_out["alignment of 0"] == "step 0: what it reads tells no examples apart"


class Merging(nn.Module):
    """A linear layer reads examples and positions in one axis, in one order or the other."""

    def __init__(self, examples_first):
        super().__init__()
        self.examples_first = examples_first
        self.inner, self.head = nn.Linear(WIDTH, 6), nn.Linear(24, 3)

    def forward(self, x):
        n, steps, _ = x.shape
        rows = x if self.examples_first else x.transpose(0, 1)
        inner = self.inner(rows.reshape(n * steps, -1)).relu()
        inner = inner.view(n, steps, -1) if self.examples_first else inner.view(steps, n, -1).transpose(0, 1)
        return self.head(inner.flatten(1))


def test_examples_and_positions_in_one_axis_are_told_apart():
    x, y = torch.randn(N, 4, WIDTH), torch.arange(N) % 3
    nets = [Merging(True), Merging(False)]
    nets[1].load_state_dict(nets[0].state_dict())
    tables = [features(net, x, y)[0] for net in nets]
    np.testing.assert_allclose(tables[0]["share"], tables[1]["share"], atol=1e-6)
    share, *_ = spectrum(x.flatten(1), nn.functional.one_hot(y).double() - y.bincount() / N)
    rows = tables[1].query("layer == 'inner'")
    np.testing.assert_allclose(rows["share"], share[rows["k"] - 1], atol=1e-6)


class Odd(nn.Module):
    """Layers that read similarities of examples, words, complex numbers, and nothing at all."""

    def __init__(self):
        super().__init__()
        self.pairs, self.unused, self.head = nn.Linear(N, 4), nn.Linear(2, 2), nn.Linear(WIDTH, 3)
        self.wave = nn.Linear(WIDTH, 2, dtype=torch.complex64)

    def forward(self, x):
        self.pairs(nn.functional.pad(x @ x.T, (0, N - len(x))))
        self.wave(torch.complex(x, x))
        return self.head(x)


def test_every_layer_that_is_left_out_is_named():
    x, y = torch.randn(N, WIDTH), torch.arange(N) % 3
    table, left = features(Odd(), x, y)
    assert set(table["layer"]) == {"head", "(output)"}
    assert "no axis follows" in left["features of pairs"] and "complex64" in left["features of wave"]
    assert "not called" in left["features of unused"]
    named = alignbook.layer_cka(Odd(), x).attrs["left_out"]
    assert "complex64" in named["wave"] and named["unused"] == "it is not called"


def test_layers_whose_weights_are_parametrised_read_as_before():
    x, y = torch.randn(N, WIDTH), torch.arange(N) % 3
    net = nn.Sequential(nn.Linear(WIDTH, 6), nn.ReLU(), nn.Linear(6, 3))
    expected, _ = features(net, x, y)
    nn.utils.parametrizations.weight_norm(net[0])
    table, _ = features(net, x, y)
    assert table["layer"].tolist() == expected["layer"].tolist()
    np.testing.assert_allclose(table["share"], expected["share"], atol=1e-6)
