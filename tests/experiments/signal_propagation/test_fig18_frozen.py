"""Figure 18: features, readout and limit against plain references, verdicts on made-up tables."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from alignbook.kernels.nngp import nngp_kernel
from companion.claims import CONTRADICTED, HOLDS
from companion.studies.signal_propagation.fig18_frozen import experiment, reading
from tests import judging

PARAMETERS = {"dataset": "mnist", "noise_scales": [1.0, 0.1], "unfrozen_width": 32}
PARAMETERS |= {"widths": [64, 256], "all_images_widths": [2048]}


def test_features_are_those_of_the_kept_network(monkeypatch):
    monkeypatch.setattr(experiment, "ROWS", 4)
    x = torch.randn(9, 7, generator=torch.Generator().manual_seed(0))
    h, h_test, frozen = experiment.features(x, x[:5], 4, 6, 1, True, judging.QUIET["report"])
    expected = x
    for weight in frozen:
        expected = (expected @ weight.T).relu()
    torch.testing.assert_close(h, expected)
    torch.testing.assert_close(h_test, h[:5])
    assert [weight.shape for weight in frozen] == [(6, 7), (6, 6), (6, 6)]
    head = nn.Linear(6, 10, bias=False)
    aligned = experiment.alignments(frozen, head, x, torch.arange(9))
    assert aligned.shape == (4,)
    with torch.no_grad():
        head.weight.mul_(-3)
    assert experiment.alignments(frozen, head, x, torch.arange(9)) == pytest.approx(aligned, rel=1e-4)
    assert np.isnan(experiment.alignments([], head, x, torch.arange(9))).all()


@pytest.mark.parametrize("width", [5, 40])
def test_readout_is_ridge_regression(width):
    generator = torch.Generator().manual_seed(0)
    h, y = torch.rand(17, width, generator=generator, dtype=torch.float64), torch.arange(17) % 10
    amount = 0.01 * float((h**2).sum(1).mean())
    target = nn.functional.one_hot(y, 10).double() - 0.1
    expected = h @ torch.linalg.inv(h.T @ h + amount * torch.eye(width)) @ h.T @ target
    torch.testing.assert_close(experiment.least_squares(h, y, 0.01)(h), expected, rtol=1e-6, atol=1e-5)


def test_wide_networks_tend_to_the_limit():
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(30, 8, generator=generator), torch.arange(30) % 10
    kernel = nngp_kernel(x, x, 3)
    centred = nn.functional.one_hot(y, 10).double() - 0.1
    amount = 0.1 * float(kernel.diagonal().mean())
    limit = kernel @ experiment.solve(kernel.clone(), centred, amount)
    gaps = []
    for width in (64, 4096):
        h, _, _ = experiment.features(x, x[:1], 3, width, 0, False, judging.QUIET["report"])
        gaps.append(float((experiment.least_squares(h, y, 0.1)(h).double() - limit).norm() / limit.norm()))
    assert gaps[1] < 0.1 < gaps[0]


def made_up(good=True):
    """Frozen networks whose peak is in the middle, layer 3, with the least noise (or else with the most)."""
    rng, rows = np.random.default_rng(0), []
    frozen = [(64, 5, 1.0), (256, 5, 1.0), (2048, 0, 1.0), (2048, 0, 0.1)]  # width, images, noise
    gain, best, unfrozen = (10, 91, 97) if good else (-10, 70, 40)
    for seed in range(9):
        of_seed = {"seed": seed, "kind": "net"}
        for width, images, noise in frozen:
            level = 60 + gain * (width > 64)
            of_net = of_seed | {"width": width, "train_images": images, "noise": noise}
            of_net |= {name: level + rng.normal() for name in ("train_accuracy", "ridge_test")}
            of_net["test_accuracy"] = (level if width < 2048 else best) + rng.normal()
            peak = 3 if noise == (0.1 if good else 1.0) else 4
            for layer in range(1, 6):
                after = 0.2 + 0.1 * (layer == peak) + 0.01 * seed
                before = after * ((0.5 if good else 1.05) + 0.001 * seed)
                rows.append(of_net | {"layer": layer, "alignment": after, "alignment_init": before})
        largest = {"kind": "maxima", "width": 2048, "test_accuracy": (91.9 if good else 80) + rng.normal()}
        rows.append(of_seed | largest)
        for images in (5, 0):
            free = {"kind": "unfrozen", "train_images": images, "test_accuracy": unfrozen + rng.normal()}
            rows.append(of_seed | free)
    return pd.DataFrame(rows)


_, outcomes = judging.of(reading, PARAMETERS)


def test_claims_come_out_either_way():
    assert set(outcomes(made_up()).values()) == {HOLDS}
    assert reading.before(made_up(), PARAMETERS) == pytest.approx(0.13, abs=0.03)
    assert set(outcomes(made_up(good=False)).values()) == {CONTRADICTED}


def test_the_weighted_mean_layer_by_hand():
    """The layer of largest alignment is the same at both noises; the weighted mean tells them apart."""
    heights = {1.0: [0.4, 0.1, 0.1], 0.1: [0.4, 0.2, 0.3]}
    table = judging.rows(
        kind="net", width=8, train_images=0, scale=[1.0, 0.1], seed=3, layer=range(1, 4),
        alignment=lambda row: heights[row.scale][row.layer - 1],
    ).rename(columns={"scale": "noise"})  # fmt: skip
    off = {s: reading.off_centre(table, s)[3] for s in heights}
    assert off == pytest.approx({1.0: 2 - (0.4 + 0.2 + 0.3) / 0.6, 0.1: 2 - (0.4 + 0.4 + 0.9) / 0.9})


def test_frozen_networks_are_taken_at_their_best():
    table = made_up()
    at = (table["kind"] == "net") & (table["width"] == 64)
    table.loc[at, "ridge_test"], table.loc[at, "test_accuracy"] = 80.0, 70.0
    expected = reading.unfrozen(table, "test_accuracy") - 80
    pd.testing.assert_series_equal(reading.behind(table, {}, 64, False), expected, check_names=False)
