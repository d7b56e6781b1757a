"""The recorder: what it measures, that it leaves training alone, resuming, its budget, and where rows go."""

import copy
import random
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.nn import functional

import alignbook
from alignbook import Recorder
from alignbook.probing import budget
from alignbook.probing.budget import positions
from alignbook.recording import INSTRUMENTS, schedule

EVERYTHING = list(INSTRUMENTS)


def network(seed=0):
    torch.manual_seed(seed)
    layers = [nn.Conv2d(1, 12, 3), nn.BatchNorm2d(12), nn.ReLU(), nn.Dropout(0.2), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(12 * 16, 3))


def examples(n=48):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(n, 1, 6, 6, generator=generator)
    return x, (x.mean((1, 2, 3)) > 0).long() + (x[:, 0, 0, 0] > 1).long()


def trained(net, recorder=None, steps=range(5)):
    """A loop as a reader has it; what can tell whether anything else took part."""
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    x, y = examples()
    torch.manual_seed(7)
    random.seed(7)
    np.random.seed(7)
    for n in steps:
        if recorder:
            recorder.step(net, n)
        some = torch.randperm(len(x))[:16]
        optimiser.zero_grad()
        functional.cross_entropy(net(x[some]), y[some]).backward()
        optimiser.step()
    draws = [random.random(), np.random.rand(), float(torch.rand(()))]
    return draws, [p.grad.clone() for p in net.parameters()], copy.deepcopy(net.state_dict())


def test_training_is_the_same_bit_for_bit_with_all_instruments():
    class Counting(nn.Module):  # a buffer that even evaluation changes, and a draw in the forward pass
        def __init__(self, net):
            super().__init__()
            self.net = net
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.calls += 1
            torch.rand(1)
            return self.net(x)

    plain, watched = Counting(network()), Counting(network())
    watched.net[3].eval()
    plain.net[3].eval()
    record = Recorder(examples(), EVERYTHING, at=2, share=None)
    expected, found = trained(plain), trained(watched, record)
    assert found[0] == expected[0]
    assert all(map(torch.equal, found[1], expected[1]))
    assert all(torch.equal(found[2][name], value) for name, value in expected[2].items())
    assert watched.training and watched.net[1].training and not watched.net[3].training
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in watched.modules())
    assert record.left_out == {} and set(record.table["instrument"]) == set(EVERYTHING)


@torch.no_grad()
def test_each_number_is_the_instruments_own():
    net, (x, y) = network(), examples()
    record = Recorder((x, y), EVERYTHING, at=[0, 3], share=None)
    record.step(net, 0)
    start = copy.deepcopy(net)
    with torch.enable_grad():
        trained(net)
    record.step(net, 3)
    net.eval()
    assert set(record.table.query("instrument == 'tangent'")["parameter"]) == {"weight"}
    rows = record.table.query("step == 3").set_index(["instrument", "layer"])["value"]
    features = {"0": x.flatten(1), "5": net[:5](x).detach(), "(output)": net(x).detach()}
    onehot = functional.one_hot(y).double()
    centred = (onehot - onehot.mean(0)).numpy()
    for layer, values in features.items():
        along = [alignbook.alignment_curve(values, column)[1] for column in centred.T]
        share = sum(curve[-3] for curve in along) / np.square(centred).sum()
        assert rows["alignment", layer] == pytest.approx(share, rel=1e-5)
    np.testing.assert_allclose(rows["tangent"], alignbook.tangent_alignment(net, x, y), rtol=1e-5)
    assert rows["loss", ""] == pytest.approx(float(functional.cross_entropy(net(x), y)), rel=1e-6)
    top = alignbook.hessian_eigenvalues(net, functional.cross_entropy, x, y, k=1).eigenvalues[0]
    assert rows["curvature", ""] == pytest.approx(top, rel=0.01)
    weights = np.cov(net[0].weight.detach().flatten(1).double().numpy(), rowvar=False, bias=True)
    expected = alignbook.misalignment(alignbook.patch_covariance(x).cov, weights)
    assert rows["misalignment", "0"] == pytest.approx(expected, rel=1e-9)
    moved = alignbook.weight_deviation(start, net)
    assert rows["deviation"].to_dict() == {"0": moved.layers["0.weight"], "5": moved.layers["5.weight"],
                                           "": moved.total}  # fmt: skip
    assert (record.table.query("instrument == 'deviation' and step == 0")["value"] == 0).all()


