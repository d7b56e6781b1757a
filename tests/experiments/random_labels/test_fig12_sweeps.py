"""Figures 12 to 18: the balanced fraction, areas and gains, effects of factors, statements either way."""

import itertools
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED, t_interval
from alignbook.errors import AlignbookError, Diverged
from alignbook.over_seeds import at
from alignbook.runs import notebooks, parameters
from alignbook.studies.random_labels import sweep_analysis as analysis
from alignbook.studies.random_labels import sweep_design as design
from alignbook.studies.random_labels.fig12_sweeps import design as sweeps
from alignbook.studies.random_labels.fig12_sweeps import experiment, reading
from tests import judging

BOOK = notebooks.find("random_labels/fig12_sweeps")
FACTORS = {
    "seed": [0, 1, 2],
    "scale": (0.5, 2.0),
    "classes": [2, 5, 10, 25, 50],
    "init": ["he"],
    "filters": [8, 16],
}
SMALL = {
    "dataset": "photos", "architecture": "cnn", "side": 8, "width": 8, "convolutions": 2, "filters": 8,
    "dense_units": 12, "init": "orthogonal", "init_scale": 1.0, "learning_rate": 0.02, "upstream": 16,
    "upstream_classes": 3, "upstream_epochs": 2, "downstream": 40, "classes": 10, "epochs": 4, "stops": 2,
    "layers": ["one", "all"], "batch_size": 8, "points": 2, "test": 20, "seed": 1,
}  # fmt: skip


def run(**other):
    return experiment.compute(**SMALL | other, device=torch.device("cpu"), report=lambda done, text: None)


@pytest.mark.parametrize("count", [1, 7, 12, 15])
def test_a_balanced_fraction_is_balanced(count):
    groups = design.balanced_design(FACTORS, count, 4, "test")
    frame = pd.DataFrame(groups)
    levels = {"seed": 3, "scale": 4, "classes": 5, "init": 1, "filters": 2}
    for name, many in levels.items():
        times = [*Counter(frame[name]).values(), *[0] * (many - frame[name].nunique())]
        assert max(times) - min(times) <= 1 and sum(times) == count
    assert groups == design.balanced_design(FACTORS, count, 4, "test")
    assert count == 1 or groups != design.balanced_design(FACTORS, count, 4, "another")


def total(columns, values):
    return sum(
        design.imbalance(columns[a], columns[b], (values[a], values[b]))
        for a, b in itertools.combinations(range(len(values)), 2)
    )


def test_no_exchange_makes_the_fraction_more_balanced():
    values, count = (3, 4, 5, 2), 11
    columns = design._nearly_orthogonal(values, count, ("test",))
    least = total(columns, values)
    for column in range(len(values)):
        for one, other in itertools.combinations(range(count), 2):
            changed = [list(entries) for entries in columns]
            changed[column][one], changed[column][other] = changed[column][other], changed[column][one]
            assert total(changed, values) >= least - 1e-9
    rng = np.random.default_rng(0)
    shuffled = [total([rng.permutation(entries).tolist() for entries in columns], values) for _ in range(20)]
    assert least < 0.7 * np.mean(shuffled)


def test_orthogonal_arrays_are_found_where_they_are_easy():
    values = (2, 3)
    assert total(design._nearly_orthogonal(values, 12, ("test",)), values) == 0
    assert design.imbalance([0, 0, 1, 1], [0, 0, 1, 1], (2, 2)) == 4  # each pair is off its 1 by 1


def test_ranges_are_cut_evenly_on_a_logarithmic_axis():
    assert design.centres(1, 16, 2) == [2.0, 8.0]
    drawn = [group["scale"] for group in design.random_design({"scale": (0.5, 2.0)}, 400, "test")]
    assert 0.5 <= min(drawn) and max(drawn) <= 2.0
    assert np.mean(np.log(drawn)) == pytest.approx(0, abs=0.1)  # log-uniform: symmetric around 1
    with pytest.raises(ValueError, match="scale goes from 2"):
        design.random_design({"scale": (2.0, 1.0)}, 3, "test")


