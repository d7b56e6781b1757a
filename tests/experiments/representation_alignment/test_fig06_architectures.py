"""Figures 6, 17 and 18: settings, the curve against Equation 2, claims on made-up tables."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED
from alignbook.data.tables import available, load_table
from alignbook.errors import AlignbookError
from alignbook.runs import notebooks, parameters
from alignbook.statements import judged as judge
from alignbook.studies.representation_alignment import alignment_grid, two_classes
from alignbook.studies.representation_alignment.fig06_architectures import design, experiment, reading

PARAMETERS = {
    "datasets": ["mnist"], "points": 20, "steps": 3, "depths": [1, 4], "widths": [8, 128],
    "activations": ["relu", "linear"], "optimisers": ["adam", "slow sgd"], "batch_sizes": [64],
    "slow_steps": 0, "seeds": 4,
}  # fmt: skip


def drawn(about, init, trained):
    """Curves whose heights are the areas, at two thresholds."""
    heights = {"init": init, "trained": trained}
    return [
        about | {"kind": "curve", "threshold": t} | {n: a * (1 - t) for n, a in heights.items()}
        for t in (0.0, 0.5)
    ]


def made_up(trained, init=0.2, inputs=0.3, test=None):
    """A table in which every setting goes from ``init`` to ``trained`` ({setting: area} for exceptions)."""
    rng, rows = np.random.default_rng(0), []
    for seed in range(4):
        for split in ("train", "test"):
            about = {"kind": "area", "dataset": "mnist", "seed": seed, "split": split}
            rows.append(about | {"setting": "inputs", "init": inputs, "trained": inputs})
            rows += drawn(about | {"setting": "inputs"}, inputs, inputs)
            for name in design.settings(PARAMETERS):
                value = trained.get(name, trained[None]) + 0.01 * rng.standard_normal()
                if split == "test" and test is not None:
                    value = test + 0.01 * rng.standard_normal()
                rows.append(about | {"setting": name, "init": init, "trained": value, "loss": 0.1})
                rows += drawn(about | {"setting": name}, init, value)
    return pd.DataFrame(rows)


def outcomes(table, id):
    return {name: claim.outcome for name, claim in judged(table).items() if name.startswith(f"{id}-")}


def judged(table, **changed):
    return {claim.id: claim for claim in judge(reading.STATEMENTS, table, PARAMETERS | changed)}


def found(table, **changed):
    return reading.finding(table, PARAMETERS | changed, judged(table, **changed))


def seen_later(table, **changed):
    """The claims on runs with seeds that nobody had seen."""
    return judged(table.assign(seed=table["seed"] + reading.SEEN), **changed)


@pytest.mark.parametrize(("linear", "outcome"), [(0.85, HOLDS), (0.5, CONTRADICTED)])
def test_whether_curves_of_a_family_overlap_is_judged_on_later_seeds(linear, outcome):
    table = made_up({None: 0.85, "linear": linear})
    ids = [f"overlap-mnist-{family}" for family in ("depth", "width", "activation", "optimiser")]
    assert list(outcomes(table, "overlap")) == ids  # of batch sizes there is one
    assert set(outcomes(table, "overlap").values()) == {NOT_JUDGED}
    later = seen_later(table)
    mine = later.pop("overlap-mnist-activation")
    assert mine.outcome == outcome and mine.post_hoc and mine.ours
    assert mine.measured == pytest.approx(0.86 - linear, abs=0.02)
    assert {claim.outcome for id, claim in later.items() if id in ids} == {HOLDS}
    assert not [id for id in judged(table, datasets=["cifar10"]) if id.startswith("overlap")]


def test_settings_change_one_choice_of_the_base_each():
    made = design.settings(PARAMETERS)
    assert list(made) == ["depth 1", "base", "width 8", "linear", "slow sgd"]
    assert made["base"] == design.BASE and made["width 8"].width == 8 and made["width 8"].depth == 4
    book = notebooks.find("representation_alignment/fig06_architectures")
    quick = design.settings(parameters.resolve(book, "quick"))
    assert len(quick) == 17 and len(experiment.jobs(parameters.resolve(book, "quick"))) == 15


def test_slow_sgd_goes_on_in_jobs_of_its_own(computed):
    small = PARAMETERS | {"datasets": ["digits"], "seeds": 2}
    names = [job.name for job in experiment.jobs(small)]
    more = experiment.jobs(small | {"slow_steps": 9})
    assert [job.name for job in more] == [*names, "digits-slow-seed0", "digits-slow-seed1"]
    # What was stored before stays stored: its arguments are the same.
    assert [job.arguments for job in more[:2]] == [job.arguments for job in experiment.jobs(small)]
    table = computed(experiment, small | {"slow_steps": 9}).assign(dataset="digits")
    slow = table[table["kind"] == "slow area"].set_index(["seed", "split", "setting"])
    base = table[table["kind"] == "area"].set_index(["seed", "split", "setting"])
    assert set(slow.index.levels[2]) == {"inputs", "slow sgd"} and len(slow) == 8
    assert (slow["init"] == base["init"].loc[slow.index]).all()  # the same points and network
    trained = slow.xs("slow sgd", level="setting")["trained"]
    assert (trained != base.xs("slow sgd", level="setting")["trained"]).all()
    # At as many steps it is the same run: nothing but their number differs.
    again = computed(experiment, small | {"slow_steps": small["steps"]})
    again = again[again["kind"] == "slow area"].set_index(["seed", "split", "setting"])
    assert (again["trained"] == base["trained"].loc[again.index]).all()
    # The other statements are read from the other rows alone.
    others = table[~table["kind"].str.startswith("slow")]
    assert judged(table, **small) == judged(others, **small)
    # Where it goes on, its verdicts rest on those, and those of the others stay.
    longer = judged(table, **small | {"slow_steps": 9})
    mine, inputs = (slow.xs(("train", name), level=("split", "setting")) for name in ("slow sgd", "inputs"))
    gained = mine["trained"] - np.maximum(mine["init"], inputs["init"])
    assert longer["raises-digits-slow-sgd"].measured == pytest.approx(gained.mean())
    assert (
        longer["raises-digits-slow-sgd"].measured != judged(table, **small)["raises-digits-slow-sgd"].measured
    )
    assert longer["raises-digits-base"] == judged(table, **small)["raises-digits-base"]


def test_the_curve_is_equation_2():
    draw = np.random.default_rng(1)
    features, labels = draw.normal(size=(30, 7)), draw.normal(size=30)
    rows = np.hstack([features, np.ones((30, 1))])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    left, singular, _ = np.linalg.svd(rows, full_matrices=False)
    gains = np.square(left.T @ labels)
    area, alignment = alignment_grid.curve(torch.tensor(features), torch.tensor(labels))
    assert area == pytest.approx((singular * gains).sum() / (labels @ labels) / np.sqrt(30))
    grid = np.linspace(0, np.sqrt(30), alignment_grid.THRESHOLDS)
    plain = [gains[singular >= tau].sum() / (labels @ labels) for tau in grid]
    np.testing.assert_allclose(alignment, plain, atol=1e-12)


def test_nonnegative_features_have_a_ceiling():
    # The page's bound: 1/√2 for two balanced classes, reached by one direction for each class.
    labels = torch.tensor([1.0, -1.0] * 20)
    draw = np.random.default_rng(0)
    for sharpness in (1, 5, 50):
        features = torch.tensor(draw.random((40, 3))) + sharpness * torch.eye(3)[(labels > 0).long()]
        assert alignment_grid.curve(features, labels)[0] < 0.5**0.5
    apart = 1e4 * torch.eye(2)[(labels > 0).long()]
    assert alignment_grid.curve(apart, labels)[0] == pytest.approx(0.5**0.5, rel=1e-3)
    assert alignment_grid.curve(1e4 * labels[:, None], labels)[0] == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("activation", experiment.ACTIVATIONS)
def test_networks_have_the_shape_of_their_setting(activation):
    setting = design.Setting(depth=3, width=5, activation=activation)
    net = experiment.network(setting, 7, torch.Generator().manual_seed(0))
    linear = [module for module in net if isinstance(module, torch.nn.Linear)]
    assert [tuple(m.weight.shape) for m in linear] == [(5, 7), (5, 5), (5, 5), (1, 5)]
    assert net[:-1](torch.randn(4, 7)).shape == (4, 5)
    assert linear[0].weight.abs().max() <= 7**-0.5 < 1.2 * linear[0].weight.abs().max()
    again = experiment.network(setting, 7, torch.Generator().manual_seed(0))
    assert torch.equal(again[0].weight, net[0].weight)


def test_a_job_trains_and_measures_both_splits():
    job = experiment.jobs(PARAMETERS | {"datasets": ["diabetes"], "steps": 30})[1]
    table = job.compute(**job.arguments, device=torch.device("cpu"), report=lambda *_: None)
    table = table.assign(dataset="diabetes", seed=1)
    found = reading.areas(table, "diabetes", "train")
    assert set(found["trained"]) == {"inputs", *design.settings(PARAMETERS)}
    assert found["init", "inputs"][1] == found["trained", "inputs"][1]
    assert found["trained", "base"][1] > found["init", "base"][1]
    curves = table[table["kind"] == "curve"]
    assert len(curves) == 2 * 6 * alignment_grid.THRESHOLDS
    assert curves["trained"].between(0, 1 + 1e-9).all()


def test_training_that_raises_alignment_holds():
    table = made_up({None: 0.6, "depth 1": 0.5})
    for id in ("raises", "inputs", "test"):
        assert set(outcomes(table, id).values()) == {HOLDS} and len(outcomes(table, id)) == 5
        assert len({claim.group for name, claim in judged(table).items() if name.startswith(id)}) == 1
    said = "above that of the inputs in all 5 settings, on training and on test data."
    assert said in found(table)
    # Above the start and not above the inputs is not enough.
    between = outcomes(made_up({None: 0.6, "linear": 0.25}), "raises")
    assert between["raises-mnist-linear"] == CONTRADICTED and between["raises-mnist-base"] == HOLDS
    (key,) = reading.key_numbers(table, PARAMETERS)
    assert key.here.startswith("+0.")


def test_exceptions_are_named():
    table = made_up({None: 0.6, "slow sgd": 0.1, "linear": 0.25}, test=0.25)
    judged = outcomes(table, "raises")
    assert judged["raises-mnist-slow-sgd"] == CONTRADICTED and judged["raises-mnist-base"] == HOLDS
    assert outcomes(table, "inputs")["inputs-mnist-linear"] == CONTRADICTED
    assert set(outcomes(table, "test").values()) == {CONTRADICTED}
    assert "in 3 of 5 settings (2 contradicted); on test data" in found(table)
    assert found(table).endswith("in none of 5 (the opposite in all).") and len(found(table)) <= 300
    one = made_up({None: 0.6, "slow sgd": 0.1})
    assert "4 of 5 settings (the opposite: plain SGD at 0.01 on MNIST), on training and on test" in found(one)
    slices = made_up({None: 0.6}).replace("mnist", "ct_slices")
    assert found(slices, datasets=["ct_slices"]).endswith(" CT slices come from two patients.")


def test_a_larger_area_is_judged_only_with_a_curve_that_is_mostly_higher():
    """At most thresholds the curve of one setting lies below the inputs', which have the smaller area."""
    table = made_up({None: 0.6})
    mine = table["kind"].eq("curve") & table["setting"].eq("linear")
    table.loc[mine, "trained"] = 0.1
    assert outcomes(table, "raises") == {
        f"raises-mnist-{name}": NOT_JUDGED if name == "linear" else HOLDS
        for name in ("depth-1", "base", "width-8", "linear", "slow-sgd")
    }
    said = "; in one (linear on MNIST) two ways of comparing curves disagree."
    assert found(table).endswith(f"in 4 of 5 settings, on training and on test data{said}")
    table = table.copy()
    table.loc[table["setting"].eq("slow sgd") & table["kind"].eq("area"), "loss"] = 0.9
    said = "; in one two ways of comparing curves disagree and in one the network did not learn its labels."
    assert found(table).endswith(said)


