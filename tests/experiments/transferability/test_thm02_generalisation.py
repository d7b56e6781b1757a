"""Theorems 2 and 3: a small run against its bound, claims that come out either way."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.errors import AlignbookError
from alignbook.metrics.relu_gram import relu_gram
from alignbook.runs import notebooks, parameters
from alignbook.studies.transferability.thm02_generalisation import experiment as thm02

PARAMETERS = {
    "datasets": ["digits"], "kappa": 0.3, "widths": [64, 2048], "angles": [0.0, 90.0], "shares": [1.0],
    "examples": 10, "test_images": 20, "step_size": 1.0, "tolerance": 0.01, "steps": 2000, "seeds": 2,
    "class_pairs": 0,
}  # fmt: skip


def compute(unit):
    progress = []
    table = unit.compute(
        **unit.arguments, device=torch.device("cpu"), report=lambda done, text: progress.append(done)
    )
    assert progress == sorted(progress) and progress[-1] == pytest.approx(1)
    return table.assign(dataset=unit.arguments["dataset"], seed=unit.arguments["seed"], unit=unit.name)


@pytest.fixture(scope="module")
def table():
    return pd.concat(map(compute, thm02.units(PARAMETERS)), ignore_index=True)


def test_wide_networks_move_as_far_as_the_bound(table):
    rows = thm02.of_sources(table)
    assert len(rows) == 2 * 2 * 4 and (rows.residual <= 0.01).all()
    off = {m: (thm02.ratio(part) - 1).abs().mean() for m, part in rows.groupby("width")}
    assert off[2048] < 0.15 and off[2048] < off[64]
    assert rows[rows.width == 2048].worst.max() < 0
    scratch = thm02.of_sources(table, scratch=True)
    assert len(scratch) == 4 and thm02.ratio(scratch[scratch.width == 2048]).mean() == pytest.approx(
        1, abs=0.1
    )


def test_losses_start_at_one_and_end_converged(table):
    for _, part in table[table.kind == "loss"].groupby(["unit", "width"]):
        assert part.k.is_monotonic_increasing and part.value.iloc[0] == part.limit.iloc[0] == 1
        assert part.value.iloc[-1] < 1e-2 and (np.diff(part.limit) < 0).all()


def test_same_seed_same_bits(table):
    unit = thm02.units(PARAMETERS)[1]
    pd.testing.assert_frame_equal(compute(unit), table[table.unit == unit.name].reset_index(drop=True))


def test_pairs_of_classes_from_the_most_alike_to_the_least(table):
    units = thm02.units(PARAMETERS | {"class_pairs": 3, "seeds": 1, "examples": 40})
    assert [unit.compute for unit in units] == [thm02.compute, thm02.of_pairs]
    assert all(unit.compute is thm02.compute for unit in thm02.units(PARAMETERS))
    found = compute(units[1])
    assert len(found) == 3 and found.classes.nunique() == 3 and found.distance.is_monotonic_increasing
    images = thm02.pool("digits", 0)
    means = [images.on_sphere(images.images[images.y == label]).mean(0) for label in range(10)]
    apart = torch.cdist(torch.stack(means), torch.stack(means))
    apart = apart[torch.triu(torch.ones(10, 10), 1) == 1].sort().values.tolist()
    assert found.distance.tolist() == pytest.approx([apart[0], apart[22], apart[-1]])
    # Images of classes alike make the Gram matrix singular; wide networks move as far as their bounds say.
    assert found.smallest.iloc[0] < found.smallest.iloc[2] and (found.residual <= 0.01).all()
    assert (found.deviation / found.bound).mean() == pytest.approx(1, abs=0.2)
    assert (found.scratch / found.scratch_bound).mean() == pytest.approx(1, abs=0.2)
    both = pd.concat([table, found], ignore_index=True).assign(step_size=1.0)
    alone = table.assign(step_size=1.0)
    assert thm02.claims(both, PARAMETERS) == thm02.claims(alone, PARAMETERS)


def made_up(ratio=0.98, worst=-0.2, order=1, test=1):
    """Sources whose bound grows; deviation = ratio × bound, or its reverse; test loss grows or falls."""
    rows, draw = [], np.random.default_rng(0)
    bounds = np.arange(1.0, 7.0)
    for dataset in ("one", "two"):
        for seed in range(3):
            for family, bound in [*(("rotated", b) for b in bounds), ("scratch", 5.0)]:
                moved = bound if order > 0 or family == "scratch" else 7 - bound
                rows.append(
                    {"kind": "source", "dataset": dataset, "seed": seed, "width": 100, "family": family}
                    | {"step": bound, "bound": bound, "worst": worst * (1 + 0.01 * draw.standard_normal())}
                    | {"deviation": ratio * moved * (1 + 1e-3 * draw.standard_normal())}
                    | {"test_loss": test * bound + 0.7 * draw.standard_normal()}
                    | {"test_error": 0.5 + 0.05 * test * bound + 0.035 * draw.standard_normal()}
                )
    return pd.DataFrame(rows)


LATER = ("singular", "random-labels", "random-labels-width")


def with_random_labels(excess=0.2, fall=0.1, slope=1.0):
    """made_up() at two widths with the source of random labels, and Theorem 3's bound for λ_Q."""
    draw, rows = np.random.default_rng(1), []
    high = made_up()
    low = high.assign(width=10, deviation=high.deviation + fall * high.bound)
    for (dataset, seed, width), part in pd.concat([low, high]).groupby(["dataset", "seed", "width"]):
        own = part.iloc[0].to_dict() | {"family": "flipped", "step": thm02.HALF}
        moved = (part.deviation / part.bound).mean() + excess * (1 + 0.1 * draw.standard_normal())
        rows.append(own | {"deviation": own["bound"] * moved})
        # Deviations scale with the data set's factor, λ_max / λ_Q as its power.
        share = (1 if dataset == "one" else 0.5) * (1 + 0.01 * draw.standard_normal())
        of = {"dataset": dataset, "seed": seed, "width": width, "kind": "loss", "step_size": 1.0}
        rows.append(of | {"k": 3, "limit": (1 - 0.01 * share / 2) ** 3})
    table = pd.concat([low, high, pd.DataFrame(rows)], ignore_index=True)
    table.loc[(table.dataset == "two"), ["deviation", "bound"]] *= 2.0**slope
    return table


