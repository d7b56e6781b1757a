"""The benchmark's harness on works of its own, and the page of the book that shows what it stores."""

import json
import sys
import textwrap

import pytest

from alignbook import paths
from benchmarks import __main__ as command, harness, registry, training
from benchmarks.work import Aim, Scaling, Work, entrywise_error, relative_error
from companion.prose import benchmarks as benchmarks_page

# Workers import what they run by name, so the works lie in a module.
FAKE = textwrap.dedent(
    """
    import numpy as np
    from benchmarks.work import Contender, Scaling, Work

    def setup(device, n):
        return np.arange(1.0, n + 1)

    def ours(state):
        return np.cumsum(state)

    def theirs(state):
        return np.add.accumulate(state)

    def wrong(state):
        return ours(state) * 1.5

    def absent(state):
        import no_such_peer

    def fails(state):
        raise ZeroDivisionError("no such thing")

    def cost(n):
        return {"float64": n, "bytes": 8 * n}

    def held(n):
        return 8 * n

    def work(name, peer, aims=()):
        contenders = OURS, Contender(peer.__name__, "numpy", peer)
        return Work(name, f"sums: {name}", setup, {"n": 1000}, {"n": 3}, contenders, cost, aims=aims)

    OURS = Contender("alignbook", "alignbook", ours)
    SCALING = Scaling("sums/n", "sums", "n", (2**16, 2**18), setup, OURS, cost, held)
    """
)
RATES = {"float32": 1e9, "float64": 1e9, "bfloat16": 1e9, "bytes": 1e9}


