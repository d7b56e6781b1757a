"""Bad input is one clear line: notebooks, profiles, experiments, terminals, arrays."""

import io
import sys
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

import alignbook
import companion
from alignbook import cli
from alignbook.errors import AlignbookError
from tests.conftest import TOY, forget_toys, write_study

QUICK = settings(max_examples=30, deadline=None, derandomize=True, database=None)


def one_line(error, *parts):
    text = str(error)
    assert len(text.splitlines()) == 1 and len(text) < 2000, text
    for part in parts:
        assert part in text, text


@pytest.fixture
def toys(here):
    """A checkout with a second toy, which is broken by tests."""
    files = {name: text.replace("fig99_toy", "fig98_toy") for name, text in TOY.items()}
    profiles = "quick: {labels: [plain], rate: 0.5, seeds: 3}\n"
    here.second = write_study(here.root, "fig98_toy", files | {"profiles.yaml": profiles})
    return here


# ---- notebooks and experiments ----

BROKEN_NOTEBOOKS = {
    "syntax": ("rate: float = 0.5", "rate: float = = 0.5", "line 25: the parameters cell is no Python"),
    "no cell": (":tags: [parameters]", ":tags: [parameter]", "0 cells begin with"),
    "no UTF-8": ("a toy", "\udcff toy", "can't decode byte 0xff"),
}


@pytest.mark.parametrize("case", BROKEN_NOTEBOOKS)
def test_a_broken_notebook_is_one_line(toys, case):
    old, new, message = BROKEN_NOTEBOOKS[case]
    text = (toys.second / "notebook.md").read_text()
    assert old in text
    (toys.second / "notebook.md").write_bytes(text.replace(old, new, 1).encode(errors="surrogateescape"))
    with pytest.raises(AlignbookError) as error:
        companion.run("fig98")
    one_line(error.value, "notebooks/toy/fig98_toy/notebook.md", message)
    assert not toys.results.exists()


BROKEN_FILES = {
    "no experiment": ("experiment.py", None, "notebooks/toy/fig98_toy/experiment.py"),
    "syntax": ("experiment.py", "def jobs(:\n", "experiment.py, line 1: SyntaxError"),
    "raises": (
        "experiment.py",
        "import os\nraise RuntimeError('two\\nlines')\n",
        "experiment.py, line 2: RuntimeError: two",
    ),
    "ends": ("experiment.py", "raise SystemExit(3)\n", "experiment.py, line 1: SystemExit: 3"),
    "no jobs": ("experiment.py", "", "no jobs for these parameters (AttributeError"),
    "a reading": ("reading.py", "x = 1\ndef f(:\n", "reading.py, line 2: SyntaxError"),
    "no profiles": ("profiles.yaml", None, "fig98_toy/profiles.yaml"),
    "an unknown profile": ("profiles.yaml", "fast: {seeds: 1}", "profiles.yaml: no profile 'fast'"),
    "a profile's text": ("profiles.yaml", "paper: fast", "yaml: a profile has values"),
    "no parameter": ("profiles.yaml", "quick: {sedes: 1}", "yaml: toy/fig98_toy has no"),
}


@pytest.mark.parametrize("case", BROKEN_FILES)
def test_a_broken_study_leaves_the_others_alone(toys, capsys, case):
    name, text, message = BROKEN_FILES[case]
    command = "claims" if name == "reading.py" else "status"
    assert cli.main(["run", "fig98", "--no-notebook"]) == 0
    capsys.readouterr()
    forget_toys()
    file = toys.second / name
    file.unlink() if text is None else file.write_text(text)
    assert cli.main([command]) == 2
    out, err = capsys.readouterr()
    one_line(err.rstrip("\n"), message)
    assert "fig98" not in out and ("toy/fig99_toy" in out or command == "claims")
    assert cli.main(["list"]) == 0 and "toy/fig99_toy" in capsys.readouterr().out


def test_the_book_tells_all_broken_notebooks_before_it_computes(toys):
    from companion.pages import book

    (toys.root / "_toc.yml").write_text("root: index\nchapters:\n- file: toy/index\n")
    (toys.second / "experiment.py").write_text("def jobs(:\n")
    toys.notebook.write_text("# Nothing\n")
    with pytest.raises(AlignbookError) as error:
        book.build("smoke", progress=lambda text: None)
    one_line(error.value, "experiment.py, line 1", "notebooks/toy/fig99_toy/notebook.md: 0 cells")
    assert not toys.results.exists() and not (toys.root / "_build" / "pages").exists()


