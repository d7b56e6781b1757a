"""Figure 2 of Maennel et al. 2020."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN
from alignbook.runs import notebooks, parameters
from alignbook.seeding import numpy_stream
from alignbook.studies.random_labels import filter_training
from alignbook.studies.random_labels.fig02_misalignment import experiment, reading, trials
from alignbook.studies.random_labels.fig04_transfer_function import experiment as fig04
from alignbook.studies.random_labels.random_bases import random_bases
from alignbook.training.nets import SimpleCNN, he_normal_
from tests import judging

ON_CPU = {"device": torch.device("cpu"), "report": lambda done, text: None}
SMALL = {
    "dataset": "photos",
    "labels": "random",
    "images": 40,
    "epochs": 2,
    "record": [0, 2],
    "evaluate": 30,
    "batch_size": 16,
    "learning_rate": 0.01,
    "init_scale": 0.5,
    "filters": 32,
    "hidden": 8,
    "precision": "float32",
    "bases": 3,
    "flips": 4,
    "seed": 3,
}


def run(**other):
    return filter_training.compute(**SMALL | other, **ON_CPU)


def test_compute_records_scores_and_transfer_function_of_every_epoch():
    table = run()
    scores = table[table["kind"] == "score"]
    assert scores["epoch"].tolist() == [0, 2]
    assert scores["step"].tolist() == [0, 4]  # 40 images: two whole batches of 16 in each epoch
    assert scores["displacement"].iloc[0] == 0 < scores["displacement"].iloc[1]
    assert (scores["basis_min"] <= scores["basis_mean"]).all()
    assert (scores["basis_mean"] <= scores["basis_max"]).all()
    curve = table[(table["kind"] == "transfer") & (table["epoch"] == 2)]
    assert curve["index"].tolist() == list(range(27))
    assert (np.diff(curve["sigma"]) > 0).all()


def test_same_seed_same_bits():
    pd.testing.assert_frame_equal(run(), run(), check_exact=True)


def test_labels_and_seed_change_the_outcome_but_not_the_start():
    random, real = run(), run(labels="real")
    first = ["misalignment", "basis_mean"]
    assert random[first].iloc[0].equals(real[first].iloc[0])
    assert random["displacement"].iloc[28] != real["displacement"].iloc[28]
    assert run(seed=4)["misalignment"].iloc[0] != random["misalignment"].iloc[0]


def test_aligned_filters_score_zero_with_the_data_only():
    rng = numpy_stream(0, "test")
    (vectors,) = random_bases(5, 1, rng)
    cov_x = vectors @ np.diag([1.0, 2, 3, 4, 5]) @ vectors.T
    tau = np.array([3.0, 1, 2, 5, 4])
    weights = np.concatenate([(tau * vectors).T, -(tau * vectors).T])  # rows ± τᵢ vᵢ, mean zero
    score, curve = filter_training.measure(cov_x, weights, random_bases(5, 4, rng), 3, rng)
    assert score["misalignment"] == pytest.approx(0, abs=1e-9)
    assert score["uncentred"] == pytest.approx(0, abs=1e-9)
    assert score["basis_min"] > 0.01
    assert score["flip_high"] == pytest.approx(0, abs=1e-9)  # one component each: no sign can matter
    # The sample covariance of the ten rows is 2 τᵢ² / 9 along vᵢ.
    assert [p["tau"] for p in curve] == pytest.approx(tau * math.sqrt(2 / 9))
    assert [p["sigma"] for p in curve] == pytest.approx(np.sqrt([1, 2, 3, 4, 5]))


def test_random_bases_are_orthonormal_and_differ():
    bases = random_bases(6, 3, numpy_stream(1, "test"))
    assert np.allclose(bases.transpose(0, 2, 1) @ bases, np.eye(6))
    assert not np.allclose(bases[0], bases[1])


def test_floor_is_the_same_for_all_spectra_and_has_the_exact_mean():
    settings = {"filters": 60, "dimension": 6, "draws": 300, "seed": 0}
    table = experiment.compute_floor(**settings, device=torch.device("cpu"), report=lambda done, text: None)
    wide = table.pivot(index="draw", columns="spectrum", values="misalignment")
    assert np.ptp(wide.to_numpy(), axis=1).max() < 1e-9
    values = wide["flat"]
    error = values.std() / math.sqrt(len(values))
    assert abs(values.mean() - reading.expected_floor(60, 6)) < 4 * error


def test_evaluation_against_one_image_at_a_time():
    generator = torch.Generator().manual_seed(0)
    net = he_normal_(SimpleCNN((3, 6, 6), [4], 5, 10), 1.0, generator)
    with torch.no_grad():
        net.dense.bias[2] = -1e3  # this unit is dead
    x, y = torch.randn(7, 3, 6, 6, generator=generator), torch.arange(7)
    found = filter_training.evaluation(net, x, y, "float32", batch_size=3)
    logits = torch.cat([net(x[i : i + 1]) for i in range(7)]).detach()
    loss = torch.nn.functional.cross_entropy(logits.double(), y).item()
    hidden = net.dense(net.features(x, 1).permute(0, 2, 3, 1).flatten(1))
    assert found["loss"] == pytest.approx(loss, rel=1e-5)
    assert found["accuracy"] == pytest.approx((logits.argmax(1) == y).double().mean().item())
    assert found["dead_units"] == int((hidden <= 0).all(0).sum()) >= 1
    assert not net.dense._forward_hooks


ASKED = {
    "filters": 256, "labels": ["real", "random"], "init_scale": 0.1, "epochs": 2, "precision": "float32",
    "precision_epochs": 1,
}  # fmt: skip


def sweep_table(outcomes):
    """Score rows of one real and one random trial run for each {scale: (loss, displacement)}."""
    rows = [
        {
            "unit": f"any-{labels}-{scale:g}", "kind": "score", "seed": 1000, "step": step, "epochs": 2,
            "precision": "float32", "init_scale": scale, "loss": loss if step else 0.0,
            "displacement": moved, "dead_units": 0,
        }
        for scale, (loss, moved) in outcomes.items()
        for labels in ("real", "random")
        for step in (0, 10)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_rule_takes_the_scale_that_learns_and_moves_most():
    table = sweep_table({0.01: (2.30, 0.9), 0.1: (2.2, 0.3), 0.5: (1.0, 0.1), 1.0: (2.2526, 0.2)})
    found = trials.learnable(table, ASKED).set_index("init_scale")
    assert found["learns"].tolist() == [False, True, True, False]  # 2.2526 is a little more than ln 10 - 0.05
    assert found.index[found["chosen"]].tolist() == [0.1]
    # A scale one of whose runs is missing (diverged) is out.
    found = trials.learnable(table[table["unit"] != "any-real-0.1"], ASKED)
    assert found.set_index("init_scale")["chosen"].to_dict()[0.5]
    # Runs of the figure and shorter ones are no part of the sweep.
    assert trials.learnable(table.assign(seed=0), ASKED).empty
    assert trials.learnable(table.assign(epochs=1), ASKED).empty


def figure_table(labels, own, basis, seeds=6, moved=0.5, learned=0.95):
    """Score rows; ``own`` is the misalignment after the start and ``moved`` the displacement at the end."""
    rows = [
        {
            "unit": "any", "kind": "score", "labels": labels, "seed": seed, "epoch": epoch,
            "misalignment": (own if epoch else 9.0) + 0.01 * seed, "basis_mean": basis,
            "displacement": moved * epoch / 2, "accuracy": learned + 0.01 * seed,
        }
        for seed in range(seeds)
        for epoch in (0, 1, 2)
    ]  # fmt: skip
    return pd.DataFrame(rows)


claims, outcomes, _ = judging.of(reading, ASKED)


def test_claims_follow_the_worst_epoch_after_the_start():
    table = pd.concat([figure_table("real", 1.6, 8.0), figure_table("random", 7.0, 3.5)])
    assert outcomes(table) == {
        "ends-below-random-basis-random": CONTRADICTED,
        "ends-below-random-basis-real": HOLDS,
        "below-random-basis-random": CONTRADICTED,
        "below-random-basis-real": HOLDS,
        "very-small-random": CONTRADICTED,
        "very-small-real": HOLDS,
    }
    table = pd.concat([figure_table("real", 1.6, 2.0), figure_table("random", 1.6, 8.0)])
    found = outcomes(table)
    unlearned = outcomes(figure_table("random", 1.6, 8.0, learned=0.2))
    assert (
        unlearned["very-small-random"] == NOT_JUDGED and unlearned["ends-below-random-basis-random"] == HOLDS
    )
    # Random bases pass, too: nothing could have failed.
    assert found["very-small-real"] == NOT_JUDGED and found["very-small-random"] == HOLDS
    one_bad_epoch = figure_table("real", 1.6, 8.0)
    one_bad_epoch.loc[one_bad_epoch["epoch"] == 1, "misalignment"] += 7
    assert list(outcomes(one_bad_epoch).values()) == [
        NOT_RUN,
        HOLDS,
        NOT_RUN,
        CONTRADICTED,
        NOT_RUN,
        CONTRADICTED,
    ]


def test_every_recorded_epoch_is_judged_on_new_seeds_alone():
    seen = outcomes(figure_table("random", 1.6, 8.0, seeds=3))
    assert seen["below-random-basis-random"] == NOT_JUDGED
    assert seen["ends-below-random-basis-random"] == HOLDS


def test_random_labels_come_first_and_make_the_headline():
    found = claims(pd.concat([figure_table("real", 1.6, 8.0), figure_table("random", 1.7, 8.0)]))
    assert [id for id, claim in found.items() if claim.headline] == ["ends-below-random-basis-random"]


def test_every_recorded_epoch_starts_where_the_filters_have_moved():
    # At the first epoch the filters have not moved and random bases happen to fit better.
    table = figure_table("random", 1.6, 8.0, moved=0.15)
    table.loc[table["epoch"] == 1, "basis_mean"] = 1.0
    assert (table["displacement"] < 0.1)[table["epoch"] == 1].all()
    assert outcomes(table)["below-random-basis-random"] == HOLDS
    late = table.assign(displacement=2 * table["displacement"])
    assert outcomes(late)["below-random-basis-random"] == CONTRADICTED
    never = table.assign(displacement=0.5 * table["displacement"])
    assert outcomes(never)["below-random-basis-random"] == NOT_JUDGED


def test_the_finding_and_the_key_numbers_come_from_the_ends_of_training():
    few = figure_table("random", 7.0, 3.5, learned=0.2)
    table = pd.concat([figure_table("real", 1.6, 8.0), few])
    said = reading.finding(table, ASKED, claims(table))
    assert "random labels end better aligned with random bases" in said
    assert "ends at 7.0, with the bases at 3.5; with real labels it holds. The networks have learned" in said
    assert said.endswith("only 22 % of their random labels (guessing: 10 %).")
    assert len(said) <= 300
    ratio, other, floor = reading.key_numbers(table, ASKED)
    assert ratio.here.startswith("0.498") and other.here.startswith("4.92") and floor.here > 1
    table = pd.concat([figure_table("real", 4.6, 8.0), figure_table("random", 1.6, 8.0)])
    said = reading.finding(table, ASKED, claims(table))
    assert "end better aligned with the data" in said
    assert len(said) <= 300


def test_where_every_run_has_diverged_nothing_is_judged():
    floor = pd.DataFrame({"unit": ["floor"], "kind": ["floor"], "misalignment": [1.5]})
    for table in (floor, pd.DataFrame({"unit": []})):
        assert set(outcomes(table).values()) == {NOT_RUN}
        assert trials.learnable(table, ASKED).empty and trials.precisions(table, ASKED).empty


@pytest.mark.parametrize("profile", parameters.PROFILES)
def test_figure_4_shares_the_runs(profile):
    values = {
        name: parameters.resolve(notebooks.find(f"random_labels/{name}"), profile)
        for name in ("fig02_misalignment", "fig04_transfer_function")
    }
    own = {job.name: job for job in experiment.jobs(values["fig02_misalignment"])}
    asked = fig04.jobs(values["fig04_transfer_function"])
    theirs = [job for job in asked if job.compute is filter_training.compute]
    others = len(values["fig04_transfer_function"]["other_scales"])
    assert len(theirs) == 2 * (values["fig02_misalignment"]["seeds"] + others)
    assert all(own.get(job.name, job) == job for job in theirs)
    assert all(job.name in own for job in theirs if not job.name.startswith("sweep-"))
    assert values["fig02_misalignment"]["bases"] >= 20


def test_precisions_are_compared_seed_by_seed():
    def row(precision, seed, step, loss):
        rest = dict.fromkeys(("misalignment", "basis_mean", "displacement"), 1.0)
        job = {"unit": "any", "kind": "score", "epochs": 1, "precision": precision}
        return job | {"seed": seed, "step": step, "loss": loss} | rest

    def compared(rows):
        return trials.precisions(pd.DataFrame(rows), ASKED)

    rows = [row("float32", 1000, 40, 2.0), row("float32", 1001, 40, 1.0), row("float32", 1001, 0, 9.0)]
    rows += [row("bfloat16", 1000, 40, 2.5), row("bfloat16", 1001, 40, 1.5)]
    found = compared(rows)
    assert found.loc["loss", "float32"] == pytest.approx((1.5, math.sqrt(0.5)))  # the end of each run
    assert found.loc["loss", "difference"] == pytest.approx((0.5, 0))
    assert found.loc["displacement", "difference"] == pytest.approx((0, 0))
    assert compared(rows[:3]).empty
    # One run diverged: the other seed is left.
    assert compared([*rows[:3], rows[3]]).loc["loss", "difference"][0] == 0.5


def test_both_precisions_run_the_same_seeds():
    values = parameters.resolve(notebooks.find("fig02_misalignment"), "quick", {})
    jobs = {job.name: job.arguments for job in experiment.jobs(values)}
    pairs = [(jobs[f"float32-real-seed{s}"], jobs[f"bfloat16-real-seed{s}"]) for s in range(1000, 1003)]
    for wide, narrow in pairs:
        assert {key for key in wide if wide[key] != narrow[key]} == {"precision"}
