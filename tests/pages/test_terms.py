"""First uses of the glossary's terms, in a small book that Sphinx builds."""

import io
import re

import pytest
from sphinx.application import Sphinx

from alignbook import paths
from companion.pages import terms
from companion.runs import notebooks

GLOSSARY = """# Words

```{glossary}
tangent kernel
neural tangent kernel
NTK
  How examples move each other. Said with `code`.

  The source stands apart.

Hessian
  Second derivatives, of the loss.

principal axis
  An eigenvector.

landscape
  Before LONG
```

The NTK and the Hessian in the glossary itself.

An example
: A definition that is no term's.
""".replace("LONG", "word " * 60)
PAGE = """# The Hessian as a heading

`NTK` in code, $NTK$ as a formula, [the NTK as a link](https://example.org), and the Hessians-to-be.

| NTK | Hessian |
|---|---|
| NTK | Hessian |

```{eval-rst}
.. [Key] The title of a paper on the Hessian.

See [Key]_.
```

- In a list, the *neural tangent
  kernels* and the NTK again; an ntk is no NTK, and a preHessian no Hessian.

Two principal axes and one principal axis of the Hessian.

```python
hessian = "Hessian"
```
"""
SHOWN = """# Shown

```{raw} html
<p class="ab-claim"><span class="ab-word"><a href="x">The NTK</a></span>
A <b>Hessian</b> &lt; 1 <small>NTK</small></p>
<p>An NTK elsewhere.</p>
<p><span class="ab-word">We find</span> an NTK and the Hessian.</p>
<ul class="ab-lines">
<li><a href="x">A landscape</a> <b>holds</b><br>A landscape.<small>A landscape.</small></li></ul>
```

```{figure} picture.svg
The Hessian and its principal axes.
```

The NTK, the principal axes and the landscape.
"""
HOME = "# Home\n\nNothing.\n\n```{toctree}\nglossary\npart/page\nlinked\nshown\n```\n"
LINKED = (
    "# Linked\n\nThe {term}`Hessian`, linked by hand, and the Hessian. The tangent kernel, a landscape.\n"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """{page: its HTML}"""
    root = tmp_path_factory.mktemp("terms")
    pages = {"index": HOME, "glossary": GLOSSARY, "part/page": PAGE, "linked": LINKED, "shown": SHOWN}
    for name, text in pages.items():
        (root / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "source" / f"{name}.md").write_text(text)
    (root / "source" / "picture.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    settings = {"extensions": ["myst_parser"], "myst_enable_extensions": ["dollarmath", "deflist"]}
    wrong = io.StringIO()
    app = Sphinx(
        root / "source", None, root / "html", root / "doctrees", "html", settings | {"nitpicky": True},
        status=None, warning=wrong,
    )  # fmt: skip
    app.connect("doctree-resolved", terms.link_terms)
    app.build()
    assert wrong.getvalue() == ""
    return {name: (root / "html" / f"{name}.html").read_text() for name in pages}


def links(text):
    """(target, title, what is linked) of every link that was made."""
    found = re.findall(r'<a class="ab-term[^"]*" href="([^"]*)" title="([^"]*)">(.*?)</a>', text, re.DOTALL)
    return [(target, title, " ".join(words.split())) for target, title, words in found]


def test_the_first_use_in_prose_is_linked_and_no_other(built):
    assert links(built["part/page"]) == [
        ("../glossary.html#term-tangent-kernel", "How examples move each other. Said with code.",
         "neural tangent kernels"),
        ("../glossary.html#term-Hessian", "Second derivatives, of the loss.", "Hessian"),
        ("../glossary.html#term-principal-axis", "An eigenvector.", "principal axes"),
    ]  # fmt: skip
    prose = re.sub(r"<[^>]*>", "", built["part/page"])
    assert "a preHessian no Hessian." in prose and re.search(r"Two principal axes and one", prose)


def test_the_first_use_in_a_claim_a_finding_or_a_caption_is_linked(built):
    found = [words for *_, words in links(built["shown"])]
    assert found == ["Hessian", "NTK", "landscape", "principal axes"]
    assert '</b><br>A <a class="ab-term' in built["shown"] and "<small>A landscape.</small>" in built["shown"]
    claim, finding = re.findall(r'<p[^>]*><span class="ab-word">.*?</p>', built["shown"], re.DOTALL)
    assert claim.endswith("Hessian</a></b> &lt; 1 <small>NTK</small></p>")
    assert finding.startswith('<p><span class="ab-word">We find</span> an <a class="ab-term')
    assert finding.endswith("and the Hessian.</p>") and "<p>An NTK elsewhere.</p>" in built["shown"]


def test_what_is_linked_by_hand_is_left_alone(built):
    assert [words for *_, words in links(built["linked"])] == ["tangent kernel", "landscape"]
    assert built["linked"].count("glossary.html#term-Hessian") == 1


def test_the_glossary_and_headings_are_left_alone(built):
    assert links(built["glossary"]) == [] and links(built["index"]) == []
    (heading,) = re.findall(r"<h1>.*?</h1>", built["part/page"])
    assert "ab-term" not in heading


def test_a_long_definition_is_cut_at_the_end_of_a_word(built):
    title = links(built["linked"])[-1][1]
    assert title.startswith("Before word") and title.endswith("word …")
    assert terms.LONGEST - 10 < len(title) <= terms.LONGEST


def test_every_name_in_the_books_glossary_is_found():
    text = (paths.root() / "book" / "glossary.md").read_text(encoding="utf-8")
    (entries,) = re.findall(r"```\{glossary\}(.*?)```", text, re.DOTALL)
    names = re.findall(r"^(\w.*)$", entries, re.MULTILINE)
    assert len(names) == len(set(names)) > 50
    for name in names:
        found = terms._pattern(names).fullmatch(name)
        assert found and names[found.lastindex - 1] == name


def test_every_page_says_a_term_that_is_linked():
    """In its claim or, where that has none, in its prose."""
    text = (paths.root() / "book" / "glossary.md").read_text(encoding="utf-8")
    (entries,) = re.findall(r"```\{glossary\}(.*?)```", text, re.DOTALL)
    term = terms._pattern(re.findall(r"^(\w.*)$", entries, re.MULTILINE))
    for book in notebooks.every():
        prose = re.sub(r"^(```|:::).*?^\1|^(#|\|).*?$|\$[^$]*\$|`[^`]*`", "", book.text, flags=re.M | re.S)
        assert term.search(book.claim) or term.search(prose.split("\n---", 1)[1]), book.name
