"""Figure 8 of Maennel et al. 2020: width against negative transfer."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED
from alignbook.errors import AlignbookError
from alignbook.over_seeds import at
from alignbook.runs import engine, notebooks, parameters, plans
from alignbook.studies.random_labels.fig08_width import experiment, reading
from alignbook.training.nets import SimpleCNN
from tests import judging

SMALL = {
    "dataset": "photos", "labels": ["real", "random"], "dense_units": 12, "convolutions": 2, "filters": 8,
    "side": 8, "upstream_images": 32, "upstream_classes": 2, "upstream_epochs": 2, "downstream_images": 50,
    "classes": 10, "epochs": 2, "record": [1], "batch_size": 16, "learning_rate": 0.01,
    "init_scale": 1.0, "test_images": 30, "seed": 1,
}  # fmt: skip
PARAMETERS = {
    "labels": ["random"], "dense_units": [8, 64], "side": 16, "other_sides": [8], "seeds": 4,
    "downstream_images": 100, "filters": 16,
}  # fmt: skip


def run(**other):
    return experiment.compute(**SMALL | other, device=torch.device("cpu"), report=lambda done, text: None)


def made_up(gaps, dead=None, seeds=4, side=16, alone=0.0):
    """Learning curves with the given gaps (by width) between scratch and pre-trained, and dead units.

    alone : share of the pre-trained network's dead units that the one from scratch has, too
    """
    rng = np.random.default_rng(0)
    rows = []
    for width, gap in gaps.items():
        for seed in range(seeds):
            shift = gap + 0.01 * rng.standard_normal()
            gone = (dead or {}).get(width, 0.0) + 0.01 * rng.random()
            for start, lower in (("scratch", 0.0), ("pretrained", shift)):
                for epoch, value in ((0, 0.5), (1, 0.5), (4, 0.5)):
                    rows.append(
                        {"labels": "random", "dense_units": width, "side": side, "seed": seed,
                         "start": start, "epoch": epoch, "accuracy": value - lower,
                         "dead": gone * (alone if start == "scratch" else 1)}
                    )  # fmt: skip
    return pd.DataFrame(rows)


claims, outcomes, said = judging.of(reading, PARAMETERS)


def test_both_networks_of_a_seed_differ_by_pretraining_alone():
    table = run()
    assert len(table) == 2 * 2 * 3 and table["dead"].between(0, 1).all()
    pd.testing.assert_frame_equal(table, run(), check_exact=True)
    # Without pre-training the two are one and the same.
    rest = run(upstream_epochs=0).set_index(["labels", "epoch"]).drop(columns="upstream_accuracy")
    one, other = (
        rest[rest["start"] == start].drop(columns="start").round(6) for start in ("scratch", "pretrained")
    )
    pd.testing.assert_frame_equal(one, other)
    assert not table[table["start"] == "scratch"]["accuracy"].equals(
        table[table["start"] == "pretrained"]["accuracy"]
    )


def test_dead_units_are_those_that_no_image_activates():
    net = SimpleCNN((3, 4, 4), [4], 5, 2)
    x = torch.randn(7, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        net.dense.weight.zero_()
        net.dense.bias.copy_(torch.tensor([1.0, -1.0, 0.0, 1.0, -1.0]))
        assert experiment.dead_share(net, x, batch_size=3) == pytest.approx(0.6)
        # A unit that one image alone activates, the last one.
        inputs = net.features(x, 1).permute(0, 2, 3, 1).flatten(1)
        net.dense.weight[1] = inputs[-1] - inputs[:-1].mean(0)
        values = inputs @ net.dense.weight[1]
        net.dense.bias[1] = -(values.sort().values[-2:].mean())
    assert experiment.dead_share(net, x, batch_size=3) == pytest.approx(0.4)


def test_a_gap_that_closes_and_one_that_opens():
    closing = made_up({8: 0.2, 64: 0.0}, dead={8: 0.5, 64: 0.1})
    assert outcomes(closing) == {"closes-random": HOLDS, "negative-random": HOLDS, "dead-random": HOLDS}
    assert "takes away the harm" in said(closing) and "20 points of mean accuracy behind" in said(closing)
    opening = made_up({8: 0.1, 64: 0.2}, dead={8: 0.1, 64: 0.5})
    assert outcomes(opening) == {
        "closes-random": CONTRADICTED, "negative-random": HOLDS, "dead-random": CONTRADICTED
    }  # fmt: skip
    assert "does worse" in said(opening)


def test_dead_units_are_those_beyond_the_network_from_scratch():
    """The share falls with the width; where it falls as far from scratch, pre-training had no part in it."""
    dead = {8: 0.5, 64: 0.1}
    assert outcomes(made_up({8: 0.2, 64: 0.0}, dead, alone=0.5))["dead-random"] == HOLDS
    assert outcomes(made_up({8: 0.2, 64: 0.0}, dead, alone=0.99))["dead-random"] == ABSENT
    assert outcomes(made_up({8: 0.2, 64: 0.0}, dead, alone=1.5))["dead-random"] == CONTRADICTED
    seen = made_up({8: 0.2, 64: 0.0}, dead, seeds=3)
    assert outcomes(seen, filters=8)["dead-random"] == NOT_JUDGED and outcomes(seen)["dead-random"] == HOLDS


def test_a_gap_is_measured_up_to_where_all_networks_have_arrived():
    table = made_up({8: 0.0})
    assert reading.arrival(table) is None and reading.arrival(table.iloc[:0]) is None
    there = table.assign(accuracy=table["accuracy"].where(table["epoch"] < 1, 0.999))
    assert reading.arrival(there) == 1
    start = there["epoch"].eq(0) & there["start"].eq("pretrained")
    late = there.assign(accuracy=there["accuracy"] - 0.2 * start)
    assert reading.gap_until(late, 1).mean() == pytest.approx(0.1, abs=0.01)
    assert reading.gap(late).mean() == pytest.approx(0.025, abs=0.01)  # four epochs dilute it
    assert reading.arrival(late.assign(accuracy=late["accuracy"].where(late["epoch"] != 4, 0.9))) is None


def test_without_a_gap_there_is_none_to_close():
    faster = made_up({8: -0.1, 64: 0.1})
    assert outcomes(faster)["closes-random"] == NOT_JUDGED
    assert outcomes(faster)["negative-random"] == CONTRADICTED
    assert "as our runs show no clear harm" in said(faster)
    assert "10 points of mean accuracy ahead" in said(faster)
    assert outcomes(made_up({8: 0.005, 64: -0.2}))["closes-random"] == NOT_JUDGED  # less than one point


def test_one_width_says_whether_it_is_slower():
    alone = made_up({8: 0.2})
    one = {"dense_units": [8]}
    assert outcomes(alone, **one) == {
        "closes-random": NOT_RUN, "negative-random": HOLDS, "dead-random": NOT_RUN
    }  # fmt: skip
    assert said(alone, **one).startswith("Pre-training slows the narrowest network down")
    assert said(made_up({8: -0.2}), **one).startswith("Pre-training speeds the narrowest network up")


def test_gaps_are_areas_per_seed():
    table = made_up({8: 0.2})
    table.loc[(table["epoch"] == 4) & (table["start"] == "scratch"), "accuracy"] += 0.4
    gap = reading.narrowest(table, PARAMETERS, "random")
    # The last three of four epochs rise by 0.4, in a straight line.
    assert gap.to_numpy() == pytest.approx(0.2 + 0.4 * 3 / 8, abs=0.05)
    assert reading.narrowest(table, PARAMETERS, "random", side=8).empty


def test_only_seeds_with_all_widths_are_compared():
    table = made_up({8: 0.2, 64: 0.0})
    table = table[(table["dense_units"] == 8) | (table["seed"] > 0)]
    seeds = {id: claim.seeds for id, claim in claims(table).items()}
    assert seeds["closes-random"] == seeds["dead-random"] == 3
    assert outcomes(table[table["dense_units"] == 8])["closes-random"] == NOT_RUN


def test_units_are_also_counted_right_after_the_switch():
    table = made_up({8: 0.2}, dead={8: 0.3})
    table["dead"] = table["dead"].where(table["epoch"] != 1, 0.75)
    assert reading.dead_at_switch(table).tolist() == [0.75] * 4
    one = {**PARAMETERS, "dense_units": [8], "epochs": 4}
    (key,) = [key for key in reading.key_numbers(table, one) if "dead" in key.what]
    assert "from scratch 75" in key.what and str(key.here).startswith("75")


def test_the_narrowest_network_has_other_images():
    book = notebooks.find("random_labels/fig08_width")
    values = parameters.resolve(book, "quick")
    made = experiment.jobs(values)
    assert len({job.name for job in made}) == len(made)
    other = [job for job in made if job.arguments["side"] != values["side"]]
    assert {job.arguments["dense_units"] for job in other} == {min(values["dense_units"])}
    table = pd.concat([made_up({8: 0.2, 64: 0.0}), made_up({8: -0.1}, side=8)])
    by_side = reading.by_side(table, PARAMETERS, "random")
    assert list(by_side) == [8, 16] and by_side[8].mean() < 0 < by_side[16].mean()
    with pytest.raises(AlignbookError, match="side"):
        parameters.resolve(book, "quick", {"side": 7})


def test_the_finding_gives_the_gap_of_the_runs_that_judge_it():
    """Runs of a plan may judge whether there is a gap; those that are drawn then say nothing of its size."""
    both = {**PARAMETERS, "labels": ["real", "random"]}
    drawn = made_up({8: -0.07, 64: 0.0})
    drawn = pd.concat([drawn, drawn.assign(labels="real")])
    found = claims(drawn, labels=both["labels"])
    for kind, outcome, gap in (("real", ABSENT, -0.002), ("random", UNDECIDED, 0.01)):
        own = found[f"negative-{kind}"]
        found[own.id] = replace(own, outcome=outcome, measured=gap, runs="epochs = 200")
    text = judging.finding(reading, drawn, both, found)
    assert (
        ": in longer runs (not drawn) with real labels" in text
        and "0.2 points ahead, too little to matter; with random labels it is undecided." in text
    )
    assert text.endswith(". Both starts reach 100 % early, diluting any gap.")
    assert " 7 points" not in text


def test_the_finding_says_that_planned_runs_show_harm():
    """The drawn runs show none, so that whether width undoes it is not judged."""
    both = {**PARAMETERS, "labels": ["real", "random"]}
    drawn = made_up({8: -0.07, 64: 0.0})
    drawn = pd.concat([drawn, drawn.assign(labels="real")])
    found = claims(drawn, labels=both["labels"])
    assert reading.harmed(both, found) == ""
    for kind, outcome, gap in (("real", ABSENT, -0.001), ("random", HOLDS, 0.047)):
        own = found[f"negative-{kind}"]
        found[own.id] = replace(own, outcome=outcome, measured=gap, runs="profile paper, seeds = 4")
    text = judging.finding(reading, drawn, both, found)
    start = "Pre-training slows the narrowest network down with random labels, by 4.7 points of mean "
    diluted = f"with real labels {reading.DILUTED}"
    assert text.startswith(f"{start}accuracy at the paper's size; {diluted}")
    assert text.endswith("We do not judge whether width undoes this harm, as no wider layer has run there.")
    closed = judging.turned(found, {"closes-random": HOLDS})
    text = judging.finding(reading, drawn, both, closed)
    assert "takes away the harm" in text and "with random labels the narrowest pre-trained network" in text
    assert "with real labels it is too small to matter" in text


@pytest.mark.parametrize("profile", ["quick", "paper"])
def test_the_planned_runs_spend_most_of_training_at_all_images_right(profile):
    """As the finding says of them where their mean gap is too small to matter."""
    book = notebooks.find("random_labels/fig08_width")
    stored = [p for p in plans.of(book.name) if p.profile == profile and engine.load_values(book, p.values)]
    plan = stored[0] if stored else pytest.skip("nothing is stored")
    run = engine.load_values(book, plan.values)
    rows = at(run.table, labels="real", side=plan.values["side"], dense_units=min(plan.values["dense_units"]))
    assert reading.arrival(rows) < plan.values["epochs"] / 2
