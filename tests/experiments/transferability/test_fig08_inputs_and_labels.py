"""Figure 8: like inputs and like labels, on made-up images and tables."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED
from alignbook.data import load
from alignbook.data.street_digits import street_digits
from alignbook.errors import AlignbookError
from alignbook.runs import notebooks, parameters
from alignbook.studies.transferability.fig08_inputs_and_labels import design, experiment, reading
from alignbook.training.lenet import LeNet
from tests import judging

BOOK = notebooks.find("transferability/fig08_inputs_and_labels")
PARAMETERS = parameters.resolve(BOOK, "quick")
INPUTS = {"none": 60, "fashion_mnist": 61, "upside-down": 70, "mnist": 75}
LABELS = {"none": 40, "colours": 40.5, "classes": 55}
CROSSED = {"none": 50, "artificial": 60, "natural": 66}


def made_up(
    inputs=INPUTS, labels=LABELS, natural=CROSSED, artificial=CROSSED, seeds=4, noise=0.4, wrong=1.0,
    left=1.0, known=70.0,
):  # fmt: skip
    rng = np.random.default_rng(0)
    rows = []
    for seed in range(seeds):
        for start, mean in inputs.items():
            moved = {
                layer: (2.0 if start == "none" else 1.0) + 0.1 * rng.random() for layer in design.KERNELS
            }
            rows.append(
                {"panel": "inputs", "start": start, "accuracy": mean + noise * rng.standard_normal()} | moved
            )
            rows[-1] |= {"seed": seed, "train_error": left}
        for start, mean in labels.items():
            value = mean + noise * rng.standard_normal()
            row = {
                "panel": "labels",
                "start": start,
                "accuracy": value,
                "source_accuracy": known,
                "seed": design.SEEN + seed,
            }
            rows.append(row | {"train_error": left})
        for part in design.PARTS:
            rows.append({"panel": "source", "start": part, "source_accuracy": known, "seed": seed})
        for part, means in (("natural", natural), ("artificial", artificial)):
            for start, mean in means.items():
                for step, less in ((0, 30), (10, 0)):
                    error = 100 - mean + less + noise * rng.standard_normal()
                    row = {"panel": "crossed", "start": start, "part": part, "step": step, "seed": seed}
                    rows.append(row | {"test_error": error, "train_loss": error / 20, "train_error": wrong})
    return pd.DataFrame(rows)


claims, outcomes, finding = judging.of(reading, PARAMETERS)


def test_claims_hold_where_like_meets_like():
    judged = outcomes(made_up(artificial={"none": 50, "artificial": 66, "natural": 60}))
    assert {judged.pop(f"clothes-move-{layer}") for layer in design.KERNELS} == {NOT_JUDGED}  # seeds seen
    assert set(judged.values()) == {HOLDS} and len(judged) == 15


def test_claims_fail_where_it_does_not_matter():
    swapped = {"none": 60, "fashion_mnist": 75, "upside-down": 76, "mnist": 61}
    judged = outcomes(made_up(inputs=swapped, labels={"none": 40, "colours": 55, "classes": 41}, seeds=6))
    for id in (
        "both",
        "inputs",
        "upside-down-worse",
        "labels",
        "crossed-artificial",
        "converges-artificial",
        "clothes-help",
        "colours-help",
    ):
        assert judged[id] == CONTRADICTED, id
    assert judged["crossed-natural"] == judged["converges-natural"] == HOLDS


def test_the_weaker_of_both_decides():
    judged = outcomes(made_up(labels={"none": 40, "colours": 55, "classes": 41}))
    assert judged["inputs"] == HOLDS and judged["both"] == CONTRADICTED
    noisy = made_up()
    first = noisy["panel"] == "inputs"
    noisy.loc[first, "accuracy"] += 40 * np.random.default_rng(1).standard_normal(first.sum())
    made = claims(noisy)
    assert made["both"].outcome == made["inputs"].outcome == UNDECIDED
    assert made["both"].interval == made["inputs"].interval
    only = made_up()
    assert outcomes(only[only["panel"] != "labels"])["both"] == NOT_RUN


@pytest.mark.parametrize(("way", "outcome"), [(2.0, HOLDS), (1.6, CONTRADICTED)])
def test_after_clothes_layers_move_no_less_is_judged_on_new_seeds(way, outcome):
    table = made_up(seeds=12)
    clothes = (table["panel"] == "inputs") & (table["start"] == "fashion_mnist")
    table.loc[clothes, list(design.KERNELS)] = way + 0.1
    table.loc[clothes & (table["seed"] < reading.DRAWN), list(design.KERNELS)] = 9.0
    found = [claims(table)[f"clothes-move-{layer}"] for layer in design.KERNELS]
    assert {claim.outcome for claim in found} == {outcome} and found[0].post_hoc
    assert {claim.seeds for claim in found} == {4}


def test_a_loss_is_no_improvement_but_not_a_small_one():
    judged = outcomes(
        made_up(labels=LABELS | {"colours": 30}, inputs=INPUTS | {"fashion_mnist": 50}, seeds=6)
    )
    assert judged["colours-help"] == HOLDS and judged["clothes-help"] == CONTRADICTED


def test_colours_that_help_are_told():
    table = made_up(labels=LABELS | {"colours": 48}, seeds=7)
    found = claims(table)["colours-help"]
    assert found.outcome == CONTRADICTED and found.seeds == 7
    assert "colours help, too, against the paper." in finding(table)


def test_colours_that_help_by_about_the_margin_are_told_with_how_much():
    table = made_up(labels=LABELS | {"colours": 42.3}, seeds=7, noise=0.6)
    found = claims(table)["colours-help"]
    assert found.outcome == UNDECIDED and found.interval[0] > 0
    said = f"Colours help, by {found.measured:.1f} points where the paper says not at all; whether they"
    assert said in finding(table)


def test_convergence_is_the_mean_loss_over_the_steps():
    rows = [
        {"panel": "crossed", "part": "natural", "start": start, "seed": 0, "step": step, "train_loss": loss}
        for start, losses in (("natural", (2, 0, 0)), ("artificial", (2, 2, 0)))
        for step, loss in zip((0, 1, 3), losses, strict=True)
    ]
    # Areas 1 + 0 and 2 + 2.
    assert reading.convergence(pd.DataFrame(rows), {}, "natural").tolist() == [2.0]
    assert reading.convergence(pd.DataFrame(rows), {}, "artificial").empty


def test_networks_that_have_not_learned_their_target_decide_nothing():
    found = claims(made_up(wrong=24.0))
    assert found["crossed-natural"].outcome == found["crossed-artificial"].outcome == NOT_JUDGED
    assert "at most 5; here 24" in found["crossed-natural"].test and found["both"].outcome == HOLDS
    unknown = made_up()
    unknown.loc[unknown["panel"] == "labels", "train_error"] = np.nan  # of (b) it is not stored
    found = outcomes(unknown)
    assert {id for id in found if found[id] == NOT_JUDGED and "move" not in id} == {
        "both", "labels", "classes-help", "colours-help",
    }  # fmt: skip
    assert finding(unknown).startswith("We do not judge") and finding(made_up(wrong=24.0, left=6.0))
    assert outcomes(made_up(left=6.0))["inputs"] == NOT_JUDGED
    assert "The networks of (c) and (d) have not learned" in finding(made_up(wrong=24.0))
    assert "(c)" not in finding(made_up())
    alike = {"none": 50, "artificial": 60, "natural": 60}
    assert "classes crossed, neither source is clearly best." in finding(
        made_up(natural=alike, artificial=alike)
    )


def test_sources_that_are_not_learned_decide_nothing():
    def decided(found):
        return {id for id in found if found[id] in (HOLDS, CONTRADICTED)}

    rests = {"both", "labels", "classes-help", "colours-help", *(f"crossed-{part}" for part in design.PARTS)}
    rests |= {f"converges-{part}" for part in design.PARTS}
    good, poor = (outcomes(made_up(seeds=8, known=known)) for known in (60.0, 59.0))
    assert decided(good) - decided(poor) == rests
    assert "a source of (b) has not been learned" in finding(made_up(known=59.0))
    classes = made_up(seeds=8)
    classes.loc[classes["start"] == "classes", "source_accuracy"] = 17.0
    found = outcomes(classes)
    assert {id for id in rests if found[id] == NOT_JUDGED} == {"both", "labels", "classes-help"}
    unknown = made_up(seeds=8)
    found = claims(unknown[unknown["panel"] != "source"])
    assert found["crossed-natural"].outcome == found["converges-natural"].outcome == NOT_JUDGED
    assert found["both"].outcome == HOLDS and "not measured" in found["crossed-natural"].test


def test_nothing_and_one_seed():
    assert "do not include both" in finding(pd.DataFrame({"unit": []}))
    assert set(outcomes(made_up(seeds=1)).values()) == {UNDECIDED, NOT_JUDGED}


def test_the_finding_follows_the_headline():
    held = finding(made_up(noise=0.1))
    assert held.startswith("Pre-training helps") and "by 14.0 points" in held
    turned = finding(made_up(labels={"none": 40, "colours": 55, "classes": 41}))
    assert turned.startswith("Similar inputs or similar labels transfer worse") and "by -13.8" in turned
    assert len(reading.key_numbers(made_up(), PARAMETERS)) == 3


def test_street_digits_are_none_of_those_of_pre_training(monkeypatch):
    seen = []

    def grey(x, generator):
        seen.append(x)
        return street_digits(x, generator)

    def wide(x):
        return torch.nn.functional.interpolate(x, (28, 28), mode="bilinear")

    monkeypatch.setattr(experiment, "street_digits", grey)
    for seed in range(2):
        before, together = (load("digits", n=n, seed=seed) for n in (50, 90))
        x, y = experiment._street("digits", "train", 40, seed, after=50)
        assert x.shape == (40, 3, 32, 32) and torch.equal(torch.cat([before.y, y]), together.y)
        torch.testing.assert_close(torch.cat([wide(before.x), seen.pop()]), wide(together.x))


def test_street_digits_can_be_read_and_differ():
    grey = -torch.ones(3, 1, 28, 28)
    grey[:, :, 10:18, 10:18] = 1
    made = street_digits(grey, torch.Generator().manual_seed(0))
    assert made.shape == (3, 3, 32, 32) and made.min() >= -1 and made.max() <= 1
    for image in made:
        # The ink, wherever it moved, is some 64 pixels away from the ground's mean colour.
        away = (image - image.flatten(1).median(1).values[:, None, None]).abs().amax(0)
        assert 50 < (away > 0.5).sum() < 90
    assert torch.equal(made, street_digits(grey, torch.Generator().manual_seed(0)))
    assert not torch.equal(made[0], made[1])
    with pytest.raises(ValueError, match="28, 28"):
        street_digits(torch.zeros(2, 1, 8, 8), torch.Generator())


def test_colours_are_thirds_of_the_upper_half_alone():
    generator = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(900, 3, 1, 1, generator=generator).expand(900, 3, 4, 4).clone() - 1
    found = experiment.upper_colours(x, x)
    light, red = found // 3, found % 3
    assert torch.bincount(light).tolist() == torch.bincount(red).tolist() == [300, 300, 300]
    order = x[:, :, 0, 0].mean(1).argsort()
    assert light[order].diff().ge(0).all()
    changed = x.clone()
    changed[:, :, 2:] = 1
    assert torch.equal(experiment.upper_colours(changed, changed), found)
    assert found[x[:, 0, 0, 0].sub(x[:, 2, 0, 0]).argmax()] % 3 == 2


def test_lenet_has_the_layers_that_the_figure_follows():
    net = LeNet(10, torch.Generator().manual_seed(0))
    assert net(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    assert set(design.KERNELS) <= {name for name, _ in net.named_children()}
    assert sum(p.numel() for p in net.parameters()) == 62006  # 61,706 with one colour (LeCun et al. 1998)


def test_jobs_and_bad_parameters():
    made = experiment.jobs(PARAMETERS)
    assert len(made) == PARAMETERS["digit_seeds"] * 4 + PARAMETERS["seeds"] * (3 + 6 + 2)
    assert {job.arguments["dataset"] for job in made if "dataset" in job.arguments} == {"mnist", "cifar100"}
    real = experiment.jobs(PARAMETERS | {"street": "svhn", "source_accuracy": False})
    assert len(real) == len(made) - 2 * PARAMETERS["seeds"]
    assert {job.arguments["dataset"] for job in real} == {"svhn", "cifar100"}
    of_labels = [job.arguments for job in made if job.name.startswith("labels-")]
    assert {a["part"] for a in of_labels} == {"natural"}
    assert {a["seed"] for a in of_labels} == {design.SEEN + seed for seed in range(PARAMETERS["seeds"])}
    with pytest.raises(AlignbookError, match="street"):
        parameters.resolve(BOOK, "quick", {"street": "walls"})


def test_labels_on_a_part_and_on_the_whole_share_their_source(monkeypatch, tmp_path):
    monkeypatch.setenv("ALIGNBOOK_RESULTS", str(tmp_path))
    run = {"device": "cpu", "report": lambda done, text: None}
    made = {job.name: job for job in experiment.jobs(parameters.resolve(BOOK, "smoke"))}
    job = made[f"labels-colours-seed{design.SEEN}"]
    part, whole = (job.compute(**job.arguments | {"part": name}, **run) for name in ("natural", "all"))
    assert 0 <= part["accuracy"][0] <= 100 and part["source_accuracy"][0] == whole["source_accuracy"][0]
    source = made["source-natural-seed0"]
    assert 0 <= source.compute(**source.arguments, **run)["source_accuracy"][0] <= 100


def test_a_job_of_each_panel(monkeypatch, tmp_path):
    monkeypatch.setenv("ALIGNBOOK_RESULTS", str(tmp_path))  # no network from an earlier run
    made = {job.name: job for job in experiment.jobs(parameters.resolve(BOOK, "smoke"))}
    tables = []
    for name in (
        "inputs-upside-down-seed0",
        f"labels-colours-seed{design.SEEN}",
        "crossed-none-to-natural-seed0",
    ):
        job = made[name]
        tables.append(job.compute(**job.arguments, device="cpu", report=lambda done, text: None))
    first, second, third = tables
    assert (first[list(design.KERNELS)] > 0).all(axis=None) and 0 <= first["accuracy"][0] <= 100
    assert 0 <= second["source_accuracy"][0] <= 100 and second["start"][0] == "colours"
    assert all(0 <= table["train_error"].iloc[-1] <= 100 for table in tables)
    assert third["step"].is_monotonic_increasing and third["step"].iloc[-1] == job.arguments["steps"]
    table = pd.concat([table.assign(seed=0, part="natural") for table in tables])
    assert list(reading.accuracies(table, "crossed", "natural").columns) == ["none"]