def test_a_setting_that_has_not_learned_its_labels_is_not_judged():
    """Whatever its areas do; where it goes on, the longer run decides."""
    for area in (0.6, 0.1):
        table = made_up({None: 0.6, "slow sgd": area})
        slow = table["setting"].eq("slow sgd") & table["kind"].eq("area")
        table.loc[slow, "loss"] = np.repeat([0.9, 0.6, 0.7, 0.4], 2)  # bits; one run learned most
        made = judged(table)
        unmet = {id for id, claim in made.items() if any(not need["met"] for need in claim.requires)}
        ids = {f"{id}-mnist-slow-sgd" for id in ("raises", "inputs", "test")}
        assert ids == {id for id in unmet if "slow" in id} and made["raises-mnist-base"].outcome == HOLDS
        assert {made[id].outcome for id in ids} == {NOT_JUDGED}
        assert made["raises-mnist-slow-sgd"].requires[0]["measured"] == pytest.approx(0.3)  # of 0.35
        assert found(table).endswith(
            "in 4 of 5 settings, on training and on test data; in one (plain SGD at 0.01 on MNIST) the "
            "network did not learn its labels."
        )
    table = table.copy()
    table.loc[slow, "loss"] = 0.45
    assert judged(table)["raises-mnist-slow-sgd"].outcome == CONTRADICTED
    longer = pd.concat([table, table.assign(kind="slow " + table["kind"], loss=0.9)])
    assert judged(longer, slow_steps=9)["raises-mnist-slow-sgd"].outcome == NOT_JUDGED
    # Numbers, too, have a loss at the start: the mean square of the labels.
    table = made_up({None: 0.6}).replace("mnist", "diabetes")
    need = judged(table, datasets=["diabetes"])["raises-diabetes-base"].requires[0]
    assert need["measured"] == pytest.approx(0.6) and 0.6 < 1 - 0.1 / reading.SQUARES["diabetes"] < 0.7
    for name in filter(available, reading.SQUARES):
        y = load_table(name).y
        moved = 2 * (y - y.min()) / (y.max() - y.min()) - 1
        if len(y) < 1000:  # the rows at hand, which the stored runs rest on, not all that can be downloaded
            assert (moved**2).mean() == pytest.approx(reading.SQUARES[name], abs=5e-4)


