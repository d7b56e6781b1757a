"""What jobs are expected to cost, by those that are stored."""

import json
from types import SimpleNamespace

import pytest

from companion.runs import costs, results


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Two seeds of one setting, of which the first paid for the checkpoint, and one of another function."""
    monkeypatch.setattr(results, "folders", lambda job: [tmp_path])
    monkeypatch.setattr(results, "owner", lambda job: "toy/fig99_toy")
    for name, arguments, wall, cost in [
        ("a-1", {"width": 8, "seed": 0}, 90.0, 90.0),
        ("a-2", {"width": 8, "seed": 1}, 10.0, 80.0),
        ("b-1", {"width": 8, "seed": 2, "steps": 9}, 700.0, 700.0),
    ]:
        record = {"arguments": arguments, "wall_time_s": wall, "cost_s": cost}
        (tmp_path / f"{name}.json").write_text(json.dumps(record))
    return lambda **arguments: SimpleNamespace(arguments=arguments)


def test_a_job_costs_what_those_took_that_are_most_like_it(stored, tmp_path):
    jobs = stored(seed=7, width=8), stored(width=8, seed=3, steps=9), stored(width=9, seed=0)
    assert costs.expected(jobs) == [85.0, 700.0, 85.0]
    assert costs.expected(jobs, most=0) == [85.0, 700.0, None]
    for path in tmp_path.iterdir():
        path.write_text("{")
    assert costs.expected(jobs) == [None] * 3
