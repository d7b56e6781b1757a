import itertools
import math
import types

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import CONTRADICTED, HOLDS, NOT_RUN, OPPOSED, UNDECIDED
from alignbook.studies.transferability import imagenet_source
from alignbook.studies.transferability.tab01_weight_deviation import experiment as tab01
from alignbook.studies.transferability.tuned import recorded, target, tuned
from alignbook.training import loop

PARAMETERS = {
    "targets": ["photos-natural", "digits"],
    "source": "photos",
    "pretrain_epochs": 1,
    "pretrain_images": 128,
    "width": 8,
    "blocks": 1,
    "examples": 35,
    "batch_size": 16,
    "learning_rate": 0.05,
    "epochs": 2,
    "decay_epochs": [1],
    "hidden": 7,
    "fixed_rate": 0.05,
    "fixed_epochs": 2,
    "imagenet_weights": "random",
    "imagenet_targets": ["photos-natural"],
    "imagenet_examples": 35,
    "imagenet_test_images": 9,
    "imagenet_epochs": 2,
    "seeds": 2,
    "source_accuracy": False,
}
TARGETS = {"cifar10": 60, "cifar10-natural": 50, "shapes": 30, "mnist": 10, "fashion_mnist": 20}


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGNBOOK_RESULTS", str(tmp_path))
    return tmp_path / ".checkpoints"


def run(unit, told=None):
    def report(done, text=""):
        if told is not None:
            told.append(done)

    table = unit.compute(**unit.arguments, device=torch.device("cpu"), report=report)
    scalars = {k: v for k, v in unit.arguments.items() if isinstance(v, str | int | float) and k not in table}
    return table.assign(unit=unit.name, **scalars)


def made(deviation=lambda error: error / 10, seeds=3, errors=None, path=lambda share: 1 - (1 - share) ** 8):
    """A table as of all units: test errors by target, the deviation a function of them, along ``path``."""
    noise, rows = np.random.default_rng(0), []
    settings = itertools.product(tab01.SETTINGS, (errors or TARGETS).items(), range(seeds))
    for setting, (name, error), seed in settings:
        error, end = error * noise.uniform(0.98, 1.02), deviation(error) * noise.uniform(0.99, 1.01)
        for step in recorded(240):
            row = {"setting": setting, "seed": seed, "step": step, "deviation": end * path(step / 240)}
            row |= {"classifier": "two-layer" if setting == "fixed" else "linear", "test_error": error}
            rows.append(row | tab01.named(name))
    return pd.DataFrame(rows)


def outcomes(table):
    return {claim.id: claim.outcome for claim in tab01.claims(table, PARAMETERS)}


