"""The probe: each instrument against a plain reference, networks of every make, and nothing changed by it."""

import copy
import json

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import alignbook
from alignbook.errors import AlignbookError
from alignbook.probing import INSTRUMENTS, curvature, features, instruments, probe
from alignbook.probing.data import Data
from alignbook.probing.network import Network
from alignbook.probing.tangents import parameter_alignment
from alignbook.probing.task import Task
from companion.studies.random_labels.fig02_misalignment.reading import expected_floor
from tests import dense

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
N, CLASSES = 24, 3


def images(side=8, channels=3):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(N, channels, side, side, generator=generator)
    return x, torch.arange(N) % CLASSES


def conv(filters=32, groups=1):
    return nn.Sequential(
        nn.Conv2d(3, filters, 3, padding=1), nn.ReLU(), nn.Dropout(0.5),
        nn.Conv2d(filters, 8, 3, stride=2, groups=groups), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Flatten(), nn.Linear(72, CLASSES),
    )  # fmt: skip


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.shared, self.head = nn.Linear(192, 9), nn.Linear(9, 9), nn.Linear(9, CLASSES)

    def forward(self, x):
        x = self.first(x.flatten(1)).relu()
        return self.head(self.shared(self.shared(x).relu()).relu())


class Attention(nn.Module):
    """A transformer of one block on 4×4 patches."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, 4)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x):
        return self.head(self.block(self.patches(x).flatten(2).mT).mean(1))


def frozen():
    net = conv()
    for parameter in net[:5].parameters():
        parameter.requires_grad_(False)
    return net


NETWORKS = {
    "mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 12), nn.ReLU(), nn.Linear(12, CLASSES)),
    "convolutions": conv,
    "groups": lambda: conv(groups=4),
    "tied": Tied,
    "attention": Attention,
    "frozen": frozen,
    "bfloat16": lambda: conv().bfloat16(),
}


@pytest.mark.parametrize("make", NETWORKS)
def test_every_instrument_on_networks_of_every_make(make):
    net = NETWORKS[make]()
    found = probe(net, *images())
    expected = {"deviation": "no network before"}
    if make in ("mlp", "tied"):
        expected["filters"] = "no two-dimensional convolution"
    assert found.left_out.keys() == expected.keys()
    assert all(said in found.left_out[name] for name, said in expected.items())
    assert {*found.tables, *found.left_out} >= {*INSTRUMENTS}
    for table in found.tables.values():
        assert len(table) and table.select_dtypes("number").drop(
            columns=["misalignment", "floor", "random_bases"], errors="ignore"
        ).notna().all(axis=None)  # fmt: skip
    assert found.network["network"]["parameters"] == sum(p.numel() for p in net.parameters())
    assert json.dumps(found.as_dict(), allow_nan=False)


def test_beside_the_network_before():
    before = conv()
    after = copy.deepcopy(before)
    with torch.no_grad():
        after[0].weight.add_(0.5)
    found = probe(after, *images(), before=before, without=["curvature", "tangent"])
    assert set(found.tables["filters"]["network"]) == {"before", "network", "initialisation"}
    deviation = found.tables["deviation"].set_index("layer")
    assert deviation["deviation"]["0"] == pytest.approx(0.5 * (32 * 27) ** 0.5)
    norm = before[0].weight.norm().item()
    assert deviation["relative"]["0"] == pytest.approx(deviation["deviation"]["0"] / norm)
    assert deviation["deviation"].drop("0").eq(0).all()
    assert found.left_out == {"curvature": "left out as asked", "tangent": "left out as asked"}


def test_numbers_as_targets():
    x, _ = images()
    net, y = nn.Sequential(nn.Flatten(), nn.Linear(192, 5), nn.Tanh(), nn.Linear(5, 1)), x.mean((1, 2, 3))
    found = probe(net, x, y)
    explained = 1 - (net(x)[:, 0] - y).square().sum() / (y - y.mean()).square().sum()
    assert found.network["network"]["R²"] == pytest.approx(explained.item(), rel=1e-5)
    assert found.left_out.keys() == {"filters", "deviation"} and "accuracy" not in found.network["network"]
    assert found.tables["tangent"]["alignment"].between(0, 1).all()


def test_features_are_those_of_alignment_curve():
    x, y = images()
    net = NETWORKS["mlp"]()
    table = probe(net, x, y, without=["tangent", "curvature", "initialisation"]).tables["features"]
    hidden = net[1](x.flatten(1)).relu().detach()
    centred = features.labels(y).numpy()
    for layer, values in (("1", x.flatten(1)), ("3", hidden), ("(output)", net(x).detach())):
        rows = table[table["layer"] == layer]
        curves = []
        for column in centred.T:
            thresholds, curve = alignbook.alignment_curve(values, column)
            curves.append(curve[1:][::-1])  # largest singular value first
        share = np.sum(curves, 0) / (centred**2).sum()
        assert rows["share"].to_numpy() == pytest.approx(share[rows["k"] - 1], abs=1e-6)
        sigma = thresholds[1:][::-1]
        assert rows["sigma"].to_numpy() == pytest.approx(sigma[rows["k"] - 1] / sigma[0], abs=1e-6)


def network(model, x, y):
    """The arguments that an instrument takes."""
    seen = Network(model.eval(), Data(x, y))
    return seen, Task(y), torch.arange(len(y)), 0


def test_chance_is_the_mean_over_orders_of_the_labels():
    x = torch.randn(N, 5)
    _, chance, _ = features.spectrum(x, features.labels(torch.arange(N) % CLASSES))
    orders = [features.labels((torch.arange(N) % CLASSES)[torch.randperm(N)]) for _ in range(400)]
    mean = np.mean([features.spectrum(x, order)[0] for order in orders], 0)
    assert chance == pytest.approx(mean, rel=0.06)


def test_of_wide_features_some_coordinates_are_drawn():
    x = torch.randn(N, 1, 1, 9000)
    net = nn.Sequential(nn.Flatten(), nn.Linear(9000, CLASSES))
    rows = features.features(*network(net, x, torch.arange(N) % CLASSES))
    assert set(rows.loc[rows["layer"] == "1", "coordinates"]) == {features.COORDINATES}
    assert set(rows.loc[rows["layer"] == "1", "width"]) == {9000}


@pytest.mark.parametrize(("buckets", "error"), [(10**6, 1e-6), (300, 0.15)])
def test_alignment_of_parameters_is_that_of_layers(buckets, error):
    x, y = images()
    net = conv().eval()
    centred = functional.one_hot(y, CLASSES).double() - 1 / CLASSES
    seen, task, rows, _ = network(net, x, y)
    order = torch.randperm(N)
    names, alignment, chance, exact = parameter_alignment(
        seen, task, rows, torch.arange(CLASSES), centred, centred[order], buckets=buckets
    )
    assert names == [("0", "weight"), ("3", "weight"), ("7", "weight")] and exact.all() == (buckets > 300)
    assert alignment == pytest.approx(alignbook.tangent_alignment(net, x, y), rel=error)
    assert chance == pytest.approx(alignbook.tangent_alignment(net, x, y[order]), rel=error)


def test_the_slice_is_the_loss_along_one_direction():
    x, y = images()
    net = conv().eval()
    arguments = network(net, x, y)
    rows = instruments.slice_(*arguments[:3], seed=3, radius=0.2, points=3)
    start = functional.cross_entropy(net(x), y).item()
    assert rows["alpha"].tolist() == [-0.2, 0.0, 0.2] and rows["loss"][1] == pytest.approx(start, rel=1e-6)
    assert (rows["loss"][[0, 2]] - start).abs().min() > 1e-4
    half = instruments.slice_(*arguments[:3], seed=3, radius=0.1, points=5)  # a line, whatever its points
    moved = instruments.slice_(*arguments[:3], seed=3, radius=0.2, points=5)
    assert moved["loss"][1] == pytest.approx(half["loss"][0], rel=1e-6)


def test_curvature_and_the_trace_are_those_of_the_hessian():
    x = torch.randn(N, 6)
    y = torch.arange(N) % CLASSES
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, CLASSES)).double()
    values = torch.linalg.eigvalsh(dense.hessian(net, functional.cross_entropy, x.double(), y))
    net.float()
    rows = curvature.curvature(*network(net, x, y), None)
    assert rows["eigenvalue"][0] == pytest.approx(values[values.abs().argmax()].item(), rel=2e-2)
    nearest = (values - rows["eigenvalue"][0]).abs().min().item()
    assert nearest <= rows["residual"][0] + 1e-4 and rows["converged"].all()
    low, middle, high = (rows[name][0] for name in ("trace_low", "trace", "trace_high"))
    assert low < values.sum().item() < high and middle == pytest.approx((low + high) / 2)


def test_filters_are_measured_as_on_the_page():
    x, _ = images()
    net = conv(filters=40).eval()
    y = torch.arange(N) % CLASSES
    rows = instruments.filters(*network(net, x, y))
    flat = net[0].weight.detach().flatten(1).double().numpy()
    covariance = np.cov(flat, rowvar=False, bias=True)
    patches = alignbook.patch_covariance(x).cov
    assert rows["misalignment"][0] == pytest.approx(alignbook.misalignment(patches, covariance))
    assert rows["tau"].to_numpy() == pytest.approx(alignbook.transfer_function(patches, covariance)[1])
    # Gaussian filters: neither the data's eigenvectors nor random bases come nearer than sampling alone.
    floor = expected_floor(40, 27)
    assert rows["floor"][0] == pytest.approx(floor, rel=0.25) == rows["random_bases"][0] and len(rows) == 27
    few = instruments.filters(*network(conv(filters=16), x, y))
    assert few["misalignment"].isna().all() and few["tau"].notna().all()


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"without": ["colour"]}, ValueError, "no instrument colour"),
        ({"inputs": torch.zeros(N, 3, 8, 8, dtype=torch.int64)}, AlignbookError, "Input type"),
        ({"layers": "block.9"}, ValueError, "no layer 'block.9'; there are 0, 1, 2 and 7 more"),
        ({"layers": [0]}, TypeError, r"layers must be names of modules, or patterns of them, not \[0\]"),
        ({"examples": 3}, ValueError, "examples must be an integer from 8 on"),
        ({"device": "cuda:99"}, ValueError, "there is no device 'cuda:99' here"),
        ({"seed": 0.5}, ValueError, "seed must be an integer"),
        ({"inputs": torch.full((N, 3, 8, 8), torch.nan)}, ValueError, "not finite"),
        ({"inputs": torch.zeros(N, 3, 9, 9)}, AlignbookError, "fails on these inputs"),
        ({"model": lambda x: x}, ValueError, "must be an nn.Module"),
    ],
)
def test_what_does_not_fit_is_refused(change, error, said):
    x, y = images()
    arguments = {"model": conv(), "inputs": x, "targets": y} | change
    with pytest.raises(error, match=said):
        probe(arguments.pop("model"), arguments.pop("inputs"), arguments.pop("targets"), **arguments)
