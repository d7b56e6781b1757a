"""Runs and the store, in processes of their own: faults, resumption, two runs at once."""

import ast
import json
import os
import re
import signal
import time
from types import SimpleNamespace

import pytest

from alignbook import system
from alignbook.errors import AlignbookError
from companion import judging
from companion.claims import Claim
from companion.jobs import Job
from companion.runs import notebooks, pool, run

RUN = ("run", "toy/fig99_toy", "--no-notebook")
ALONE = (*RUN, "--workers", "1")  # where it does not matter: each start of torch takes seconds


def csvs(checkout):
    return {path.name: path.read_bytes() for path in checkout.results.glob("toy/fig99_toy/*.csv")}


def one_line(err):
    assert "Traceback" not in err
    return err.strip().splitlines()[-1]


def test_results_are_stored_with_provenance_and_found_again(checkout):
    status, out, err = checkout.run(*RUN, "--json")
    assert status == 0 and err.count("done in") == 3
    summary = json.loads(out)
    assert summary["profile"] == "quick" and len(summary["results"]) == 3
    record = json.loads(next(checkout.results.glob("toy/fig99_toy/plain-seed0-*.json")).read_text())
    assert record["arguments"] == {"label": "plain", "rate": 0.5, "seed": 0}
    assert record["outcome"] == "finished" and record["table"]["rows"] == 3 and len(record["code"]) == 64
    assert {"numpy", "python", "torch"} <= set(record["versions"]) and record["device"]
    before = csvs(checkout)
    status, _, err = checkout.run(*RUN)
    assert status == 0 and "computing" not in err and csvs(checkout) == before


def test_same_seed_same_bits_however_many_run_at_once(checkout):
    checkout.run(*RUN, "--workers", "1")
    first = csvs(checkout)
    _, _, err = checkout.run(*RUN, "--workers", "2", "--recompute", "all")
    assert err.count("done in") == 3
    assert csvs(checkout) == first and len(first) == 3


def test_a_killed_run_resumes_with_the_missing_jobs(checkout):
    slow = (*RUN, "-p", 'labels=["plain", "slow"]', "-p", "seeds=2")
    process = checkout.start(*slow)
    deadline = time.monotonic() + 300
    while len(checkout.stored()) < 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    kept = checkout.stored()
    assert len(kept) == 3 and not list(checkout.results.glob("toy/fig99_toy/.*"))
    before = csvs(checkout)
    text = checkout.experiment.read_text()
    checkout.experiment.write_text(text.replace("time.sleep(60)", "time.sleep(0)"))
    status, _, err = checkout.run(*slow)
    assert status == 0 and "3 of 4 jobs stored, computing 1" in err
    assert before.items() <= csvs(checkout).items() and len(checkout.stored()) == 4


def test_workers_end_with_a_parent_that_was_killed(checkout):
    process = checkout.start(*RUN, "-p", 'labels=["slow"]', "-p", "seeds=2")
    deadline = time.monotonic() + 300
    while not checkout.stored() and time.monotonic() < deadline:
        time.sleep(0.1)
    process.kill()
    process.communicate()  # returns only when every worker has let go of the pipes
    assert time.monotonic() < deadline


def test_two_runs_at_once_do_not_harm_each_other(checkout):
    processes = [checkout.start(*RUN) for _ in range(2)]
    outcomes = [(process.communicate(timeout=120), process.returncode) for process in processes]
    assert [status for _, status in outcomes] == [0, 0]
    assert len(checkout.stored()) == 3


