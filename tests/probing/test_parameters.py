"""Which parameters are meant: the same ones in the probe, the recorder and the metrics."""

import doctest

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import alignbook
from alignbook.probing import layers, parameters
from tests import dense

N, WIDTH = 48, 6


def small():
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(WIDTH, 12), nn.Tanh(), nn.Linear(12, 5), nn.Tanh(), nn.Linear(5, 3)
    ).double()
    return net.float(), torch.randn(N, WIDTH), torch.arange(N) % 3


CHOICES = {
    "trainable": ["2.weight", "2.bias", "4.weight"],
    "all": ["0.weight", "0.bias", "2.weight", "2.bias", "4.weight", "4.bias"],
    "0": ["0.weight", "0.bias"],
    "*.weight": ["0.weight", "2.weight", "4.weight"],
}


@pytest.mark.parametrize("choice", CHOICES)
def test_probe_recorder_and_metric_measure_the_parameters_that_are_meant(choice):
    net, x, y = small()
    net[0].requires_grad_(False)
    net[4].bias.requires_grad_(False)
    required = [p.requires_grad for p in net.parameters()]
    given = {} if choice == "trainable" else {"parameters": choice}
    found = alignbook.probe(net, x, y, examples=N, without=["initialisation", "features"], **given)
    recorder = alignbook.Recorder((x, y), ["curvature", "tangent", "deviation"], share=None, **given)
    recorder.step(net, 0)
    eigenvalues = alignbook.hessian_eigenvalues(net, functional.cross_entropy, x, y, k=3, **given).eigenvalues
    assert required == [p.requires_grad for p in net.parameters()]
    loss, names = functional.cross_entropy, CHOICES[choice]
    exact = torch.linalg.eigvalsh(dense.hessian(net.double(), loss, x.double(), y, names))
    exact = dense.largest(exact, 3)
    np.testing.assert_allclose(eigenvalues, exact, rtol=1e-3)
    curvature = found.tables["curvature"]
    np.testing.assert_allclose(curvature["eigenvalue"][:3], exact, rtol=2e-2)
    assert recorder.table.query("instrument == 'curvature'")["value"].item() == pytest.approx(
        exact[0], rel=0.02
    )
    weights = [name.removesuffix(".weight") for name in names if name.endswith("weight")]
    assert found.tables["tangent"]["layer"].tolist() == weights
    for name in ("tangent", "deviation"):
        rows = recorder.table.query(f"instrument == '{name}' and layer != ''")
        assert rows["layer"].tolist() == weights
    assert all(
        set(found.tables[name]["parameters"]) == {choice} for name in ("curvature", "slice", "tangent")
    )
    left = any("left out" in line for line in found.said)
    assert left == (choice != "all") == any("left out" in line for line in recorder.said)


def test_a_slice_and_a_plane_move_only_what_is_meant():
    net, x, y = small()
    net[0].requires_grad_(False)
    start = {name: p.clone() for name, p in net.named_parameters()}
    generator = torch.Generator().manual_seed(0)
    (direction,) = alignbook.filter_normalised_directions(net, generator, 1)
    assert set(direction) == {"2.weight", "4.weight"}
    (direction,) = alignbook.filter_normalised_directions(net, generator, 1, parameters=["0"])
    assert set(direction) == {"0.weight"}
    draws = [torch.Generator().manual_seed(0) for _ in range(3)]
    plane = alignbook.landscape(net, functional.cross_entropy, x, y, generator=draws[0], points=3)
    pair = alignbook.filter_normalised_directions(net, draws[1], 2)
    same = alignbook.landscape(net, functional.cross_entropy, x, y, pair, points=3)
    np.testing.assert_array_equal(plane.loss, same.loss)
    every = alignbook.landscape(
        net, functional.cross_entropy, x, y, generator=draws[2], points=3, parameters="all"
    )
    assert not np.allclose(every.loss, plane.loss)
    assert all(torch.equal(p, start[name]) for name, p in net.named_parameters())


