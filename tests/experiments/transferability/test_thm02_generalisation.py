"""Theorems 2 and 3: a small run against its bound, claims that come out either way."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from alignbook.errors import AlignbookError
from alignbook.metrics.relu_gram import relu_gram
from alignbook.runs import notebooks, parameters
from alignbook.statements import judged
from alignbook.studies.transferability.thm02_generalisation import experiment, reading

PARAMETERS = {
    "datasets": ["digits"], "kappa": 0.3, "widths": [64, 2048], "angles": [0.0, 90.0], "shares": [1.0],
    "examples": 10, "test_images": 20, "step_size": 1.0, "tolerance": 0.01, "steps": 2000, "seeds": 2,
    "class_pairs": 0,
}  # fmt: skip


def parameters_of(table):
    return PARAMETERS | {"datasets": list(dict.fromkeys(table["dataset"])) if "dataset" in table else ["one"]}


def claims(table):
    return {claim.id: claim for claim in judged(reading.STATEMENTS, table, parameters_of(table))}


def finding(table):
    return reading.finding(table, parameters_of(table), claims(table))


def compute(job):
    progress = []
    table = job.compute(
        **job.arguments, device=torch.device("cpu"), report=lambda done, text: progress.append(done)
    )
    assert progress == sorted(progress) and progress[-1] == pytest.approx(1)
    return table.assign(dataset=job.arguments["dataset"], seed=job.arguments["seed"], unit=job.name)


@pytest.fixture(scope="module")
def table():
    return pd.concat(map(compute, experiment.jobs(PARAMETERS)), ignore_index=True)


def test_wide_networks_move_as_far_as_the_bound(table):
    rows = reading.of_sources(table)
    assert len(rows) == 2 * 2 * 4 and (rows.residual <= 0.01).all()
    off = {m: (reading.ratio(part) - 1).abs().mean() for m, part in rows.groupby("width")}
    assert off[2048] < 0.15 and off[2048] < off[64]
    assert rows[rows.width == 2048].worst.max() < 0
    scratch = reading.of_sources(table, scratch=True)
    assert len(scratch) == 4 and reading.ratio(scratch[scratch.width == 2048]).mean() == pytest.approx(
        1, abs=0.1
    )


def test_losses_start_at_one_and_end_converged(table):
    for _, part in table[table.kind == "loss"].groupby(["unit", "width"]):
        assert part.k.is_monotonic_increasing and part.value.iloc[0] == part.limit.iloc[0] == 1
        assert part.value.iloc[-1] < 1e-2 and (np.diff(part.limit) < 0).all()


def test_same_seed_same_bits(table):
    job = experiment.jobs(PARAMETERS)[1]
    pd.testing.assert_frame_equal(compute(job), table[table.unit == job.name].reset_index(drop=True))


def test_pairs_of_classes_from_the_most_alike_to_the_least(table):
    jobs = experiment.jobs(PARAMETERS | {"class_pairs": 3, "seeds": 1, "examples": 40})
    assert [job.compute for job in jobs] == [experiment.compute, experiment.of_pairs]
    assert all(job.compute is experiment.compute for job in experiment.jobs(PARAMETERS))
    found = compute(jobs[1])
    assert len(found) == 3 and found.classes.nunique() == 3 and found.distance.is_monotonic_increasing
    images = experiment.pool("digits", 0)
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
    one, other = claims(both), claims(alone)
    assert {id for id in one if one[id] != other[id]} == {"singular-digits"}
    slope = stats.linregress(np.log(found.largest / found.smallest), np.log(found.deviation)).slope
    assert one["singular-digits"].measured == pytest.approx(slope)
    ranks = stats.spearmanr(found.distance, found.deviation).statistic
    assert list(reading.ranks_of_pairs(both, "digits", "distance", "deviation")) == pytest.approx([ranks])


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


LATER = tuple(f"random-labels{more}-{name}" for more in ("", "-width") for name in ("one", "two"))
BESIDE = [
    f"{kind}-{source}-{column}"
    for kind, sources in (("alike", reading.ALIKE), ("unlike", reading.UNLIKE))
    for source in sources
    for column in ("deviation", "test-loss")
]


def with_random_labels(excess=0.2, fall=0.1, slope=1.0):
    """made_up() at two widths with the source of random labels, and Theorem 3's bound for λ_Q."""
    draw, rows = np.random.default_rng(1), []
    high = made_up()
    low = high.assign(width=10, deviation=high.deviation + fall * high.bound)
    for (dataset, seed, width), part in pd.concat([low, high]).groupby(["dataset", "seed", "width"]):
        own = part.iloc[0].to_dict() | {"family": "flipped", "step": reading.HALF}
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
def test_random_labels_come_out_either_way(sign, outcome):
    table = with_random_labels(0.2 * sign, 0.1 * sign, sign)
    found = claims(table)
    assert {found[id].outcome for id in LATER} == {outcome}
    assert found["random-labels-one"].ours and found["random-labels-one"].seeds == 3


