"""Pages of prose with results in them: ``{{ name }}`` in a file of ``book/`` stands for one."""

import re
from pathlib import Path

from alignbook import paths


def write(page: str, values: dict[str, str], pages: Path) -> None:
    """Write ``book/<page>.md`` into the folder ``pages``, with its ``values``."""
    text = (paths.root() / "book" / f"{page}.md").read_text(encoding="utf-8")
    (pages / f"{page}.md").write_text(fill(text, values), encoding="utf-8")


def fill(text: str, values: dict[str, str]) -> str:
    """``text`` with each name in double braces replaced by its value."""
    return re.sub(r"\{\{ (\w+) \}\}", lambda name: values[name[1]], text)
