"""Where the project is published, if it is: ``Repository`` among the URLs in ``pyproject.toml``.

Everything that leads there asks this module, and shows nothing where there is no address.
"""

import html
import re
import subprocess
import tomllib
from functools import cache
from urllib.parse import quote

from alignbook import paths

BRANCH = "main"  # where changes go
MADE = "The folder that made this plot"
ICON = (
    '<svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">'
    '<path fill="currentColor" d="M1 3.5C1 2.7 1.7 2 2.5 2h3.3l1.6 1.8h6.1c.8 0 1.5.7 1.5 1.5v7.2c0 '
    '.8-.7 1.5-1.5 1.5h-11C1.7 14 1 13.3 1 12.5z"/></svg>'
)
_CAPTION = re.compile(
    r"(<figcaption>\s*<p>(?:(?!</figcaption>).)*?)((?:<a class=\"headerlink\"[^>]*>[^<]*</a>)?</p>)",
    re.DOTALL,
)


@cache
def address():
    """The repository's address without a slash at its end, or an empty text."""
    path = paths.root() / "pyproject.toml"
    if not path.is_file():
        return ""
    project = tomllib.loads(path.read_text(encoding="utf-8")).get("project", {})
    return project.get("urls", {}).get("Repository", "").rstrip("/")


def sources(page):
    """Where a page of the book is made, in the checkout: the file one edits, and its folder of studies.

    Either is None where there is none: what is generated is not edited, and prose has no studies.
    """
    paper, _, slug = page.rpartition("/")
    if (paths.root() / "notebooks" / page / "notebook.md").is_file():
        return f"notebooks/{page}/notebook.md", f"notebooks/{page}"
    if paper:
        typed, folder = f"book/chapters/{paper}.md", f"notebooks/{paper}"
        return (typed, folder) if slug == "index" and (paths.root() / typed).is_file() else (None, None)
    typed = f"book/{page}.md"
    return (typed, None) if (paths.root() / typed).is_file() else (None, None)


def links(page, url):
    """HTML of a page's links into the repository; an empty text without any.

    Parameters
    ----------
    page : str
        The page: a study, ``<paper>/<figure>``, a landing, ``<paper>/index``, or prose.
    url : str
        The repository's :func:`address`, or an empty text.
    """
    file, folder = sources(page)
    if not url or not file:
        return ""
    shown = commit(folder or file)
    found = {"Its folder": f"{url}/tree/{shown}/{folder}"} if folder else {}
    found["Report an error"] = f"{url}/issues/new?title={quote(f'{page}: ')}"
    if url.startswith("https://github.com/"):
        found["Edit this page"] = f"{url}/edit/{BRANCH}/{file}"
    told = " · ".join(f'<a href="{html.escape(link)}">{word}</a>' for word, link in found.items())
    return f'<p class="ab-source">{told}</p>'


def marked(body, page, url):
    """The HTML ``body`` of a page whose plots' captions lead to the folder that made them, at its commit.

    As :func:`links`; without an address or a folder of studies, ``body`` as it is.
    """
    _, folder = sources(page)
    if not url or not folder or "<figcaption>" not in body:
        return body
    link = html.escape(f"{url}/tree/{commit(folder)}/{folder}")
    icon = f'<a class="ab-made" href="{link}" title="{MADE}" aria-label="{MADE}">{ICON}</a>'
    return _CAPTION.sub(lambda found: f"{found[1]} {icon}{found[2]}", body)


def commit(place):
    """The last commit that changed a file or folder of the checkout; ``HEAD`` where git does not say."""
    command = ["git", "-C", str(paths.root()), "log", "-1", "--format=%H", "--", place]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() or "HEAD"
    except (OSError, subprocess.CalledProcessError):
        return "HEAD"