def test_quick_is_a_fraction_with_every_level_of_every_factor():
    values = parameters.resolve(BOOK, "quick")
    made = experiment.jobs(values)
    assert len({job.name for job in made}) == len(made)
    frame = pd.DataFrame([job.arguments | {"figure": job.name[:2]} for job in made])
    for figure in sweeps.SWEEPS:
        cnn = frame[(frame["figure"] == figure) & (frame["architecture"] == "cnn")]
        for name in ("convolutions", "filters"):
            assert set(cnn[name]) == set(values[name])
        assert set(cnn["dense_units"]) == set(values[f"units_{figure}"])
        for architecture in sweeps.ARCHITECTURES:
            part = frame[(frame["figure"] == figure) & (frame["architecture"] == architecture)]
            assert set(part["upstream_classes"]) == set(values["upstream_classes"])
            shares = sorted(set((part["upstream"] / part["downstream"]).round(2)))
            assert shares == pytest.approx(values["shares"], abs=0.01)
            assert part["upstream_epochs"].nunique() == len(values["upstream_epochs"])
            assert set(part["seed"]) == set(range(values["seeds"]))
            assert part["init_scale"].nunique() == part["learning_rate"].nunique() == values["levels"]
            assert set(part["init"]) == set(sweeps.INITS[figure])
    assert (frame.loc[frame["figure"].isin(["14", "15"]), "layers"].map(len) == 1).all()


def test_paper_has_its_numbers_of_groups_and_seeds():
    made = experiment.jobs(parameters.resolve(BOOK, "paper"))
    names = [job.name for job in made]
    assert sum(name.startswith("12-") for name in names) == 3 * 20 * 2
    # Two kinds of labels, from scratch and pre-trained, one layer and all: from scratch counted once.
    assert sum(len(job.arguments["layers"]) for job in made if job.name.startswith("13-")) * 4 == 960
    scales = [job.arguments["init_scale"] for job in made if job.name.startswith("12-vgg")]
    assert 0.5 <= min(scales) < 0.8 and len(set(scales)) == 20
    (eighteen,) = {job.arguments["init_scale"] for job in made if job.name.startswith("18-")}
    assert eighteen == experiment.FIGURE_18_SCALE


def test_bad_parameters():
    with pytest.raises(AlignbookError, match="scales_12 must be two numbers, the lower first"):
        experiment.jobs(parameters.resolve(BOOK, "smoke") | {"scales_12": [2.0, 1.0]})
    with pytest.raises(AlignbookError, match="no part of the range"):
        experiment.jobs(parameters.resolve(BOOK, "smoke") | {"vgg_scales": [3.0, 4.0]})
    with pytest.raises(AlignbookError, match="design"):
        parameters.resolve(BOOK, "quick", {"design": "best"})


def test_orthogonal_filters_have_orthonormal_rows_or_columns():
    generator = torch.Generator().manual_seed(0)
    wide, tall = torch.nn.Conv2d(3, 5, 3), torch.nn.Linear(4, 9)
    for layer in (wide, tall):
        experiment.draw_layer_(layer, "orthogonal", 0.5, generator)
        assert not layer.bias.any()
    rows, columns = wide.weight.detach().flatten(1), tall.weight.detach()
    torch.testing.assert_close(rows @ rows.T, 0.25 * torch.eye(5))
    torch.testing.assert_close(columns.T @ columns, 0.25 * torch.eye(4))


def test_networks_of_a_group_differ_by_what_is_transferred():
    table = run()
    pd.testing.assert_frame_equal(table, run(), check_exact=True)
    downstream = table[table["start"] != "upstream"]
    assert len(table) == 1 + 2 * 3 * 3 and set(downstream["start"]) == {"scratch", "one", "all"}
    assert downstream.loc[downstream["labels"] == "real", "test"].between(0, 1).all()
    assert downstream.loc[downstream["labels"] == "random", "test"].isna().all()
    # Networks from scratch do not depend on pre-training; the others do.
    other = run(upstream_epochs=9)
    for start, same in (("scratch", True), ("all", False)):
        one, two = (part[part["start"] == start].reset_index(drop=True) for part in (table, other))
        assert one.equals(two) == same


@pytest.mark.parametrize("architecture", ["vgg", "resnet"])
def test_other_architectures(architecture):
    assert (
        len(run(architecture=architecture, init="he", upstream=8, upstream_epochs=1, layers=["all"]))
        == 1 + 2 * 2 * 3
    )


