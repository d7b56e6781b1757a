"""What is generated around the notebooks' pages, on made-up notebooks."""

import json
import os
import re
import time
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import nbformat
import pytest
import yaml

from alignbook.claims import Claim
from alignbook.pages import claim_tables, contents, download, executed, glance, kernels, record, scorecard
from alignbook.runs import notebooks

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
    assert listed[:2] == ["reference/commands", "reference/AlignbookError"] and "reference/Claim" in listed
    assert [book.name for book in contents.in_order(TOC, known)] == ["one/b", "one/a", "one/c"]
    more = yaml.safe_load(contents.staged(TOC, [*known, *books("two/x")]))["parts"]
    assert more[1]["chapters"][1] == {"file": "two/index", "sections": [{"file": "two/x"}]}
    assert contents.files(TOC) == ["findings", "one/index", "one/b", "one/a", "two/index", "reference/index"]


def test_the_contents_may_have_no_parts():
    toc = "format: jb-book\nroot: index\nchapters: [{file: one/a}, {file: two/index}]"
    assert yaml.safe_load(contents.staged(toc, books("one/a")))["chapters"] == [{"file": "one/a"}]


def claims(*outcomes, headline=True, group=None, ours=False):
    made = []
    for number, outcome in enumerate(outcomes):
        claim = Claim(
            f"c{number}", f"claim {number}", "Fig. 1", None, None, 1.0, (0.5, 1.5), outcome, 3, "rule"
        )
        made.append(replace(claim, headline=headline and number == 0, group=group, ours=ours))
    return made


def made(name="one/a", found=(), finding="It rises to 3. It falls after that."):
    return record.Record(
        name=name, title=f"Paper Fig. 1 · subject of {name}", statement="c_l rises", profile="quick",
        shown_profile="quick", finding=finding, claims=list(found) or claims("holds"),
        figure={"file": "f.svg", "alt": "A <line>", "panel": 2}, seeds=3, runs=4, stale=0, diverged=0,
        computing=5.0, rendering=1.0, devices=["a processor"],
    )  # fmt: skip


def test_a_record_is_read_as_it_was_written():
    kept = made(found=claims("holds", "contradicted", group="together", ours=True))
    assert record.read(kept.written()) == kept
    for broken in ("{}", "[]", kept.written().replace('"seeds"', '"seed"'), kept.written()[:-5]):
        with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
            record.read(broken)


@pytest.mark.parametrize(
    ("outcomes", "section"),
    [
        (["holds", "holds"], glance.HOLDS),
        (["holds", "contradicted"], glance.PART),
        (["holds", "undecided"], glance.PART),
        (["contradicted", "undecided"], glance.NOT),
        (["undecided"], glance.OPEN),
        (["not judged", "not run"], glance.OPEN),
    ],
)
def test_findings_stand_where_the_headline_came_out(outcomes, section):
    text = glance.findings(PAPERS, [made(found=claims(*outcomes, group="of the headline"))])
    assert f"## {section}\n" in text and "one/a.html" in text
    assert [known for known in glance.SECTIONS if f"## {known}\n" in text] == [section]
    assert "## Where a paper contradicts itself" not in text
    assert "## Further statements that are contradicted" not in text  # the headline's own are told above


def named(claims, words, **changed):
    return [
        replace(
            one, id=f"{words}-{one.id}", headline=one.headline and words == "first", part=words, **changed
        )
        for one in claims
    ]


def first_line(*claims):
    text = re.sub("<[^>]*>", "", claim_tables.verdict(list(claims)))
    return text.replace("\N{NO-BREAK SPACE}", " ").replace("&nbsp;", " ").strip()


