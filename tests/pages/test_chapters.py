"""Landings: what is covered of a paper, the answer that follows the verdicts, the exercises."""

import re
import shlex
from dataclasses import replace

import pytest

from alignbook import cli, paths
from companion import findings
from companion.claims import Claim
from companion.pages import chapter, coverage
from companion.runs import notebooks
from tests.pages.test_generated import made
from tests.pages.test_quotable import misprinted

EXERCISES = paths.root() / "book" / "exercises"
PAPERS = sorted({book.paper for book in notebooks.every()})
WITH_PAPER = [paper for paper in PAPERS if paper != notebooks.OWN]


def numbered(**kinds):
    return {f"{kind} {number}" for kind, numbers in kinds.items() for number in numbers}


# What the papers number, from our reading of them; without equations that define nothing and state nothing.
NUMBERED = {
    "random_labels": numbered(Figure=range(1, 25), Table=[*range(1, 8), "D.1"], Definition=range(1, 4),
                              Proposition=(1, 2)),
    "representation_alignment": numbered(Figure=range(1, 22), Table=[1], Proposition=(1, 2), Equation=[2]),
    "signal_propagation": numbered(
        Figure=range(1, 24), Table=range(1, 5), Definition=range(1, 4), Theorem=(1, 2, "A"), Corollary=[1],
        Lemma=(1, 2), Remark=[1], Approximation=[1], Equation=(4, 5, 6, 9, 23, 24, 25, 26, 27),
    ),
    "transferability": numbered(
        Figure=range(1, 14), Table=(1, 2), Theorem=(1, 2, 3), Corollary=[1], Lemma=range(1, 7),
        Equation=(19, 42),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def statements():
    """{page: its statements}"""
    return {book.name: book.reading.STATEMENTS for book in notebooks.every()}


@pytest.mark.parametrize("paper", WITH_PAPER)
def test_nothing_of_a_paper_is_without_a_row(paper, statements):
    rows = coverage.read(paper)
    told = {row["item"] for row in rows}
    assert NUMBERED[paper] <= told
    named = {}
    for page, known in statements.items():
        if page.startswith(f"{paper}/"):
            for statement in known:
                for item in coverage.items(statement.source):
                    named.setdefault(item, set()).add(page)
    # What a statement judges has a row, figures and tables, theorems and the like.
    assert {item for item in named if not item.startswith(("Equation", "Approximation"))} <= told
    for row in rows:
        for entry in row.get("by", ()):
            slug, _, statement = entry.partition("#")
            assert statement in {known.id for known in statements[f"{paper}/{slug}"]}, entry
        assert all(f"{paper}/{slug}" in statements for slug in row.get("page", ())), row
        assert row["item"] in named or {"by", "page", "without"} & set(row), row


def test_a_row_has_the_claims_of_its_item_and_those_it_names():
    def claim(id, source, group=None):
        return Claim(id, "It is so.", source, outcome="holds", group=group)

    known = notebooks.find("representation_alignment/fig07_layers").reading.STATEMENTS
    (rises,) = (statement.text for statement in known if statement.id == "rises")
    order, by_eye = claim("order", "Figures 6 and 7"), claim("by-eye", "Figure 7 (left)")
    named, other = claim("rises-mnist", "Section 5", rises), claim("other-mnist", "Section 5", "h")
    record = made("representation_alignment/fig07_layers", [order, by_eye, named, other])
    rows = [{"item": "Figure 7"}, {"item": "Section 5", "by": ["fig07_layers#rises"]}, {"item": "Figure 9"}]
    judging = [coverage.judging(row, [record]) for row in rows]
    assert judging == [[(record, [order, by_eye])], [(record, [named])], []]


@pytest.mark.parametrize("paper", PAPERS)
def test_an_answer_is_up_to_three_short_parts_about_pages(paper, statements):
    sentences = chapter.read(paper)["sentences"]
    assert len(sentences) == min(3, sum(name.startswith(f"{paper}/") for name in statements))
    for sentence in sentences:
        assert f"{paper}/{sentence['by']}" in statements and sentence["word"] in findings.WORDS
        assert len(re.findall(r"[.!?](?=\s|$)", sentence["says"])) <= 2


def test_an_answer_follows_the_verdicts(monkeypatch):
    asked = {"sentences": [{"by": "a", "word": "holds", "says": "It does."}]}
    monkeypatch.setattr(chapter, "read", lambda paper: asked)
    failing = replace(made(), claims=[replace(made().claims[0], outcome="contradicted")])
    for record, said in ((made(), "It does."), (failing, "It rises to 3.")):
        assert f"<p>{said} " in chapter.answer("one", [record])


@pytest.mark.slow
def test_every_exercise_of_every_chapter_runs(tmp_path, monkeypatch, capsys):
    for paper in PAPERS:
        text = (EXERCISES / f"{paper}.md").read_text(encoding="utf-8")
        assert len(re.findall(r"^## \d", text, re.MULTILINE)) == text.count(":::{dropdown} Solution") == 3
        assert len(re.findall(r"^\*\d+ minutes, \w+\. Predict first: .*\*$", text, re.MULTILINE)) == 3
        assert text.count(":::{dropdown} Hint") == 3 and text.count("## An open problem") == 1
        assert not misprinted("\n".join(re.findall(r"```pycon\n(.*?)```", text, re.DOTALL)))
        for solution in re.findall(r"Solution\n(.*?)\n:::", text, re.DOTALL):
            whole = solution.replace("\\\n", " ")  # lines that go on
            commands = re.findall(r"^\$ .venv/bin/alignbook (.*)$", whole, re.MULTILINE)
            assert len(re.findall(r"^(?:>>>|\.\.\.) ", solution, re.MULTILINE)) <= 10
            monkeypatch.setenv("ALIGNBOOK_RESULTS", str(tmp_path))
            for command in commands:
                assert cli.main([*shlex.split(command), *["--no-notebook"] * command.startswith("run")]) == 0
