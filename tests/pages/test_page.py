"""The table of claims."""

from dataclasses import replace

import pytest

from alignbook.claims import Claim
from alignbook.pages.page import UNFOLDED, claims_table, sources


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