@pytest.mark.parametrize(("sign", "outcome"), [(1, "holds"), (-1, "contradicted")])
def test_singular_tasks_and_random_labels_come_out_either_way(sign, outcome):
    table = with_random_labels(0.2 * sign, 0.1 * sign, sign)
    found = {claim.id: claim for claim in thm02.claims(table, PARAMETERS)}
    assert {found[id].outcome for id in LATER} == {outcome}
    assert found["singular"].measured == pytest.approx(sign, abs=0.1)
    assert not found["singular"].ours and found["random-labels"].ours


def test_the_smallest_eigenvalue_is_that_of_the_gram_matrix(table):
    found = thm02.smallest_eigenvalue(table.assign(step_size=PARAMETERS["step_size"]))
    images = thm02.pool("digits", 1)
    x, _ = images.pair(0, PARAMETERS["examples"])
    test, _ = images.pair(0, PARAMETERS["test_images"])
    tasks = thm02.related(images, PARAMETERS["angles"], PARAMETERS["shares"], PARAMETERS["examples"], 1)
    parts = [images.on_sphere(part) for part in (x, test, *(task[2] for task in tasks))]
    spectrum = torch.linalg.eigvalsh(relu_gram(thm02.in_span(torch.cat(parts))[: len(x)]))
    assert found["digits", 1] == pytest.approx(float(spectrum[0] / spectrum[-1]), rel=1e-6)


# Rank correlations with noise in the test losses only: those of the deviation are all the same.
@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({}, set()),
        ({"ratio": 1.2}, {"bound", "tight", "scratch"}),
        ({"ratio": 0.8}, {"tight"}),
        ({"worst": 0.1}, {"convergence"}),
        ({"test": -1}, {"test-loss", "test-error"}),
        ({"order": -1}, {"bound", "tight"}),
    ],
)
def test_claims_come_out_either_way(changes, wrong):
    claims = {claim.id: claim for claim in thm02.claims(made_up(**changes), PARAMETERS)}
    assert {claims.pop(id).outcome for id in LATER} == {"not run"}  # a single width, no losses
    order = claims.pop("order")
    assert order.measured == pytest.approx((-1 if "order" in changes else 1) - thm02.ORDER)
    assert {name for name, claim in claims.items() if claim.outcome == "contradicted"} == wrong
    assert all(claim.outcome == "holds" for name, claim in claims.items() if name not in wrong)


def test_claims_on_nothing_and_on_little(table):
    assert {claim.outcome for claim in thm02.claims(table.iloc[:0], PARAMETERS)} == {"not run"}
    assert thm02.key_numbers(table.iloc[:0], PARAMETERS) == []
    flat = made_up().assign(test_error=0.0)
    found = {claim.id: claim for claim in thm02.claims(flat, PARAMETERS)}
    assert found["test-error"].outcome == "not run" and thm02.SAME in found["test-error"].test
    assert thm02.HEADLINE in found


def test_finding_follows_the_numbers(table):
    assert "0.98 to 0.98 times the bound" in thm02.finding(made_up(), PARAMETERS)
    assert "sources order as it does (rank correlation 1.00)" in thm02.finding(made_up(), PARAMETERS)
    assert "do not order as it does (rank correlation -1.00)" in thm02.finding(made_up(order=-1), PARAMETERS)
    assert "digits" in thm02.finding(table, PARAMETERS)
    assert len(thm02.key_numbers(table, PARAMETERS)) == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [("kappa", 0.0), ("widths", [1]), ("angles", [360.0]), ("examples", 3), ("step_size", 2.0)],
)
def test_bad_parameters_are_refused_in_one_line(name, value):
    book = notebooks.find("transferability/thm02_generalisation")
    with pytest.raises(AlignbookError, match=name) as refused:
        parameters.resolve(book, "quick", {name: value})
    assert "\n" not in str(refused.value)
