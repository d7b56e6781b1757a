"""On a GPU every measure and every study's jobs give what they give on a CPU; skipped where there is none."""

import importlib
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import alignbook
from alignbook import metrics
from alignbook.kernels.nngp import nngp_kernel
from alignbook.kernels.products import float32_convolutions
from alignbook.kernels.two_layer_adam import TwoLayer, adam_step
from alignbook.metrics import relu_gram
from alignbook.metrics.tangent_spectrum import matrix_alignment, tangent_spectra
from alignbook.seeding import torch_stream
from alignbook.training.loop import train
from alignbook.training.resnet import ResNet
from alignbook.training.train import accuracy, fit
from companion.runs import notebooks, parameters
from companion.runs.run import jobs_of

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
cross_entropy = nn.functional.cross_entropy
plain_alignment = importlib.import_module("alignbook.metrics.tangent_alignment").tangent_alignment


class Attending(nn.Module):
    """A block of a vision transformer: a token for the class, positions, attention."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(2, 8, 2, stride=2)
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.positions = nn.Parameter(torch.randn(1, 10, 8))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(x), -1, -1), tokens], 1) + self.positions
        return self.head(tokens + self.attention(tokens, tokens, tokens, need_weights=False)[0])[:, 0]


def dense():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(72, 40), nn.ReLU(), nn.Linear(40, 30), nn.ReLU(), nn.Linear(30, 4)
    )


def convolutional(last=2):
    """``last``: side of the last convolution's filters, of what is 3 × 3."""
    return nn.Sequential(
        nn.Conv2d(2, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 9, last), nn.ReLU(),
        nn.Flatten(), nn.Linear(9 * (4 - last) ** 2, 4),
    )  # fmt: skip


def normalised():
    return nn.Sequential(nn.Conv2d(2, 12, 3), nn.BatchNorm2d(12), nn.ReLU(), nn.Flatten(), nn.Linear(192, 4))


def residual():
    return ResNet(4, width=4, channels=2)


NETWORKS = [dense, convolutional, normalised, Attending]
# Whose rows are counted by values, which rounding changes: bins that hold something, steps to a small loss.
UNCOUNTED = {"transferability/fig07_gradient_scale", "transferability/thm02_generalisation"}


def model_and_data(make, n=50):
    torch.manual_seed(0)
    return make().eval(), torch.randn(n, 2, 6, 6), torch.randint(4, (n,))


def on(device, dtype, measure, make):
    """``measure(model, inputs, labels)`` of the same numbers there."""
    model, inputs, labels = model_and_data(make)
    with float32_convolutions():
        found = measure(model.to(device, dtype), inputs.to(device, dtype), labels.to(device))
    return np.asarray(found.cpu() if isinstance(found, torch.Tensor) else found, dtype=np.float64)


def agrees(measure, make, rtol, single=1e-4):
    """In float64 to ``rtol``, in float32 to ``single``."""
    expected = on("cpu", torch.float64, measure, make)
    assert np.isfinite(expected).any() and np.ptp(expected) > 0
    for dtype, tolerance in ((torch.float64, rtol), (torch.float32, single)):
        found = on("cuda", dtype, measure, make)
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * np.nanmax(abs(expected)))


def landscape(model, inputs, labels):
    directions = metrics.filter_normalised_directions(model.float(), torch_stream(0, "directions"))
    directions = [{k: v.to(inputs.dtype) for k, v in one.items()} for one in directions]
    model.to(inputs.dtype)
    return metrics.landscape(model, cross_entropy, inputs, labels, directions, points=5).loss


@pytest.mark.parametrize("function", [plain_alignment, alignbook.tangent_alignment])
@pytest.mark.parametrize("make", [dense, convolutional, normalised])
def test_tangent_alignment(function, make):
    agrees(function, make, 1e-9)


def test_tangent_alignment_of_a_convolution_to_one_place():
    agrees(alignbook.tangent_alignment, partial(convolutional, last=3), 1e-9)


@pytest.mark.parametrize("make", [dense, convolutional])
def test_tangent_spectra(make):
    agrees(matrix_alignment, make, 1e-9)
    agrees(lambda *given: [s.rank for s in tangent_spectra(*given)], make, 1e-7, 1e-3)


@pytest.mark.parametrize("make", NETWORKS)
def test_curvature_and_landscapes(make):
    def largest(model, inputs, labels):
        return metrics.hessian_eigenvalues(
            model, cross_entropy, inputs, labels, k=4, tol=1e-5, batch_size=17
        ).eigenvalues

    def variation(model, inputs, labels):
        found = metrics.loss_variation(model, cross_entropy, inputs, labels, [0.1, 1.0])
        return [*found.loss, found.gradient_norm, found.variation]

    agrees(largest, make, 1e-5, 1e-3)
    agrees(variation, make, 1e-8)
    agrees(landscape, make, 1e-8)


