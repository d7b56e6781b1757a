"""Figure 20: curves that only fall, rise and fall, only rise, on made-up tables."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import CONTRADICTED, HOLDS, NOT_RUN, UNDECIDED
from alignbook.errors import AlignbookError, Diverged
from alignbook.experiments.random_labels import fig04_transfer_function as fig04
from alignbook.experiments.random_labels import fig20_gaussian_transfer as experiment
from alignbook.runs import notebooks, parameters

PRINTED = {
    "dimension_left": 10, "dimension": 30, "first_hidden": 2048, "hidden": 256, "inputs": 10_000,
    "inputs_right": 2_000, "networks": 3, "groups": 1, "groups_right": 1, "rate": 0.5, "goal": 0.02,
    "max_steps": 9,
}  # fmt: skip
SHAPES = {
    "left": lambda s: 2 - s,
    "middle": lambda s: 1 - (s - 0.5) ** 2,
    "right": lambda s: 1 + s,
}


def made_up(shapes=SHAPES, networks=6, noise=0.001):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "unit": f"{experiment.UNITS[panel]}group{k}", "network": k, "index": i, "sigma": s,
            "tau": 0.3 * shape(s) * rng.normal(1, noise), "tau_start": 0.3,
        }
        for panel, shape in shapes.items()
        for k in range(networks)
        for i, s in enumerate(np.linspace(0.1, 0.9, 9))
    )  # fmt: skip


def judged(table, **other):
    return {claim.id: claim for claim in experiment.claims(table, PRINTED | other)}


def test_the_printed_shapes_hold():
    found = judged(made_up())
    parts = ["left-no-rise", "left-falls", "middle-rises", "middle-falls", "right-rises", "right-no-fall"]
    assert list(found) == ["shapes", *parts, *(f"tau-{part}" for part in parts)]
    assert {claim.outcome for claim in found.values()} == {HOLDS}
    assert found["shapes"].interval == min(found[part].interval for part in parts)
    assert not any(claim.ours for claim in found.values())


def test_one_other_shape_decides_the_headline():
    found = judged(made_up(SHAPES | {"right": SHAPES["middle"]}))
    assert found["shapes"].outcome == found["right-no-fall"].outcome == CONTRADICTED
    assert found["shapes"].test.startswith("right-no-fall")
    flat = judged(made_up(SHAPES | {"left": lambda s: 1.0}, noise=0.01))
    assert flat["shapes"].outcome == UNDECIDED


def test_growth_and_tau_are_judged_apart():
    # Before training τ falls with σ, and growth rises by less than that: τ falls where its growth rises.
    table = made_up()
    table["tau_start"] = 0.3 * (1 - 0.9 * table["sigma"])
    noise = np.random.default_rng(1).normal(1, 0.001, len(table))
    found = judged(table.assign(tau=table["tau_start"] * (1 + 0.1 * table["sigma"]) * noise))
    assert found["right-rises"].outcome == HOLDS and found["tau-right-rises"].outcome == CONTRADICTED
    assert found["left-falls"].outcome == CONTRADICTED and found["tau-left-falls"].outcome == HOLDS
    said = experiment.finding(made_up(), PRINTED)
    assert "τ itself has 6 of 6 parts" in said and len(said) <= 290


def test_sizes_of_ones_own_are_ours():
    found = judged(made_up(), first_hidden=64)
    assert {id: claim.ours for id, claim in found.items() if "-no-" in id and "tau" not in id} == {
        "left-no-rise": True, "right-no-fall": False,
    }  # fmt: skip
    assert found["shapes"].ours
    assert "Sizes of left and middle are ours" in experiment.finding(made_up(), PRINTED | {"inputs": 9})
    assert "ours" not in experiment.finding(made_up(), PRINTED)


def test_a_panel_that_is_not_there():
    table = made_up({"right": SHAPES["right"]})
    outcomes = {id: claim.outcome for id, claim in judged(table).items()}
    assert outcomes["shapes"] == outcomes["left-falls"] == NOT_RUN and outcomes["right-rises"] == HOLDS
    nothing = pd.DataFrame({"unit": []}, dtype=str)
    assert {claim.outcome for claim in judged(nothing).values()} == {NOT_RUN}
    assert "nothing to see" in experiment.finding(nothing, PRINTED)
    assert len(experiment.key_numbers(table, PRINTED)) == 1


SMALL = {
    "dimension": 5, "lowest": 1.0, "first_hidden": 24, "hidden": 12, "inputs": 20, "networks": 3,
    "rate": 0.3, "goal": 0.05, "max_steps": 2000, "seed": 1,
}  # fmt: skip


def compute(**other):
    return experiment.compute(**SMALL | other, device=torch.device("cpu"), report=lambda done, text: None)


def test_networks_stop_one_by_one_and_the_others_do_not_notice():
    table = compute()
    one = table.groupby("network").first()
    assert one.index.tolist() == [3, 4, 5]
    assert (one["converged"] == 1).all() and (one["loss"] < 0.05).all()
    assert one["steps"].nunique() > 1
    assert table["sigma"].iloc[:5].tolist() == pytest.approx(np.sqrt([1.0, 1.1, 1.2, 1.3, 1.4]))
    # Up to where the first one stops, none has left.
    early = compute(max_steps=int(one["steps"].min()))
    first = one["steps"].idxmin()
    kept = [frame[frame["network"] == first].reset_index(drop=True) for frame in (table, early)]
    pd.testing.assert_frame_equal(*kept)
    late = table[table["network"] != first].merge(early, on=["network", "index"])
    assert np.allclose(late["tau_start_x"], late["tau_start_y"], rtol=1e-6)


def test_the_same_network_as_figure_4(monkeypatch):
    # Equal widths and variances 0.1, 0.2, …: Figure 4's own computation on the same draws.
    arguments = SMALL | {"lowest": 0.1, "first_hidden": 12}
    same = {k: v for k, v in arguments.items() if k not in ("lowest", "first_hidden")}
    generator = experiment.torch_stream
    monkeypatch.setattr(experiment, "torch_stream", lambda seed, *names: generator(seed, "same"))
    monkeypatch.setattr(fig04, "torch_stream", lambda seed, *names: generator(seed, "same"))
    own = compute(lowest=0.1, first_hidden=12)
    other = fig04.compute(**same, device=torch.device("cpu"), report=lambda done, text: None)
    assert own["steps"].tolist() == other["steps"].tolist()
    assert own["tau"].to_numpy() == pytest.approx(other["tau"].to_numpy(), rel=1e-4)


def test_diverging_is_said():
    with pytest.raises(Diverged):
        compute(rate=1e30)


def test_the_right_panel_shares_figure_4s_units():
    book = notebooks.find("random_labels/fig20_gaussian_transfer")
    other = notebooks.find("random_labels/fig04_transfer_function")
    for profile in ("quick", "paper"):
        own = [u for u in experiment.units(parameters.resolve(book, profile)) if u.compute is fig04.compute]
        theirs = [u.arguments for u in fig04.units(parameters.resolve(other, profile))]
        assert own and all(unit.arguments in theirs for unit in own)
    assert experiment.settings(parameters.resolve(book, "paper")) == {
        panel: setting for panel, (setting, _) in experiment.PRINTED.items()
    }
    with pytest.raises(AlignbookError, match="goal"):
        parameters.resolve(book, "quick", {"goal": 0.0})
