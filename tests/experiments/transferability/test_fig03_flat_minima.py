"""Figures 3 and 10: spectra and circles around minima, on made-up networks and tables."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN
from alignbook.errors import AlignbookError
from alignbook.pages import chapter
from alignbook.runs import engine, notebooks, parameters
from alignbook.studies.transferability.fig03_flat_minima import experiment, reading
from alignbook.training.resnet import ResNet
from tests import judging

PARAMETERS = {
    "targets": ["cifar10", "cifar10-natural", "mnist"],
    "source": "photos", "pretrain_epochs": 1, "pretrain_images": 64,
    "width": 8, "blocks": 1, "examples": 64, "batch_size": 32, "learning_rate": 0.01, "stop_at_loss": 0.1,
    "max_epochs": 2, "epochs": 1, "decay_epochs": [], "images": 16, "eigenvalues": 3, "radii": [0.1, 0.3],
    "points": 5, "seeds": 3, "settled_seeds": 0, "settled_loss": 0.05, "settle_epochs": 2,
    "source_accuracy": False,
}  # fmt: skip


def made_up(sharper=2.0, reached=True, norm=1.0, learned=80.0, **given):
    """A table in which eigenvalues and rises from random weights are ``sharper`` times the others'."""
    row = {"kind": "source", "source_train_accuracy": 99.0, "source_test_accuracy": learned, "seed": 0}
    tables = [pd.DataFrame([row])]
    for job in experiment.jobs(PARAMETERS | given):
        given = job.arguments
        rng = np.random.default_rng([given["seed"], len(given["dataset"]), len(given["start"])])
        factor = (sharper if given["start"] == "scratch" else 1.0) * (1 + 1e-3 * rng.random())
        if job.compute is experiment.spectrum:
            rows = {
                "index": [1, 2, 3], "eigenvalue": factor * np.array([5.0, -2.0, 1.0]), "residual": 1e-4,
                "images_loss": 0.1 * factor, "train_error": 0.5, "test_error": 40.0,
                "taken": 2, "reached": reached,
                "norm": norm if given["start"] == "scratch" else 1.0,
            }  # fmt: skip
        elif job.compute is experiment.circles:
            rows = {"circle": given["radii"], "rise": factor * np.square(given["radii"]), "reached": reached}
        elif job.compute is experiment.settled:
            rows = {
                "index": [1, 2, None], "eigenvalue": [factor * 5.0, factor, None],
                "around": [None, None, 0.3], "rise": [None, None, 1 / factor], "train_error": 0.0,
                "train_loss": 0.01, "reached": False,
            }  # fmt: skip
        else:
            continue
        scalars = {
            name: value
            for name, value in given.items()
            if isinstance(value, str | int | float) and name not in rows
        }
        tables.append(pd.DataFrame(rows).assign(**scalars))
    return pd.concat(tables, ignore_index=True)


claims, outcomes, finding = judging.of(reading, PARAMETERS)


def test_jobs_are_named_apart_and_variations_are_of_the_first_target():
    jobs = experiment.jobs(PARAMETERS)
    names = [job.name for job in jobs]
    assert len(set(names)) == len(names) == 3 * 3 * 2 * 2 + 3 * 2 * 2 + 3 * 2
    assert not any("mnist-batch" in name or "mnist-steps" in name for name in names)


@pytest.mark.parametrize(("sharper", "outcome"), [(2.0, HOLDS), (0.25, CONTRADICTED)])
def test_claims_can_hold_and_fail(sharper, outcome):
    found = outcomes(made_up(sharper=sharper))
    over_loss = claims(made_up(sharper=sharper))["eigenvalues-over-loss"]
    assert over_loss.measured == pytest.approx(0) and found.pop(over_loss.id)  # losses have the same ratio
    rises = {id: found.pop(id) for id in list(found) if id.endswith("-0.1")}
    assert set(rises.values()) == {NOT_JUDGED}  # 0.02 nats at most: no difference could reach 0.05
    assert found.pop("largest-alone") == NOT_JUDGED  # these seeds had been seen
    assert len(found) == 3 + 1 + 3 and set(found.values()) == {outcome}
    assert outcomes(made_up(sharper=1.0))["eigenvalues"] == ABSENT