def test_units_name_target_part_and_steps():
    units = {unit.name: unit for unit in tab01.units(PARAMETERS)}
    assert len(units) == 2 * 2 * 2 + 2 * 2
    natural = units["photos-natural-fine-tuned-seed1"].arguments
    assert (natural["dataset"], natural["part"], natural["seed"]) == ("photos", "natural", 1)
    assert (natural["steps"], natural["decay_at"]) == (2 * (35 // 16), [2])
    assert units["digits-fixed-seed0"].arguments["steps"] == 4
    for name in ("cifar10", "cifar10-natural", "fashion_mnist"):
        assert tab01.name_of(**tab01.named(name)) == name


def test_a_fine_tuned_unit_measures_what_moved(store, monkeypatch):
    seconds = itertools.count(0, 2)  # a report is due at every step
    monkeypatch.setattr(loop, "time", types.SimpleNamespace(monotonic=lambda: next(seconds)))
    unit = tab01.fine_tuned_units("photos-natural", PARAMETERS)[0]
    told = []
    table = run(unit, told)
    assert told and all(0 <= done <= 1 for done in told)
    files = sorted(store.glob("*.pt"))
    pd.testing.assert_frame_equal(run(unit), table)  # from the checkpoint
    assert sorted(store.glob("*.pt")) == files and len(files) == 2  # the source's network and this one
    assert table["step"].tolist() == recorded(4) == [0, 1, 2, 3, 4]
    found = tuned(
        **{k: v for k, v in unit.arguments.items() if k != "decay_at"},
        decay_at=(2,),
        start="pretrained",
        record=recorded(4),
    )
    before, after = dict(found.before.named_parameters()), dict(found.after.named_parameters())
    norms = {k: float((after[k] - before[k]).detach().double().norm()) for k in before if before[k].ndim > 1}
    assert table["deviation"].iloc[0] == 0
    assert table["deviation"].iloc[-1] == pytest.approx(sum(norms.values()) / math.sqrt(35), rel=1e-5)
    assert table["head"].iloc[-1] == pytest.approx(norms["head.weight"] / math.sqrt(35), rel=1e-5)
    assert table["head"].iloc[:-1].isna().all()
    x, y, x_test, y_test, classes = target("photos", 35, 0, "natural")
    assert classes == 5 and len(x) == 35
    with torch.no_grad():
        wrong = [
            float((found.after(images).argmax(1) != labels).double().mean())
            for images, labels in ((x, y), (x_test, y_test))
        ]
    assert table[["train_error", "test_error"]].iloc[-1].tolist() == pytest.approx(
        [100 * w for w in wrong], abs=0.2
    )


def test_a_fixed_unit_trains_both_classifiers_and_leaves_the_network(store):
    unit = tab01.fixed_units("digits", PARAMETERS)[1]
    table = run(unit)
    assert table["step"].tolist() == 2 * recorded(4)
    ends = table.groupby("classifier").last()
    assert (table.groupby("classifier")["deviation"].first() == 0).all()
    assert (ends["deviation"] > 0).all()
    assert ends.loc["two-layer", "hidden_deviation"] > 0 and math.isnan(
        ends.loc["linear", "hidden_deviation"]
    )
    assert (ends["train_loss"] < table.groupby("classifier")["train_loss"].first()).all()
    (network,) = store.glob("*.pt")
    content = network.read_bytes()
    run(unit)
    assert network.read_bytes() == content


def test_units_of_the_second_source(store):
    units = {unit.name: unit for unit in tab01.imagenet_units(PARAMETERS)}
    fine = run(units["imagenet-photos-natural-fine-tuned-seed1"])
    assert fine["step"].tolist() == recorded(4) and len(list(store.glob("*.pt"))) == 1
    pd.testing.assert_frame_equal(run(units["imagenet-photos-natural-fine-tuned-seed1"]), fine)
    before = imagenet_source.initial("random", "pretrained", "photos", "natural", 5, 1)
    found = imagenet_source.imagenet_tuned(
        **units["imagenet-photos-natural-fine-tuned-seed1"].arguments, start="pretrained"
    )
    assert all(torch.equal(a, b) for a, b in zip(before.parameters(), found.before.parameters(), strict=True))
    moved = tab01.weight_deviation(before, found.after, n=35).total
    assert fine["deviation"].iloc[[0, -1]].tolist() == pytest.approx([0, moved])
    assert fine["test_error"].notna().tolist() == [False] * 4 + [True]
    fixed = run(units["imagenet-photos-natural-fixed-seed1"])
    assert fixed["deviation"].is_monotonic_increasing and (fixed["classifier"] == "two-layer").all()
    assert (9 * fixed["test_error"] / 100 % 1).round(6).isin([0, 1]).all()  # of nine images


def test_the_classifier_is_that_of_the_appendix():
    net = tab01._classifier("two-layer", 6, 7, 3, torch.Generator().manual_seed(0))
    first, norm, act, last = list(net)[1:]
    x = torch.randn(5, 6, 1, 1, generator=torch.Generator().manual_seed(1))
    flat = x[:, :, 0, 0] @ first.weight.T + first.bias
    flat = (flat - flat.mean(0)) / (flat.var(0, unbiased=False) + norm.eps).sqrt()
    plain = torch.where(flat > 0, flat, 0.01 * flat) @ last.weight.T + last.bias
    torch.testing.assert_close(net.train()(x), plain)
    assert first.weight.abs().max() <= 1 / math.sqrt(6) and last.weight.abs().max() <= 1 / math.sqrt(7)
    other = tab01._classifier("two-layer", 6, 7, 3, torch.Generator().manual_seed(0))
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), other.parameters(), strict=True))