def test_a_run_that_goes_on_has_the_table_of_one_that_never_stopped(tmp_path):
    names = ["loss", "deviation"]
    whole = Recorder(examples(), names, at=2)
    trained(network(), whole, steps=range(7))
    first = Recorder(examples(), names, at=2)
    first.step(network(), 0)
    torch.save(first.state_dict(), tmp_path / "state.pt")
    later = Recorder(examples(), names, at=2)
    later.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    trained(network(), SimpleNamespace(step=lambda model, n: n and later.step(model, n)), steps=range(7))
    pd.testing.assert_frame_equal(later.table, whole.table)


def test_a_run_that_diverged_is_recorded_as_far_as_it_goes():
    net, record = nn.Linear(36, 3), Recorder(examples(), ["loss", "alignment", "tangent"], at=1)
    flat = nn.Sequential(nn.Flatten(), net)
    record.step(flat, 0)
    nn.init.constant_(net.weight, float("nan"))
    record.step(flat, 1)
    rows = record.table.query("step == 1")
    assert rows["instrument"].tolist() == ["loss", "alignment"] and rows["value"].isna().tolist() == [
        True,
        False,
    ]
    assert rows["layer"].tolist() == ["", "1"]  # what the last layer reads is as before
    assert record.left_out["alignment of (output)"] == "step 1: it is not finite"


def test_recording_keeps_to_its_share(monkeypatch):
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(budget, "clock", lambda: now.seconds)

    def dear(model, inputs, targets):
        now.seconds += 4
        return len(inputs)

    record = Recorder(examples(), [dear, "loss"], at=1, share=0.1)
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
    for n in range(200):
        record.step(net, n)
        now.seconds += 1
    # Two in the ten seconds that are free; the next once a tenth of the training pays for three.
    assert record.table.query("instrument == 'dear'")["step"].tolist() == [0, 1, 120, 160]
    assert record.table.query("instrument == 'loss'")["step"].tolist() == [*range(200)]  # whatever it takes
    assert "step 199: it takes about 4 s" in record.left_out["dear"]


@pytest.mark.parametrize(
    ("at", "steps"),
    [
        (4, [0, 4, 8, 12]),
        (np.int64(7), [0, 7, 14]),
        ([5, 2], [2, 5]),
        (np.array([5, 2]), [2, 5]),
        (torch.tensor([5, 2]), [2, 5]),
        ("logarithmic", [0, 1, 2, 3, 4, 6, 7, 10, 13]),
    ],
)
def test_when_it_looks(at, steps):
    assert [n for n in range(15) if schedule.due(at)(n)] == steps


def test_other_ranks_record_nothing_and_wrappers_come_off(monkeypatch):
    wrapped = nn.DataParallel(network())
    wrapped._orig_mod = None
    record = Recorder(examples(), ["loss", "deviation"], at=1)
    record.step(wrapped, 0)
    assert record.table["layer"].tolist() == ["", "0", "5", ""]
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    record.step(network(), 1)
    assert record.table["step"].tolist() == [0] * 4


def test_the_figure_has_a_panel_per_instrument_and_a_line_per_layer():
    record = Recorder(examples(), ["alignment", "deviation"], at=1)
    for n in range(2):
        record.step(network(n), n)
    first, second = record.plot().axes
    assert [len(panel.lines) for panel in (first, second)] == [3, 1]
    values = record.table.query("instrument == 'alignment' and layer == '5'")["value"]
    np.testing.assert_array_equal(first.lines[1].get_ydata(), values)


def stand_in(monkeypatch, module, name):
    parent = module.partition(".")[0]
    base = type(name, (), {})
    monkeypatch.setitem(sys.modules, parent, SimpleNamespace())
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(**{name: base}))
    return base


