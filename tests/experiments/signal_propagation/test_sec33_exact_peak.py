"""The exact equilibrium layer beside peaks, old and new, and claims that can come out either way."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

from companion.claims import CONTRADICTED, HOLDS
from companion.over_seeds import exponent
from companion.studies.signal_propagation.sec33_exact_peak import experiment, reading, stored
from companion.studies.signal_propagation.shared.equilibrium_layer import layer_of, supreme_losses
from tests import judging

GIVEN = judging.given("signal_propagation/sec33_exact_peak", "quick")


def of_cases(**columns):
    """Rows at every depth of every case."""
    cases = reading.cases(GIVEN)
    return pd.concat(judging.rows(**case.given, depth=GIVEN["depths"], **columns) for case in cases)


def made_up(factor=1.0, power=0.0):
    """Exact layers, and networks that miss theirs by ``factor``, and more so by a power of the depth."""
    exact = {"statistic": ["mean", "supremum"], "kappa": 1.0, "equilibrium": lambda row: 0.2 * row.depth}
    tables, rng = [of_cases(**exact)], np.random.default_rng(0)
    for dataset, depth, seed in itertools.product(GIVEN["new_datasets"], (40, 60, 90), range(4)):
        index, equilibrium = np.arange(1, depth + 1), 0.2 * depth
        peak = equilibrium * factor * (depth / 60) ** power * (1 + 0.1 * rng.random())
        net = pd.DataFrame({"layer": index, "forward": 1.0, "backward": index / equilibrium})
        net["alignment"] = np.exp(-np.square(np.log(index / peak)))
        tables.append(net.assign(epoch=2, dataset=dataset, depth=depth, learning_rate=0.1, seed=seed))
    return pd.concat(tables, ignore_index=True)


_, outcomes = judging.of(reading, GIVEN)


@pytest.fixture
def peaks(monkeypatch):
    """peaks(factor, power): let the networks that were trained before miss the made-up layers as told."""

    def let(factor=1.0, power=0.0):
        table = of_cases(
            seed=range(3),
            peak=lambda row: 0.2 * row.depth * factor * (row.depth / 50) ** power * (1 + 0.05 * row.seed),
        )
        monkeypatch.setattr(stored, "peaks", lambda: table)

    return let


def test_statements_hold_and_fail(peaks):
    peaks()
    assert set(outcomes(made_up()).values()) == {HOLDS}
    peaks(factor=4.0, power=0.8)
    assert set(outcomes(made_up(factor=3.0, power=0.6)).values()) == {CONTRADICTED}


def test_peaks_are_those_of_the_stored_networks():
    pd.testing.assert_frame_equal(stored.peaks(), stored.collect())


def test_the_drift_is_a_slope():
    nets = pd.DataFrame({"depth": [10, 20, 40, 80], "off": [0.1, 0.3, 0.2, 0.9]})
    slope = exponent(nets["depth"].to_numpy(float), np.exp(nets["off"]))
    assert reading.drift(nets).mean() == pytest.approx(slope)
    assert not len(reading.drift(nets.assign(depth=10)))


def test_layers_of_images():
    table = judging.compute(experiment.jobs(judging.given("signal_propagation/sec33_exact_peak"))[0])
    mean = table[table["statistic"] == "mean"].pivot(index="depth", columns="kappa", values="equilibrium")
    assert (mean.diff(axis=1).dropna(axis=1) <= 0).all().all()  # a larger κ, a shallower layer
    assert ((mean.T >= 1) & (mean.T <= mean.index)).all().all()


def test_suprema_are_of_the_ends():
    forward, backward = supreme_losses([-0.2, 0.1, 0.9], [8])[8]
    assert forward[0] == pytest.approx(0.6) and backward[-1] == 1
    assert math.isfinite(layer_of(forward, backward))
