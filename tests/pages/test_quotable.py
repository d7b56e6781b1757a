"""Pages worth quoting: their code prints what they show, and their pictures show what they say."""

import doctest
import re

import numpy as np
import pandas as pd

from alignbook import paths
from companion.prose import one_network, recorder, tour, traps


def text_of(page):
    return (paths.root() / "book" / f"{page}.md").read_text(encoding="utf-8")


def misprinted(code):
    """What the examples in ``code`` print other than they show."""
    report, examples = [], doctest.DocTestParser().get_doctest(code, {}, "page", "page", 0)
    assert examples.examples
    doctest.DocTestRunner(verbose=False).run(examples, out=report.append)
    return "".join(report)


def test_the_code_of_the_errata_prints_what_they_show():
    assert not misprinted("\n".join(re.findall(r"```pycon\n(.*?)```", text_of("errata"), re.DOTALL)))


def test_the_runs_of_the_tour_show_what_its_prose_says():
    table = one_network.table()
    end = table.query("task == 'random' and step == 512")
    assert table["seed"].nunique() == len(end) > 1
    assert end[list(tour.NAMES)].mean().idxmax() == "tangent2" and end["accuracy"].mean() > 0.99
    early = table.query("task == 'random' and step == 0")[list(tour.NAMES)].mean()
    assert early.idxmax() != "tangent2"
    tuned, scratch = (table[table["task"] == task].groupby("step") for task in ("fine-tuned", "real"))
    losses, bends = (tuned[name].mean()[0] / scratch[name].mean()[0] for name in ("loss", "curvature"))
    assert losses > 1.5 and bends > 10 and tuned["loss"].mean()[64] < scratch["loss"].mean()[64] - 0.5


def test_each_trap_has_a_picture_that_shows_it():
    drawn = re.findall(r"```\{image\} traps/(\w+)\.svg\n:alt: \w", text_of("traps"))
    assert drawn == list(traps.PICTURES) and text_of("traps").count("**Do this instead.**") == 7

    ends = one_network.table().query("task == 'random' and step == 512").mean(numeric_only=True)
    floor = traps.floors(filters=64, entries=27)
    assert floor < ends["misalignment"] < ends["random_bases"] - 2

    early, _, late = traps.stops()
    assert early[1] < 0.5 and late[1] == 1 and early[2].argmax() > late[2].argmax() + 2

    weights, relative = np.divide(traps.curvatures(8), traps.curvatures(1))
    assert weights > 10 and abs(relative - 1) < 1e-3

    (raw_first, less_first), *_, (raw, less) = traps.untrained()
    assert raw / raw_first < 0.6 and less / less_first > 0.8

    trained, others, own = traps.refreshed()
    assert trained == 100 and others < 85 and own > others + 5


def test_a_censored_fit_finds_the_law_that_least_squares_miss():
    rng = np.random.default_rng(0)
    depths = np.repeat([10, 14, 20, 28, 40, 56, 80], 200)
    peaks = traps.TRUE[0] * depths ** traps.TRUE[1] * np.exp(0.25 * rng.standard_normal(len(depths)))
    layers = np.maximum(1, peaks.round())
    offset, power = traps.censored_fit(depths, layers)
    middle = np.log(traps.TRUE[0]) + traps.TRUE[1] * np.log(30)
    assert abs(power - traps.TRUE[1]) < 0.05 and abs(offset + power * np.log(30) - middle) < 0.05
    assert np.polyfit(np.log(depths), np.log(layers), 1)[0] < traps.TRUE[1] - 0.1


def test_the_stored_curves_of_a_recorder_are_those_of_the_code_that_is_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = (paths.root() / "book" / "assets" / "recorder_example.py").read_text()
    text, changed = re.subn(r"range\(2001\)", "range(1)", script)
    assert changed == 1
    exec(compile(text, "recorder_example.py", "exec"), {})
    found = pd.read_csv("recorder-example.csv", keep_default_na=False)
    stored = pd.read_csv(paths.root() / recorder.EXAMPLE, keep_default_na=False)
    pd.testing.assert_frame_equal(found, stored[stored["step"] < 1], rtol=0.01)
    steps = stored.groupby("instrument")["step"].agg(["nunique", "max"])
    assert set(steps.index) == {*recorder.PANELS, recorder.CONTROL}
    assert steps.to_numpy().tolist() == [[26, 1778]] * 5
