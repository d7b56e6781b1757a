"""One executed notebook as a page of its own: a single HTML file that opens anywhere."""

import base64
import json
import mimetypes
import re
import shutil
import tempfile
from pathlib import Path

import yaml

from alignbook import paths
from alignbook.errors import AlignbookError, logged, on_one_line
from companion.pages import render

LEFT_OUT = ("fontawesome.js", "language_data.js", "searchtools.js", "searchindex.js")
CITED = "```{bibliography}\n:filter: cited\n```"
_PRELOADED = re.compile(r'<link rel="preload"[^>]*>\n?')
_LINKED = re.compile(r'(?<= )(src|href)="([^"#:?]+)(?:\?[^"]*)?"')
_OF_A_STYLE = re.compile(r"""url\((['"]?)(?!data:)([^'")]+)\1\)|@import (["'])([^"']+)\3""")


def write(executed, waiting):
    """Render the executed notebook in the file ``executed``; the HTML file beside it, a Path.

    waiting : render.Waiting. Raises AlignbookError where it cannot be rendered. Links to other pages of the
    book are left as text.
    """
    target = executed.with_suffix(".html")
    with tempfile.TemporaryDirectory(prefix="alignbook-") as folder:
        source, out = Path(folder) / "source", Path(folder) / "out"
        shutil.copytree(paths.root() / "book" / "assets", source / "assets")
        shutil.copy(paths.root() / "book" / "bibliography.bib", source)
        content = json.loads(executed.read_text(encoding="utf-8"))
        content["cells"].append({"cell_type": "markdown", "id": "cited", "metadata": {}, "source": CITED})
        (source / "page.ipynb").write_text(json.dumps(content), encoding="utf-8")
        (source / "_toc.yml").write_text("format: jb-book\nroot: page\n", encoding="utf-8")
        (source / "_config.yml").write_text(_config(), encoding="utf-8")
        status, said = waiting.run(render.arguments(source, out, source / "_config.yml", strict=False))
        page = out / "_build" / "html" / "page.html"
        if status or not page.is_file():
            said = render.without_colour(said)
            why = on_one_line((said.strip().splitlines() or ["nothing was said"])[-1])
            raise AlignbookError(f"{executed.name} cannot be rendered: {why}{logged('page', said)}")
        render.add_mathjax(page.parent)
        target.write_text(whole(page), encoding="utf-8")
    return target


def whole(page):
    """The text of the HTML file ``page`` with everything that it loads inside."""

    def inside(found):
        file = (page.parent / found[2]).resolve()
        loaded = found[1] == "src" or file.suffix in (".css", ".svg")
        if not loaded or not file.is_file():
            return found[0]
        return f'{found[1]}="{"data:," if file.name in LEFT_OUT else _address(file)}"'

    return _LINKED.sub(inside, _PRELOADED.sub("", page.read_text(encoding="utf-8")))


def _address(file):
    """A data URI of ``file``; what a style sheet loads is inside it, of fonts one format."""
    content = file.read_bytes()
    if file.suffix == ".css":
        content = _OF_A_STYLE.sub(lambda found: _loaded(file, found), content.decode()).encode()
    kind = "font/woff2" if file.suffix == ".woff2" else mimetypes.guess_type(file.name)[0]
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _loaded(style, found):
    file = (style.parent / (found[2] or found[4])).resolve()
    wanted = file.is_file() and file.suffix != ".ttf"
    address = _address(file) if wanted else "data:,"
    return f'url("{address}")' if found[2] else f'@import "{address}"'


def _config():
    """The book's configuration without what leads to other pages."""
    config = yaml.safe_load((paths.root() / "_config.yml").read_text(encoding="utf-8"))
    config["only_build_toc_files"] = True
    sphinx = config["sphinx"]["config"]
    sphinx["html_sidebars"] = {"**": []}
    sphinx["html_theme_options"] |= {"use_download_button": False, "search_bar_text": "Search"}
    return yaml.safe_dump(config, allow_unicode=True)
