"""Data and networks of every make: what is measured is right, or refused in one line; nothing is changed."""

import copy
import random
import re

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, default_collate

import alignbook
from alignbook.errors import AlignbookError
from alignbook.probing import features
from alignbook.probing.data import Data
from alignbook.probing.network import Network
from alignbook.probing.task import Task
from tests import dense
from tests.networks import CLASSES, Language, N, Segments, mlp, tokens, vectors

QUICK = ["curvature", "tangent", "initialisation"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"loss": "ce"}, "loss must be a function of outputs and targets, not str"),
        ({"loss": nn.CrossEntropyLoss}, "a function of outputs and targets, not CrossEntropyLoss"),
        ({"forward": 3}, "forward must be a function of model and inputs, not int"),
    ],
)
def test_what_is_no_function_is_refused_by_probe_and_recorder(given, said):
    with pytest.raises(ValueError, match=said):
        alignbook.probe(mlp(), *vectors(), **given)
    with pytest.raises(ValueError, match=said):
        alignbook.Recorder(vectors(), **given)


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        (lambda y: y.float(), r"outputs \(n, 3\) do not fit targets \(n,\): classes are integers from 0 on"),
        (lambda y: y[:, None], r"outputs \(n, 3\) do not fit targets \(n, 1\)"),
        (lambda y: functional.one_hot(y, CLASSES), "for one logit, or several labels, give floats and loss="),
        (lambda y: y + 9, "there are 3 outputs, and classes up to 11"),
    ],
)
def test_targets_that_do_not_fit_are_refused_by_probe_and_recorder(targets, said):
    net, (x, y) = mlp(), vectors()
    with pytest.raises(AlignbookError, match=said):
        alignbook.probe(net, x, targets(y), without=QUICK)
    recorder = alignbook.Recorder((x, targets(y)), ["loss"], at=1)
    recorder.step(net, 0)
    assert re.search(said, recorder.left_out["loss"])


def test_a_single_logit_is_asked_for_by_its_loss():
    x, y = vectors()
    with pytest.raises(AlignbookError, match="for one logit, or several labels, give floats and loss="):
        alignbook.probe(nn.Linear(6, 1), x, (y > 0).long(), without=QUICK)


def test_all_random_states_are_as_before():
    def draws(x):
        random.random(), np.random.random(), torch.rand(1)
        return x

    net, (x, y) = mlp(), vectors()
    pairs = [(draws(a), b) for a, b in zip(x, y, strict=True)]
    loader = DataLoader(pairs, 8, shuffle=True, collate_fn=lambda p: default_collate(draws(p)))
    states = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()
    alignbook.probe(net, loader, forward=lambda net, inputs: net(draws(inputs)), without=QUICK)
    alignbook.layer_cka(net, loader)
    assert random.getstate() == states[0] and (np.random.get_state()[1] == states[1]).all()
    assert torch.equal(torch.get_rng_state(), states[2])


def test_numbers_are_those_of_float32_inside_of_autocast():
    net, (x, y) = mlp(), vectors()
    only = ["initialisation", "slice", "tangent"]
    plain, alike = alignbook.probe(net, x, y, without=only), alignbook.layer_cka(net, x)
    with torch.autocast("cpu", torch.bfloat16):
        found, cka = alignbook.probe(net, x, y, without=only), alignbook.layer_cka(net, x)
    assert found.as_dict() | {"made": 0} == plain.as_dict() | {"made": 0} and "curvature" in found.tables
    assert cka.equals(alike)


class Gate(nn.Module):
    """A hardsigmoid of what PyTorch differentiates twice."""

    def forward(self, x):
        return functional.relu6(x + 3) / 6


@pytest.mark.parametrize("inplace", [False, True])
def test_gates_that_pytorch_differentiates_once_have_a_curvature(inplace):
    net, (x, y) = mlp(), vectors()
    net[1] = nn.Hardsigmoid(inplace)
    plain, loss = functional.hardsigmoid, functional.cross_entropy
    top = alignbook.hessian_eigenvalues(net, loss, x, y, k=1).eigenvalues[0]
    exact = copy.deepcopy(nn.Sequential(net[0], Gate(), net[2])).double()
    values = torch.linalg.eigvalsh(dense.hessian(exact, loss, x.double(), y))
    assert top == pytest.approx(values[-1].item(), rel=1e-3)
    found = alignbook.probe(net, x, y, without=["initialisation", "slice", "features", "tangent"])
    assert found.tables["curvature"]["eigenvalue"][0] == pytest.approx(top, rel=1e-2)
    recorder = alignbook.Recorder((x, y), ["curvature"], at=1)
    recorder.step(net, 0)
    assert recorder.table["value"][0] == pytest.approx(top, rel=1e-2)
    assert functional.hardsigmoid is plain


