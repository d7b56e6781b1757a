"""Figure 7 of Maennel et al. 2020: which neurons are active."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import CONTRADICTED, HOLDS, NOT_RUN
from alignbook.errors import AlignbookError
from alignbook.experiments.random_labels import fig07_activations as experiment
from alignbook.runs import notebooks, parameters

SMALL = {
    "dataset": "photos", "case": "negative", "labels": ["random"], "side": 8, "width": 8, "upstream": 32,
    "downstream": 48, "classes": 5, "upstream_epochs": 2, "epochs": 2, "batch_size": 16, "init_scale": 1.0,
    "learning_rate": 0.01, "test": 20, "points": 1, "seed": 1,
}  # fmt: skip
CNN = {
    "dataset": "photos", "convolutions": 1, "side": 8, "images": 32, "epochs": 2, "filters": 8, "units": 6,
    "learning_rate": 0.01, "init_scale": 1.0, "batch_size": 16, "test": 20, "points": 1, "seed": 1,
}  # fmt: skip
PARAMETERS = {"labels": ["random"], "cnn_convolutions": [1], "seeds": 4}
ON_CPU = {"device": torch.device("cpu"), "report": lambda done, text: None}


def made_up(negative, positive, cnn=(0.5, 0.3, 0.3), seeds=4):
    """Activation of the last layer before the switch, soon after it, in the end; dead is the rest."""
    rng = np.random.default_rng(0)
    rows = []
    for name, layers, values in (("negative", 13, negative), ("positive", 13, positive), ("cnn1", 2, cnn)):
        for seed in range(seeds):
            shared = {"unit": f"{name}-seed{seed}", "seed": seed, "of": "curve"}
            start = [("upstream", 0, 0.5), ("upstream", 100, values[0])]
            after = [("random", step, value) for step, value in zip((0, 10, 100), values, strict=True)]
            for labels, step, value in start + after:
                for layer in (1, layers):
                    active = (value if layer == layers else 0.5) + 0.01 * rng.standard_normal()
                    rows.append(
                        shared
                        | {
                            "labels": labels,
                            "step": step,
                            "layer": layer,
                            "activation": active,
                            "dead": 1 - active,
                        }
                    )
    return pd.DataFrame(rows)


def outcomes(table):
    return {claim.id: claim.outcome for claim in experiment.claims(table, PARAMETERS)}


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
    known = curve.dropna(subset="accuracy").groupby(["labels", "step"]).size()
    assert list(known.index) == [("random", 6), ("upstream", 4)]
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


def test_moments_hold_both_ends_and_those_right_after():
    assert experiment.moments(100, 3) == [0, 1, 2, 4, 8, 16, 25, 32, 50, 64, 75, 100]
    assert experiment.moments(2, 1) == [0, 1, 2]


def test_deaths_in_the_negative_case_alone():
    table = made_up(negative=(0.4, 0.1, 0.1), positive=(0.4, 0.4, 0.4))
    judged = outcomes(table)
    assert judged.pop("later-positive") == HOLDS and set(judged.values()) == {HOLDS}
    said = experiment.finding(table, PARAMETERS)
    assert "+30" in said and "There activation falls on average less: " in said
    numbers = {key.what.split(":")[0]: key.here for key in experiment.key_numbers(table, PARAMETERS)}
    assert numbers["VGG-16, negative case, random labels"].startswith("60 → 90")


def test_the_other_way_round_all_disagree():
    judged = outcomes(made_up(negative=(0.4, 0.6, 0.9), positive=(0.4, 0.3, 0.1), cnn=(0.3, 0.5, 0.5)))
    for id in ("dies", "ends", "falls", "stays", "spared", "intact"):
        assert judged[f"{id}-random"] == CONTRADICTED, id
    assert judged["falls-cnn1"] == judged["stays-cnn1"] == CONTRADICTED


def test_what_is_left_and_what_was_learned():
    table = made_up(negative=(0.4, 0.1, 0.1), positive=(0.4, 0.3, 0.2))
    frame = experiment.left(table, "positive", "random")
    assert frame.mean().to_dict() == pytest.approx({"soon": 0.75, "end": 0.5}, abs=0.05)
    none = table.assign(activation=0.0)
    assert experiment.left(none, "positive", "random").empty
    assert outcomes(none)["intact-random"] == NOT_RUN
    ends = {("upstream", 100): 0.9, ("random", 100): 0.2}
    keys = zip(table["labels"], table["step"], strict=True)
    first, second = experiment.known(table.assign(accuracy=[ends.get(key) for key in keys]), 1, "random")
    assert first.tolist() == [0.9] * 4 and second.tolist() == [0.2] * 4
    assert experiment.known(pd.DataFrame({"unit": []}), 1, "random") is None


def test_nothing_or_one_case():
    nothing = pd.DataFrame({"unit": []})
    assert set(outcomes(nothing).values()) == {NOT_RUN}
    table = made_up(negative=(0.4, 0.1, 0.1), positive=(0.4, 0.4, 0.4))
    judged = outcomes(table[~table["unit"].str.startswith("positive")])
    assert judged["dies-random"] == judged["intact-random"] == judged["spared-random"] == NOT_RUN
    assert judged["falls-random"] == HOLDS


def test_units_are_the_settings_of_figure_one():
    book = notebooks.find("random_labels/fig07_activations")
    values = parameters.resolve(book, "paper")
    made = {unit.name: unit.arguments for unit in experiment.units(values)}
    assert len(made) == 3 * (2 + 2)
    negative, positive = made["negative-seed0"], made["positive-seed2"]
    assert (negative["classes"], negative["upstream_epochs"], negative["init_scale"]) == (50, 80, 0.612)
    assert (positive["classes"], positive["upstream_epochs"], positive["epochs"]) == (5, 120, 200)
    with pytest.raises(AlignbookError, match="width"):
        parameters.resolve(book, "quick", {"width": 12})
