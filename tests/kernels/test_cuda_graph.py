"""Recorded steps against plain ones: on a GPU by CUDA, elsewhere by a recorder that replays operations."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from alignbook.kernels import cuda_graph
from alignbook.kernels.mlp_sgd import MLP
from alignbook.seeding import torch_stream

RATES = (0.05, 0.9, 1e-3)


class Recorder(TorchDispatchMode):
    """What a CUDA graph does, on the CPU: operations are noted with their tensors, and run when replayed.

    While it records, whatever an operation writes to gets its values back. Reading a value is an error, as
    it is on a GPU.
    """

    def __init__(self):
        super().__init__()
        self.operations = []

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        if function == torch.ops.aten._local_scalar_dense.default:
            raise RuntimeError("a value was read while recording")
        named = named or {}
        given = [t for t in tree_leaves((arguments, named)) if isinstance(t, torch.Tensor)]
        before = [t.clone() for t in given]
        result = function(*arguments, **named)
        for tensor, values in zip(given, before, strict=True):
            if not torch.equal(tensor, values):
                tensor.copy_(values)
        self.operations.append((function, arguments, named, result))
        return result

    def replay(self):
        for function, arguments, named, result in self.operations:
            found = function(*arguments, **named)
            if found.data_ptr() != result.data_ptr():  # neither in place nor a view
                result.copy_(found)


def record(function, device):
    with Recorder() as recorder:
        result = function()
    return recorder.replay, result


@pytest.fixture
def recorded(monkeypatch):
    """Tensors count as on a GPU; the list says how often each recording was replayed."""
    replays = []

    def counting(function, device):
        replay, result = record(function, device)
        place = len(replays)
        replays.append(0)

        def counted():
            replays[place] += 1
            replay()

        return counted, result

    monkeypatch.setattr(cuda_graph, "_on_gpu", lambda tensor: True)
    monkeypatch.setattr(cuda_graph, "_apart", lambda function, device: function())
    monkeypatch.setattr(cuda_graph, "_record", counting)
    return replays


def batches(sizes, device="cpu", features=7, classes=3):
    generator = torch_stream(0, "batches")
    for size in sizes:
        x = torch.randn(size, features, generator=generator).to(device)
        yield x, torch.randint(classes, (size,), generator=generator).to(device)


def pair(depth=6, device="cpu"):
    return [MLP(7, 9, depth, 3, torch_stream(0, "weights"), device=device) for _ in range(2)]


def same_training(networks, sizes, device="cpu", constants=lambda step: RATES):
    """Train one with recordings, one without: all losses, weights, velocities are the same, bit for bit."""
    losses = []
    for step, (x, y) in enumerate(batches(sizes, device)):
        found = networks[0].step(x, y, *constants(step))
        expected = MLP.step.__wrapped__(networks[1], x, y, *constants(step))
        assert torch.equal(found, expected)
        assert torch.equal(networks[0].flat, networks[1].flat)
        assert torch.equal(networks[0].velocity, networks[1].velocity)
        losses.append((found, found.item()))
    assert all(loss.item() == value for loss, value in losses)  # no later step writes over a loss


def test_replayed_steps_are_the_plain_ones(recorded):
    networks = pair()
    sizes = 5 * (8, 8, 3)  # as epochs with an incomplete last batch
    same_training(networks, sizes)
    warm = cuda_graph.WARM
    assert recorded == [sizes.count(8) - warm, sizes.count(3) - warm]
    assert (networks[0].flat - pair()[0].flat).norm() > 0.1


def test_every_constant_has_its_recording(recorded):
    same_training(pair(), 16 * (4,), constants=lambda step: (0.05 / (1 + step // 8), *RATES[1:]))
    assert recorded == 2 * [8 - cuda_graph.WARM]


def test_each_network_has_its_own(recorded):
    networks = pair()
    same_training(networks, 6 * (4,))
    others = pair(depth=3)
    same_training(others, 6 * (4,))
    same_training(networks, 2 * (4,))
    assert recorded == [6 - cuda_graph.WARM + 2, 6 - cuda_graph.WARM]


def test_weights_may_be_written_in_between(recorded):
    networks = pair()
    same_training(networks, 5 * (4,))
    for network in networks:
        network.flat.mul_(0.5)
    same_training(networks, 3 * (4,))
    assert recorded == [8 - cuda_graph.WARM]


def test_elsewhere_nothing_is_recorded():
    networks = pair()
    same_training(networks, 6 * (4,))
    assert not hasattr(networks[0], "_recordings")


needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")


def wide_pair(depth):
    return [MLP(784, 100, depth, 10, torch_stream(0, "weights"), device="cuda") for _ in range(2)]


def train(network, step, x, y, count):
    """``count`` steps on batches of 128 and a last one of 37, inputs freed at once; the losses' sum."""
    total = torch.zeros((), device=x.device)
    order = torch.randperm(len(x), generator=torch_stream(0, "order")).to(x.device)
    for _ in range(count):
        for index in order.split(128):
            total += step(network, x.index_select(0, index), y.index_select(0, index), *RATES)
    return total


@needs_cuda
@pytest.mark.parametrize("depth", [2, 6])
def test_cuda_graphs_are_the_plain_steps(depth):
    networks = pair(depth, "cuda")
    same_training(networks, 5 * (8, 8, 3), "cuda")
    assert all(r.replay is not None for r in networks[0]._recordings.values())


@needs_cuda
def test_cuda_graphs_outlive_others():
    x, y = next(batches([128 * 3 + 37], "cuda", 784, 10))
    gone, (kept, plain) = wide_pair(20)[0], wide_pair(20)
    train(gone, MLP.step, x, y, 6)
    train(kept, MLP.step, x, y, 6)
    del gone
    torch.cuda.empty_cache()
    train(wide_pair(30)[0], MLP.step, x, y, 6)
    train(plain, MLP.step.__wrapped__, x, y, 6)
    losses = [train(kept, MLP.step, x, y, 6), train(plain, MLP.step.__wrapped__, x, y, 6)]
    assert torch.equal(*losses) and torch.equal(kept.flat, plain.flat)
