"""The equilibrium against brute force, the suprema against a grid, networks against the recursion."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from companion.studies.signal_propagation.cor01_equilibrium import experiment as cor01, reading
from tests import judging

PARAMETERS = judging.given("signal_propagation/cor01_equilibrium", depth=1000, kappas=[0.5, 1.0, 2.0])
claims_of, _ = judging.of(reading, PARAMETERS)


@pytest.fixture(scope="module")
def table(computed):
    return computed(cor01, PARAMETERS)


def plain_correlations(c, depth):
    """c_1 ... c_depth by Equation 3 in plain float64, float array (depth,)."""
    found = []
    for _ in range(depth):
        found.append(c)
        c = min(1.0, (c * math.asin(c) + math.sqrt(1 - c * c)) / math.pi + c / 2)
    return np.array(found)


def plain_backward(c, layer, depth):
    """I^b_layer of the pair with input correlation c."""
    return (np.arcsin(plain_correlations(c, depth)) / math.pi + 0.5)[layer - 1 : depth - 1].prod()


@pytest.mark.parametrize("depth", [10, 100])
@pytest.mark.parametrize("kappa", [0.5, 1.0, 2.0])
def test_equilibrium_lies_between_the_layers_where_the_order_changes(table, depth, kappa):
    """Brute force over whole layers: forward loss above κ × backward before, below after."""
    forward = (1 - plain_correlations(-1.0, depth)) / 2
    backward = np.array([plain_backward(0.9, layer, depth) for layer in range(1, depth + 1)])
    above = forward > kappa * backward
    last_above = int(np.flatnonzero(above)[-1]) + 1
    assert above[:last_above].all()
    rows = reading.select(table, "equilibrium", eps=0.1, kappa=kappa, depth=depth)
    assert last_above <= rows.layer.item() <= last_above + 1


def test_equilibrium_curves_are_the_stored_ones(table):
    """Also where a recursion that ends at the deepest depth has one layer less to interpolate with."""
    depths = [7, 10, 50, 100]
    curves = cor01.equilibrium_curves([0.1, 0.9], [0.5, 2.0, 300.0], depths)
    assert curves.shape == (2, 3, 4)
    for eps, of_eps in zip([0.1, 0.9], curves, strict=True):
        for kappa, layers in zip([0.5, 2.0], of_eps, strict=False):
            rows = reading.select(table, "equilibrium", eps=eps, kappa=kappa).set_index("depth").layer
            np.testing.assert_allclose(layers, rows.reindex(depths), rtol=1e-9)
    assert np.isnan(curves[0, 2]).all()  # at these depths the losses never lie that far apart


def test_equilibrium_of_pure_power_laws():
    """forward = l⁻², backward = (l/L)³: l = κ^(-1/5) L^(3/5) exactly."""
    layers = np.arange(1, 2001)
    depths = np.array([10, 100, 2000])
    found = cor01.equilibrium_layer(1.0 / layers**2, -3 * np.log(layers), depths, 2.0)
    np.testing.assert_allclose(found, 2.0**-0.2 * depths**0.6, rtol=1e-4)
    assert np.isnan(cor01.equilibrium_layer(1.0 / layers**2, -3 * np.log(layers), depths, 1e12)).all()


def test_suprema_are_at_the_two_ends(table):
    """sup of the forward loss at c = -1 whatever ε, sup of the backward information at 1 - ε."""
    for eps in PARAMETERS["epsilons"]:
        rows = reading.select(table, "supremum", eps=eps)
        assert rows.correlation[rows.value.idxmax()] == -1
        assert rows.correlation[rows.backward.idxmax()] == pytest.approx(1 - eps)
    far = reading.select(table, "forward", correlation=-1.0)
    assert far.groupby("layer").value.nunique().eq(1).all()


def test_share_takes_the_worse_end(table):
    row = reading.select(table, "share", eps=0.1, depth=100).iloc[0]
    layer = int(row.layer)
    deviations = [abs(plain_backward(c, layer, 100) - (layer / 100) ** 3) for c in (0.9, -1.0)]
    assert layer == 50 and row.value == pytest.approx(max(deviations), rel=1e-9)


def made_up(log_coefficient=4.5, forward=-2.0, backward=-3.0, growth=0.6, bend=0.0):
    """Rows of kinds that follow the asymptotic laws exactly, with these constants (ε = 0.9)."""
    depths = np.array([500.0, 1000.0])
    layers = np.unique(np.geomspace(10, 500, 40).round())
    parts = [
        {
            "kind": "forward", "correlation": -1.0, "layer": layers,
            "value": 0.5 * (9 * math.pi**2 / 2) * layers**forward,
        },
        {"kind": "lemma 2", "layer": layers, "value": log_coefficient / 2 * np.log(layers) + 0.3},
    ]  # fmt: skip
    for depth in depths:
        inner = layers[layers < depth]
        value = (depth / inner) ** backward
        parts.append({"kind": "backward", "depth": depth, "layer": inner, "value": value})
    for kappa in (0.5, 1.0, 2.0):
        grid = np.concatenate([np.arange(10.0, 101, 10), [500, 700, 1000]])
        layer = grid ** (growth + bend * math.log(kappa))
        parts.append({"kind": "equilibrium", "kappa": kappa, "depth": grid, "layer": layer})
    return pd.concat([pd.DataFrame(part) for part in parts], ignore_index=True).assign(eps=0.9)


@pytest.mark.parametrize(
    ("changes", "measured"),
    [
        ({}, {}),
        ({"log_coefficient": 6.0}, {"lemma2-sign": 4 / 3}),
        ({"backward": -2.9}, {"backward-rate": -2.9}),
        ({"forward": -1.8}, {"forward-rate": -1.8}),
        ({"growth": 0.75}, {"deep-slope": 0.75, "figure3-slope": 0.75}),
    ],
)
def test_claims_find_known_constants(changes, measured):
    expected = {
        "forward-rate": -2.0, "backward-rate": -3.0, "lemma2-sign": 1.0, "deep-slope": 0.6,
        "figure3-slope": 0.6,
    }  # fmt: skip
    claims = claims_of(made_up(**changes), epsilons=[0.9])
    found = {id: claim for id, claim in claims.items() if claim.outcome != "not run"}
    assert set(found) == set(expected)
    for name, value in (expected | measured).items():
        assert found[name].measured == pytest.approx(value, abs=1e-6)
        assert found[name].outcome == ("contradicted" if name in measured else "holds")


def test_slopes_over_figure_3s_depths_under_every_open_choice():
    table, parameters = made_up(bend=0.05), PARAMETERS | {"epsilons": [0.9]}
    found = reading.open_slopes(table, parameters, 0.9)
    assert found["κ = 1"] == pytest.approx(0.6) and found["κ = 2"] == pytest.approx(0.6 + 0.05 * math.log(2))
    assert found["one pair"] is None  # of which nothing is stored here
    assert reading.figure_3_slope(table, 0.9, 1.0, shift=-100) is None  # no layer
    depths = np.arange(10.0, 101, 10)
    for name, layers in {"l - 1": depths**0.6 - 1, "whole layers": (depths**0.6).round()}.items():
        assert found[name] == pytest.approx(np.polyfit(np.log(depths), np.log(layers), 1)[0])
    numbers = {n.id: n for one in reading.NUMBERS for n in one.measured(table, parameters)}
    slopes = [slope for slope in found.values() if slope is not None]
    assert numbers["smallest"].measured == pytest.approx(min(slopes))
    assert numbers["largest"].measured == pytest.approx(max(slopes))


def test_networks_follow_the_recursion(table):
    """Width 96 is narrow: 15 % forward, 40 % backward; the doubled first variance shows as a norm of 1."""
    tolerances = {"forward": 0.15, "backward": 0.4, "forward norm": 0.3, "backward norm": 0.3}
    for kind, tolerance in tolerances.items():
        rows = reading.select(table, f"network {kind}")
        ratios = reading.network_ratios(table, f"network {kind}")
        assert ratios.mean() == pytest.approx(1, abs=tolerance), kind
        one = rows[rows.seed == 1]  # regression through 0
        assert ratios[1] == pytest.approx(np.linalg.lstsq(one[["expected"]], one.value, rcond=None)[0][0])


def test_backward_information_is_the_jacobian():
    """width × I^b against autograd's gradient of each output, on one small network."""
    arguments = {"width": 12, "layers": 4, "correlations": [0.3], "networks": 1, "outputs": 3, "seed": 5}
    table = cor01.compute_network(**arguments, **judging.QUIET)
    draw = cor01.torch_stream(5, "cor01-network", 0, 12)

    def normal(*shape):
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    basis = torch.linalg.qr(normal(12, 2))[0].T * math.sqrt(12)
    inputs = [basis[0], 0.3 * basis[0] + math.sqrt(1 - 0.09) * basis[1]]
    weights = [normal(12, 12) * math.sqrt(2 / 12) for _ in range(3)] + [normal(3, 12) * math.sqrt(2 / 12)]
    gradients = []
    for x in inputs:
        z = (weights[0] @ x).requires_grad_()
        kept, h = [z], z
        for weight in weights[1:]:
            h = weight @ h.relu()
            kept.append(h)
        gradients.append([torch.autograd.grad(out, kept[1], retain_graph=True)[0] for out in h])
    expected = sum((a * b).sum() for a, b in zip(*gradients, strict=True)) / 3
    row = table[(table.kind == "network backward") & (table.layer == 2)]
    assert row.value.item() == pytest.approx(float(expected), rel=1e-12)
