"""What a search shows of a page: ``_static/excerpts.js``, the sentences of all pages.

Sphinx fetches each page that it has found for a summary, which a browser refuses on the file system. A script
is read there, too; ``book/assets/search.js`` takes from it the chapter and the line in which the words stand.
"""

import json
import re
from html.parser import HTMLParser

FILE = "excerpts.js"
SHORTEST = 25  # characters: what is shorter says nothing by itself
_TEXT = {"p", "li", "dd", "figcaption"}
_SKIPPED = {"table", "svg", "details", "nav", "form", "select", "noscript", "h1"}
_UNSAID = {"headerlink", "ab-source", "ab-stack", "ab-verdict", "caption-number"}  # classes
_VOID = {"area", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}
_CODE = re.compile(r"<(pre|script|style)\b.*?</\1>", re.DOTALL)  # most of a page's tags, none of its prose
_COMMAND = re.compile(r"\\([A-Za-z]+|.)")
_SAID = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "varepsilon": "ε", "eta": "η",
    "theta": "θ", "kappa": "κ", "lambda": "λ", "mu": "μ", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ",
    "phi": "φ", "psi": "ψ", "omega": "ω", "Sigma": "Σ", "Psi": "Ψ", "Phi": "Φ", "Lambda": "Λ", "Delta": "Δ",
    "lVert": "‖", "rVert": "‖", "cdot": "·", "times": "×", "top": "ᵀ", "le": "≤", "leq": "≤", "ge": "≥",
    "geq": "≥", "approx": "≈", "to": "→", "infty": "∞", "sum": "Σ", "ln": "ln ", "log": "log ", "in": "∈",
    "propto": "∝", "pm": "±", "dots": "…", "ldots": "…", "circ": "°", "perp": "⊥", "sqrt": "√", "|": "‖",
}  # fmt: skip


def write(pages, titles, target):
    """Write the sentences of ``pages`` into the file ``target``.

    Parameters
    ----------
    pages : dict of str to str
        The HTML of each page.
    titles : dict of str to str
        The title of each page; ``<folder>/index`` is the chapter of the folder's other pages.
    target : Path
    """
    told = {}
    for page in sorted(pages):
        chapter = f"{page.rpartition('/')[0]}/index"
        told[page] = [titles.get(chapter, "") if chapter != page else "", *sentences(pages[page])]
    text = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
    target.write_text(f"Excerpts.set({text});\n", encoding="utf-8")


def sentences(text):
    """The paragraphs, items of lists and captions of a page's article, as plain text."""
    reader = _Reader()
    reader.feed(_CODE.sub("", text))
    return [said for said in dict.fromkeys(reader.found) if len(said) >= SHORTEST]


def formula(tex):
    r"""A short formula as text.

    >>> formula(r"\(f(\sigma) = \sigma_x^2\)")
    'f(σ) = σ_x^2'
    """
    text = _COMMAND.sub(lambda found: _SAID.get(found[1], ""), tex)
    return re.sub(r"[{}$&]|\s+(?=\s)", "", text).strip()


# How what stands in elements of a class is written.
_SET = {"math": formula, "ab-word": "{}:".format}
_RAISED = {"sup": "^", "sub": "_"}


class _Reader(HTMLParser):
    """Collects what stands in an article's paragraphs; ``open`` are the tags around the place read."""

    def __init__(self):
        super().__init__()
        self.open, self.parts, self.found = [], [], []

    def handle_starttag(self, tag, attributes):
        if tag in _VOID:
            self.handle_data(" ")
            return
        kinds = (dict(attributes).get("class") or "").split()
        if tag in _TEXT:
            self._end()
        skipped = tag in _SKIPPED or _UNSAID & {*kinds}
        if tag == "div" and "math" in kinds:  # set apart: too long to be read in a line
            skipped = True
        self.handle_data(_RAISED.get(tag, ""))
        self.open.append("skipped" if skipped else next((kind for kind in kinds if kind in _SET), tag))

    def handle_endtag(self, tag):
        if tag in _VOID or not self.open:
            return
        if tag in _TEXT:
            self._end()
        self.open.pop()

    def handle_data(self, data):
        if data and "article" in self.open and "skipped" not in self.open and _TEXT & {*self.open}:
            self.parts.append(_SET.get(self.open[-1], str)(data))

    def _end(self):
        self.found.append(" ".join("".join(self.parts).split()))
        self.parts = []