@pytest.mark.parametrize(
    ("head", "other", "section", "shown"),
    [
        ("holds", "contradicted", glance.PART, True),
        ("holds", "not judged", glance.PART, True),
        ("holds", "holds", glance.HOLDS, False),
        ("absent", "holds", glance.NOT, True),  # what the figure exists for is not found
        ("undecided", "holds", glance.OPEN, True),
    ],
)
def test_another_part_of_the_claim_is_not_hidden_by_its_verdict(head, other, section, shown):
    def told(outcome):
        return "absent, too small to matter" if outcome == "absent" else outcome

    found = [*named(claims(head), "first"), *named(claims(other), "later")]
    text = glance.findings(PAPERS, [made(found=found)])
    assert f"## {section}\n" in text and [s for s in glance.SECTIONS if f"## {s}\n" in text] == [section]
    assert ("later:" in text) == shown
    assert first_line(*found) == (
        f"first: {told(head)}; later: {told(other)}" if shown else "holds in both parts"
    )


def test_the_parts_of_a_claim_are_told_one_by_one_where_they_came_out_otherwise():
    first = named(claims("holds", "undecided", group="one"), "first")
    assert first_line(*first) == "first: holds in 1 of 2 cases, undecided in 1"  # one part
    later, last = named(claims("holds"), "later"), named(claims("holds"), "last")
    assert first_line(*first, *later) == "first: holds in 1 of 2 cases, undecided in 1; later: holds"
    assert first_line(*named(claims("holds"), "first"), *later, *last) == "holds in all 3 parts"
    twice = [*claims("absent"), *claims("undecided")]  # two statements of one part, with the same cases
    assert (
        first_line(*first[:1], *named(twice, "later"))
        == "first: holds; later: absent, too small to matter in 1 of 2 cases, undecided in 1"
    )


def test_that_all_parts_are_by_a_criterion_of_ours_is_said_once():
    first, later = named(claims("holds"), "first"), named(claims("absent"), "later")
    ours = [replace(one, ours=True) for one in (*first, *later)]
    assert first_line(*ours) == "first: holds; later: absent, too small to matter by our own criterion"
    assert (
        first_line(ours[0], *later) == "first: holds by our own criterion; later: absent, too small to matter"
    )
    same = named(claims("holds"), "later")
    assert first_line(ours[0], *same) == "holds in both parts, 1 by our own criterion"
    assert first_line(ours[0], replace(same[0], ours=True)) == "holds in both parts by our own criterion"


def test_outcomes_of_few_cases_are_told_with_the_cases():
    def case(label, outcome):
        (one,) = claims(outcome, group="It is so.")
        return replace(one, id=label, statement=f"It is so ({label}).", headline=label == "A")

    assert (
        first_line(case("A", "holds"), case("B", "absent"), case("C", "absent"))
        == "holds (A), absent, too small to matter (B, C)"
    )
    long = "a case whose label is longer than what fits there"
    assert (
        first_line(case("A", "holds"), case(long, "absent"))
        == "holds (A), absent, too small to matter in 1 of 2 cases"
    )
    many = [case(label, "holds") for label in "ABCD"] + [case("E", "absent")]
    assert first_line(*many) == "holds in 4 of 5 cases, absent, too small to matter in 1"


def test_findings_list_where_a_paper_contradicts_itself_once_for_all_cases():
    found = [
        replace(one, opposed_by="Figure 2 has it otherwise") for one in claims("holds", "holds", group="one")
    ]
    text = glance.findings(PAPERS, [made(found=found)])
    assert "## Where a paper contradicts itself" in text and text.count("But: Figure 2 has it otherwise") == 1


def test_findings_tell_the_papers_other_claims_from_ours():
    headline, *others = claims("holds", "contradicted", "contradicted")
    own = [replace(claim, id=f"own-{claim.id}", ours=True) for claim in claims("holds", headline=False)]
    text = glance.findings(PAPERS, [made(found=[headline, *others, *own])])
    assert "The paper's other claims: 2 contradicted." in text and "Readings of ours: 1 holds." in text
    assert (
        "<summary>2 statements beside the main claims</summary>" in text
        and 'href="one/a.html#claim-c1"' in text
    )


def test_the_home_page_has_each_finding_with_its_caveat(monkeypatch):
    monkeypatch.setattr(glance, "HOME", ("two/x", "one/a", "not/there"))
    text = glance.home([made(), made("two/x", finding="At 0.5. Then more.")])
    assert re.findall(r'href="([^"]*)" tabindex', text) == ["two/x.html", "one/a.html"]
    assert "<br>It rises to 3. <span" in text and "It falls after that." in text and "Then more." in text


