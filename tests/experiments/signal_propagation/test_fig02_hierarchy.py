"""Figure 2's experiment on digits, and its numbers and verdicts on made-up curves."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED
from alignbook.errors import AlignbookError, Diverged
from alignbook.metrics.tangent_alignment import tangent_alignment
from alignbook.runs import notebooks, parameters
from alignbook.statements import judged as judge
from alignbook.studies.signal_propagation.fig02_hierarchy import experiment as fig02
from alignbook.studies.signal_propagation.fig02_hierarchy import reading

PARAMETERS = {
    "datasets": ["digits"], "deep_datasets": ["digits"], "rate_datasets": ["digits"], "depth": 4, "deep": 5,
    "width": 12, "learning_rate": 0.01, "rates": [0.01, 0.05], "batch_size": 30, "epochs": 2,
    "record": [0.5, 1.0, 9.0], "momentum": 0.9, "weight_decay": 0.0005, "train_images": 100,
    "alignment_images": 7, "test_images": 50, "seeds": 2,
}  # fmt: skip
EPOCHS = (0.0, 1.0, 2.0, 80.0)
LOSSES = (2.3, 0.6, 0.4, 0.09)  # down to Figure 4's loss at the end alone


@pytest.fixture(autouse=True)
def printed_accuracies(monkeypatch):
    """The made-up networks have fewer layers than any of the tables, which print an accuracy like theirs."""
    made = {(dataset, depth): 0.9 for dataset in ("mnist", "fashion_mnist", "cifar10") for depth in (6, 7)}
    monkeypatch.setattr(reading, "TABLES", pd.Series(made))


def compute(job, **changes):
    arguments = job.arguments | changes
    return fig02.compute(**arguments, device=torch.device("cpu"), report=lambda done, text: None)


def made_up(
    at_two,
    at_end,
    *,
    start=0.05,
    noise=0.005,
    seeds=4,
    dataset="mnist",
    rate=0.003,
    accuracy=0.9,
    losses=LOSSES,
):
    """A table of networks whose alignments, one per layer, are ``at_two`` epochs and ``at_end``."""
    rng, frames = np.random.default_rng(1), []
    for seed in range(seeds):
        shift = noise * rng.standard_normal((len(EPOCHS), len(at_end)))
        curves = np.array([np.full(len(at_end), start), at_two, at_two, at_end]) + shift
        for epoch, loss, values in zip(EPOCHS, losses, curves, strict=True):
            frames.append(
                pd.DataFrame(
                    {
                        "epoch": epoch, "layer": np.arange(1, len(values) + 1), "alignment": values,
                        "train_loss": loss, "test_loss": 0.4 + 0.01 * seed, "dataset": dataset, "seed": seed,
                        "test_accuracy": accuracy + 0.001 * seed, "depth": len(values), "learning_rate": rate,
                    }
                )
            )  # fmt: skip
    return pd.concat(frames, ignore_index=True)


def judged(table, **changes):
    p = PARAMETERS | {"datasets": ["mnist"], "deep_datasets": [], "rate_datasets": [], "learning_rate": 0.003}
    p |= {"depth": 6, **changes}
    return {claim.id: claim for claim in judge(reading.STATEMENTS, table, p)}


def found(table, **changes):
    p = PARAMETERS | {"datasets": ["mnist"], "deep_datasets": [], "rate_datasets": [], "learning_rate": 0.003}
    return reading.finding(table, p | {"depth": 6, **changes}, judged(table, **changes))


HILL = [0.3, 0.5, 0.6, 0.5, 0.4, 0.2]


def test_a_job_measures_at_its_records_and_starts_from_the_untrained_network():
    job = fig02.jobs(PARAMETERS)[0]
    table = compute(job)
    # Four batches an epoch, the last of ten; epoch 9 lies past the end.
    assert table.groupby("step")["epoch"].first().to_dict() == {0: 0.0, 2: 0.5, 4: 1.0, 8: 2.0}
    assert table["layer"].tolist() == [1, 2, 3, 4] * 4
    assert table["alignment"].between(0, 1).all()
    losses = table.groupby("step")["train_loss"].first()
    assert losses[8] < losses[0]
    untrained = compute(job, epochs=1, learning_rate=1e-12)
    ends = [untrained.loc[untrained["step"] == step, "alignment"].to_numpy() for step in (0, 4)]
    np.testing.assert_allclose(*ends, rtol=1e-4)
    np.testing.assert_array_equal(ends[0], table.loc[table["step"] == 0, "alignment"])


def test_alignments_are_those_of_training_images(monkeypatch):
    seen = []

    def spy(net, x, y):
        seen.append((x, y))
        return tangent_alignment(net, x, y)

    monkeypatch.setattr(fig02, "tangent_alignment", spy)
    compute(fig02.jobs(PARAMETERS)[0])
    images = fig02.load("digits", "train", n=100, seed=0)
    x, y = seen[0]
    assert len(x) == 7 and all(torch.equal(x, other) for other, _ in seen)
    places = [torch.nonzero((images.x.flatten(1) == row).all(1)).flatten() for row in x]
    assert all(len(place) and images.y[place[0]] == label for place, label in zip(places, y, strict=True))


def test_a_loss_that_is_not_finite_diverges():
    with pytest.raises(Diverged):
        compute(fig02.jobs(PARAMETERS)[0], learning_rate=1e6)


def test_numbers_of_a_network():
    table = made_up([0.2, 0.3, 0.4, 0.3, 0.2, 0.1], [0.3, 0.5, 0.4, 0.3, 0.2, 0.1], noise=0, seeds=1)
    (net,) = reading.networks(table).to_dict("records")
    assert (net["peak"], net["peak_early"]) == (2, 3) and net["largest"] == pytest.approx(0.5)
    # Of layer 2, the highest at the end: 0.05 → 0.3 → 0.5.
    assert net["rise"] == pytest.approx(0.25) and net["late"] == pytest.approx(0.2)
    assert net["late_total"] == pytest.approx(0.2)
    assert net["hidden"] == pytest.approx(0.2) and net["ends"] == pytest.approx(0.1)
    assert net["stop"] == 80 and net["hidden_stop"] == net["hidden"] and net["peak_stop"] == 2
    (early,) = reading.networks(
        table.assign(train_loss=table["epoch"].map({0: 2, 1: 1, 2: 0.1, 80: 0.01}))
    ).to_dict("records")
    assert (early["stop"], early["peak_stop"]) == (2, 3) and early["hidden_stop"] == pytest.approx(0.2)
    assert early["ends_stop"] == pytest.approx(0.1) and early["peak"] == 2
    (never,) = reading.networks(table.assign(train_loss=0.2)).to_dict("records")
    assert never["stop"] == 80


def test_a_hierarchy_that_rises_early_holds():
    claims = judged(made_up(HILL, HILL))
    assert {claim.outcome for claim in claims.values()} == {HOLDS}
    assert len({claim.group for claim in claims.values()}) == 3


def test_a_lead_is_judged_where_it_is_the_same_at_the_loss_and_at_the_end():
    falling, early = [0.6, 0.5, 0.4, 0.3, 0.2, 0.1], (2.3, 0.6, 0.1, 0.01)
    claim = judged(made_up(HILL, HILL, losses=early))["hierarchy-hidden-mnist-6"]
    assert claim.outcome == HOLDS
    for at_two, at_end in ((HILL, falling), (falling, HILL)):
        table = made_up(at_two, at_end, losses=early)
        assert judged(table)["hierarchy-hidden-mnist-6"].outcome == NOT_JUDGED
        assert "best, because the verdict is not the same at both stopping times. Most" in found(table)
    table = made_up(falling, falling, losses=early)
    assert judged(table)["hierarchy-hidden-mnist-6"].outcome == CONTRADICTED
    assert "the first or last layer aligns best" in found(table)
    # A lead at the end decides nothing where the seeds scatter at the loss.
    wide = made_up(HILL, HILL, losses=early)
    at_loss = (wide["epoch"] == 2) & wide["layer"].eq(1)
    wide.loc[at_loss, "alignment"] += 0.4 * (wide["seed"] % 2)
    assert judged(wide)["hierarchy-hidden-mnist-6"].outcome == NOT_JUDGED
    high = np.array(HILL) + 0.3 * np.array([1, 0, 0, 0, 0, 1])
    assert judged(made_up(high, HILL, losses=early))["ends-mnist-6"].outcome == NOT_JUDGED


def test_an_end_that_is_absent_at_one_time_alone_is_not_judged():
    """What of two times shows it least may be called absent only if the other one is, too."""
    level = [0.2, 0.5, 0.6, 0.5, 0.4, 0.2]
    flat = [0.2, 0.2, 0.2, 0.2, 0.3, 0.2]
    table = made_up(level, flat, losses=(2.3, 0.6, 0.1, 0.01), noise=1e-4)
    assert judged(table)["ends-mnist-6"].outcome == NOT_JUDGED
    assert judged(made_up(flat, flat, noise=1e-4))["ends-mnist-6"].outcome == ABSENT


def test_networks_less_accurate_than_the_printed_ones_are_not_judged(monkeypatch):
    """As on the page of Figure 3: whether they would hold or contradict."""
    late = np.array(HILL) / 4
    for at_two in (HILL, late):
        claims = judged(made_up(at_two, HILL, accuracy=0.85))
        assert {claim.outcome for claim in claims.values()} == {NOT_JUDGED}
        assert "shortfall" in claims["hierarchy-rises-mnist-6"].test
    said = found(made_up(HILL, HILL, accuracy=0.85))
    assert (
        "At rate 0.003, we do not judge whether a hidden layer aligns best, because our accuracy is too low."
        in said
    )
    both = pd.concat([made_up(HILL, HILL), made_up(HILL, HILL, dataset="cifar10", accuracy=0.85)])
    said = found(both, datasets=["mnist", "cifar10"])
    assert "aligns best on MNIST; at rate 0.003, it is not judged on CIFAR-10, because our accuracy" in said
    assert ". Most of the gain comes in the first two epochs on MNIST." in said
    assert judged(made_up(late, HILL, accuracy=0.89))["hierarchy-rises-mnist-6"].outcome == CONTRADICTED
    monkeypatch.setattr(reading, "TABLES", reading.TABLES.drop(("mnist", 6)))  # nothing printed
    assert judged(made_up(HILL, HILL))["hierarchy-hidden-mnist-6"].outcome == NOT_JUDGED


def test_the_tables_print_an_accuracy_for_both_depths():
    rows = reading._ALL
    assert rows[rows["source"].str.startswith("Table")].groupby("dataset")["depth"].apply(list).to_dict() == {
        "cifar10": [10, 20], "fashion_mnist": [10, 20], "mnist": [10, 20],
    }  # fmt: skip
    assert reading.PRINTED["test_loss"].to_dict() == {"fashion_mnist": 0.41, "cifar10": 1.41}


def test_a_late_rise_or_an_outer_peak_disagrees():
    late = judged(made_up(np.array(HILL) / 4, HILL))
    assert late["hierarchy-rises-mnist-6"].outcome == CONTRADICTED
    assert late["hierarchy-hidden-mnist-6"].outcome == HOLDS
    falling = [0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
    outer = judged(made_up(falling, falling))
    assert outer["hierarchy-hidden-mnist-6"].outcome == CONTRADICTED
    assert outer["hierarchy-rises-mnist-6"].outcome == outer["ends-mnist-6"].outcome == HOLDS
    assert judged(made_up(HILL, 1 - np.array(HILL)))["ends-mnist-6"].outcome == CONTRADICTED
    # Noise alone decides nothing of the peak's place; curves that are flat to 0.001 have no hidden peak.
    flat = made_up([0.4] * 6, [0.4] * 6, noise=1e-9, seeds=2)
    assert judged(flat)["ends-mnist-6"].outcome == UNDECIDED
    flat = judged(made_up([0.4] * 6, [0.4] * 6, noise=1e-4))
    assert flat["hierarchy-hidden-mnist-6"].outcome == ABSENT


def test_a_few_epochs_decide_nothing_of_the_end():
    table = made_up(HILL, HILL)
    table["epoch"] = table["epoch"].replace(80.0, 6.0)
    claims = judged(table)
    assert {claim.outcome for claim in claims.values()} == {NOT_JUDGED}
    assert "50" in claims["hierarchy-hidden-mnist-6"].test
    assert "because training was cut short" in found(table)


def test_rates_are_compared_within_a_seed():
    changes = {"rate_datasets": ["mnist"], "rates": [0.05, 0.003]}
    early, late = [0.5, 0.6, 0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4, 0.5, 0.3]
    kind = {"noise": 0.0, "seeds": 3}

    def outcome(low, high):
        table = pd.concat([made_up(low, low, **kind), made_up(high, high, rate=0.05, **kind)])
        # One seed peaks a layer further, else there is no spread.
        first = table["seed"] == 0
        table.loc[first, "alignment"] += table["layer"].eq(6)[first] * 0.25
        return judged(table, **changes)["earlier-mnist"]

    assert outcome(late, early).outcome == HOLDS and outcome(late, early).measured > 3
    assert outcome(early, late).outcome == CONTRADICTED and outcome(early, late).measured < -2
    at_input = outcome(sorted(late, reverse=True), late)
    assert at_input.outcome == NOT_JUDGED and "first layer at the lowest rate" in at_input.test
    one = judged(made_up(late, late), rate_datasets=["mnist"], rates=[0.003])
    assert one["earlier-mnist"].outcome == NOT_RUN


def test_printed_accuracies_need_all_images():
    table = made_up(HILL, HILL, dataset="cifar10", rate=0.05, accuracy=0.514)
    changes = {"rate_datasets": ["cifar10"], "rates": [0.003, 0.05]}
    assert judged(table, **changes)["printed-cifar10"].outcome == NOT_JUDGED
    assert judged(table, **changes, train_images=0)["printed-cifar10"].outcome == HOLDS
    assert judged(made_up(HILL, HILL), **changes)["printed-cifar10"].outcome == NOT_RUN
    assert judged(table, **changes)["printed-loss-cifar10"].outcome == NOT_JUDGED
    assert (
        judged(table, **changes, train_images=0)["printed-loss-cifar10"].outcome == CONTRADICTED
    )  # about 0.4
    near = 1.41 + 0.002 * (table["seed"] - 1)
    right = judged(table.assign(test_loss=near), **changes, train_images=0)["printed-loss-cifar10"]
    assert right.outcome == HOLDS and right.measured == pytest.approx(1, abs=0.01)
    wide = judged(table.assign(test_loss=1.41 + 0.1 * (table["seed"] - 1)), **changes, train_images=0)
    assert wide["printed-loss-cifar10"].outcome == UNDECIDED and "wider" in wide["printed-loss-cifar10"].test
    asked = PARAMETERS | changes | {"datasets": ["cifar10"], "depth": 6}
    (key,) = reading.key_numbers(table, asked)[:1]
    assert key.paper == "51.4" and float(key.here.split()[0]) == pytest.approx(51.55, abs=0.051)
    far = made_up(HILL, HILL, dataset="cifar10", rate=0.05, accuracy=0.8)
    assert judged(far, **changes, train_images=0)["printed-cifar10"].outcome == CONTRADICTED


def test_networks_that_did_not_learn_are_left_out():
    chance = made_up(HILL, HILL, accuracy=0.1)
    assert {claim.outcome for claim in judged(chance).values()} == {NOT_RUN}
    assert found(chance) == "No network learned." == found(pd.DataFrame({"unit": []}))


def test_the_finding_says_both_halves():
    said = found(made_up(HILL, HILL))
    assert said.startswith("At a training loss of 0.1 and at the end, a hidden layer aligns best. Most of")
    late = found(made_up(np.array(HILL) / 4, HILL))
    assert ". Most change comes after" in late
    outer = made_up([0.6, 0.5, 0.4, 0.3, 0.2, 0.1], [0.6, 0.5, 0.4, 0.3, 0.2, 0.1], dataset="fashion_mnist")
    both = pd.concat([made_up(HILL, HILL), outer])
    said = found(both, datasets=["mnist", "fashion_mnist"])
    assert (
        " a hidden layer aligns best on MNIST; the first or last layer aligns best on Fashion-MNIST." in said
    )
    kinds = [
        made_up(HILL, HILL, dataset="cifar10"),
        made_up([*HILL[:5], 0.25, 0.2], [*HILL[:5], 0.25, 0.2], dataset="cifar10"),
    ]
    deep = found(
        pd.concat([*kinds, outer]), datasets=["cifar10", "fashion_mnist"], deep=7, deep_datasets=["cifar10"]
    )
    assert " a hidden layer aligns best on CIFAR-10; " in deep and len(deep) <= 300


def test_why_each_data_set_is_not_judged_is_said():
    falling, early = [0.6, 0.5, 0.4, 0.3, 0.2, 0.1], (2.3, 0.6, 0.1, 0.01)
    turns = [made_up(HILL, falling, losses=early, dataset=name) for name in ("mnist", "fashion_mnist")]
    short = made_up(HILL, HILL, losses=early, dataset="cifar10", accuracy=0.5)
    said = found(pd.concat([*turns, short]), datasets=["mnist", "fashion_mnist", "cifar10"])
    assert said.startswith(
        "At rate 0.003, we do not judge whether a hidden layer aligns best: on MNIST and Fashion-MNIST, the "
        "verdict is not the same at both stopping times, and on CIFAR-10, our accuracy is too low"
    )
    # Where the seeds scatter at one of the times, no verdict turns.
    wide = made_up(HILL, HILL, losses=early)
    at_loss = (wide["epoch"] == 2) & wide["layer"].eq(1)
    wide.loc[at_loss, "alignment"] += 0.4 * (wide["seed"] % 2)
    said = found(wide)
    assert "aligns best, because 4 seeds leave it undecided at one of two stopping times" in said


def returning(high, dataset="mnist"):
    """A made-up table whose alignments rise early, go to ``high`` times that at epoch 40, and come back."""
    table = made_up(HILL, HILL, dataset=dataset)
    between = table[table["epoch"] == 80].assign(epoch=40.0)
    between["alignment"] *= high
    return pd.concat([table, between], ignore_index=True)


def test_a_rise_and_a_fall_later_do_not_cancel():
    table = returning(1.5)  # 0.55 in two epochs, then 0.3 up and 0.3 down
    net = reading.networks(table).iloc[0]
    assert abs(net["late"]) < 0.02 and net["late_total"] == pytest.approx(0.6, abs=0.05)
    claim = judged(table)["hierarchy-rises-mnist-6"]
    assert claim.outcome == NOT_JUDGED and "added up instead of netted" in claim.test
    assert "est. Whether most of the gain comes in the first two epochs depends on how later" in found(table)
    assert judged(returning(1.1))["hierarchy-rises-mnist-6"].outcome == HOLDS
    both = pd.concat([returning(1.5), returning(1.1, "fashion_mnist")])
    said = found(both, datasets=["mnist", "fashion_mnist"])
    assert said.endswith(". Most of the gain comes in the first two epochs on Fashion-MNIST.")
    short = made_up(HILL, HILL, dataset="cifar10", accuracy=0.85)
    said = found(pd.concat([table, short]), datasets=["mnist", "cifar10"])
    assert ". On MNIST, whether most of the gain comes in the first two epochs depends on how later" in said


def test_where_the_rise_is_late_is_said():
    late = made_up(np.array(HILL) / 4, HILL, dataset="cifar10")
    said = found(pd.concat([made_up(HILL, HILL), late]), datasets=["mnist", "cifar10"])
    assert "Most of the gain comes in the first two epochs, but not on CIFAR-10." in said


def test_jobs_are_unique_and_share_the_figures_rate():
    made = fig02.jobs(PARAMETERS)
    assert len({job.name for job in made}) == len(made) == 3 * 2
    assert json.loads(json.dumps(made[0].arguments)) == made[0].arguments
    book = notebooks.find("signal_propagation/fig02_hierarchy")
    paper = {job.arguments["dataset"] for job in fig02.jobs(parameters.resolve(book, "paper"))}
    assert paper == {"mnist", "fashion_mnist", "kmnist", "cifar10"}
    for bad in ({"depth": 3}, {"rates": []}, {"datasets": ["letters"]}):
        with pytest.raises(AlignbookError, match=next(iter(bad))):
            parameters.resolve(book, "quick", bad)
