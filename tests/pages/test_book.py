"""The whole book, at smoke scale from nothing and as readers see it, in a real browser."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from alignbook import paths
from companion.pages import book, contents, reference, render
from companion.runs import notebooks
from tests.conftest import forget_toys

pytestmark = pytest.mark.book
NAMES = [notebook.name for notebook in notebooks.every()]
CHAPTERS = sorted({f"{name.split('/')[0]}/index" for name in NAMES})
REFERENCE = [f"reference/{name}" for name in reference.names()]
TOC = (paths.root() / "_toc.yml").read_text(encoding="utf-8")
PAGES = ["index", *contents.files(TOC), *REFERENCE]
PHONE = {"width": 390, "height": 844}


OF_STORED = pytest.param("stored", marks=pytest.mark.slow)
BOTH = pytest.mark.parametrize("built", ["smoke", OF_STORED], indirect=True)
STORED = pytest.mark.parametrize("built", [OF_STORED], indirect=True)


@pytest.fixture(scope="session")
def built(request, shared):
    """(folder of the book, what the command printed): at ``smoke``, or of what is ``stored``; built once."""
    kind = getattr(request, "param", "smoke")
    folder = shared / f"book-{kind}"
    folder.mkdir(exist_ok=True)
    log = folder / "log.json"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not log.exists():
            log.write_text(json.dumps(build(request, kind, folder)))
    status, out = json.loads(log.read_text())
    assert status == 0, out
    return folder / "html", out


def build(request, kind, folder):
    environment = os.environ | {"ALIGNBOOK_BUILD": str(folder), "ALIGNBOOK_DATA": str(folder / "no-data")}
    environment["ALIGNBOOK_CHECKPOINTS"] = str(folder.parent / "checkpoints")
    command = [sys.executable, "-m", "alignbook.cli", "book"]
    command += ["--profile", "smoke"] if kind == "smoke" else []
    whole = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    lines = []
    with subprocess.Popen(command, cwd=paths.root(), env=environment, **whole) as run:
        for line in run.stdout:
            lines.append(line)
            tell(request, line)
    return run.returncode, "".join(lines)


def tell(request, line):
    """Show a line of progress: minutes pass before the first test of the book is done."""
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(line, end="", file=sys.__stderr__, flush=True)


class _Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.links, self.anchors, self.pictures = [], set(), []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        for key in ("id", "name"):
            if attributes.get(key):
                self.anchors.add(attributes[key])
        for key in ("href", "src"):
            if attributes.get(key):
                self.links.append(attributes[key])
        if tag == "img":
            self.pictures.append(attributes.get("alt"))


def parsed(path):
    parser = _Links()
    parser.feed(path.read_text(encoding="utf-8"))
    return parser


@STORED
def test_readers_see_stored_results(built):
    html, out = built
    assert "computing" not in out and "warning" not in out
    for name in NAMES:
        assert re.search(rf"{name} \(profile (paper|quick)\): executed", out), name
        text = (html / f"{name}.html").read_text()
        assert re.search("ab-banner ab-(paper|quick)", text)
        (finding,) = re.findall(r'<meta name="description" content="([^"]*)">', text)
        assert not finding.endswith("…"), f"{name}: a finding is read in ten seconds"


@BOTH
def test_every_page_is_there_and_every_link_leads_somewhere(built):
    html, _ = built
    found = [path.relative_to(html).as_posix() for path in html.rglob("*.html")]
    pages = {name: parsed(html / name) for name in found if not name.startswith("_static/")}
    assert {f"{name}.html" for name in [*PAGES, "genindex"]} <= set(pages)
    broken = []
    for page, content in pages.items():
        for link in content.links:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "mailto", "data", "javascript"):
                continue
            target = (html / page).parent / unquote(parts.path) if parts.path else html / page
            if not target.exists():
                broken.append((page, link))
            elif "=" in parts.fragment:  # not a place but the state of its controls
                assert target.name in ("scorecard.html", "playground.html")
            elif parts.fragment and target.suffix == ".html":
                anchors = pages[os.path.relpath(target.resolve(), html.resolve())].anchors
                if unquote(parts.fragment) not in anchors:
                    broken.append((page, link))
    assert broken == []


@BOTH
def test_every_picture_is_described_and_drawn_as_vectors(built):
    html, _ = built
    for name in NAMES:
        content = parsed(html / f"{name}.html")
        assert content.pictures, name
        assert all(alt and len(alt) > 40 for alt in content.pictures), name
        assert ".png" not in "".join(link for link in content.links if "_images/" in link), name
    assert not [svg.name for svg in (html / "_images").glob("*.svg") if "dc:date" in svg.read_text()]


def test_smoke_is_never_taken_for_a_reproduction(built):
    html, _ = built
    for name in NAMES:
        text = (html / f"{name}.html").read_text()
        assert "ab-banner ab-smoke" in text and "reproduces nothing" in text
        assert 'class="ab-outcome ab-holds"' not in text and 'class="ab-outcome ab-contradicted"' not in text
    for name in ("index", "findings", *CHAPTERS):
        assert 'class="ab-outcome ab-holds"' not in (html / f"{name}.html").read_text(), name
    card = (html / "scorecard.html").read_text()
    assert "ab-untested" in card and 'class="ab-outcome ab-holds"' not in card


@BOTH
def test_no_page_and_no_download_names_a_place_of_this_machine(built):
    html, _ = built
    places = [re.escape(f"{place}/") for place in (Path.home(), paths.root(), "/tmp")]
    for path in [*html.rglob("*.html"), *html.rglob("*.ipynb")]:
        named = re.search("|".join(places), path.read_text())
        assert not named, (path.name, named)


@BOTH
def test_downloads_are_executed_notebooks(built):
    html, _ = built
    for name in NAMES:
        cells = json.loads((html / "_sources" / f"{name}.ipynb").read_text())["cells"]
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        assert all(cell["execution_count"] for cell in code)
        assert "parameters" in code[0]["metadata"]["tags"]
        assert f"_sources/{name}.ipynb" in (html / f"{name}.html").read_text()


# In a browser


@pytest.fixture
def base(built):
    """Address of the book, on the file system."""
    return f"{built[0].as_uri()}/"


class Reader:
    """A browser tab that records what it asks for and what goes wrong."""

    def __init__(self, browser, base, **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.base, self.outside, self.errors = base, [], []
        self.page.on("request", self._asked)
        self.page.on("requestfailed", self._failed)
        self.page.on(
            "console", lambda m: self.errors.append(m.text) if m.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _asked(self, request):
        if not request.url.startswith((self.base, "data:", "blob:")):
            self.outside.append(request.url)

    def _failed(self, request):
        if request.failure != "net::ERR_ABORTED":  # given up by the browser itself, as the page was left
            self.errors.append(f"{request.failure}: {request.url}")

    def open(self, name):
        self.page.goto(f"{self.base}{name}.html")
        self.page.wait_for_load_state("networkidle")
        return self.page


@pytest.fixture
def reader(browser, base):
    readers = []

    def make(**options):
        readers.append(Reader(browser, base, **options))
        return readers[-1]

    yield make
    for made in readers:
        made.context.close()


def widest(html):
    """Of each chapter the study with the table that has the most cells in a row, and a page of each kind."""
    cells = {
        name: max(row.count("<td") for row in (html / f"{name}.html").read_text().split("<tr"))
        for name in NAMES
    }
    studies = (max((n for n in NAMES if n.startswith(c[:-5])), key=cells.get) for c in CHAPTERS)
    return [*studies, CHAPTERS[0], "index", "scorecard", "playground", "tour", "reference/commands"]


@BOTH
def test_reads_on_a_phone_without_asking_for_anything_outside(built, reader, request):
    """All pages of the stored book, some of the book at smoke."""
    phone = reader(viewport=PHONE)
    stored = request.node.callspec.params["built"] == "stored"
    for name in PAGES if stored else widest(built[0]):
        page = phone.open(name)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= PHONE["width"], (name, width)
        cut = page.evaluate(
            "[...document.querySelectorAll('.bd-article [class*=highlight-]:not(.ab-columns) pre')]"
            ".filter(e => e.offsetParent && e.scrollWidth > e.clientWidth).map(e => e.textContent)"
        )
        assert cut == [], name
        unseen = page.evaluate(
            "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
        )
        assert unseen == [], name
    assert phone.outside == [] and phone.errors == []


def test_formulas_are_set(reader):
    desktop = reader()
    page = desktop.open("signal_propagation/cor01_equilibrium")
    page.wait_for_selector("mjx-container svg")
    unset = (
        "[...document.querySelectorAll('.math')].filter(m => !m.querySelector('mjx-container svg')).length"
    )
    assert page.locator(".math").count() > 20 and page.evaluate(unset) == 0
    assert page.locator("mjx-merror").count() == 0
    assert desktop.outside == [] and desktop.errors == []


def test_search_finds_a_page(reader):
    desktop = reader()
    desktop.open("search")
    desktop.page.goto(f"{desktop.base}search.html?q=misalignment")
    desktop.page.wait_for_selector("#search-results li a")
    desktop.page.get_by_text("Search finished").wait_for()
    found = desktop.page.locator("#search-results li a").evaluate_all("links => links.map(a => a.href)")
    for page in ("random_labels/fig02_misalignment", "reference/misalignment", "glossary"):
        assert any(f"/{page}.html" in link for link in found), page
    # The glossary's terms and the reference's objects are found by their names.
    for query, found in {"NTK": "/glossary.html#term-NTK", "load": "/reference/load.html"}.items():
        desktop.page.goto(f"{desktop.base}search.html?q={query}")
        desktop.page.get_by_text("Search finished").wait_for()
        links = desktop.page.locator("#search-results li a").evaluate_all("links => links.map(a => a.href)")
        assert any(found in link for link in links[:5]), (query, links[:5])
    assert desktop.outside == []


@pytest.mark.parametrize("scheme", ["dark", pytest.param("light", marks=pytest.mark.slow)])
def test_follows_the_readers_colours_and_the_switch(reader, scheme):
    desktop = reader(color_scheme=scheme)
    page = desktop.open(NAMES[0])
    theme = "document.documentElement.dataset.theme"
    assert page.evaluate(theme) == scheme
    page.locator("button.theme-switch-button:visible").first.click()
    page.wait_for_function(f"{theme} !== '{scheme}' || document.documentElement.dataset.mode !== 'auto'")
    assert desktop.outside == [] and desktop.errors == []


@BOTH
def test_chapters_findings_and_scorecard_show_every_notebook(built):
    html, _ = built
    card, findings = (parsed(html / f"{name}.html") for name in ("scorecard", "findings"))
    for name in NAMES:
        paper, slug = name.split("/")
        assert f"{name}.html" in card.links and f"{name}.html" in findings.links
        chapter = parsed(html / paper / "index.html")
        assert f"{slug}.html" in chapter.links and slug in chapter.anchors
        assert any("_images/" in link for link in chapter.links)


@BOTH
def test_every_page_says_in_its_head_what_it_shows(built):
    html, _ = built
    for name in PAGES:
        head = (html / f"{name}.html").read_text().split("</head>")[0]
        (description,) = re.findall(r'<meta name="description" content="([^"]*)">', head)
        assert 20 < len(unescape(description)) <= 300, name
        assert f'<meta property="og:description" content="{description}">' in head
        (image,) = re.findall(r'<meta property="og:image" content="([^"]*)">', head)
        assert ((html / f"{name}.html").parent / image).is_file() and image.endswith(".png"), name


# Faults


def judged():
    """(profile, jobs, what was said) of the results that the toy's book would show."""
    lines = []
    (record,) = book._judged(notebooks.every(), None, lines.append).values()
    return record.profile, record.runs, "\n".join(lines[1:])


