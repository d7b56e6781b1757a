"""The notebooks as sources: complete, lint-clean; the commands and the Python that we print work."""

import re
import shlex
import subprocess
import sys

import jupytext
import pytest
import torch

from alignbook import cli, paths
from companion.runs import notebooks, parameters, plans, pool, results
from companion.runs.run import FAITHFUL, jobs_of
from tests.conftest import in_this_process

BOOKS = notebooks.every()
README, RERUN = paths.root() / "README.md", paths.root() / "book" / "rerun.md"


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


def test_no_study_imports_another(notebook):
    """What several figures share stands beside them."""
    others = "|".join(book.slug for book in BOOKS if book.name != notebook.name)
    for path in notebook.folder.iterdir():
        if path.suffix in (".py", ".md"):
            text = path.read_text()
            assert not re.findall(rf"^\s*(?:from|import) .*\b(?:{others})\b", text, re.MULTILINE), path


def test_readings_import_no_torch():
    imports = "; ".join(f"import companion.studies.{book.name.replace('/', '.')}.reading" for book in BOOKS)
    done = subprocess.run([sys.executable, "-c", f"{imports}; import sys; print('torch' in sys.modules)"],
                          capture_output=True, text=True)  # fmt: skip
    assert done.stdout.strip() == "False", done.stderr


def test_values_in_the_prose_are_those_of_a_shown_profile():
    """What the text writes as "`name` = value"."""
    seen = set()
    for book in BOOKS:
        shown = [parameters.resolve(book, profile) for profile in ("paper", "quick")]
        cells = [cell.source for cell in jupytext.read(book.source).cells if cell.cell_type == "markdown"]
        for name, value in re.findall(r"`(\w+)` = ([\w.]+(?:, [\d.]+)*[\w]|\w)", "\n".join(cells)):
            assert value in [parameters.written(values[name]) for values in shown], (book.name, name, value)
            seen.add((book.slug, name, value))
    assert ("fig16_negative_transfer", "sizes", "1000, 500, 250") in seen


def test_printed_commands_are_commands_and_name_what_exists():
    pages = [README, paths.root() / "CONTRIBUTING.md", *(paths.root() / "book").rglob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages).replace("\\\n", " ")
    lines = re.findall(r"^(?:\$ )?\.venv/bin/alignbook ([^\n#]+)", text, re.MULTILINE)
    assert len(lines) > 10
    for line in lines:
        options = cli._parser().parse_args(shlex.split(line))
        assert options.action, line
        if line.startswith(("run", "show")):
            values = parameters.from_text(getattr(options, "values", []))
            parameters.resolve(notebooks.find(options.name), getattr(options, "profile", None), values)
    (given,) = re.findall(r"papermill fig10\.ipynb (.*)", text)
    spec = parameters.read(notebooks.find("representation_alignment/fig10"))
    assert {*re.findall(r"-p (\w+)", given)} <= spec.keys()


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
    for block in re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL):
        exec(compile(block, "README.md", "exec"), space)
    assert (tmp_path / "report.html").is_file()
    (run,) = re.findall(r"```python\n(.*?)```", RERUN.read_text(), re.DOTALL)
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