@pytest.fixture
def fake(tmp_path, monkeypatch):
    (tmp_path / "fake_works.py").write_text(FAKE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(harness, "measure_rates", lambda threads, device: RATES)
    monkeypatch.setattr(harness, "SHORT", 0.0)
    import fake_works

    yield fake_works
    del sys.modules["fake_works"]


def run(folder, *works):
    return command.run(list(works), 1, "cpu", [work.name for work in works], folder)


def stored(folder):
    (path,) = folder.glob("*.json")
    assert [file.name for file in folder.iterdir()] == [path.name]  # nothing partial is left
    return harness.load(path)


@pytest.mark.slow
def test_a_comparison_from_workers_to_table_file_and_page(fake, tmp_path, capsys, monkeypatch):
    aims = (
        Aim("at least 0 times faster", "faster", 0, "theirs"),
        Aim("in no time", "floor", 0),
        Aim("equal", "error", 1e-12, "theirs"),
        Aim("on a GPU", "floor", 1, device="cuda"),
        Aim("on another processor", "floor", 1, needs="no_such_feature"),
    )
    folder = tmp_path / "benchmarks" / "results"
    assert run(folder, fake.work("sums/good", fake.theirs, aims), fake.SCALING) == 0
    out, _ = capsys.readouterr()
    assert f"theirs (numpy {fake.np.__version__})" in out and "without no_such_feature" in out
    assert "DISAGREE" not in out
    (record,) = stored(folder)["comparisons"].values()
    ours, theirs = record["contenders"]
    assert len(ours["seconds"]) == len(theirs["seconds"]) == 5
    assert [aim["reached"] for aim in record["aims"]] == [True, False, True, None]  # and none for a GPU
    assert record["floor"]["seconds"] == 8e-6  # the bytes outweigh the operations
    assert record["environment"]["threads"] == 1 and record["environment"]["rates"] == RATES
    (scaling,) = stored(folder)["scalings"].values()
    assert scaling["exponents"]["expected time"] == pytest.approx(1)
    monkeypatch.setattr(paths, "root", lambda: tmp_path)
    assert benchmarks_page.comparisons()["faster"].tolist() == [theirs["median"] / ours["median"]]


@pytest.mark.slow
def test_answers_that_disagree_are_an_error_and_reach_nothing(fake, tmp_path, capsys, monkeypatch):
    aims = (Aim("at least 0 times faster", "faster", 0, "wrong"),)
    assert run(tmp_path / "benchmarks" / "results", fake.work("sums/bad", fake.wrong, aims)) == 1
    out, err = capsys.readouterr()
    assert "DISAGREE" in out and "MISSED" in out and "ANSWERS DISAGREE: sums/bad (wrong)" in err
    monkeypatch.setattr(paths, "root", lambda: tmp_path)
    assert "answers disagree" in benchmarks_page.comparisons()["shown"][0]


def test_updates_of_training_tell_a_network_that_has_not_learned():
    state = training.setup_network("cpu", 2, 8, 8)
    ours = training.updates(training.fit_float32(training.fresh(state)))
    for prepare in (training.plain, training.channels_last):
        peer = training.updates(training.fit_eager(prepare(state)))
        assert training.update_error(ours, peer) < 1e-4
    idle = training.updates(training.plain(state))
    assert training.update_error(idle, peer) == pytest.approx(1)


@pytest.mark.slow
def test_a_peer_that_fails_or_is_not_installed_stops_its_work_alone(fake, tmp_path, capsys):
    works = [fake.work(f"sums/{peer.__name__}", peer) for peer in (fake.absent, fake.fails, fake.theirs)]
    assert run(tmp_path / "results", *works) == 2
    _, err = capsys.readouterr()
    assert "no_such_peer" in err and "make bench installs the peers" in err
    assert "no such thing" in err and "FAILED: sums/fails" in err
    assert list(stored(tmp_path / "results")["comparisons"]) == ["sums/theirs"]


def test_results_merge_in_the_order_of_the_works_and_replace_each_other(tmp_path):
    order = ["a/one", "a/two", "b/one"]

    def record(day):
        return {"title": day, "environment": {"date": day, "kind": "cpu"}}

    for name, day in (("b/one", "1"), ("a/one", "2"), ("b/one", "2")):
        harness.keep(tmp_path, "cpu", "comparisons", name, record(day), order)
    kept = stored(tmp_path)["comparisons"]
    assert {name: entry["title"] for name, entry in kept.items()} == {"a/one": "2", "b/one": "2"}
    assert list(kept) == ["a/one", "b/one"]
    (path,) = tmp_path.glob("*.json")
    assert len(json.loads(path.read_text())["environments"]) == 1  # the first day's is gone


def test_every_work_can_be_listed_without_its_peers():
    works, scalings = registry.works(), registry.scalings()
    names = [item.name for item in (*works, *scalings)]
    assert len(set(names)) == len(names)
    assert not {"jax", "nngeometry", "pyhessian", "curvlinops"} & set(sys.modules)
    for work in works:
        assert isinstance(work, Work) and set(work.small) == set(work.sizes)
        assert harness.floor(work.cost(**work.small), RATES)["seconds"] > 0
        peers = {contender.name for contender in work.contenders[1:]}
        assert bool(peers) != bool(work.alone)
        for aim in work.aims:
            compared = {work.reference.name} if work.reference and aim.quantity == "error" else set()
            assert aim.against in peers | compared | {""}
            assert aim.quantity in ("faster", "floor", "memory", "memory share", "error", "fact residual")
    for scaling in scalings:
        assert isinstance(scaling, Scaling) and list(scaling.values) == sorted(scaling.values)
        assert scaling.memory(**scaling.sizes, **{scaling.axis: scaling.values[0]}) > 0


def test_exponents_and_errors():
    assert harness.exponent([1, 2, 4], [3, 12, 48]) == pytest.approx(2)
    assert harness.exponent([1, 2], [0, 1]) is None and harness.exponent([1, 2], [None, 1]) is None
    assert relative_error([1, 2], [1, 4]) == 0.5 and entrywise_error([1, 2], [2, 2]) == 0.5
    with pytest.raises(ValueError):
        relative_error([1], [1, 2])
