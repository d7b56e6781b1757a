"""Runs and the store: faults, resumption, two runs at once, what is stale and what is drift."""

import hashlib
import json
import os
import signal
import subprocess
import time
import warnings

import numpy as np
import pytest
import torch

import companion
from alignbook import system
from companion.pages import page
from companion.runs import notebooks, parameters, results
from companion.runs.run import Stale, jobs_of

RUN = ("run", "toy/fig99_toy", "--no-notebook")
SLOW = (*RUN, "-p", 'labels=["plain", "slow"]', "-p", "seeds=2")


def last_line(err):
    assert "Traceback" not in err
    return err.strip().splitlines()[-1]


def until(condition, seconds=300):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# ---- in processes of their own ----


def test_same_seed_same_bits_however_many_run_at_once(checkout):
    status, _, err = checkout.run(*RUN, "--workers", "1")
    assert status == 0 and err.count("done in") == 3
    first = checkout.tables()
    err = checkout.run(*RUN, "--workers", "2", "--recompute", "all")[2]
    assert err.count("done in") == 3
    assert checkout.tables() == first and len(first) == 3


def test_a_killed_run_ends_its_workers_and_resumes_with_the_missing_jobs(checkout):
    process = checkout.start(*SLOW)
    until(lambda: len(checkout.stored()) == 3)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    until(lambda: not running_in_group(process.pid))
    assert len(checkout.stored()) == 3 and not list(checkout.results.glob("toy/fig99_toy/.*"))
    before = checkout.tables()
    checkout.change("time.sleep(60)", "time.sleep(0)")
    status, _, err = checkout.run(*SLOW)
    assert status == 0 and "3 of 4 jobs stored, computing 1" in err
    assert before.items() <= checkout.tables().items() and len(checkout.stored()) == 4


def running_in_group(leader):
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    return True


def test_two_runs_at_once_do_not_harm_each_other(checkout):
    processes = [checkout.start(*RUN) for _ in range(2)]
    assert [process.ended()[0] for process in processes] == [0, 0]
    assert len(checkout.stored()) == 3


def test_a_run_that_is_interrupted_says_so(checkout):
    process = checkout.start(*SLOW, "--workers", "2")  # one of which is idle
    until(lambda: len(checkout.stored()) == 3)
    assert process.kill(signal.SIGINT) == 130
    assert last_line(process.err.read_text()) == "alignbook: interrupted; finished jobs are stored"
    assert len(checkout.stored()) == 3


def test_a_job_that_raises_gives_one_line_and_loses_nothing(checkout):
    run = (*RUN, "-p", 'labels=["plain", "fail"]', "-p", "seeds=2", "--workers", "2")
    status, out, err = checkout.run(*run)
    assert (status, out) == (2, "")  # of two failures, the first job's is told
    assert "job fail-seed0 of toy/fig99_toy failed: ZeroDivisionError: no such thing" in last_line(err)
    assert len(checkout.stored()) == 2
    assert "ZeroDivisionError" in (checkout.root / "_build/logs/toy-fig99_toy-fail-seed0.txt").read_text()


def test_a_worker_that_is_killed_gives_one_line(checkout):
    status, _, err = checkout.run(*RUN, "-p", 'labels=["kill", "plain"]', "-p", "seeds=2")
    assert status == 2 and "a worker process ended early, twice" in last_line(err)
    assert [name.split("-")[0] for name in checkout.stored()] == ["plain", "plain"]


def test_the_jobs_of_a_worker_that_was_killed_run_again_once(checkout):
    once = "    if not os.path.exists('k'):\n        open('k', 'w').close()\n        os.kill(os.getpid(), 9)"
    checkout.change("    draws =", f"{once}\n    draws =")
    assert checkout.run(*RUN)[0] == 0 and len(checkout.tables()) == 3


# ---- the store ----


def test_results_are_stored_with_provenance_and_found_again(here):
    summary = here.json(*RUN)
    assert summary["profile"] == "quick" and len(summary["results"]) == 3
    record = json.loads(here.records()[0].read_text())
    assert record["arguments"] == {"label": "plain", "rate": 0.5, "seed": 0}
    assert record["outcome"] == "finished" and record["table"]["rows"] == 3 and len(record["code"]) == 64
    assert {"numpy", "python", "torch"} <= set(record["versions"]) and record["device"]
    assert record["cost_s"] == record["wall_time_s"]
    before = here.tables()
    status, _, err = here.call(*RUN)
    assert status == 0 and "computing" not in err and here.tables() == before


