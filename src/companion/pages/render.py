"""Render pages with Jupyter Book, in a process of its own."""

import errno
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from alignbook import paths

_JUPYTER_BOOK = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]


def render(pages: Path) -> int:
    """Render the folder ``pages`` into ``<build>/html``; 0, or 1 on a warning, which is printed.

    The new book replaces the old one only if all went well. The build folder must be locked.
    """
    work = paths.build() / "render"
    shutil.rmtree(work, ignore_errors=True)
    try:
        status, output = jupyter_book(pages, work, paths.root() / "_config.yml", strict=True)
        if status and (full := os.strerror(errno.ENOSPC)) in output:
            raise OSError(errno.ENOSPC, full)
        if status:
            print(without_colour(output), file=sys.stderr)
            return 1
        built, book = work / "_build" / "html", paths.build() / "html"
        add_mathjax(built)
        if book.exists():
            os.replace(book, work / "before")
        os.replace(built, book)
        return 0
    finally:
        shutil.rmtree(work, ignore_errors=True)


def jupyter_book(source: Path, out: Path, config: Path, strict: bool = False) -> tuple[int, str]:
    """(exit status, output) of rendering the folder ``source``; ``strict``: a warning is an error."""
    arguments = ["build", source, "--path-output", out, "--config", config, "--toc", source / "_toc.yml"]
    arguments += ["--quiet", *(["-n", "-W", "--keep-going"] if strict else ())]
    run = subprocess.run(
        [*_JUPYTER_BOOK, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},  # messages quote the pages, whatever the terminal
    )
    return run.returncode, run.stdout


def add_mathjax(built: Path) -> None:
    """Put the installed MathJax into the book, which must read with the network off."""
    target = built / "_static" / "mathjax" / "tex-svg.js"
    files = importlib.metadata.files("sphinx-mathjax-offline") or []
    source = next(file for file in files if file.name == "tex-svg.js")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source.locate(), target)


def without_colour(text: str) -> str:
    """``text`` without what sets a terminal's colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