def test_measures_of_arrays():
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(40, 3, 9, 9, generator=generator)
    features = torch.randn(60, 12, generator=generator) * torch.linspace(0.1, 3, 12)
    labels = torch.randn(60, generator=generator)
    one, other = (torch.cov(torch.randn(6, 30, generator=generator)) for _ in range(2))
    calls = [
        lambda to: metrics.patch_covariance(to(images), 3).cov,
        lambda to: metrics.alignment_curve(to(features), to(labels)),
        lambda to: metrics.misalignment(to(one), to(other)),
        lambda to: metrics.transfer_function(to(one), to(other)),
        lambda to: metrics.cka(to(features), to(features[:, :5].relu())),
        lambda to: nngp_kernel(to(features), to(features[:20]), 5).cpu(),
        lambda to: relu_gram.relu_gram(to(nn.functional.normalize(features.double()))).cpu(),
    ]
    for call in calls:
        expected, found = call(lambda t: t), call(lambda t: t.cuda())
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [dense, convolutional, normalised, residual])
def test_training(make):
    """Ten steps end where a CPU's do, as far as float32 lets them; accuracies are counted the same."""
    ends = []
    for device in ("cpu", "cuda"):
        model, inputs, labels = model_and_data(make)
        model, inputs, labels = model.to(device), inputs.to(device), labels.to(device)
        with float32_convolutions():
            fit(
                model, inputs, labels, steps=10, batch_size=16, learning_rate=0.05,
                generator=torch_stream(0, "batches"),
            )  # fmt: skip
            found = accuracy(model, inputs, labels)
        ends.append((torch.cat([p.detach().flatten().cpu() for p in model.parameters()]), found))
    torch.testing.assert_close(ends[0][0], ends[1][0], rtol=1e-3, atol=1e-4)
    assert abs(ends[0][1] - ends[1][1]) <= 0.02


def test_two_layer_adam():
    ends = []
    for device in ("cpu", "cuda"):
        network = TwoLayer(5, 7, torch_stream(0, "weights"), device=device)
        x, y = (
            torch.randn(40, 6, generator=torch_stream(0, "data"), dtype=torch.float64)
            .to(device)
            .split([5, 1], 1)
        )
        train(
            adam_step(network, x.contiguous(), y[:, 0].contiguous()), 40, batch_size=8, epochs=5, rate=0.01,
            generator=torch_stream(0, "order"), device=device,
        )  # fmt: skip
        ends.append(network.flat.cpu())
    torch.testing.assert_close(*ends, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("make", NETWORKS)
def test_probe(make):
    """The public instrument, on a network that lies on the GPU and on one that it moves there."""
    model, inputs, labels = model_and_data(make)
    probe = partial(alignbook.probe, targets=labels, seed=0)
    expected = probe(model, inputs).tables
    for found in (probe(model.cuda(), inputs).tables, probe(model.cpu(), inputs, device="cuda").tables):
        assert list(found) == list(expected)
        for instrument, table in expected.items():
            assert len(found[instrument]) == len(table) > 0
            for name, column in table.select_dtypes("number").items():
                np.testing.assert_allclose(
                    found[instrument][name], column, rtol=2e-3, atol=1e-3, err_msg=f"{instrument} {name}"
                )


def test_recorder():
    model, inputs, labels = model_and_data(convolutional)
    model.cuda().train()
    recorder = alignbook.Recorder((inputs, labels), at=2)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(5):
        recorder.step(model, step)
        optimiser.zero_grad()
        cross_entropy(model(inputs.cuda()), labels.cuda()).backward()
        optimiser.step()
    assert set(recorder.table["step"]) == {0, 2, 4}


@pytest.mark.parametrize("book", notebooks.every(), ids=lambda book: book.name)
def test_every_study(book):
    """Its smoke jobs run there, with a CPU's columns, rows, words and missing numbers."""
    for job in jobs_of(book, parameters.resolve(book, "smoke")):
        with float32_convolutions():
            expected, found = (
                job.compute(**job.arguments, device=device, report=lambda done, text: None)
                for device in ("cpu", "cuda")
            )
        assert list(found) == list(expected), job.name
        if book.name in UNCOUNTED:
            continue
        assert len(found) == len(expected), job.name
        words = expected.select_dtypes(exclude="number")
        assert words.equals(found[list(words)]), job.name
        numbers = expected.select_dtypes("number")
        assert (found[list(numbers)].isna() == numbers.isna()).all(axis=None), job.name
