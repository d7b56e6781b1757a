"""Figure 3's experiment on digits, and its fits and verdicts on made-up peaks."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.errors import Diverged
from alignbook.experiments.signal_propagation import fig03_peak_law as fig03

PARAMETERS = {
    "datasets": ["digits"],
    "depths": [3, 5],
    "variation_dataset": "digits",
    "variation_depths": [3],
    "choice_datasets": ["digits"],
    "choice_depths": [5],
    "width": 12,
    "cifar10_width": 20,
    "batch_size": 64,
    "epochs_factor": 0.03,
    "momentum": 0.9,
    "weight_decay": 0.0005,
    "train_images": 300,
    "alignment_images": 20,
    "seeds": 2,
}
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def short_bootstrap(monkeypatch):
    monkeypatch.setattr(fig03, "BOOTSTRAP", 200)


def compute(unit, **changes):
    return fig03.compute(**{**unit.arguments, **changes}, device=CPU, report=lambda done, text: None)


def made_up(peaks, dataset="mnist", setting="tables", accuracy=0.9):
    """A table of networks from {(depth, seed): peak}."""
    frames = []
    for (depth, seed), peak in peaks.items():
        layer = np.arange(1, depth + 1)
        frames.append(
            pd.DataFrame(
                {
                    "layer": layer,
                    "alignment": 1.0 / (1 + np.abs(layer - peak)),
                    "alignment_half": 1.0 * layer,
                    "alignment_init": 1.0 / layer,
                    "test_accuracy": accuracy + 1e-4 * (seed - 1),
                    "train_loss": 0.1,
                    "dataset": dataset,
                    "setting": setting,
                    "depth": depth,
                    "seed": seed,
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


def judged(table, **changes):
    parameters = {**PARAMETERS, "datasets": ["mnist"], "depths": list(range(10, 101, 10))}
    parameters |= {"variation_dataset": "mnist", **changes}
    return {claim.id: claim for claim in fig03.claims(table, parameters)}


def test_units_are_complete_and_unique():
    units = fig03.units(PARAMETERS)
    assert len({unit.name for unit in units}) == len(units) == (2 + 2 + 4) * 2
    assert all(set(unit.arguments) >= {"dataset", "depth", "setting", "seed"} for unit in units)
    assert json.loads(json.dumps(units[0].arguments)) == units[0].arguments
    by_setting = {unit.arguments["setting"]: unit.arguments for unit in units if unit.arguments["depth"] == 3}
    assert by_setting["low rate"]["learning_rate"] == by_setting["tables"]["learning_rate"] / 4
    assert by_setting["large batch"]["batch_size"] == 256
    deep = {unit.arguments["setting"]: unit.arguments for unit in units if unit.arguments["depth"] == 5}
    for setting, changes in fig03.CHOICES.items():
        assert deep[setting] == deep["tables"] | {"setting": setting} | changes != deep["tables"]


def test_variation_brings_its_own_comparison():
    units = fig03.units({**PARAMETERS, "variation_depths": [7], "choice_depths": [9], "seeds": 1})
    settings = {depth: [] for depth in (3, 5, 7, 9)}
    for unit in units:
        settings[unit.arguments["depth"]].append(unit.arguments["setting"])
    assert sorted(settings[7]) == ["large batch", "low rate", "tables"]
    assert sorted(settings[9]) == sorted(["tables", *fig03.CHOICES])


def test_choices_on_several_data_sets():
    """On CIFAR-10 the width of the text is the table's: no network twice."""
    units = fig03.units({**PARAMETERS, "choice_datasets": ["cifar10", "mnist"], "seeds": 1})
    settings = {name: [] for name in fig03.NAMES}
    for unit in units:
        settings.setdefault(unit.arguments["dataset"], []).append(unit.arguments["setting"])
    assert sorted(settings["cifar10"]) == sorted({"tables", *fig03.CHOICES, *fig03.PREPARED} - {"width 256"})
    assert sorted(settings["mnist"]) == sorted(["tables", *fig03.CHOICES])
    assert settings["fashion_mnist"] == []


