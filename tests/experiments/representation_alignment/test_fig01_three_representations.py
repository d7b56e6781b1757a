"""Figures 1 and 5: linear models against gradient descent, the representations, claims on made-up tables."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED
from alignbook.errors import AlignbookError
from alignbook.runs import notebooks, parameters
from alignbook.statements import judged as judge
from alignbook.studies.representation_alignment.fig01_three_representations import (
    design,
    experiment,
    reading,
)

PARAMETERS = {
    "dataset": "diabetes", "points": 40, "width": 50, "training_steps": 20, "bandwidth": 1.0,
    "other_bandwidth": 0.3, "penalty": 0.1, "dictionary_epochs": 1, "step_sizes": [0.1, 1.0],
    "iterations": 200, "early": 30, "seeds": 3,
}  # fmt: skip


def made_up(areas=(0.5, 0.3, 0.1), errors=(0.1, 0.2, 0.4), kept=0.8, unfitted=1e-20, seeds=4):
    rng, rows = np.random.default_rng(0), []
    for seed in range(seeds):
        for name, area, error in zip(
            [*design.NAMES, design.OTHER], (*areas, areas[1]), (*errors, errors[1]), strict=True
        ):
            about = {"seed": seed, "representation": name}
            whole = {"area": area + 0.01 * rng.standard_normal(), "points": 40, "square": 0.2}
            rows.append(about | {"kind": "area", "unfitted": unfitted} | whole)
            rows += [
                about | {"kind": "curve", "threshold": t, "alignment": kept + 0.01 * rng.standard_normal()}
                for t in (0.0, 0.25)
            ]
            for size, factor in ((0.1, 2.0), (1.0, 1.0)):
                for step in (30, 200):
                    value = 0.2 * factor * error * (1 + 0.01 * rng.standard_normal())
                    found = {"step_size": size, "step": step, "train_error": value, "test_error": 2 * value}
                    rows.append(about | {"kind": "step"} | found)
    return pd.DataFrame(rows)


def outcomes(table):
    return {claim.id: claim.outcome for claim in judged(table).values()}


def judged(table):
    return {claim.id: claim for claim in judge(reading.STATEMENTS, table, PARAMETERS)}


def found(table, **changed):
    return reading.finding(table, PARAMETERS | changed, judged(table))


def test_the_printed_order_holds():
    table = made_up(areas=(0.5, 0.2, 0.1))
    assert set(outcomes(table).values()) == {HOLDS}
    said = found(table)
    assert said.startswith("Linear models learn fastest on the ReLU network's features early in training;")
    assert "these features also align best (area under the curve 0.5" in said
    assert "the others at most 0.2" in said
    assert "bandwidth" not in said
    heads = [claim for claim in judged(table).values() if claim.headline]
    assert [claim.id for claim in heads] == ["relu-fastest"] and not heads[0].ours
    assert judged(table)["training"].ours and judged(table)["test"].ours
    few, all_rows = (table.assign(points=PARAMETERS["points"] - less) for less in (1, 0))
    assert found(few, dataset="ct_slices").endswith(" All CT slices come from two patients.")
    assert "patients" not in found(all_rows, dataset="ct_slices")
    assert reading.key_numbers(table, PARAMETERS)[2].here.startswith("200")


def test_another_order_disagrees():
    table = made_up(areas=(0.5, 0.1, 0.3), errors=(0.2, 0.1, 0.4), kept=0.3)
    outcome = outcomes(table)
    assert outcome["alignment"] == outcome["training"] == outcome["test"] == outcome["most"] == CONTRADICTED
    assert outcome["relu-first"] == HOLDS and outcome["relu-fastest"] == CONTRADICTED
    assert found(table).startswith("Linear models do not learn fastest on the ReLU network's features early")
    assert "these features also align best" in found(table)
    behind = found(made_up(areas=(0.2, 0.5, 0.1), errors=(0.2, 0.2, 0.4)))
    assert behind.startswith("Linear models learn no faster on the ReLU network's features")
    assert "these features do not align best (area under the curve 0.2" in behind and len(behind) <= 300


def test_nothing_is_judged_where_a_linear_model_cannot_fit_the_labels():
    table = made_up(areas=(0.5, 0.2, 0.1))
    short = table["representation"].eq("dictionary") & table["seed"].eq(2) & table["kind"].eq("area")
    table.loc[short, "unfitted"] = 8e-5
    assert set(outcomes(table).values()) == {NOT_JUDGED}
    need = judged(table)["alignment"].requires[0]
    assert need["measured"] == 8e-5 and need["asked"] == "at most 1e-10"
    assert found(table).startswith("Speed and alignment are not judged") and "up to 0.008 %" in found(table)
    # The other bandwidth is a condition of its own statements alone.
    table = made_up(areas=(0.5, 0.2, 0.1))
    other = table["representation"].eq(design.OTHER) & table["kind"].eq("area")
    table.loc[other, "unfitted"] = 8e-5
    outcome = outcomes(table)
    assert {id for id, one in outcome.items() if one == NOT_JUDGED} == {
        "alignment-other", "training-other", "closer-other",
    }  # fmt: skip


def test_an_order_that_changes_late_is_judged_by_itself():
    table = made_up()
    late = (table["step"] == 200) & (table["representation"] == "dictionary")
    table.loc[late, "train_error"] = 0.0
    outcome = outcomes(table)
    assert outcome["training-last"] == CONTRADICTED and outcome["training"] == outcome["test-last"] == HOLDS
    assert judged(table)["training-last"].post_hoc and judged(table)["training-last"].ours
    assert "undecided" in found(made_up(seeds=1))


def test_errors_are_judged_where_differences_and_ratios_agree():
    """Small errors: too little to matter by their difference, a factor of two by their ratio."""
    table = made_up(errors=(0.001, 0.002, 0.004))
    late = table["step"] == 30
    table.loc[late, ["train_error", "test_error"]] *= 100
    outcome, ids = outcomes(table), ("training-last", "test-last")
    assert {id for id, one in outcome.items() if one == NOT_JUDGED} == {*ids}
    assert outcome["training"] == outcome["test"] == outcome["relu-fastest"] == HOLDS
    need = judged(table)["test-last"].requires[1]
    assert need["text"] == reading.RATIO and not need["met"]


def test_whether_the_relu_network_is_ahead_at_every_step():
    table = made_up()
    said = "The ReLU network has the lowest mean training and test error at every step in the figure."
    assert reading.always_first(table) == said
    table.loc[(table["step"] == 200) & (table["representation"] == "rbf"), "test_error"] = 0.0
    assert " lowest mean training error at every" in reading.always_first(table)
    table.loc[(table["step"] == 30) & (table["representation"] == "rbf"), "train_error"] = 0.0
    assert reading.always_first(table) == ""


def test_the_other_bandwidth_is_told_beside_the_relu_network():
    table = made_up()
    said = reading.other_bandwidth(table, PARAMETERS)
    assert said.startswith("At bandwidth 0.3 the RBF network has an area of 0.3") and "ahead" not in said
    other = table["representation"].eq(design.OTHER)
    table.loc[other, ["train_error", "test_error"]] *= 0.25
    said = reading.other_bandwidth(table, PARAMETERS)
    assert "after 30 steps its training error is 0.05 beside 0.1" in said
    assert "The RBF network is ahead, although" in said
    less = f"although it aligns less (area {reading.areas(table)[design.OTHER].mean():.2f})."
    assert found(table).endswith(
        f"With a narrower bandwidth (0.3), the RBF network is ahead after 30 steps, {less}"
    )
    table.loc[other, ["train_error", "test_error"]] *= 2 * 0.99
    said = reading.other_bandwidth(table, PARAMETERS)
    assert "The training errors differ by less than our margin of 0.01, although" in said
    assert "the RBF network has caught up after 30 steps, although it aligns less (area 0.3" in found(table)
    table.loc[other & table["kind"].eq("area"), "area"] = 0.9
    assert "ahead" not in reading.other_bandwidth(table, PARAMETERS)  # it aligns better, as it should
    assert reading.other_bandwidth(table[~other], PARAMETERS) == ""


@pytest.mark.parametrize(("factor", "said"), [(0.6, "at least"), (1.4, "nearly")])
def test_errors_that_differ_by_ratio_alone_are_told_but_not_judged(factor, said):
    """Both errors are small: they differ by less than a hundredth, but by far more than a tenth of them."""
    table = made_up(errors=(0.007, 0.2, 0.4))
    steps, columns = table["kind"].eq("step"), ["train_error", "test_error"]
    other, relu = (steps & table["representation"].eq(name) for name in (design.OTHER, "relu"))
    table.loc[other, columns] = factor * table.loc[relu, columns].to_numpy()
    assert outcomes(table)["training-other"] == NOT_JUDGED
    area = reading.areas(table)[design.OTHER].mean()
    assert found(table).endswith(
        f" With a narrower bandwidth (0.3), the RBF network learns {said} as fast (not judged), although it "
        f"aligns less (area {area:.2f})."
    )


def test_what_is_kept_is_asked_at_the_printed_threshold_over_the_root_of_the_printed_points():
    """8 of 1000 points is 0.253 over √n, and the stored threshold next to it is 0.25."""
    table = made_up()
    rows = table["kind"].eq("curve") & table["threshold"].eq(0.0)
    table.loc[rows, "alignment"] = 0.0
    claim = judged(table)["most"]
    assert claim.measured == pytest.approx(0.8, abs=0.02)
    assert "At τ/√n of about 0.25, a threshold of about 8 for the paper's 1000 points" in claim.statement


def test_what_the_rbf_network_is_nearer_to():
    assert outcomes(made_up(areas=(0.5, 0.2, 0.1)))["closer"] == HOLDS
    assert outcomes(made_up(areas=(0.5, 0.4, 0.1)))["closer"] == CONTRADICTED


def test_radial_basis_functions_and_their_centres():
    draw = torch.Generator().manual_seed(0)
    centres, x = torch.randn(6, 4, generator=draw), torch.randn(3, 4, generator=draw)
    net = experiment.RadialBasis(centres, 0.7, draw)
    plain = [[torch.exp(-(a - c).square().sum() / (2 * 0.49)) for c in centres] for a in x]
    torch.testing.assert_close(net.features(x), torch.tensor(plain))
    net(x).sum().backward()
    assert net.centres.grad.abs().sum() > 0 and net(x).shape == (3, 1)


def test_codes_are_sparse_and_their_penalty_counts():
    x = torch.nn.functional.normalize(torch.randn(30, 8, generator=torch.Generator().manual_seed(0)).double())
    codes, test = experiment.sparse_codes(x, x[:5], 40, 0.1, 2, seed=0)
    assert codes.shape == (30, 40) and test.shape == (5, 40)
    assert 0 < (codes != 0).double().mean() < 0.3
    assert not experiment.sparse_codes(x, x, 40, 1.0, 1, seed=0)[0].any()


@pytest.fixture(scope="module")
def table(computed):
    return computed(experiment, PARAMETERS)


def test_a_run_from_nothing(table):
    assert set(reading.areas(table)) == {*design.NAMES, design.OTHER}
    assert {NOT_JUDGED, HOLDS, CONTRADICTED} & set(outcomes(table).values())
    steps = table[table["kind"] == "step"]
    assert {0, 1, 30, 200} <= set(steps["step"])
    start = steps[steps["step"] == 0].groupby("seed")["train_error"].first()
    square = table[table["kind"] == "area"].groupby("seed")["square"].first()
    np.testing.assert_allclose(start, square)


def test_alignment_is_that_of_the_matrix_on_which_linear_models_are_trained(table):
    whole = table[table["kind"] == "area"].set_index(["seed", "representation"])
    curves = table[table["kind"] == "curve"].set_index(["seed", "representation"])
    beyond = curves[curves["threshold"] > whole["largest"].loc[curves.index]]
    assert len(beyond) and (beyond["alignment"] == 0).all()  # no direction is longer than the longest
    # What least squares leaves is what no singular vector has: alignment at threshold 0 is the rest.
    start = curves[curves["threshold"] == 0]["alignment"]
    np.testing.assert_allclose(1 - start, whole["unfitted"].loc[start.index], atol=1e-6)
    # The area, Σ σ_i (u_iᵀ y)² over ‖y‖² √n, by the matrix itself.
    draw = torch.Generator().manual_seed(1)
    hidden = 3 * torch.randn(12, 4, generator=draw, dtype=torch.float64).abs()
    y = torch.randn(12, generator=draw, dtype=torch.float64)
    made = experiment.measured(hidden, y, hidden, y, [0.1], 2, 1)
    left, singular, _ = np.linalg.svd(experiment.with_constant(hidden).numpy(), full_matrices=False)
    gains = np.square(left.T @ y.numpy())
    area = (singular * gains).sum() / (float(y @ y) * np.sqrt(12))
    assert made.loc[made["kind"] == "area", "area"].item() == pytest.approx(area, rel=1e-9)


def test_step_sizes_that_diverge_are_left_out():
    draw = torch.Generator().manual_seed(0)
    hidden = torch.randn(30, 5, generator=draw, dtype=torch.float64).abs()
    y = torch.randn(30, generator=draw, dtype=torch.float64)
    made = experiment.measured(hidden, y, hidden, y, [0.1, 10.0], 50, 10)
    assert set(made["step_size"].dropna()) == {0.1}
    fast = made_up()
    fast.loc[(fast["step_size"] == 1.0) & (fast["seed"] == 2), "kind"] = "gone"
    assert set(reading.at_best(fast)["step_size"]) == {0.1}


def test_one_seed_nothing_and_bad_parameters():
    assert set(outcomes(made_up(seeds=1)).values()) == {UNDECIDED}
    book = notebooks.find("representation_alignment/fig01_three_representations")
    for bad in ({"bandwidth": 0.0}, {"dataset": "mnist"}, {"step_sizes": [-1.0]}):
        with pytest.raises(AlignbookError):
            parameters.resolve(book, "smoke", bad)
