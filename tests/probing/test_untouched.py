"""The caller's network is as it was, bit for bit, whatever it does; and it is measured as it is."""

import random
from contextlib import suppress

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import prune
from torch.utils.checkpoint import checkpoint

import alignbook

N, WIDTH = 40, 6
QUICK = ["initialisation"]
entropy = functional.cross_entropy


def data():
    return torch.randn(N, WIDTH), torch.arange(N) % 3


class Restless(nn.Module):
    """Changes what it holds with every call, in one of the ways in which modules do."""

    def __init__(self, how):
        super().__init__()
        self.a, self.b, self.how = nn.Linear(WIDTH, 12), nn.Linear(12, 3), how
        self.register_buffer("count", torch.tensor([0.0, 2.0, -0.0]))
        self.plain, self.calls, self.draws = torch.zeros(2), [], torch.Generator().manual_seed(1)

    def forward(self, x):
        if self.how == "buffers":
            self.count += 1
            self.count = self.count + 1
        elif self.how == "weights":
            self.a.weight.data.mul_(0.9)
            self.a.weight.data = self.a.weight.data * 0.9
        elif self.how == "attributes":
            self.plain.add_(1)
            self.seen = torch.tanh(self.a(x))
            self.calls.append(len(x))
        elif self.how == "generators":
            torch.rand(1, generator=self.draws), torch.rand(1), np.random.random(), random.random()
        elif self.how == "its mode":
            self.train(not self.training)
        elif self.how == "its inputs":
            x = x.mul_(1)
            x.add_(0)
        return self.b(torch.tanh(self.a(x)))


def state(net):
    tensors = [*net.parameters(), *net.buffers(), net.plain]
    return (
        [(id(t), t.data_ptr(), t.requires_grad, t.detach().numpy().tobytes()) for t in tensors],
        [{k: id(v) for k, v in vars(m).items()} for m in net.modules()], list(net.calls),
        net.draws.get_state().tolist(), torch.get_rng_state().tolist(),
        np.random.get_state()[1].tolist(), random.getstate(),
    )  # fmt: skip


@pytest.mark.parametrize("how", ["buffers", "weights", "attributes", "generators", "its mode", "its inputs"])
def test_nothing_of_the_network_is_changed(how):
    net, (x, y) = Restless(how).train(), data()
    inputs, before = x.clone(), state(net)
    directions = alignbook.filter_normalised_directions(net, torch.Generator().manual_seed(0))
    for measure in (
        lambda: alignbook.probe(net, x, y, without=QUICK),
        lambda: alignbook.Recorder((x, y), share=None).step(net, 0),
        lambda: alignbook.layer_cka(net, {"x": x}),
        lambda: alignbook.hessian_eigenvalues(net, entropy, x, y, k=1),
        lambda: alignbook.landscape(net, entropy, x, y, directions, points=3),
        lambda: alignbook.loss_variation(net, entropy, x, y, [0.1]),
        lambda: alignbook.tangent_alignment(net, x, y),
    ):
        with suppress(ValueError):  # what changes is refused by some
            measure()
        assert before == state(net) and torch.equal(inputs, x)


def test_compiled_networks_stay_as_they_are():
    compiled = []

    def backend(graph, _):
        compiled.append(graph)
        return graph.forward

    x, y = data()
    inner = nn.Sequential(nn.Linear(WIDTH, 5), nn.ReLU(), nn.Linear(5, 3))
    inner.compile(backend=backend)
    outer = torch.compile(nn.Sequential(nn.Linear(WIDTH, 5), nn.ReLU(), nn.Linear(5, 3)), backend=backend)
    for net in (inner, outer):
        net(x)
        count = len(compiled)
        alignbook.probe(net, x, y, without=QUICK)
        alignbook.Recorder((x, y), share=None).step(net, 0)
        alignbook.layer_cka(net, x)
        alignbook.hessian_eigenvalues(net, entropy, x, y, k=1)
        net(x)
        assert len(compiled) == count


