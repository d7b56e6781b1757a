"""Every page of the book under axe-core, the checker of accessibility rules, in the light and the dark mode.

axe-core is no part of the environment. The test takes the file ``axe.min.js`` that ``ALIGNBOOK_AXE`` names
(``npm pack axe-core`` has it); without it, it is skipped.
"""

import os
from pathlib import Path

import pytest

from tests.pages.test_book import PAGES, STORED, Reader, built  # noqa: F401, a fixture

RUN = """axe.run(document, {resultTypes: ["violations"]}).then(found => found.violations.flatMap(
    rule => rule.nodes.map(node => `${rule.id}: ${node.target.join(" ")}`)))"""


@pytest.fixture(scope="module")
def checker():
    path = Path(os.environ.get("ALIGNBOOK_AXE") or "axe.min.js")
    if not path.is_file():
        pytest.skip("no axe-core: set ALIGNBOOK_AXE to its axe.min.js (npm pack axe-core)")
    return path.read_text(encoding="utf-8")


@pytest.mark.book
@STORED
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_breaks_a_rule_of_accessibility(built, browser, checker, scheme):  # noqa: F811
    html, _ = built
    tab = Reader(browser, f"{html.as_uri()}/", color_scheme=scheme)
    broken = []
    try:
        for name in [*PAGES, "search", "genindex"]:
            page = tab.open(name)
            page.wait_for_selector("svg.theme-switch", state="attached")  # icons are drawn after loading
            page.evaluate(checker)
            broken += [f"{name}: {found}" for found in page.evaluate(RUN)]
        page.goto(f"{tab.base}search.html?q=alignment")
        page.get_by_text("Search finished").wait_for()
        page.evaluate(checker)
        broken += [f"a search: {found}" for found in page.evaluate(RUN)]
    finally:
        tab.context.close()
    assert broken == []