def test_the_finding_is_short_under_every_outcome():
    book = notebooks.find("representation_alignment/fig06_architectures")
    given = parameters.resolve(book, "quick")
    claims = {claim.id: claim for claim in judge(reading.STATEMENTS, pd.DataFrame({"unit": []}), given)}
    longest = {case.id: len(case.words) for case in reading.cases(given)}
    first, *others, last = sorted(longest, key=longest.get, reverse=True)
    one, several = {first: ABSENT}, dict.fromkeys(others[:12], ABSENT)
    several |= dict.fromkeys(others[12:24], CONTRADICTED) | dict.fromkeys(others[24:36], UNDECIDED)
    for train in (one, several, dict.fromkeys(longest, ABSENT), dict.fromkeys(longest, CONTRADICTED), {}):
        for test in (one, several, dict.fromkeys(longest, ABSENT), {}):
            made = dict(claims)
            for id, differ in (("raises", train), ("test", test)):
                for case in longest:
                    outcome = NOT_JUDGED if case == last else differ.get(case, HOLDS)
                    runs = "slow_steps = 9" * (case == others[-1])
                    made[f"{id}-{case}"] = replace(claims[f"{id}-{case}"], outcome=outcome, runs=runs)
            said = reading.finding(None, given, made)
            assert said.startswith("Training raises alignment") and len(said) <= 300, said


