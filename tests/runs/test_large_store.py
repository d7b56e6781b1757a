"""A store of ten thousand jobs: what is stored and what of it is stale is said within seconds."""

import json
import resource

import pytest

JOBS = 10_000
FILL = """
import json
from companion.runs import notebooks, parameters, results
from companion.runs.run import jobs_of

book = notebooks.find("fig99")
jobs = jobs_of(book, parameters.resolve(book, "quick"))
first = results.location(jobs[0])
record = json.loads(first.with_name(first.name + ".json").read_text())
table = first.with_name(first.name + ".csv").read_bytes()
for job in jobs:
    place = results.location(job)
    place.with_name(place.name + ".csv").write_bytes(table)
    described = json.dumps(record | {"unit": job.name, "arguments": job.arguments}, indent=1)
    place.with_name(place.name + ".json").write_text(described)
print(len(jobs))
"""
# Seconds of computing, three times what a busy machine took: 0.15, 6 and 15, of which imports 2.
BOUNDS = {"list": 0.5, "status": 18.0, "claims": 45.0}


@pytest.fixture(scope="module")
def filled(new_checkout, tmp_path_factory):
    checkout = new_checkout(tmp_path_factory.mktemp("large") / "checkout")
    text = checkout.notebook.read_text()
    checkout.notebook.write_text(text.replace("[1, 100]", "[1, 20000]"))
    assert checkout.run("run", "fig99", "--no-notebook", "-p", "seeds=1")[0] == 0
    checkout.profile("quick", f"{{labels: [plain], rate: 0.5, seeds: {JOBS}}}")
    assert checkout.python(FILL) == str(JOBS)
    return checkout


def computing(checkout, *command):
    """(seconds of processor time, standard output)"""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = checkout.start(*command)  # a child, whose imports count
    out, err = process.communicate(timeout=180)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (process.returncode, err) == (0, "")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, out


def test_every_command_that_reads_the_store_takes_seconds(filled):
    seconds, out = {}, {}
    for command in BOUNDS:
        seconds[command], out[command] = computing(filled, command, "--json")
    quick = json.loads(out["status"])[1]
    assert (quick["profile"], quick["stored"], quick["stale"]) == ("quick", JOBS, 0)
    assert json.loads(out["claims"])[0]["seeds"] == JOBS
    assert all(seconds[command] < bound for command, bound in BOUNDS.items()), seconds


def test_listing_the_notebooks_imports_nothing_large(filled):
    code = (
        "import sys; from alignbook import cli; cli.main(['list']); "
        "print(sorted({'numpy', 'pandas', 'scipy', 'torch'} & set(sys.modules)))"
    )
    assert filled.python(code, fresh=True) == "[]"
