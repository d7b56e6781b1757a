"""Figure 20: curves that only fall, rise and fall, only rise, on made-up tables."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED
from alignbook.errors import AlignbookError, Diverged
from alignbook.runs import notebooks, parameters
from alignbook.studies.random_labels import gaussian_networks
from alignbook.studies.random_labels.fig04_transfer_function import experiment as fig04
from alignbook.studies.random_labels.fig20_gaussian_transfer import design, experiment, reading
from tests import judging

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


def made_up(shapes=SHAPES, networks=6, noise=0.001, group=10):
    """Networks of one group; by default of one that had not been run when the margin was fixed."""
    rng = np.random.default_rng(0)
    sizes = {"left": (1.0, 512, 1000), "middle": (0.1, 512, 1000), "right": (None, None, 2000)}
    return pd.DataFrame(
        {
            "unit": "any", "seed": group, "network": k, "index": i, "sigma": s,
            "tau": 0.3 * shape(s) * rng.normal(1, noise), "tau_start": 0.3, "converged": 1,
            **dict(zip(("lowest", "first_hidden", "inputs"), sizes[panel], strict=True)),
        }
        for panel, shape in shapes.items()
        for k in range(networks)
        for i, s in enumerate(np.linspace(0.1, 0.9, 9))
    )  # fmt: skip


judged, _, finding = judging.of(reading, PRINTED)


PARTS = ["left-no-rise", "left-falls", "middle-rises", "middle-falls", "right-rises", "right-no-fall"]


def test_the_printed_shapes_hold():
    found = judged(made_up())
    assert list(found) == ["shapes", *PARTS, *(f"tau-{part}" for part in PARTS)]
    assert {claim.outcome for claim in found.values()} == {HOLDS}
    scaled = [found[part].interval[0] / found[part].matters for part in PARTS]
    assert found["shapes"].interval[0] == pytest.approx(min(scaled))
    assert {id for id in PARTS if found[id].ours} == {"left-no-rise", "right-no-fall"}
    said = finding(made_up())
    assert said.startswith(
        "What training adds to the transfer function has the paper's shape in all three settings;"
    )
    assert said.endswith("where it should in 6 of 6 checks.")


def test_one_other_shape_decides_the_headline():
    table = made_up(SHAPES | {"right": SHAPES["middle"]})
    found = judged(table)
    assert found["shapes"].outcome == found["right-no-fall"].outcome == CONTRADICTED
    assert finding(table).startswith("In at least one of the three settings")
    assert "in 5 of 6 checks (the sixth is " in finding(table)
    flat = judged(made_up(SHAPES | {"left": lambda s: 1.0}, noise=0.01))
    assert flat["shapes"].outcome == UNDECIDED


def test_a_fall_that_cannot_be_seen_is_no_fall():
    # A rise by 0.4 in ln and a fall by 0.02 after it: any fall was once held against the right panel.
    table = made_up(SHAPES | {"right": lambda s: np.exp(np.where(s < 0.85, 0.5 * s, 0.38))}, noise=1e-4)
    fall = reading.measured(table, {}, "right", "falls")
    assert (fall > 0.015).all() and judged(table)["right-no-fall"].outcome == HOLDS
    visible = made_up(SHAPES | {"right": lambda s: np.exp(np.where(s < 0.85, 0.5 * s, 0.25))}, noise=1e-4)
    assert judged(visible)["right-no-fall"].outcome == CONTRADICTED


def test_key_numbers_follow_the_verdict_on_the_margin():
    def told(table):
        return [number.here for number in reading.key_numbers(table, PRINTED)]

    left, middle, right = told(made_up())
    assert left.startswith("falls by ") and left.endswith(" % and rises by less than a fifth of that")
    assert middle.startswith("rises by ") and " and then falls by " in middle and "fifth" not in middle
    assert right.startswith("rises by ") and right.endswith(" % and falls by less than a fifth of that")
    visible = SHAPES | {"right": lambda s: np.exp(np.where(s < 0.85, 0.5 * s, 0.25))}
    assert told(made_up(visible, noise=1e-4))[2].endswith("and falls by more than a fifth of that")
    unclear = SHAPES | {"right": lambda s: 1 + 0.02 * s}
    assert told(made_up(unclear, noise=0.03))[2].endswith("falls by more than a fifth of that is undecided")
    assert told(made_up(group=9))[2].endswith("falls by more than a fifth of that is not judged")
    # Where the panel's own change is not there, a fifth of it says nothing.
    assert told(made_up(SHAPES | {"right": SHAPES["left"]}))[2].startswith("does not rise (")


def test_the_margin_judges_new_networks_alone():
    seen = judged(made_up(group=9))
    late = ["shapes", "left-no-rise", "right-no-fall", "tau-left-no-rise", "tau-right-no-fall"]
    assert [id for id, claim in seen.items() if claim.outcome == NOT_JUDGED] == late
    assert all(seen[id].post_hoc for id in late) and seen["right-rises"].outcome == HOLDS
    assert "new networks" in finding(made_up(group=9))
    both = pd.concat([made_up(group=9), made_up(group=10).assign(network=lambda t: t["network"] + 6)])
    assert judged(both.reset_index(drop=True))["shapes"].outcome == NOT_JUDGED
    assert judged(made_up(group=9).assign(inputs=10_000))["shapes"].outcome == HOLDS  # other sizes are new


def test_panels_whose_networks_did_not_learn_are_not_judged():
    table = made_up()
    right = table["lowest"].isna() & table["network"].eq(0)  # one of six
    found = judged(table.assign(converged=table["converged"].mask(right, 0)))
    out = {id for id, claim in found.items() if claim.outcome == NOT_JUDGED}
    assert out == {"shapes", *(id for id in found if "right" in id)}
    assert {claim.outcome for id, claim in found.items() if id not in out} == {HOLDS}


def test_growth_and_tau_are_judged_apart():
    # Before training τ falls with σ, and growth rises by less than that: τ falls where its growth rises.
    table = made_up()
    table["tau_start"] = 0.3 * (1 - 0.9 * table["sigma"])
    noise = np.random.default_rng(1).normal(1, 0.001, len(table))
    found = judged(table.assign(tau=table["tau_start"] * (1 + 0.1 * table["sigma"]) * noise))
    assert found["right-rises"].outcome == HOLDS and found["tau-right-rises"].outcome == CONTRADICTED
    assert found["left-falls"].outcome == CONTRADICTED and found["tau-left-falls"].outcome == HOLDS


def test_sizes_of_ones_own_are_said():
    said = finding(made_up(), inputs=1000, first_hidden=512)
    assert said.endswith("of panels (a) and (b) are narrower and learn fewer inputs than the paper's.")
    assert "Networks of" not in finding(made_up())


def test_a_panel_that_is_not_there():
    table = made_up({"right": SHAPES["right"]}).drop(columns=["lowest", "first_hidden"])
    outcomes = {id: claim.outcome for id, claim in judged(table).items()}
    assert outcomes["shapes"] == outcomes["left-falls"] == NOT_RUN and outcomes["right-rises"] == HOLDS
    nothing = pd.DataFrame({"unit": []}, dtype=str)
    assert "nothing to see" in finding(nothing)
    assert len(reading.key_numbers(table, PRINTED)) == 1


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
    monkeypatch.setattr(gaussian_networks, "torch_stream", lambda seed, *names: generator(seed, "same"))
    own = compute(lowest=0.1, first_hidden=12)
    other = gaussian_networks.compute(**same, device=torch.device("cpu"), report=lambda done, text: None)
    assert own["steps"].tolist() == other["steps"].tolist()
    assert own["tau"].to_numpy() == pytest.approx(other["tau"].to_numpy(), rel=1e-4)


def test_diverging_is_said():
    with pytest.raises(Diverged):
        compute(rate=1e30)


def test_the_right_panel_shares_figure_4s_jobs():
    book = notebooks.find("random_labels/fig20_gaussian_transfer")
    other = notebooks.find("random_labels/fig04_transfer_function")
    for profile in ("quick", "paper"):
        asked = experiment.jobs(parameters.resolve(book, profile))
        own = [job for job in asked if job.compute is gaussian_networks.compute]
        values = parameters.resolve(other, profile)
        theirs = [job.arguments for job in fig04.jobs(values)]
        assert sum(job.arguments in theirs for job in own) == values["groups"] <= len(own)
    assert design.settings(parameters.resolve(book, "paper")) == design.PRINTED
    with pytest.raises(AlignbookError, match="goal"):
        parameters.resolve(book, "quick", {"goal": 0.0})