def test_prepared_images_train_the_same_network_whatever_their_scale(monkeypatch):
    """Standardised, images that are darker and flatter give the same table; crops and flips another."""
    asked = {**PARAMETERS, "choice_datasets": ["cifar10"], "seeds": 1}
    units = {unit.arguments["setting"]: unit for unit in fig03.units(asked)}
    run = {"dataset": "digits", "depth": 3, "width": 12, "device": CPU, "report": lambda *_: None}

    def table(name):
        assert units[name].compute is fig03.compute_prepared
        return fig03.compute_prepared(**units[name].arguments | run)

    plain, moved = table("standardised"), table("crops and flips")
    assert list(plain["layer"]) == [1, 2, 3] and plain["alignment"].between(0, 1).all()
    assert (plain["alignment_init"] == moved["alignment_init"]).all()
    assert plain["train_loss"].iloc[0] != moved["train_loss"].iloc[0]
    loaded = fig03.load

    def darker(*asked, **more):
        found = loaded(*asked, **more)
        return replace(found, x=0.25 * found.x - 0.5)

    monkeypatch.setattr(fig03, "load", darker)
    pd.testing.assert_frame_equal(table("standardised"), plain, rtol=1e-2)


@pytest.mark.parametrize(
    ("dataset", "depth", "expected"),
    [
        ("cifar10", 100, (0.0001, 700)),
        ("mnist", 70, (0.0002, 200)),
        ("fashion_mnist", 15, (0.003, 100)),  # as near to 20: the smaller
        ("digits", 1000, (0.00007, 300)),
    ],
)
def test_schedule(dataset, depth, expected):
    assert fig03.schedule(dataset, depth) == expected


def test_paper_profile_has_the_tables_rates():
    parameters = {**PARAMETERS, "datasets": ["cifar10"], "depths": [90], "epochs_factor": 1.0}
    arguments = fig03.units(parameters)[0].arguments
    assert (arguments["learning_rate"], arguments["epochs"], arguments["width"]) == (0.0001, 500, 20)


def test_table_learns_and_repeats_bit_for_bit():
    unit = fig03.units(PARAMETERS)[0]
    table = compute(unit, epochs=30, learning_rate=0.02)
    alignments = table[["alignment", "alignment_half", "alignment_init"]].to_numpy()
    assert list(table["layer"]) == [1, 2, 3]
    assert alignments.min() > 0 and alignments.max() < 1
    assert table["test_accuracy"].iloc[0] > 0.6  # six times chance
    assert table["train_accuracy"].iloc[0] > 0.6
    assert (table["alignment"] > table["alignment_init"]).any()
    pd.testing.assert_frame_equal(table, compute(unit, epochs=30, learning_rate=0.02), check_exact=True)
    other = compute(unit, epochs=30, learning_rate=0.02, seed=1)
    assert not np.array_equal(table["alignment"], other["alignment"])


def test_last_incomplete_batch_is_used(monkeypatch):
    sizes, step = [], fig03.MLP.step

    def counted(self, x, *arguments):
        sizes.append(len(x))
        return step(self, x, *arguments)

    monkeypatch.setattr(fig03.MLP, "step", counted)
    compute(fig03.units(PARAMETERS)[0], train_images=65, epochs=2)
    assert sizes == [64, 1, 64, 1]


def written_out(mlp, x, y, *, epochs, batch_size, learning_rate, momentum, weight_decay, generator):
    """SGD without the loop; the mean loss of the last epoch, in single precision."""
    for _ in range(epochs):
        mean = torch.zeros(())
        for index in torch.randperm(len(x), generator=generator).split(batch_size):
            loss = mlp.step(x[index], y[index], learning_rate, momentum, weight_decay)
            mean.add_(loss, alpha=len(index) / len(x))
    return mean.item()


@pytest.mark.parametrize("epochs", [1, 3])
def test_the_same_bits_as_written_out(epochs):
    asked = fig03.units(PARAMETERS)[0].arguments | {"train_images": 130, "epochs": epochs}  # 64, 64 and 2
    table = fig03.compute(**asked, device=CPU, report=lambda done, text: None)
    x, y = fig03.images("digits", "train", 130, asked["seed"], CPU)
    x_test, y_test = fig03.images("digits", "test", 0, asked["seed"], CPU)
    weights, order = (fig03.torch_stream(asked["seed"], "fig03", what, 3) for what in ("weights", "order"))
    mlp = fig03.MLP(x.shape[1], asked["width"], 3, 10, weights)
    names = ("epochs", "batch_size", "learning_rate", "momentum", "weight_decay")
    loss = written_out(mlp, x, y, **{name: asked[name] for name in names}, generator=order)
    assert (table["train_loss"] == loss).all()
    sample = torch.randperm(130, generator=fig03.torch_stream(asked["seed"], "fig03", "alignment"))[:20]
    np.testing.assert_array_equal(
        table["alignment"], fig03.tangent_alignment(mlp.sequential(), x[sample], y[sample])
    )
    right = (mlp.logits(x_test).argmax(1) == y_test).sum()
    assert table["test_accuracy"].iloc[0] == float(right / len(y_test))