def test_networks_that_diverge_are_rows_without_accuracy(monkeypatch):
    def diverges(*arguments, **named):
        raise Diverged(3)

    monkeypatch.setattr(experiment, "fit", diverges)
    table = run()
    assert set(table["start"]) == {"upstream", "scratch"}  # nothing to transfer
    assert table.loc[table["start"] == "upstream", "accuracy"].isna().all()
    monkeypatch.setattr(experiment, "first_epochs", diverges)
    table = run()
    assert table["accuracy"].isna().all()
    assert analysis.comparisons(table.assign(unit="12-cnn-00-seed1", architecture="cnn", **arguments())).empty


def arguments(**other):
    return {name: SMALL[name] for name in ("init", "classes", "seed", *analysis.SCALED)} | other


LONG = {"epoch_share": 1.0, "second_dataset": "cifar100", "design": "balanced", "groups": 140, "width": 8}
LONG |= {"epochs": 200, "cnn_stops": 15, "vgg_stops": 80, "resnet_stops": 200}
LONG |= {"seeds": 3, "vgg_scales": [0.1, 10.0], "scales_12": [0.5, 1.35], "scales_13": [0.5, 2.0]}


def made_up(
    gain, figures=("12", "13"), groups=12, labels=("real", "random"), noise=0.005, reached=0.95, known=1.0
):
    """Learning curves 0.1 → ``reached`` from scratch; ``gain(group, factors)`` higher when pre-trained.

    known : share of the random labels that pre-training learned, or a function of the group's number.
    """
    rng, rows = np.random.default_rng(0), []
    for figure, architecture, number in itertools.product(figures, sweeps.ARCHITECTURES, range(groups)):
        factors = arguments(
            unit=f"{figure}-{architecture}-{number:02d}-seed{number % 3}", architecture=architecture,
            seed=number % 3, init="he" if number // 3 % 2 else "orthogonal",
            init_scale=float(rng.choice([0.5, 1.0, 2.0])),
            upstream_classes=int(rng.choice([2, 10, 50])),
        )  # fmt: skip
        learned = known(number) if callable(known) else known
        rows.append(factors | {"start": "upstream", "epoch": 9, "accuracy": learned})
        for kind in labels:
            for start in ("scratch", "one", "all"):
                share = {"scratch": 0.0, "one": 0.5, "all": 1.0}[start]
                more = share * gain(figure, factors) + rng.normal(0, noise)
                for epoch, accuracy in ((0, 0.1), (4, reached)):
                    row = {"labels": kind, "start": start, "epoch": epoch, "accuracy": accuracy + more}
                    rows.append(factors | row | {"test": 0.5 + more})
    return pd.DataFrame(rows)


claims, judged, said = judging.of(reading, LONG)


def test_areas_are_means_over_training():
    points = analysis.comparisons(made_up(lambda figure, factors: 0.2, noise=0, reached=0.9, groups=1))
    assert len(points) == 2 * 3 * 2 * 2 * 2
    whole = points[(points["layers"] == "all") & (points["what"] == "train")]
    assert whole["scratch"].to_numpy() == pytest.approx(0.5) and whole["gain"].to_numpy() == pytest.approx(20)
    assert whole["below"].all() and set(points["figure"]) == {"12", "13"}


def test_points_are_those_of_the_table_that_is_asked_for():
    one, other = (made_up(lambda figure, factors, gain=gain: gain, groups=1) for gain in (0.1, 0.2))
    for table in (one, other, one):
        fresh = analysis.comparisons.__wrapped__(table)
        pd.testing.assert_frame_equal(analysis.comparisons(table), fresh)
    assert analysis.comparisons(one) is analysis.comparisons(one)


def of_all(found, id):
    """The outcomes of a statement's architectures."""
    return {found[f"{id}-{key}"] for key in sweeps.ARCHITECTURES}


@pytest.mark.parametrize(
    ("slow", "often", "faster"), [(3, HOLDS, HOLDS), (20, CONTRADICTED, HOLDS), (14, UNDECIDED, HOLDS)]
)
def test_often_counts_groups_and_faster_weighs_them(slow, often, faster):
    def gain(figure, factors):
        return -0.02 if int(factors["unit"].split("-")[2]) < slow + (figure == "12") else 0.3

    table = made_up(gain, groups=27)
    found = judged(table)
    assert (of_all(found, "often"), of_all(found, "faster")) == ({often}, {faster})
    assert of_all(judged(table, epoch_share=0.2), "often") == {NOT_JUDGED}


