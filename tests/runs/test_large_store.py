"""A store of ten thousand jobs: what is stored and what of it is stale is said within seconds."""

import json
import time

import pytest

from companion.runs import notebooks, parameters, results
from companion.runs.run import jobs_of

JOBS = 10_000
# Seconds, three times what a busy machine took: 0.15, 6 and 15.
BOUNDS = {"list": 0.5, "status": 18.0, "claims": 45.0}


@pytest.mark.slow
def test_every_command_that_reads_a_large_store_takes_seconds(here):
    here.change("[1, 100]", "[1, 20000]", here.notebook)
    here.call("run", "fig99", "--no-notebook", "-p", "seeds=1")
    here.profile("quick", f"{{labels: [plain], rate: 0.5, seeds: {JOBS}}}")
    record, table = json.loads(here.records()[0].read_text()), next(iter(here.tables().values()))
    book = notebooks.find("fig99")
    for job in jobs_of(book, parameters.resolve(book, "quick")):
        place = results.location(job)
        place.with_name(f"{place.name}.csv").write_bytes(table)
        own = json.dumps(record | {"unit": job.name, "arguments": job.arguments})
        place.with_name(f"{place.name}.json").write_text(own)
    printed = {}
    for command, bound in BOUNDS.items():
        began = time.process_time()
        printed[command] = here.json(command)
        assert time.process_time() - began < bound, command
    quick = printed["status"][1]
    assert (quick["profile"], quick["stored"], quick["stale"]) == ("quick", JOBS, 0)
    assert printed["claims"][0]["seeds"] == JOBS