def test_half_of_the_images_are_the_first_half():
    unit = fig03.units(PARAMETERS)[0]
    whole, half = (compute(unit, alignment_images=n, epochs=2) for n in (20, 10))
    np.testing.assert_array_equal(whole["alignment_half"], half["alignment"])
    assert not np.allclose(whole["alignment_half"], whole["alignment"])


def test_divergence_is_raised():
    with pytest.raises(Diverged), np.errstate(all="ignore"):
        compute(fig03.units(PARAMETERS)[0], learning_rate=1e6, epochs=3)


def test_networks_that_did_not_learn_enter_no_fit():
    good = made_up({(d, s): round(d**0.6) for d in (10, 20, 40, 80) for s in range(3)})
    bad = made_up({(100, s): 100 for s in range(3)}, accuracy=0.1)
    nets = fig03.networks(pd.concat([good, bad]))
    assert nets["learned"].sum() == 12 and len(nets) == 15
    assert (nets["peak_half"] == nets["depth"]).all() and (nets["peak_init"] == 1).all()
    both, alone = judged(pd.concat([good, bad])), judged(good)
    assert both["slope-mnist"] == alone["slope-mnist"]


def test_ties_and_dead_layers():
    table = made_up({(4, 0): 2, (3, 0): 2})
    table.loc[table["depth"] == 4, "alignment"] = [np.nan, 0.5, 0.5, np.nan]
    table.loc[table["depth"] == 3, "alignment"] = np.nan
    nets = fig03.networks(table).set_index("depth")
    assert nets.loc[4, "peak"] == 2 and nets.loc[4, "learned"]
    assert np.isnan(nets.loc[3, "peak"]) and not nets.loc[3, "learned"]


def test_fits_recover_a_power_law():
    depth = np.array([10.0, 20, 50, 100])
    slope, intercept = fig03.free_fit(depth, 0.7 * depth**0.9)
    assert (slope, intercept) == pytest.approx((0.9, np.log(0.7)))
    assert fig03.fixed_fit(depth, 0.7 * depth**0.6) == pytest.approx(np.log(0.7))


FULL = {"epochs_factor": 1.0, "train_images": 0}


def test_networks_whose_training_was_cut_short_are_shown_but_not_judged():
    table = made_up({(d, s): d for d in (10, 20, 40, 80) for s in range(3)})
    assert judged(table, **FULL)["slope-mnist"].outcome == "contradicted"
    for cut in ({"epochs_factor": 0.5}, {"train_images": 1000}):
        claim = judged(table, **{**FULL, **cut})["slope-mnist"]
        assert claim.outcome == "not judged" and claim.measured == pytest.approx(1)


@pytest.mark.parametrize(("power", "outcome"), [(0.6, "holds"), (1.0, "contradicted")])
def test_slope_claim(power, outcome):
    rng = np.random.default_rng(0)
    depths = range(10, 101, 10)
    table = made_up({(d, s): round(d**power * np.exp(0.02 * rng.normal())) for d in depths for s in range(3)})
    claim = judged(table, **FULL)["slope-mnist"]
    assert claim.outcome == outcome
    assert claim.measured == pytest.approx(power, abs=0.05)
    assert claim.interval[0] <= claim.measured <= claim.interval[1]