def test_an_architecture_from_a_part_of_the_scales_is_not_judged():
    table = made_up(lambda *_: 0.3)
    for least, outcome in ((0.5, HOLDS), (1.1, NOT_JUDGED)):
        found = judged(table, vgg_scales=[least, 10.0])
        assert found["faster-vgg"] == outcome and found["faster-cnn"] == HOLDS
    assert "VGG-16 is drawn from 29 % of the paper's initial scales" in said(table, vgg_scales=[1.1, 10.0])


def test_architectures_of_opposite_signs_are_not_averaged():
    """Until the page was reviewed, the gain of these was absent."""
    signs = {"cnn": 0.05, "resnet": 0.05, "vgg": -0.1}
    table = made_up(lambda figure, factors: signs[factors["architecture"]])
    assert sweep_mean(table) == pytest.approx(0, abs=0.1)  # what was judged: absent
    found = judged(table)
    assert [found[f"faster-{key}"] for key in signs] == [HOLDS, HOLDS, CONTRADICTED]
    assert found["more-layers-vgg"] == CONTRADICTED and found["more-layers-cnn"] == HOLDS
    assert "it speeds up SimpleCNN (" in said(table) and "it slows VGG-16 (−" in said(table)


def sweep_mean(table):
    return analysis.by_group(reading.compared(table, LONG, *sweeps.SWEEPS)).mean()


def test_groups_that_share_their_draws_are_not_a_sample_of_draws():
    """One seed of three gains in all its groups: over groups that is sure, over seeds it is open."""
    table = made_up(lambda figure, factors: 0.1 * (factors["seed"] == 0), groups=60)
    points = reading.compared(table, LONG, *sweeps.SWEEPS, architecture="cnn")
    assert t_interval(analysis.by_group(points))[2][0] > 0
    found = claims(table)["faster-cnn"]
    assert (found.outcome, found.seeds, found.what) == (UNDECIDED, 3, "seed")


def test_points_of_a_seed_are_those_of_its_runs():
    """A group that is run with every seed has a point in each, and their mean where it is drawn."""
    one, other = (made_up(lambda *_, gain=gain: gain, ["12"], groups=1, noise=0) for gain in (0.3, -0.1))
    other["unit"] = other["unit"].str.replace("seed0", "seed1")
    both = pd.concat([one, other.assign(seed=1)])
    points = at(analysis.per_seed(both), architecture="cnn", layers="all", what="train", labels="real")
    assert points.set_index("seed")["gain"].to_dict() == pytest.approx({0: 30, 1: -10})


def test_a_group_is_the_mean_over_its_seeds():
    one = made_up(lambda figure, factors: 0.3, figures=["12"], groups=1, noise=0)
    two = made_up(lambda figure, factors: -0.1, figures=["12"], groups=1, noise=0)
    two["unit"] = two["unit"].str.replace("seed0", "seed1")
    points = analysis.comparisons(pd.concat([one, two.assign(seed=1)]))
    whole = points[(points["layers"] == "all") & (points["what"] == "train")]
    assert len(whole) == 3 * 2 and whole["gain"].to_numpy() == pytest.approx(10)


def test_points_without_learning_and_diverged_networks_are_left_out():
    table = made_up(lambda figure, factors: 0.02, noise=0, reached=0.17)
    assert not analysis.comparisons(table)["learned"].any()
    assert set(judged(table).values()) == {NOT_RUN}
    assert "nothing to compare" in said(table)
    table = made_up(lambda figure, factors: 0.04, noise=0, reached=0.17, groups=4)
    points = analysis.comparisons(table)
    assert set(points.loc[points["learned"], "layers"]) == {"all"}  # 0.21 in the end; the others 0.19
    assert analysis.left_out(table, reading.FIGURES) == (2 * 3 * 4 * 2, 0, 0)
    gone = table["unit"].eq("12-cnn-00-seed0") & table["start"].eq("all") & table["labels"].eq("real")
    table = table.assign(accuracy=table["accuracy"].mask(gone & table["epoch"].eq(4)))
    assert len(analysis.comparisons(table)) == len(points) - 1  # its test accuracies are whole
    assert analysis.left_out(table, reading.FIGURES)[2] == 1