@pytest.mark.parametrize(
    ("suffix", "text"),
    [(".json", b'{"outcome": "fin'), (".json", b"[]"), (".json", b"\xff"), (".csv", b""), (".csv", b"step,")],
)
def test_a_broken_result_is_computed_again_with_a_warning(here, suffix, text):
    here.call(*RUN)
    before = here.tables()
    here.records()[1].with_suffix(suffix).write_bytes(text)
    status, _, err = here.call(*RUN)
    assert status == 0 and err.count("is broken") == 1 and "2 of 3 jobs stored, computing 1" in err
    assert here.tables() == before


@pytest.mark.filterwarnings("ignore:stored result")
def test_a_record_that_cannot_be_of_its_job_counts_as_missing(here):
    here.call(*RUN)
    book = notebooks.find("fig99")
    job, path = jobs_of(book, parameters.resolve(book, "quick"))[0], here.records()[0]
    whole = json.loads(path.read_text())
    assert results.fetch(job) is not None
    for change in (
        *({"outcome": "halted"}, {"arguments": {}}, {"data": "mnist"}, {"data": {"name": "mnist"}}),
        *({"wall_time_s": "long"}, {"table": whole["table"] | {"rows": 99}}),
    ):
        path.write_text(json.dumps(whole | change))
        assert results.fetch(job) is None, change
    for text, rows in ((b"step,value\n", 0), (b"step,value\n0,\xff\n", 1), (b"step,value\n0,1,5\n", 1)):
        rewrite(path, text, rows)
        assert results.fetch(job) is None, text


def rewrite(record, text, rows):
    """Put another table beside a record, which has its digest."""
    record.with_suffix(".csv").write_bytes(text)
    table = {"sha256": hashlib.sha256(text).hexdigest(), "rows": rows}
    record.write_text(json.dumps(json.loads(record.read_text()) | {"table": table}))


@pytest.mark.parametrize("value", [b"a", b"inf"])
def test_stored_numbers_that_cannot_be_judged_are_told_in_one_line(here, value):
    here.call(*RUN)
    rewrite(here.records()[0], b"step,value\n0," + value + b"\n", 1)
    status, _, err = here.call("claims")
    assert status == 2 and "toy/fig99_toy: no claims from data/results/toy/fig99_toy" in last_line(err)


def test_a_run_that_diverges_is_stored_counted_and_left_out(here):
    status, out, _ = here.call(*RUN, "-p", 'labels=["diverge", "plain"]', "-p", "seeds=1")
    assert status == 0 and "diverged: diverge-seed0" in out
    record = json.loads(here.records()[0].read_text())
    assert record["outcome"] == "diverged" and record["diverged_after_steps"] == 7
    run = companion.run("toy/fig99_toy", labels=["diverge", "plain"], seeds=1)
    assert (len(run.table), run.diverged, set(run.table["label"])) == (3, ["diverge-seed0"], {"plain"})


def test_an_unwritable_results_folder_is_refused_before_anything_runs(here):
    file = here.root / "file"
    file.write_text("")
    status, _, err = here.call(*RUN, ALIGNBOOK_RESULTS=str(file / "results"))
    assert status == 2 and err.startswith("alignbook: cannot write to the results folder")
    assert err.count("\n") == 1


def test_what_a_reader_computes_stays_apart(here):
    own = {"ALIGNBOOK_RESULTS": ""}
    store = here.root / "_build" / "results" / "toy" / "fig99_toy"
    assert here.call(*RUN)[0] == 0  # the book's
    before = here.tables()
    four = (*RUN, "-p", "seeds=4")
    assert "3 of 4 jobs stored, computing 1" in here.call(*four, **own)[2] and here.tables() == before
    here.call(*four, "--recompute", "all", **own)
    assert here.tables() == before and len(list(store.glob("*.csv"))) == 4
    next(store.glob("plain-seed0*.csv")).write_text("")  # the reader's own comes first
    assert "3 of 4 jobs stored, computing 1" in here.call(*four, **own)[2]