def test_bad_arguments_are_told(store):
    with pytest.raises(ValueError, match="but photos has"):
        target("photos", 10**6, 0)
    with pytest.raises(ValueError, match="known: pretrained"):
        tuned(
            "photos", examples=9, start="random", source=None, pretrain_epochs=1, width=8, blocks=1, steps=1,
            learning_rate=0.1, seed=0,
        )  # fmt: skip


def test_the_printed_tables_own_correlations():
    ranks = {"fixed": ([1, 4, 3, 2, 5], [3, 4, 2, 1, 5]), "fine-tuned": ([1, 4, 3, 2, 5], [2, 5, 3, 1, 4])}
    for setting, (errors, deviations) in ranks.items():
        plain = 1 - 6 * sum((a - b) ** 2 for a, b in zip(errors, deviations, strict=True)) / (5 * 24)
        assert tab01.ordering(tab01.printed(setting)) == pytest.approx(plain)
    assert 1 / tab01.proportion(tab01.printed("fixed")) == pytest.approx((0.096 / 0.45) / (0.165 / 24.2))


def test_measures_against_plain_ones():
    rows = pd.DataFrame(
        {
            "target": ["cifar10"] * 3 + ["mnist"] * 3,
            "step": [0, 2, 4] * 2,
            "deviation": [0, 3, 4, 0, 2, 1.0],
            "seed": 0,
        }
    )
    assert tab01.smallest_rise(rows) == pytest.approx(-100)
    assert tab01.reached(rows, 3 / 4).to_dict() == pytest.approx({"cifar10": 87.5, "mnist": 150})
    assert tab01.farther(rows.groupby("target", as_index=False).last()) == pytest.approx(0 - 2)
    assert math.isnan(tab01.farther(rows[(rows["target"] == "mnist") & (rows["step"] == 4)]))


def test_claims_hold_where_the_text_does():
    rough = np.random.default_rng(2)
    found = outcomes(made(path=lambda share: 1 - (1 - share) ** rough.uniform(7, 9)))
    for setting in tab01.SETTINGS:
        assert {found[f"{id}-{setting}"] for id in ("ordering", "converges")} == {HOLDS}
        assert found[f"proportional-{setting}"] == OPPOSED  # by the printed table
    assert outcomes(made(path=lambda share: share * rough.uniform(0.999, 1.001)))["monotone-fixed"] == HOLDS


@pytest.mark.parametrize(("count", "outcome"), [(4, UNDECIDED), (5, HOLDS)])
def test_where_all_seeds_rank_alike_chance_over_targets_decides(count, outcome):
    # Of four targets 2 of 24 orders are as far from none as a perfect one, of five 2 of 120.
    table = made(errors=dict(list(TARGETS.items())[:count]))
    claim = next(c for c in tab01.claims(table, PARAMETERS) if c.id == "ordering-fixed")
    assert claim.outcome == outcome and claim.measured == pytest.approx(1)
    assert f"p = {2 / math.factorial(count):.3f}" in claim.test


@pytest.mark.parametrize(("sign", "outcome"), [(1, HOLDS), (-1, CONTRADICTED)])
def test_ordering_and_nearness_come_out_either_way(sign, outcome):
    table = made(deviation=lambda error: error**sign)
    # A target of its own error in one seed, so that the correlation has a spread.
    swapped = (table["seed"] == 1) & table["dataset"].isin(["mnist"])
    table.loc[swapped, "test_error"] = 25.0
    found = outcomes(table)
    assert found["ordering-fixed"] == found["ordering-fine-tuned"] == outcome
    assert found["nearer-fine-tuned"] == (CONTRADICTED if sign > 0 else HOLDS)  # here the near ones err more
    text = tab01.finding(table, PARAMETERS)
    assert ("farther where the test error is larger" in text) == (sign > 0)
    assert ("less far where it is larger" in text) == (sign < 0)