def test_callbacks_record_before_the_first_step_and_after_each(monkeypatch):
    net = network()
    base = stand_in(monkeypatch, "lightning.pytorch", "Callback")
    record = Recorder(examples(), ["loss"], at=1)
    callback = alignbook.recording.lightning(record)
    assert isinstance(callback, base)
    callback.on_train_start(SimpleNamespace(global_step=0), net)
    for step in (1, 1, 2):  # two batches make one step where gradients are accumulated
        callback.on_train_batch_end(SimpleNamespace(global_step=step), net, None, None, 0)
    assert record.table["step"].tolist() == [0, 1, 2]
    resumed = Recorder(examples(), ["loss"], at=1)
    alignbook.recording.lightning(resumed).load_state_dict(callback.state_dict())
    assert resumed.table["step"].tolist() == [0, 1, 2]
    base = stand_in(monkeypatch, "transformers", "TrainerCallback")
    record = Recorder(examples(), ["loss"], at=1)
    callback = alignbook.recording.hugging_face(record)
    assert isinstance(callback, base)
    callback.on_train_begin(None, SimpleNamespace(global_step=0), None, model=net, optimizer=None)
    callback.on_step_end(None, SimpleNamespace(global_step=1), None, model=net)
    assert record.table["step"].tolist() == [0, 1]
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match="needs transformers"):
        alignbook.recording.hugging_face(record)


def resumed(record, net, folder, **named):
    """What Hugging Face's Trainer does with a callback from a checkpoint at step 2, up to step 3."""
    callback = alignbook.recording.hugging_face(record)
    args = SimpleNamespace(output_dir=str(folder), **named)
    callback.on_train_begin(args, SimpleNamespace(global_step=2), None, model=net)
    callback.on_step_end(args, SimpleNamespace(global_step=3), None, model=net)
    return record


def test_hugging_faces_checkpoints_hold_the_recorders_state(monkeypatch, tmp_path):
    stand_in(monkeypatch, "transformers", "TrainerCallback")
    start, net, later = network(), network(1), network(2)
    names = ["loss", "deviation"]
    record = Recorder(examples(), names, at=1)
    callback, args = alignbook.recording.hugging_face(record), SimpleNamespace(output_dir=str(tmp_path))
    callback.on_train_begin(args, SimpleNamespace(global_step=0), None, model=start)
    state = SimpleNamespace(global_step=2, is_world_process_zero=True)
    callback.on_step_end(args, state, None, model=net)
    folder = tmp_path / "checkpoint-2"
    folder.mkdir()
    callback.on_save(args, SimpleNamespace(global_step=2, is_world_process_zero=False), None)
    assert list(folder.iterdir()) == []
    callback.on_save(args, state, None, model=net)
    assert [path.name for path in folder.iterdir()] == ["alignbook-recorder.pt"]
    callback.on_step_end(args, SimpleNamespace(global_step=3), None, model=later)
    again = resumed(Recorder(examples(), names, at=1), net, tmp_path)
    assert again.table.query("step < 3").equals(record.table.query("step < 3")) and again.left_out == {}
    moved = alignbook.weight_deviation(start, net).total
    assert again.table.query("step == 3 and instrument == 'deviation'")["value"].iloc[-1] == moved
    elsewhere = tmp_path / "elsewhere"
    named = resumed(Recorder(examples(), names, at=1), net, elsewhere, resume_from_checkpoint=str(folder))
    assert named.table.equals(again.table)
    without = resumed(Recorder(examples(), names, at=1), net, elsewhere)
    assert set(without.table["instrument"]) == {"loss"}
    assert "holds no alignbook-recorder.pt" in without.left_out["state"]
    assert "hand them in as start=" in without.left_out["deviation"]
    known = resumed(Recorder(examples(), names, at=1, start=start), net, elsewhere)
    assert known.table.query("step == 3 and instrument == 'deviation'")["value"].iloc[-1] == moved