def test_networks_of_profile_paper_take_the_place_of_those_cut_short():
    depths = (10, 20, 40, 80)
    brief = made_up({(d, s): d for d in depths for s in range(3)}).assign(joined=False)
    whole = made_up({(d, 0): round(d**0.6) for d in (*depths, 100)}).assign(joined=True)
    claims = judged(pd.concat([brief, whole]), depths=list(depths))
    assert claims["slope-mnist"].outcome == "undecided"  # judged, on one seed
    assert "profile paper" in claims["slope-mnist"].statement and claims["slope-mnist"].seeds == 1
    seeds = [whole.assign(seed=seed) for seed in range(3)]
    assert judged(pd.concat([brief, *seeds]), depths=list(depths))["slope-mnist"].outcome == "holds"
    assert claims["accuracy-mnist"].outcome == "undecided"  # judged, on one seed
    nets = fig03.shown(fig03.networks(pd.concat([brief, whole])), "mnist", depths)
    assert sorted(nets["depth"]) == [*depths, 100]
    # Not before a seed has all the depths that the parameters ask for; a seed that lacks one stays out.
    part = whole[whole["depth"] != 40]
    claims = judged(pd.concat([brief, part]), depths=list(depths))
    assert claims["slope-mnist"].outcome == "not judged"
    assert claims["slope-mnist"].measured == pytest.approx(1)
    nets = fig03.networks(pd.concat([brief, whole, part.assign(seed=1)]))
    assert set(fig03.shown(nets, "mnist", depths)["seed"]) == {0}


def test_figure_8_is_shown_at_one_profile():
    settings = ("tables", "low rate", "large batch")
    brief = [made_up({(d, 0): d}, setting=name).assign(joined=False) for d in (10, 20) for name in settings]
    whole = [made_up({(d, 0): 1}, setting=name).assign(joined=True) for d in (10, 20) for name in settings]
    nets = fig03.networks(pd.concat([*brief, *whole]))
    assert fig03.shown(nets, "mnist", [10, 20], settings)["joined"].all()
    nets = fig03.networks(pd.concat([*brief, *whole[:-1]]))
    assert not fig03.shown(nets, "mnist", [10, 20], settings)["joined"].any()
    assert len(fig03.shown(nets, "mnist", [10, 20], settings)) == 6


def test_bootstrap_interval_contains_an_exact_line_only():
    learned = pd.DataFrame({"depth": [10, 10, 20, 20, 40, 40], "peak": [2.0, 2, 4, 4, 8, 8]})
    assert fig03.slope_interval(learned, "x") == pytest.approx((1, 1))
    assert fig03.slope_interval(learned[learned["depth"] < 40], "x") is None


def test_shift_claims_pair_depth_and_seed():
    base = made_up({(d, s): 4 + s for d in (20, 40) for s in range(3)})
    later = made_up({(d, s): (8, 11, 12)[s] for d in (20, 40) for s in range(3)}, setting="low rate")
    earlier = made_up({(d, s): 2 for d in (20, 30) for s in range(3)}, setting="large batch")
    claims = judged(pd.concat([base, later, earlier]), variation_depths=[20, 30, 40], **FULL)
    assert claims["shift-low-rate"].outcome == "holds"
    assert claims["shift-low-rate"].measured == pytest.approx(np.mean(np.log([8 / 4, 11 / 5, 12 / 6])))
    assert claims["shift-large-batch"].outcome == "contradicted"
    assert claims["shift-large-batch"].measured == pytest.approx(np.mean(np.log([2 / 4, 2 / 5, 2 / 6])))


def test_depths_of_figure_8_alone_enter_no_fit():
    table = made_up({(d, s): round(d**0.6) for d in (10, 20, 40, 80) for s in range(3)})
    assert judged(table, depths=[10, 20])["slope-mnist"].outcome == "not run"


def test_accuracy_is_judged_only_at_the_tables_epochs():
    table = made_up({(10, s): 4 for s in range(3)}, accuracy=0.97)
    assert judged(table)["accuracy-mnist"].outcome == "not run"
    full = judged(table, **FULL)["accuracy-mnist"]
    assert full.outcome == "holds" and (full.measured, full.paper) == pytest.approx((0.97, 0.97))
    less = made_up({(10, s): 4 for s in range(3)}, accuracy=0.95)
    assert judged(less, **FULL)["accuracy-mnist"].outcome == "contradicted"
    table.loc[table["seed"] == 0, "test_accuracy"] = 0.1  # an interval in which nearly everything lies
    assert judged(table, **FULL)["accuracy-mnist"].outcome == "undecided"