def test_networks_that_did_not_reach_the_loss_are_left_out():
    table = made_up(reached=False)
    assert set(outcomes(table).values()) == {NOT_RUN}
    assert "nothing to compare" in finding(table)
    assert reading.key_numbers(table, PARAMETERS) == []


def test_settled_minima_are_judged_where_they_fit_all_images():
    assert {job.arguments["dataset"] for job in experiment.jobs(PARAMETERS | {"settled_seeds": 4})
            if job.compute is experiment.settled} == {"cifar10"}  # fmt: skip
    table = made_up(sharper=0.5, settled_seeds=4)
    table.loc[table["settle_steps"].isna(), "eigenvalue"] = np.nan  # where training stopped: not looked at
    table.loc[(table["seed"] == 3) & (table["start"] == "scratch"), "train_error"] = 0.1
    found = claims(table)
    assert "3 seeds" in found["eigenvalues"].test and found["eigenvalues"].outcome == CONTRADICTED
    assert found["rise-cifar10-0.3"].outcome == HOLDS
    said = finding(table)
    assert "on average larger, not smaller" in said and "had not settled" not in said
    assert "There the loss rises less at radius 0.3; our network is small." in said
    names = [number.what.split()[0] for number in reading.key_numbers(table, PARAMETERS)]
    assert names == ["mean", "mean", "largest"]


def test_networks_with_training_errors_are_at_no_minimum():
    found = claims(made_up().assign(train_error=24.0))  # as after fifteen epochs
    assert {claim.outcome for claim in found.values()} == {NOT_JUDGED}
    assert "here 24" in found["eigenvalues"].test
    assert finding(made_up().assign(train_error=24.0)).startswith("We do not judge whether")


@pytest.mark.parametrize("sharper", [2.0, 0.5])
def test_nothing_is_judged_from_a_source_that_is_not_learned(sharper):
    table = made_up(sharper, learned=34.6)
    assert set(outcomes(table).values()) == {NOT_JUDGED}
    said = finding(table)
    assert "gets only 35 % of its test images right" in said and len(said) <= 300


def test_rises_stand_beside_their_ratio():
    rows = reading.rise_table(made_up(), PARAMETERS)
    assert list(rows["radius"]) == ["0.1", "0.3"] * 3 and rows["rise, random weights"][0].startswith("0.020")
    assert rows["log2 of the ratio"][0].startswith("1.00") and rows["difference"][0].startswith("0.010")


def test_a_target_unlike_the_source_is_no_replicate():
    made = claims(made_up())
    assert made["eigenvalues-mnist"].group != made["eigenvalues-cifar10-natural"].group
    assert made["rise-mnist-0.3"].group != made["rise-cifar10-0.3"].group
    ours = {id for id, claim in made.items() if claim.ours and "-over-loss" not in id and "-norm" not in id}
    # And the larger radius, which is not the paper's.
    larger = {"rise-cifar10-0.3", "rise-cifar10-natural-0.3"}
    assert ours == {"eigenvalues-mnist", "rise-mnist-0.1", "rise-mnist-0.3"} | larger


def test_an_empty_table_has_no_verdicts():
    empty = pd.DataFrame({"unit": []})
    assert set(outcomes(empty).values()) == {NOT_RUN}
    assert reading.conditions(empty, PARAMETERS).empty


def test_ratios_of_the_table_take_out_loss_and_norm():
    table = reading.conditions(made_up(sharper=2.0, norm=2.0), PARAMETERS)
    assert list(table["stopped"]) == ["by loss"] * 3 + ["by loss, batch statistics", "by steps"]
    first = table.iloc[0]
    assert [first[name][:4] for name in ("log2 λ", "log2 λ/loss", "log2 λ‖W‖²")] == ["1.00", "0.00", "3.00"]
    assert set(table["networks with a negative eigenvalue"]) == {"6 of 6"}