def test_claims_come_out_either_way():
    everywhere = ("12", "13", "14", "15")
    good = made_up(lambda figure, factors: 0.1, figures=everywhere)
    found = judged(good)
    assert {found[id] for id in found if id.startswith(("faster", "resnet"))} == {HOLDS}
    assert of_all(found, "more-layers") == {HOLDS} and found["others-second-real-vgg"] == CONTRADICTED
    assert found["figure-16-real"] == NOT_RUN and "it speeds up SimpleCNN (+" in said(good)
    bad = made_up(lambda figure, factors: -0.1, figures=everywhere)
    found = judged(bad)
    assert {found[id] for id in found if id.startswith(("faster", "resnet"))} == {CONTRADICTED}
    assert of_all(found, "more-layers") == {CONTRADICTED} and found["others-second-real-cnn"] == HOLDS
    assert "it slows SimpleCNN (−" in said(bad)
    assert of_all(judged(made_up(lambda figure, factors: 0.0)), "faster") == {ABSENT}
    said_of = said(good, vgg_scales=[1.1, 10.0])
    assert "points of accuracy in the first 15 of 200 epochs) and ResNet-18 (" in said_of
    assert said_of.count("epochs") == 1  # ResNet-18 is trained for all of them
    assert "points of accuracy); for VGG-16 it is not judged. " in said_of
    assert judged(made_up(lambda figure, factors: 0.0, noise=0.1))["faster-12-real-cnn"] == UNDECIDED


def test_groups_that_did_not_learn_their_labels_are_counted_and_not_judged():
    """Half of the groups learned their labels and gain; the others lose as much: on average nothing."""

    def gain(figure, factors):
        return 0.1 if int(factors["unit"].split("-")[2]) % 2 else -0.1

    table = made_up(gain, known=lambda number: 1.0 if number % 2 else 0.3)
    assert of_all(judged(table), "faster") == {HOLDS}
    assert reading.compared(table, LONG, *sweeps.SWEEPS)["group"].nunique() == 2 * 3 * 6
    assert analysis.left_out(table, reading.FIGURES)[1] == 2 * 3 * 6 * 2 * 2
    points = analysis.comparisons(table)
    assert analysis.exact(analysis.judged(points, "12", "13")["below"])[0] == pytest.approx(0.5, abs=0.05)
    none = made_up(gain, known=0.3)
    assert of_all(judged(none), "faster") == of_all(judged(none), "rarely-hurts") == {NOT_RUN}


@pytest.mark.parametrize(("slow", "outcome"), [(1, HOLDS), (5, UNDECIDED), (20, CONTRADICTED)])
def test_it_rarely_hurts_where_few_groups_are_slower(slow, outcome):
    """Of sixty groups of a kind ``slow`` lose seven points, the others less than one."""

    def gain(figure, factors):
        return -0.09 if int(factors["unit"].split("-")[2]) < slow else -0.002

    table = made_up(gain, noise=0.001, groups=60)
    whole = {f"{key}_stops": LONG["epochs"] for key in sweeps.ARCHITECTURES}
    assert of_all(judged(table, **whole), "rarely-hurts") == {outcome}
    part = judged(table)  # of ResNet-18 alone are the areas over all epochs
    assert {part["rarely-hurts-cnn"], part["rarely-hurts-vgg"]} == {NOT_JUDGED}
    assert part["rarely-hurts-resnet"] == outcome
    points = reading.compared(table, LONG, *sweeps.SWEEPS)
    assert reading.slowed(points).mean() == pytest.approx(slow / 60) and not reading.slowed(points, 8).any()
    share = f"{100 * slow / 60:.0f} % of SimpleCNN's"
    assert (f"t slows {share}" in said(table, **whole)) == (outcome == CONTRADICTED)
    assert (f"t slows only {share}" in said(table, **whole)) == (outcome == HOLDS)
    assert of_all(judged(table, **whole, epoch_share=0.2), "rarely-hurts") == {NOT_JUDGED}
    seen = {"groups": 20}  # the groups that chose the reading
    assert of_all(judged(table, **whole, **seen), "rarely-hurts") == {NOT_JUDGED}
    assert of_all(judged(table, **whole, **seen, design="random"), "rarely-hurts") == {outcome}


