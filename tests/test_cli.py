"""The command: listing, showing, refusing; executed notebooks."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import companion
from alignbook import paths
from companion import cli
from companion.pages import book, page

RUN = ("run", "fig99", "--no-notebook")


def test_list_show_status_claims_print_text_and_json(here):
    assert here.call("list")[1] == "toy/fig99_toy  Toy Fig. 99 · a toy\n"
    assert here.json("list") == [{"name": "toy/fig99_toy", "title": "Toy Fig. 99 · a toy"}]
    assert "rate: float (0, 1]" in here.call("show", "toy/fig99")[1]
    assert here.json("show", "fig99")["parameters"][1] == {
        "name": "rate", "type": "float", "range": "(0, 1]", "meaning": "size of the numbers",
        "paper": 0.1, "quick": 0.5, "smoke": 1.0,
    }  # fmt: skip
    assert here.json("claims") == []
    here.call(*RUN)
    (claim,) = here.json("claims")
    assert (claim["id"], claim["outcome"], claim["profile"], claim["seeds"]) == ("above", "holds", "quick", 3)
    assert (claim["headline"], claim["group"], claim["ours"]) == (True, None, False)
    lines = here.call("claims")[1].splitlines()
    assert lines[0] == "holds  toy/fig99_toy#above (quick, headline)"
    assert lines[-2:] == ["1 claims: 1 holds", "1 headlines: 1 holds"]
    here.change("above: holds", "above: open", here.notebook)
    assert here.call("claims")[1].endswith("to reword: toy/fig99_toy (above: holds, not open)\n")
    lines = here.call("status")[1].splitlines()
    assert lines[0].split() == ["notebook", "profile", "stored", "stale", "diverged"]
    assert lines[2].split() == ["toy/fig99_toy", "quick", "3", "of", "3", "0", "0"]
    stored = [(row["profile"], row["stored"], row["jobs"]) for row in here.json("status")]
    assert stored == [("paper", 0, 4), ("quick", 3, 3), ("smoke", 0, 1)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "toy/fig98_toy"), "no notebook 'toy/fig98_toy'; did you mean toy/fig99_toy?"),
        (("run", "fig99", "-p", "seed=3"), "toy/fig99_toy has no parameter 'seed'; did you mean seeds?"),
        (("run", "fig99", "-p", "rate=2"), "rate must be in (0, 1], not 2.0"),
        (("run", "fig99", "-p", "rate"), "a parameter is written name=value, not 'rate'"),
        (("run", "fig99", "--profile", "papr"), "invalid choice: 'papr' (choose from"),
        (("run", "fig99", "--workers=1.5"), "must be a whole number, at least 1, not '1.5'"),
        (("run", "fig99", "--sedes", "3"), "unrecognized arguments: --sedes 3; see: alignbook run --help"),
    ],
)
def test_bad_input_is_one_line_with_status_two(here, arguments, message):
    status, out, err = here.call(*arguments)
    assert (status, out, len(err.splitlines())) == (2, "", 1) and message in err
    assert not here.results.exists()


def test_a_dry_run_says_what_it_would_compute_and_at_what_cost(here):
    run = (*RUN, "-p", "rate=1e-1")
    assert here.call(*run, "--dry-run")[1].splitlines()[1].endswith("since nothing like 3 of them is stored")
    assert here.json(*run, "-p", "seeds=2")["parameters"]["rate"] == 0.1
    for path in here.records():
        path.write_text(json.dumps(json.loads(path.read_text()) | {"cost_s": 1800.0}))
    status, out, err = here.call(*run, "-p", "seeds=4", "--dry-run")
    assert (status, err) == (0, "") and out.splitlines() == [
        "toy/fig99_toy: 4 jobs, 2 to compute",
        "expected: 1 core hours, by the stored jobs that are most like these",
    ]
    assert len(here.stored()) == 2


def test_data_sets_are_listed_and_fetched(here, tmp_path):
    listed = here.json("fetch", ALIGNBOOK_DATA=str(tmp_path))
    assert {"cifar10", "ct_slices"} < {row["name"] for row in listed} and not any(r["there"] for r in listed)
    assert here.call("fetch", "digits")[1].split() == ["digits", "comes", "with", "a", "package"]
    status, out, err = here.call("fetch", "nothing")
    assert (status, out) == (2, "") and "no image set 'nothing'" in err and len(err.splitlines()) == 1


def test_an_interrupted_command_that_stores_nothing_says_so(here, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.notebooks, "every", interrupted)
    assert here.call("status") == (130, "", "alignbook: interrupted\n")


def test_a_folder_without_notebooks_or_for_the_build_is_one_line(here, tmp_path):
    (tmp_path / "file").write_text("")
    for variables, message in (
        ({"ALIGNBOOK_ROOT": str(tmp_path / "nothing")}, "ALIGNBOOK_ROOT must be a checkout"),
        ({"ALIGNBOOK_BUILD": str(tmp_path / "file" / "build")}, "cannot make"),
    ):
        status, _, err = here.call("run", "fig99", **variables)
        assert status == 2 and len(err.splitlines()) == 1 and message in err


def test_a_study_of_a_paper_without_a_chapter_is_told_and_left_out():
    toc = "root: index\nchapters:\n- file: toy/index\n"
    books, said = [SimpleNamespace(name=f"{paper}/fig01_x", paper=paper) for paper in ("toy", "other")], []
    assert book._listed(books, toc, said.append) == books[:1]
    assert said[0].startswith("other/fig01_x is left out of the book: no chapter other/index in _toc.yml")


def test_a_data_set_of_ones_own_is_told_how_to_be_used(here, tmp_path):
    cell = 'labels: list[str] = ["plain"]  # {plain, fail, diverge, slow, kill}: what happens'
    line = here.notebook.read_text().splitlines().index(cell) + 1
    where = {"ALIGNBOOK_DATA": str(tmp_path)}
    refused = "labels must be one of {plain, fail, diverge, slow, kill}, not 'my_set'"
    run = ("run", "fig99", "-p", "labels=[plain, my_set]")
    assert here.call(*run, **where)[2] == f"alignbook: {refused}\n"
    (tmp_path / "my_set.npz").write_bytes(b"")
    remedy = f"add my_set to the braces in notebooks/toy/fig99_toy/notebook.md, line {line}"
    told = f"alignbook: {refused}; to use my_set.npz of your own, {remedy}\n"
    assert here.call(*run, **where)[2] == told


def test_a_short_name_that_fits_two_notebooks_is_refused(here):
    shutil.copytree(here.notebook.parent, here.notebook.parents[1] / "fig98_toy")
    status, _, err = here.call("show", "fig9")
    assert status == 2 and "'fig9' is ambiguous: toy/fig98_toy, toy/fig99_toy" in err


def test_two_books_at_once_are_refused(here):
    folder = here.root / "_build"
    folder.mkdir()
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        status, _, err = here.call("book", "--profile", "smoke")
    assert status == 2 and "another book is being built in _build" in err.splitlines()[-1]


def test_values_near_profile_smoke_get_no_verdict(here):
    here.profile("smoke", "{labels: [diverge, plain], rate: 1.0, seeds: 1}")
    run = companion.run("fig99", profile="smoke", seeds=4)
    assert (run.profile, [claim.outcome for claim in companion.judge(run).claims]) == (None, ["untested"])
    assert "toy sizes: reproduces nothing" in page.banner(run)
    run = companion.run("fig99", seeds=5)
    assert (run.profile, [claim.outcome for claim in companion.judge(run).claims]) == (None, ["holds"])


def test_computing_needs_no_notebook_tools(here, monkeypatch):
    for name in ("IPython", "jupytext", "papermill"):
        monkeypatch.setitem(sys.modules, name, None)
    assert here.call(*RUN)[0] == 0 and "1 holds" in here.call("claims")[1]
    status, _, err = here.call("run", "fig99")
    assert status == 2 and len(err.splitlines()) == 1 and "install alignbook[book]" in err


# ---- in an interpreter of its own, which lists in no time ----


def test_listing_the_notebooks_imports_nothing_large(checkout):
    code = (
        "import sys; from alignbook import cli; cli.main(['list']); "
        "print({'numpy', 'pandas', 'scipy', 'torch'} & set(sys.modules))"
    )
    assert checkout.fresh(code=code).stdout.endswith("\nset()\n")


def test_a_closed_pipe_is_no_error_and_a_full_disk_is_one_line(checkout):
    read, write = os.pipe()
    os.close(read)
    done = checkout.fresh("list", stdout=write)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")
    with open("/dev/full", "w") as full:
        done = checkout.fresh("list", stdout=full)
    assert (done.returncode, done.stderr) == (2, "alignbook: No space left on device\n")


# ---- with a notebook ----


def test_a_run_leaves_an_executed_notebook_and_a_page_without_machine_paths(checkout):
    shutil.copytree(paths.root() / "book" / "assets", checkout.root / "book" / "assets")
    shutil.copy(paths.root() / "book" / "bibliography.bib", checkout.root / "book")
    shutil.copy(paths.root() / "_config.yml", checkout.root)
    elsewhere = checkout.root / "elsewhere"
    elsewhere.mkdir()
    values = ("-p", "seeds=2", "-p", 'labels=["plain"]')
    # Paths in the environment are relative to where the command runs.
    status, out, err = checkout.run(
        "run", "fig99", *values, "--json", at=elsewhere, ALIGNBOOK_RESULTS="store"
    )
    assert status == 0, err
    assert len(list(elsewhere.glob("store/toy/fig99_toy/*.csv"))) == 2
    summary = json.loads(out)
    assert summary["profile"] is None and summary["parameters"]["seeds"] == 2
    text = Path(summary["notebook"]).read_text()
    assert str(checkout.root) not in text and '"papermill"' not in text
    notebook = json.loads(text)
    parameters = next(c for c in notebook["cells"] if "parameters" in c["metadata"].get("tags", []))
    assert "seeds: int = 2  # [1, 100]: independent runs" in "".join(parameters["source"])

    file = Path(summary["page"])
    assert file.parent == checkout.root / "_build" / "runs" / "toy"
    text = file.read_text()
    assert re.search(r"<code>seeds</code> <code>3</code> → <strong><code>2</code>", text)
    loaded = re.findall(r'<(?:script|img|link)\b[^>]*? (?:src|href)="([^"]*)"', text)
    assert len(loaded) > 10
    files = {address.split("?")[0] for address in loaded if not address.startswith(("data:", "#"))}
    assert [address for address in files if not (file.parent / address).is_file()] == []
    assert str(checkout.root) not in text


def test_a_kernel_that_does_not_start_is_one_line(checkout, tmp_path):
    spec = tmp_path / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    broken = [sys.executable, "-c", "import no_such_kernel"]
    kernel = {"argv": broken, "display_name": "broken", "language": "python"}
    spec.write_text(json.dumps(kernel | {"metadata": {"supported_encryption": "curve"}}))
    status, out, err = checkout.run("run", "fig99", "--profile", "smoke", JUPYTER_PATH=str(tmp_path))
    assert (status, out) == (2, "") and "Traceback" not in err
    reason = "its kernel cannot be used (ModuleNotFoundError: No module named 'no_such_kernel'"
    assert f"toy/fig99_toy failed: {reason}" in err.splitlines()[-1]


@pytest.mark.slow
def test_plain_papermill_refuses_unknown_and_wrong_parameters(checkout):
    def papermill(*values):
        command = [sys.executable, "-m", "papermill", "toy.ipynb", "out.ipynb", "--no-progress-bar", *values]
        return subprocess.run(
            command, cwd=checkout.root, env=checkout.environment(), capture_output=True, text=True
        )

    convert = [sys.executable, "-m", "jupytext", "--to", "ipynb", "-o", "toy.ipynb", str(checkout.notebook)]
    subprocess.run(convert, cwd=checkout.root, check=True, capture_output=True)
    assert papermill("-p", "seeds", "2").returncode == 0 and len(checkout.stored()) == 2
    unknown = papermill("-p", "sedes", "2")
    assert (
        unknown.returncode and "toy/fig99_toy has no parameter 'sedes'; did you mean seeds?" in unknown.stderr
    )
    named = papermill("-p", "page", "x")  # as the notebook's own name
    assert named.returncode and "toy/fig99_toy has no parameter 'page'" in named.stderr
    wrong = papermill("-p", "rate", "7")
    assert wrong.returncode and "rate must be in (0, 1], not 7.0" in wrong.stderr