@pytest.mark.parametrize(
    "change",
    [{"name": 3}, {"workers": 1.5}, {"profile": ["quick"]}, {"seeds": 10**5000}],
    ids=lambda change: next(iter(change)),
)
def test_run_refuses(toys, change):
    with pytest.raises(AlignbookError) as error:
        companion.run(**{"name": "fig99", "profile": "smoke"} | change)
    one_line(error.value)
    assert not toys.results.exists()


# ---- terminals ----


def test_a_title_that_the_terminal_cannot_show(toys, monkeypatch):
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    assert cli.main(["list"]) == 0
    assert "Fig. 99 \\xb7 a toy" in terminal.buffer.getvalue().decode("ascii")


# ---- arrays ----

ENTRIES = st.floats(width=64) | st.sampled_from([0.0, 1e-308, 1e-160, 1e160, 1e308, -1e308, np.nan, np.inf])


def finite_or_refused(measure, *arguments):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = measure(*arguments)
    except ValueError as error:
        assert str(error)
        return
    for part in found:
        assert np.isfinite(np.asarray(part)).all(), part


@QUICK
@given(st.lists(ENTRIES, min_size=16, max_size=16), st.sampled_from([1, 2]))
def test_patch_covariance_is_finite_or_refused(entries, stride):
    images = torch.tensor(entries, dtype=torch.float64).reshape(1, 1, 4, 4)

    def moments(x):
        found = alignbook.patch_covariance(x, size=2, stride=stride)
        return found.mean, found.cov

    finite_or_refused(moments, images)


@QUICK
@given(st.lists(ENTRIES, min_size=8, max_size=8), st.lists(ENTRIES, min_size=4, max_size=4), st.booleans())
def test_alignment_curve_is_finite_or_refused(features, labels, bias):
    finite_or_refused(lambda x: alignbook.alignment_curve(x, labels, bias=bias), np.reshape(features, (4, 2)))


@QUICK
@given(st.integers(-320, 307), st.integers(-320, 307), st.integers(0, 99))
def test_misalignment_does_not_depend_on_scale(first, second, seed):
    draws = np.random.default_rng(seed).normal(size=(2, 3, 40))
    a, b = (part @ part.T / 400 for part in draws)
    expected = alignbook.misalignment(a, b)
    scaled = a * 10.0 ** max(first, -300), b * 10.0 ** max(second, -300)
    assert alignbook.misalignment(*scaled) == pytest.approx(expected, rel=1e-6, abs=1e-12)
    assert alignbook.misalignment(*map(torch.from_numpy, scaled)) == alignbook.misalignment(*scaled)
    finite_or_refused(alignbook.transfer_function, a * 10.0**first, b * 10.0**second)


def test_transfer_function_scales_back():
    a = np.diag([1.0, 2.0, 4.0])
    sigma, tau = alignbook.transfer_function(a * 4e307, np.eye(3) * 1e-306)
    assert sigma == pytest.approx(np.sqrt([4e307, 8e307, 1.6e308])) and tau == pytest.approx(1e-153)


def test_hessian_eigenvalues_below_the_normal_range_are_refused():
    generator = torch.Generator().manual_seed(0)
    model = torch.nn.Linear(3, 8)
    x, y = torch.randn(9, 3, generator=generator), torch.randint(8, (9,), generator=generator)

    def loss(outputs, targets, scale=1e-40):
        return torch.nn.functional.cross_entropy(outputs, targets) * scale

    with pytest.raises(ValueError, match="too small for torch.float32: scale the loss up or use float64"):
        alignbook.hessian_eigenvalues(model, loss, x, y, k=2)
    found = alignbook.hessian_eigenvalues(model.double(), loss, x.double(), y, k=2)
    gram = found.eigenvectors @ found.eigenvectors.T
    assert found.converged and torch.allclose(gram, torch.eye(2, dtype=torch.float64))


@pytest.mark.parametrize("change", [{"n": "3"}, {"n": 5.0}, {"n": 3, "seed": None}, {"name": 3}], ids=str)
def test_load_refuses(change):
    with pytest.raises(AlignbookError) as error:
        alignbook.load(**{"name": "digits"} | change)
    one_line(error.value, repr(list(change.values())[-1]))


def test_a_closed_standard_output_is_one_line(toys, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", None)
    assert cli.main(["list"]) == 2
    monkeypatch.undo()
    assert capsys.readouterr().err == "alignbook: standard output is closed\n"


def test_a_working_folder_that_is_gone_is_one_line(toys, tmp_path, monkeypatch, capfd):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert cli.main(["show", "fig99"]) == 2
    assert capfd.readouterr().err == "alignbook: the working folder is gone: cd to one that is there\n"
