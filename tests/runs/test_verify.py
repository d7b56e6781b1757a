"""Stored results that outlive a change of code: what stands, what does not, and what is left open."""

import hashlib
import json
import math
import subprocess

import numpy as np
import pandas as pd
import pytest

from companion.jobs import Job
from companion.runs import verified, verify
from companion.runs.results import written

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


def named(checkout, seed):
    (path,) = checkout.results.glob(f"toy/fig99_toy/plain-seed{seed}-*.json")
    return path.stem


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
    assert (code, found["verified"], found["stale"]) == (0, 3, {})
    assert len(found["outcomes"]) in (2, 3)  # the smallest and the largest seed, and the cheapest
    assert (found["outcomes"][0]["largest_difference"], found["outcomes"][0]["column"]) == (0.0, None)
    first = records(checkout)[0]
    assert (first["profile"], first["tried"]) == ("quick", {"rate": [0.5, 0.5], "seed": [0, 2]})
    stored = json.loads((checkout.results / f"toy/fig99_toy/{first['unit']}.json").read_text())
    assert (first["from"], first["table"]) == (stored["code"], stored["table"]["sha256"])
    assert first["path"] == {"label": "plain"} and first["tolerance"] == 0.0 and first["commit"] is None
    assert stale(checkout) == {"quick": 0}
    # Seeds 1, 3 and 4 made by the second code, and a third: of the first code's, seed 2 stands by two steps,
    # since 1 and 4 are tried; seed 0 lies beside them and is recomputed.
    checkout.profile("quick", "{labels: [plain], rate: 0.5, seeds: 5}")
    checkout.run(*RUN)
    change(checkout, f"({second})", second)  # the same code, written otherwise
    assert stale(checkout) == {"quick": 0}
    for path in checkout.results.glob("toy/fig99_toy/plain-seed1-*"):
        path.unlink()
    checkout.run(*RUN)
    change(checkout, f"1 * {second}", f"({second})")
    code, found = verification(checkout)
    assert (code, found["verified"]) == (0, 5)
    jobs = {outcome["job"] for outcome in found["outcomes"]}
    assert {named(checkout, seed) for seed in (0, 1, 4)} <= jobs and named(checkout, 2) not in jobs
    assert {e["from"] for e in records(checkout)} == {first["from"], first["to"]}
    assert stale(checkout) == {"quick": 0}
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
    long.write_text(json.dumps(json.loads(kept) | {"wall_time_s": 0.2, "cost_s": 1000.0}))
    code, found = verification(checkout, "--minutes", "1", "--workers", "1")
    assert (code, found["verified"]) == (1, 1)
    assert found["stale"] == {"no time: what is to be recomputed took 1000 s": ["slow-seed0"]}
    assert stale(checkout) == {"quick": 1}
    # It seems short, and is not; the other seems shorter, and is tried first.
    long.write_text(json.dumps(json.loads(kept) | {"cost_s": 5.0}))
    change(checkout, 'if label == "slow":', 'if label == "slow" and seed:')
    code, found = verification(checkout, "--minutes", "0.2", "--workers", "1")
    assert code == 1 and found["stale"]["not recomputed in time"] == ["slow-seed0"]


def test_a_base_stands_in_for_tables_of_another_processor(checkout):
    def git(*arguments):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *who, *arguments], cwd=checkout.root, check=True, capture_output=True)

    checkout.profile("quick", "{labels: [plain], rate: 0.5, seeds: 1}")
    checkout.run(*RUN)
    git("init", "-q")
    git("add", "src", "notebooks")
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
    change(checkout, f"1 * {DRAWS}", f"2 / 2 * {DRAWS}")
    checkout.profile("quick", "{labels: [plain], rate: 0.5, seeds: 2}")
    checkout.run(*RUN)  # seed 1, by the code of HEAD
    change(checkout, f"2 / 2 * {DRAWS}", f"1 * {DRAWS}")
    code, found = verification(checkout, "--base", "HEAD")
    assert (code, found["verified"]) == (1, 1)
    ((reason, names),) = found["stale"].items()
    assert reason.endswith("has not the code that made it") and names == ["plain-seed0"]
    code, _, err = checkout.run("verify", "fig99", "--base", "nothing")
    assert (code, err) == (2, "alignbook: git: nothing is no commit\n")


