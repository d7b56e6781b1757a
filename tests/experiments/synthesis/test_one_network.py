"""One network under all four instruments: half-times, lags and verdicts on made-up tables; a small run."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED
from alignbook.errors import AlignbookError
from alignbook.metrics import misalignment
from alignbook.runs import notebooks, parameters
from alignbook.seeding import torch_stream
from alignbook.studies.synthesis.one_network import experiment
from alignbook.training.nets import he_normal_

PARAMETERS = {"networks": ["convolutional", "dense"]}
STEPS = np.array(experiment.recorded(512))


def rise(half, noise=0.0):
    """A value that goes from 0 to 1 and is half way at ``half`` steps."""
    return 1 / (1 + ((half + 1) / (STEPS + 1)) ** 2) + noise


def run(network, task, seed, halves, leader=2):
    rng = np.random.default_rng([seed, len(task), len(network)])
    filters, features, tangent, curvature = (rise(half * 2 ** rng.normal(0, 0.2)) for half in halves)
    layers = {f"tangent{layer}": tangent * (1.5 if layer == leader else 1) / 4 for layer in range(1, 5)}
    return pd.DataFrame(
        {
            "network": network, "task": task, "seed": seed, "step": STEPS, "loss": 1 - features,
            "accuracy": features, "misalignment": 2.0, "random_bases": 2 + 5 * filters, "features": features,
            **layers, "tangent_images": 40, "curvature": -(10 ** (2 * curvature)), "converged": True,
        }
    )  # fmt: skip


def made_up(halves, seeds=4, tuned=None, leader=2):
    """halves : of filters, features, tangent and curvature, in steps."""
    return pd.concat(
        run(network, task, seed, (tuned or halves) if task == "fine-tuned" else halves, leader)
        for network in PARAMETERS["networks"]
        for task in experiment.TASKS
        for seed in range(seeds)
    )


def outcomes(table):
    found = {}
    for claim in experiment.claims(table, PARAMETERS):
        assert claim.ours
        found.setdefault(next(key for key in KEYS if claim.id.startswith(key)), set()).add(claim.outcome)
    return found


KEYS = [*experiment.STATEMENTS, "sooner", "features-lead"]


def test_every_statement_can_come_out_either_way():
    holds = outcomes(made_up((200, 40, 20, 10), tuned=(60, 12, 5, 3)))
    assert set(holds) == set(KEYS)
    assert {key for key in KEYS if holds[key] == {HOLDS}} >= set(KEYS) - {"curvature-settles-last"}
    against = outcomes(made_up((10, 40, 100, 200), tuned=(25, 100, 150, 500), leader=4))
    assert all(against[key] == {CONTRADICTED} for key in set(KEYS) - {"curvature-settles-last"}), against
    assert HOLDS in against["curvature-settles-last"]
    assert CONTRADICTED in holds["curvature-settles-last"]


def test_claims_of_one_seed_or_of_nothing():
    one = made_up((200, 40, 20, 10), seeds=1)
    assert set().union(*outcomes(one).values()) == {UNDECIDED}
    nothing = pd.DataFrame({"unit": []})
    assert set().union(*outcomes(nothing).values()) == {NOT_RUN}
    assert "Nothing was measured" in experiment.finding(nothing, PARAMETERS)
    assert experiment.key_numbers(nothing, PARAMETERS) == []
    ids = [claim.id for claim in experiment.claims(one, PARAMETERS)]
    assert len(set(ids)) == len(ids) and ids[0].startswith(experiment.HEADLINE)


def test_the_finding_follows_the_order():
    said = experiment.finding(made_up((200, 40, 20, 10)), PARAMETERS)
    assert said.count("features in 3 of 3 kinds") == 2 and "opposite" not in said
    said = experiment.finding(made_up((10, 40, 100, 200)), PARAMETERS)
    assert said.count("filters in 3 of 3 kinds") == 2 and "opposite" not in said
    one, other = made_up((200, 40, 20, 10)), made_up((10, 40, 100, 200))
    mixed = pd.concat([one[one["network"] == "dense"], other[other["network"] == "convolutional"]])
    said = experiment.finding(mixed, PARAMETERS)
    assert "convolutional network, filters in 3" in said and "opposite orders" in said and len(said) <= 290
    # An order that is not sure is called undecided, whatever its sign.
    said = experiment.finding(made_up((200, 40, 20, 10), seeds=2), PARAMETERS)
    assert said.count("undecided in 3 of 3") == 2
    numbers = experiment.key_numbers(made_up((200, 40, 20, 10)), PARAMETERS)
    assert len(numbers) == 3 and numbers[-1].here == "convolutional: 2; fully connected: 2"


def test_half_time_is_half_of_the_path():
    line = pd.Series([0.0, 1.0, 2.0, 4.0], index=[0, 1, 3, 7])  # octaves 0, 1, 2, 3
    assert experiment.half_time(line) == pytest.approx(2.0)
    assert experiment.half_time(5 - 3 * line) == pytest.approx(2.0)
    hill = pd.Series([0.0, 3.0, 0.0, 0.0], index=[0, 1, 3, 7])  # up and down again: half at the top
    assert experiment.half_time(hill) == pytest.approx(1.0)
    assert np.isnan(experiment.half_time(hill, net_change=True))
    late = pd.Series([0.0, 3.0, 0.0, 1.0], index=[0, 1, 3, 7])  # first half way on its way up
    assert experiment.half_time(late, net_change=True) == pytest.approx(0.5 / 3)
    for unusable in (line * 0, line + [0, np.nan, 0, 0]):
        assert np.isnan(experiment.half_time(unusable))


def test_settled_is_the_end_of_what_lies_far_from_the_last_value():
    series = pd.Series([0.0, 1.0, 0.5, 0.9, 1.0], index=[0, 1, 3, 7, 15])
    assert experiment.settled(series) == 3.0  # step 7
    assert experiment.settled(series * 0) == 0.0
    assert experiment.settled(series.iloc[::-1].set_axis(series.index)) == np.inf  # only at its last record
    assert experiment.median_steps([2.0, 3.0, np.inf], 15) == "7"
    assert experiment.median_steps([2.0, np.inf, np.inf], 15) == "> 15"


def test_what_has_not_settled_is_not_judged():
    slow = made_up((40, 40, 40, 5000))  # the curvature still grows when the run ends
    found = {claim.id: claim for claim in experiment.claims(slow, PARAMETERS)}
    for network, task in experiment.cases(PARAMETERS):
        claim = found[f"{experiment.LAST}-{network}-{task}"]
        assert claim.outcome == NOT_JUDGED and "4 of 4 runs" in claim.test and claim.measured is None
        assert found[f"curvature-first-{network}-{task}"].outcome == CONTRADICTED
    assert experiment.unsettled(experiment.summary(slow)).all()


def test_bad_parameters():
    book = notebooks.find("synthesis/one_network")
    with pytest.raises(AlignbookError, match="filters must begin with more than 27, not 16"):
        experiment.units(parameters.resolve(book, "smoke", {"filters": [16, 64]}))
    experiment.units(parameters.resolve(book, "smoke", {"filters": [16, 64], "networks": ["dense"]}))
    for name, value in (("networks", ["transformer"]), ("side", 12), ("steps", 3)):
        with pytest.raises(AlignbookError, match=name):
            parameters.resolve(book, "smoke", {name: value})


def test_lags_are_positive_where_the_second_comes_later():
    table = run("dense", "real", 0, (160, 40, 40, 40))
    lags = experiment.correlations(table)
    best = lags.loc[lags.groupby(["first", "second"])["correlation"].idxmax()]
    best = best.set_index(["first", "second"])["lag"]
    assert best["filters", "features"] == pytest.approx(-2, abs=0.5)  # 40 steps against 160
    assert best["features", "tangent"] == pytest.approx(0, abs=0.5)
    (apart,) = experiment.asymmetry(lags[lags["second"] == "features"])
    assert apart < 0
    a, b = np.arange(10.0), np.arange(10.0) + 100
    for lag in (-3, 0, 3):
        first, second = experiment._shifted(a, b, lag)
        assert set(second - first - 100) == {lag} and len(first) == 10 - abs(lag)
    assert [len(part) for part in experiment._shifted(a, b, 12)] == [0, 0]


def test_steps_are_recorded_by_half_octaves():
    assert experiment.recorded(40) == [0, 1, 2, 4, 8, 11, 16, 23, 32, 40]
    assert experiment.recorded(5) == [0, 1, 2, 4, 5]


def test_share_of_labels_on_the_top_singular_vectors():
    rng = torch_stream(0, "features")
    y = torch.arange(60) % 10
    one_hot = torch.nn.functional.one_hot(y, 10).float()
    assert experiment.share_on_top(one_hot, y) == pytest.approx(1.0)
    noise = torch.randn(60, 40, generator=rng)
    features = torch.cat([noise, 1e-3 * one_hot], dim=1)  # the labels are there, but far below
    assert experiment.share_on_top(features, y) < 0.5
    rows = torch.cat([noise, torch.ones(60, 1)], 1).double().numpy()
    left = np.linalg.svd(rows / np.linalg.norm(rows, axis=1, keepdims=True), full_matrices=False)[0]
    centred = one_hot.numpy() - 0.1
    expected = np.square(left[:, :10].T @ centred).sum() / np.square(centred).sum()
    assert experiment.share_on_top(noise, y) == pytest.approx(expected)


def test_the_dense_layer_is_seen_along_the_leading_axes():
    x = torch.randn(200, 3, 4, 4, generator=torch_stream(0, "images")) * torch.linspace(0.1, 2, 16).view(4, 4)
    cov, directions = experiment.axes("dense", x)
    flat = x.flatten(1).double().numpy()
    whole = np.cov(flat, rowvar=False)
    assert directions.shape == (48, 27)
    np.testing.assert_allclose(directions.T @ whole @ directions, cov, atol=1e-10)
    assert np.trace(cov) == pytest.approx(np.linalg.eigvalsh(whole)[-27:].sum())
    net = experiment.network_of("dense", x.shape[1:], [64, 32])
    he_normal_(net, 1.0, torch_stream(0, "weights"))
    bases = experiment.random_bases(27, 3, np.random.default_rng(0))
    found = experiment.filter_scores(net, cov, directions, bases)
    weights = net[0].weight.detach().double().numpy() @ directions
    assert found["misalignment"] == pytest.approx(misalignment(cov, np.cov(weights, rowvar=False)))
    # Weights with the data's covariance are aligned with it, and with nothing else.
    net = experiment.network_of("dense", x.shape[1:], [2000])
    aligned = torch.randn(2000, 48, generator=torch_stream(0, "aligned")).double()
    root = np.linalg.cholesky(whole + 1e-9 * np.eye(48)).T
    net[0].weight.data = (aligned @ torch.from_numpy(root)).float()
    found = experiment.filter_scores(net, cov, directions, bases)
    assert found["random_bases"] > 2 * found["misalignment"]


@pytest.mark.parametrize("network", ["convolutional", "dense"])
def test_a_run_records_every_task(network):
    book = notebooks.find("synthesis/one_network")
    values = parameters.resolve(book, "smoke", {"steps": 4, "images": 40, "tangent_images": 4})
    chosen = {unit.name: unit for unit in experiment.units(values) if unit.arguments["network"] == network}
    assert len(chosen) == 2
    told, tables = [], {}
    for name, unit in chosen.items():
        table = unit.compute(**unit.arguments, device=torch.device("cpu"), report=lambda *a: told.append(a))
        tables[name] = table.assign(network=network, seed=0)
    real, random = tables[f"{network}-real-seed0"], tables[f"{network}-random-seed0"]
    assert set(real["task"]) == {"real"} and list(random["task"]) == ["random"] * 4 + ["fine-tuned"] * 4
    assert list(real["step"]) == [0, 1, 2, 4] and len(random) == 8
    assert real.drop(columns=["network", "task"]).notna().all(axis=None)
    assert real["features"].between(0, 1).all() and real["tangent4"].between(0, 1).all()
    # Fine-tuning starts from the weights that random labels left, whatever the head.
    before, after = random["random_bases"].iloc[3:5]
    assert before == after and real["random_bases"].iloc[0] == random["random_bases"].iloc[0] != before
    assert len(experiment.summary(pd.concat(tables.values()))) == 3
