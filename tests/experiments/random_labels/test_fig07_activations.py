"""Figure 7 of Maennel et al. 2020: which neurons are active."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN
from alignbook.errors import AlignbookError
from alignbook.runs import notebooks, parameters
from alignbook.statements import judged
from alignbook.studies.random_labels.fig07_activations import experiment, reading

SMALL = {
    "dataset": "photos", "case": "negative", "labels": ["random"], "side": 8, "width": 8, "upstream": 32,
    "downstream": 48, "classes": 5, "upstream_epochs": 2, "epochs": 2, "batch_size": 16, "init_scale": 1.0,
    "learning_rate": 0.01, "test": 20, "points": 1, "seed": 1,
}  # fmt: skip
CNN = {
    "dataset": "photos", "convolutions": 1, "side": 8, "images": 32, "epochs": 2, "filters": 8, "units": 6,
    "learning_rate": 0.01, "init_scale": 1.0, "batch_size": 16, "test": 20, "points": 1, "seed": 1,
}  # fmt: skip
PARAMETERS = {"labels": ["random"], "cnn_convolutions": [1], "seeds": 4, "width": 8}
ON_CPU = {"device": torch.device("cpu"), "report": lambda done, text: None}


NETWORKS = {"negative": {"case": "negative"}, "positive": {"case": "positive"}, "cnn": {"convolutions": 1}}
STEPS = (0, 64, 500, 1000)  # before, at the switch, after a tenth of training, in the end


def made_up(
    negative, positive, cnn=(0.5, 0.3, 0.3), control=0.5, seeds=range(15, 19), slower=0.1, faster=0.1
):
    """Activation of the last layer before the switch, at step 64, later; ``control``: without a first.

    control : one number, or as many as ``STEPS``
    slower, faster : training accuracy that the first task takes from the negative case and gives the other.
    """
    rng = np.random.default_rng(0)
    rows = []
    for (name, about), layers, values in zip(
        NETWORKS.items(), (13, 13, 2), (negative, positive, cnn), strict=True
    ):
        values = (*values, values[-1]) if len(values) < len(STEPS) else values
        tasks = {"": [("upstream", 0, 0.5), ("upstream", 100, values[0])]}
        tasks[""] += [("random", step, value) for step, value in zip(STEPS, values, strict=True)]
        if control is not None:
            alone = control if isinstance(control, tuple) else (control,) * len(STEPS)
            tasks["scratch-"] = [("random", *point) for point in zip(STEPS, alone, strict=True)]
        for seed in seeds:
            for prefix, points in tasks.items():
                shared = about | {"unit": f"{prefix}{name}-seed{seed}", "seed": seed, "of": "curve"}
                for labels, step, value in points:
                    for layer in (1, layers):
                        active = (value if layer == layers else 0.5) + 0.01 * rng.standard_normal()
                        change = {"negative": -slower, "positive": faster}.get(name, 0)
                        fits = 0.6 + change * (not prefix)
                        row = {"labels": labels, "step": step, "layer": layer, "accuracy": fits}
                        rows.append(shared | row | {"activation": active, "dead": 1 - active})
    return pd.DataFrame(rows)


def outcomes(table):
    return {claim.id: claim.outcome for claim in judged(reading.STATEMENTS, table, PARAMETERS)}


def said(table):
    claims = {claim.id: claim for claim in judged(reading.STATEMENTS, table, PARAMETERS)}
    found = reading.finding(table, PARAMETERS, claims)
    assert len(found) <= 300
    return found


PRINTED = {"negative": (0.4, 0.1, 0.1), "positive": (0.4, 0.38, 0.4)}


def test_compute_looks_at_both_tasks_and_four_stages():
    table = experiment.compute(**SMALL, **ON_CPU)
    curve = table[table["of"] == "curve"]
    assert curve.groupby("labels")["step"].unique().map(list).to_dict() == {
        "upstream": [0, 1, 2, 4], "random": [0, 1, 2, 3, 4, 6]
    }  # fmt: skip
    assert (curve.groupby(["labels", "step"]).size() == 13).all()
    rest = table[table["of"] != "curve"]
    assert list(rest["stage"].unique()) == ["initialisation", "pre-trained", "random"]
    assert len(rest) == 3 * 13 * 2 * 10
    assert curve.groupby(["labels", "step"])["accuracy"].nunique().eq(1).all()
    pd.testing.assert_frame_equal(table, experiment.compute(**SMALL, **ON_CPU), check_exact=True)


def test_a_small_network_has_both_tasks_equally_long():
    table = experiment.compute_small(**CNN, **ON_CPU)
    last = table.groupby("labels")["step"].max()
    assert last.to_dict() == {"upstream": 4, "random": 4}
    assert table["layer"].max() == 2
    before, after = (
        table[(table["labels"] == kind) & (table["step"] == step) & (table["layer"] == 2)][
            "activation"
        ].item()
        for kind, step in (("upstream", 4), ("random", 0))
    )
    # Rescaling keeps the first ReLU's inputs' signs; the dense layer's biases are scaled alone.
    assert after == pytest.approx(before, abs=0.1)


def curve_rows(table, labels, *steps):
    rows = table[(table["of"] == "curve") & (table["labels"] == labels) & table["step"].isin(steps)]
    return rows[["step", "layer", "activation", "dead"]].astype(float).reset_index(drop=True)


def test_the_control_is_fine_tuning_without_pre_training():
    arguments = {name: value for name, value in SMALL.items() if name != "upstream_epochs"}
    alone = experiment.compute_scratch(**arguments, **ON_CPU)
    # Pre-training of no step leaves the network as it was.
    other = experiment.compute(**SMALL | {"upstream_epochs": 0}, **ON_CPU)
    steps = sorted(alone["step"].unique())
    pd.testing.assert_frame_equal(curve_rows(alone, "random", *steps), curve_rows(other, "random", *steps))
    trained = experiment.compute(**SMALL, **ON_CPU)
    assert steps == sorted(trained[trained["labels"] == "random"]["step"].unique())
    assert not curve_rows(alone, "random", 6).equals(curve_rows(trained, "random", 6))


def test_the_control_of_a_small_network_has_its_second_task(monkeypatch):
    alone = experiment.compute_small_scratch(**CNN, **ON_CPU)
    trained = experiment.compute_small(**CNN, **ON_CPU)
    assert not curve_rows(alone, "random", 4).equals(curve_rows(trained, "random", 4))

    def without_the_first(net, x, y, *, at, on, report, **training):
        if not seen:  # the first task: looks, and no step
            seen.append(on(0, net))
            return
        fit(net, x, y, at=at, on=on, report=report, **training)

    seen, fit = [], experiment.fit
    monkeypatch.setattr(experiment, "fit", without_the_first)
    other = experiment.compute_small(**CNN, **ON_CPU)
    steps = (0, 1, 2, 4)
    pd.testing.assert_frame_equal(curve_rows(alone, "random", *steps), curve_rows(other, "random", *steps))


def test_the_control_decides_what_stays_away():
    assert outcomes(made_up(**PRINTED))["stays-random"] == HOLDS
    # Activation ends as low without a first task: nothing has been lost by the switch.
    assert outcomes(made_up(**PRINTED, control=0.1))["stays-random"] != HOLDS
    assert outcomes(made_up(**PRINTED, control=0.01))["stays-random"] == CONTRADICTED
    alone = outcomes(made_up(**PRINTED, control=None))
    assert {alone[f"{id}-{case}"] for id in ("stays", "falls") for case in ("random", "cnn1")} == {NOT_RUN}
    assert alone["later-negative"] == HOLDS


def test_the_drop_and_whether_it_lasts_follow_the_network_alone():
    for negative, drops, lasts in (((0.5, 0.3, 0.3), HOLDS, HOLDS), ((0.5, 0.3, 0.6), HOLDS, CONTRADICTED)):
        for control in (0.1, 0.9):
            found = outcomes(made_up(**PRINTED | {"negative": negative}, control=control))
            assert (found["drops-random"], found["lasts-random"]) == (drops, lasts)
    assert outcomes(made_up(**PRINTED | {"negative": (0.3, 0.5, 0.5)}))["drops-random"] == CONTRADICTED


def test_a_fall_is_one_beyond_the_controls():
    """A network loses 0.3 of its activation at the switch; what counts is what it loses without one."""
    assert outcomes(made_up(**PRINTED, control=(0.5, 0.4, 0.4, 0.4)))["falls-random"] == HOLDS
    table = made_up(**PRINTED, control=(0.6, 0.1, 0.1, 0.1))
    assert outcomes(table)["falls-random"] == CONTRADICTED
    died = reading.beyond(table, "negative", "random", "dead")  # 0.3 against 0.5
    assert died.mean() == pytest.approx(-0.2, abs=0.03) and len(died) == 4


COMPARED = {"ends-random", "dies-random", "spared-random", "intact-random"}


@pytest.mark.parametrize(
    ("without", "why"),
    [
        ({"control": None}, "these runs do not show that pre-training hurts"),
        ({"slower": 0.009}, "these runs do not show that pre-training hurts"),
        ({"slower": -0.1}, "these runs do not show that pre-training hurts"),
        ({"faster": 0.009}, "does not help in the positive one (+0.9 points"),
        ({"faster": -0.1}, "does not help in the positive one (−10.0 points"),
    ],
)
def test_cases_are_compared_where_pre_training_hurts_in_one_and_helps_in_the_other(without, why):
    found = outcomes(made_up(**PRINTED, **without))
    assert {id for id, outcome in found.items() if outcome == NOT_JUDGED} == COMPARED
    assert why in said(made_up(**PRINTED, **without))


def test_a_gain_over_the_part_in_figure_one_can_be_lost_over_the_whole_task():
    values = parameters.resolve(notebooks.find("random_labels/fig01_transfer"), "quick")
    assert values["stops"] == reading.IN_FIGURE_1 * reading.DOWNSTREAM_EPOCHS
    table = made_up(**PRINTED)
    late = table["unit"].str.startswith("positive") & (table["step"] >= 500)
    table["accuracy"] -= 0.3 * late
    early, rest, whole = (
        reading.gains(table, "positive", "random", *ends).mean() for ends in ((0, 0.4), (0.4, 1), (0, 1))
    )
    assert early > 0 > rest and whole == pytest.approx(0.4 * early + 0.6 * rest) and whole < 0
    # The condition looks at the part.
    assert reading.gained(table, "positive", "random") == pytest.approx(early)
    assert "pre-training does not help in the positive one" in said(table) and early < 1


def test_accuracy_in_the_end_alone_does_not_say_whether_pre_training_hurts():
    table = made_up(**PRINTED)
    ends = table.assign(accuracy=table["accuracy"].where(table["step"].isin([100, 1000])))
    assert np.isnan(reading.gained(ends, "negative", "random"))
    assert outcomes(ends)["ends-random"] == NOT_JUDGED
    assert reading.gained(table, "negative", "random") == pytest.approx(-10)
    assert reading.gained(table, "positive", "random") == pytest.approx(10)


def test_the_switch_is_step_64_and_not_a_tenth_of_training():
    """Deaths that are over after a tenth of training are seen, and those that come only then are not."""
    passing = made_up(negative=(0.4, 0.1, 0.4, 0.4), positive=(0.4, 0.4, 0.4, 0.4))
    assert outcomes(passing)["dies-random"] == outcomes(passing)["spared-random"] == HOLDS
    late = made_up(negative=(0.4, 0.4, 0.1, 0.1), positive=(0.4, 0.4, 0.4, 0.4))
    assert outcomes(late)["dies-random"] != HOLDS != outcomes(late)["falls-random"]


def test_the_seeds_that_chose_the_step_are_not_judged():
    old = made_up(**PRINTED, seeds=range(3))
    found = {claim.id: claim for claim in judged(reading.STATEMENTS, old, PARAMETERS)}
    for id in ("dies-random", "falls-random", "falls-cnn1", "spared-random", "intact-random"):
        assert found[id].outcome == NOT_JUDGED and found[id].measured is not None and found[id].post_hoc
    assert found["ends-random"].outcome == HOLDS and found["ends-random"].headline
    other = {claim.id: claim.outcome for claim in judged(reading.STATEMENTS, old, PARAMETERS | {"width": 64})}
    assert other["dies-random"] == other["falls-random"] == HOLDS  # other networks
    late = outcomes(made_up(**PRINTED, seeds=range(3, 15)))
    assert late["dies-random"] == HOLDS and late["falls-random"] == NOT_JUDGED


def test_moments_hold_both_ends_and_those_right_after():
    assert experiment.moments(100, 3) == [0, 1, 2, 4, 8, 16, 25, 32, 50, 64, 75, 100]
    assert experiment.moments(2, 1) == [0, 1, 2]


def test_deaths_in_the_negative_case_alone():
    table = made_up(**PRINTED)
    found = outcomes(table)  # without histograms and layer 7 nothing is known of these
    known = {outcome for id, outcome in found.items() if not id.startswith(("rare", "ends-middle"))}
    assert known == {HOLDS}
    assert said(table).startswith("Where pre-training hurts, the last hidden layer ends less active")
    assert "fires on 10 % of images, against 41 % where it helps. Our VGG-16" in said(table)
    found = [key.here for key in reading.key_numbers(table, PARAMETERS)]
    assert found[1].startswith("9.8 (")


def test_the_middle_layer_waits_for_new_seeds():
    for seeds, outcome in ((range(15, 19), NOT_JUDGED), (range(63, 67), HOLDS)):
        table = made_up(**PRINTED, seeds=seeds)
        table["layer"] = table["layer"].replace(13, 7)
        table = pd.concat([table, table[table["layer"] == 7].assign(layer=13)])
        assert outcomes(table)["ends-middle-random"] == outcome


def test_the_other_way_round_all_disagree():
    table = made_up(negative=(0.4, 0.6, 0.9), positive=(0.4, 0.3, 0.1), cnn=(0.3, 0.5, 0.5), control=0.05)
    found = outcomes(table)
    for id in ("dies", "ends", "falls", "stays", "spared", "intact"):
        assert found[f"{id}-random"] == CONTRADICTED, id
    assert found["falls-cnn1"] == found["stays-cnn1"] == CONTRADICTED
    assert "the last hidden layer ends more active" in said(table)


def test_what_is_left_and_what_was_learned():
    table = made_up(negative=(0.4, 0.1, 0.1), positive=(0.4, 0.3, 0.2))
    assert reading.left(table, "positive", "random").mean() == pytest.approx(0.5, abs=0.05)
    lowest = made_up(negative=(0.4, 0.1, 0.1), positive=(0.4, 0.3, 0.1, 0.4))
    assert reading.left(lowest, "positive", "random").mean() == pytest.approx(0.25, abs=0.05)
    none = table.assign(activation=0.0)
    assert reading.left(none, "positive", "random").empty and outcomes(none)["intact-random"] == NOT_RUN
    ends = {("upstream", 100): 0.9, ("random", 1000): 0.2}
    keys = zip(table["labels"], table["step"], strict=True)
    first, second = reading.known(table.assign(accuracy=[ends.get(key) for key in keys]), 1, "random")
    assert first.tolist() == [0.9] * 4 and second.tolist() == [0.2] * 4


def test_nothing_or_one_case():
    nothing = pd.DataFrame({"unit": []})
    assert set(outcomes(nothing).values()) == {NOT_RUN}
    table = made_up(**PRINTED)
    found = outcomes(table[table["case"] != "positive"])
    assert found["dies-random"] == found["intact-random"] == found["spared-random"] == NOT_RUN
    assert found["falls-random"] == found["stays-random"] == HOLDS


def test_jobs_are_the_settings_of_figure_one():
    book = notebooks.find("random_labels/fig07_activations")
    values = parameters.resolve(book, "paper")
    made = {job.name: job.arguments for job in experiment.jobs(values)}
    assert len(made) == 2 * 3 * (2 + 2)
    alone = made["scratch-positive-seed2"] | {"upstream_epochs": 120}
    assert alone == made["positive-seed2"] and made["scratch-cnn3-seed1"] == made["cnn3-seed1"]
    without = parameters.resolve(book, "paper", {"control": False})
    assert {job.name for job in experiment.jobs(without)} == {n for n in made if "scratch" not in n}
    negative, positive = made["negative-seed0"], made["positive-seed2"]
    assert (negative["classes"], negative["upstream_epochs"], negative["init_scale"]) == (50, 80, 0.612)
    assert (positive["classes"], positive["upstream_epochs"], positive["epochs"]) == (5, 120, 200)
    with pytest.raises(AlignbookError, match="width"):
        parameters.resolve(book, "quick", {"width": 12})


def with_histograms(table, rare):
    """``table`` with the share of neurons that fire rarely in the end: ``rare(case, layer)``."""
    rng, rows = np.random.default_rng(1), []
    for seed, case, layer in itertools.product(
        table["seed"].unique(), ("negative", "positive"), range(1, 14)
    ):
        share = rare(case, layer) + 0.01 * rng.standard_normal()
        shared = {"unit": f"{case}-seed{seed}", "seed": seed, "case": case, "layer": layer, "of": "neurons"}
        # The first task's rows say that a network had one.
        rows += [
            shared | {"stage": "random", "labels": np.nan, "bin": n, "share": s}
            for n, s in enumerate((share, 1 - share))
        ]
    return pd.concat([table, pd.DataFrame(rows)], ignore_index=True)


def test_neurons_that_fire_rarely_wait_for_new_seeds():
    """What was seen on all stored seeds is shown, and judged on later ones alone."""

    def rare(case, layer):
        return 0.5 if case == "negative" and layer < 13 else 0.2

    seen = with_histograms(made_up(**PRINTED), rare)
    found = {claim.id: claim for claim in judged(reading.STATEMENTS, seen, PARAMETERS)}
    assert found["rare-random-7"].outcome == NOT_JUDGED and found["rare-random-7"].post_hoc
    assert found["rare-random-7"].measured == pytest.approx(0.3, abs=0.02)
    new = outcomes(with_histograms(made_up(**PRINTED, seeds=range(39, 45)), rare))
    assert (new["rare-random-7"], new["rare-random-13"]) == (HOLDS, ABSENT)


def test_the_finding_says_that_neurons_die_where_activation_does_not_end_lower():
    died, lived = (0.4, 0.2, 0.9), (0.4, 0.6, 0.9)
    for negative, die in ((died, True), (lived, False)):
        text = said(made_up(negative=negative, positive=(0.4, 0.38, 0.4)))
        assert "the last hidden layer ends more active" in text
        assert ("More of its neurons do die at the switch of tasks; our VGG-16" in text) == die
    assert "do die" not in said(made_up(**PRINTED))


def test_layers_are_told_apart_by_their_intervals():
    table = made_up(negative=(0.4, 0.1, 0.1), positive=(0.4, 0.4, 0.4))
    quiet = table["layer"].eq(1) & table["case"].eq("negative") & table["labels"].eq("random")
    table["activation"] -= 0.2 * quiet  # in layer 1 from scratch, too: pre-training adds nothing there
    gone = table["labels"].eq("upstream") & table["step"].eq(100) & table["case"].eq("negative")
    table.loc[gone & table["layer"].eq(13), "activation"] += 0.3
    layers = {"layers": (1, 2, 13)}
    assert reading.clearly(lambda layer: reading.contrast(table, "random", layer), **layers) == [1, 13]
    control = reading.clearly(lambda layer: reading.contrast(table, "random", layer, True), **layers)
    assert control == [1]
    assert reading.clearly(lambda layer: reading.added(table, "random", layer), **layers) == [13]
    assert reading.clearly(lambda layer: reading.fall_upstream(table, "negative", layer), -1, **layers) == [
        13
    ]
    told = reading.where_the_contrast_is(table, "random")
    assert "in 1 of the 12 earlier layers after pre-training, and in 1 without it" in told
    assert told.endswith("adds to the paper's contrast in layer 13, and clearly takes from it in no layer.")
    told = reading.where_pre_training_raises(table)
    assert "in 0 of 13 layers in the positive case (no layer)" in told
    assert told.endswith(" and in 1 of 13 layers in the negative case (layer 13).")
    assert reading.clearly(lambda layer: reading.contrast(table[table["seed"] < 17], "random", layer)) == []


def test_what_a_network_keeps_is_a_share_of_what_it_has():
    """A network that starts low keeps less of it than its control, though it falls less far."""
    table = made_up(**PRINTED, control=(1.0, 0.75, 0.7, 0.7))
    kept, control = (
        reading.left_at_switch(table, "negative", "random", without) for without in (False, True)
    )
    assert kept.mean() == pytest.approx(0.25, abs=0.03) and control.mean() == pytest.approx(0.75, abs=0.03)


def test_comparisons_with_the_control_are_marked_as_ours():
    found = {claim.id: claim for claim in judged(reading.STATEMENTS, made_up(**PRINTED), PARAMETERS)}
    assert found["falls-random"].ours and found["stays-cnn1"].ours and not found["ends-random"].ours
