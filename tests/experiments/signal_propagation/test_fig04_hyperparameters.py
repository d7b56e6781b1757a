"""Figures 4 and 11 to 15: networks on embedded images, and slopes and verdicts on made-up tables."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED
from alignbook.errors import AlignbookError
from alignbook.metrics.tangent_alignment import tangent_alignment
from alignbook.runs import notebooks, parameters
from alignbook.statements import judged
from alignbook.studies.signal_propagation.fig04_hyperparameters import experiment as fig04
from alignbook.studies.signal_propagation.fig04_hyperparameters import reading
from alignbook.studies.signal_propagation.fig04_hyperparameters.design import conditions

BOOK = "signal_propagation/fig04_hyperparameters"
PARAMETERS = {
    "dense_dataset": "digits", "dense_rates": [0.01, 0.02, 0.04], "dense_batches": [32, 64], "dense_depth": 4,
    "dense_width": 9, "dense_images": 100, "dense_epochs": 2, "dataset": "photos", "second_dataset": "photos",
    "vgg_rates": [0.01, 0.04], "vgg_rate": 0.01, "vgg_batches": [20, 40], "adam_rates": [0.001],
    "resnet_rates": [0.01], "resnet_rate": 0.01, "resnet_batches": [20], "resnet_adam_rates": [0.001],
    "resnet_second_rates": [0.01], "second_rates": [0.01], "second_epochs": 3, "batch_size": 20,
    "width": 8, "side": 8, "images": 24,
    "epochs": 1, "momentum": 0.9, "weight_decay": 0.0005, "alignment_images": 5, "test_images": 30,
    "dense_alignment_images": 7, "second_alignment_images": 4, "seeds": 7, "dense_seeds": 7,
    "dense_first_seed": 0,
}  # fmt: skip
VARIED = [("dense", "rate"), ("dense", "batch"), ("vgg19", "rate"), ("vgg19", "batch")]


def compute(job, **changes):
    arguments = job.arguments | changes
    return job.compute(**arguments, device=torch.device("cpu"), report=lambda done, text: None)


def made_up(peak, gap, height, *, noise=0.02, loss=0.09, layers=40):
    """Networks of the conditions of ``PARAMETERS``: functions of (log2 rate, log2 batch)."""
    rng, frames = np.random.default_rng(3), []
    for family, rate, batch in conditions(PARAMETERS):
        for seed in range(PARAMETERS["seeds"]):
            logs = np.log2(rate), np.log2(batch)
            places = np.arange(1, layers + 1)
            top = np.clip(round(2 ** (peak(*logs) + 0.1 * rng.standard_normal())), 1, layers)
            alignment = (height(*logs) + noise * rng.random()) / (1 + np.abs(places - top))
            frames.append(
                pd.DataFrame(
                    {
                        "family": family, "dataset": "photos", "learning_rate": rate, "batch_size": batch,
                        "seed": seed, "layer": places, "alignment": alignment, "passes": 5,
                        "train_loss": loss, "train_accuracy": 0.99,
                        "test_accuracy": 0.99 - (gap(*logs) + noise * rng.standard_normal()) / 100,
                        "test_loss": 1 - height(*logs) + 0.01 * rng.standard_normal(),
                    }
                )
            )  # fmt: skip
    return pd.concat(frames, ignore_index=True)


FULL = PARAMETERS | {"dense_dataset": "fashion_mnist", "dataset": "cifar10", "side": 32}


def claims(table, parameters=FULL):
    return {claim.id: claim for claim in judged(reading.STATEMENTS, table, parameters)}


def outcomes(table, parameters=FULL):
    return {id: claim.outcome for id, claim in claims(table, parameters).items()}


def said(table, parameters=FULL):
    return reading.finding(table, parameters, claims(table, parameters))


def as_claimed(sign):
    """Peak, gap and height over (log2 rate, log2 batch); with sign -1 all the other way."""
    return (
        lambda rate, batch: 3 - sign * (0.4 * (rate + 5.5) - 0.4 * (batch - 5)),
        lambda rate, batch: 10 - sign * (0.4 * (rate + 5.5) - 0.6 * (batch - 5)),
        lambda rate, batch: 0.5 + sign * (0.05 * (rate + 5.5) - 0.05 * (batch - 5)),
    )


def test_a_dense_network_ends_at_the_loss_or_after_its_epochs(monkeypatch):
    job = fig04.jobs(PARAMETERS)[0]
    table = compute(job)
    assert table["layer"].tolist() == [1, 2, 3, 4] and (table["passes"] == 2).all()
    assert table["alignment"].between(0, 1).all() and table["test_accuracy"].between(0, 1).all()
    monkeypatch.setattr(fig04, "GOAL", 50.0)
    assert (compute(job)["passes"] == 1).all()


@pytest.mark.parametrize(("family", "layers"), [("vgg19-adam", 17), ("resnet18", 21)])
def test_a_convolutional_network_is_measured_on_training_images(family, layers, monkeypatch):
    seen = {}
    matrix_alignment = fig04.matrix_alignment

    def spy(net, x, y):
        seen.update(net=net, x=x, y=y)
        return matrix_alignment(net, x, y)

    monkeypatch.setattr(fig04, "matrix_alignment", spy)
    job = next(job for job in fig04.jobs(PARAMETERS) if job.arguments["family"] == family)
    table = compute(job)
    assert len(table) == layers and len(seen["x"]) == 5
    expected = tangent_alignment(seen["net"], seen["x"], seen["y"])
    np.testing.assert_allclose(table["alignment"], expected, rtol=1e-3)


def test_slopes_are_those_of_both_logarithms_at_once():
    # Rates and batches that go together: a fit on one of them alone would be wrong.
    rows = [(0.01, 32, 0), (0.02, 64, 0), (0.04, 128, 0), (0.04, 32, 0)]
    nets = pd.DataFrame(rows, columns=["learning_rate", "batch_size", "seed"])
    nets["value"] = 2 * np.log2(nets["learning_rate"]) - 3 * np.log2(nets["batch_size"]) + 7
    assert reading.slopes(nets, "rate", "value").to_dict() == pytest.approx({0: 2})
    assert reading.slopes(nets, "batch", "value").to_dict() == pytest.approx({0: 3})  # per halving
    # Two that vary together tell nothing apart.
    assert len(reading.slopes(nets.iloc[:3], "rate", "value")) == 0
    alone = nets[nets["batch_size"] == 32]
    assert reading.slopes(alone, "rate", "value").to_dict() == pytest.approx({0: 2})
    assert len(reading.slopes(alone, "batch", "value")) == 0


def test_printed_gaps_fall_with_the_rate_and_with_smaller_batches():
    gaps = np.array([13.1, 12.3, 8.89, 5.9])
    rates = np.log2([0.0005, 0.001, 0.0032, 0.01])
    alone = np.polyfit(rates, gaps, 1)[0]
    assert reading.printed_change({}, "vgg19", "rate") == pytest.approx(-alone, abs=0.3)
    assert reading.printed_change({}, "vgg19", "batch") > 0 < reading.printed_change({}, "resnet18", "rate")
    assert reading.printed_change({}, "dense", "rate") is None
    assert claims(made_up(*as_claimed(1)))["gap-vgg19-rate"].paper == reading.printed_change(
        {}, "vgg19", "rate"
    )


def test_a_network_of_the_table():
    table = made_up(lambda *_: 3.0, lambda *_: 20, lambda *_: 0.5)
    assert reading.title("vgg19-second", FULL | {"second_dataset": "cifar100"}) == "VGG-19, CIFAR-100"
    nets = reading.networks(table)
    assert len(nets) == len(fig04.jobs(PARAMETERS)) and nets["reached"].all()
    assert nets["peak"].between(6, 11).all() and np.allclose(2 ** nets["place"], nets["peak"])
    assert np.allclose(nets["accuracy_gap"], 20, atol=0.2) and nets["height"].between(0.5, 0.53).all()
    one = nets.iloc[0]
    assert one["loss_gap"] == pytest.approx(one["test_loss"] - 0.09)


def test_the_papers_directions_hold_and_the_others_disagree():
    right, wrong = (outcomes(made_up(*as_claimed(sign))) for sign in (1, -1))
    for family, axis in VARIED:
        for id in ("moves" if family == "dense" else "late-moves", "gap", "higher"):
            found = right[f"{id}-{family}-{axis}"], wrong[f"{id}-{family}-{axis}"]
            assert found == (HOLDS, CONTRADICTED), (id, family, axis)
    for axis in ("rate", "batch"):  # the paper says both: one number with two signs
        assert (right[f"centre-dense-{axis}"], wrong[f"centre-dense-{axis}"]) == (CONTRADICTED, HOLDS)
    found = claims(made_up(*as_claimed(1)))
    opposed = {id for id, claim in found.items() if claim.opposed_by}
    halves = {f"{id}-dense-{axis}" for id in ("centre", "moves") for axis in reading.AXES}
    assert halves < opposed and {id.split("-")[0] for id in opposed - halves} == {"loss"}
    assert "error-dense" not in found
    assert {id for id in halves if found[id].post_hoc} == {id for id in halves if "centre" in id}
    assert {id for id, claim in found.items() if claim.ours} == {id for id in halves if "moves" in id}
    assert not [id for id in right if "resnet" in id and id.startswith(("late-moves", "gap", "higher"))]
    flat = outcomes(made_up(lambda *_: 3.0, lambda *_: 10, lambda *_: 0.5, noise=0.0))
    assert flat["gap-vgg19-rate"] == UNDECIDED and flat["higher-vgg19-rate"] in (ABSENT, UNDECIDED)


def test_a_higher_peak_must_be_higher_with_all_networks(monkeypatch):
    for sign, outcome in ((1, HOLDS), (-1, CONTRADICTED)):
        table = made_up(*as_claimed(sign))
        missed = table["learning_rate"] == 0.04
        table.loc[missed, "train_loss"] = 0.2  # these ended by epochs
        found = claims(table)
        assert found["higher-dense-rate"].outcome == found["higher-dense-batch"].outcome == outcome
        turned = table.assign(alignment=table["alignment"].where(~missed, 0.01 if sign > 0 else 1.0))
        other = claims(turned)["higher-dense-rate"]
        assert other.outcome == NOT_JUDGED and "missed the loss" in other.test
        assert other.measured == pytest.approx(found["higher-dense-rate"].measured)  # of the same networks
        assert claims(turned)["gap-dense-rate"].outcome == outcome  # asks nothing of the kind
        both = claims(turned) | {f"higher-dense-{axis}": other for axis in reading.AXES}
        words = "Whether it becomes higher is not judged: it depends on which networks count"
        assert words in reading.finding(turned, FULL, both)
    with monkeypatch.context() as patch:  # most peaks in the first layer, from which they move deeper
        patch.setattr(reading, "in_the_first_layer", lambda table: (20, 30))
        held = {
            f"centre-dense-{axis}": replace(both[f"centre-dense-{axis}"], outcome=HOLDS)
            for axis in reading.AXES
        }
        assert "; whether it grows depends on which runs count." in reading.finding(turned, FULL, both | held)
        said = reading.finding(turned, FULL, found | held)
        assert "it grows" not in said and "becomes higher" not in said


def test_near_ties_are_counted():
    table = made_up(*as_claimed(1))
    near, total = reading.nearly_as_high(table)
    assert (near, total) == (0, 6 * 7)  # the second layer has half of the largest
    one = (table["family"] == "dense") & (table["seed"] == 0)
    flat = table.assign(alignment=table["alignment"].where(~one, 0.5 + 1e-3 * table["layer"]))
    assert reading.nearly_as_high(flat) == (6, 42)
    assert reading.nearly_as_high(table.assign(train_loss=0.2)) == (0, 0)
    assert reading.nearly_as_high(pd.DataFrame({"unit": []})) == (0, 0)


def test_height_and_test_loss_must_go_together_with_all_networks():
    table = made_up(*as_claimed(1))  # test loss is 1 less the height
    assert outcomes(table)["loss-dense"] == HOLDS
    assert said(table).endswith("; across settings, higher peaks go with a lower test loss.")
    missed = table["learning_rate"] == 0.04
    table = table.copy()
    table.loc[missed, "train_loss"] = 0.2  # these ended by epochs
    assert outcomes(table)["loss-dense"] == HOLDS
    table = table.copy()
    table.loc[missed, "test_loss"] = 50.0
    claim = claims(table)["loss-dense"]
    assert claim.outcome == NOT_JUDGED and "missed the loss" in claim.test and "test loss" not in said(table)


def test_late_peaks_have_no_centre_to_move_to():
    late = claims(made_up(lambda rate, batch: 5 + 0.1 * (rate + 5.5), lambda *_: 10, lambda *_: 0.5))
    for id in ("centre-dense-rate", "moves-dense-rate"):  # both say the same there
        assert late[id].outcome == NOT_JUDGED and "mean position" in late[id].test


def test_networks_far_from_the_papers_accuracy_decide_nothing():
    table = made_up(*as_claimed(1))
    poor = table.assign(test_accuracy=table["test_accuracy"].where(table["family"] == "dense", 0.35))
    found = claims(poor)
    deep = {claim.outcome for id, claim in found.items() if "dense" not in id and claim.measured is not None}
    assert deep == {NOT_JUDGED} and found["centre-dense-rate"].outcome == CONTRADICTED
    assert found["late-moves-vgg19-rate"].requires[0]["measured"] == pytest.approx(48.07)
    assert said(poor).endswith("a lower test loss.") and "too small" not in said(table)
    unprinted = outcomes(table, FULL | {"dataset": "cifar100"})
    assert unprinted["gap-vgg19-rate"] == NOT_JUDGED


def test_loss_gaps_are_judged_where_they_are_printed_and_on_new_seeds():
    table = made_up(*as_claimed(1))
    found = claims(table)
    assert found["loss-gap-vgg19-rate"].outcome == HOLDS and found["loss-gap-vgg19-rate"].seeds == 4
    assert found["loss-gap-dense-rate"].outcome == NOT_JUDGED  # in none of Figures 12 to 14
    old = claims(table[table["seed"] < 3])["loss-gap-vgg19-rate"]
    assert old.outcome == NOT_JUDGED and old.measured is not None and old.post_hoc


def test_adam_against_sgd():
    table = made_up(*as_claimed(1))
    adam = table["family"] == "vgg19-adam"
    worse = table.assign(
        test_accuracy=table["test_accuracy"].where(~adam, 0.2 + 0.01 * table["seed"]),
        alignment=table["alignment"].where(~adam, table["alignment"] / (9 + table["seed"])),
    )
    assert [outcomes(worse)[id] for id in ("adam-gap-vgg19", "adam-height-vgg19")] == [HOLDS] * 2
    better = table.assign(
        test_accuracy=table["test_accuracy"].where(~adam, 0.98 + 0.001 * table["seed"]),
        alignment=table["alignment"].where(~adam, table["alignment"] * (2 + 0.1 * table["seed"])),
    )
    assert [outcomes(better)[id] for id in ("adam-gap-vgg19", "adam-height-vgg19")] == [CONTRADICTED] * 2


def test_networks_that_did_not_reach_the_loss_decide_nothing():
    table = made_up(*as_claimed(1), loss=0.2)
    assert set(outcomes(table).values()) == {NOT_RUN}
    assert said(table).startswith("No fully connected") and reading.key_numbers(table, FULL) == []
    one = made_up(*as_claimed(1))
    one.loc[one["learning_rate"] == 0.04, "train_loss"] = 0.2
    assert reading.reached(one, family="dense")["learning_rate"].max() == 0.02
    nothing = pd.DataFrame({"unit": []})
    single = {name: PARAMETERS[name][:1] for name in ("dense_rates", "dense_batches", "vgg_rates")}
    few = outcomes(nothing, PARAMETERS | single | {"vgg_batches": [20]})
    assert few["centre-dense-rate"] == NOT_RUN and "late-moves-vgg19-rate" not in few


def test_the_finding_follows_the_verdicts():
    right, wrong = (said(made_up(*as_claimed(sign))) for sign in (1, -1))
    found = claims(made_up(*as_claimed(1)))
    batch, rate = (100 * (1 - 2 ** found[f"centre-dense-{axis}"].measured) for axis in ("batch", "rate"))
    moved = f"moves {batch:.0f} % nearer the input per halving of the batch and {rate:.0f} % per doubling"
    assert moved in right and "rate, as Figure 8 says, not towards the centre, as Section 4" in right
    assert "% deeper per halving of the batch and 3" in wrong
    assert "rate, towards the centre, as Section 4 says, not the input, as Figure 8 says." in wrong
    assert "Section 4 says. It becomes higher" in right and "Figure 8 says. It becomes lower" in wrong
    halved = found | {"centre-dense-rate": replace(found["centre-dense-rate"], outcome=UNDECIDED)}
    mixed = reading.finding(made_up(*as_claimed(1)), FULL, halved)
    assert "as Section 4 says; whether higher rates move it is undecided. " in mixed
    flat = said(made_up(lambda *_: 3.0, lambda *_: 10, lambda *_: 0.5))
    assert "as Section" not in flat
    numbers = reading.key_numbers(made_up(*as_claimed(1)), FULL)
    assert numbers[0].here.startswith(f"{-batch:+.0f} (") and numbers[1].here.startswith(f"{-rate:+.0f} (")
    assert numbers[2].paper.startswith("-1")


def test_a_finding_is_short_under_every_verdict():
    table = made_up(*as_claimed(-1))
    poor = table.assign(test_accuracy=table["test_accuracy"].where(table["family"] == "dense", 0.35))
    known = claims(poor)
    every = (HOLDS, CONTRADICTED, ABSENT, UNDECIDED, NOT_JUDGED)
    ids = [f"{id}-dense-{axis}" for id in ("centre", "higher") for axis in reading.AXES]
    for outcomes in itertools.product(every, repeat=4):
        turned = {id: replace(known[id], outcome=outcome) for id, outcome in zip(ids, outcomes, strict=True)}
        text = reading.finding(poor, FULL, known | turned)
        assert len(text) <= 300 and text.endswith("."), text


def test_jobs_and_parameters():
    made = fig04.jobs(PARAMETERS)
    assert len({job.name for job in made}) == len(made) == 14 * 7
    assert json.loads(json.dumps(made[-1].arguments)) == made[-1].arguments
    assert {job.arguments["alignment_images"] for job in made if "second" in job.name} == {4}
    assert {job.arguments["alignment_images"] for job in made if "dense" in job.name} == {7}
    epochs = {job.arguments["family"]: job.arguments["epochs"] for job in made}
    assert epochs["vgg19-second"] == 3 and epochs["resnet18-second"] == epochs["vgg19"] == 1
    book = notebooks.find(BOOK)
    paper = conditions(parameters.resolve(book, "paper"))
    printed = reading.PRINTED[["family", "learning_rate", "batch_size"]].itertuples(index=False, name=None)
    assert set(printed) <= set(paper)  # everything that is printed is computed
    for bad in ({"side": 5}, {"adam_rates": [0.0]}, {"dense_batches": []}):
        with pytest.raises(AlignbookError, match=next(iter(bad))):
            parameters.resolve(book, "quick", bad)


def test_peaks_that_do_not_move_have_a_slope_of_nought():
    rows = [(rate, batch, 0) for rate in (0.003, 0.01, 0.03) for batch in (32, 128)]
    nets = pd.DataFrame(rows, columns=["learning_rate", "batch_size", "seed"])
    nets = nets.assign(place=np.log2(15))
    (slope,) = reading.slopes(nets, "rate", "place")
    assert slope == 0 and not np.signbit(slope)


def test_in_which_third_of_the_network_the_peak_lies():
    table = made_up(lambda *_: 3.0, lambda *_: 10, lambda *_: 0.5)  # about the eighth of 40 layers
    found = claims(table)
    assert found["where-dense"].outcome == HOLDS and found["where-dense"].seeds == 4  # seeds, not networks
    assert found["where-vgg19"].outcome == CONTRADICTED
    assert found["where-resnet18"].measured < -0.4  # one network a seed here, all with the same peak
    small = outcomes(table, FULL | {"side": 16})  # the last maps of VGG-19 are single pixels
    assert small["where-vgg19"] == small["where-resnet18"] == NOT_JUDGED and small["where-dense"] == HOLDS
    table = made_up(lambda *_: np.log2(20.5), lambda *_: 10, lambda *_: 0.5)
    found = outcomes(table)
    assert found["where-dense"] == CONTRADICTED and found["where-vgg19"] == HOLDS
    nets = reading.networks(table)
    assert (nets["layers"] == 40).all() and np.allclose(nets["position"], (nets["peak"] - 1) / 39)


def test_ranks_are_correlated_within_a_seed():
    nets = pd.DataFrame({"seed": [0] * 4 + [1] * 4, "peak": [1, 1, 2, 9, 3, 4, 5, 6]})
    nets["gap"] = [5, 5, 6, 70, 4, 3, 2, -90]  # a seed's own ranks, not those of all networks
    assert reading.ranked(nets, "peak", "gap").to_dict() == pytest.approx({0: 1, 1: -1})


def test_heights_and_gaps_are_correlated_within_a_seed():
    table = made_up(*as_claimed(1))
    nets = reading.networks(table)
    seed = nets[(nets["family"] == "dense") & (nets["seed"] == 0)]
    plain = np.corrcoef(seed["height"], seed["accuracy_gap"])[0, 1]
    found = reading.together("height", "accuracy_gap")(table, FULL, "dense")
    assert found[0] == pytest.approx(plain)
    assert reading.together("height", "accuracy_gap")(table, FULL, "vgg19-adam").empty  # one network a seed
