"""Figure 3's experiment on digits, and its fits and verdicts on made-up peaks."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import Claim
from alignbook.errors import Diverged
from alignbook.kernels.products import float32_products
from alignbook.runs import notebooks
from alignbook.statements import judged as judge
from alignbook.studies.signal_propagation.fig03_peak_law import design, reading
from alignbook.studies.signal_propagation.fig03_peak_law import experiment as fig03
from alignbook.studies.signal_propagation.names import NAMES, called

PARAMETERS = {
    "datasets": ["digits"],
    "depths": [3, 5],
    "variation_dataset": "digits",
    "variation_depths": [3],
    "choice_datasets": ["digits"],
    "choice_depths": [5],
    "choices": [*design.CHOICES, *design.PREPARED],
    "width": 12,
    "cifar10_width": 20,
    "batch_size": 64,
    "epochs_factor": 0.03,
    "momentum": 0.9,
    "weight_decay": 0.0005,
    "train_images": 300,
    "alignment_images": 20,
    "pair_images": 0,
    "seeds": 2,
}
CPU = torch.device("cpu")


def compute(job, **changes):
    return fig03.compute(**{**job.arguments, **changes}, device=CPU, report=lambda done, text: None)


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
    return {claim.id: claim for claim in judge(reading.STATEMENTS, table, asked(**changes))}


def asked(**changes):
    parameters = {**PARAMETERS, "datasets": ["mnist"], "depths": list(range(10, 101, 10))}
    return parameters | {"variation_dataset": "mnist", **changes}


def found(table, **changes):
    return reading.finding(table, asked(**changes), judged(table, **changes))


def test_jobs_are_complete_and_unique():
    jobs = fig03.jobs(PARAMETERS)
    assert len({job.name for job in jobs}) == len(jobs) == (2 + 2 + 4) * 2
    assert all(set(job.arguments) >= {"dataset", "depth", "setting", "seed"} for job in jobs)
    assert json.loads(json.dumps(jobs[0].arguments)) == jobs[0].arguments
    by_setting = {job.arguments["setting"]: job.arguments for job in jobs if job.arguments["depth"] == 3}
    assert by_setting["low rate"]["learning_rate"] == by_setting["tables"]["learning_rate"] / 4
    assert by_setting["large batch"]["batch_size"] == 256
    deep = {job.arguments["setting"]: job.arguments for job in jobs if job.arguments["depth"] == 5}
    for setting, changes in design.CHOICES.items():
        assert deep[setting] == deep["tables"] | {"setting": setting} | changes != deep["tables"]


def test_variation_brings_its_own_comparison():
    jobs = fig03.jobs({**PARAMETERS, "variation_depths": [7], "choice_depths": [9], "seeds": 1})
    settings = {depth: [] for depth in (3, 5, 7, 9)}
    for job in jobs:
        settings[job.arguments["depth"]].append(job.arguments["setting"])
    assert sorted(settings[7]) == ["large batch", "low rate", "tables"]
    assert sorted(settings[9]) == sorted(["tables", *design.CHOICES])


def test_choices_on_several_data_sets():
    """On CIFAR-10 the width of the text is the table's: no network twice."""
    jobs = fig03.jobs({**PARAMETERS, "choice_datasets": ["cifar10", "mnist"], "seeds": 1})
    settings = {name: [] for name in NAMES}
    for job in jobs:
        settings.setdefault(job.arguments["dataset"], []).append(job.arguments["setting"])
    assert sorted(settings["cifar10"]) == sorted(
        {"tables", *design.CHOICES, *design.PREPARED} - {"width 256"}
    )
    assert sorted(settings["mnist"]) == sorted(["tables", *design.CHOICES])
    assert settings["fashion_mnist"] == []


def test_choices_are_asked_by_name():
    """Only those named, of each data set those that change something; the pairs once per data set."""
    some = {"choices": ["stop at 0.1", "no decay", "standardised"], "seeds": 1, "pair_images": 9}
    jobs = fig03.jobs({**PARAMETERS, **some, "choice_datasets": ["cifar10", "mnist"]})
    settings = {name: [] for name in NAMES}
    for job in jobs:
        settings[job.arguments["dataset"]].append(job.arguments.get("setting"))
    assert settings["cifar10"] == ["no decay", "standardised", "stop at 0.1", "tables"]
    assert settings["mnist"] == ["no decay", "stop at 0.1", "tables"]
    assert settings["digits"].count(None) == 1 and jobs[-1].name == "pairs-digits"


