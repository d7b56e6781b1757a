"""What a search shows of a page."""

import doctest
import json

from companion.pages import excerpts

PAGE = """<html><body><p>The sidebar is no part of a page's article.</p><article class="bd-article">
<h1>Title</h1>
<p><span class="ab-word">We find</span> The peak grows as L<sup>3/5</sup>,<br>with \
<span class="math notranslate">\\(\\sigma_x\\)</span> fixed. <b class="ab-verdict">holds</b>\
<a class="headerlink" href="#x">#</a></p>
<div class="math"><p>\\[an equation that is set apart from the text\\]</p></div>
<ul><li><p>An item of a list, with a paragraph.</p></li></ul>
<table><tr><td><p>A cell of a table is not read in a line.</p></td></tr></table>
<details><summary>More</summary><p>What is folded away stays folded away.</p></details>
<p>Short.</p><p>The last words, <img src="a.png"> around a picture.</p>
</article></body></html>"""


def test_the_sentences_of_an_article_are_plain_text():
    assert excerpts.sentences(PAGE) == [
        "We find: The peak grows as L^3/5, with σ_x fixed.",
        "An item of a list, with a paragraph.",
        "The last words, around a picture.",
    ]


def test_formulas_are_said_in_letters():
    assert doctest.testmod(excerpts) == (0, 1)
    assert excerpts.formula(r"\(\lVert W_t - W_0 \rVert \le \mathrm{e}^{-\tau}\)") == "‖ W_t - W_0 ‖ ≤ e^-τ"


def test_every_page_has_its_chapter_and_a_landing_none(tmp_path):
    titles = {"one/index": "First", "one/a": "A", "about": "About"}
    excerpts.write(dict.fromkeys(titles, PAGE), titles, tmp_path / "excerpts.js")
    text = (tmp_path / "excerpts.js").read_text(encoding="utf-8")
    told = json.loads(text.removeprefix("Excerpts.set(").removesuffix(");\n"))
    assert {page: lines[0] for page, lines in told.items()} == {
        "one/index": "",
        "one/a": "First",
        "about": "",
    }
    assert told["one/a"][1:] == excerpts.sentences(PAGE)
