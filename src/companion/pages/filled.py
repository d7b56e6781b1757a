"""Pages of prose with numbers in them: ``{{ name }}`` in a file of ``book/`` stands for one."""

import re
from pathlib import Path

from alignbook import paths


def write(page: str, numbers: dict[str, str], pages: Path) -> None:
    """Write ``book/<page>.md`` into the folder ``pages``, with its numbers."""
    text = (paths.root() / "book" / f"{page}.md").read_text(encoding="utf-8")
    text = re.sub(r"\{\{ (\w+) \}\}", lambda name: numbers[name[1]], text)
    (pages / f"{page}.md").write_text(text, encoding="utf-8")