def test_open_choices_train_what_they_name():
    """A bias in every layer from 0 on; an early end; else the network of ``compute``, layer by layer."""
    names = ["biases", "stop at 0.1"]
    asked = {**PARAMETERS, "choices": names, "epochs_factor": 0.05, "seeds": 1}
    made = {job.arguments["setting"]: job for job in fig03.jobs(asked) if job.arguments["depth"] == 5}
    run = {"device": CPU, "report": lambda *_: None}
    plain = compute(made["tables"])
    arguments = made["stop at 0.1"].arguments
    whole, early = (fig03.compute_open(**arguments | {"goal": goal}, **run) for goal in (0.0, 9.0))
    assert (whole["alignment"] == plain["alignment"]).all()
    assert early["train_loss"][0] > whole["train_loss"][0]
    biased = fig03.compute_open(**made["biases"].arguments, **run)
    assert (biased["alignment_init"] == plain["alignment_init"]).all()
    assert not np.allclose(biased["alignment"], plain["alignment"])


def test_biases_are_trained():
    generator = torch.Generator().manual_seed(0)
    mlp = fig03.MLP(3, 4, 3, 2, generator)
    x = torch.randn(5, 3, generator=generator)
    net = fig03.WithBiases(mlp)
    torch.testing.assert_close(net.logits(x), mlp.logits(x))
    assert sum(p.numel() for p in net.module.parameters()) == sum(w.numel() for w in mlp.weights) + 4 + 4 + 2


def plain_losses(correlations, depth, layer):
    """Both losses of every pair by Equation 3 and its derivative, in a loop over pairs and layers."""
    forward, backward = [], []
    for c in correlations:
        product = 1.0
        for k in range(1, depth):
            if k == layer:
                forward.append((1 - c) / 2)
            if k >= layer:
                product *= 1 - np.arccos(c) / np.pi
            c = (c * np.arcsin(c) + np.sqrt(1 - c * c)) / np.pi + c / 2
        if layer == depth:
            forward.append((1 - c) / 2)
        backward.append(product)
    return forward, backward


def test_losses_of_pairs_against_a_plain_loop():
    run = {"dataset": "digits", "images": 8, "seed": 3, "device": CPU, "report": lambda *_: None}
    table = fig03.compute_pairs(depths=[3, 7], **run)
    assert len(table) == (3 + 7) * 3
    x = fig03.load("digits", "train", n=8, seed=3).x.flatten(1).double().numpy()
    cosines = [
        x[i] @ x[j] / np.sqrt((x[i] @ x[i]) * (x[j] @ x[j])) for i in range(8) for j in range(i + 1, 8)
    ]
    for row in table.itertuples():
        over = {"mean": np.mean, "supremum": max, "99 %": lambda values: np.percentile(values, 99)}
        expected = [over[row.statistic](losses) for losses in plain_losses(cosines, row.depth, row.layer)]
        assert [row.forward, row.backward] == pytest.approx(expected, rel=1e-9)


def test_equilibrium_of_pairs():
    """Losses l^-2 and (l/L)^3 meet where l^5 = L^3/κ; κ is found again from such peaks."""
    rows = [
        {"statistic": "mean", "depth": depth, "layer": layer, "forward": layer**-2.0,
         "backward": (layer / depth) ** 3.0}
        for depth in (1000, 2000, 4000, 9)
        for layer in range(1, depth + 1)
    ]  # fmt: skip
    table = pd.DataFrame(rows).assign(dataset="mnist", setting=None, seed=0)
    met = {depth: (depth**3 / 0.5) ** (1 / 5) for depth in (1000, 2000, 4000)}
    nets = made_up({(depth, 0): round(layer) for depth, layer in met.items()})
    both = pd.concat([nets, table, table], ignore_index=True)
    kappa, layers = reading.equilibrium(both, asked(depths=list(met)), "mnist", "mean")
    assert kappa == pytest.approx(0.5, rel=0.02)
    assert layers.to_dict() == pytest.approx({d: (d**3 / kappa) ** (1 / 5) for d in met}, rel=1e-9)
    # Beside networks the rows say nothing of a network; two depths are too few for a κ.
    pd.testing.assert_frame_equal(reading.networks(both), reading.networks(nets))
    assert judged(both)["slope-mnist"].outcome == judged(nets)["slope-mnist"].outcome
    assert reading.equilibrium(both, asked(depths=[1000, 2000]), "mnist", "mean")[1].empty


