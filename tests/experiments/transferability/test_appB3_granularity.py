"""Appendix B.3: coarse, distant and fine targets of the same images, and the verdict of each statement."""

import copy

import numpy as np
import pytest
import torch

from alignbook.data import ImageSet, load
from alignbook.data.superclasses import SUPERCLASSES
from alignbook.errors import AlignbookError
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT, OPEN
from companion.runs import notebooks, parameters
from companion.studies.transferability.appB3_granularity import design, experiment, reading
from tests import judging
from tests.judging import QUIET

BOOK = notebooks.find("transferability/appB3_granularity")
PARAMETERS = parameters.resolve(BOOK, "quick")
SMOKE = parameters.resolve(BOOK, "smoke")
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
    used = {}
    for kind in design.KINDS:
        found = []
        for draw in range(5):
            x, labels = experiment.chosen(images, rows, kind, draw, 100, 3, "cpu")
            places = x[:, 0, 0, 0].long()
            found += places.tolist()
            assert labels.bincount().tolist() == [20] * 5
            for place, label in zip(places, labels.tolist(), strict=True):
                name = names[y[place]]
                row = next(n for n, row in enumerate(rows) if name in row)
                column = rows[row].index(name)
                place_in_grid = {"coarse": (row, None), "distant": (row, draw), "fine": (draw, label)}[kind]
                assert label == (column if kind == "fine" else row)
                assert place_in_grid in ((row, column), (row, None))
        assert len(set(found)) == 500
        used[kind] = set(found)
    assert used["coarse"] == used["distant"] == used["fine"]
    with pytest.raises(AlignbookError, match="cifar100 has too few images of"):
        experiment.chosen(images, rows, "fine", 0, 105, 3, "cpu")


def test_training_is_plain_descent(monkeypatch, tmp_path):
    monkeypatch.setenv("ALIGNBOOK_RESULTS", str(tmp_path))  # no network from an earlier run
    job = next(job for job in experiment.jobs(SMOKE) if job.name == "fine-seed0")
    given = job.arguments | {"draws": 1, "batch_size": 64, "steps": 3, "decay_at": [2]}
    starts, started = [], experiment.started

    def watched(*arguments):
        starts.append(started(*arguments))
        starts[-1] = copy.deepcopy(net := starts[-1])
        return net

    monkeypatch.setattr(experiment, "started", watched)
    table = experiment.compute(**given, **QUIET)
    rows = experiment.grid("photos", 2, 0)
    train, test = (load("photos", split) for split in ("train", "test"))
    x, y = experiment.chosen(train, rows, "fine", 0, 64, 0, "cpu")
    unseen = experiment.chosen(test, rows, "fine", 0, 64, 0, "cpu")
    for net, row in zip(starts, table.itertuples(), strict=True):
        before = [p.detach().clone() for p in net.parameters()]
        momentum = [torch.zeros_like(p) for p in before]
        net.train()
        for rate in (0.01, 0.01, 0.001):
            gradients = torch.autograd.grad(torch.nn.functional.cross_entropy(net(x), y), [*net.parameters()])
            with torch.no_grad():
                for p, m, g in zip(net.parameters(), momentum, gradients, strict=True):
                    p -= rate * m.mul_(0.9).add_(g)
        ends = [p.detach() for p in net.parameters()]
        moved = [float((p - b).norm()) for p, b in zip(ends, before, strict=True) if p.ndim > 1]
        assert row.deviation == pytest.approx(sum(moved) / 8, rel=1e-3)
        for (images, labels), error in (((x, y), row.train_error), (unseen, row.test_error)):
            wrong = (net.eval()(images).argmax(1) != labels).double().mean()
            assert error == pytest.approx(100 * float(wrong), abs=2)
    assert table["start"].tolist() == ["scratch", "pretrained"] and starts[0].head.out_features == 2


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
