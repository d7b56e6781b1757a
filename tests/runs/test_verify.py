"""Stored results that outlive a change of code: what stands, what does not, and what is left open."""

import hashlib
import json
import math
import subprocess

import numpy as np
import pandas as pd
import pytest

from alignbook.runs import verified, verify
from alignbook.runs.results import written

# One worker, where more would not be faster: each start of torch takes seconds.
RUN = ("run", "toy/fig99_toy", "--no-notebook", "--workers", "1")
DRAWS = "numpy_stream(seed, label).standard_normal(3) * rate"


def change(checkout, new, old=DRAWS):
    text = checkout.experiment.read_text()
    assert old in text
    checkout.experiment.write_text(text.replace(old, new))


def stale(checkout):
    rows = json.loads(checkout.run("status", "--json")[1])
    return {row["profile"]: row["stale"] for row in rows if row["stored"]}


def records(checkout):
    path = checkout.results / "toy/fig99_toy/verified.json"
    return json.loads(path.read_text()) if path.exists() else []


def verification(checkout, *options):
    code, out, err = checkout.run("verify", "fig99", "--json", *options)
    assert "Traceback" not in err
    return code, json.loads(out)


def test_an_equivalent_refactoring_stands_and_its_records_chain(checkout):
    checkout.run(*RUN)
    second = "rate * numpy_stream(seed, label).standard_normal(3)"
    change(checkout, second)
    assert stale(checkout) == {"quick": 3}
    code, found = verification(checkout)
    assert (code, found["verified"], found["stale"], len(found["outcomes"])) == (0, 3, {}, 1)
    assert (found["outcomes"][0]["largest_difference"], found["outcomes"][0]["column"]) == (0.0, None)
    (first,) = records(checkout)
    stored = json.loads((checkout.results / f"toy/fig99_toy/{first['unit']}.json").read_text())
    assert (first["from"], first["table"]) == (stored["code"], stored["table"]["sha256"])
    assert first["path"] == {"label": "plain"} and first["tolerance"] == 0.0 and first["commit"] is None
    assert stale(checkout) == {"quick": 0}
    # Units made by the second code, and a third: the first ones stand by two steps, one unit is recomputed.
    checkout.run(*RUN, "--profile", "paper")
    change(checkout, f"({second})", second)  # the same code, written otherwise
    assert stale(checkout) == {"quick": 0, "paper": 0}
    change(checkout, f"1 * {second}", f"({second})")
    code, found = verification(checkout)
    assert (code, found["verified"], len(found["outcomes"])) == (0, 7, 1)
    assert [(e["from"], e["to"]) for e in records(checkout)][0][1] == records(checkout)[1]["from"]
    assert stale(checkout) == {"quick": 0, "paper": 0}
    (checkout.results / "toy/fig99_toy/verified.json").write_text("[")
    code, _, err = checkout.run("status")
    assert code == 2 and "verified.json" in err and len(err.splitlines()) == 1


def test_a_change_of_a_thousandth_does_not_stand(checkout):
    checkout.run(*RUN)
    change(checkout, f"{DRAWS} * 1.001")
    code, out, err = checkout.run("verify", "fig99")
    line = out.splitlines()[0]
    assert code == 1 and "DIFFERS by 1.0e-03 in column value (bit for bit asked for" in line, out
    assert "--base" not in line  # stored here: it is the code
    assert "3 stay stale (its function differs)" in out and records(checkout) == []
    assert verification(checkout, "--tolerance", "1e-4")[0] == 1 and stale(checkout) == {"quick": 3}
    code, found = verification(checkout, "--tolerance", "0.01")  # one's own, and it is on record
    assert (code, found["verified"], records(checkout)[0]["tolerance"]) == (0, 3, 0.01)
    assert records(checkout)[0]["column"] == "value" and stale(checkout) == {"quick": 0}
    code, found = verification(checkout)  # nothing is left to do
    assert (code, found["outcomes"]) == (0, [])