@pytest.mark.filterwarnings("ignore::companion.runs.run.Stale")
def test_what_is_stored_of_a_fuller_profile_joins_where_the_experiment_says_so(here):
    def shown():
        run = companion.run("toy/fig99_toy", profile="quick")
        joined = run.table["joined"].sum() if "joined" in run.table else 0
        return len(run.stored), len(run.joined), run.joined_profile, len(run.table), joined

    here.call(*RUN, "--profile", "paper", "-p", "seeds=2")
    assert shown() == (3, 0, (None, 0), 9, 0)
    here.experiment.write_text(here.experiment.read_text() + 'JOINED = {"quick": "paper"}\n')
    here.call("list")  # which reads the sources anew
    assert shown() == (3, 2, ("paper", 4), 15, 6)
    here.call(*RUN, "--profile", "paper")  # whole now: shown by itself
    banner = page.banner(companion.run("toy/fig99_toy", profile="quick"))
    assert "4 of 4 runs of profile paper done" in banner


# ---- stale, and drift ----


def quick(here, **environment):
    """The row of ``status`` for profile quick."""
    return next(row for row in here.json("status", **environment) if row["profile"] == "quick")


def banner():
    with warnings.catch_warnings(action="ignore"):
        return page.banner(companion.run("fig99"))


def test_changed_code_makes_results_stale_and_recompute_mends_it(here):
    here.call(*RUN)
    here.change("* rate", "* rate * 2")
    row = quick(here)
    assert (row["stored"], row["stale"]) == (3, 3)
    assert "STALE: 3 of 3 results (the code has changed since)" in banner()
    before = here.tables()
    status, out, err = here.call(*RUN, "--json")
    assert (status, json.loads(out)["stale"]) == (0, 3) and "3 of 3 stored results are stale" in err
    with pytest.warns(Stale, match="3 of 3 stored results are stale"):
        companion.run("fig99")
    assert here.call(*RUN, "--dry-run", "--recompute", "stale")[1].startswith(
        "toy/fig99_toy: 3 jobs, 3 to compute"
    )
    status, _, err = here.call(*RUN, "--recompute", "stale")
    assert status == 0 and "0 of 3 jobs stored, computing 3" in err and here.tables() != before
    assert quick(here)["stale"] == 0


def test_a_study_that_the_book_brings_no_results_of_is_computed_again_when_it_changes(here):
    own = {"ALIGNBOOK_RESULTS": ""}
    store = here.root / "_build" / "results" / "toy" / "fig99_toy"
    assert here.call(*RUN, **own)[0] == 0
    before = {path.name: path.read_bytes() for path in store.glob("*.csv")}
    assert len(before) == 3 and not here.results.exists()
    here.change("* rate", "* rate * 2")
    dry = here.json(*RUN, "--dry-run", **own)
    assert (len(dry["missing"]), dry["stale"]) == (3, 0)
    err = here.call(*RUN, **own)[2]
    assert "0 of 3 jobs stored, computing 3" in err and "stale" not in err
    assert not before.items() & {path.name: path.read_bytes() for path in store.glob("*.csv")}.items()


def test_code_that_changes_while_it_runs_makes_the_result_stale(here):
    edit = "    with open(__file__, 'a') as own:\n        own.write('RATE = 1')\n"
    here.change("* rate", "* rate * RATE")
    here.change("    draws =", f"{edit}    draws =")
    here.experiment.write_text("RATE = 2\n" + here.experiment.read_text())
    assert here.call(*RUN, "--profile", "smoke")[0] == 0
    smoke = here.json("status")[-1]
    assert (smoke["profile"], smoke["stored"], smoke["stale"]) == ("smoke", 1, 1)


def archive(folder, name, size):
    images, labels = np.zeros((size, 28, 28), np.uint8), np.arange(size, dtype=np.uint8) % 10
    arrays = {"x_train": images, "y_train": labels, "x_test": images, "y_test": labels}
    np.savez(folder / f"{name}.npz", **arrays, classes=np.array([str(digit) for digit in range(10)]))


def test_changed_data_make_results_stale_and_the_banner_says_why(here, tmp_path, monkeypatch):
    archive(tmp_path, "clothes", 20)
    archive(tmp_path, "digits28", 30)
    here.change('"label": label', '"dataset": "clothes", "source": "digits28", "label": label')
    here.change("compute(*,", "compute(*, dataset, source,")
    monkeypatch.setenv("ALIGNBOOK_DATA", str(tmp_path))
    assert here.call(*RUN)[0] == 0
    record = json.loads(here.records()[0].read_text())
    assert (record["data"]["name"], record["source_data"]["name"]) == ("clothes", "digits28")
    assert quick(here)["stale"] == 0 and "STALE" not in banner()
    archive(tmp_path, "digits28", 40)
    assert quick(here)["stale"] == 3
    assert "STALE: 3 of 3 results (the data have changed since)" in banner()
    (tmp_path / "digits28.npz").write_bytes(b"PK")
    assert "STALE: 3 of 3 results (the data at hand cannot be read" in banner()
    (tmp_path / "digits28.npz").unlink()  # results from elsewhere are shown without the data
    assert quick(here)["stale"] == 0


