"""Figure 11: descents beside their loops, and claims that come out either way."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED
from alignbook.statements import judged
from alignbook.studies.representation_alignment.constant_feature import with_constant
from alignbook.studies.representation_alignment.fig11_peaks_transfer import design, reading
from alignbook.studies.representation_alignment.fig11_peaks_transfer import experiment as fig11
from tests import judging

PARAMETERS = {
    "points": 300,
    "width": 10,
    "batch_size": 32,
    "step_size": 0.001,
    "window": 2,
    "tolerance": 0.01,
    "max_epochs": 4,
    "few": 30,
    "test_points": 50,
    "linear_step_sizes": [0.1, 1.0],
    "iterations": 200,
    "fast_phase": 20,
    "seeds": 3,
}


def silent(done, text):
    pass


def compute(seed):
    job = fig11.jobs(PARAMETERS)[seed]
    return job.compute(**job.arguments, device=torch.device("cpu"), report=silent).assign(seed=seed)


@pytest.fixture(scope="module")
def table():
    return pd.concat([compute(seed) for seed in range(3)], ignore_index=True)


def test_the_transferred_representation_is_the_trained_one(table):
    errors = table[(table["kind"] == "step") & (table["step"] == 200)]
    errors = errors.pivot_table(
        index=["seed", "task", "linear_step_size"], columns="representation", values="train_error"
    )
    for one, other in (("transfer", "init"), ("transfer", "original"), ("init", "original")):
        assert (errors[one] != errors[other]).all()


def random_problem(n, d, seed=0):
    generator = np.random.default_rng(seed)
    phi = generator.normal(size=(n, d))
    return phi / np.linalg.norm(phi, axis=1, keepdims=True), generator.normal(size=n)


@pytest.mark.parametrize("n, d, repeated", [(20, 6, False), (6, 20, False), (20, 6, True)])
@pytest.mark.parametrize("step_size", [0.01, 0.5, 1.0])
def test_descent_against_its_own_loop(n, d, repeated, step_size):
    phi, y = random_problem(n, d)
    if repeated:
        phi[:, 1] = phi[:, 0]  # a direction of singular value zero
    path = fig11.descend(phi, y, step_size, 50)
    w = np.zeros(d)
    for step in range(51):
        np.testing.assert_allclose(path["basis"] @ path["coordinates"][step], w, atol=1e-12)
        assert path["norm"][step] == pytest.approx(np.linalg.norm(w), abs=1e-12)
        assert path["train_error"][step] == pytest.approx(np.mean((phi @ w - y) ** 2))
        w = w - step_size / n * phi.T @ (phi @ w - y)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7])
def test_descent_of_a_direction_that_is_gone_after_one_step(n):
    y = np.ones(n)
    path = fig11.descend(np.ones((n, 1)), y, 1.0, 3)  # η σ²/n = 1, for n = 2 and 5 above it by rounding
    assert path["train_error"].tolist() == pytest.approx([1, 0, 0, 0], abs=1e-12)
    assert path["norm"].tolist() == pytest.approx([0, 1, 1, 1])


def test_learning_curve_holds_the_steps_that_the_claims_ask_for():
    for iterations, fast in ((10000, 100), (7, 3), (5, 100)):
        steps = fig11.stored_steps(iterations, fast)
        assert {0, min(fast, iterations), iterations} <= set(steps.tolist())
        assert (np.diff(steps) > 0).all()


def test_norms_are_those_of_the_first_step_that_reduces_enough():
    phi, y = random_problem(30, 5)
    path = fig11.descend(phi, y, 0.5, 300)
    frame = fig11.norms_at_reductions(path)
    start = path["train_error"][0]
    for row in frame.itertuples():
        step = next(t for t, e in enumerate(path["train_error"]) if 100 * (1 - e / start) >= row.reduction)
        assert (row.step, row.weight_norm) == (step, path["norm"][step])
    assert 0 < len(frame) < len(design.REDUCTIONS)  # five features do not fit thirty random labels


def test_constant_feature_and_length_one():
    features = torch.tensor([[3.0, 0.0], [0.0, 0.0]])
    expected = torch.tensor([[3.0, 0.0, 1.0], [0.0, 0.0, 1.0]]) / torch.tensor([[10.0], [1.0]]).sqrt()
    torch.testing.assert_close(with_constant(features), expected)


def test_table_is_complete_and_repeats_bit_for_bit(table):
    steps = table[table["kind"] == "step"]
    assert (steps.groupby(["seed", "task", "representation", "linear_step_size"])["step"].max() == 200).all()
    assert steps.groupby(["seed", "task", "representation", "linear_step_size"]).ngroups == 3 * 2 * 3 * 2
    pd.testing.assert_frame_equal(compute(2), table[table["seed"] == 2].reset_index(drop=True))


def test_at_zero_weights_the_errors_are_the_labels_mean_squares(table):
    start = table[(table["kind"] == "step") & (table["step"] == 0)]
    assert (start["weight_norm"] == 0).all()
    assert start.groupby(["seed", "task"])["test_error"].nunique().eq(1).all()
    assert start["test_error"].between(0.04, 0.13).all()  # about 1/12


def test_the_best_step_size_is_chosen_by_training_error(table):
    assert set(reading.at_best(table)["linear_step_size"]) == {1.0}
    worse = table.copy()
    worse.loc[worse["linear_step_size"] == 1.0, "train_error"] = 9.0
    worse.loc[worse["linear_step_size"] == 0.1, "test_error"] = 9.0
    assert set(reading.at_best(worse)["linear_step_size"]) == {0.1}


def test_gaps_are_compared_where_equally_much_of_the_loss_is_gone():
    """A representation that learns half as fast has the same gap at equal loss, half of it at equal step."""
    rows = [
        {"kind": "step", "task": "related", "seed": 0, "representation": name, "step": step}
        | {"train_error": 1 - speed * step / 100, "gap": speed * step / 50}
        for name, speed in (("original", 2), ("init", 1), ("transfer", 2))
        for step in (0, 10, 15, 20, 30)
    ]
    steps = pd.DataFrame(rows)
    found = reading.at_reductions(steps, [30, 40]).pivot(
        index="reduction", columns="representation", values="gap"
    )
    assert found.loc[30].tolist() == pytest.approx([0.6, 0.6, 0.6])
    assert np.isnan(found.loc[40, "init"]) and found.loc[40, "transfer"] == pytest.approx(0.8)


RELATED = [f"related-{name}" for name in ("test-fast", "train-fast", "gap", "norm")]
INPUTS = [f"{name}-inputs" for name in RELATED]
UNRELATED = [f"unrelated-{name}" for name in ("train-fast", "test-fast", "train-last", "test-last", "norm")]
MIRRORED = [f"inputs-above-init-{task}-{when}" for task in design.TASKS for when in ("fast", "last")]
SHARES = ["related-fast-share", "fast-share-contrast"]
LATER = [*RELATED, *INPUTS, *MIRRORED, "fast-share-contrast"]


def found(table):
    """The claims on runs with seeds that nobody had seen."""
    return claims(table.assign(seed=table["seed"] + reading.SEEN))


def claims(table):
    return {claim.id: claim for claim in judged(reading.STATEMENTS, table, PARAMETERS)}


def said(rows, made):
    return reading.finding(rows, PARAMETERS, made)


@pytest.mark.parametrize("value, related, unrelated", [(0, HOLDS, CONTRADICTED), (9, CONTRADICTED, HOLDS)])
def test_claims_follow_the_numbers(table, value, related, unrelated):
    rows = table.copy()
    measured = ["train_error", "test_error", "weight_norm"]
    later = rows["step"] > 0
    rows.loc[later, measured] = 1.0
    transferred = later & (rows["representation"] == "transfer")
    for column in measured:
        rows.loc[transferred, column] = value + 0.001 * rows["seed"]
    rows.loc[later, "test_error"] *= 2  # so that there is a gap
    rows.loc[~later, "train_error"] = 100.0  # so that all of them have reduced the loss enough
    made = found(rows)
    assert set(made) == {*RELATED, *UNRELATED, *INPUTS, *SHARES, *MIRRORED}
    assert {made[id].outcome for id in (*RELATED, *INPUTS)} == {related}
    assert {made[id].outcome for id in UNRELATED} == {unrelated}
    ours = {"related-fast-share", "related-train-fast-inputs"}
    assert {id for id, claim in made.items() if claim.ours} == ours | set(MIRRORED)
    assert len({made[id].group for id in MIRRORED}) == 1
    assert [id for id, claim in made.items() if claim.headline] == ["related-test-fast"]


def test_what_was_chosen_after_the_runs_is_judged_on_other_runs_alone(table):
    made = claims(table)  # seeds 0 to 2, which were seen
    assert {id for id, claim in made.items() if claim.outcome == NOT_JUDGED} == set(LATER)
    assert {id for id, claim in made.items() if claim.post_hoc} == set(LATER)
    assert said(table, made).startswith("We do not judge whether features learned on one task help")
    both = pd.concat([table, table.assign(seed=table["seed"] + reading.SEEN)])
    assert claims(both)["related-test-fast"] == found(table)["related-test-fast"]
    unjudged = [claim for claim in found(table).values() if claim.outcome == NOT_JUDGED]
    assert {claim.test.partition(";")[0] for claim in unjudged} <= {reading.CHOICE}  # see below


def test_on_the_related_task_the_paper_compares_with_initial_features(table):
    rows = table.copy()
    later, errors = rows["step"] > 0, {"init": 3.0, "transfer": 2.0, "original": 1.0}
    for name, error in errors.items():
        mine = later & (rows["representation"] == name)
        rows.loc[mine, "test_error"] = error + 0.001 * rows["seed"] * error
    made = found(rows)
    assert made["related-test-fast"].outcome == HOLDS and not made["related-test-fast"].ours
    other = made["related-test-fast-inputs"]
    assert other.outcome == CONTRADICTED and not other.ours
    text = said(rows, made)
    assert text.startswith("Features learned on one task help on a related task (early test error 33 % lower")
    assert "(33 % lower after the last step)" in text and len(text) <= 300
    numbers = reading.key_numbers(rows, PARAMETERS)
    assert [one.here for one in numbers[:2]] == ["0.67", "0.67"] and "after 200 steps" in numbers[1].what
    assert numbers[2].here == f"{100 * reading.share_contrast(rows, PARAMETERS).mean():.0f}"


def test_claims_on_shares_and_on_what_mirrors_alignment(table):
    rows, later = table.copy(), table["step"] > 0
    rows.loc[later, "test_error"] = 1.0 + 0.001 * rows["seed"]
    rows.loc[later & (rows["representation"] == "init"), "test_error"] = 2.0
    rows.loc[rows["task"] == "related", "train_error"] *= 0.3 + 0.01 * rows["seed"]
    rows.loc[rows["step"] == 0, "train_error"] = 1.0
    made = found(rows)
    assert made["fast-share-contrast"].outcome == HOLDS
    assert {made[id].outcome for id in MIRRORED} == {HOLDS}
    assert made["inputs-above-init-related-last"].measured == pytest.approx(0.999)
    last = rows["step"] == rows["step"].max()
    rows.loc[last & (rows["representation"] == "original"), "test_error"] = 3.0 + 0.001 * rows["seed"]
    assert found(rows)["inputs-above-init-related-last"].outcome == CONTRADICTED
    related = last & (rows["representation"] == "original") & (rows["task"] == "related")
    rows.loc[related, "test_error"] = 1.0 + 0.001 * rows["seed"]
    late = [found(rows)[f"inputs-above-init-{task}-last"].outcome for task in design.TASKS]
    assert late == [HOLDS, CONTRADICTED]


def chosen_otherwise(table, lead):
    """The inputs are ahead by 0.5 at the step size of lowest training error, by ``lead`` at that of lowest
    test error, with a little spread over the seeds."""
    rows = table.copy()
    fine, inputs = rows["linear_step_size"] == 0.1, rows["representation"] == "original"
    rows["train_error"] = 1.0 + fine
    rows.loc[rows["step"] == 0, "train_error"] = 3.0
    rows["test_error"] = 2.0 - fine + 0.01 * rows["seed"] * ~inputs
    rows.loc[inputs, "test_error"] -= np.where(fine, lead, 0.5)[inputs]
    return rows


def test_inputs_are_judged_only_where_either_choice_of_the_step_size_says_the_same(table):
    rows, same = chosen_otherwise(table, -0.5), chosen_otherwise(table, 0.4)
    for chosen_by, lead in (("train_error", 0.5), ("test_error", -0.5)):
        for task, when in product(design.TASKS, ("fast", "last")):
            ahead = reading.inputs_lower(rows, PARAMETERS, task, when, chosen_by)
            assert ahead.tolist() == pytest.approx([lead, lead + 0.01, lead + 0.02])
    ending = "depends on how the step size is chosen."
    assert {found(rows)[id].outcome for id in MIRRORED} == {NOT_JUDGED}
    assert {reading.CHOICE in found(rows)[id].test for id in MIRRORED} == {True}
    assert said(rows, found(rows)).endswith(ending)
    assert {found(same)[id].outcome for id in MIRRORED} == {HOLDS}
    assert ending not in said(same, found(same))


def test_verdicts_that_the_other_choice_of_the_step_size_would_turn_are_listed(table):
    """At the step size of lowest test error, initial features are as good as transferred ones."""
    rows = chosen_otherwise(table, 0.5).assign(seed=table["seed"] + reading.SEEN)
    fine, init = rows["linear_step_size"] == 0.1, rows["representation"] == "init"
    rows.loc[init, "test_error"] += np.where(fine, 0.01 * (table["seed"] - 1), 0.3)[init]
    rows["test_error"] += 0.001 * table["seed"] * (rows["representation"] == "transfer")
    turned = reading.by_choice(rows, PARAMETERS)
    text = claims(rows)["related-test-fast"].statement
    assert turned.loc[text].tolist() == [HOLDS, UNDECIDED]
    assert reading.by_choice(rows.assign(seed=table["seed"]), PARAMETERS).index.tolist().count(text) == 0


def test_every_statement_is_judged_only_where_either_choice_says_the_same(table):
    """At the step size of lowest test error the fast phase does nothing: no error falls, none is ahead."""
    rows, fine = table.copy(), table["linear_step_size"] == 0.1
    transferred, unrelated = rows["representation"] == "transfer", rows["task"] == "unrelated"
    last = rows["step"] == rows["step"].max()
    rows["train_error"] = np.where(rows["step"] == 0, 3.0, np.where(last, 0.5, np.where(fine, 2.9, 1.0)))
    rows["train_error"] += 0.1 * (fine & last) + 0.01 * rows["seed"]
    rows["test_error"] = 2.0 - fine + 0.5 * transferred * unrelated * (last | ~fine)
    rows["test_error"] += (0.01 + 0.001 * transferred) * rows["seed"]
    made = found(rows)
    turned = {"related-fast-share", "unrelated-test-fast"}
    assert {id for id, claim in made.items() if claim.outcome == NOT_JUDGED} == turned
    assert {made[id].test.partition(";")[0] for id in turned} == {reading.CHOICE}
    assert made["related-fast-share"].measured > 0.5 and made["unrelated-test-last"].outcome == HOLDS
    text = said(rows, made)
    assert "on an unrelated task they hurt (25 % higher after the last step)." in text
    assert text.endswith(" Whether they hurt early on depends on how the step size is chosen.")


def test_the_finding_is_short_under_every_outcome(table, monkeypatch):
    made = found(table)
    judging.remember(reading, table, monkeypatch)
    verdicts = (HOLDS, CONTRADICTED, ABSENT, UNDECIDED, NOT_JUDGED)
    for related, last, early, inputs in product(verdicts, repeat=4):
        turned = {"related-test-fast": related, "unrelated-test-last": last, "unrelated-test-fast": early}
        turned = judging.turned(made, turned | dict.fromkeys(MIRRORED, inputs))  # all seeds are new
        turned |= {id: replace(turned[id], requires=turned[id].requires[1:]) for id in MIRRORED}
        text = judging.finding(reading, table, PARAMETERS, turned)
        depends = text.endswith("depends on how the step size is chosen.")
        assert depends == (NOT_JUDGED in (early, inputs)), text
        assert ("raw inputs" in text) == (inputs == NOT_JUDGED), text


def test_the_lead_over_the_inputs_is_shown_by_step(table):
    """A lead of 0.01 at the first steps, none at the end of the fast phase, one of −0.02 at the last."""
    rows = table.copy()
    related = rows["kind"].eq("step") & rows["task"].eq("related")
    lead = np.select([rows["step"] <= 10, rows["step"] <= 20], [0.01, 0.0], -0.02) * (1 + 0.01 * rows["seed"])
    for name, factor in (("original", 1.0), ("transfer", 0.0)):
        mine = related & rows["representation"].eq(name)
        rows.loc[mine, "train_error"] = 0.05 + factor * lead[mine] + 0.0001 * factor * rows.loc[mine, "seed"]
    shown = reading.by_step(rows, PARAMETERS)
    first, *_, last, mean = shown.index
    assert (first, last, mean) == ("after 1 step", "after 200 steps", "mean over the logarithm of the steps")
    assert shown.loc["after 20 steps", "by the rule"] == ABSENT
    assert shown.loc[first, "by the rule"] == HOLDS and shown.loc[last, "by the rule"] == CONTRADICTED
    assert shown.loc[first, "lead"].startswith("10.2")
    wide = reading.inputs_behind(rows)
    x = np.log(wide.columns[wide.columns > 0].to_numpy(dtype=float))
    plain = np.trapezoid(wide[wide.columns[wide.columns > 0]], x).mean() / (x[-1] - x[0])
    assert shown.loc[mean, "lead"].startswith(f"{1000 * plain:.1f}")


def test_a_run_that_does_not_get_there_is_compared_at_what_all_three_reach(table):
    short = (table["seed"] == 0) & (table["representation"] == "transfer") & (table["reduction"] > 10)
    assert found(table[~short])["related-norm"].seeds == 3


def test_norms_cannot_be_compared_when_one_representation_gets_nowhere(table):
    stuck = (table["kind"] == "reduction") & (table["representation"] == "init")
    outcomes = {id: claim.outcome for id, claim in found(table[~stuck]).items()}
    lost = {"related-norm", "related-norm-inputs", "unrelated-norm"}
    assert {k for k, v in outcomes.items() if v == NOT_RUN} == lost


def test_claims_on_little_or_nothing(table):
    assert {claim.outcome for claim in found(table[table["seed"] == 0]).values()} == {UNDECIDED, NOT_JUDGED}