@pytest.mark.filterwarnings("ignore:stored result")
def test_shows_the_most_faithful_results_and_computes_broken_ones_again(here):
    profile, jobs, lines = judged()
    assert (profile, jobs) == ("quick", 3) and "nothing is stored whole" in lines
    assert judged() == ("quick", 3, "")
    paper = ("run", "toy/fig99_toy", "--no-notebook", "--profile", "paper")
    here.call(*paper, "-p", "seeds=3")
    assert judged() == ("quick", 3, "")  # one of four is missing
    here.call(*paper)
    assert judged() == ("paper", 4, "")
    broken = next(here.results.glob("toy/fig99_toy/plain-seed3-*.csv"))
    broken.write_bytes(broken.read_bytes()[:-3])
    assert judged() == ("quick", 3, "")
    assert here.call(*paper)[0] == 0
    assert judged() == ("paper", 4, "")


def test_shows_smoke_where_the_data_cannot_be_had(here, monkeypatch):
    here.change('"label": label, ', '"label": label, **DATA, ')
    here.change("def compute(*, label, ", "def compute(*, label, dataset=None, ")
    here.change("def jobs(", "DATA = {}\n\n\ndef jobs(")
    data = 'DATA["dataset"] = "digits" if parameters["rate"] == 1 else "cifar10"'
    here.change("    return [\n", f"    {data}\n    return [\n")
    monkeypatch.setitem(sys.modules, "torchvision", None)  # nothing to download with
    monkeypatch.setenv("ALIGNBOOK_DATA", str(here.root / "none"))
    profile, jobs, lines = judged()
    assert (profile, jobs) == ("smoke", 1) and "cifar10" in lines


def test_smoke_is_computed_again_where_it_is_stale(here):
    def said():
        lines = []
        with book._store("smoke"):
            book._judged(notebooks.every(), "smoke", lines.append)
        return "\n".join(lines)

    assert "computing 1" in said() and "computing" not in said()
    here.change("* rate", "* rate * 2")
    forget_toys()
    assert "computing 1" in said()


def test_a_book_with_a_fault_is_not_built_and_the_last_one_stays(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ALIGNBOOK_BUILD", str(tmp_path / "build"))
    last, pages = tmp_path / "build" / "html" / "index.html", tmp_path / "pages"
    last.parent.mkdir(parents=True)
    last.write_text("the last one")
    shutil.copytree(paths.root() / "book" / "assets", pages / "assets")
    shutil.copy(paths.root() / "book" / "bibliography.bib", pages)
    (pages / "_toc.yml").write_text("format: jb-book\nroot: index\n")
    (pages / "index.md").write_text("# Toy\n\n[](nowhere) {cite}`nobody`\n")
    assert render.render(pages) == 1
    assert last.read_text() == "the last one"
    reason = capsys.readouterr().err
    assert "nobody" in reason and "nowhere" in reason
