"""The recorder understands data, networks and names as the probe does, and never ends the training."""

from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from torch import nn
from torch.nn import functional

import alignbook
from alignbook import Recorder
from alignbook.probing import budget
from alignbook.recording import schedule
from tests.networks import CLASSES, WORDS, Language, N, Segments, mlp, tokens, vectors


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def recorded(net, data, names, **options):
    record = Recorder(data, names, at=1, **options)
    record.step(net, 0)
    return record


def values(record):
    return record.table.set_index(["instrument", "layer"])["value"]


def test_a_regressions_alignment_at_the_output_does_not_depend_on_the_unit():
    x = torch.randn(N, 5)
    target, net = x @ torch.randn(5) + 3, nn.Linear(5, 1)
    with torch.no_grad():
        net.weight.copy_(torch.linalg.lstsq(x, target[:, None]).solution.T)
    found = []
    for unit in (1.0, 1000.0):
        scaled = nn.Linear(5, 1)
        scaled.load_state_dict({name: unit * value for name, value in net.state_dict().items()})
        found.append(values(recorded(scaled, (x, unit * target), ["alignment"]))["alignment", "(output)"])
    assert found[0] == pytest.approx(found[1], rel=1e-4) and found[0] > 0.5
    nn.init.zeros_(scaled.weight)
    assert values(recorded(scaled, (x, target), ["alignment"]))["alignment", "(output)"] == 0
    probed = alignbook.probe(scaled, (x, target), without=["tangent", "slice", "curvature", "initialisation"])
    assert probed.tables["features"].query("layer == '(output)'")["share"].tolist() == [0]
    probed = alignbook.probe(net, (x, target), without=["tangent", "slice", "curvature", "initialisation"])
    rows = probed.tables["features"].query("layer == '(output)' and k == 1")
    assert rows["share"].item() == pytest.approx(found[0], rel=1e-4)


def test_it_is_told_from_its_labels_where_an_untrained_network_answers_the_same_everywhere():
    net, data = Language(blank=True), tokens()
    record = Recorder(data, ["loss"], at=1)
    record.step(net, 0)
    assert any("next token" in line for line in record.said)
    net.head.reset_parameters()
    record.step(net.eval(), 1)
    found = record.table.query("step == 1")["value"].item()
    assert found == pytest.approx(net(**data).loss.item(), rel=1e-5)


class Scores(nn.Module):
    """Classes come last, and it states no loss of its own."""

    def __init__(self, first):
        super().__init__()
        self.first, self.head = first, nn.Linear(8, WORDS)

    def forward(self, x):
        return self.head(self.first(x))


def test_as_many_positions_as_classes_are_no_riddle_where_tokens_come_in():
    ids = torch.randint(0, WORDS, (N, WORDS))
    labels = torch.where(torch.rand(N, WORDS) < 0.3, -100, ids)
    causal, scores = Language().eval(), Scores(nn.Embedding(WORDS, 8))
    own = causal(ids, labels).loss.item()
    plain = functional.cross_entropy(scores(ids).flatten(0, 1), labels.flatten()).item()
    for net, expected in ((causal, own), (scores, plain)):
        record = recorded(net, {"input_ids": ids, "labels": labels} if net is causal else (ids, labels),
                          ["loss", "alignment", "tangent", "curvature"], share=None)  # fmt: skip
        assert record.left_out == {} and values(record)["loss", ""] == pytest.approx(expected, rel=1e-5)
    found = alignbook.probe(scores, ids, labels, without=["curvature", "initialisation"])
    assert found.network["network"]["loss"] == pytest.approx(plain, rel=1e-5)
    x = torch.randn(N, WORDS, 8)
    with pytest.raises(alignbook.errors.AlignbookError, match="give examples of another length"):
        alignbook.probe(Scores(nn.Linear(8, 8)), x, labels, without=["initialisation"])
    assert "another length" in recorded(Scores(nn.Linear(8, 8)), (x, labels), ["loss"]).left_out["loss"]


class Same(Language):
    """Its loss is that of the token itself; outputs come as a tuple after the loss."""

    def forward(self, input_ids, labels=None):
        logits = super().forward(input_ids).logits
        return logits if labels is None else (functional.cross_entropy(logits.mT, labels), logits)


def test_a_loss_that_does_not_shift_is_taken_as_it_is():
    net, data = Same(blank=True).eval(), tokens()
    record = recorded(net, data, ["loss"])
    assert record.said == ()
    net.head.reset_parameters()
    record.step(net, 1)
    expected = net(**data)[0].item()
    assert record.table.query("step == 1")["value"].item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("size", [(6, 4), (4, 6), (4, 4), (5, 6)])
def test_segmentation_of_every_size_has_its_loss(size):
    """Four classes: as many as the width, the height, both or neither."""
    x, y = torch.randn(N, 3, *size), torch.randint(0, 4, (N, *size))
    y[:, 0] = -100
    net = Segments(4)
    record = recorded(net, (x, y), ["loss", "alignment", "tangent", "curvature"])
    expected = functional.cross_entropy(net(x)["out"], y).item()
    assert values(record)["loss", ""] == pytest.approx(expected, rel=1e-5) and record.left_out == {}
    assert values(record)["alignment"].index.tolist() == ["body", "head", "(output)"]