def test_the_finding_says_which_settings_are_judged_on_longer_runs():
    table = made_up({None: 0.6})
    made = judged(table)
    made["raises-mnist-slow-sgd"] = replace(made["raises-mnist-slow-sgd"], runs="slow_steps = 9")
    said = reading.finding(table, PARAMETERS, made)
    assert said.endswith("on test data (one after longer training).")
    made["raises-mnist-base"] = replace(made["raises-mnist-base"], runs="slow_steps = 9")
    assert reading.finding(table, PARAMETERS, made).endswith("on test data (2 after longer training).")
    assert "longer" not in found(table)


def test_a_mean_above_nothing_is_no_verdict():
    table = made_up({None: 0.6})
    wide = (table["setting"] == "linear") & (table["split"] == "test") & (table["kind"] == "area")
    for seed, value in enumerate((0.9, 0.31, 0.1)):
        table.loc[wide & (table["seed"] == seed), "trained"] = value
    table = table[table["seed"] < 3]
    assert judged(table)["test-mnist-linear"].outcome == UNDECIDED
    assert "on test data, in 4 of 5 (undecided: linear on MNIST)." in found(table)


def test_the_words_for_plain_sgd_are_its_step_sizes():
    for name, words in reading.RATES.items():
        assert words == f"plain SGD at {experiment.OPTIMISERS[name][1]:g}"


def test_depth_has_two_statements_with_a_verdict_each():
    table = made_up({None: 0.6, "depth 1": 0.5})
    rises = seen_later(table)
    assert rises["depth-mnist"].outcome == HOLDS and "Section 5" in rises["depth-mnist"].opposed_by
    assert rises["depth-uneven"].outcome == CONTRADICTED and rises["depth-uneven"].ours
    assert judged(table)["depth-uneven"].outcome == NOT_JUDGED  # on seeds on which it was chosen
    falls = seen_later(made_up({None: 0.5, "depth 1": 0.6}))
    assert falls["depth-mnist"].outcome == CONTRADICTED and falls["depth-uneven"].outcome == HOLDS
    assert falls["depth-uneven"].post_hoc and "abstract" in falls["depth-uneven"].opposed_by


