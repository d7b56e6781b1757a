"""The notebooks as sources: complete, lint-clean, every figure described; the commands we print work."""

import re
import shlex
import subprocess
import sys

import jupytext
import pytest
import torch

from alignbook import paths
from companion.runs import notebooks, parameters, plans, pool, results
from companion.runs.run import FAITHFUL, jobs_of
from tests.conftest import in_this_process

BOOKS = notebooks.every()
PAGES = [paths.root() / name for name in ("book/rerun.md", "README.md", "CONTRIBUTING.md")]


@pytest.fixture(params=BOOKS, ids=[book.name for book in BOOKS])
def notebook(request):
    return request.param


def test_ruff_checks_the_cells(tmp_path):
    # On .md files ruff lints nothing and says that all is well.
    for book in BOOKS:
        jupytext.write(jupytext.read(book.source), tmp_path / f"{book.name.replace('/', '-')}.ipynb")
    config = paths.root() / "pyproject.toml"
    command = [sys.executable, "-m", "ruff", "check", "--config", str(config), "--no-cache"]
    # E402: imports follow the parameters; B018: a cell's last expression is what it shows; B905 and E501
    # would only make plotting code longer.
    command += ["--ignore", "E402,B018,B905,E501", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout


def test_has_every_part_of_a_page(notebook):
    text = notebook.source.read_text()
    named = [f'companion.parameters("{notebook.name}", globals())', f'companion.run("{notebook.name}", ']
    assert all(part in text for part in named) and "{cite" in text
    assert "jobs" in vars(notebook.experiment) and "STATEMENTS" in vars(notebook.reading)
    assert 20 < len(notebook.claim) and "$" not in notebook.claim and "\n" not in notebook.claim
    order = ["companion.Page(run)", "plt.show()", "page.key_numbers(", "## How to read it"]
    order += ["## What we learned", "## Try it", "page.data(", "## Audit", "page.audit()"]
    assert notebook.title.endswith("?"), notebook.title
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    # MyST sets {numref} and its like only outside of mathematics; in an equation they are shown raw.
    equations = re.findall(r"\$\$.*?\$\$", text, re.DOTALL)
    assert not [math for math in equations if re.search(r"\{\w+\}`", math)]


# Table 2's fine-tuned networks are Table 1's, and stored under its name.
SHARED = {("transferability/tab02_from_scratch", "tab01_weight_deviation")}


def test_no_study_imports_another(notebook):
    """What several figures share stands beside them."""
    others = "|".join(book.slug for book in BOOKS if book.name != notebook.name)
    for path in notebook.folder.iterdir():
        if path.suffix in (".py", ".md"):
            text = path.read_text()
            found = re.findall(rf"^\s*(?:from|import) .*\b({others})\b", text, re.MULTILINE)
            assert {(notebook.name, slug) for slug in found} <= SHARED, path


def test_readings_import_no_torch():
    imports = "; ".join(f"import companion.studies.{book.name.replace('/', '.')}.reading" for book in BOOKS)
    done = subprocess.run([sys.executable, "-c", f"{imports}; import sys; print('torch' in sys.modules)"],
                          capture_output=True, text=True)  # fmt: skip
    assert done.stdout.strip() == "False", done.stderr


def test_values_in_the_prose_are_those_of_a_shown_profile(notebook):
    shown = [parameters.resolve(notebook, profile) for profile in ("paper", "quick")]
    found = _values_in_prose(notebook)
    for name, value in found:
        assert name in shown[0], name
        assert value in [parameters.written(values[name]) for values in shown], (name, value)


def test_values_in_the_prose_are_found():
    found = {(book.slug, name, value) for book in BOOKS for name, value in _values_in_prose(book)}
    assert ("fig04_two_labellings", "spread", "0.3") in found
    assert ("fig16_negative_transfer", "sizes", "1000, 500, 250") in found


def _values_in_prose(notebook):
    """[(parameter, value)] of what the text writes as "`name` = value"."""
    cells = [cell.source for cell in jupytext.read(notebook.source).cells if cell.cell_type == "markdown"]
    return re.findall(r"`(\w+)` = ([\w.]+(?:, [\d.]+)*[\w]|\w)", "\n".join(cells))


def test_every_figure_has_a_name_a_caption_and_a_description(notebook):
    cells = [cell for cell in jupytext.read(notebook.source).cells if "plt." in cell.source]
    figures = [cell for cell in cells if "plt.show()" in cell.source]
    assert figures or "tab" in notebook.slug
    for cell in figures:
        rendering = cell.metadata["mystnb"]
        assert re.fullmatch(r"fig-[\w-]+", rendering["figure"]["name"])
        assert len(rendering["figure"]["caption"]) > 40 and len(rendering["image"]["alt"]) > 40


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_printed_commands_name_what_exists(page):
    blocks = re.findall(r"```bash\n(.*?)```", page.read_text(), re.DOTALL)
    blocks = [block.replace("\\\n", " ") for block in blocks]  # lines that go on
    lines = [shlex.split(line, comments=True) for block in blocks for line in block.strip().splitlines()]
    runs = [words for words in lines if "run" in words or "show" in words]
    assert runs
    for words in runs:
        start = words.index("run") if "run" in words else words.index("show")
        book = notebooks.find(words[start + 1])
        given = [value for flag, value in zip(words, words[1:], strict=False) if flag == "-p"]
        profile = words[words.index("--profile") + 1] if "--profile" in words else None
        parameters.resolve(book, profile, parameters.from_text(given))
    for words in lines:
        if words and words[0].endswith("papermill"):
            names = [words[i + 1] for i, word in enumerate(words) if word == "-p"]
            assert set(names) <= set(parameters.read(notebooks.find("representation_alignment/fig10")))


def test_every_stored_result_is_one_that_a_profile_or_a_plan_asks_for():
    asked = [(book, parameters.resolve(book, profile)) for book in BOOKS for profile in FAITHFUL]
    asked += [(notebooks.find(plan.notebook), plan.values) for plan in plans.every()]
    store = paths.root() / "data" / "results"
    jobs = [job for book, values in asked for job in jobs_of(book, values)]
    wanted = {store / results.owner(job) / results.file_name(job) for job in jobs}
    tracked = subprocess.run(
        ["git", "ls-files", "data/results"], cwd=paths.root(), capture_output=True, text=True
    )
    if tracked.returncode:
        pytest.skip("not a git checkout")
    files = [paths.root() / line for line in tracked.stdout.splitlines()]
    files = [path for path in files if path.suffix in (".csv", ".json")]
    assert len(files) > 100
    assert {path.parent / path.name.removesuffix(path.suffix) for path in files} <= wanted


def test_printed_python_runs(tmp_path, monkeypatch):
    x, y = torch.randn(60, 20), torch.arange(60) % 3
    data = torch.utils.data.TensorDataset(x, y)
    space = {"x_test": x, "y_test": y, "n": 0, "model": torch.nn.Linear(20, 3)}
    space["loader"] = torch.utils.data.DataLoader(data, batch_size=30)
    monkeypatch.chdir(tmp_path)
    for block in re.findall(r"```python\n(.*?)```", PAGES[1].read_text(), re.DOTALL):
        exec(compile(block, "README.md", "exec"), space)
    assert (tmp_path / "report.html").is_file()
    (run,) = re.findall(r"```python\n(.*?)```", PAGES[0].read_text(), re.DOTALL)
    monkeypatch.setenv("ALIGNBOOK_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(pool, "compute", in_this_process)
    exec(compile(run, "rerun.md", "exec"), {"__name__": "__main__"})
    assert len(list((tmp_path / "results").rglob("*.json"))) == 2


def test_a_table_leads_from_every_figure_to_its_folder():
    text = (paths.root() / "notebooks" / "README.md").read_text()
    rows = re.findall(r"^\| (.+) \| \[(\w+)\]\((\w+)/\2\) \|$", text, re.MULTILINE)
    figures = [book.label.removeprefix(f"{_author(book)} ") for book in BOOKS]
    assert rows == [(figure, book.slug, book.paper) for figure, book in zip(figures, BOOKS, strict=True)]


def _author(book):
    """What stands before the figure's number; the table's headings name the papers."""
    return re.match(r"(?:\w+ et al\.|ICLR \d+|\w+)(?= \w+\. )|", book.label)[0]