def test_a_loss_of_every_example_is_one_line():
    with pytest.raises(AlignbookError, match="only one element tensors can be converted"):
        alignbook.probe(mlp(), *vectors(), loss=nn.CrossEntropyLoss(reduction="none"))


def test_a_language_model_is_asked_as_its_own_loss_asks_it():
    net, data = Language(), tokens()
    ids, labels = data.values()
    found = alignbook.probe(net, {**data, "idx": torch.arange(N)}, without=["curvature"])
    assert found.network["network"]["loss"] == pytest.approx(net(ids, labels).loss.item(), rel=1e-5)
    for form in ((ids, labels), ({"input_ids": ids}, labels)):  # the loss is the same, however they come
        again = alignbook.probe(net, form, without=[*QUICK, "slice", "features"])
        assert again.network["network"]["loss"] == pytest.approx(found.network["network"]["loss"])
    right = net(ids).logits[:, :-1].argmax(2) == labels[:, 1:]
    known = labels[:, 1:] != -100
    assert found.network["network"]["accuracy"] == pytest.approx(right[known].float().mean().item())
    assert any("next token" in line for line in found.said) and any("idx" in line for line in found.said)
    assert {"words", "block", "head"} == set(found.tables["tangent"]["layer"])
    assert found.tables["tangent"].query("layer == 'block'")["parameter"].nunique() == 2
    assert set(found.left_out) == {"filters", "curvature", "deviation"}


