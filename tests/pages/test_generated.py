"""What is generated around the notebooks' pages, on made-up notebooks."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
import yaml

from companion.claims import Claim
from companion.findings import Finding
from companion.judging import Record
from companion.pages import claim_tables, contents, glance, scorecard

PAPERS = {"one": "The first paper", "two": "The second paper"}
TOC = """
format: jb-book
root: index
parts:
  - caption: Start
    chapters: [{file: findings}]
  - caption: Papers
    chapters:
      - file: one/index
        sections: [{file: one/b}, {file: one/a}]
      - file: two/index
  - caption: Behind
    chapters: [{file: reference/index}]
"""


def books(*names):
    return [SimpleNamespace(name=name, paper=name.split("/")[0]) for name in names]


def test_the_contents_follow_the_file_and_forget_no_notebook():
    known = books("one/a", "one/b", "one/c")
    parts = yaml.safe_load(contents.staged(TOC, known))["parts"]
    (chapter,) = parts[1]["chapters"]  # the second paper has no notebook
    assert [section["file"] for section in chapter["sections"]] == ["one/b", "one/a", "one/c"]
    (pages,) = parts[2]["chapters"]
    listed = [section["file"] for section in pages["sections"]]
    assert listed[:2] == ["reference/commands", "reference/activations"] and "reference/cka" in listed
    assert [book.name for book in contents.in_order(TOC, known)] == ["one/b", "one/a", "one/c"]
    more = yaml.safe_load(contents.staged(TOC, [*known, *books("two/x")]))["parts"]
    assert more[1]["chapters"][1] == {"file": "two/index", "sections": [{"file": "two/x"}]}
    assert contents.files(TOC) == ["findings", "one/index", "one/b", "one/a", "two/index", "reference/index"]


def claims(*outcomes, headline=True, group=None, ours=False):
    made = []
    for number, outcome in enumerate(outcomes):
        claim = Claim(
            f"c{number}", f"claim {number}", "Fig. 1", None, None, 1.0, (0.5, 1.5), outcome, 3, "rule"
        )
        made.append(replace(claim, headline=headline and number == 0, group=group, ours=ours))
    return made


def made(name="one/a", found=(), finding="It rises to 3."):
    return Record(
        name=name, title=f"Does {name} rise?", label="Paper Fig. 1",
        profile="quick", shown_profile="quick",
        finding=Finding(finding, "It falls after that."), claims=list(found) or claims("holds"),
        figure={"file": "f.svg", "alt": "A <line>"}, seeds=3, runs=4, stale=0, diverged=0,
        computing=5.0, devices=["a processor"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("outcomes", "word"),
    [
        (["holds", "holds"], "holds"),
        (["holds", "contradicted"], "in part"),
        (["contradicted", "open"], "fails"),
        (["open"], "open"),
        (["untested", "not run"], "untested"),
    ],
)
def test_a_page_stands_where_its_word_says(outcomes, word):
    for found in (claims(*outcomes, group="of the headline"), claims(*outcomes)):
        found = [replace(claim, part="a part") for claim in found]
        text = glance.all_findings(PAPERS, [made(found=found)])
        assert [w for w, title in glance.SECTIONS.items() if f"## {title}\n" in text] == [word]
        assert re.sub("<[^>]*>", "", claim_tables.verdict(found)) == word


def test_findings_list_where_a_paper_contradicts_itself_once_for_all_cases():
    found = [
        replace(one, opposed_by="Figure 2 has it otherwise") for one in claims("holds", "holds", group="one")
    ]
    text = glance.all_findings(PAPERS, [made(found=found)])
    assert "## Where a paper contradicts itself" in text and text.count("But: Figure 2 has it otherwise") == 1


def test_the_scorecard_has_a_sign_per_statement_that_leads_to_it():
    together = claims("holds", "open", group="of both")
    alone = replace(claims("contradicted", headline=False, ours=True)[0], id="alone")
    text = scorecard.write(PAPERS, [made(found=[*together, alone])])
    signs = re.findall(r'class="ab-sign ab-([\w-]+)" href="([^"]*)"', text)
    assert signs == [("in-part", "one/a.html#claim-c0"), ("contradicted", "one/a.html#claim-alone")]
