"""Figure 4 of Maennel et al. 2020."""

import numpy as np
import pandas as pd
import pytest

from companion.claims import CONTRADICTED, HOLDS, NOT_RUN
from companion.studies.random_labels.fig04_transfer_function import reading
from tests import judging


def test_pooled_is_the_covariance_of_all_filters():
    rng = np.random.default_rng(0)
    layers = rng.normal(size=(4, 3, 50)) + rng.normal(size=(4, 3, 1))  # networks, inputs, filters
    rows = judging.rows(
        network=range(4),
        index=range(3),
        sigma=lambda row: row.index + 1.0,
        tau=lambda row: layers[row.network, row.index].std(),
        mean=lambda row: layers[row.network, row.index].mean(),
    )
    together = layers.transpose(1, 0, 2).reshape(3, -1)
    assert reading.pooled(rows)["tau"].to_numpy() == pytest.approx(together.std(axis=1))


def test_growth_is_the_last_epoch_over_the_first():
    taus = {10: (9.0, 9.0), 0: (2.0, 4.0), 40: (3.0, 2.0)}

    def tau(row):
        return taus[row.epoch][row.index] * (7.0 if (row.epoch, row.index, row.seed) == (40, 1, 1) else 1.0)

    about = {"kind": "transfer", "labels": "random", "seed": range(2), "index": range(2)}
    table = judging.rows(**about, epoch=[*taus], tau=tau)
    frame = reading.growth(table, labels="random")
    assert frame.loc[0].tolist() == [1.5, 0.5] and frame.loc[1].tolist() == [1.5, 3.5]
    assert reading.growth(table, labels="real").empty


def curves(kind, over, tau, **other):
    """Rows of three networks or seeds with the curve ``tau``, a little noise added."""
    own = {"converged": 1, "tau_start": 1.0, "seed": 0} if kind == "gaussian" else {}
    return judging.rows(
        0.001, kind=kind, **own, **{over: range(3)}, index=range(27),
        epoch=[0, 4] if kind == "transfer" else 4,
        sigma=lambda row: np.linspace(0.3, 2, 27)[row.index],
        tau=lambda row: tau(row.sigma) * (1 + row.noise) if row.epoch else 1.0, **other,
    )  # fmt: skip


_, outcomes = judging.of(reading)


def test_claims_come_out_either_way():
    table = pd.concat(
        [
            curves("gaussian", "network", lambda s: s / (1 + s**4), inputs=100),
            curves("transfer", "seed", lambda s: np.exp(2 * s), labels="random"),
            curves("transfer", "seed", lambda s: np.exp(-2 * s), labels="real"),
        ]
    )
    assert outcomes(table) == {
        "falls-random": CONTRADICTED, "falls-real": HOLDS, "falls-gaussian": HOLDS,
        "rises-random": HOLDS, "rises-real": CONTRADICTED, "rises-gaussian": HOLDS,
    }  # fmt: skip
    assert outcomes(table, inputs=[100, 200])["falls-gaussian"] == NOT_RUN
    trial = table.assign(seed=table["seed"] + 1000)
    assert outcomes(trial)["falls-random"] == NOT_RUN