@pytest.mark.parametrize("damage", ["truncated json", "wrong json", "truncated csv", "empty csv"])
def test_a_broken_result_is_computed_again_with_a_warning(checkout, damage):
    checkout.run(*ALONE)
    before = csvs(checkout)
    suffix = "json" if "json" in damage else "csv"
    path = next(checkout.results.glob(f"toy/fig99_toy/plain-seed1-*.{suffix}"))
    text = path.read_text()
    path.write_text({"truncated": text[: len(text) // 2], "wrong": "[]", "empty": ""}[damage.split()[0]])
    status, _, err = checkout.run(*ALONE)
    assert status == 0 and err.count("is broken") == 1 and "2 of 3 jobs stored, computing 1" in err
    assert csvs(checkout) == before


def test_a_run_that_diverges_is_stored_counted_and_left_out(checkout):
    run = (*ALONE, "-p", 'labels=["diverge", "plain"]', "-p", "seeds=1")
    status, out, _ = checkout.run(*run)
    assert status == 0 and "diverged: diverge-seed0" in out
    record = json.loads(next(checkout.results.glob("toy/fig99_toy/diverge-*.json")).read_text())
    assert record["outcome"] == "diverged" and record["diverged_after_steps"] == 7
    code = (
        "import companion; r = companion.run('toy/fig99_toy', labels=['diverge', 'plain'], seeds=1); "
        "print(len(r.table), r.diverged, set(r.table.label))"
    )
    assert checkout.python(code) == "3 ['diverge-seed0'] {'plain'}"


def test_a_job_that_raises_gives_one_line_and_loses_nothing(checkout):
    status, out, err = checkout.run(*RUN, "-p", 'labels=["plain", "fail"]', "--workers", "1")
    assert status == 2 and out == ""
    assert "job fail-seed0 of toy/fig99_toy failed: ZeroDivisionError: no such thing" in one_line(err)
    assert len(checkout.stored()) == 3
    assert "ZeroDivisionError" in (checkout.root / "_build/logs/toy-fig99_toy-fail-seed0.txt").read_text()


def test_of_several_failures_the_first_job_is_named(checkout):
    _, _, err = checkout.run(*RUN, "-p", "labels=[fail]", "--workers", "2")
    assert "job fail-seed0 of" in one_line(err)


@pytest.mark.parametrize("workers", [1, 2])  # of two, one is idle
def test_an_interrupted_run_says_so(checkout, workers):
    process = checkout.start(
        *RUN, "-p", 'labels=["plain", "slow"]', "-p", "seeds=2", "--workers", str(workers)
    )
    deadline = time.monotonic() + 300
    while len(checkout.stored()) < 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130 and "interrupted; finished jobs are stored" in one_line(err)
    assert len(checkout.stored()) == 3


def test_a_run_interrupted_while_its_workers_start_says_so(checkout):
    process = checkout.start(*RUN)
    while "computing 3" not in process.stderr.readline():
        pass
    time.sleep(1)  # they import
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130 and one_line(err) == "alignbook: interrupted; finished jobs are stored"


FETCHED = """
import json, warnings
from companion.runs import notebooks, parameters, results, run
book = notebooks.find("fig99")
job = run.jobs_of(book, parameters.resolve(book, "quick"))[1]
path = results.location(job).with_suffix(".json")
whole, said = json.loads(path.read_text()), []
for change in (
    {}, {"outcome": "halted"}, {"arguments": {}}, {"data": "mnist"}, {"data": {"name": "mnist"}},
    {"wall_time_s": "long"}, {"table": whole["table"] | {"rows": 99}},
):
    path.write_text(json.dumps(whole | change))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        said.append((results.fetch(job) is not None, ["is broken" in str(w.message) for w in caught]))
print(said)
"""


def test_a_record_that_cannot_be_of_its_job_counts_as_missing(checkout):
    checkout.run(*ALONE)
    assert ast.literal_eval(checkout.python(FETCHED)) == [(True, []), *[(False, [True])] * 6]


def test_a_worker_that_is_killed_gives_one_line(checkout):
    status, _, err = checkout.run(*RUN, "-p", 'labels=["kill", "plain"]', "-p", "seeds=2")
    assert status == 2 and "a worker process ended early, twice" in one_line(err)
    assert [name.split("-")[0] for name in checkout.stored()] == ["plain", "plain"]


def test_the_jobs_of_a_worker_that_was_killed_run_again_once(checkout):
    text = checkout.experiment.read_text()
    once = "    if not os.path.exists('k'):\n        open('k', 'w').close()\n        os.kill(os.getpid(), 9)"
    checkout.experiment.write_text(text.replace("    draws =", f"{once}\n    draws ="))
    assert checkout.run(*RUN)[0] == 0
    tables = csvs(checkout)
    checkout.run(*RUN, "--recompute", "all")
    assert csvs(checkout) == tables and len(tables) == 3


def test_an_unwritable_results_folder_is_refused_before_anything_runs(checkout):
    file = checkout.root / "file"
    file.write_text("")
    status, _, err = checkout.run(*RUN, ALIGNBOOK_RESULTS=str(file / "results"))
    assert status == 2 and "cannot write to the results folder" in one_line(err)
    assert len(err.strip().splitlines()) == 1
    if os.geteuid():  # root may write everywhere
        closed = checkout.root / "closed"
        closed.mkdir(mode=0o500)
        status, _, err = checkout.run(*RUN, ALIGNBOOK_RESULTS=str(closed))
        assert status == 2 and "make it writable" in one_line(err)


def test_changed_code_makes_results_stale_and_recompute_mends_it(checkout):
    checkout.run(*ALONE)
    text = checkout.experiment.read_text()
    checkout.experiment.write_text(text.replace("* rate", "* rate * 2"))
    rows = json.loads(checkout.run("status", "--json")[1])
    quick = next(row for row in rows if row["profile"] == "quick")
    assert (quick["stored"], quick["stale"]) == (3, 3)
    assert "STALE: 3 of 3 results (the code has changed since)" in checkout.python(BANNER)
    before = csvs(checkout)
    told = "3 of 3 stored results are stale (the code has changed): --recompute stale computes them again"
    status, out, err = checkout.run(*ALONE, "--json")
    assert (status, json.loads(out)["stale"], err) == (0, 3, f"alignbook: warning: {told}\n")
    status, out, err = checkout.run(*ALONE, "--dry-run", "--json")
    assert (json.loads(out)["missing"], json.loads(out)["stale"]) == ([], 3) and told in err
    assert told in checkout.python(f"{CAUGHT}; print(found[0].message)")
    out, err = checkout.run(*ALONE, "--dry-run", "--recompute", "stale")[1:]
    assert out.startswith("toy/fig99_toy: 3 jobs, 3 to compute") and not err
    status, _, err = checkout.run(*ALONE, "--recompute", "stale")
    assert status == 0 and "0 of 3 jobs stored, computing 3" in err and csvs(checkout) != before
    rows = json.loads(checkout.run("status", "--json")[1])
    assert next(row for row in rows if row["profile"] == "quick")["stale"] == 0


CAUGHT = "import companion, warnings; found = warnings.catch_warnings(record=True).__enter__(); "
CAUGHT += "companion.run('fig99')"


def test_a_study_that_the_book_brings_no_results_of_is_computed_again_when_it_changes(checkout):
    own = {"ALIGNBOOK_RESULTS": ""}
    store = checkout.root / "_build" / "results" / "toy" / "fig99_toy"
    assert checkout.run(*ALONE, **own)[0] == 0
    made = {path.name: path.read_bytes() for path in store.glob("*.csv")}
    assert len(made) == 3 and not checkout.results.exists()
    text = checkout.experiment.read_text()
    checkout.experiment.write_text(text.replace("* rate", "* rate * 2"))
    dry = json.loads(checkout.run(*ALONE, "--dry-run", "--json", **own)[1])
    assert (len(dry["missing"]), dry["stale"]) == (3, 0)
    err = checkout.run(*ALONE, **own)[2]
    assert "0 of 3 jobs stored, computing 3" in err and "stale" not in err
    assert not made.items() & {path.name: path.read_bytes() for path in store.glob("*.csv")}.items()


def test_what_a_reader_computes_stays_apart_until_it_is_committed(checkout):
    own = {"ALIGNBOOK_RESULTS": ""}
    store = checkout.root / "_build" / "results" / "toy" / "fig99_toy"
    assert checkout.run(*ALONE)[0] == 0  # the book's
    before = csvs(checkout)
    _, _, err = checkout.run(*ALONE, "-p", "seeds=4", **own)
    assert "3 of 4 jobs stored, computing 1" in err and csvs(checkout) == before
    (table,) = store.glob("*.csv")
    _, _, err = checkout.run(*ALONE, "-p", "seeds=4", "--recompute", "all", **own)
    assert csvs(checkout) == before and len(list(store.glob("*.csv"))) == 4
    next(store.glob("plain-seed0*.csv")).write_text("")  # the reader's own comes first
    assert "3 of 4 jobs stored, computing 1" in checkout.run(*ALONE, "-p", "seeds=4", **own)[2]
    content = table.read_bytes()
    assert checkout.run(*ALONE, "-p", "seeds=4", "--commit", **own)[0] == 0
    assert csvs(checkout) == before | {table.name: content} and not list(store.iterdir())
    assert len(checkout.stored()) == 4


BANNER = "from companion.pages import page; import companion; "
BANNER += "print(page.banner(companion.run('fig99')))"


def test_changed_data_make_results_stale_and_the_banner_says_why(checkout, tmp_path):
    import numpy as np

    def archive(size):
        images, labels = np.zeros((size, 28, 28), np.uint8), np.arange(size, dtype=np.uint8) % 10
        np.savez(
            tmp_path / "digits28.npz", x_train=images, y_train=labels, x_test=images, y_test=labels,
            classes=np.array([str(digit) for digit in range(10)]),
        )  # fmt: skip

    archive(20)
    text = checkout.experiment.read_text().replace('"label": label', '"dataset": "digits28", "label": label')
    checkout.experiment.write_text(text.replace("def compute(*,", "def compute(*, dataset,"))
    where = {"ALIGNBOOK_DATA": str(tmp_path)}
    status, _, err = checkout.run(*ALONE, **where)
    assert status == 0, err

    def stale():
        rows = json.loads(checkout.run("status", "--json", **where)[1])
        return next(row["stale"] for row in rows if row["profile"] == "quick")

    assert stale() == 0 and "STALE" not in checkout.python(BANNER, **where)
    archive(30)
    assert stale() == 3
    assert "STALE: 3 of 3 results (the data have changed since)" in checkout.python(BANNER, **where)
    (tmp_path / "digits28.npz").write_bytes(b"PK")
    assert "STALE: 3 of 3 results (the data at hand cannot be read" in checkout.python(BANNER, **where)
    (tmp_path / "digits28.npz").unlink()  # results from elsewhere are shown without the data
    assert stale() == 0


def test_a_job_may_read_two_data_sets(checkout, tmp_path):
    import numpy as np

    def archive(name, size):
        images, labels = np.zeros((size, 28, 28), np.uint8), np.arange(size, dtype=np.uint8) % 10
        classes = np.array([str(digit) for digit in range(10)])
        arrays = {"x_train": images, "y_train": labels, "x_test": images, "y_test": labels}
        np.savez(tmp_path / f"{name}.npz", **arrays, classes=classes)

    def record():
        return next(checkout.results.glob("toy/fig99_toy/plain-seed0-*.json"))

    def stale():
        return json.loads(checkout.run("status", "--json", **where)[1])[1]["stale"]

    archive("digits28", 20)
    text = checkout.experiment.read_text()
    both = '"dataset": "digits28", "source": "clothes", "label": label'
    text = text.replace('"label": label', both).replace("compute(*,", "compute(*, dataset, source,")
    checkout.experiment.write_text(text)
    where = {"ALIGNBOOK_DATA": str(tmp_path)}
    status, _, err = checkout.run(*ALONE, **where)
    assert status == 2 and "clothes.npz" in one_line(err) and checkout.stored() == []
    archive("clothes", 30)
    status, _, err = checkout.run(*ALONE, **where)
    assert status == 0, err
    stored = json.loads(record().read_text())
    assert (stored["data"]["name"], stored["source_data"]["name"]) == ("digits28", "clothes")
    assert stored["data"]["sha256"] != stored["source_data"]["sha256"]
    assert stale() == 0
    archive("clothes", 40)
    assert stale() == 3
    archive("clothes", 30)
    assert stale() == 0
    record().write_text(json.dumps(stored | {"source_data": None}))
    status, _, err = checkout.run(*ALONE, **where)
    assert "source_data is not the job's source" in err and "2 of 3 jobs stored, computing 1" in err


def test_code_that_changes_while_it_runs_makes_the_result_stale(checkout):
    text = checkout.experiment.read_text()
    changes = "    with open(__file__, 'a') as own:\n        own.write('RATE = 1')\n"
    text = text.replace("* rate", "* rate * RATE").replace("    draws =", changes + "    draws =")
    checkout.experiment.write_text("RATE = 2\n" + text)
    assert checkout.run(*RUN, "-p", "seeds=1", "-p", "rate=1.0")[0] == 0
    quick = json.loads(checkout.run("status", "--json")[1])[-1]
    assert (quick["profile"], quick["stored"], quick["stale"]) == ("smoke", 1, 1)


def test_a_store_that_fails_in_the_middle_is_one_line(checkout):
    checkout.results.mkdir(parents=True)
    (checkout.results / "toy").write_text("a file where a folder is needed")
    status, _, err = checkout.run(*ALONE)
    assert status == 2 and "cannot store job plain-seed" in one_line(err)


def test_what_is_wrong_with_a_pages_statements_names_the_page(monkeypatch):
    book = notebooks.every()[0]
    monkeypatch.setattr(notebooks.Notebook, "parts", {"nope": "of the claim"})
    with pytest.raises(AlignbookError, match=f"^{book.name}: parts of the claim are no statements: nope$"):
        judging.claims_of(run.most_faithful(book))


def test_run_refuses_what_it_does_not_know(checkout):
    for argument in ("recompute='al'", "workers=0"):
        code = f"""
import companion
from alignbook.errors import AlignbookError

try:
    companion.run('fig99', {argument})
except AlignbookError as error:
    print(error)
"""
        assert argument.split("=")[0] in checkout.python(code)


def test_what_is_stored_of_a_fuller_profile_joins_where_the_experiment_says_so(checkout):
    show = (
        "import companion; r = companion.run('toy/fig99_toy', profile='quick'); t = r.table; "
        "print(len(r.stored), len(r.joined), r.joined_profile, len(t), t.get('joined', 0 * t.step).sum())"
    )
    checkout.run(*ALONE, "--profile", "paper", "-p", "seeds=2")
    assert checkout.python(show) == "3 0 (None, 0) 9 0"
    checkout.experiment.write_text(checkout.experiment.read_text() + 'JOINED = {"quick": "paper"}\n')
    assert checkout.python(show) == "3 2 ('paper', 4) 15 6"
    assert checkout.run("run", "toy/fig99_toy", "--profile", "paper")[0] == 0  # whole now: shown by itself
    banner = (
        "from companion.pages import page; import companion; "
        "run = companion.run('toy/fig99_toy', profile='quick'); "
        "print('4 of 4 runs of profile paper done' in page.banner(run))"
    )
    assert checkout.python(banner) == "True"


def no_network(folder):
    """``folder``, which on the module path takes the network away."""
    closed = "socket.socket.connect = lambda *_: (_ for _ in ()).throw(OSError('network is unreachable'))"
    (folder / "sitecustomize.py").write_text(
        f"import socket\n{closed}\nsocket.create_connection = lambda *a, "
        "**k: (_ for _ in ()).throw(OSError('network is unreachable'))\n"
    )
    return folder


def test_missing_data_without_a_network_is_one_line(checkout, tmp_path):
    text = checkout.experiment.read_text().replace('"label": label', '"dataset": "cifar10", "label": label')
    checkout.experiment.write_text(text.replace("def compute(*,", "def compute(*, dataset,"))
    path = f"{checkout.root / 'src'}{os.pathsep}{no_network(tmp_path)}"
    status, _, err = checkout.run(*ALONE, ALIGNBOOK_DATA=str(tmp_path / "none"), PYTHONPATH=path)
    assert status == 2 and "cifar10.npz" in one_line(err) and "ALIGNBOOK_DATA" in one_line(err)
    assert checkout.stored() == []


@pytest.mark.parametrize("device", ["tpu", "cuda"])
def test_a_device_that_is_not_there_is_refused(checkout, device):
    import torch

    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    status, _, err = checkout.run(*RUN, "--device", device)
    assert status == 2 and device in one_line(err)


def test_versions_and_features_that_are_others_here_are_drift_and_not_stale(checkout, monkeypatch):
    for name in system.INSTRUCTIONS:  # of which this machine may have set some
        monkeypatch.delenv(name, raising=False)
    checkout.run(*ALONE, MKL_CBWR="COMPATIBLE")
    one, other = sorted(checkout.results.glob("toy/fig99_toy/*.json"))[:2]
    record = json.loads(one.read_text())
    assert record["processor"] == {
        "kind": "cpu", "capability": record["processor"]["capability"], "MKL_CBWR": "COMPATIBLE",
    }  # fmt: skip
    assert record["cost_s"] == record["wall_time_s"]

    def quick(**environment):
        rows = json.loads(checkout.run("status", "--json", **environment)[1])
        row = next(row for row in rows if row["profile"] == "quick")
        assert len(row["drift"]) == row["drifted"]
        return row["stale"], row["drifted"], sorted({text for why in row["drift"].values() for text in why})

    assert quick(MKL_CBWR="COMPATIBLE") == (0, 0, [])
    assert quick() == (0, 3, ["MKL_CBWR COMPATIBLE there, unset here"])
    drift = quick(MKL_CBWR="COMPATIBLE", ATEN_CPU_CAPABILITY="default")[2]
    assert record["processor"]["capability"] == "DEFAULT" or any("DEFAULT here" in text for text in drift)
    del record["processor"]
    one.write_text(json.dumps(record))  # as older results are
    changed = json.loads(other.read_text())
    changed["versions"]["numpy"] = "0.1"
    changed["processor"]["kind"] = "cuda"
    other.write_text(json.dumps(changed))
    stale, drifted, drift = quick(MKL_CBWR="COMPATIBLE")
    assert (stale, drifted) == (0, 1) and [text.split()[0] for text in drift] == ["kind", "numpy"]
    text = checkout.run("status", MKL_CBWR="COMPATIBLE")[1]
    assert re.findall("^drifted: 1 results come from other versions or another processor", text, re.M)
    rows = json.loads(checkout.run("status", "--json", MKL_CBWR="COMPATIBLE")[1])
    assert [list(row["drift"]) for row in rows if row["profile"] == "quick"] == [["plain-seed1"]]


def test_a_named_device_that_did_not_make_what_is_stored_is_warned_about(checkout):
    checkout.run(*ALONE)
    assert "warning" not in checkout.run(*ALONE, "--device", "cpu")[2]
    (path, *_) = checkout.results.glob("toy/fig99_toy/*.json")
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"processor": record["processor"] | {"kind": "cuda"}}))
    status, _, err = checkout.run(*ALONE, "--device", "cpu")
    said = "1 of 3 jobs are stored, but not made on cpu; --recompute all computes them again"
    assert status == 0 and said in err
    assert "not made on" not in checkout.run(*ALONE)[2]