def test_one_fall_anywhere_makes_the_increase_uneven():
    """Areas rise on training data; on test data one of two data sets falls. Each kind has its verdict."""
    table = made_up({None: 0.6, "depth 1": 0.5})
    other = table.assign(dataset="cifar10")
    own = other["setting"].eq("depth 1") & other["split"].eq("test") & other["kind"].eq("area")
    other.loc[own, "trained"] = 0.75
    both, sets = pd.concat([table, other]), {"datasets": ["mnist", "cifar10"]}
    assert seen_later(table)["depth-uneven-test"].outcome == CONTRADICTED
    claim = seen_later(both, **sets)["depth-uneven-test"]
    assert claim.outcome == HOLDS and claim.measured == pytest.approx(0.15, abs=0.02)
    assert claim.ours and claim.opposed_by is None
    assert seen_later(both, **sets)["depth-uneven"].outcome == CONTRADICTED
    said = reading.rises_by_depth(both, PARAMETERS | sets)
    assert said == "at every step except on CIFAR-10, test data, from 1 to 4 layers"
    assert reading.rises_by_depth(table, PARAMETERS) == "at every step"


@pytest.mark.parametrize(
    ("rise", "said"), [(0.1, None), (0.0, "too small to matter"), (-0.1, "a fall"), (None, "undecided")]
)
def test_steps_at_which_alignment_does_not_rise_are_told_with_their_size(rise, said):
    table = made_up({None: 0.6, "depth 1": 0.5})
    one, base = (table["setting"].eq(name) & table["kind"].eq("area") for name in ("depth 1", "base"))
    spread = 0.001 if rise is not None else 0.1
    shift = (rise or 0.0) + spread * np.array([-1, 1, -1, 1, 0])[table.loc[base, "seed"]]
    table.loc[base, "trained"] = table.loc[one, "trained"].to_numpy() + shift
    found = reading.without_rise(table, PARAMETERS)
    assert len(found) == (said is not None) == len(reading.without_rise(table, PARAMETERS, "test"))
    assert not found or found[0].startswith("MNIST, from 1 to 4 layers: ") and found[0].endswith(f", {said}")


def test_chance_in_a_run_makes_no_fall_with_depth():
    """Steps that do not differ: a run's own largest fall is above their mean, ours is not."""
    draw = np.random.default_rng(0)
    names = [f"set {n}" for n in range(30)]
    rows = [
        {"kind": "area", "dataset": name, "seed": seed, "split": split, "setting": setting, "init": 0.1,
         "trained": 0.5 + 0.05 * draw.standard_normal(), "loss": 0.1}
        for seed in range(20) for name in names for split in reading.SPLITS for setting in ("depth 1", "base")
    ]  # fmt: skip
    table, given = pd.DataFrame(rows), PARAMETERS | {"datasets": names}
    assert reading.depth_falls(table, given).max(axis=1).min() > 0.08
    for split in reading.SPLITS:
        assert abs(reading.largest_fall(table, given, split).mean()) < 0.04


def test_the_slope_over_depth():
    table = made_up({None: 0.6, "depth 1": 0.5})
    slopes = reading.per_doubling(table, PARAMETERS, "mnist")
    found = reading.areas(table, "mnist", "train")["trained"]
    np.testing.assert_allclose(slopes, ((found["base"] - found["depth 1"]) / 2).astype(float))
    one = PARAMETERS | {"depths": [4]}
    assert reading.per_doubling(table, one, "mnist") is None


def test_one_seed_and_nothing():
    one = made_up({None: 0.6}).query("seed == 0")
    assert set(outcomes(one, "raises").values()) == {UNDECIDED}
    # Of one data set alone nothing is said of another.
    other = judged(made_up({None: 0.6}), datasets=["mnist", "cifar10"])
    assert other["raises-cifar10-base"].outcome == other["depth-cifar10"].outcome == NOT_RUN


def test_points_of_two_classes_and_of_a_table():
    data = two_classes.labelled("digits", 50, seed=2)
    assert data["train"][0].shape == (50, 64) and data["train"][1].sum() == 0
    assert len(data["test"][1]) == 50 and data["train"][0].min() == -1
    again = two_classes.labelled("digits", 50, seed=2)["train"][0]
    assert torch.equal(again, data["train"][0])
    assert not torch.equal(two_classes.labelled("digits", 50, seed=3)["train"][0], again)
    x, y = two_classes.labelled("diabetes", 1000, seed=0)["test"]
    assert x.shape == (221, 10) and y.abs().max() <= 1
    with pytest.raises(AlignbookError, match="images of a class"):
        two_classes.labelled("digits", 5000, seed=0)


def test_bad_parameters():
    book = notebooks.find("representation_alignment/fig06_architectures")
    for bad in ({"activations": ["gelu"]}, {"depths": [0]}, {"optimisers": []}):
        with pytest.raises(AlignbookError):
            parameters.resolve(book, "smoke", bad)