DEPTHS = (10, 20, 40, 80)


def power_pairs(exponent):
    """Losses of pairs of which the equilibrium layer is exactly L^``exponent`` for κ = 1."""
    rows = [
        {"statistic": statistic, "depth": depth, "layer": layer, "forward": 1.0 / layer,
         "backward": layer / depth ** (2 * exponent)}
        for statistic in fig03.OVER_PAIRS for depth in DEPTHS for layer in range(1, depth + 1)
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(dataset="mnist", seed=0)


def following(exponent, spread=0.0, accuracy=0.97, seeds=3):
    """Networks, and pairs whose equilibrium layer is L^0.9; peaks near L^``exponent``."""
    peaks = {(d, s): round(d ** (exponent + spread * (s % 3 - 1))) for d in DEPTHS for s in range(seeds)}
    return pd.concat([made_up(peaks, accuracy=accuracy), power_pairs(0.9)], ignore_index=True)


def test_the_equilibrium_of_the_data_is_judged():
    """Peaks at the equilibrium layer follow it, though its slope is far from 3/5; others do not."""
    judged_here = judged(following(0.9, 0.01, seeds=6), depths=list(DEPTHS), **FULL)
    for statistic in ("mean", "99", "supremum"):
        claim = judged_here[f"equilibrium-mnist-{statistic}"]
        assert claim.outcome == "holds" and claim.measured == pytest.approx(0, abs=0.05) and claim.seeds == 3
        assert judged_here[f"nearer-mnist-{statistic}"].outcome == "holds"
    assert judged_here["slope-mnist"].outcome == "contradicted"
    flat = judged(following(0.6, 0.01, seeds=6), depths=list(DEPTHS), **FULL)
    assert flat["equilibrium-mnist-mean"].outcome == flat["nearer-mnist-mean"].outcome == "contradicted"
    assert flat["slope-mnist"].outcome == "holds"
    seen = judged(following(0.9, 0.01, seeds=5), depths=list(DEPTHS), **FULL)
    for id in ("equilibrium-mnist-mean", "nearer-mnist-supremum"):  # chosen when three seeds were known
        assert seen[id].outcome == "not judged" and seen[id].measured is not None
    parameters = asked(depths=list(DEPTHS))
    kappa, _ = reading.equilibrium(following(0.9), parameters, "mnist", "mean")
    assert kappa == pytest.approx(1, rel=0.05)
    assert reading.theory_slope(following(0.9), parameters, "mnist") == pytest.approx(0.9, abs=1e-6)
    without = made_up({(d, s): d for d in DEPTHS for s in range(3)})
    assert reading.equilibrium(without, parameters, "mnist", "mean")[1].empty
    assert judged(without, depths=list(DEPTHS), **FULL)["equilibrium-mnist-mean"].outcome == "not run"


def test_a_verdict_that_peaks_in_the_first_layer_decide_is_none():
    """From the first layer of ten the slope is steep, without it 3/5; elsewhere both say the same."""
    first = {(10, s): 1 for s in range(3)}
    law = {(d, s): (6, 9, 14 + (s == 1))[n] for n, d in enumerate((20, 40, 80)) for s in range(3)}
    line = {(d, s): d // 5 + (d == 80) * s for d in (20, 40, 80) for s in range(3)}
    table = made_up(first | law, accuracy=0.97)
    claim = judged(table, depths=list(DEPTHS), **FULL)["slope-mnist"]
    assert claim.outcome == "not judged" and claim.interval[0] > 0.8
    assert reading.slopes(table, asked(), "mnist", first=False).to_numpy() == pytest.approx(0.6, abs=0.1)
    assert found(table, depths=list(DEPTHS), **FULL) == (
        "MNIST (slope 1.2) is not judged, as its slope depends on peaks in the first layer."
    )
    steep = judged(made_up(first | line, accuracy=0.97), depths=list(DEPTHS), **FULL)
    assert steep["slope-mnist"].outcome == "contradicted"


def test_networks_far_from_the_printed_accuracy_decide_no_slope():
    far = judged(following(0.9, 0.01, accuracy=0.895, seeds=6), depths=list(DEPTHS), **FULL)
    for id in ("slope-mnist", "equilibrium-mnist-mean", "nearer-mnist-99"):
        assert far[id].outcome == "not judged" and "0.02" in far[id].test
    assert far["hidden-peak-mnist"].outcome != "not judged"
    said = found(following(0.9, 0.01, accuracy=0.895), depths=list(DEPTHS), **FULL)
    assert said == "MNIST (slope 0.9) is not judged, as our accuracy is too low."


def test_inaccurate_networks_that_turn_a_slope_decide_none():
    """Two far networks a seed, far out: on average the accuracies are near the printed ones."""
    depths, far = range(10, 90, 10), (90, 100)
    good = made_up({(d, s): round(1.5 * d**0.6) + s for d in depths for s in range(3)}, accuracy=0.97)
    lost = made_up({(d, s): d - 7 * s for d in far for s in range(3)}, accuracy=0.87)
    table, full = pd.concat([good, lost]), {"depths": [*depths, *far], **FULL}
    assert judged(good, **full | {"depths": list(depths)})["slope-mnist"].outcome == "holds"
    assert reading.shortfall(table, asked(**full), "mnist") < reading.ACCURACY_MARGIN
    claim = judged(table, **full)["slope-mnist"]
    assert claim.outcome == "not judged" and "below the printed accuracy" in claim.test
    assert "depends on inaccurate networks" in found(table, **full)


def test_inaccurate_networks_that_turn_the_equilibrium_decide_nothing():
    """On the new seeds, too, the deepest network is far from the printed accuracy, and far out."""
    near, far = DEPTHS[:-1], DEPTHS[-1]
    new = range(6)
    good = made_up({(d, s): round(d ** (0.9 + 0.01 * (s % 3 - 1))) for d in near for s in new}, accuracy=0.97)
    lost = made_up({(far, s): 2 + s % 3 for s in new}, accuracy=0.92)
    pairs = power_pairs(0.9)
    alone = judged(pd.concat([good, pairs], ignore_index=True), depths=list(near), **FULL)
    both = judged(pd.concat([good, lost, pairs], ignore_index=True), depths=list(DEPTHS), **FULL)
    for id in ("equilibrium-mnist-mean", "nearer-mnist-mean"):
        assert alone[id].outcome == "holds"
        assert both[id].outcome == "not judged" and "same without networks" in both[id].test, id


def test_crops_and_flips_are_a_case_of_their_own():
    """Of CIFAR-10 alone, on the depths where the choices are varied; the images as they are stay another."""
    here = {"datasets": ["cifar10"], "choice_datasets": ["cifar10"], "depths": [10], **FULL}
    here |= {"choice_depths": [10, 20, 40], "choices": ["standardised", "crops and flips"]}
    peaks = {(d, s): round(1.5 * d**0.6) + s for d in (10, 20, 40) for s in range(3)}
    cropped = made_up(peaks, "cifar10", "crops and flips", accuracy=0.5767).assign(joined=True)
    plain = made_up({(d, s): d // 2 for d in (10, 20, 40) for s in range(3)}, "cifar10", accuracy=0.5)
    plain = plain.assign(joined=True)
    both = judged(pd.concat([cropped, plain], ignore_index=True), **here)
    assert both["slope-cifar10-crops"].outcome == both["accuracy-cifar10-crops"].outcome == "holds"
    assert both["slope-cifar10"].outcome == "not judged" and both["slope-cifar10"].measured > 0.9
    assert judged(plain, **here)["slope-cifar10-crops"].outcome == "not run"
    assert "slope-cifar10-crops" not in judged(plain, **here | {"choices": ["standardised"]})
    asked_few = judged(pd.concat([cropped, plain], ignore_index=True), **here | {"choice_depths": [10]})
    assert asked_few["slope-cifar10-crops"] == both["slope-cifar10-crops"]  # of all depths that are stored
    (key,) = reading.key_numbers(pd.concat([cropped, plain], ignore_index=True), asked(**here))
    assert key.what == "slope over depth, CIFAR-10 with crops (limit: 0.6)"
    (key,) = reading.key_numbers(plain, asked(**here))
    assert key.what == "slope over depth, CIFAR-10 (limit: 0.6)"


def test_depth_and_rate_are_fitted_together():
    """Peaks of L^0.5 η^-0.5 at the tables' rates; with as many unknowns as depths nothing is fitted."""
    depths = (10, 20, 30, 50, 100)
    rate = {depth: design.PAPER_TABLES["mnist"][depth][0] for depth in depths}
    table = made_up({(d, 0): 1 for d in depths})
    exact = {d: math.sqrt(d / rate[d]) for d in depths}
    frame = pd.DataFrame({math.log(d): [math.log(exact[d])] for d in depths}).rename_axis("seed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "logs", lambda *given, **_: frame)
        assert reading.beside_rate(table, asked(), "mnist").loc[0].to_list() == pytest.approx([0.5, -0.5])
        deep = np.polyfit(np.log([30, 50, 100]), np.log([exact[d] for d in (30, 50, 100)]), 1)[0]
        assert reading.deep_slopes(table, asked(), "mnist").to_list() == pytest.approx([deep])
        patch.setattr(reading, "logs", lambda *given, **_: frame.iloc[:, :3])
        assert reading.beside_rate(table, asked(), "mnist").empty
        assert reading.deep_slopes(table, asked(), "mnist").empty
    assert reading.beside_rate(table, asked(), "digits").empty  # no rates are printed


def test_prepared_images_train_the_same_network_whatever_their_scale(monkeypatch):
    """Standardised, images that are darker and flatter give the same table; crops and flips another."""
    asked = {**PARAMETERS, "choice_datasets": ["cifar10"], "seeds": 1}
    jobs = {job.arguments["setting"]: job for job in fig03.jobs(asked)}
    run = {"dataset": "digits", "depth": 3, "width": 12, "device": CPU, "report": lambda *_: None}

    def table(name):
        assert jobs[name].compute is fig03.compute_prepared
        return fig03.compute_prepared(**jobs[name].arguments | run)

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
    arguments = fig03.jobs(parameters)[0].arguments
    assert (arguments["learning_rate"], arguments["epochs"], arguments["width"]) == (0.0001, 500, 20)


def test_table_learns_and_repeats_bit_for_bit():
    job = fig03.jobs(PARAMETERS)[0]
    table = compute(job, epochs=30, learning_rate=0.02)
    alignments = table[["alignment", "alignment_half", "alignment_init"]].to_numpy()
    assert list(table["layer"]) == [1, 2, 3]
    assert alignments.min() > 0 and alignments.max() < 1
    assert table["test_accuracy"].iloc[0] > 0.6  # six times chance
    assert table["train_accuracy"].iloc[0] > 0.6
    assert (table["alignment"] > table["alignment_init"]).any()
    pd.testing.assert_frame_equal(table, compute(job, epochs=30, learning_rate=0.02), check_exact=True)
    other = compute(job, epochs=30, learning_rate=0.02, seed=1)
    assert not np.array_equal(table["alignment"], other["alignment"])


def test_last_incomplete_batch_is_used(monkeypatch):
    sizes, step = [], fig03.MLP.step

    def counted(self, x, *arguments):
        sizes.append(len(x))
        return step(self, x, *arguments)

    monkeypatch.setattr(fig03.MLP, "step", counted)
    compute(fig03.jobs(PARAMETERS)[0], train_images=65, epochs=2)
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
    asked = fig03.jobs(PARAMETERS)[0].arguments | {"train_images": 130, "epochs": epochs}  # 64, 64 and 2
    table = fig03.compute(**asked, device=CPU, report=lambda done, text: None)
    x, y = fig03.images("digits", "train", 130, asked["seed"], CPU)
    x_test, y_test = fig03.images("digits", "test", 0, asked["seed"], CPU)
    weights, order = (fig03.torch_stream(asked["seed"], "fig03", what, 3) for what in ("weights", "order"))
    mlp = fig03.MLP(x.shape[1], asked["width"], 3, 10, weights)
    names = ("epochs", "batch_size", "learning_rate", "momentum", "weight_decay")
    with float32_products():  # which library multiplies is a choice of the processor's
        loss = written_out(mlp, x, y, **{name: asked[name] for name in names}, generator=order)
    assert (table["train_loss"] == loss).all()
    sample = torch.randperm(130, generator=fig03.torch_stream(asked["seed"], "fig03", "alignment"))[:20]
    np.testing.assert_array_equal(
        table["alignment"], fig03.tangent_alignment(mlp.sequential(), x[sample], y[sample])
    )
    right = (mlp.logits(x_test).argmax(1) == y_test).sum()
    assert table["test_accuracy"].iloc[0] == float(right / len(y_test))


def test_half_of_the_images_are_the_first_half():
    job = fig03.jobs(PARAMETERS)[0]
    whole, half = (compute(job, alignment_images=n, epochs=2) for n in (20, 10))
    np.testing.assert_array_equal(whole["alignment_half"], half["alignment"])
    assert not np.allclose(whole["alignment_half"], whole["alignment"])


def test_divergence_is_raised():
    with pytest.raises(Diverged), np.errstate(all="ignore"):
        compute(fig03.jobs(PARAMETERS)[0], learning_rate=1e6, epochs=3)


def test_networks_that_did_not_learn_enter_no_fit():
    good = made_up({(d, s): round(d**0.6) for d in (10, 20, 40, 80) for s in range(3)})
    bad = made_up({(100, s): 100 for s in range(3)}, accuracy=0.1)
    nets = reading.networks(pd.concat([good, bad]))
    assert nets["learned"].sum() == 12 and len(nets) == 15
    assert (nets["peak_half"] == nets["depth"]).all() and (nets["peak_init"] == 1).all()
    both, alone = judged(pd.concat([good, bad])), judged(good)
    assert both["slope-mnist"] == alone["slope-mnist"] and both["slope-mnist"].measured is not None


def test_ties_and_dead_layers():
    table = made_up({(4, 0): 2, (3, 0): 2})
    table.loc[table["depth"] == 4, "alignment"] = [np.nan, 0.5, 0.5, np.nan]
    table.loc[table["depth"] == 3, "alignment"] = np.nan
    nets = reading.networks(table).set_index("depth")
    assert nets.loc[4, "peak"] == 2 and nets.loc[4, "learned"]
    assert np.isnan(nets.loc[3, "peak"]) and not nets.loc[3, "learned"]


FULL = {"epochs_factor": 1.0, "train_images": 0}


def test_networks_whose_training_was_cut_short_are_shown_but_not_judged():
    table = made_up({(d, s): d - s for d in (10, 20, 40, 80) for s in range(3)}, accuracy=0.97)
    assert judged(table, **FULL)["slope-mnist"].outcome == "contradicted"
    for cut in ({"epochs_factor": 0.5}, {"train_images": 1000}):
        claim = judged(table, **{**FULL, **cut})["slope-mnist"]
        assert claim.outcome == "not judged" and claim.measured == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(("power", "outcome"), [(0.6, "holds"), (1.0, "contradicted")])
def test_slope_claim(power, outcome):
    rng = np.random.default_rng(0)
    depths = range(10, 101, 10)
    peaks = {(d, s): round(d**power * np.exp(0.02 * rng.normal())) for d in depths for s in range(3)}
    table = made_up(peaks, accuracy=0.965)
    claim = judged(table, **FULL)["slope-mnist"]
    assert claim.outcome == outcome
    assert claim.measured == pytest.approx(power, abs=0.05)
    assert claim.interval[0] <= claim.measured <= claim.interval[1]


def test_networks_of_profile_paper_take_the_place_of_those_cut_short():
    depths = (10, 20, 40, 80)
    brief = made_up({(d, s): d for d in depths for s in range(3)}, accuracy=0.965).assign(joined=False)
    whole = made_up({(d, 0): round(d**0.6) for d in (*depths, 100)}, accuracy=0.965).assign(joined=True)
    claims = judged(pd.concat([brief, whole]), depths=list(depths))
    assert claims["slope-mnist"].outcome == "undecided"  # judged, on one seed
    assert claims["slope-mnist"].seeds == 1
    seeds = [
        made_up({(d, s): round(d ** (0.6 + 0.01 * s)) for d in (*depths, 100)}, accuracy=0.965).assign(
            joined=True
        )
        for s in range(3)
    ]
    assert judged(pd.concat([brief, *seeds]), depths=list(depths))["slope-mnist"].outcome == "holds"
    assert claims["accuracy-mnist"].outcome == "undecided"  # judged, on one seed
    nets = reading.shown(reading.networks(pd.concat([brief, whole])), "mnist", depths)
    assert sorted(nets["depth"]) == [*depths, 100]
    # Not before a seed has all the depths that the parameters ask for; a seed that lacks one stays out.
    part = whole[whole["depth"] != 40]
    claims = judged(pd.concat([brief, part]), depths=list(depths))
    assert claims["slope-mnist"].outcome == "not judged"
    assert claims["slope-mnist"].measured == pytest.approx(1)
    nets = reading.networks(pd.concat([brief, whole, part.assign(seed=1)]))
    assert set(reading.shown(nets, "mnist", depths)["seed"]) == {0}


def test_figure_8_is_shown_at_one_profile():
    settings = ("tables", "low rate", "large batch")
    brief = [made_up({(d, 0): d}, setting=name).assign(joined=False) for d in (10, 20) for name in settings]
    whole = [made_up({(d, 0): 1}, setting=name).assign(joined=True) for d in (10, 20) for name in settings]
    nets = reading.networks(pd.concat([*brief, *whole]))
    assert reading.shown(nets, "mnist", [10, 20], settings)["joined"].all()
    nets = reading.networks(pd.concat([*brief, *whole[:-1]]))
    assert not reading.shown(nets, "mnist", [10, 20], settings)["joined"].any()
    assert len(reading.shown(nets, "mnist", [10, 20], settings)) == 6


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
    assert judged(table)["accuracy-mnist"].outcome == "not judged"
    full = judged(table, **FULL)["accuracy-mnist"]
    assert full.outcome == "holds" and full.measured == pytest.approx(0, abs=1e-12)
    less = made_up({(10, s): 4 for s in range(3)}, accuracy=0.95)
    claim = judged(less, **FULL)["accuracy-mnist"]
    assert claim.outcome == "contradicted" and claim.measured == pytest.approx(0.02)
    table = table.copy()
    table.loc[table["seed"] == 0, "test_accuracy"] = 0.1  # an interval in which nearly everything lies
    assert judged(table, **FULL)["accuracy-mnist"].outcome == "undecided"
    assert "accuracy-digits" not in judged(table, datasets=["digits"])


def test_claims_on_little_or_nothing():
    empty = judged(pd.DataFrame({"unit": []}))
    assert {claim.outcome for claim in empty.values()} == {"not run"}
    one = judged(made_up({(10, 0): 4}), **FULL)
    assert one["slope-mnist"].outcome == "not run"
    assert one["hidden-peak-mnist"].outcome == "undecided"


def test_the_finding_follows_the_verdicts():
    full = {"depths": list(DEPTHS), **FULL}
    follows = found(following(0.9, 0.01), **full)
    assert follows.startswith("The layer that aligns most grows as depth to the power 0.9 on MNIST, not 3/5")
    assert f"not 3/5 (width {PARAMETERS['width']}, where the text has 256); exact theory" in follows
    tables = found(following(0.9, 0.01), **full, width=100)
    assert "not 3/5 (width 100, as in the tables; the text has 256); exact theory" in tables
    assert follows.endswith("; exact theory, one constant fitted, gives 0.9.")
    wide = found(following(0.9, 0.01), **full, width=256)
    assert "not 3/5; exact theory" in wide
    law = found(following(0.6, 0.01), **full)
    assert law.startswith("The layer that aligns most grows as the power 3/5 of depth on MNIST (width")
    assert "MNIST (slope 0.9) is not judged, as training was cut short." in found(
        following(0.9, 0.01), depths=list(DEPTHS)
    )
    assert found(pd.DataFrame({"unit": []})) == "Too few networks learned for a slope."
    (key,) = reading.key_numbers(following(0.9, 0.01), asked(depths=list(DEPTHS)))
    assert (
        key.paper is None and "over pairs: 0.90, supremum: 0.90; limit: 0.6" in key.what
    )  # no fitted slope is printed


CROPS = {"cifar10-crops": "CIFAR-10 with crops"}


def slope_claim(dataset, kind, mean=1.5):
    """A claim of a data set's slope: with this verdict, or with none, for want of this requirement."""
    case, found = CROPS.get(dataset) or called(dataset), [mean - 0.1, mean, mean + 0.1]
    claim = Claim.equals(f"slope-{dataset}", f"It grows ({case}).", "", found, 0.6, 0.2)
    if kind not in reading.WHY_NOT:
        return replace(claim, outcome=kind, group="It grows.")
    unmet = ({"text": kind, "met": False},)
    return replace(claim, outcome="not judged", group="It grows.", requires=unmet)


def test_slopes_of_two_data_sets_are_not_averaged():
    """Nor is the width of one said of the other, or theory where one has none."""
    kinds = {
        "mnist": reading.STEADY.text, "fashion_mnist": "contradicted", "cifar10": reading.RIGHT.text,
        "cifar10-crops": "contradicted",
    }  # fmt: skip
    table, given = following(0.9, 0.01), asked(datasets=list(kinds)[:3], width=100)

    def said(**means):
        claims = {
            f"slope-{name}": slope_claim(name, kind, means.get(name, 1.5)) for name, kind in kinds.items()
        }
        return reading.finding(table, given, claims)

    two = said(**{"cifar10-crops": 0.3})
    assert "to the power 1.5 on Fashion-MNIST and 0.3 on CIFAR-10 with crops, not 3/5 (Fashion-MNIST: " in two
    assert "exact theory" not in two and two.count("width 100") == 1
    assert "to the power 1.5 on Fashion-MNIST and CIFAR-10 with crops, not 3/5" in said()


def test_the_finding_is_short_at_every_verdict(monkeypatch):
    slopes = {"mean": 1.24, "99 %": 0.93, "supremum": 0.64}
    monkeypatch.setattr(reading, "theory_slope", lambda *asked: slopes[asked[-1]])
    assert reading.in_theory(None, None, names := ("mnist", "cifar10")).endswith("fitted, gives 0.6 to 1.2")
    assert reading.in_theory(None, None, ()) == ""
    slopes["99 %"] = math.nan
    assert reading.in_theory(None, None, names) == ""
    slopes["99 %"] = 1.6
    names = ("mnist", "fashion_mnist", "cifar10", *CROPS)
    kinds = ("holds", "contradicted", "undecided", *reading.WHY_NOT)
    for given in itertools.product(kinds, repeat=4):
        claims = {f"slope-{name}": slope_claim(name, kind) for name, kind in zip(names, given, strict=True)}
        said = reading.finding(None, asked(datasets=list(names[:3])), claims)
        assert len(said) <= 300, said
        assert said.endswith(".") and ".." not in said and said.count("not judged") <= 1


def test_most_peaks_are_hidden():
    table = made_up({(depth, s): 4 for depth in (10, 20) for s in range(3)})
    at_an_end = (table["depth"] == 10) & (table["seed"] == 0) & (table["layer"] == 10)
    table.loc[at_an_end, "alignment"] = 2.0
    claim = judged(table, **FULL)["hidden-peak-mnist"]
    assert claim.outcome == "undecided" and claim.measured == pytest.approx(2.5 / 3)


def test_no_panel_of_ours_is_titled_as_the_papers():
    """``MNIST (paper, 3 seeds)`` beside a column ``paper`` would read as the authors' data."""
    text = notebooks.find("signal_propagation/fig03_peak_law").source.read_text()
    assert '"full size, " if' in text and '"paper, ' not in text