def test_a_card_shows_the_panel_that_the_study_names():
    assert 'loading="lazy" data-panel="2"></a>' in glance.card(made())
    named = {book.name: book.thumbnail for book in notebooks.every()}
    assert named["representation_alignment/fig10_peaks_alignment"] == 2  # the related task
    assert named["signal_propagation/fig03_peak_law"] == 2  # Fashion-MNIST
    assert named["random_labels/fig01_transfer"] == 1 and all(
        type(number) is int for number in named.values()
    )


def test_a_verdict_stands_before_what_was_found():
    for text in (glance.home([made(glance.HOME[0])]), glance.card(made()), glance.told([made()])):
        assert 0 < text.index("ab-verdict") < text.index("It rises to 3.")


def test_the_table_of_outcomes_counts_the_main_claim_of_every_page():
    failed = made("one/b", claims("contradicted", "holds"))
    own = made(f"{notebooks.OWN}/a", claims("undecided", ours=True))
    records = [made(), made("one/c"), failed, own]
    text = glance.outcomes({**PAPERS, notebooks.OWN: "Ours"}, records)
    assert 'findings.html#what-holds">2</a>' in text and 'findings.html#what-does-not-hold">1</a>' in text
    assert "not decided" in text and "second" not in text and ">Ours</a>" in text
    assert sum(map(int, re.findall(r">(\d+)<", text))) == len(records)


def test_the_scorecard_has_a_sign_for_every_claim_and_a_fold_for_every_statement():
    together = claims("holds", "not judged", group="of both")
    alone = replace(claims("contradicted", headline=False, ours=True)[0], id="alone")
    text = scorecard.write(PAPERS, [made(found=[*together, alone])])
    assert re.findall(r'data-outcome="([\w-]+)">[^<]*</i>', text.split('class="ab-strip"')[1]) == [
        "holds", "not-judged", "contradicted",
    ]  # fmt: skip
    assert re.findall(r'class="ab-statement" data-outcomes="([^"]*)"', text) == [
        "holds not-judged",
        "contradicted",
    ]
    counts = text.split('class="ab-counts"')[1].split("</table>")[0]
    counted = [re.findall(r">([^<]*)</td>", row) for row in counts.split("</tr>")[1:-1]]
    assert counted == [["1", "–"], ["–", "1"], ["–", "–"], ["–", "–"], ["1", "–"], ["–", "–"], ["2", "1"]]
    assert {f"#claim-{name}" for name in ("c0", "c1", "alone")} <= set(re.findall(r"#claim-[\w-]+", text))


def test_the_scorecard_leaves_out_columns_without_a_value():
    printed = [replace(claim, paper=2.0) for claim in claims("holds", "holds", group="of both")]
    for found, shown in ((claims("holds", "holds", group="of both"), False), (printed, True)):
        text = scorecard.write(PAPERS, [made(found=found)]).split('class="ab-statement"')[1]
        assert ("<th>Paper</th>" in text) == ('data-label="Paper"' in text) == shown
        assert text.count("<th>Here</th>") == 1


