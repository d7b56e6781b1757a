"""The page "While a network trains": its curves are what its code records."""

import re

import pandas as pd

from alignbook import paths
from companion.prose import recorder

SCRIPT = paths.root() / "book" / "assets" / "recorder_example.py"


def stored():
    return pd.read_csv(paths.root() / recorder.EXAMPLE, keep_default_na=False)


def test_the_stored_curves_are_those_of_the_code_that_is_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text, changed = re.subn(r"range\(2001\)", "range(1)", SCRIPT.read_text())
    assert changed == 1
    exec(compile(text, str(SCRIPT), "exec"), {})
    found = pd.read_csv("recorder-example.csv", keep_default_na=False)
    expected = stored()
    pd.testing.assert_frame_equal(found, expected[expected["step"] < 1], rtol=0.01)
    steps = expected.groupby("instrument")["step"].agg(["nunique", "max"])
    assert set(steps.index) == {*recorder.PANELS, recorder.CONTROL}
    assert steps.to_numpy().tolist() == [[26, 1778]] * 5