def test_paths_that_fall_or_do_not_end_disagree():
    rough = np.random.default_rng(1)
    table = made(path=lambda share: share * rough.uniform(0.99, 1.01))
    assert outcomes(table)["converges-fixed"] == CONTRADICTED
    falling = made(path=lambda share: math.sin(2.5 * share) * rough.uniform(0.999, 1.001))
    assert outcomes(falling)["monotone-fine-tuned"] == CONTRADICTED


@pytest.mark.parametrize(("sign", "outcome"), [(1, HOLDS), (-1, CONTRADICTED)])
def test_the_second_source_has_claims_of_its_own(sign, outcome):
    ours = made()
    second = made(deviation=lambda error: error**sign).assign(weights="imagenet")
    table = pd.concat([ours.assign(weights=None), second], ignore_index=True)
    alone, both = outcomes(ours), outcomes(table)
    assert {id for id in alone if alone[id] != both[id]} == {id for id in both if "-imagenet-" in id}
    assert both["ordering-imagenet-fixed"] == both["ordering-imagenet-fine-tuned"] == outcome
    assert both["monotone-imagenet-fixed"] == HOLDS and alone["ordering-imagenet-fixed"] == NOT_RUN
    text, said = tab01.finding(table, PARAMETERS), tab01.finding(ours, PARAMETERS)
    assert text.startswith(said)
    assert f"from ImageNet, over 5: {sign:.2f}" in text
    in_its_place = table.replace({"weights": {"imagenet": "random"}})
    assert outcomes(in_its_place) == alone and tab01.finding(in_its_place, PARAMETERS) == said
    assert tab01.key_numbers(table, PARAMETERS) == tab01.key_numbers(ours, PARAMETERS)


def test_tables_of_few_targets_or_none():
    assert set(outcomes(pd.DataFrame({"unit": []})).values()) <= {NOT_RUN, OPPOSED}
    assert tab01.finding(pd.DataFrame({"unit": []}), PARAMETERS) == "Nothing was measured."
    two = made(errors={"digits": 3, "photos": 9})
    assert outcomes(two)["ordering-fixed"] == NOT_RUN
    assert tab01.finding(two, PARAMETERS) == "Too few targets to rank."
    assert len(tab01.key_numbers(two, PARAMETERS)) == len(tab01.key_numbers(made(), PARAMETERS)) == 3


def test_a_seed_without_all_targets_is_left_out():
    table = made(seeds=4)
    lost = (table["seed"] == 2) & (table["dataset"] == "mnist")
    rows = tab01.ends(tab01.series(table[~lost], "fixed"))
    assert len(tab01.by_seed(rows, tab01.ordering)) == 3


def test_the_source_is_tested_where_asked_for(store):
    given = PARAMETERS | {"source_accuracy": True, "pretrain_images": 64}
    assert tab01.source_units(PARAMETERS) == [] and len(tab01.source_units(given)) == PARAMETERS["seeds"]
    assert tab01.source_units(given)[0] in tab01.units(given)
    unit = tab01.source_units(given)[1]
    found = unit.compute(**unit.arguments, device="cpu", report=lambda done, text: None)
    net = tab01.pretrained(
        given["source"], epochs=given["pretrain_epochs"], images=64, width=given["width"],
        blocks=given["blocks"], seed=1,
    )  # fmt: skip
    test = tab01.load(given["source"], "test")
    with torch.no_grad():
        right = net(tab01.colour32(test.x)).argmax(1) == test.y
    assert found["source_test_accuracy"].item() == pytest.approx(100 * right.double().mean().item())
    assert 0 <= found["source_train_accuracy"].item() <= 100
    table = made()
    both = pd.concat([table, found], ignore_index=True)
    for said in (tab01.claims, tab01.finding, tab01.key_numbers):
        assert said(both, PARAMETERS) == said(table, PARAMETERS)