@pytest.mark.parametrize(("power", "outcome"), [(0, HOLDS), (2, CONTRADICTED)])
def test_eigenvalues_over_the_loss_come_out_either_way(power, outcome):
    table = made_up(sharper=2.0)
    table["images_loss"] = 0.1 * (table["images_loss"] / 0.1) ** power
    found = outcomes(table)
    assert found["eigenvalues-over-loss"] == outcome


def test_the_finding_follows_the_ratio():
    twice, half = (finding(made_up(sharper=ratio)) for ratio in (2.0, 0.5))
    assert "on average smaller" in twice and "are 2.00 times as large" in twice and "had not settled" in twice
    assert "on average larger, not smaller" in half and "are 0.50 times as large" in half
    scaled = finding(made_up(sharper=1.0, norm=2.0))
    assert "the Hessian's 3 largest eigenvalues are on average as large as from random ones" in scaled
    assert "; relative to the weights' size, 4.0 times smaller" in scaled
    assert reading._by_radius({0.1: ABSENT, 0.3: HOLDS}) == "as much at radius 0.1, less at radius 0.3"
    seen = "less at radius 0.3 and too little to judge at the paper's 0.1"
    assert reading._by_radius({0.1: NOT_JUDGED, 0.3: HOLDS}) == seen


def test_the_largest_eigenvalue_alone_is_told_where_it_differs_from_the_mean():
    table = made_up(sharper=1.0)
    table.loc[(table["index"] == 1) & (table["start"] == "pretrained"), "eigenvalue"] *= 1.2
    table.loc[(table["index"] == 2) & (table["start"] == "pretrained"), "eigenvalue"] *= -0.5
    assert outcomes(table)["eigenvalues"] == ABSENT
    assert "as large as from random ones (the largest alone is 20 % larger, not judged)" in finding(table)
    assert [round(ratio, 2) for ratio in reading.by_rank(table, PARAMETERS).values()] == [0.83, 2.0]
    new = table.assign(seed=table["seed"] + reading.SEEN_SEEDS)  # seeds that nobody has looked at
    assert outcomes(new)["largest-alone"] == CONTRADICTED
    assert "(the largest alone is 20 % larger)" in finding(new)


def test_the_chapters_answer_says_how_it_is_relative_to_the_weights_size():
    """Its sentence follows the verdict on the eigenvalues and names this one, which must not have turned."""
    page = "fig03_flat_minima"
    stored = engine.most_faithful(notebooks.find(f"transferability/{page}"))
    found = {claim.id: claim.outcome for claim in stored.claims}
    (words,) = (
        each for each in chapter.read("transferability")["sentences"] if each["by"] == f"{page}#eigenvalues"
    )
    assert "relative to the weights' size they are smaller" in words["fails"]
    assert found["eigenvalues-times-norm"] == HOLDS


@pytest.mark.parametrize(("grown", "outcome"), [(2.0, NOT_JUDGED), (6.0, ABSENT), (60.0, HOLDS)])
def test_rises_are_judged_where_a_difference_could_matter(grown, outcome):
    table = made_up()  # 0.02 and 0.01 nats at the radius of 0.1
    table["rise"] = table["rise"] * grown
    if outcome == ABSENT:  # one is 0.06, the other nearly as much
        table.loc[table["start"] == "pretrained", "rise"] *= 1.9
    claim = claims(table)["rise-cifar10-0.1"]
    assert claim.outcome == outcome
    assert ("larger of the two mean rises, nats, at least 0.05" in claim.test) == (outcome == NOT_JUDGED)


@pytest.mark.parametrize(
    ("name", "value"),
    [("targets", ["cifar"]), ("eigenvalues", 0), ("stop_at_loss", 0.0), ("radii", [0.1, 0.1]), ("points", 2)],
)
def test_bad_parameters_are_refused_in_one_line(name, value):
    book = notebooks.find("transferability/fig03_flat_minima")
    with pytest.raises(AlignbookError, match=name) as refused:
        parameters.resolve(book, "quick", {name: value})
    assert "\n" not in str(refused.value)


