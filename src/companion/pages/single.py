"""One executed notebook as a page of its own, beside it."""

import json
import shutil
import tempfile
from pathlib import Path

import yaml

from alignbook import paths
from alignbook.errors import AlignbookError, logged, on_one_line
from companion.pages import render

CITED = "```{bibliography}\n:filter: cited\n```"


def write(executed: Path) -> Path:
    """Render the executed notebook in the file ``executed``; the HTML file beside it.

    What it loads lies in ``<build>/runs/_static`` and ``_images``. Links to other pages of the book are left
    as text. Raises AlignbookError where it cannot be rendered.
    """
    folder = paths.build() / "runs"
    name = executed.relative_to(folder).with_suffix("").as_posix()
    with tempfile.TemporaryDirectory(prefix="alignbook-") as temporary:
        source, out = Path(temporary) / "source", Path(temporary) / "out"
        shutil.copytree(paths.root() / "book" / "assets", source / "assets")
        shutil.copy(paths.root() / "book" / "bibliography.bib", source)
        content = json.loads(executed.read_text(encoding="utf-8"))
        content["cells"].append({"cell_type": "markdown", "id": "cited", "metadata": {}, "source": CITED})
        page = source / f"{name}.ipynb"
        page.parent.mkdir(parents=True)
        page.write_text(json.dumps(content), encoding="utf-8")
        (source / "_toc.yml").write_text(f"format: jb-book\nroot: {name}\n", encoding="utf-8")
        (source / "_config.yml").write_text(_config(), encoding="utf-8")
        status, output = render.jupyter_book(source, out, source / "_config.yml")
        built = out / "_build" / "html"
        if status or not (built / f"{name}.html").is_file():
            output = render.without_colour(output)
            why = on_one_line((output.strip().splitlines() or ["nothing was said"])[-1])
            raise AlignbookError(f"{executed.name} cannot be rendered: {why}{logged('page', output)}")
        render.add_mathjax(built)
        shutil.copytree(built, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("_sources"))
    return executed.with_suffix(".html")


def _config():
    """The book's configuration without what leads to other pages."""
    config = yaml.safe_load((paths.root() / "_config.yml").read_text(encoding="utf-8"))
    config["only_build_toc_files"] = True
    sphinx = config["sphinx"]["config"]
    sphinx["html_sidebars"] = {"**": []}
    sphinx["html_theme_options"] |= {"use_download_button": False, "search_bar_text": "Search"}
    return yaml.safe_dump(config, allow_unicode=True)
