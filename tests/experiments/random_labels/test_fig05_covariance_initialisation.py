"""Figure 5 of Maennel et al. 2020: filters drawn from the learned covariance."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.training.nets import SimpleCNN, he_normal_
from alignbook.training.transfer import layer_norms
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT
from companion.studies.random_labels.fig05_covariance_initialisation import design, experiment, reading
from tests import judging


def made_up(gains, seeds=12, noise=0.002, known=1.0):
    """Learning curves whose areas lie above those from scratch by ``gains``; ``known``: labels fitted."""
    shifts = judging.rows(
        noise, labels="random", start=[*design.STARTS], seed=range(seeds), fitted=known,
        accuracy=lambda row: 0.5 + gains.get(row.start, 0.0) + row.noise,
    )  # fmt: skip
    return shifts.merge(pd.DataFrame({"epoch": [0, 1, 4]}), how="cross")


_, outcomes = judging.of(
    reading, judging.given("random_labels/fig05_covariance_initialisation", labels=["random"])
)


def network(seed):
    return he_normal_(SimpleCNN((3, 8, 8), [6], 5, 3), 1.0, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("start", design.STARTS)
def test_a_start_takes_what_the_page_says(start):
    source, drawn = network(0), network(9)
    norms = layer_norms(source), experiment.ell1_norms(source)
    with torch.no_grad():
        for parameter in source.parameters():  # as if it had been trained
            parameter.mul_(1.7).add_(0.1)
    filters = source.convs[0].weight.detach().flatten(1)
    sampled = experiment.sampled(filters, 6, torch.Generator().manual_seed(2))
    net = experiment.start_(network(9), source, *norms, start, sampled)
    whole = start in ("pretrained", "unscaled", "ell1")
    dense_from = (source if whole else drawn).dense.weight
    cosine = torch.nn.functional.cosine_similarity
    assert cosine(net.dense.weight.flatten(), dense_from.flatten(), dim=0) > 1 - 1e-6
    own = cosine(net.convs[0].weight.flatten(), source.convs[0].weight.flatten(), dim=0)
    assert (own > 1 - 1e-6) == (start not in ("scratch", "covariance"))
    assert net.convs[0].bias.any() == (whole or start == "conv")
    found = layer_norms(net)
    if start == "unscaled":
        assert found == layer_norms(source) != norms[0]
    elif start == "ell1":
        layers = [net.convs[0], net.dense, net.head]
        sums = [sum(float(p.detach().abs().sum()) for p in layer.parameters()) for layer in layers]
        assert sums == pytest.approx(norms[1], rel=1e-5)
    elif start == "scratch":
        assert found == layer_norms(drawn)
    else:
        assert found[0] == pytest.approx(norms[0][0], rel=1e-6)


def test_draws_have_the_covariance_of_the_filters():
    rng = np.random.default_rng(0)
    filters = torch.from_numpy(rng.normal(size=(7, 4)) @ np.diag([3, 2, 1, 0.1]) + 5)
    generator = torch.Generator().manual_seed(0)
    draws = experiment.sampled(filters, 21000, generator).numpy()
    assert draws.shape == (21000, 4)
    wanted = np.cov(filters.numpy().T, bias=True)
    assert np.abs(np.cov(draws.T) - wanted).max() < 0.04 * wanted.max()
    assert np.abs(draws.mean(0)).max() < 0.1


def test_a_run_by_itself_has_a_covariance_of_its_own_and_all_else_as_it_was():
    job = experiment.jobs(judging.given("random_labels/fig05_covariance_initialisation", labels=["random"]))[
        0
    ]
    both, alone = (judging.compute(job, runs=runs) for runs in ([1, 2], [2]))
    both = both[both["seed"] == 2].reset_index(drop=True)
    drawn = both["start"] == "covariance"
    pd.testing.assert_frame_equal(alone[~drawn], both[~drawn], check_exact=True)


GAINS = {"pretrained": 0.1, "unscaled": 0.2, "conv": 0.1, "no bias": 0.1, "ell1": 0.1}


def test_a_covariance_that_recovers_and_one_that_does_not():
    whole = outcomes(made_up(GAINS | {"covariance": 0.1}, seeds=18))
    assert set(whole.values()) == {HOLDS}
    half = outcomes(made_up(GAINS | {"covariance": 0.05, "unscaled": 0.05}, seeds=18))
    for id in ("recovers-random", "all-random", "scale"):
        assert half[id] == CONTRADICTED
    assert outcomes(made_up(GAINS | {"covariance": 0.1, "ell1": 0.08}))["ell1"] == CONTRADICTED
    double = outcomes(made_up(GAINS | {"covariance": 0.2}, seeds=18))  # more is as unequal as less
    assert double["recovers-random"] == double["all-random"] == CONTRADICTED
    none = outcomes(made_up({"unscaled": 0.001}, noise=0.001))
    assert none["scale"] == none["gains-random"] == none["filters"] == NO_EFFECT
    worse = outcomes(made_up({"pretrained": -0.1, "no bias": -0.1}))
    assert worse["gains-random"] == worse["filters"] == CONTRADICTED