def test_missing_data_without_a_network_is_one_line(here, tmp_path, monkeypatch):
    def closed(*_, **__):
        raise OSError("network is unreachable")

    monkeypatch.setattr("socket.socket.connect", closed)
    monkeypatch.setattr("socket.create_connection", closed)
    here.change('"label": label', '"dataset": "cifar10", "label": label')
    here.change("def compute(*,", "def compute(*, dataset,")
    status, _, err = here.call(*RUN, ALIGNBOOK_DATA=str(tmp_path / "none"))
    assert status == 2 and "cifar10.npz" in last_line(err) and "ALIGNBOOK_DATA" in last_line(err)
    assert here.stored() == []


def test_versions_and_features_that_are_others_here_are_drift_and_not_stale(here, monkeypatch):
    for name in system.INSTRUCTIONS:  # of which this machine may have set some
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    here.call(*RUN)
    one, other, _ = here.records()
    record = json.loads(one.read_text())
    capability = record["processor"]["capability"]
    assert record["processor"] == {"kind": "cpu", "capability": capability, "MKL_CBWR": "COMPATIBLE"}

    def drift():
        assert quick(here)["stale"] == 0
        notebook = notebooks.find("fig99")
        stored = map(results.peek, jobs_of(notebook, parameters.resolve(notebook, "quick")))
        return {item.job.name: why for item in stored if (why := item.drift("cpu"))}

    assert drift() == {}
    with monkeypatch.context() as patch:
        patch.delenv("MKL_CBWR")
        assert list(drift().values()) == [["MKL_CBWR COMPATIBLE there, unset here"]] * 3
    del record["processor"]
    one.write_text(json.dumps(record))  # as older results are
    record = json.loads(other.read_text())
    record["versions"]["numpy"] = "0.1"
    record["processor"]["kind"] = "cuda"
    other.write_text(json.dumps(record))
    ((name, reasons),) = drift().items()
    assert name == "plain-seed1" and [text.split()[0] for text in sorted(reasons)] == ["kind", "numpy"]


@pytest.mark.parametrize("device", ["tpu", "cuda"])
def test_a_device_that_is_not_there_is_refused(here, device):
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    status, _, err = here.call(*RUN, "--device", device)
    assert status == 2 and device in last_line(err)


# ---- the code ----


@pytest.mark.parametrize(
    ("file", "mark"),
    [("src/alignbook/x.py", "+changes"), ("notebooks/toy/fig99_toy/x.py", "+changes"), ("README.md", "")],
)
def test_the_commit_says_whether_sources_or_studies_differ_from_it(tmp_path, monkeypatch, file, mark):
    def git(*arguments):
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        told = {"check": True, "capture_output": True, "text": True}
        return subprocess.run(["git", "-C", str(tmp_path), *who, *arguments], **told).stdout.strip()

    def commit():
        results.commit.cache_clear()
        return results.commit()

    monkeypatch.setenv("ALIGNBOOK_ROOT", str(tmp_path))
    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message", "empty")
    head = git("rev-parse", "--short=12", "HEAD")
    assert commit() == head
    changed = tmp_path / file
    changed.parent.mkdir(parents=True, exist_ok=True)
    changed.write_text("x = 1\n")
    assert commit() == head + mark
    results.commit.cache_clear()


@pytest.mark.slow
def test_sources_edited_in_a_session_are_read_anew(checkout):
    code = """
from pathlib import Path
import companion

first = companion.run("fig99")
source = Path("notebooks/toy/fig99_toy/experiment.py")
source.write_text(source.read_text().replace("* rate", "* rate * 2"))
again = companion.run("fig99", recompute="stale")
pairs = zip(again.stored, first.stored, strict=True)
print(len(first.stale), [float(a.table.value[0] / b.table.value[0]) for a, b in pairs])
"""
    done = checkout.fresh(code=code)  # whose workers are spawned
    assert done.stdout == "3 [2.0, 2.0, 2.0]\n", done.stderr
