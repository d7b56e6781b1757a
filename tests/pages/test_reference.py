"""The reference, the page about the book and links into the repository, without building the book."""

import doctest
import inspect
import re
from importlib.util import find_spec

import pytest
import yaml

import alignbook
from alignbook import paths
from alignbook.data.torchvision_shim import import_torchvision
from companion.pages import reference

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
    assert error or re.search(r"\bCost[:,]", inspect.getdoc(thing))
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


def test_every_public_name_has_a_page(tmp_path):
    reference.write(tmp_path)
    written = {path.stem.lower() for path in (tmp_path / "reference").glob("*.md")}
    assert {*alignbook.PUBLIC} < {*reference.NAMES} and len(written) == len(reference.NAMES)


def test_the_page_about_the_book_says_how_to_cite():
    text = (paths.root() / "book" / "about.md").read_text(encoding="utf-8")
    citation = yaml.safe_load((paths.root() / "CITATION.cff").read_text(encoding="utf-8"))
    for key in ("title", "version"):
        assert f"  {key} = {{{citation[key]}}}," in text
    (author,) = citation["authors"]
    assert f"author = {{{{{author['name']}}}}}," in text and "BSD 3-Clause" in text
