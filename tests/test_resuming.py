"""A job that was killed while it trained ends as if it had not been."""

import pytest
import torch
from torch import nn

from alignbook import checkpoints, resuming
from alignbook.training.loop import module_step, train
from companion.runs import engine, notebooks, parameters, results


class Killed(BaseException):
    pass


_watch = {"kill at": None, "steps": 0}  # not held by a step, of which all that it holds is kept


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGNBOOK_CHECKPOINTS", str(tmp_path))
    monkeypatch.setattr(resuming, "EVERY", 0.0)  # after every epoch
    return tmp_path / "training"


def trained(seed=0, *, until=None, **given):
    """(steps that were taken here, what was seen at some, how it ended, the weights)."""
    _watch["steps"] = 0
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randn(23, 5), torch.randint(0, 3, (23,))
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
    plain = module_step(net, x, y, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9))
    seen, told = [], []

    def step(index, rate):
        if _watch["steps"] == _watch["kill at"]:
            raise Killed
        _watch["steps"] += 1
        return plain(index, rate)

    given = {"batch_size": 4, "epochs": 6, "rate": lambda count: 0.1 / count, "at": [0, 1, 7, 20, 36]} | given
    ended = train(
        step, 23, generator=generator, on=lambda count: seen.append((count, net[0].weight.sum().item())),
        until=until, report=lambda done, text: told.append((done, text)), **given,
    )  # fmt: skip
    return _watch["steps"], seen, ended, [p.detach().clone() for p in net.parameters()]


def in_a_job(**given):
    with resuming.job(lambda: {"job": 1}):
        return trained(**given)


def killed(at, run=in_a_job, **given):
    _watch["kill at"] = at
    try:
        with pytest.raises(Killed):
            run(**given)
    finally:
        _watch["kill at"] = None


def same(a, b):
    return a[1:3] == b[1:3] and all(torch.equal(p, q) for p, q in zip(a[3], b[3], strict=True))


@pytest.mark.parametrize(
    "options", [{}, {"epochs": None, "steps": 33}, {"rate": 0.1, "last_batch": "drop"}], ids=str
)
def test_it_goes_on_where_it_was(options, folder):
    plain = trained(**options)
    for kill in (1, 7, 20):
        killed(kill, **options)
        resumed = in_a_job(**options)
        per_epoch = 5 if options.get("last_batch") == "drop" else 6
        assert resumed[0] < plain[0] or kill < per_epoch  # whole epochs are not taken again
        assert same(plain, resumed)
        assert not list(folder.glob("*"))  # nothing is left of a job that has ended


def test_a_rule_that_ends_it_is_asked_as_before():
    def rule():
        losses = []

        def until(now):
            losses.append(now.loss)
            return now.epochs >= 3 and losses[-1] < losses[0]

        return until

    plain = trained(until=rule(), epochs=40)
    killed(13, until=rule(), epochs=40)
    assert same(plain, in_a_job(until=rule(), epochs=40))


def test_what_it_took_counts_among_its_cost():
    killed(20)
    before = checkpoints.spared()
    in_a_job()
    assert checkpoints.spared() > before


def test_a_training_that_was_through_is_not_taken_again():
    def two():
        with resuming.job(lambda: {"job": 2}):
            first = trained(seed=0)
            _watch["kill at"] = through and 8
            return [first, trained(seed=1)]

    plain, through = [trained(seed=0), trained(seed=1)], True
    killed(None, two)
    through = None
    first, second = two()
    assert first[0] == 0 and same(first, plain[0]) and second[0] < plain[1][0] and same(second, plain[1])


@pytest.mark.parametrize(
    "other", [{"seed": 1}, {"epochs": 7}, {"batch_size": 5}, {"at": [0, 3]}, {"rate": 0.2}], ids=str
)
def test_another_training_finds_nothing(other):
    killed(20)
    assert in_a_job(**other)[0] == trained(**other)[0]


def test_other_code_arguments_or_data_find_nothing():
    killed(20)
    with resuming.job(lambda: {"job": 1, "code": "other"}):
        assert trained()[0] == 36


def test_a_broken_file_starts_over(folder):
    killed(20)
    (file,) = folder.rglob("*.pt")
    file.write_bytes(b"no file of torch")
    assert in_a_job()[0] == 36


def test_outside_of_a_job_nothing_is_kept(folder):
    trained()
    assert not folder.exists()


@pytest.mark.parametrize(
    "name, compute, at",
    [
        ("signal_propagation/fig03", "compute", 1),
        ("random_labels/fig06", "compute", 2),
        ("random_labels/fig04", "compute", 50),
        ("random_labels/fig20", "compute", 40),
        ("transferability/tab02", "fine_tuned", 3),
        ("representation_alignment/fig07", "compute", 4),
    ],
)
def test_a_study_killed_while_it_trains_stores_the_same(name, compute, at, monkeypatch, folder):
    notebook = notebooks.find(name)
    jobs = engine.jobs_of(notebook, parameters.resolve(notebook, "smoke"))
    job = next(job for job in jobs if job.compute.__name__ == compute)
    keep, count = resuming._Kept.keep, []

    def keep_once(self, now, done):
        keep(self, now, done)
        count.append(self.path)
        if len(count) == at:
            raise Killed

    monkeypatch.setattr(resuming._Kept, "keep", keep_once)
    with pytest.raises(Killed):
        engine.compute(job, "cpu")
    monkeypatch.setattr(resuming._Kept, "keep", keep)
    assert count[-1].exists()
    found, wanted = resuming._Kept.found, []
    monkeypatch.setattr(resuming._Kept, "found", lambda self: wanted.append(found(self)) or wanted[-1])
    resumed = engine.compute(job, "cpu")[0]
    assert any(wanted)
    monkeypatch.setattr(resuming, "EVERY", float("inf"))
    assert results.written(resumed) == results.written(engine.compute(job, "cpu")[0])
