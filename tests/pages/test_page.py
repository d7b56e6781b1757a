"""The table of claims."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from alignbook.claims import HOLDS, NOT_JUDGED, Claim, KeyNumber
from alignbook.over_seeds import SEED
from alignbook.pages.claim_tables import (
    SHARED,
    UNFOLDED,
    by_ours,
    claim_cells,
    claims_table,
    decides,
    sources,
    spread,
)
from alignbook.pages.page import Page, address_of, banner, in_the_paper, parted
from alignbook.runs import notebooks, parameters, plans
from alignbook.statements import Requirement


def claim(source, number=0):
    return Claim.missing(f"c{number}", "A claim.", source, "nothing was computed").tagged("Same.")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (["Section 7.1, Figure 1 (a)", "Section 7.1, Figure 1 (c)"], "Section 7.1|Figure 1 (a)|Figure 1 (c)"),
        (["Figure 10 (a)", "Figure 10 (a), Section 5"], "Figure 10 (a)|Section 5"),
        (["Figures 13 (c, d) and 20 (b, c)"] * 2, "Figures 13 (c, d) and 20 (b, c)"),
        (["Figures 1, 2 and 7, Section 2.3", "Section 2.3"], "Figures 1, 2 and 7|Section 2.3"),
    ],
)  # fmt: skip
def test_every_source_once(given, shown):
    assert sources([claim(source) for source in given]) == shown.split("|")


def test_many_replicates_are_folded_even_those_of_the_headline():
    group = [claim("Figure 1", number) for number in range(UNFOLDED + 1)]
    group[0] = replace(group[0], headline=True)
    assert "<details" in claims_table(group)
    few = claims_table(group[:-1])
    assert few.count(" open>") == 1 and " open>" not in claims_table(group)
    assert " open>" not in claims_table(group[1:3])
    assert "Headline" in claims_table(group).partition("<details")[0]
    assert "Headline" not in few.partition("<details")[0]  # its case has it, which is in sight


@pytest.mark.parametrize(
    ("need", "said"),
    [
        ({"seeds": 12, "why": "W", "core_hours": 2.345}, "12 new seeds would decide it, 2.3 core hours (W)."),
        ({"seeds": 12, "why": "W", "core_hours": 0.04}, "12 new seeds would decide it, 0.04 core hours (W)."),
        ({"seeds": 12, "why": "W", "core_hours": 99.0}, "12 new seeds would decide it, 99.0 core hours (W)."),
        ({"seeds": 12, "why": "W", "core_hours": None}, "12 new seeds would decide it (W)."),
        ({"seeds": 12, "why": "W"}, "12 new seeds would decide it (W)."),
        ({"seeds": None, "why": "one seed has no spread", "core_hours": None},
         "No number of seeds is planned: one seed has no spread."),
    ],
)  # fmt: skip
def test_what_would_decide_is_one_sentence(need, said):
    assert decides(replace(claim("Figure 1"), needed=need)) == said
    other = replace(claim("Figure 1"), needed=need, what="group")
    assert decides(other) == said.replace("seeds", "groups")


def checked(text, value, **given):
    """A condition as it is checked, with this value."""
    return Requirement(text, lambda table, parameters: value, **given).check(None, {}, {})


def test_a_claim_shows_what_a_reader_must_know_before_trusting_it():
    met = checked("labels learned", 0.991, at_least=0.99)
    unmet = checked("test accuracy", 0.5, at_least=0.9, because="The paper has 0.95")
    unmeasured = checked("gradient <g>", None, at_most=1)
    noted = replace(
        claim("Figure 1"), requires=(met, unmet, unmeasured), opposed_by="Figure 2", post_hoc="seen & chosen",
        needed={"seeds": 7, "why": "W"},
    )  # fmt: skip
    shown = claim_cells(noted)["Claim"]
    lines = [line.removeprefix("<small>").removesuffix("</small>") for line in shown.split("<br>")[1:]]
    assert lines == [
        "Condition: labels learned, at least 0.99; here 0.991",
        "Condition: test accuracy, at least 0.9; here 0.5, not met. The paper has 0.95",
        "Condition: gradient &lt;g&gt;, at most 1; not measured",
        "The paper also says the opposite: Figure 2",
        "Post hoc: seen &amp; chosen",
        "7 new seeds would decide it (W).",
    ]
    assert "<br>" not in claim_cells(claim("Figure 1"))["Claim"]


def test_what_all_replicates_are_read_with_stands_once_and_is_not_lost():
    group = [replace(claim("Figure 1", number), post_hoc="seen before") for number in range(3)]
    group[1] = replace(group[1], opposed_by="Figure 2")
    text = claims_table(group)
    met = checked("labels learned", 1.0, at_least=1)
    for other, said in ((met, 1), (met | {"measured": 3.0}, 2)):
        turned = [replace(one, requires=(need,)) for one, need in zip(group, (met, met, other), strict=True)]
        shown = claims_table(turned)
        assert shown.count("labels learned, at least 1") == 1 and shown.count("ere 1") == said
    text = claims_table(group)
    assert text.count("Post hoc: seen before") == 1 and text.count("the opposite: Figure 2") == 1
    assert text.index("seen before") < text.index("<details") < text.index("Figure 2")


def test_what_many_statements_are_read_with_stands_above_them_under_a_letter():
    met = checked("labels learned", 1.0, at_least=1)
    unmet = met | {"text": "test accuracy", "measured": 0.5, "met": False}
    alone = Claim.missing("c", "A claim.", "Figure 1", "nothing was computed")
    many = [replace(alone, id=f"c{n}", requires=(met, unmet), post_hoc="seen") for n in range(SHARED)]
    above, rows = claims_table(many).split("<table", 1)
    assert above.count("Condition a: labels learned, at least 1; here 1.") == 1
    assert above.count("Condition b: test accuracy, at least 1; here 0.5, not met.") == 1
    assert above.count("Post hoc c: seen.") == 1
    assert rows.count("Condition a; condition b, not met; post hoc c") == SHARED and "learned" not in rows
    other = replace(many[0], requires=({**met, "measured": 2.0}, unmet))
    above, rows = claims_table([other, *many[1:]]).split("<table", 1)
    assert "labels learned, at least 1." in above and "here 1" not in above
    assert "Condition a: here 2; condition b, not met" in rows and rows.count("Condition a: here 1;") == 2
    few = claims_table(many[1:])
    assert few.count("Post hoc: seen") == SHARED - 1 and "Post hoc c" not in few


def test_a_criterion_of_ours_is_named_only_where_it_decided_something():
    ours = [replace(claim("Figure 1", n), ours=True) for n in range(2)]
    assert not by_ours(ours) and not by_ours([replace(ours[0], outcome=NOT_JUDGED)])
    held = [replace(one, outcome=HOLDS) for one in ours]
    assert (
        by_ours(held) and by_ours([held[0], ours[1]]) and not by_ours([held[0], replace(held[1], ours=False)])
    )
    assert "own criterion" in spread(held) and "own criterion" not in spread(ours)


def test_every_paper_is_one_click_away():
    papers = {notebook.paper for notebook in notebooks.every()} - {notebooks.OWN}
    assert all(address_of(paper).startswith("https://") for paper in papers) and len(papers) == 4
    assert address_of("no chapter") is None


def test_the_papers_own_figure_is_one_click_away_at_its_page():
    for notebook in notebooks.every():
        shown, pdf = in_the_paper(notebook), address_of(notebook.paper, "pdf")
        if notebook.paper == notebooks.OWN:
            assert shown == "" and notebook.paper_page is None
        elif notebook.paper_page:
            assert f'href="{pdf}#page={notebook.paper_page}"' in shown
            assert f"in the PDF, page {notebook.paper_page}</a>" in shown
        else:
            assert f'href="{pdf}"' in shown and pdf and "in the PDF</a>" in shown
    # The only paper whose text, as we have it, says where its pages end.
    of_iclr = [notebook for notebook in notebooks.every() if notebook.paper == "transferability"]
    assert all(1 <= notebook.paper_page <= 26 for notebook in of_iclr)
    (fig03,) = [notebook for notebook in of_iclr if notebook.slug == "fig03_flat_minima"]
    assert ">Fig. 3 in the PDF, page 4</a>" in in_the_paper(fig03)


def test_a_column_of_numbers_that_a_paper_does_not_print_is_left_out():
    page = Page.__new__(Page)
    for papers, columns in (((None, None), ["Number", "Here"]), ((None, 2.0), ["Number", "Paper", "Here"])):
        keys = [KeyNumber(f"number {n}", 1.0, paper) for n, paper in enumerate(papers)]
        page.run = SimpleNamespace(key_numbers=keys, judged_table=[], table=[])
        shown = page.key_numbers().data
        assert re.findall("<th>(.*?)</th>", shown) == columns
        assert shown.count("not stated") == ("Paper" in columns)


def test_a_complete_plan_stands_on_its_page_and_not_at_toy_size():
    page = Page.__new__(Page)
    page.notebook = notebooks.find("signal_propagation/fig06_collinearity")
    page.run = SimpleNamespace(near="quick", parameters=parameters.resolve(page.notebook, "quick"))
    shown = page.planned().data
    assert "initial_networks = <code>123</code>" in shown and "id=" not in shown
    assert shown.count(" open>") == 1
    assert shown.count("ab-outcome") == 2 + 2  # two replicates, and their tally
    plan = next(plan for plan in plans.of(page.notebook.name) if plan.values["initial_networks"] == 123)
    page.run = SimpleNamespace(near="quick", parameters=plan.values)
    assert page.planned().data == ""  # its runs are those of the page
    page.run = SimpleNamespace(near="smoke", parameters={})
    assert page.planned().data == ""


def test_a_verdict_names_the_one_case_that_differs():
    group = [claim("Figure 1", number) for number in range(3)]
    named = [
        replace(one, statement=f"Same ({name}).", group="Same.", outcome=outcome)
        for one, name, outcome in zip(
            group, ("MNIST", "digits", "CIFAR-10"), "holds holds absent".split(), strict=True
        )
    ]
    shown = spread(named)
    assert "holds</span> <small>(MNIST, digits)</small>, " in shown
    assert shown.endswith("absent</span><small>, too small to matter</small> <small>(CIFAR-10)</small>")
    assert "(" not in spread(named[:2])
    again = replace(named[0], statement="Other (CIFAR-10).", group="Other.")
    assert "(" not in spread([*named[1:], again])  # which of the two is absent?


@pytest.mark.parametrize(
    ("name", "changed", "said"),
    [
        ("signal_propagation/fig02_hierarchy", {}, "where it states them, but fewer data sets<"),
        ("signal_propagation/fig02_hierarchy", {"epochs": 3}, "smaller than the paper&#x27;s<"),
        ("synthesis/one_network", {}, "settings: ours, since there is no paper<"),
        ("representation_alignment/fig13_pretrained", {}, "where it states them, with another network<"),
        ("transferability/fig03_flat_minima", {"seeds": 3, "settled_seeds": 33}, "3 to 33 seeds"),
        ("transferability/fig03_flat_minima", {"seeds": 3, "settled_seeds": 0}, "<span>3 seeds</span>"),
    ],
)
def test_the_banner_says_what_is_smaller_and_how_many_seeds_there_are(name, changed, said):
    values = parameters.resolve(notebooks.find(name), "quick", changed)
    run = SimpleNamespace(
        name=name, profile="quick", shown_profile="quick", parameters=values, stored=[], shown=[], stale={},
        joined=[], diverged=[], claims=[],
    )  # fmt: skip
    assert said in banner(run)


def test_the_banner_counts_the_seeds_of_planned_runs_that_judge():
    values = parameters.resolve(notebooks.find("transferability/fig09_pretraining_epochs"), "quick")
    planned = SimpleNamespace(runs="seeds = 20", what=SEED, seeds=20)
    claims = [planned, SimpleNamespace(runs="", what=SEED, seeds=99)]
    claims += [SimpleNamespace(runs="epochs = 9", what="group", seeds=50)]
    run = SimpleNamespace(
        name="transferability/fig09_pretraining_epochs", profile="quick", shown_profile="quick",
        parameters=values, stored=[], shown=[], stale={}, joined=[], diverged=[], claims=claims,
    )  # fmt: skip
    assert f"{values['seeds']} to 20 seeds" in banner(run)


def test_the_caveat_of_a_finding_stands_apart():
    assert parted("It grows by 0.5. Our network is small.") == (
        'It grows by 0.5. <span class="ab-caveat">Our network is small.</span>'
    )
    assert parted("It grows.") == "It grows."


@pytest.mark.parametrize(
    ("value", "paper", "margin", "shown"),
    [
        (60.1518, 60.15, 0.04, "60.15"),
        (60.1518, 60.15, 0.1, "60.2"),
        (0.5441, 0.6, 0.2, "0.544"),
        (2.0, 1.0, 1e-6, "2"),
    ],
)
def test_a_number_has_the_digits_that_tell_whether_it_is_within_the_margin(value, paper, margin, shown):
    one = Claim.computed("a", "It is so.", "Table 2", value, paper, margin)
    assert claim_cells(one)["Here"] == shown