def test_tangent_alignment_is_that_of_the_layers_that_are_meant():
    net, x, y = small()
    every = alignbook.tangent_alignment(net, x, y)
    net[2].requires_grad_(False)
    np.testing.assert_array_equal(alignbook.tangent_alignment(net, x, y), every[[0, 2]])
    np.testing.assert_array_equal(alignbook.tangent_alignment(net, x, y, parameters="all"), every)
    np.testing.assert_array_equal(alignbook.tangent_alignment(net, x, y, parameters=["2", "4"]), every[1:])
    with pytest.raises(ValueError, match="parameters='all'"):
        alignbook.tangent_alignment(net.requires_grad_(False), x, y)


def test_deviation_is_that_of_the_parameters_that_are_meant():
    net, x, y = small()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    with torch.no_grad():
        net[0].weight.add_(1)
        net[4].weight.add_(1)
    net[0].requires_grad_(False)
    given = {"before": before, "only": "deviation"}
    found = alignbook.probe(net, x, y, **given).tables["deviation"]
    assert found["layer"].tolist() == ["2", "4"] and set(found["parameters"]) == {"trainable"}
    found = alignbook.probe(net, x, y, parameters="all", **given).tables["deviation"]
    assert found["layer"].tolist() == ["0", "2", "4"]
    np.testing.assert_allclose(found["deviation"], [(12 * WIDTH) ** 0.5, 0, 15**0.5], rtol=1e-6)


def test_where_nothing_trains_the_reason_names_the_remedy():
    net, x, y = small()
    found = alignbook.probe(net.requires_grad_(False), x, y, without="initialisation")
    for name in ("curvature", "slice", "tangent"):
        assert "parameters='all'" in found.left_out[name]
    assert "features" in found.tables
    recorder = alignbook.Recorder((x, y), ["curvature", "tangent", "deviation"])
    recorder.step(net, 0)
    assert all("parameters='all'" in why or "requires" in why for why in recorder.left_out.values())
    assert len(recorder.left_out) == 3


def test_complex_parameters_are_named():
    class Wave(nn.Module):
        def __init__(self):
            super().__init__()
            self.wave = nn.Parameter(torch.randn(20, WIDTH, dtype=torch.complex64))
            self.head = nn.Linear(40, 3)

        def forward(self, x):
            return self.head(torch.view_as_real(x.to(torch.complex64) @ self.wave.T).flatten(1))

    torch.manual_seed(0)
    net, x, y = Wave(), torch.randn(N, WIDTH), torch.arange(N) % 3
    found = alignbook.probe(net, x, y, without="initialisation")
    assert {"curvature", "slice", "tangent"} <= set(found.tables)
    recorder = alignbook.Recorder((x, y), ["curvature"], share=None)
    recorder.step(net, 0)
    for said in (found.said, recorder.said):
        assert any("not real numbers are left out: wave" in line for line in said)
    top = found.tables["curvature"]["eigenvalue"][0]
    assert recorder.table["value"].item() == pytest.approx(top, rel=0.02)


def test_only_some_instruments():
    net, x, y = small()
    found = alignbook.probe(net, x, y, only=["slice", "features"])
    assert set(found.tables) == {"slice", "features"} and "initialisation" not in found.network
    assert "initialisation" in alignbook.probe(net, x, y, only=["slice", "initialisation"]).network
    for given, said in (
        ({"only": "slices"}, "no instrument slices; known: filters"),
        ({"only": "slice", "without": "features"}, "give one of them"),
        ({"parameters": "hed"}, "no parameter or module with parameters 'hed'"),
        ({"parameters": 3}, "parameters must be 'trainable', 'all'"),
        ({"parameters": []}, "parameters must be 'trainable', 'all'"),
    ):
        with pytest.raises(ValueError, match=said):
            alignbook.probe(net, x, y, **given)
    with pytest.raises(ValueError, match="parameters must be"):
        alignbook.Recorder((x, y), parameters=3)
    with pytest.raises(ValueError, match="the nearest is '4'"):
        alignbook.hessian_eigenvalues(net, functional.cross_entropy, x, y, k=1, parameters="41")


@pytest.mark.parametrize("module", [layers, parameters])
def test_the_examples_in_the_docstrings_run(module):
    found = doctest.testmod(module)
    assert found.attempted and not found.failed
