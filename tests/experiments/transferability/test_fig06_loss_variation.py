"""Figures 6 and 11: ratios over training and at equal loss, on made-up tables."""

import math

import numpy as np
import pandas as pd
import pytest

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED
from alignbook.errors import AlignbookError
from alignbook.runs import notebooks, parameters
from alignbook.studies.transferability.fig06_loss_variation import design, experiment, reading
from alignbook.studies.transferability.targets import STARTS
from tests import judging

PARAMETERS = {"targets": ["cifar10-natural", "cifar10-artificial"], "source": "photos"}
STEPS = np.array([0, 1, 5, 10, 40, 100])


def made_up(factor=1.0, faster=1.0, seeds=4, learned=80.0):
    """Variation 0.1 loss², times ``factor`` from random weights; pre-trained losses fall ``faster``."""
    rng = np.random.default_rng(0)
    rows = [pd.DataFrame({"kind": ["source"], "source_test_accuracy": [learned]})]
    for name in ("natural", "artificial"):
        for seed in range(seeds):
            for start in STARTS:
                speed = faster if start == "pretrained" else 1.0
                loss = 2 / (1 + speed * STEPS / 20)
                scale = factor if start == "scratch" else 1.0
                for protocol in design.PROTOCOLS:
                    near = 0.1 * scale * loss**2 * np.exp(0.02 * rng.standard_normal())
                    rows.append(
                        pd.DataFrame(
                            {
                                "dataset": "cifar10", "part": name, "seed": seed, "start": start,
                                "protocol": protocol, "step": STEPS, "loss": loss,
                                "near_low": loss - near, "near_high": loss,
                                "far_low": loss - 2 * near, "far_high": loss + near,
                            }
                        )
                    )  # fmt: skip
    return pd.concat(rows, ignore_index=True)


judged, outcomes, said = judging.of(reading, PARAMETERS)


def test_a_larger_variation_everywhere_holds_everywhere():
    assert set(outcomes(made_up(factor=2.0)).values()) == {HOLDS}
    assert set(outcomes(made_up(factor=0.5)).values()) == {CONTRADICTED}
    assert set(outcomes(made_up(factor=1.0)).values()) == {ABSENT}
    assert set(outcomes(made_up(factor=2.0, learned=34.0)).values()) == {NOT_JUDGED}


def test_the_start_is_judged_where_both_ranges_of_steps_tell_the_same():
    table = made_up(factor=2.0)
    random = (table["start"] == "scratch") & (table["protocol"] == "fixed")
    table.loc[random, "far_high"] = table["far_low"] + (table["far_high"] - table["far_low"]) / 8
    found = outcomes(table)
    for part in ("first", "early"):
        assert found[f"{part}-scaled-cifar10-natural"] == HOLDS
        assert found[f"{part}-fixed-cifar10-natural"] == NOT_JUDGED
    assert found["smaller-fixed-cifar10-natural"] == HOLDS
    table["far_high"] = math.nan
    assert outcomes(table)["first-scaled-cifar10-natural"] == NOT_JUDGED


def test_fitting_faster_alone_is_told_apart_from_a_smoother_loss():
    # The same variation at the same loss: pre-trained is smaller in the mean over steps only.
    found = outcomes(made_up(faster=6.0))
    which = "scaled-cifar10-natural"
    assert found[f"smaller-{which}"] == found[f"early-{which}"] == HOLDS
    assert found[f"first-{which}"] == ABSENT
    values = reading.matched(made_up(faster=6.0), "cifar10-natural", "scaled")
    over_all = reading.ratios(made_up(faster=6.0), "cifar10-natural", "scaled")
    assert values.abs().max() < 0.15 < over_all.min()


def test_matched_finds_the_factor_at_equal_loss():
    values = reading.matched(made_up(factor=4.0, faster=3.0), "cifar10-artificial", "fixed")
    np.testing.assert_allclose(values, 2, atol=0.15)
    assert list(values.index) == [0, 1, 2, 3]


def test_losses_that_never_meet_are_not_compared():
    table = made_up()
    low = table["start"] == "pretrained"
    table.loc[low, "loss"] = table.loc[low, "loss"] / 1000
    assert reading.matched(table, "cifar10-natural", "scaled").empty


