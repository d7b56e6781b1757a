"""The strips beside the probe's figures: the book's numbers are those of the stored results."""

import re

import pandas as pd
import pytest

from alignbook.pages import probe_beside, probe_page, style
from alignbook.probing import Probe

FACTS = {"network": {"class": "Sequential", "parameters": 3, "examples": 40, "loss": 1.0}}


def found(**tables):
    frames = {name: pd.DataFrame(rows) for name, rows in tables.items()}
    return Probe(
        FACTS, frames, dict.fromkeys(set(probe_page.ABOUT) - set(frames), "left out"), {"features": 30}
    )


def features(share, who="network"):
    rows = [("first", 0, 0.9), ("last", 1, share), ("(output)", 2, 0.8)]
    return [{"layer": a, "depth": d, "k": 10, "share": s, "sigma": 0.1, "network": who} for a, d, s in rows]


def tangent(*values):
    return [{"layer": str(i), "depth": i, "alignment": v, "network": "network"} for i, v in enumerate(values)]


def test_the_packaged_numbers_are_those_of_the_stored_results():
    """If not: python -m alignbook.pages.probe_beside."""
    stored = probe_beside.stored()
    assert stored == probe_beside.collect()
    assert {*stored} == {*probe_beside.COMPARISONS} <= {*probe_page.ABOUT}
    groups = [
        values for entry in stored.values() for page in entry["pages"].values() for values in page.values()
    ]
    assert all(len(values) >= 3 for values in groups)


def test_the_readers_number_is_taken_as_the_books_are():
    rows = features(0.25) + features(0.5, "before")
    strips = probe_beside.strips(found(features=rows, tangent=tangent(0.1, float("nan"), 0.3, 0.2)))
    assert strips["features"].here == {"network": 0.25, "before": 0.5}
    assert strips["tangent"].here == {"network": 62.5}  # the third of four
    assert "30 here" in strips["features"].not_comparable
    (groups,) = strips["features"].book.values()
    low, high = min(groups["conv, random labels"]), max(groups["conv, random labels"])
    assert f"conv, random labels {low:.3g} to {high:.3g}" in strips["features"].said
    assert strips["features"].said.startswith(strips["features"].quantity + ": 0.5 before, 0.25 yours. In")


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("filters", [{"misalignment": float("nan"), "random_bases": float("nan"), "network": "network"}]),
        ("tangent", tangent(float("nan"))),
        ("curvature", [{"eigenvalue": 0.0, "network": "network"}]),
        ("deviation", [{"layer": "0", "deviation": 0.0}]),
        ("slice", [{"alpha": 0.0, "loss": 1.0, "network": "network"}]),
    ],
)
def test_what_has_no_number_has_no_strip(name, rows):
    assert probe_beside.strips(found(**{name: rows})) == {}


def test_the_report_shows_the_strip_or_says_that_there_is_nothing(tmp_path, monkeypatch):
    style.apply()
    probe = found(tangent=tangent(0.1, 0.2))
    page = probe_page.write(probe, tmp_path, "mine").read_text()
    assert page.count("Beside the book's networks") == 1 and probe_beside.NONE not in page
    assert re.search(
        r'aria-label="place of the largest Aₗ, % of the layers: 75 yours\. In the book: 10', page
    )
    monkeypatch.setattr(probe_beside, "STORED", tmp_path / "none.json")
    probe_beside.stored.cache_clear()
    try:
        page = probe_page.write(probe, tmp_path, "mine").read_text()
    finally:
        probe_beside.stored.cache_clear()
    assert page.count(probe_beside.NONE) == 1 and "Beside the book" not in page