def test_claims_on_little_or_nothing():
    empty = judged(pd.DataFrame({"unit": []}))
    assert {claim.outcome for claim in empty.values()} == {"not run"}
    one = judged(made_up({(10, 0): 4}), **FULL)
    assert one["slope-mnist"].outcome == "not run"
    assert one["hidden-peak-mnist"].outcome == "undecided"


def test_the_finding_follows_the_fitted_slopes():
    table = made_up({(d, s): round(d**0.6) for d in (10, 20, 40, 80) for s in range(3)})
    parameters = {**PARAMETERS, **FULL, "datasets": ["mnist"], "depths": [10, 20, 40, 80]}
    parameters |= {"variation_dataset": "mnist"}
    said = fig03.finding(table, parameters)
    assert "0.60 (" in said and "3 seeds) on MNIST: holds" in said
    assert "layers" not in said
    both = pd.concat([table, table[table["depth"] < 80].assign(dataset="cifar10")])
    asked = parameters | {"datasets": ["mnist", "cifar10"]}
    assert "3 seeds, to 40 layers) on CIFAR-10" in fig03.finding(both, asked)
    (key,) = fig03.key_numbers(table, parameters)
    assert key.paper == "0.60" and re.fullmatch(r"0\.[56]\d \(0\.[56]\d to 0\.[56]\d\)", key.here)
    for power, word in ((1.0, "steeper"), (0.2, "flatter")):
        table = made_up({(d, s): round(4 * d**power / 4) for d in (10, 20, 40, 80) for s in range(3)})
        assert f"on MNIST: contradicted, {word} than 3/5" in fig03.finding(table, parameters)
    assert fig03.finding(pd.DataFrame({"unit": []}), parameters) == "Too few networks learned for a slope."


def of_cifar10(accuracies, peaks):
    """Networks of profile paper at 10 and 20 layers, for each preparation of the images."""
    frames = []
    for setting in ("tables", *fig03.PREPARED):
        for depth, accuracy, peak in zip((10, 20), accuracies[setting], peaks[setting], strict=True):
            frames.append(made_up({(depth, 0): peak}, "cifar10", setting, accuracy))
    return fig03.networks(pd.concat(frames).assign(joined=True))


def test_what_the_preparation_of_images_does_follows_the_numbers():
    accuracies = {"tables": (0.507, 0.5), "standardised": (0.508, 0.503), "crops and flips": (0.585, 0.575)}
    peaks = {"tables": (5, 8), "standardised": (5, 8), "crops and flips": (5, 6)}
    gap, moved = fig03.preparation_said(of_cifar10(accuracies, peaks), [10, 20], full=False)
    assert "10 and 20 layers, printed 56.0 and 58.3 %" in gap and "one seed. Crops and flips close" in gap
    assert "5 and 6 (crops and flips)" in moved and "falls from 0.68 to 0.26" in moved
    accuracies["crops and flips"], peaks["crops and flips"] = (0.52, 0.513), (4, 9)
    gap, moved = fig03.preparation_said(of_cifar10(accuracies, peaks), [10, 20], full=False)
    assert "leave 5.5 of 6.8 points" in gap and "rises from 0.68 to 1.17" in moved
    peaks["crops and flips"] = (5, 8)
    nets = of_cifar10(accuracies, peaks)
    assert "stays 0.68" in fig03.preparation_said(nets, [10, 20], full=False)[1]
    # Training cut short compares with nothing printed; one depth has no slope.
    brief = nets.assign(joined=False)
    gap, moved = fig03.preparation_said(brief, [10], full=False)
    assert gap == "" and moved.endswith("5 (crops and flips); one seed.")
    assert fig03.preparation_said(brief, [10], full=True)[0]
    assert fig03.preparation_said(nets[nets["setting"] == "tables"], [10, 20], full=True) == ("", "")


def test_hidden_peaks_are_compared_with_those_before_training():
    table = made_up({(depth, s): 4 for depth in (10, 20) for s in range(3)})  # untrained, all in layer 1
    inside = (table["depth"] == 10) & (table["seed"] == 0) & (table["layer"] == 3)
    table.loc[inside, "alignment_init"] = 2.0
    claim = judged(table, **FULL)["hidden-by-training-mnist"]
    assert claim.outcome == "holds" and claim.measured == pytest.approx(1 - 0.5 / 3)
    table["alignment_init"] = table["alignment"]
    assert judged(table, **FULL)["hidden-by-training-mnist"].measured == 0