def test_lightning_resumed_without_a_state_does_not_count_from_later_weights(monkeypatch):
    stand_in(monkeypatch, "lightning.pytorch", "Callback")
    record = Recorder(examples(), ["deviation"], at=1)
    alignbook.recording.lightning(record).on_train_start(SimpleNamespace(global_step=5), network())
    assert record.table.empty and "start=" in record.left_out["deviation"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"instruments": ["los"]}, "there is no instrument 'los': loss, alignment"),
        ({"instruments": []}, "there are no instruments"),
        ({"instruments": [lambda *_: 0.0, lambda *_: 1.0]}, "two instruments are called '<lambda>'"),
        ({"at": 0}, "at must be a period, a list of steps or 'logarithmic', not 0"),
        ({"at": "often"}, "not 'often'"),
        ({"at": np.eye(40)}, "at must be a period, a list of steps"),
        ({"seed": -1}, "seed must be an integer from 0 on, not -1"),
        ({"start": 3}, "start must be an nn.Module, a state dict, a checkpoint or its path, not int"),
        ({"share": "5%"}, "share must be a number above 0, not '5%'"),
        ({"data": "digits"}, "data must be .* not str"),
        ({"data": (torch.ones(4, 2), torch.ones(3))}, "4 inputs and 3 targets: at least 1"),
        ({"examples": 0}, "examples must be an integer from 1 on"),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments, message):
    with pytest.raises(ValueError, match=message) as error:
        Recorder(**{"data": examples(), **arguments})
    assert "\n" not in str(error.value)


def test_what_is_no_step_or_no_network_is_refused():
    record = Recorder(examples(), ["loss"])
    for model, n, message in (
        (network(), -1, "n must be an integer"),
        (nn.Linear, 0, "must be an nn.Module"),
    ):
        with pytest.raises(ValueError, match=message):
            record.step(model, n)
    assert record.table.empty and not record.left_out


def test_the_examples_are_copies():
    x, y = examples()
    record = Recorder((x, y), ["loss"], at=1, examples=5)
    some = torch.tensor(positions(len(x), 5))
    expected = functional.cross_entropy(network().eval()(x[some]), y[some]).item()
    x.zero_()
    record.step(network(), 0)
    assert record.table["value"].item() == pytest.approx(expected, rel=1e-6)


def test_the_weights_at_the_start_may_be_a_checkpoint_or_its_path(tmp_path):
    start, net = network(), network(1)
    torch.save({"state_dict": start.state_dict(), "epoch": 3}, tmp_path / "start.pt")
    given = [start, {"model": start.state_dict()}, tmp_path / "start.pt", str(tmp_path / "start.pt")]
    tables = []
    for each in given:
        record = Recorder(examples(), ["deviation"], at=1, start=each)
        record.step(net, 5)
        tables.append(record.table)
    assert (tables[0]["value"] > 0).all() and all(table.equals(tables[0]) for table in tables)
    with pytest.raises(alignbook.AlignbookError, match=r"none\.pt cannot be read") as error:
        Recorder(examples(), ["deviation"], start=str(tmp_path / "none.pt"))
    assert "\n" not in str(error.value)


def test_a_weight_that_the_start_lacks_is_named_and_the_others_are_measured():
    net, start = network(1), network().state_dict()
    del start["5.weight"]
    record = Recorder(examples(), ["deviation"], at=1, start=start)
    record.step(net, 0)
    assert record.table["layer"].tolist() == ["0", ""]
    assert "the start has no such weight" in record.left_out["deviation of 5 weight"]


def test_a_state_that_is_none_is_refused_and_changes_nothing():
    record = Recorder(examples(), ["loss", "deviation"], at=1)
    record.step(network(), 0)
    good, table = record.state_dict(), record.table
    for bad in (
        [],
        {},
        good | {"rows": [[0, "loss", [["", "", "x"]]]]},
        good | {"budget": {"junk": 1}},
    ):
        with pytest.raises(ValueError, match="this is no recorder's state: ") as error:
            record.load_state_dict(bad)
        assert "\n" not in str(error.value) and record.table.equals(table)
    again = Recorder(examples(), ["loss"])
    again.load_state_dict(good)
    assert again.table.equals(table)


def test_nothing_recorded_is_nothing_to_draw():
    with pytest.raises(ValueError, match="nothing is recorded yet"):
        Recorder(examples(), ["loss"]).plot()