def test_whatever_an_instrument_raises_the_training_goes_on():
    def missing(model, inputs, targets):
        if calls.append(1) or len(calls) == 2:
            raise KeyError("hidden")
        return 1.0

    def never(model, inputs, targets):
        raise ZeroDivisionError("by zero")

    calls, net = [], mlp()
    record = Recorder(vectors(), [missing, never, "loss"], at=1)
    for n in range(3):
        record.step(net, n)
    assert record.table.query("instrument == 'missing'")["step"].tolist() == [0, 2]
    assert record.table.query("instrument == 'loss'")["step"].tolist() == [0, 1, 2]
    assert record.left_out["missing"] == "step 1: KeyError: 'hidden'"
    assert record.left_out["never"] == "step 0: ZeroDivisionError: by zero"  # said once, and not tried again


def test_one_example_without_a_class_costs_no_instrument():
    (x, y), net = vectors(), mlp()
    y[4] = -100
    record = recorded(net, (x, y), ["loss", "alignment", "tangent", "curvature"])
    known = torch.arange(N) != 4
    expected = recorded(net, (x[known], y[known]), ["loss", "alignment", "tangent", "curvature"])
    pd.testing.assert_frame_equal(record.table, expected.table, rtol=1e-4)
    assert record.left_out == {} and len(record.table) == 7


def test_networks_and_data_of_different_precision():
    (x, y), net = vectors(), mlp().double()
    expected = functional.cross_entropy(net(x.double()), y).item()
    seen = []
    mine = recorded(net, (x, y), ["loss", lambda model, inputs, targets: seen.append(inputs.dtype) or 0.0])
    assert values(mine)["loss", ""] == pytest.approx(expected, rel=1e-12) and seen == [torch.float64]
    net = net.float()
    assert values(recorded(net, (x.double().numpy(), y), ["loss"]))["loss", ""] == pytest.approx(
        expected, rel=1e-5
    )


class Attention(nn.Module):
    """Multi-head attention as PyTorch has it, whose projections are parameters of one module; and a GRU."""

    def __init__(self):
        super().__init__()
        self.lift, self.attention = nn.Conv1d(4, 8, 1), nn.MultiheadAttention(8, 2)
        self.memory, self.norm, self.head = (
            nn.GRU(8, 5, batch_first=True),
            nn.LayerNorm(5),
            nn.Linear(5, CLASSES),
        )

    def forward(self, x):
        h = self.lift(x).permute(2, 0, 1)
        h = self.attention(h, h, h, need_weights=False)[0].transpose(0, 1)
        return self.head(self.norm(self.memory(h)[0].mean(1)))


def test_the_recorders_table_joins_with_the_probes():
    x, y = torch.randn(N, 4, 5), torch.arange(N) % CLASSES
    net, start = Attention(), Attention()
    probed = alignbook.probe(net, x, y, before=start, without=["curvature", "slice", "initialisation"]).tables
    record = recorded(net, (x, y), ["alignment", "tangent", "deviation"], start=start)
    assert record.left_out == {}
    mine = {name: rows for name, rows in record.table.groupby("instrument")}
    features = probed["features"].query("network == 'network'")
    both = features.query(f"k == {CLASSES}").merge(mine["alignment"], on="layer")
    layers = ["lift", "attention", "memory", "head", "(output)"]
    assert both["layer"].tolist() == mine["alignment"]["layer"].tolist() == layers
    assert both["value"].to_numpy() == pytest.approx(both["share"].to_numpy(), rel=1e-5)
    tangent = probed["tangent"].query("network == 'network'")
    both = tangent.merge(mine["tangent"], on=["layer", "parameter"])
    assert len(both) == len(tangent) == len(mine["tangent"]) == 6
    assert both["value"].to_numpy() == pytest.approx(both["alignment"].to_numpy(), rel=1e-5)
    both = probed["deviation"].merge(mine["deviation"], on=["layer", "parameter"])
    assert len(both) == len(probed["deviation"]) == len(mine["deviation"]) - 1 == 6  # its sum beside
    assert both["value"].to_numpy() == pytest.approx(both["deviation"].to_numpy(), rel=1e-12)
    assert set(layers) - {"(output)"} < set(both["layer"])


now = SimpleNamespace(seconds=0.0, seen=[])


class Slow(nn.Module):
    """Takes two milliseconds of ``now`` for each example that it sees."""

    def __init__(self):
        super().__init__()
        self.net = mlp()

    def forward(self, x):
        now.seen.append(len(x))
        now.seconds += 0.002 * len(x)
        return self.net(x)


def test_a_first_look_that_takes_more_than_is_left_is_stopped(monkeypatch):
    x, y = torch.randn(200, 6), torch.arange(200) % CLASSES
    monkeypatch.setattr(schedule, "FREE", 0.1)
    monkeypatch.setattr(budget, "clock", lambda: now.seconds)
    net = Slow()
    record = recorded(net, (x, y), ["loss", "alignment"], examples=200)
    assert record.table["instrument"].tolist() == ["loss"]  # which is never left out
    assert record.left_out["alignment"] == "step 0: it takes about 0 s, and recording may take 0 s (share=)"
    now.seen.clear()
    record.step(net, 1)
    assert sum(now.seen) == 200  # the loss alone
    record._budget.trained = 1e6
    record.step(net, 2)
    assert set(record.table["instrument"]) == {"loss", "alignment"} and max(now.seen) == 100
    whole = recorded(Slow(), (x, y), ["loss"], examples=200, share=None)
    assert whole.table["instrument"].tolist() == ["loss"]