def test_a_kept_notebook_counts_only_whole_and_under_its_key(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGNBOOK_BUILD", str(tmp_path))
    notebook = SimpleNamespace(name="one/a")
    source = tmp_path / "source.ipynb"
    source.write_text("{}")
    executed.keep(notebook, "quick", "key", source, made())
    path, kept = executed.find(notebook, "quick", "key")
    assert path.read_text() == "{}" and kept == made()
    assert executed.find(notebook, "quick", "another") is None
    assert executed.find(notebook, "paper", "key") is None
    path.write_text("{ }")
    assert executed.find(notebook, "quick", "key") is None


def test_offered_notebooks_have_plain_text_for_roles(tmp_path):
    (tmp_path / "bibliography.bib").write_text(
        "@misc{solo, author={{Anonymous}}, year={2020}}\n"
        "@misc{pair, author={Ada Aa and Bo Bb}, year={2021}}\n"
        "@misc{many, author={Aa, A. and Bb, B. and Cc, C.}, year={2022}}\n"
    )
    domain = SimpleNamespace(
        labels={"fig01": ("one/a", "fig01", "Paper Fig. 1 · title")},
        anonlabels={"fig01": ("one/a", "fig01"), "plot": ("one/a", "plot")},
    )
    fignumbers = {"one/a": {"figure": {"plot": (2,)}}}
    env = SimpleNamespace(get_domain=lambda name: domain, toc_fignumbers=fignumbers)
    path = tmp_path / "a.ipynb"
    prose = (
        "(fig01)=\n# Title\n\n{cite:t}`many` and {cite:p}`solo,pair`; {ref}`fig01`, {ref}`that <fig01>`, "
        "{numref}`plot`, {math}`x`.\n\n:::{dropdown} More\n:open:\nInside.\n:::\n"
    )
    cells = [nbformat.v4.new_markdown_cell(prose), nbformat.v4.new_code_cell("x = '{cite}`solo`'")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    download.rewrite(path, download.Texts(env, tmp_path))
    first, install, text, code = json.loads(path.read_text())["cells"]
    assert "clone" in "".join(first["source"]) and "%pip install" in "".join(install["source"])
    assert "".join(text["source"]) == (
        "# Title\n\nAa et al. (2022) and (Anonymous, 2020; Aa and Bb, 2021); "
        "*Paper Fig. 1 · title* (page `one/a`), *that* (page `one/a`), Plot 2 (page `one/a`), {math}`x`.\n\n"
        "**More**\n\nInside.\n"
    )
    assert "{cite}" in "".join(code["source"])


@pytest.mark.parametrize("fork", [False, True])
def test_what_a_kernel_says_of_itself_reaches_no_reader(fork, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(kernels, "IMPORTS", ("ipykernel.kernelapp",))
    from nbclient import NotebookClient

    text = "import sys\nprint('a socket', file=sys.__stderr__, flush=True)\nprint('a cell', file=sys.stderr)"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text)])
    with kernels.forked({}) if fork else nullcontext() as manager, open(tmp_path / "said", "wb") as said:
        spoken = kernels.speaking_to(said, manager)
        NotebookClient(notebook, kernel_name="python3", kernel_manager_class=spoken).execute()
    assert "a cell" in "".join(output["text"] for output in notebook.cells[0].outputs)
    printed = capfd.readouterr()
    assert "socket" not in printed.err and not printed.out  # no advice on how to leave the kernel


def test_forked_kernels_run_code_and_end(monkeypatch):
    monkeypatch.setattr(kernels, "IMPORTS", ("ipykernel.kernelapp", "json"))
    from nbclient import NotebookClient

    with kernels.forked({}) as manager:
        if manager is None:
            pytest.skip("kernels are forked on Linux alone")
        ran = []
        for text in ("import os, json; print(os.getpid(), os.getppid())", "print(0, 0)"):
            notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text)])
            NotebookClient(notebook, kernel_name="python3", kernel_manager_class=manager).execute()
            ran.append([int(number) for number in notebook.cells[0].outputs[0]["text"].split()])
        assert ran[1] == [0, 0]
        kernel, server = ran[0]
        deadline = time.monotonic() + 10
        while alive(kernel) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not alive(kernel) and alive(server)
    assert not alive(server)


def alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_scorecard_says_what_chance_alone_would_decide():
    def one(values, **tags):
        return Claim.greater("c0", "claim 0", "Fig. 1", values).tagged(**tags)

    kept = [made(found=[replace(one([1.0, 1.1, 0.9, 1.0]), headline=True)])]
    open_ = [made(found=[replace(one([1.0, -1.1, 0.9, -0.8]), headline=True)]) for _ in range(3)]
    text = scorecard.write({"one": "Paper"}, [*kept, *open_])
    assert "4 verdicts rest on a t test at 95 %" in text and "about 0 would be decided" in text
    assert "4 main claims" in text and "1 are decided one by one, and 1 survive" in text
    assert "t test at 95" not in scorecard.write({"one": "Paper"}, [made(found=claims("holds"))])
