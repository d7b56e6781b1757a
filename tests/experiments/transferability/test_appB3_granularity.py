"""Appendix B.3: coarse, distant and fine targets of the same images, and the verdict of each statement."""

import copy
import itertools

import numpy as np
import pytest
import torch

from alignbook.data import ImageSet, load
from alignbook.data.superclasses import SUPERCLASSES
from alignbook.errors import AlignbookError
from alignbook.metrics.weight_deviation import weight_deviation
from alignbook.training.fine_tune import fine_tune
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT, OPEN
from companion.studies.transferability.appB3_granularity import design, experiment, reading
from tests import judging

BOOK = "transferability/appB3_granularity"
PARAMETERS = judging.given(BOOK, "quick")
FINE = SUPERCLASSES["cifar100"].values()
KEPT = {"coarse": 0.6, "distant": 0.6, "fine": 0.8}  # of the error from scratch
ERRORS = {"coarse": 50.0, "distant": 30.0, "fine": 50.0}


def made_up(kept=KEPT, moved=(0.5, 0.5, 0.6)):
    """Errors from scratch and what is kept of them; deviations of the three kinds of targets, fine-tuned."""
    moved = dict(zip(kept, moved, strict=True))

    def error(row):
        scratch = ERRORS[row.kind] + 4 * row.target
        return (kept[row.kind] if row.start == "pretrained" else 1) * scratch + row.noise

    return judging.rows(
        noise=0.3,
        seed=range(5),
        kind=[*kept],
        target=range(2),
        start=["scratch", "pretrained"],
        test_error=error,
        deviation=lambda row: moved[row.kind] + row.noise / 100 if row.start == "pretrained" else 1.0,
    )


_, outcomes = judging.of(reading, PARAMETERS)


def test_the_kinds_divide_the_same_images_by_other_lines():
    names = sorted(name for group in FINE for name in group)
    y = torch.arange(100).repeat(20)
    x = torch.arange(2000.0).reshape(-1, 1, 1, 1).expand(-1, 3, 32, 32)
    images, rows = ImageSet("cifar100", x, y, names), experiment.grid("cifar100", 5, seed=3)
    assert all(any(set(row) == set(group) for group in FINE) for row in rows)
    assert rows != experiment.grid("cifar100", 5, seed=4)
    cell = {name: (row, column) for row, some in enumerate(rows) for column, name in enumerate(some)}
    seen = {kind: set() for kind in design.KINDS}
    for kind, draw in itertools.product(design.KINDS, range(5)):
        x, labels = experiment.chosen(images, rows, kind, draw, 100, 3, "cpu")
        places = x[:, 0, 0, 0].long().tolist()
        assert not seen[kind] & {*places} and labels.bincount().tolist() == [20] * 5
        seen[kind] |= {*places}
        for place, label in zip(places, labels.tolist(), strict=True):
            row, column = cell[names[y[place]]]
            own = {"coarse": (row, draw), "distant": (row, column), "fine": (column, row)}
            assert (label, draw) == own[kind]
    assert len(seen["fine"]) == 500 and seen["coarse"] == seen["distant"] == seen["fine"]
    with pytest.raises(AlignbookError, match="cifar100 has too few images of"):
        experiment.chosen(images, rows, "fine", 0, 105, 3, "cpu")


def test_a_job_fine_tunes_and_measures_each_start(monkeypatch, tmp_path):
    monkeypatch.setenv("ALIGNBOOK_CHECKPOINTS", str(tmp_path))
    starts, started = [], experiment.started

    def watched(*arguments):
        starts.append(started(*arguments))
        return copy.deepcopy(starts[-1])

    monkeypatch.setattr(experiment, "started", watched)
    job = next(job for job in experiment.jobs(judging.given(BOOK)) if job.name == "fine-seed0")
    table = judging.compute(job, draws=1, batch_size=64, steps=3, decay_at=[2])
    assert table["start"].tolist() == ["scratch", "pretrained"] and starts[0].head.out_features == 2
    rows = experiment.grid("photos", 2, 0)
    seen, unseen = (
        experiment.chosen(load("photos", split), rows, "fine", 0, 64, 0, "cpu") for split in ("train", "test")
    )
    for net, row in zip(starts, table.itertuples(), strict=True):
        before, orders = copy.deepcopy(net.state_dict()), torch.Generator()
        fine_tune(net, *seen, steps=3, batch_size=64, learning_rate=0.01, decay_at=(2,), generator=orders)
        assert row.deviation == pytest.approx(weight_deviation(before, net, n=64).total, rel=1e-3)
        for (x, y), error in ((seen, row.train_error), (unseen, row.test_error)):
            wrong = (net.eval()(x).argmax(1) != y).double().mean()
            assert error == pytest.approx(100 * float(wrong), abs=2)


def test_statements_hold_as_the_paper_has_them_and_fail_turned():
    held = outcomes(made_up())
    assert set(held.values()) == {HOLDS}
    turned = outcomes(made_up({"coarse": 1.2, "distant": 1.1, "fine": 0.8}, moved=(0.7, 0.7, 0.6)))
    assert set(turned.values()) == {CONTRADICTED}


def test_kinds_that_do_not_differ_and_seeds_that_do():
    alike = outcomes(made_up({"coarse": 0.8, "distant": 0.8, "fine": 0.8}, moved=(0.6, 0.6, 0.6)))
    assert alike["more-coarse"] == alike["moves-coarse"] == NO_EFFECT
    table = made_up()
    coarse = (table["kind"] == "coarse") & (table["start"] == "pretrained")
    table.loc[coarse, "test_error"] += 15 * (table["seed"] - 2)
    assert outcomes(table)["more-coarse"] == OPEN


def test_shares_are_of_the_mean_errors_and_the_printed_numbers_follow():
    table = made_up()[lambda rows: rows["seed"] == 0]
    errors = table[table["kind"] == "fine"].groupby("start")["test_error"].sum()
    share = 100 * (1 - errors["pretrained"] / errors["scratch"])
    assert reading.removed(table, PARAMETERS, "fine").tolist() == pytest.approx([share])
    before, after = errors["scratch"] / 200, errors["pretrained"] / 200
    odds = np.log(before / (1 - before) * (1 - after) / after)
    assert reading.odds(table, PARAMETERS, "fine").tolist() == pytest.approx([odds])
    assert reading.printed_more() == pytest.approx((98.29 + 79.36 - 48.75 - 60.15) / 2)
    saved = [26.39 - 0.45, 22.14 - 4.57, -46.25 + 13.95, -52.70 + 21.04]
    assert reading.printed_more("saved") == pytest.approx(sum(saved) / 2)