def frame(steps, values):
    return pd.DataFrame([values], columns=steps, index=pd.Index([0], name="seed"))


def test_the_mean_weighs_steps_and_not_records():
    curve = frame([0, 1, 2, 100], [8.0, 8.0, 1.0, 1.0])
    assert reading.mean_over(curve)[0] == pytest.approx((8 + 4.5 + 98) / 100)
    assert reading.mean_over(curve, (0, 0))[0] == 8
    assert reading.mean_over(curve, (0.01, 0.02))[0] == pytest.approx(4.5)
    assert reading.mean_over(pd.DataFrame()).empty


def test_a_part_of_the_steps_ends_between_two_records():
    # As recorded: nothing between steps 32 and 116 of 930, and the first tenth ends at 93.
    curve = frame([0, 32, 116, 930], [0.0, 32.0, 116.0, 930.0])
    assert reading.mean_over(curve, (0, 0.1))[0] == pytest.approx(93 / 2)
    assert reading.mean_over(curve, (0.1, 1))[0] == pytest.approx((93 + 930) / 2)
    assert reading.mean_over(curve, (0.2, 0.3))[0] == pytest.approx(0.25 * 930)


def test_losses_that_are_not_finite_and_nothing_at_all():
    table = made_up(factor=2.0)
    table.loc[table["seed"] == 0, "far_high"] = math.inf
    assert len(reading.ratios(table, "cifar10-natural", "fixed", reach="far")) == 3
    nothing = pd.DataFrame({"unit": []})
    assert reading.finding(nothing, PARAMETERS, judged(nothing)) == "There is nothing to compare."
    assert set(outcomes(made_up(seeds=1)).values()) == {UNDECIDED}


def test_one_sentence_per_statement_with_the_settings_as_replicates():
    found = judged(made_up()).values()
    assert len({claim.group for claim in found}) == 4 and len(found) == 16
    settings = [claim for claim in found if claim.group.startswith("The loss varies less")]
    assert len(settings) == 16 and all("(steps " in claim.statement for claim in settings)


def test_finding_gives_the_ratios_and_the_early_verdict():
    table = made_up(factor=2.0)
    text = reading.finding(table, PARAMETERS, judged(table))
    value = 2 ** reading.ratios(table, "cifar10-natural", "scaled").mean()
    assert f": {value:.1f} times" in text
    assert reading.SAID[HOLDS] in text and ". In the first tenth of training it holds;" in text
    assert len(reading.key_numbers(made_up(), PARAMETERS)) == 2
    assert reading.times([1.0, 2.0, 3.0]) == "4.00 (0.71 to 22.38)"  # 2^(2 ± 4.303 / √3)


def test_the_start_and_the_early_steps_are_the_papers():
    found = judged(made_up())
    theirs = {id.split("-")[0] for id, claim in found.items() if not claim.ours}
    assert theirs == {"smaller", "first", "early"}


def test_recorded_is_dense_early_and_reaches_the_end():
    assert experiment.recorded(465) == [0, 1, 2, 4, 8, 16, 32, 58, 116, 174, 232, 291, 349, 407, 465]
    assert experiment.recorded(3) == [0, 1, 2, 3]


def test_only_known_targets():
    book = notebooks.find("transferability/fig06_loss_variation")
    with pytest.raises(AlignbookError, match="targets"):
        parameters.resolve(book, "quick", {"targets": ["none"]})


def test_a_job_measures_both_ways_of_stepping():
    book = notebooks.find("transferability/fig06_loss_variation")
    job = experiment.jobs(parameters.resolve(book, "smoke", {"epochs": 1}))[0]
    table = job.compute(**job.arguments, device="cpu", report=lambda done, text: None)
    scaled, fixed = (table[table["protocol"] == name].set_index("step") for name in design.PROTOCOLS)
    np.testing.assert_allclose(scaled["loss"], fixed["loss"])
    assert (table["far_high"] - table["far_low"] >= table["near_high"] - table["near_low"]).all()
    # Along the unit vector short steps see the slope: four times the rate times the gradient's norm.
    np.testing.assert_allclose(
        fixed["near_high"] - fixed["near_low"], 0.04 * fixed["gradient_norm"], rtol=0.3
    )
