"""A page's first lines, its key numbers and the table of its claims."""

import base64
import re
from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest

from alignbook.errors import AlignbookError
from companion.claims import Claim, KeyNumber
from companion.pages.claim_tables import claim_cells, claims_table
from companion.pages.page import LARGEST, Page, address_of, in_the_paper
from companion.runs import notebooks


def claim(source, number=0):
    return Claim(f"c{number}", "A claim.", source, test="nothing was computed", group="Same.")


def test_a_claim_shows_what_a_reader_must_know_before_trusting_it():
    noted = replace(
        claim("Figure 1"), opposed_by="Figure 2", post_hoc="seen & chosen", matters=0.5, unit="points",
        because="it <b>", needed={"seeds": 7, "why": "W"}, runs="seeds = 9",
    )  # fmt: skip
    lines = claim_cells(noted)["Statement"].split("<br>")
    assert "†" in lines[0] and [re.sub("<[^>]*>", "", line) for line in lines[1:]] == [
        "The paper also says the opposite: Figure 2.",
        "Smallest effect that matters: 0.5 points, it &lt;b&gt;.",
        "On runs planned for it: seeds = 9.",
        "7 new seeds would decide it.",
    ]
    assert "† chosen after" in claims_table([noted]) and "†" not in claims_table([claim("Figure 1")])


def test_the_papers_own_figure_is_one_click_away_at_its_page():
    for notebook in notebooks.every():
        shown, pdf = in_the_paper(notebook), address_of(notebook.paper, "pdf")
        assert notebook.paper == notebooks.OWN or pdf.startswith("https://")
        assert notebook.label in shown
        place = f"#page={page}" if (page := notebook.front.get("paper_page")) else ""
        assert (f'href="{pdf}{place}"' in shown) == (notebook.paper != notebooks.OWN)


def test_a_key_number_has_its_interval_and_the_papers_value_beside_it():
    page = Page.__new__(Page)
    page.judged = SimpleNamespace(key_numbers=[KeyNumber("gain (points)", 7.1, 8.0, (6.0, 8.2))])
    assert re.findall(r"<td[^>]*>(.*?)</td>", page.key_numbers().data) == [
        "gain (points)", "8", "7.1 <small>(6.0 to 8.2)</small>",
    ]  # fmt: skip


def test_the_data_of_a_figure_is_a_file_in_the_page():
    page = Page.__new__(Page)
    page.notebook = notebooks.find("signal_propagation/cor01_equilibrium")
    frame = pd.DataFrame({"x": [1, 2], "y": [0.123456789, 2.0]})
    link = page.data(frame).data
    text = base64.b64decode(re.search(r"base64,([^\"]*)", link)[1]).decode()
    assert text == "x,y\n1,0.123457\n2,2\n" and 'download="signal_propagation-cor01_equilibrium-' in link
    with pytest.raises(AlignbookError, match="bytes of data, at most"):
        page.data(pd.DataFrame({"x": range(LARGEST // 4)}))


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
