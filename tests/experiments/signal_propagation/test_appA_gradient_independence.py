"""Appendix A: kernels against autograd, the neurons' law against networks, verdicts on made-up tables."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from companion.claims import CONTRADICTED, HOLDS
from companion.studies.signal_propagation.appA_gradient_independence import experiment, reading
from tests import judging

PARAMETERS = {"depths": [10], "widths": [32, 128, 512, 1024], "layers": [5], "draws": 100, "networks": 4}


def test_own_kernel_is_autograds_and_copies_differ():
    depth, width = 4, 9
    draw = torch.Generator().manual_seed(3)
    kinds, link = experiment.three_passes(torch.tensor([-0.3, 0.8]), width, depth, draw)
    draw = torch.Generator().manual_seed(3)  # the same network once more
    x = experiment.pairs(torch.tensor([-0.3, 0.8]), width, draw)
    weights = [experiment.weight(width, width, draw) for _ in range(depth - 1)]
    weights = [w.requires_grad_(True) for w in [*weights, experiment.weight(1, width, draw)]]
    gradients = []
    for row in x:
        h = row
        for w in weights[:-1]:
            h = (w @ h).relu()
        gradients.append(torch.cat([g.flatten() for g in torch.autograd.grad((weights[-1] @ h)[0], weights)]))
    kernel = torch.stack(gradients) @ gradients[0]
    torch.testing.assert_close(kinds[0, -1], kernel[1:], rtol=1e-4, atol=1e-4)
    assert (kinds[0] - kinds[1]).abs()[:-2].min() > 0 and (kinds[1] - kinds[2]).abs()[:-2].min() > 0
    assert link[0] == pytest.approx(link[3], rel=1e-4) and abs(link[1] - link[3]) > 1e-3
    cosine = torch.nn.functional.cosine_similarity(x[1:], x[:1])
    torch.testing.assert_close(cosine, torch.tensor([-0.3, 0.8]))
    torch.testing.assert_close(x.norm(dim=1), torch.full((3,), math.sqrt(width)))


def test_wide_networks_reach_the_limit():
    table = experiment.compute_backward(
        widths=[512], depth=4, correlations=[-1.0, 0.5], networks=20, seed=0, **judging.QUIET
    )
    kernel = table[table["kind"] == "kernel"]
    assert kernel[["own", "fresh"]].to_numpy() == pytest.approx(1, abs=0.12)
    assert (kernel["apart"] < 0.3).all()
    opposite = table[(table["correlation"] == -1) & (table["kind"] == "gradient")]
    assert opposite["layer"].min() == 2  # 0 in layer 1: no unit is on for both
    link = table[table["kind"] == "link"].iloc[0]
    assert link["own"] == pytest.approx(1, abs=1e-3) and abs(link["fresh"]) < 0.8


def test_neurons_have_the_law_of_networks():
    """Against networks with their matrices drawn, and against the exact fourth moment."""
    width, draws = 16, 6000
    table = experiment.compute_neurons(widths=[width], layers=[1, 3], draws=draws, seed=0, **judging.QUIET)
    found = table.set_index("layer")
    assert found.loc[1, "kurtosis"] == pytest.approx(0, abs=0.05)
    assert found.loc[3, "kurtosis"] == pytest.approx(3 * ((1 + 5 / width) ** 2 - 1), rel=0.25)
    draw = torch.Generator().manual_seed(1)
    h = torch.randn(width, generator=draw, dtype=torch.float64)
    h = (h * math.sqrt(width) / h.norm()).expand(draws, width)
    for _ in range(3):
        w = torch.randn(draws, width, width, generator=draw, dtype=torch.float64) * math.sqrt(2 / width)
        z = torch.einsum("nij,nj->ni", w, h)
        h = z.relu()
    square = z.square()
    assert float(square.mean()) == pytest.approx(2, rel=0.1)
    error = float((square.mean(1) / 2 - 1).square().mean().sqrt())
    assert found.loc[3, "error"] == pytest.approx(error, rel=0.15)


def test_printed_factor_doubles_the_variance():
    table = experiment.compute_scales(width=64, depth=5, networks=3, seed=0, **judging.QUIET)
    values = table.pivot(index="layer", columns="scaling", values="variance")
    np.testing.assert_allclose(values["as printed"] / values["standard"], 2.0 ** np.arange(1, 6), rtol=1e-4)
    np.testing.assert_allclose(values["√2 for 2"], values["standard"], rtol=1e-6)


def test_theorem_a_needs_no_bias_after_the_first_layer():
    table = experiment.compute_update(width=12, depth=4, seed=0, **judging.QUIET)
    error = table[table["kind"] == "update"].set_index("biases")["error"]
    assert error["none"] < 1e-12 and error["first layer"] < 1e-12 and error["all layers"] > 1e-2
    rows = table[(table["kind"] == "coordinate") & (table["biases"] == "none")]
    np.testing.assert_allclose(rows["actual"], rows["predicted"], atol=1e-14)
    assert table.loc[table["kind"] == "equation 9", "error"].item() < 1e-12


def made_up(power=-0.5, copies=1.0, kurtosis=-1.0, printed=1.0, errors=(1e-15, 1e-15, 0.1)):
    rng, rows = np.random.default_rng(0), []
    for seed in range(4):
        for width in PARAMETERS["widths"]:
            wobble, here = 1 + 0.02 * rng.standard_normal(), {"seed": seed, "width": width}
            sizes = {"apart": width**power * wobble, "copies": width**power / copies}
            rows += [here | {"kind": kind, "depth": 10, **sizes} for kind in ("kernel", "gradient")]
            rows.append(here | {"kind": "neurons", "layer": 5, "kurtosis": width**kurtosis * wobble})
        for scaling, growth in (("standard", 0.0), ("as printed", printed)):
            row = {"kind": "scales", "scaling": scaling, "seed": seed}
            rows += [row | {"layer": n, "variance": 2.0 ** (1 + growth * n)} for n in (1, 2, 3)]
        for biases, error in zip(experiment.BIASES, errors, strict=True):
            rows.append({"kind": "update", "biases": biases, "error": error, "seed": seed})
    return pd.DataFrame(rows)


_, outcomes = judging.of(reading, PARAMETERS)


def test_claims_come_out_either_way():
    found = outcomes(made_up())
    assert found.pop("printed") == CONTRADICTED and found.pop("theorem-a-all") == CONTRADICTED
    assert set(found.values()) == {HOLDS}
    assert reading.off(made_up(), PARAMETERS).mean() == pytest.approx(100 / np.sqrt(1024), rel=0.05)
    found = outcomes(made_up(0.2, copies=3, kurtosis=-0.1, printed=0.0, errors=(1e-3, 1e-3, 1e-16)))
    assert found.pop("printed") == HOLDS and found.pop("theorem-a-all") == HOLDS
    assert set(found.values()) == {CONTRADICTED}