def test_singular_tasks_are_judged_within_each_data_set():
    table, draw = with_random_labels(), np.random.default_rng(3)
    assert {claims(table)[f"singular-{name}"].outcome for name in ("one", "two")} == {"not run"}
    pairs = [
        {"kind": "pair", "dataset": dataset, "seed": seed, "largest": 1.0, "smallest": condition**-1.0}
        | {"deviation": condition ** (0.5 * sign) * (1 + 0.2 * draw.standard_normal()), "bound": 1.0}
        for dataset, sign in (("one", 1), ("two", -1))
        for seed in range(4)
        for condition in (2.0, 3.0, 5.0, 8.0, 12.0)
    ]
    table = pd.concat([table, pd.DataFrame(pairs)], ignore_index=True)
    for name, sign, outcome in (("one", 1, "holds"), ("two", -1, "contradicted")):
        claim = claims(table)[f"singular-{name}"]
        assert claim.outcome == outcome and claim.seeds == 4
        assert claim.measured == pytest.approx(0.5 * sign, abs=0.2)
    few = table[(table["kind"] != "pair") | (table["smallest"] > 1 / 4)]
    assert claims(few)["singular-one"].outcome == "not judged"


@pytest.mark.parametrize(("power", "outcome"), [(0.3, "holds"), (-0.3, "contradicted")])
def test_the_rate_of_the_excess_is_judged_on_new_seeds(power, outcome):
    draw = np.random.default_rng(4)
    parts = []
    for width in (10, 100, 1000):
        part = made_up().assign(width=width)
        part["deviation"] = part["bound"] * (
            1 + 0.2 * (width / 100) ** -(power + 0.01 * draw.standard_normal())
        )
        part.loc[part["seed"] == 1, "deviation"] += 1e-3 * part["bound"]
        parts.append(part)
    table = pd.concat(parts, ignore_index=True)
    table.loc[table["dataset"] == "two", "deviation"] *= 2  # each data set by itself: no excess falls to 0
    old, later = table, table.assign(seed=table["seed"] + 3)
    new = claims(later)["excess-rate-one"]
    assert claims(old)["excess-rate-one"].test == "judged on seeds 3 and later; not met"
    assert claims(old)["excess-rate-one"].outcome == "not judged" and new.outcome == outcome
    assert new.measured == pytest.approx(power, abs=0.05) and new.post_hoc and new.ours and new.seeds == 3
    assert claims(later)["excess-rate-two"].outcome != outcome
    said = finding(later)
    assert (
        said.startswith(f"The wider the network, the {'less' if power > 0 else 'more'}") and "1 of 2" in said
    )
    assert claims(table[table["width"] > 10])["excess-rate-one"].outcome == "not run"  # two widths


@pytest.mark.parametrize(("ratio", "outcome"), [(1.0, "holds"), (1.2, "contradicted")])
def test_that_the_bound_is_reached_requires_the_same_width(ratio, outcome):
    table = with_random_labels(excess=0.0)
    table["deviation"] *= ratio / 0.98
    wide = table.assign(width=table["width"] * 10.0**12)
    for id in (f"{id}-{name}" for id in ("tight", "scratch") for name in ("one", "two")):
        narrow = claims(table)[id]
        assert narrow.outcome == "not judged" and claims(wide)[id].outcome == outcome
        assert claims(wide)[id].measured == pytest.approx(narrow.measured) and narrow.seeds == 3


@pytest.mark.parametrize(("excess", "outcome"), [(-0.2, "holds"), (0.2, "contradicted")])
def test_the_bound_is_judged_for_each_data_set_where_the_network_is_wide_enough(excess, outcome):
    table = with_random_labels(excess)
    narrow, wide = claims(table), claims(table.assign(width=table["width"] * 10.0**12))
    for name in ("bound-one", "bound-two"):
        assert narrow[name].outcome == "not judged" and wide[name].outcome == outcome
        assert wide[name].measured == pytest.approx(narrow[name].measured) and wide[name].ours
    assert claims(made_up())["bound-one"].outcome == "not judged"  # no eigenvalue is known


def test_the_width_that_the_bound_needs_by_hand():
    table = with_random_labels()
    table = table[(table["seed"] == 0) & (table["width"] == 100)]
    rows = table[table["dataset"] == "one"]
    share = 2 * (1 - rows["limit"].max() ** (1 / 3))
    radius = PARAMETERS["kappa"] * share * (10 / 2) / 10**2  # κ λ_Q / n_Q², λ_Q at most a share of n_Q / 2
    needed = (rows["deviation"].max() / radius) ** 2
    assert reading.of_needed_width(table, PARAMETERS, "one") == pytest.approx(100 / needed)


