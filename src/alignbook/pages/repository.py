"""Where the project is published, if it is: ``Repository`` among the URLs in ``pyproject.toml``.

Everything that leads there asks this module, and shows nothing where there is no address.
"""

import html
import subprocess
import tomllib
from functools import cache
from urllib.parse import quote

from alignbook import paths

BINDER = "https://mybinder.org/v2"


@cache
def address():
    """The repository's address without a slash at its end, or an empty text."""
    path = paths.root() / "pyproject.toml"
    if not path.is_file():
        return ""
    project = tomllib.loads(path.read_text(encoding="utf-8")).get("project", {})
    return project.get("urls", {}).get("Repository", "").rstrip("/")


def links(name, url, commit):
    """HTML of a study's links into the repository; an empty text without a ``url``.

    Parameters
    ----------
    name : str
        The study, ``<paper>/<figure>``.
    url : str
        The repository's :func:`address`.
    commit : str
        What the links are to show.
    """
    if not url:
        return ""
    folder = f"notebooks/{name}"
    found = {
        "Its folder": f"{url}/tree/{commit}/{folder}",
        "Report an error": f"{url}/issues/new?title={quote(f'{name}: ')}",
    }
    if url.startswith("https://github.com/"):
        owner = url.removeprefix("https://github.com/")
        found["Run on Binder"] = f"{BINDER}/gh/{owner}/{commit}?labpath={quote(f'{folder}/notebook.md')}"
    shown = " · ".join(f'<a href="{html.escape(link)}">{word}</a>' for word, link in found.items())
    return f'<p class="ab-source">{shown}</p>'


def commit(name):
    """The last commit that changed the study ``name``; ``HEAD`` where git does not say."""
    command = ["git", "-C", str(paths.root()), "log", "-1", "--format=%H", "--", f"notebooks/{name}"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() or "HEAD"
    except (OSError, subprocess.CalledProcessError):
        return "HEAD"
