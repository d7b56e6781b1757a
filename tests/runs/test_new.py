"""A new study from the template runs, is judged, becomes a page and passes its own tests."""

import json
import subprocess
import sys

import pytest

from alignbook import paths


def test_a_new_study_works_at_once(checkout):
    code, out, err = checkout.run("new", "toy/fig50_new")
    assert code == 0, err
    test = "tests/experiments/toy/test_fig50_new.py"
    assert out.splitlines()[0] == "notebooks/toy/fig50_new/notebook.md" and test in out
    assert checkout.run("run", "fig50", "--workers", "1")[0] == 0  # its page, too
    (claim,) = (c for c in json.loads(checkout.run("claims", "--json")[1]) if c["notebook"].endswith("new"))
    assert (claim["id"], claim["outcome"], claim["seeds"]) == ("falls", "holds", 5)
    assert "4 passed" in module(checkout, "pytest", "-q", "-p", "no:cacheprovider", test)
    config = str(paths.root() / "pyproject.toml")
    module(checkout, "ruff", "check", "--no-cache", "--config", config, "notebooks", test)


def module(checkout, *command):
    """What ``python -m`` prints in the checkout; it must succeed."""
    told = {"env": checkout.environment(), "capture_output": True, "text": True}
    run = subprocess.run([sys.executable, "-m", *command], cwd=checkout.root, **told)
    assert run.returncode == 0, run.stdout
    return run.stdout


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fig50", "a study is called <paper>/<figure>"),
        ("toy/Fig 50", "a study is called"),
        ("../toy/fig50", "a study is called"),
        ("toy/fig99_toy", "notebooks/toy/fig99_toy is there already"),
        ("toy/shared", "notebooks/toy/shared.py is a module of that name, which would hide the study"),
        ("alone/fig50", "notebooks/alone.py is a module of that name"),
    ],
)
def test_a_name_that_is_none_or_taken_is_refused(checkout, name, message):
    for module in ("toy/shared.py", "alone.py"):
        (checkout.root / "notebooks" / module).write_text("")
    before = sorted(checkout.root.rglob("*.md"))
    code, out, err = checkout.run("new", name)
    assert (code, out, len(err.splitlines())) == (2, "", 1) and message in err
    assert sorted(checkout.root.rglob("*.md")) == before and not (checkout.root / "tests").exists()


@pytest.mark.parametrize("name", ["toy/fig50", "other/fig50"])
def test_where_the_test_cannot_be_written_nothing_of_the_study_stays(checkout, name):
    paper = name.split("/")[0]
    (checkout.root / "tests" / "experiments").mkdir(parents=True)
    (checkout.root / "tests" / "experiments" / paper).write_text("")
    before = sorted(checkout.root.rglob("*"))
    code, out, err = checkout.run("new", name)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert f"cannot write the study: tests/experiments/{paper}: " in err
    assert [path for path in sorted(checkout.root.rglob("*")) if "__pycache__" not in path.parts] == [
        path for path in before if "__pycache__" not in path.parts
    ]
