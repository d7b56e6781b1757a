"""Figure 5 of Maennel et al. 2020: filters drawn from the learned covariance."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN
from alignbook.errors import AlignbookError
from alignbook.experiments.random_labels import fig05_covariance_initialisation as experiment
from alignbook.runs import notebooks, parameters
from alignbook.training.nets import SimpleCNN, he_normal_
from alignbook.training.transfer import layer_norms

SMALL = {
    "dataset": "photos", "labels": ["random"], "filters": 8, "units": 12, "side": 8, "upstream_images": 32,
    "upstream_classes": 3, "downstream_images": 40, "classes": 10, "epochs": 2, "record": [1],
    "batch_size": 16, "learning_rate": 0.01, "init_scale": 1.0, "runs": [1, 2],
}  # fmt: skip
PARAMETERS = {"labels": ["random"], "seeds": 12, "group": 6, "side": 8, "filters": 8}


def run(**other):
    return experiment.compute(**SMALL | other, device=torch.device("cpu"), report=lambda done, text: None)


def made_up(gains, seeds=12, noise=0.002):
    """Learning curves whose areas lie above those from scratch by ``gains``."""
    rng = np.random.default_rng(0)
    rows = []
    for start in experiment.STARTS:
        for seed in range(seeds):
            shift = gains.get(start, 0.0) + noise * rng.standard_normal()
            rows += [
                {"labels": "random", "start": start, "seed": seed, "epoch": e, "accuracy": 0.5 + shift}
                for e in (0, 1, 4)
            ]
    return pd.DataFrame(rows)


def outcomes(table):
    return {claim.id: claim.outcome for claim in experiment.claims(table, PARAMETERS)}


def trained():
    """A network that looks trained: norms of before, weights and biases of after."""
    source = SimpleCNN((3, 8, 8), [6], 5, 3)
    he_normal_(source, 1.0, torch.Generator().manual_seed(0))
    norms = layer_norms(source)
    with torch.no_grad():
        for parameter in source.parameters():
            parameter.mul_(1.7).add_(0.1)
    return source, norms


def started(start):
    source, norms = trained()
    net = he_normal_(SimpleCNN((3, 8, 8), [6], 5, 3), 1.0, torch.Generator().manual_seed(9))
    drawn = experiment.sampled(
        source.convs[0].weight.detach().flatten(1), 6, torch.Generator().manual_seed(2)
    )
    made = experiment.start_(net, source, norms, start, drawn)
    return made, source, norms


@pytest.mark.parametrize("start", experiment.STARTS)
def test_a_start_takes_what_the_page_says(start):
    net, source, norms = started(start)
    drawn = he_normal_(SimpleCNN((3, 8, 8), [6], 5, 3), 1.0, torch.Generator().manual_seed(9))
    dense_from = {"pretrained": source, "unscaled": source}.get(start, drawn).dense.weight
    cosine = torch.nn.functional.cosine_similarity
    assert cosine(net.dense.weight.flatten(), dense_from.flatten(), dim=0) > 1 - 1e-6
    own = cosine(net.convs[0].weight.flatten(), source.convs[0].weight.flatten(), dim=0)
    assert (own > 1 - 1e-6) == (start not in ("scratch", "covariance"))
    assert net.convs[0].bias.any() == (start in ("pretrained", "unscaled", "conv"))
    found = layer_norms(net)
    if start == "unscaled":
        assert found == layer_norms(source) != norms
    elif start == "scratch":
        assert found == layer_norms(drawn)
    else:
        assert found[0] == pytest.approx(norms[0], rel=1e-6)


def test_draws_have_the_covariance_of_the_filters():
    rng = np.random.default_rng(0)
    filters = torch.from_numpy(rng.normal(size=(7, 4)) @ np.diag([3, 2, 1, 0.1]) + 5)
    generator = torch.Generator().manual_seed(0)
    draws = experiment.sampled(filters, 21000, generator).numpy()
    assert draws.shape == (21000, 4)
    wanted = np.cov(filters.numpy().T, bias=True)
    assert np.abs(np.cov(draws.T) - wanted).max() < 0.04 * wanted.max()
    assert np.abs(draws.mean(0)).max() < 0.1


def test_compute_gives_every_start_and_repeats():
    table = run()
    assert table.groupby(["seed", "start"]).size().unique().tolist() == [3]
    assert set(table["seed"]) == {1, 2} and set(table["start"]) == set(experiment.STARTS)
    # A run by itself has a covariance of its own, and all else as it was.
    alone = run(runs=[2])
    both = table[table["seed"] == 2].reset_index(drop=True)
    drawn = both["start"] == "covariance"
    pd.testing.assert_frame_equal(alone[~drawn], both[~drawn], check_exact=True)
    assert table["accuracy"].between(0, 1).all()


def test_a_covariance_that_recovers_and_one_that_does_not():
    gains = {"pretrained": 0.1, "unscaled": 0.2, "conv": 0.1, "no bias": 0.1}
    assert set(outcomes(made_up(gains | {"covariance": 0.1})).values()) == {HOLDS}
    half = outcomes(made_up(gains | {"covariance": 0.05, "unscaled": 0.05}))
    assert half["recovers-random"] == half["all-random"] == half["scale-random"] == CONTRADICTED
    assert "+5.0" in experiment.finding(made_up(gains | {"covariance": 0.05}), PARAMETERS)


def test_seeds_that_share_a_covariance_are_told_apart():
    table = made_up({"covariance": 0.1}, noise=0.0)
    later = (table["seed"] >= 6) & (table["start"] == "covariance")
    table.loc[later, "accuracy"] += 0.1
    found = experiment.by_group(table, PARAMETERS)
    assert found["random labels"].tolist() == pytest.approx([10, 20])
    tests = {claim.id: claim.test for claim in experiment.claims(made_up({"pretrained": 0.1}), PARAMETERS)}
    assert "share 2 covariances" in tests["all-random"] and "share" not in tests["gains-random"]
    assert experiment.dependence(PARAMETERS | {"group": 1}) == ""


def test_without_a_gain_there_is_nothing_to_recover():
    judged = outcomes(made_up({"pretrained": -0.1, "covariance": -0.1, "no bias": -0.1, "unscaled": 0.1}))
    assert judged["recovers-random"] == judged["all-random"] == NOT_JUDGED
    assert judged["gains-random"] == CONTRADICTED
    assert set(outcomes(pd.DataFrame({"unit": []})).values()) == {NOT_RUN}


def test_paper_runs_as_many_steps_as_printed():
    book = notebooks.find("random_labels/fig05_covariance_initialisation")
    values = parameters.resolve(book, "paper")
    assert abs(values["epochs"] * (values["upstream_images"] // values["batch_size"]) - 10000) < 39
    quick = parameters.resolve(book, "quick")
    same = ("labels", "upstream_classes", "classes", "init_scale", "seeds")
    assert {name: quick[name] for name in same} == {name: values[name] for name in same}
    groups = [unit.arguments["runs"] for unit in experiment.units(quick | {"seeds": 7, "group": 3})]
    assert groups == [[0, 1, 2], [3, 4, 5], [6]]
    with pytest.raises(AlignbookError, match="filters"):
        parameters.resolve(book, "quick", {"filters": 1})