def test_segmentation_is_measured_at_the_positions_that_are_drawn():
    x, y = torch.randn(N, 3, 8, 6), torch.randint(0, CLASSES, (N, 8, 6))
    y[:, :3] = -100
    net = Segments()
    found = alignbook.probe(net, x, y, without=["curvature", "initialisation"])
    expected = functional.cross_entropy(net(x)["out"], y, ignore_index=-100).item()
    assert found.network["network"]["loss"] == pytest.approx(expected, rel=1e-5)
    task = Task.of(y, net(x)["out"], None, 0)
    rows = torch.arange(N)
    at = task.at(rows)
    assert (y.flatten(1)[rows, at] != -100).all() and at.unique().numel() > 8
    kept, _ = features.layer_inputs(Network(net, Data(x, y)), task, rows, 0)
    assert list(kept) == ["body", "head", "(output)"]
    assert torch.equal(kept["body"][0], x[rows, :, at // 6, at % 6])  # one pixel of each image
    hidden = net.body(x).relu()
    assert torch.allclose(kept["head"][0], hidden[rows, :, (at // 6) // 2, (at % 6) // 2].detach())
    assert torch.allclose(kept["(output)"][0], net(x)["out"][rows, :, at // 6, at % 6].detach())


def test_networks_called_otherwise_and_losses_of_the_readers():
    x, y = torch.randn(N, 6), torch.rand(N, 2)
    net = nn.Linear(6, 2)
    found = alignbook.probe(
        net, (x, y), without=["curvature"], forward=lambda model, inputs: [model(2 * inputs)],
        loss=functional.binary_cross_entropy_with_logits,
    )  # fmt: skip
    expected = functional.binary_cross_entropy_with_logits(net(2 * x), y).item()
    assert found.network["network"]["loss"] == pytest.approx(expected, rel=1e-5)
    assert found.tables["slice"].query("network == 'network' and alpha == 0")["loss"].item() == pytest.approx(
        expected
    )


class InPlace(nn.Module):
    def __init__(self, changes):
        super().__init__()
        self.net, self.changes = mlp(), changes
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("scale", torch.ones(()))

    def forward(self, x):
        if "inputs" in self.changes:
            self.calls += 1
            x = 2 * x.mul_(0.5)
        if "scale" in self.changes:
            self.scale.mul_(0.5)
            x = 0.5 * x / self.scale
        return self.net(x)


def test_networks_that_write_into_inputs_and_buffers_are_measured_as_if_they_did_not():
    x, y = vectors()
    start = x.clone()
    plain, writing, steady = InPlace(""), InPlace("inputs, scale"), InPlace("inputs")
    for net in (writing, steady):
        net.load_state_dict(plain.state_dict())
    expected, found = (alignbook.probe(net, x, y, without=["initialisation"]) for net in (plain, writing))
    assert torch.equal(x, start) and writing.calls == 0 and writing.scale == 1
    assert found.network["network"]["loss"] == pytest.approx(expected.network["network"]["loss"])
    for name in ("features", "slice", "curvature", "tangent"):
        mine, theirs = (p.tables[name].select_dtypes("number") for p in (found, expected))
        columns = [c for c in mine if not c.startswith("residual")]
        assert mine[columns].to_numpy() == pytest.approx(theirs[columns].to_numpy(), rel=1e-3, abs=1e-5), name
    given, draws = (functional.cross_entropy, x, y), torch.Generator()
    for measure in (
        lambda net: alignbook.hessian_eigenvalues(net, *given, k=3).eigenvalues,
        lambda net: alignbook.landscape(net, *given, generator=draws.manual_seed(0), points=3).loss,
        lambda net: alignbook.loss_variation(net, *given, [0.1, 0.2]).loss,
    ):
        assert measure(steady) == pytest.approx(measure(plain), rel=1e-4)
    assert torch.equal(x, start) and steady.calls == 0


class Fails(nn.Module):
    """Answers as ``how`` says, always or only where gradients are asked for."""

    def __init__(self, how, always=True):
        super().__init__()
        self.net, self.how, self.always = mlp(), how, always

    def forward(self, x):
        if self.always or torch.is_grad_enabled():
            if self.how == "dropout":
                return functional.dropout(self.net(x))
            if self.how == "batch":
                return self.net(x) - self.net(x).mean(0)
            raise {"key": KeyError("hidden"), "exit": SystemExit(0), "zero": ZeroDivisionError("by zero")}[
                self.how
            ]
        return self.net(x)


@pytest.mark.parametrize(
    ("how", "said"), [("key", "KeyError: 'hidden'"), ("exit", "SystemExit: 0"), ("zero", "by zero")]
)
def test_a_network_that_fails_now_and_then_loses_only_what_it_fails_in(how, said):
    x, y = vectors()
    with pytest.raises(AlignbookError, match=said):
        alignbook.probe(Fails(how), x, y)
    strange = nn.Sequential(nn.Identity(), nn.Linear(6, CLASSES))
    found = alignbook.probe(Fails(how, always=False), x, y, before=strange)
    assert {*found.tables} == {"features", "slice"} and said in found.left_out["curvature"]
    assert "loss" in found.network["network"] and "share no weights" in found.left_out["deviation"]
    page = found.to_html(title="mine")
    assert "Not measured" in page and page.count("<svg") >= 2


def test_random_networks_are_refused_and_mixing_ones_told():
    x, y = vectors()
    found = alignbook.probe(Fails("dropout"), x, y)
    assert not found.tables and "answers differently" in found.left_out["features"]
    assert "answers differently" in found.to_html(title="mine")
    mixed = alignbook.probe(Fails("batch"), x, y, without=QUICK)
    assert any("other examples of a batch" in line for line in mixed.said)


def test_numbers_and_names_of_any_kind_leave_a_report(tmp_path):
    x, y = vectors()
    broken = mlp()
    with torch.no_grad():
        broken[0].weight[0, 0] = torch.nan
    found = alignbook.probe(broken, x, y, before=mlp())
    assert "outputs are infinite or no numbers, as are entries of 0.weight" in found.left_out["features"]
    assert found.tables["deviation"]["layer"].tolist() == ["2"]
    found.to_html()
    odd = nn.Sequential()
    for name, module in (("$\\foo$", nn.Linear(6, 8)), ("a<b>", nn.Linear(8, CLASSES))):
        odd.add_module(name, module)
    odd.register_parameter("steps", nn.Parameter(torch.ones(2, 2, dtype=torch.int64), requires_grad=False))
    found = alignbook.probe(odd, x, y)
    assert {*found.tables} == {"features", "tangent", "curvature", "slice"}
    page = found.to_html(tmp_path / "mine.html", "mine $x$")
    assert "&lt;b&gt;" in page
