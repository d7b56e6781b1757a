"""What every page of the chapter keeps to."""

import re

from alignbook import paths


def test_no_role_stands_within_an_equation():
    """MyST sets ``{numref}`` and its like only outside of mathematics; in an equation they are shown raw."""
    for page in (paths.root() / "notebooks" / "signal_propagation").glob("*/notebook.md"):
        equations = re.findall(r"\$\$.*?\$\$", page.read_text(), re.DOTALL)
        assert not [math for math in equations if re.search(r"\{\w+\}`", math)], page


def test_no_panel_of_ours_is_titled_as_the_papers():
    """``MNIST (paper, 3 seeds)`` beside a column ``paper`` would read as the authors' data."""
    text = (paths.root() / "notebooks/signal_propagation/fig03_peak_law/notebook.md").read_text()
    assert '"full size, " if' in text and '"paper, ' not in text
