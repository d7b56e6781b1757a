"""What jobs are expected to cost, by those that are stored."""

import json
from types import SimpleNamespace

import pytest

from companion.runs import costs, results


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Two seeds of one setting, of which the first paid for the checkpoint, and one of another function."""
    monkeypatch.setattr(results, "folders", lambda job: [tmp_path])
    for name, arguments, wall, cost in [
        ("a-1", {"width": 8, "seed": 0}, 90.0, 90.0),
        ("a-2", {"width": 8, "seed": 1}, 10.0, 90.0),
        ("b-1", {"width": 8, "seed": 2, "steps": 9}, 700.0, 700.0),
    ]:
        record = {"arguments": arguments, "wall_time_s": wall, "cost_s": cost}
        (tmp_path / f"{name}.json").write_text(json.dumps(record))
    return lambda **arguments: SimpleNamespace(arguments=arguments)


def test_a_batch_pays_once_for_a_checkpoint_and_one_job_in_full(stored):
    assert costs.with_other_seeds([stored(width=8, seed=7)]) == [50.0]
    assert costs.expected([stored(width=8, seed=7)]) == [90.0]


def test_another_setting_is_judged_by_the_most_alike_alone(stored, tmp_path):
    assert costs.expected([stored(width=9, seed=0)]) == [90.0 * 9 / 8]
    assert costs.with_other_seeds([stored(width=9, seed=0)]) == [None]
    for path in tmp_path.iterdir():
        path.write_text("{")
    assert costs.expected([stored(width=8, seed=0)]) == [None]


def test_cost_grows_with_size_and_is_not_known_from_far_away(stored):
    of = costs.expected([stored(width=width, seed=0) for width in (2, 4, 32, 40)])
    assert of == [90 / 4, 45, 360, None]
    assert costs.expected([stored(width=8, seed=2, steps=18)]) == [1400.0]
    assert costs.expected([stored(width=8, seed=2, steps=90)]) == [None]
    assert costs._size({"widths": [8, 16], "images": 3, "rate": 0.1, "augment_steps": True}) == {
        "widths": 24, "images": 3,
    }  # fmt: skip
