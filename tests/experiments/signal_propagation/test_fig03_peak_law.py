"""Figure 3's experiment on digits, and its fits and verdicts on made-up peaks."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from companion.studies.signal_propagation.fig03_peak_law import design, experiment as fig03, reading
from tests import judging

SMALL = {"choice_depths": [5], "epochs_factor": 0.02, "train_images": 300, "pair_images": 0, "seeds": 1}
PARAMETERS = judging.given("signal_propagation/fig03_peak_law", **SMALL)


def made_up(peaks, dataset="mnist", setting="tables", accuracy=0.9):
    """A table of networks from {(depth, seed): peak}."""
    return pd.concat(
        judging.rows(
            dataset=dataset, setting=setting, depth=depth, seed=seed, layer=range(1, depth + 1),
            alignment=lambda row, peak=peak: 1.0 / (1 + abs(row.layer - peak)),
            alignment_half=lambda row: 1.0 * row.layer, alignment_init=lambda row: 1.0 / row.layer,
            test_accuracy=accuracy + 1e-4 * (seed - 1),
        )
        for (depth, seed), peak in peaks.items()
    ).reset_index(drop=True)  # fmt: skip


DEPTHS = [10, 20, 40, 80]
ASKED = PARAMETERS | {"datasets": ["mnist"], "variation_dataset": "mnist", "depths": DEPTHS}
judged, _ = judging.of(reading, ASKED)


def test_open_choices_train_what_they_name():
    """A bias in every layer from 0 on; an early end; else the network of ``compute``, layer by layer."""
    asked = PARAMETERS | {"choices": ["biases", "stop at 0.1"]}
    made = {job.arguments["setting"]: job for job in fig03.jobs(asked) if job.arguments["depth"] == 5}
    plain = judging.compute(made["tables"])
    whole, early = (judging.compute(made["stop at 0.1"], goal=goal) for goal in (0.0, 9.0))
    assert (whole["alignment"] == plain["alignment"]).all()
    assert early["train_loss"][0] > whole["train_loss"][0]
    biased = judging.compute(made["biases"])
    assert (biased["alignment_init"] == plain["alignment_init"]).all()
    assert not np.allclose(biased["alignment"], plain["alignment"])


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
    table = fig03.compute_pairs(dataset="digits", images=8, depths=[3, 7], seed=3, **judging.QUIET)
    assert len(table) == (3 + 7) * 3
    x = fig03.load("digits", "train", n=8, seed=3).x.flatten(1).double().numpy()
    cosines = [
        x[i] @ x[j] / np.sqrt((x[i] @ x[i]) * (x[j] @ x[j])) for i in range(8) for j in range(i + 1, 8)
    ]
    for row in table.itertuples():
        over = {"mean": np.mean, "supremum": max, "99 %": lambda values: np.percentile(values, 99)}
        expected = [over[row.statistic](losses) for losses in plain_losses(cosines, row.depth, row.layer)]
        assert [row.forward, row.backward] == pytest.approx(expected, rel=1e-9)


def test_prepared_images_train_the_same_network_whatever_their_scale(monkeypatch):
    """Standardised, images that are darker and flatter give the same table; crops and flips another."""
    asked = PARAMETERS | {"choice_datasets": ["cifar10"], "choices": [*design.PREPARED]}
    jobs = {job.arguments["setting"]: job for job in fig03.jobs(asked)}

    def table(name):
        return judging.compute(jobs[name], dataset="digits", depth=3)

    plain, moved = table("standardised"), table("crops and flips")
    assert plain["alignment"].between(0, 1).all()
    assert (plain["alignment_init"] == moved["alignment_init"]).all()
    assert plain["train_loss"].iloc[0] != moved["train_loss"].iloc[0]
    loaded = fig03.load

    def darker(*asked, **more):
        found = loaded(*asked, **more)
        return replace(found, x=0.25 * found.x - 0.5)

    monkeypatch.setattr(fig03, "load", darker)
    pd.testing.assert_frame_equal(table("standardised"), plain, rtol=1e-2)


def test_paper_profile_has_the_tables_rates():
    assert fig03.schedule("mnist", 70) == (0.0002, 200)
    assert fig03.schedule("fashion_mnist", 15) == (0.003, 100)  # as near to 20: the smaller
    asked = {"datasets": ["cifar10"], "depths": [90], "epochs_factor": 1.0, "cifar10_width": 20}
    arguments = fig03.jobs(PARAMETERS | asked)[0].arguments
    assert (arguments["learning_rate"], arguments["epochs"], arguments["width"]) == (0.0001, 500, 20)


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


@pytest.mark.parametrize(("power", "outcome"), [(0.6, "holds"), (1.0, "contradicted")])
def test_slope_claim(power, outcome):
    claim = judged(following(power))["slope-mnist"]
    assert claim.outcome == outcome and claim.measured == pytest.approx(power, abs=0.05)


def test_shift_claims_pair_depth_and_seed():
    base = made_up({(d, s): 4 + s for d in (20, 40) for s in range(3)})
    later = made_up({(d, s): (8, 11, 12)[s] for d in (20, 40) for s in range(3)}, setting="low rate")
    earlier = made_up({(d, s): 2 for d in (20, 30) for s in range(3)}, setting="large batch")
    claims = judged(pd.concat([base, later, earlier]), variation_depths=[20, 30, 40])
    assert claims["shift-low-rate"].outcome == "holds"
    assert claims["shift-low-rate"].measured == pytest.approx(np.mean(np.log([8 / 4, 11 / 5, 12 / 6])))
    assert claims["shift-large-batch"].outcome == "contradicted"
    assert claims["shift-large-batch"].measured == pytest.approx(np.mean(np.log([2 / 4, 2 / 5, 2 / 6])))


def following(exponent, accuracy=0.97, seeds=3, first=None):
    """Networks with peaks near L^``exponent``, and pairs whose equilibrium layer is L^0.9 for κ = 1."""
    peaks = {(d, s): round(d ** (exponent + 0.01 * (s - 1))) for d in DEPTHS for s in range(seeds)}
    peaks |= {(DEPTHS[0], s): first for s in range(seeds)} if first else {}
    pairs = [
        {"statistic": "mean", "depth": depth, "layer": layer, "forward": 1.0 / layer,
         "backward": layer / depth**1.8}
        for depth in DEPTHS for layer in range(1, depth + 1)
    ]  # fmt: skip
    pairs = pd.DataFrame(pairs).assign(dataset="mnist", seed=0)
    return pd.concat([made_up(peaks, accuracy=accuracy), pairs], ignore_index=True)


def test_the_equilibrium_layer_is_where_the_losses_are_equal():
    layers = reading.equilibrium(following(0.9), "mnist")
    assert layers.to_dict() == pytest.approx({depth: depth**0.9 for depth in DEPTHS}, rel=1e-9)
    assert reading.theory_slope(following(0.9), ASKED, "mnist") == pytest.approx(0.9)
    assert reading.factor(following(0.9), ASKED) == pytest.approx(1.0, abs=0.05)
    assert reading.factor(following(0.6), ASKED) > 2
    early = following(0.9).assign(backward=lambda rows: rows["backward"] * 1e9)
    assert (reading.equilibrium(early, "mnist") == 1).all()  # equal before the first layer
    assert reading.equilibrium(made_up({(10, 0): 3}), "mnist").empty


def test_the_slope_is_that_of_all_networks_and_its_interval_the_jackknifes():
    table = following(0.9)
    nets = reading.learned_in(table, ASKED, "mnist")
    values = reading.slopes(table, ASKED, dataset="mnist")
    fit = np.polyfit(np.log(nets["depth"]), np.log(nets["peak"]), 1)[0]
    left_out = [
        np.polyfit(np.log(nets["depth"].drop(i)), np.log(nets["peak"].drop(i)), 1)[0] for i in nets.index
    ]
    assert values.to_numpy() == pytest.approx(len(nets) * fit - (len(nets) - 1) * np.array(left_out))
    assert values.mean() == pytest.approx(fit, abs=0.01) and values.index.name == "network"
    without = reading.slopes(following(0.9, first=1), ASKED, dataset="mnist", first=False)
    assert without.mean() == pytest.approx(0.9, abs=0.05)


def test_accuracies_and_hidden_peaks_come_out_either_way():
    table = following(0.9)
    good, bad = judged(table), judged(following(0.9, accuracy=0.9))
    assert (good["accuracy"].outcome, bad["accuracy"].outcome) == ("holds", "contradicted")
    at_the_end = judged(following(1.0, first=1))["hidden-peak"]
    assert at_the_end.measured < 0.5 and good["hidden-peak"].measured == 1.0


def test_depth_and_rate_are_fitted_together():
    """Peaks of L^0.5 η^-0.5 at the tables' rates; with as many unknowns as depths nothing is fitted."""
    nets = pd.DataFrame({"depth": [10, 20, 30, 50, 100]})
    rates = np.array([design.PAPER_TABLES["mnist"][depth][0] for depth in nets["depth"]])
    nets["peak"] = np.sqrt(nets["depth"] / rates)
    assert reading.beside_rate(nets, "mnist") == pytest.approx((0.5, -0.5))
    assert np.isnan(reading.beside_rate(nets.iloc[:3], "mnist")).all()
    assert np.isnan(reading.beside_rate(nets, "digits")).all()  # no rates are printed