def test_resnet_is_judged_over_both_kinds_of_labels():
    """Random labels lose what real ones gain, or less: B.5 speaks of all runs."""

    def turned(loss):
        table = made_up(lambda *_: 0.1)
        random = table["labels"].eq("random") & table["start"].eq("all") & table["epoch"].eq(4)
        return table.assign(accuracy=table["accuracy"] - loss * random)

    assert judged(turned(0.3))["resnet"] == HOLDS
    assert judged(turned(0.4))["resnet"] == ABSENT
    assert judged(turned(0.5))["resnet"] == CONTRADICTED


def test_whether_networks_arrive_is_counted_and_said():
    table = made_up(lambda *_: 0.1)
    table.loc[table["architecture"] == "vgg", "accuracy"] *= 0.5
    good = reading.fitted(table.assign(accuracy=table["accuracy"].where(table["start"] != "upstream", 1.0)))
    assert good.empty and reading.arrived(good) == {}
    table = table.assign(accuracy=table["accuracy"].where(table["start"] != "upstream", 1.0))
    found = reading.arrived(reading.fitted(table, "12", "13"))
    assert found == {"cnn": (96, 96), "resnet": (96, 96), "vgg": (0, 96)}
    assert "VGG-16 is stopped before" in said(table)
    assert ". Verdicts rest on 3 draws of images and labels." in said(made_up(lambda *_: 0.1))


def test_new_groups_are_compared_where_one_network_has_arrived():
    """VGG-16 loses what the others gain, but is stopped before it has learned."""
    table = made_up(lambda figure, factors: -0.3 if factors["architecture"] == "vgg" else 0.1)
    late = table["architecture"].eq("vgg") & table["epoch"].eq(4)
    table["accuracy"] -= 0.3 * late
    assert judged(table)["faster-vgg"] == NOT_RUN
    assert judged(table, **reading.SEEN)["faster-vgg"] == CONTRADICTED
    assert not reading.compared(table, LONG, "12")["architecture"].eq("vgg").any()
    assert len(reading.compared(table, LONG, "12", what="test")) == len(
        reading.fitted(table, "12", what="test")
    )
    other = made_up(lambda *_: 0.1, figures=["14"], reached=0.5)  # of no plan of new groups
    assert len(reading.compared(other, LONG, "14")) == len(reading.fitted(other, "14")) > 0


def test_the_groups_that_chose_the_reading_are_not_judged():
    table = made_up(lambda figure, factors: 0.1)
    found = judged(table, epoch_share=0.2)
    for id in ("faster", "more-layers", "decides-init-scale"):
        assert of_all(found, id) == {NOT_JUDGED}
    assert "is not judged" in said(table, epoch_share=0.2)


def test_figures_16_and_18_are_judged_over_seeds():
    seeds = []
    for seed in range(3):
        for figure, gain in (("16", 0.1), ("18", -0.1 + 0.001 * seed)):
            part = made_up(lambda *_, gain=gain: gain, figures=[figure], groups=1)
            seeds.append(part[part["architecture"] == "vgg"].assign(unit=f"{figure}-x-seed{seed}", seed=seed))
    seeds[0]["accuracy"] += np.where(seeds[0]["start"] == "scratch", 0.0, 0.01)
    table = pd.concat(seeds)
    found = judged(table)
    assert found["figure-16-random"] == found["figure-18-real"] == HOLDS
    assert of_all(found, "faster") == {NOT_RUN}
    part = judged(table, vgg_scales=[1.1, 1.45])  # of the paper's scales
    assert part["figure-18-real"] == NOT_JUDGED and part["figure-16-random"] == HOLDS
    known = table["accuracy"].where(table["start"] != "upstream", 0.3)
    hardly = judged(table.assign(accuracy=known))
    assert hardly["figure-16-random"] == hardly["figure-18-real"] == NOT_JUDGED
    half = table["accuracy"].where(table["start"] == "upstream", 0.5 * table["accuracy"])
    early = judged(table.assign(accuracy=half))  # the better network ends at 0.45
    assert early["figure-16-random"] == HOLDS and early["figure-18-real"] == NOT_JUDGED
    turned = table["accuracy"] + 0.2 * (table["start"].ne("scratch") & table["epoch"].eq(4))
    assert judged(table.assign(accuracy=turned))["figure-18-real"] == CONTRADICTED