@pytest.mark.parametrize(("sign", "outcome"), [(1, "holds"), (-1, "contradicted")])
def test_sources_are_held_against_training_from_scratch_on_new_seeds(sign, outcome):
    draw, rows = np.random.default_rng(5), []
    for seed in range(3, 7):
        for family, step, log in (
            ("scratch", 0, 0), ("rotated", 0, -0.5), ("rotated", 90, 9), ("flipped", 1, 0.7),
            ("flipped", 0.5, 9), ("classes", 0, 0.3),
        ):  # fmt: skip
            moved = 2 ** (sign * log + 0.02 * draw.standard_normal())
            row = {"kind": "source", "dataset": "one", "seed": seed, "width": 10, "family": family}
            row |= {"step": step, "bound": 1.0, "worst": -0.1, "test_error": 0.1}
            rows.append(row | {"deviation": 5 * moved, "test_loss": 0.1 * moved})
    table = pd.DataFrame(rows)
    narrow = table.assign(width=5, deviation=1.0, test_loss=1.0)  # the widest alone counts
    new = claims(pd.concat([narrow, table]))
    assert {new[id].outcome for id in BESIDE} == {outcome}
    assert new["alike-same-classes-deviation"].measured == pytest.approx(-0.5 * sign, abs=0.05)
    assert new["unlike-reversed-test-loss"].measured == pytest.approx(0.7 * sign, abs=0.05)
    assert new["unlike-other-classes-test-loss"].ours and new["alike-same-classes-deviation"].post_hoc
    old = claims(table.assign(seed=table["seed"] - 3))
    assert {old[id].outcome for id in BESIDE} == {"not judged"}


def test_the_smallest_eigenvalue_is_that_of_the_gram_matrix(table):
    found = reading.smallest_eigenvalue(table.assign(step_size=PARAMETERS["step_size"]))
    images = experiment.pool("digits", 1)
    x, _ = images.pair(0, PARAMETERS["examples"])
    test, _ = images.pair(0, PARAMETERS["test_images"])
    tasks = experiment.related(images, PARAMETERS["angles"], PARAMETERS["shares"], PARAMETERS["examples"], 1)
    parts = [images.on_sphere(part) for part in (x, test, *(task[2] for task in tasks))]
    spectrum = torch.linalg.eigvalsh(relu_gram(experiment.in_span(torch.cat(parts))[: len(x)]))
    assert found["digits", 1] == pytest.approx(float(spectrum[0] / spectrum[-1]), rel=1e-6)


# Rank correlations with noise in the test losses only: those of the deviation are all the same.
@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({}, set()),
        ({"worst": 0.1}, {"convergence-one", "convergence-two"}),
        ({"test": -1}, {"test-loss", "test-error"}),
        ({"order": -1}, set()),
    ],
)
def test_claims_come_out_either_way(changes, wrong):
    found = claims(made_up(**changes))
    rates = ("excess-rate-one", "excess-rate-two")
    singular = ("singular-one", "singular-two")
    absent = {found.pop(id).outcome for id in (*LATER, *singular, *rates, *BESIDE)}
    assert absent == {"not run"}  # a single width, no losses
    needs_width = [f"{id}-{name}" for id in ("bound", "tight", "scratch") for name in ("one", "two")]
    assert {found.pop(id).outcome for id in needs_width} == {"not judged"}
    ranks = reading.ranked(made_up(**changes), PARAMETERS, one="deviation")
    assert list(ranks) == pytest.approx([-1 if "order" in changes else 1] * 3)
    assert {name for name, claim in found.items() if claim.outcome == "contradicted"} == wrong
    assert all(claim.outcome == "holds" for name, claim in found.items() if name not in wrong)


def test_claims_on_nothing_and_on_little():
    nothing = pd.DataFrame({"unit": []})
    assert finding(nothing) == "Nothing has finished."
    assert claims(made_up().assign(test_error=0.0))["test-error"].outcome == "not run"


def test_finding_follows_the_numbers(table):
    assert "after the worst source, the weights move 0.98 times the bound." in finding(made_up())
    apart = made_up()
    apart.loc[apart["dataset"] == "two", "deviation"] *= 1.5
    assert "the weights move 0.98 to 1.47 times the bound, by data set." in finding(apart)
    assert finding(made_up()).startswith(
        "Whether the excess over the bound falls with the width was not measured:"
    )
    assert ". A larger bound goes with a larger test loss, as claimed" in finding(made_up())
    assert "goes with a smaller test loss" in finding(made_up(test=-1))
    assert len(reading.key_numbers(table, PARAMETERS)) == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [("kappa", 0.0), ("widths", [1]), ("angles", [360.0]), ("examples", 3), ("step_size", 2.0)],
)
def test_bad_parameters_are_refused_in_one_line(name, value):
    book = notebooks.find("transferability/thm02_generalisation")
    with pytest.raises(AlignbookError, match=name) as refused:
        parameters.resolve(book, "quick", {name: value})
    assert "\n" not in str(refused.value)


def test_what_is_said_of_classes_that_are_alike_follows_the_ranks():
    rng = np.random.default_rng(0)
    rows = [
        {"kind": "pair", "dataset": "mnist", "seed": seed, "distance": distance, "largest": 1.0}
        | {"smallest": 1 / (distance + 3 * rng.random()), "deviation": -distance + 3 * rng.random()}
        for seed in range(6)
        for distance in range(1, 7)
    ]
    said = reading.of_alike(pd.DataFrame(rows), {"datasets": ["mnist"]})
    assert "are alike move the weights further on MNIST; " in said
    assert "It is more singular on no data set and less singular on MNIST." in said