def test_a_stored_table_that_was_tampered_with_is_found(checkout):
    checkout.run(*RUN, "-p", "seeds=1")
    (table,) = checkout.results.glob("toy/fig99_toy/*.csv")
    change(checkout, f"({DRAWS}) + 0.0")
    lines = table.read_text().splitlines()
    step, value = lines[2].split(",")
    lines[2] = f"{step},{float(value) * 1.01!r}"
    table.write_text("\n".join(lines) + "\n")
    checkout.profile("quick", "{labels: [plain], rate: 0.5, seeds: 1}")
    code, found = verification(checkout)
    assert code == 1 and found["stale"] == {"broken": ["plain-seed0"]} and not found["outcomes"]
    record = json.loads(table.with_suffix(".json").read_text())
    record["table"]["sha256"] = hashlib.sha256(table.read_bytes()).hexdigest()
    table.with_suffix(".json").write_text(json.dumps(record))
    code, found = verification(checkout)
    assert code == 1 and not found["outcomes"][0]["agrees"] and records(checkout) == []
    assert found["outcomes"][0]["column"] == "value"


def test_a_path_for_which_there_is_no_time_stays_stale(checkout):
    checkout.profile("quick", "{labels: [plain, slow], rate: 0.5, seeds: 1}")
    checkout.run(*RUN)
    change(checkout, f"1 * {DRAWS}")
    (long,) = checkout.results.glob("toy/fig99_toy/slow*.json")
    kept = long.read_text()
    long.write_text(json.dumps(json.loads(kept) | {"wall_time_s": 1000.0}))
    code, found = verification(checkout, "--minutes", "1", "--workers", "1")
    assert (code, found["verified"]) == (1, 1)
    assert found["stale"] == {"no time: its cheapest unit took 1000 s": ["slow-seed0"]}
    assert stale(checkout) == {"quick": 1}
    # It seems short, and is not; the other seems shorter, and is tried first.
    long.write_text(json.dumps(json.loads(kept) | {"wall_time_s": 5.0}))
    change(checkout, 'if label == "slow":', 'if label == "slow" and seed:')
    code, found = verification(checkout, "--minutes", "0.5", "--workers", "1")
    assert code == 1 and found["stale"]["not recomputed in time"] == ["slow-seed0"]


def test_a_base_stands_in_for_tables_of_another_processor(checkout):
    def git(*arguments):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *who, *arguments], cwd=checkout.root, check=True, capture_output=True)

    checkout.profile("quick", "{labels: [plain], rate: 0.5, seeds: 1}")
    checkout.run(*RUN)
    git("init", "-q")
    git("add", "src")
    git("commit", "-qm", "as it was")
    (table,) = checkout.results.glob("toy/fig99_toy/*.csv")
    table.write_text(table.read_text().replace("\n1,", "\n1,1"))  # rounding, much amplified
    record = json.loads(table.with_suffix(".json").read_text())
    record["table"]["sha256"] = hashlib.sha256(table.read_bytes()).hexdigest()
    table.with_suffix(".json").write_text(json.dumps(record | {"device": "another, 1 thread"}))
    change(checkout, f"{DRAWS} * 1.001")
    code, found = verification(checkout, "--base", "HEAD")
    assert (code, found["outcomes"][0]["agrees"], found["outcomes"][0]["column"]) == (1, False, "value")
    change(checkout, f"1 * {DRAWS}", f"{DRAWS} * 1.001")
    code, out, _ = checkout.run("verify", "fig99")  # the stored table is another, and the line says whose
    said = "; it was stored on another, 1 thread: --base COMMIT compares both codes here"
    assert code == 1 and out.splitlines()[0].endswith(said), out
    code, found = verification(checkout, "--base", "HEAD")
    assert (code, found["verified"]) == (0, 1) and records(checkout)[0]["base"]
    git("commit", "-qam", "as it is")
    change(checkout, f"2 / 2 * {DRAWS}", f"1 * {DRAWS}")
    code, _, err = checkout.run("verify", "fig99", "--base", "HEAD")  # which did not make the table
    assert code == 2 and "has not the code that made plain-seed0" in err.splitlines()[-1]
    code, _, err = checkout.run("verify", "fig99", "--base", "nothing")
    assert (code, err) == (2, "alignbook: git: nothing is no commit\n")


