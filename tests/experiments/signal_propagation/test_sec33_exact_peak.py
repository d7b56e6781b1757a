"""The exact equilibrium layer beside peaks, old and new, and claims that can come out either way."""

import math

import numpy as np
import pandas as pd
import pytest

from companion.claims import CONTRADICTED, HOLDS
from companion.over_seeds import exponent
from companion.runs import notebooks, parameters
from companion.studies.signal_propagation.sec33_exact_peak import experiment, reading, stored
from companion.studies.signal_propagation.shared.equilibrium_layer import layer_of, supreme_losses
from tests import judging
from tests.judging import QUIET

GIVEN = parameters.resolve(notebooks.find("signal_propagation/sec33_exact_peak"), "quick")


def made_up(factor=1.0, power=0.0):
    """Rows as of the two kinds of jobs: the exact layers, and networks that miss theirs as told."""
    rng, rows = np.random.default_rng(0), []
    layers = {depth: 0.2 * depth for depth in GIVEN["depths"]}
    for case in reading.cases(GIVEN):
        for depth, layer in layers.items():
            for statistic in ("mean", "supremum"):
                rows.append(
                    case.given | {"statistic": statistic, "depth": depth, "kappa": 1.0, "equilibrium": layer}
                )
    tables = [pd.DataFrame(rows)]
    for dataset in GIVEN["new_datasets"]:
        for depth in (40, 60, 90):
            for seed in range(4):
                index = np.arange(1, depth + 1)
                balance = np.log(index / (0.2 * depth))
                peak = 0.2 * depth * factor * (depth / 60) ** power * (1 + 0.1 * rng.random())
                net = pd.DataFrame({"layer": index, "forward": 1.0, "backward": np.exp(balance)})
                net["alignment"] = np.exp(-np.square(np.log(index / peak)))
                tables.append(net.assign(epoch=2, dataset=dataset, depth=depth, learning_rate=0.1, seed=seed))
    return pd.concat(tables, ignore_index=True)


_, outcomes = judging.of(reading, GIVEN)


@pytest.fixture
def peaks(monkeypatch):
    """peaks(factor, power): let the networks that were trained before miss the made-up layers as told."""

    def let(factor=1.0, power=0.0):
        rows = []
        for case in reading.cases(GIVEN):
            for depth in GIVEN["depths"]:
                for seed in range(3):
                    peak = 0.2 * depth * factor * (depth / 50) ** power * (1 + 0.05 * seed)
                    rows.append(case.given | {"depth": depth, "seed": seed, "peak": peak})
        monkeypatch.setattr(stored, "peaks", lambda: pd.DataFrame(rows))

    return let


def test_statements_hold_and_fail(peaks):
    peaks()
    found = outcomes(made_up())
    assert {outcome for id, outcome in found.items()} == {HOLDS}
    peaks(factor=4.0, power=0.8)
    found = outcomes(made_up(factor=3.0, power=0.6))
    assert {outcome for id, outcome in found.items()} == {CONTRADICTED}


def test_peaks_are_those_of_the_stored_networks():
    pd.testing.assert_frame_equal(stored.peaks(), stored.collect())


def test_the_drift_is_a_slope():
    nets = pd.DataFrame({"depth": [10, 20, 40, 80], "off": [0.1, 0.3, 0.2, 0.9]})
    slope = exponent(nets["depth"].to_numpy(float), np.exp(nets["off"]))
    assert reading.drift(nets).mean() == pytest.approx(slope)
    assert not len(reading.drift(nets.assign(depth=10)))


def test_layers_of_images():
    table = experiment.compute_pairs(
        dataset="digits", setting="tables", images=12, depths=[6, 12], seed=0, **QUIET,
    )  # fmt: skip
    mean = table[table["statistic"] == "mean"].pivot(index="depth", columns="kappa", values="equilibrium")
    assert (mean.diff(axis=1).dropna(axis=1) <= 0).all().all()  # a larger κ, a shallower layer
    assert ((mean.T >= 1) & (mean.T <= mean.index)).all().all()
    cropped = experiment.compute_pairs(
        dataset="photos", setting="crops and flips", images=12, depths=[6], seed=0,
        **QUIET,
    )  # fmt: skip
    assert len(cropped) == 4 and cropped["equilibrium"].between(1, 6).all()


def test_suprema_are_of_the_ends():
    forward, backward = supreme_losses([-0.2, 0.1, 0.9], [8])[8]
    assert forward[0] == pytest.approx(0.6) and backward[-1] == 1
    assert math.isfinite(layer_of(forward, backward))