def test_held_out_accuracy_is_judged_unless_it_is_a_guess():
    def with_test(gain, level):
        seeds = [made_up(lambda *_: gain, figures=("12", "13"))]
        for seed in range(3):
            part = made_up(lambda *_, seed=seed: gain + 0.001 * seed, figures=["17"], groups=1)
            seeds.append(part[part["architecture"] == "vgg"].assign(unit=f"17-vgg-seed{seed}", seed=seed))
        table = pd.concat(seeds)
        found = judged(table.assign(test=table["test"] - 0.5 + level))
        return [found[name] for name in ("test-12-vgg", "test-13-none-cnn", "test-17")]

    assert with_test(0.1, 0.4) == [HOLDS, CONTRADICTED, HOLDS]
    assert with_test(-0.1, 0.4) == [CONTRADICTED, HOLDS, CONTRADICTED]
    assert with_test(0.0, 0.4)[1] == HOLDS
    # CIFAR-100 has a hundred labels: five points above a guess is more there than for CIFAR-10.
    assert with_test(0.03, 0.12) == [NOT_JUDGED, NOT_JUDGED, HOLDS]
    assert with_test(0.01, 0.02)[2] == NOT_JUDGED


def test_what_decides_is_found():
    def by_scale(figure, factors):
        return 0.1 if factors["init_scale"] < 1 else -0.1 if factors["init_scale"] > 1 else 0.0

    table = made_up(by_scale, groups=30)
    found = judged(table)
    assert of_all(found, "decides-init-scale") == {HOLDS}
    assert HOLDS not in of_all(found, "decides-upstream-classes")
    turned = made_up(lambda figure, factors: -by_scale(figure, factors), groups=30)
    assert of_all(judged(turned), "decides-init-scale") == {CONTRADICTED}
    assert len(reading.key_numbers(table, LONG)) == 3


def test_what_decides_must_not_depend_on_groups_that_lose_points():
    """In every other group the scale acts the other way, and only points with real labels arrive."""

    def gain(figure, factors):
        acts = 0.1 if factors["init_scale"] < 1 else -0.1 if factors["init_scale"] > 1 else 0.0
        return acts * (1 if int(factors["unit"].split("-")[2]) % 2 else -3)

    table = made_up(gain, groups=60)
    assert of_all(judged(table), "decides-init-scale") <= {CONTRADICTED, UNDECIDED}
    even = table["unit"].str.split("-").str[2].astype(int) % 2 == 0
    lost = even & table["labels"].eq("random") & table["epoch"].eq(4)
    part = claims(table.assign(accuracy=table["accuracy"] - 0.5 * lost))
    for key in sweeps.ARCHITECTURES:
        found = part[f"decides-init-scale-{key}"]
        assert found.outcome == NOT_JUDGED and reading.SAME in found.test
    assert "more-layers-cnn" in part and part["more-layers-cnn"].requires[-1]["text"] == reading.SAME
    assert {claim.source for id, claim in part.items() if id.startswith("decides")} == {"Section 1.1"}


def test_an_effect_is_the_slope_of_a_line():
    rng = np.random.default_rng(0)
    groups = pd.DataFrame(
        {"group": [f"g{k}" for k in range(20)], "architecture": ["cnn"] * 12 + ["vgg"] * 8, "init": "he",
         "gain": rng.normal(0, 3, 20)}
        | {name: rng.choice([0.5, 1.0, 2.0], 20) for name in analysis.SCALED}
    )  # fmt: skip
    points = pd.concat([groups.assign(gain=groups["gain"] + shift) for shift in (-1, 1)])  # two a group
    slopes = []
    for _, part in groups.groupby("architecture"):
        z = np.log(part["init_scale"])
        z = (z - z.mean()) / z.std(ddof=0)
        slopes.append(np.polyfit(z, part["gain"], 1)[0])  # of one standard deviation
    effect = analysis.effect(points, "init_scale")
    assert len(effect) == 20 and effect.mean() == pytest.approx((12 * slopes[0] + 8 * slopes[1]) / 20)
    assert analysis.effect(points, "orthogonal").empty  # it does not vary


def test_shares_have_exact_intervals():
    share, (low, high) = analysis.exact([True] * 7 + [False])
    assert share == pytest.approx(7 / 8)
    assert (low, high) == pytest.approx((0.47349, 0.99684), abs=1e-4)  # a table of Clopper and Pearson's
    assert analysis.exact([]) == (None, None)