@pytest.mark.parametrize("option", [("--per-path", "0"), ("--minutes", "0"), ("--tolerance", "1")])
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


def test_the_numbers_of_arguments_and_what_encloses_them():
    some = [
        verified.numbers({"label": "a", "seed": seed, "steps": steps, "deep": {"rate": 0.1}, "centred": True})
        for seed, steps in ((1, [10, 20]), (4, []), (2, [5]))
    ]
    assert some[0] == {"seed": [1, 1], "steps[]": [10, 20], "steps.length": [2, 2], "deep.rate": [0.1, 0.1]}
    tried = verified.hull(some)
    assert tried == {"seed": [1, 4], "steps[]": [5, 20], "steps.length": [0, 2], "deep.rate": [0.1, 0.1]}
    assert all(verified.within(one, tried) for one in some)
    for change in ({"seed": [0, 0]}, {"steps[]": [5, 21]}, {"steps.length": [3, 3]}, {"more": [1, 1]}):
        assert not verified.within(some[0] | change, tried)


def test_entries_lead_only_where_they_were_written_for(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGNBOOK_RESULTS", str(tmp_path))
    profiles = {"named": {"quick"}, "small": {"smoke"}, "like": {"quick", "paper"}}
    monkeypatch.setattr(verified, "_profiles", lambda notebook: profiles)

    def compute():
        pass

    def leads(name, old="a", new="c", notebook="toy/fig", seed=3, label="plain", function=compute):
        job = Job(name, function, {"label": label, "seed": seed})
        way = verified.chain(notebook, name, job, old, new)
        return None if way is None else [entry["to"] for entry in way]

    plain = {"compute": "compute", "path": {"label": "plain"}, "unit": "named"}
    plain |= {"profile": "quick", "tried": {"seed": [2, 5]}}
    verified.add("toy/fig", [plain | {"from": "a", "to": "b"}, plain | {"from": "b", "to": "c"}])
    verified.add("toy/fig", [plain | {"from": "c", "to": "a"}])  # a circle ends, too
    assert leads("like") == ["b", "c"] and leads("like", new="d") is None
    assert leads("like", seed=1) is None and leads("like", seed=6) is None  # beside what was tried
    assert leads("named", seed=6) == ["b", "c"]  # it was tried itself
    assert leads("small") is None and leads("of no profile") is None
    assert leads("like", label="odd") is None and leads("like", notebook="toy/other") is None
    assert leads("like", function=leads) is None
    old = {name: value for name, value in plain.items() if name not in ("profile", "tried")}
    verified.add("toy/fig", [old | {"from": "c", "to": "e"}])  # as they were written once
    assert leads("like", old="c", new="e", seed=100) == ["e"] == leads("small", old="c", new="e")
    (entry,) = (e for e in verified.entries("toy/fig") if "tried" not in e)
    assert verified.is_untried(entry, "like") and not verified.is_untried(entry, "named")
    like = Job("like", compute, {"label": "plain", "seed": 3})
    assert verified.tried_chain("toy/fig", "like", like, "c", "e") is None
    verified.add("toy/fig", [plain | {"from": "c", "to": "d"}, plain | {"from": "d", "to": "e"}])
    assert leads("like", old="c", new="e") == ["d", "e"]  # a longer way, of which all was tried
    assert leads("like", old="c", new="e", seed=100) == ["e"]
    verified.withdraw("toy/fig", "other", "c")
    verified.withdraw("toy/fig", "compute", "c")
    assert leads("like") is None and leads("like", new="b") == ["b"]


def test_a_small_job_does_not_stand_for_a_large_one(checkout):
    checkout.profile("smoke", "{labels: [plain], rate: 0.1, seeds: 1}")
    checkout.profile("quick", "{labels: [plain], rate: 0.5, seeds: 3}")
    checkout.profile("paper", "{labels: [plain], rate: 0.9, seeds: 1}")
    for profile in ("smoke", "quick", "paper"):
        checkout.run(*RUN, "--profile", profile)
    large = f"{DRAWS} * (2 if rate > 0.8 else 1)"
    change(checkout, large)
    code, found = verification(checkout)
    assert code == 1 and found["verified"] == 0 and records(checkout) == []
    assert stale(checkout) == {"smoke": 1, "quick": 3, "paper": 1}
    last = f"{DRAWS} * (2 if seed > 1 else 1)"
    change(checkout, last, large)  # of one profile the largest seed
    assert verification(checkout)[1]["verified"] == 0 and records(checkout) == []
    (paper,) = (path for path in checkout.results.glob("toy/*/*.json") if '"rate": 0.9' in path.read_text())
    paper.write_text(json.dumps(json.loads(paper.read_text()) | {"cost_s": 1000.0}))
    change(checkout, f"1 * {DRAWS}", last)
    code, found = verification(checkout, "--minutes", "1", "--workers", "1")
    assert (code, found["verified"]) == (1, 4)
    assert stale(checkout) == {"smoke": 0, "quick": 0, "paper": 1}
    assert {entry["profile"] for entry in records(checkout)} == {"smoke", "quick"}


KEPT = """
def loss(seed):
    import torch

    from alignbook.data import load
    from alignbook.training.fine_tune import accuracy_and_loss
    from alignbook.training.lenet import LeNet
    from alignbook.training.pretrained import checkpoint

    def trained():
        net, images = LeNet(10, torch.Generator().manual_seed(seed)), load("photos", n=20, seed=0)
        time.sleep(3)
        return {"loss": accuracy_and_loss(net, images.x, images.y)[1]}

    return checkpoint({"seed": seed, "device": "cpu"}, (), trained)["loss"]


def compute(*, label, rate, seed, device, report):
    return pd.DataFrame({"value": [rate * loss(seed)]})
"""


def test_code_behind_a_checkpoint_counts_and_verify_reads_none(checkout):
    """A change of what a checkpoint holds: stale by the digest, computed again, and found by verify."""
    text = checkout.experiment.read_text()
    text = text[: text.index("def compute(")] + KEPT.lstrip()
    checkout.experiment.write_text(text)
    checkout.profile("quick", "{labels: [plain], rate: 0.5, seeds: 1}")
    checkout.profile("paper", "{labels: [plain], rate: 0.25, seeds: 1}")
    checkout.run(*RUN)
    checkout.run(*RUN, "--profile", "paper")
    kept = {path: path.read_bytes() for path in checkout.results.glob(".checkpoints/*.pt")}
    assert len(kept) == 1  # made for one, read for the other, which is no less dear
    found = [json.loads(path.read_text()) for path in checkout.results.glob("toy/fig99_toy/*.json")]
    assert min(item["wall_time_s"] for item in found) < 3 <= min(item["cost_s"] for item in found)
    subprocess.run(["git", "init", "-q"], cwd=checkout.root, check=True)
    who = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*who, "add", "src", "notebooks"], cwd=checkout.root, check=True)
    subprocess.run([*who, "commit", "-qm", "as it was"], cwd=checkout.root, check=True)
    path = checkout.root / "src/alignbook/training/fine_tune.py"
    whole = path.read_text()
    assert "    return float(right) / len(x), float(total) / len(x)" in whole
    path.write_text(whole.replace(", float(total) / len(x)", ", 1.01 * float(total) / len(x)"))
    assert stale(checkout) == {"quick": 1, "paper": 1}
    for options in ((), ("--base", "HEAD")):
        code, found = verification(checkout, *options)
        differences = [outcome["largest_difference"] for outcome in found["outcomes"]]
        assert code == 1 and differences == [pytest.approx(0.01)] * 2, options
    # Code that is the same but for its text: neither side finds what the run has kept, nor the other's.
    for file in kept:
        file.write_bytes(b"read")  # and broken: it would be made anew here
    path.write_text(whole.replace(", float(total) / len(x)", ", 1 * float(total) / len(x)"))
    for options in (("--base", "HEAD"), ()):
        assert verification(checkout, *options)[0] == 0
        now = {path: path.read_bytes() for path in checkout.results.glob(".checkpoints/*.pt")}
        assert now == dict.fromkeys(kept, b"read")
        checkout.results.joinpath("toy/fig99_toy/verified.json").unlink()
    path.write_text(whole.replace(", float(total) / len(x)", ", 1.01 * float(total) / len(x)"))
    before = {path.name: path.read_bytes() for path in checkout.results.glob("toy/fig99_toy/*.csv")}
    checkout.run(*RUN, "--recompute", "stale")
    after = {path.name: path.read_bytes() for path in checkout.results.glob("toy/fig99_toy/*.csv")}
    assert sum(before[name] != after[name] for name in before) == 1
    assert stale(checkout) == {"quick": 0, "paper": 1}
