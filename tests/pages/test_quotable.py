"""Pages worth quoting: their code prints what they show."""

import doctest
import re

import pytest

from alignbook import paths

PAGES = ["errata"]


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_the_page_prints_what_it_shows(page):
    text = (paths.root() / "book" / f"{page}.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```pycon\n(.*?)```", text, re.DOTALL))
    examples = doctest.DocTestParser().get_doctest(code, {}, page, page, 0)
    assert examples.examples
    report = []
    assert not doctest.DocTestRunner(verbose=False).run(examples, out=report.append).failed, "".join(report)
