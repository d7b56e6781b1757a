"""A new study from the template: ``alignbook new <paper>/<slug>``."""

import re
from pathlib import Path

from alignbook import paths
from alignbook.errors import AlignbookError
from alignbook.runs import notebooks

TEMPLATE = Path(__file__).parents[1] / "template"
STUDY = ("notebook.md", "experiment.py", "reading.py", "profiles.yaml")
NAME = re.compile(r"([a-z][a-z0-9_]*)/([a-z][A-Za-z0-9_]*)")


def write(name):
    """Write the files of a new study called ``name``, and its test; returns their paths.

    Raises AlignbookError for a name that is none, or where any of the files is there.
    """
    match = NAME.fullmatch(name)
    if not match:
        raise AlignbookError(f"a study is called <paper>/<figure> (letters, digits, _), not {name!r}")
    paper, slug = match.groups()
    notebooks.every()  # a checkout
    folder = paths.root() / "notebooks" / paper / slug
    test = paths.root() / "tests" / "experiments" / paper / f"test_{slug}.py"
    there = [path for path in (folder, test) if path.exists()]
    if there:
        raise AlignbookError(f"{paths.shown(there[0])} is there already")
    files = {folder / file: TEMPLATE / file for file in STUDY} | {test: TEMPLATE / "test_study.py"}
    for path, template in files.items():
        text = template.read_text(encoding="utf-8")
        for mark, word in (("PAPER", paper), ("SLUG", slug)):
            text = text.replace(mark, word)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(files)