@pytest.mark.parametrize("option", [("--units", "0"), ("--minutes", "0"), ("--tolerance", "1")])
def test_options_that_make_no_sense_are_refused(checkout, option):
    code, out, err = checkout.run("verify", "fig99", *option)
    assert (code, out) == (2, "") and len(err.splitlines()) == 1 and option[0].strip("-") in err


OLD = {"step": [0, 1, 2], "value": [1.0, -4.0, math.nan], "label": ["a", "b", "c"]}


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ({}, (0.0, None)),
        ({"value": [1.0, -4.000004, math.nan]}, (1e-6, "value")),
        ({"value": [1.000004, -4.0, math.nan]}, (1e-6, "value")),  # of the largest, not of its own
        ({"value": [1.0, -4.0, 0.0]}, (math.inf, "value")),
        ({"value": [1.0, -4.0, math.inf]}, (math.inf, "value")),
        ({"step": [0, 1, 3]}, (math.inf, "step")),
        ({"label": ["a", "b", "d"]}, (math.inf, "label")),
        ({"more": [0, 0, 0]}, (math.inf, "names")),
        ({"step": [0, 1], "value": [1.0, -4.0], "label": ["a", "b"]}, (math.inf, "rows")),
    ],
)
def test_the_difference_is_a_share_of_the_largest_value(new, expected):
    text = written(pd.DataFrame(OLD))
    share, column = verify.difference(
        pd.DataFrame(OLD), written(pd.DataFrame(OLD | new)), hashlib.sha256(text).hexdigest()
    )
    assert column == expected[1] and share == pytest.approx(expected[0], rel=1e-6)


def test_a_column_of_zeros_allows_no_difference():
    old, new = pd.DataFrame({"value": [0.0, 0.0]}), pd.DataFrame({"value": [0.0, np.nextafter(0, 1)]})
    assert verify.difference(old, written(new)) == (math.inf, "value")


def test_the_path_through_the_code_is_all_but_numbers():
    one = {"label": "a", "seed": 1, "steps": [10, 20], "deep": {"rate": 0.1, "pool": "max"}, "centred": True}
    other = {"centred": True, "seed": 2.5, "deep": {"pool": "max", "rate": 1}, "steps": [], "label": "a"}
    assert verified.code_path(one) == verified.code_path(other)
    assert verified.code_path(one) != verified.code_path(one | {"centred": False})
    assert verified.code_path(one) != verified.code_path(one | {"seed": None})


def test_entries_lead_only_where_they_were_written_for(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGNBOOK_RESULTS", str(tmp_path))
    plain = {"compute": "compute", "path": {"label": "plain"}}
    path = verified.code_path({"label": "plain", "seed": 3})
    verified.add("toy/fig", [plain | {"from": "a", "to": "b"}, plain | {"from": "b", "to": "c"}])
    verified.add("toy/fig", [plain | {"from": "c", "to": "a"}])  # a circle ends, too
    assert [entry["to"] for entry in verified.chain("toy/fig", "compute", path, "a", "c")] == ["b", "c"]
    assert verified.chain("toy/fig", "compute", path, "a", "d") is None
    assert verified.chain("toy/fig", "other", path, "a", "c") is None
    assert verified.chain("toy/fig", "compute", verified.code_path({"label": "odd"}), "a", "c") is None
    assert verified.chain("toy/other", "compute", path, "a", "c") is None
    verified.withdraw("toy/fig", "other", "c")
    verified.withdraw("toy/fig", "compute", "c")
    assert verified.chain("toy/fig", "compute", path, "a", "c") is None
    assert [entry["to"] for entry in verified.chain("toy/fig", "compute", path, "a", "b")] == ["b"]