def test_own_statistics_are_those_of_training_mode():
    net = ResNet(3, width=8, generator=torch.Generator().manual_seed(0))
    x = torch.randn(7, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        wanted = net.train()(x)
        running = net.norm.running_mean.clone()
        copy = experiment.own_statistics(net).eval()
        assert torch.allclose(copy(x), wanted, atol=1e-5)
        assert not torch.allclose(net.eval()(x), wanted, atol=1e-2)
    assert torch.equal(net.norm.running_mean, running)


def test_jobs_measure_the_same_minimum(monkeypatch):
    """A plane's centre is a spectrum's loss, and circles rise from it as the plane's points do."""
    monkeypatch.setattr(experiment, "ANGLES", 4)  # which lie on the plane's axes
    given = {
        "dataset": "photos", "part": "all", "start": "scratch", "source": "photos", "pretrain_epochs": 1,
        "pretrain_images": 64, "width": 8, "blocks": 1, "examples": 24, "batch_size": 12,
        "learning_rate": 0.05, "steps": 8, "decay_at": [], "stop_at_loss": 50.0, "images": 10, "seed": 0,
        "device": "cpu", "report": lambda done, text: None,
    }  # fmt: skip
    rows = experiment.spectrum(count=2, mode="eval", **given)
    plane = experiment.plane(radius=0.4, points=3, **given)
    circle = experiment.circles(radii=[0.4], **given).iloc[0]
    assert rows["taken"].iloc[0] == 2 and rows["reached"].all() and circle["reached"]
    centre = plane[(plane["alpha"] == 0) & (plane["beta"] == 0)]["loss"].item()
    assert centre == pytest.approx(rows["images_loss"].iloc[0], rel=1e-4)
    axes = plane[(plane["alpha"] == 0) ^ (plane["beta"] == 0)]["loss"]
    assert len(axes) == 4 and circle["rise"] == pytest.approx(axes.mean() - centre, rel=1e-3)
    assert (rows["residual"] <= experiment.TOLERANCE * rows["eigenvalue"].abs()).all()
    monkeypatch.setattr(experiment, "PRODUCTS", 5)  # the loss alone is looked at
    batch = experiment.spectrum(count=2, mode="train", **given)
    assert batch["images_loss"].iloc[0] != pytest.approx(centre, rel=1e-3)


def test_settled_minima_are_measured_on_all_images():
    wanted = PARAMETERS | {"targets": ["photos"], "examples": 24, "batch_size": 12, "settled_seeds": 1}
    job = next(job for job in experiment.jobs(wanted) if job.compute is experiment.settled)
    assert job.arguments["stop_at_loss"] == 0.05 and job.arguments["settle_steps"] == 4
    given = job.arguments | {"learning_rate": 0.05, "steps": 12, "stop_at_loss": 50.0}
    table = job.compute(**given, device="cpu", report=lambda done, text: None)
    spectrum, around = table[table["index"].notna()], table[table["around"].notna()]
    assert len(spectrum) == 3 and list(around["around"]) == [0.1, 0.3] and table["reached"].all()
    one = spectrum.iloc[0]
    assert one["train_loss"] < one["stopped_loss"] and one["gradient"] > 0
    assert spectrum["converged"].all() and around["rise"].notna().all()
    about = {"dataset": "cifar10", "part": "all", "start": "scratch", "seed": 0, "settle_steps": 4}
    both = pd.concat([made_up(), table.assign(**about)], ignore_index=True)
    others = {id: claim for id, claim in outcomes(both).items() if "eigenvalues" not in id}
    assert others.items() <= outcomes(made_up()).items()


def test_running_statistics_become_those_of_all_images():
    net = ResNet(3, width=8, generator=torch.Generator().manual_seed(0))
    x = torch.randn(1000, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    experiment.estimate_statistics_(net, x)
    with torch.no_grad():
        found = net(x)
        torch.testing.assert_close(found, experiment.own_statistics(net)(x), rtol=1e-2, atol=1e-2)
    assert not net.training and net.norm.momentum == 0.1
