"""The reference and the page about the book, without building the book."""

import doctest
import inspect
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec

import pytest

import alignbook
from alignbook.data.torchvision_shim import import_torchvision
from companion import cli
from companion.pages import about, reference
from companion.runs import notebooks

SECTIONS = re.compile(r"^(\w+)\n-+$", re.MULTILINE)
TRAINERS = {"recording.lightning": "lightning", "recording.hugging_face": "transformers"}


@pytest.mark.parametrize("name", [each for each in reference.NAMES if "INSTRUMENTS" not in each])
def test_a_public_docstring_is_whole_and_its_example_runs(name):
    thing = reference.thing_of(name)
    found = set(SECTIONS.findall(inspect.getdoc(thing)))
    needed = {"Parameters", "Returns", "Raises"}
    if error := inspect.isclass(thing) and issubclass(thing, Exception):
        needed = set()
    elif inspect.isclass(thing):
        needed = {"Attributes" if "Attributes" in found else "Parameters", "Raises"}
    assert needed <= found
    assert "Examples" in found
    record = error or name == "Claim"
    assert record or re.search(r"\bCost[:,]", inspect.getdoc(thing))
    kind = None if inspect.isclass(thing) else reference.returned(thing)
    if kind:
        assert SECTIONS.findall(inspect.getdoc(kind))[0] == "Attributes"
    if not inspect.isclass(thing):
        described = re.findall(r"^([\w*, ]+) :", inspect.getdoc(thing).split("Returns\n")[0], re.MULTILINE)
        assert {each.strip("* ") for line in described for each in line.split(",")} >= {
            known for known in inspect.signature(thing).parameters
        } - {"model"}
    if name in TRAINERS:
        if find_spec("torchvision"):
            import_torchvision()  # before Lightning and Hugging Face import it
        pytest.importorskip(TRAINERS[name])
    (test,) = doctest.DocTestFinder(recurse=False).find(thing, name, globs={})  # with nothing imported
    report = []
    assert any(example.want for example in test.examples)  # an output is shown
    assert not doctest.DocTestRunner(verbose=False).run(test, out=report.append).failed, "".join(report)


def test_every_public_name_has_a_page_with_the_studies_that_use_it(tmp_path):
    books = notebooks.every()
    reference.write(books, tmp_path)
    written = {path.stem for path in (tmp_path / "reference").iterdir()}
    assert written == {"index", *reference.names()}
    assert len({name.lower() for name in written}) == 2 + len(reference.NAMES)
    page = (tmp_path / "reference" / "patch_covariance.md").read_text()
    assert ".. autofunction:: alignbook.patch_covariance" in page
    assert ".. autoclass:: alignbook.metrics.patch_covariance.PatchCovariance" in page
    assert "(/random_labels/fig02_misalignment)" in page and "signal_propagation" not in page
    assert "[Four ideas in ten minutes](/ideas)" in page
    for name in (*alignbook.PUBLIC, "recording.hugging_face", "recording.lightning"):
        assert "## Used by\n" in (tmp_path / "reference" / f"{reference.page_of(name)}.md").read_text(), name
    load = (tmp_path / "reference" / "load.md").read_text()
    assert "(/representation_alignment/fig07_layers)" in load  # by a module that it imports whole


def test_modules_of_a_paper_are_found_whole_or_in_part():
    text = "from ..names import title\nfrom .. import layers, steps as taken\nfrom .design import NAMES"
    assert reference._shared(text) == {"names", "layers", "steps"}


@pytest.mark.parametrize("name", ["probing.INSTRUMENTS", "recording.INSTRUMENTS"])
def test_a_list_of_instruments_has_each_of_them_with_what_it_measures(name):
    page = reference._page(name, {})
    assert f".. py:data:: INSTRUMENTS\n   :module: alignbook.{name.partition('.')[0]}\n" in page
    assert re.findall(r"^   \* ``(\w+)``: .*\.$", page, re.MULTILINE) == [*reference.thing_of(name)]
    (*imports, shown) = doctest.DocTestParser().get_examples(page)
    code = "".join(example.source for example in imports) + f"print({shown.source.strip()})"
    command = [sys.executable, "-c", code]  # with nothing imported
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == shown.want


def test_every_command_has_its_arguments_and_every_command_of_the_book_is_one():
    text, parser = reference.commands(), cli._parser()
    known = reference.subcommands(parser)
    assert [*known] == re.findall(r"^## (\w+)$", text, re.MULTILINE)
    for name, command in known.items():
        part = text.split(f"## {name}\n")[1].split("\n## ")[0]
        for action in command._actions:
            if action.dest != "help":
                assert all(option in part for option in action.option_strings), (name, action.dest)
        assert "prints" in part, name
    assert re.search(r"--seed SEED</code>.*0", text) and re.search(
        r"--tolerance TOLERANCE</code>.*1e-6", text
    )
    called = reference.examples()
    assert set(called) == set(known)
    for lines in called.values():
        for line in lines:
            assert parser.parse_args(shlex.split(line)).action
            assert f".venv/bin/alignbook {line}" in text


def test_what_a_command_prints_stands_below_it(monkeypatch, capsys):
    text = reference.commands()
    for line in ("list", "show signal_propagation/cor01"):
        assert cli.main(shlex.split(line)) == 0
        first = [row.rstrip() for row in capsys.readouterr().out.splitlines()[:9]]
        begun = [f"`{line}` prints", "", *reference._block(line.split()[0])]
        assert "\n".join([*begun, *first, "…", "```"]) in text
    monkeypatch.setattr(reference, "_PRINTS", ("show signal_propagation/cor99",))
    assert reference.printed("show signal_propagation/cor99") == []


def test_the_page_about_the_book_says_how_to_cite_and_what_changed():
    text = about.page()
    assert f"version {alignbook.__version__}" in text and "@software{alignbook," in text
    assert "Redistribution" in text and "## Changelog\n" in text and "### 0.1.0" in text
    assert text.count("\n# ") == 0 and text.count("\n## ") == 3
    cited = re.search(r"version = \{(.*)\}", text)[1]
    named = "this version" if cited == alignbook.__version__ else f"version {cited}, the last release"
    assert f"The entry names {named}. At the end of each study's page, *Provenance* names" in text