def pid_of(job):
    return os.getpid()


def pids(*names):
    jobs, found = [Job(name, pid_of, {}) for name in names], []
    pool.compute(jobs, pid_of, workers=1, done=lambda job, pid: found.append(pid))
    return found


def test_open_workers_go_on_to_the_next_run():
    with pool.open_workers():
        first, second = pids("a", "b"), pids("c")
        assert {*first} & {*second}
    assert not any(system.runs(pid) for pid in first)
    assert pids("d") != second


@pytest.mark.parametrize(
    ("what", "parameters", "hours"),
    [
        ("seed", {"seeds": 4}, 1.0),  # each value took a quarter of the two hours
        ("seed", {"seeds": 2, "settled_seeds": 4}, 1.0),  # of a part there may be more seeds
        ("seed", {"seeds": 8}, 0.5),  # of which four are judged
        ("group", {"seeds": 2}, 1.0),
        ("seed", {}, 1.0),
    ],
)
def test_what_would_decide_costs_what_the_values_did(what, parameters, hours):
    claim = Claim.greater("c", "C.", "", [3.0, -1.0, 2.0, -1.5], what=what, matters=1.0)
    job = SimpleNamespace(cost=3600.0)
    judged = SimpleNamespace(parameters=parameters, stored=2 * [job], joined=[])
    found = judging._needed(judged, claim)
    assert found["core_hours"] == pytest.approx(found["seeds"] * hours / 2, abs=0.006)
    judged.joined = 6 * [job]  # those of a fuller profile, on which verdicts rest where there are any
    assert judging._needed(judged, claim)["core_hours"] == pytest.approx(3 * found["core_hours"], abs=0.02)
