"""A new study from the template: ``alignbook new <paper>/<slug>``."""

import re
from contextlib import suppress
from pathlib import Path

from alignbook import paths
from alignbook.errors import AlignbookError
from alignbook.runs import notebooks

TEMPLATE = Path(__file__).parents[1] / "template"
STUDY = ("notebook.md", "experiment.py", "reading.py", "profiles.yaml")
NAME = re.compile(r"([a-z][a-z0-9_]*)/([a-z][A-Za-z0-9_]*)")


def write(name):
    """Write the files of a new study called ``name``, and its test; returns their paths.

    Raises AlignbookError for a name that is none or is a shared module's, where any of the files is there,
    and where one cannot be written; then none of them stays.
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
    for module in (folder.with_suffix(".py"), folder.parent.with_suffix(".py")):
        if module.exists():
            raise AlignbookError(
                f"{paths.shown(module)} is a module of that name, which would hide the study"
            )
    files = {folder / file: TEMPLATE / file for file in STUDY} | {test: TEMPLATE / "test_study.py"}
    made = []
    try:
        for path, template in files.items():
            text = template.read_text(encoding="utf-8")
            for mark, word in (("PAPER", paper), ("SLUG", slug)):
                text = text.replace(mark, word)
            made += [new for new in (*reversed(path.parents), path) if not new.exists()]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except BaseException as error:
        for path in reversed(made):
            with suppress(OSError):  # what was not made after all
                path.rmdir() if path.is_dir() else path.unlink()
        if isinstance(error, OSError):
            where = paths.shown(error.filename or folder)
            raise AlignbookError(f"cannot write the study: {where}: {error.strerror}") from None
        raise
    return list(files)