class Keeps(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(WIDTH, 12), nn.Linear(12, 3)

    def forward(self, x):
        self.seen = {"last": [torch.tanh(self.a(x))]}
        self.buffered = self.seen["last"][0].sum()
        return self.b(self.seen["last"][0])


def keeps(net, x):
    net(x)


def pruned(net, x):
    prune.l1_unstructured(net.a, "weight", amount=0.5)


def drawing(net, x):
    net.generator = torch.Generator()


def normed(net, x):
    nn.utils.parametrizations.weight_norm(net.a)


@pytest.mark.parametrize("change", [keeps, pruned, drawing, normed])
def test_networks_that_cannot_be_copied_as_they_are_are_measured(change):
    net, (x, y) = Keeps(), data()
    change(net, x)
    found = alignbook.probe(net, x, y, examples=N, without=QUICK)
    assert set(found.tables) == {"features", "tangent", "curvature", "slice"}
    exact = alignbook.hessian_eigenvalues(net, entropy, x, y, k=1).eigenvalues[0]
    assert found.tables["curvature"]["eigenvalue"][0] == pytest.approx(exact, rel=0.01)
    assert found.network["network"]["loss"] == pytest.approx(entropy(net(x), y).item(), rel=1e-5)


class Closure(Keeps):
    def __init__(self):
        super().__init__()
        self.first = lambda x: self.a(x)

    def forward(self, x):
        return self.b(torch.tanh(self.first(x)))


def test_what_cannot_be_copied_is_refused():
    class Single(Keeps):
        def __deepcopy__(self, memo):
            raise TypeError("there can be only one")

    class Same(Keeps):
        def __deepcopy__(self, memo):
            return self

    x, y = data()
    for net, why in (
        (Single(), "there can be only one"),
        (Same(), "its copy is itself"),
        (Closure(), "lambda"),
    ):
        with pytest.raises(alignbook.AlignbookError, match=why):
            alignbook.probe(net, x, y)
        with pytest.raises(ValueError, match=why):
            alignbook.hessian_eigenvalues(net, entropy, x, y, k=1)
        recorder = alignbook.Recorder((x, y), ["curvature"], share=None)
        recorder.step(net, 0)
        assert why in recorder.left_out["curvature"] and recorder.table.empty


class Saving(nn.Module):
    def __init__(self, how):
        super().__init__()
        torch.manual_seed(1)
        self.a, self.b, self.how = nn.Linear(60, 8), nn.Linear(8, 3), how

    def forward(self, x):
        def first(values):
            return torch.tanh(self.a(values))

        return self.b(first(x) if self.how is None else checkpoint(first, x, use_reentrant=self.how))


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
def test_checkpoints_change_nothing():
    x, y, found = torch.randn(48, 60), torch.arange(48) % 3, []
    for how in (None, False, True):
        for size in (48, 24):
            found.append(
                alignbook.hessian_eigenvalues(Saving(how), entropy, x, y, k=2, batch_size=size).eigenvalues
            )
        recorder = alignbook.Recorder((x, y), ["curvature"], share=None)
        recorder.step(Saving(how), 0)
        top = alignbook.probe(Saving(how), x, y, only="curvature", examples=48).tables["curvature"]
        assert recorder.table["value"].item() == pytest.approx(found[0][0], rel=0.02)
        assert top["eigenvalue"][0] == pytest.approx(found[0][0], rel=0.01)
    np.testing.assert_allclose(found, [found[0]] * 6, rtol=1e-3)


def test_sparse_gradients_are_taken_dense():
    class Words(nn.Module):
        def __init__(self, sparse):
            super().__init__()
            torch.manual_seed(1)
            self.words, self.head = nn.Embedding(9, 5, sparse=sparse), nn.Linear(5, 3)

        def forward(self, x):
            return self.head(torch.tanh(self.words(x)).mean(1))

    x, y = torch.randint(0, 9, (N, 4)), torch.arange(N) % 3
    nets = [Words(False), Words(True)]
    exact, found = (alignbook.hessian_eigenvalues(net, entropy, x, y, k=2).eigenvalues for net in nets)
    np.testing.assert_allclose(found, exact, rtol=1e-4)
    assert "curvature" in alignbook.probe(nets[1], x, y, only="curvature").tables and nets[1].words.sparse


class Detached(torch.autograd.Function):
    """A sine whose gradient forgets what it depends on."""

    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(context, gradient):
        return (gradient * context.saved_tensors[0].cos()).detach()


class Wrong(nn.Module):
    def forward(self, x):
        return Detached.apply(x)


def test_a_hessian_that_is_not_symmetric_is_noticed():
    x, y = data()
    for activation, wrong in ((Wrong(), True), (nn.Tanh(), False)):
        net = nn.Sequential(nn.Linear(WIDTH, 12), activation, nn.Linear(12, 3))
        found = alignbook.probe(net, x, y, only="curvature")
        recorder = alignbook.Recorder((x, y), ["curvature"], share=None)
        recorder.step(net, 0)
        recorder.step(net, 1)
        for said in (found.said, recorder.said):
            assert sum("not symmetric" in line for line in said) == wrong
        if wrong:
            with pytest.warns(RuntimeWarning, match="not symmetric"):
                alignbook.hessian_eigenvalues(net, entropy, x, y, k=1)
        else:
            alignbook.hessian_eigenvalues(net, entropy, x, y, k=1)
