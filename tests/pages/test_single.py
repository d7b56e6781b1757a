"""``alignbook run`` leaves a page that opens from the file system."""

import json
import re
import shutil
from pathlib import Path

from alignbook import paths


def test_a_run_leaves_a_page_that_says_what_was_changed(checkout):
    (checkout.root / "book").mkdir()
    shutil.copytree(paths.root() / "book" / "assets", checkout.root / "book" / "assets")
    shutil.copy(paths.root() / "book" / "bibliography.bib", checkout.root / "book")
    shutil.copy(paths.root() / "_config.yml", checkout.root)
    status, out, err = checkout.run("run", "fig99", "--workers", "1", "-p", "seeds=2")
    assert status == 0, err
    folder = checkout.root / "_build" / "runs" / "toy"
    first = out.splitlines()[0]
    assert re.fullmatch(rf"page:     {folder.as_uri()}/fig99_toy-[0-9a-f]{{8}}\.html", first)
    page = Path(first.removeprefix("page:     file://"))
    text = page.read_text()
    assert "You changed, from profile quick<" in text
    assert re.search(r"<code>seeds</code> <code>3</code> → <strong><code>2</code>", text)
    loaded = re.findall(r'<(?:script|img|link)\b[^>]*? (?:src|href)="([^"]*)"', text)
    assert len(loaded) > 10
    files = {address.split("?")[0] for address in loaded if not address.startswith(("data:", "#"))}
    assert [address for address in files if not (page.parent / address).is_file()] == []
    assert str(checkout.root) not in text
    status, out, err = checkout.run("run", "fig99", "--workers", "1", "--json")
    page = Path(json.loads(out)["page"])
    assert page.name == "fig99_toy-quick.html" and "You changed" not in page.read_text()
    config = checkout.root / "_config.yml"  # without a page the results are worth having all the same
    config.write_text(config.read_text().replace("companion.pages.extension", "companion.pages.nothing"))
    status, out, err = checkout.run("run", "fig99", "--workers", "1")
    assert status == 0 and "page:" not in out and "notebook: " in out and "warning: " in err
