"""The words that this chapter's findings share follow every verdict and name its replicates."""

import re

from alignbook import paths
from alignbook.claims import CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED, Claim
from alignbook.studies.signal_propagation.wording import clauses, listed, named, verdicts

SAYS = {HOLDS: "it grows{}", CONTRADICTED: "it shrinks{}", UNDECIDED: "who knows{}"}


def replicates(**outcomes):
    made = {}
    for name, outcome in outcomes.items():
        claim = Claim.missing(f"grows-{name}", f"It grows. (set {name})", "", "").tagged(group="It grows.")
        made[claim.id] = Claim(**claim.as_dict() | {"outcome": outcome})
    return made


def test_clauses_say_each_verdict_and_where():
    one, both = replicates(a=HOLDS, x=NOT_RUN), replicates(a=UNDECIDED, b=HOLDS, c=HOLDS)
    assert clauses(one, "grows", SAYS) == "it grows"
    assert clauses(replicates(a=HOLDS, b=HOLDS), "grows", SAYS) == "it grows in all 2 settings"
    assert clauses(both, "grows", SAYS) == "it grows in 2 of 3 settings; who knows in 1 of 3 settings"
    assert clauses(both, "grows", SAYS, named) == "it grows on set b and set c; who knows on set a"
    assert clauses({}, "grows", SAYS) == clauses(replicates(x=NOT_RUN), "grows", SAYS) == ""


def test_verdicts_are_those_of_one_statement():
    claims = replicates(a=HOLDS, b=NOT_JUDGED) | {"growsome": replicates(a=HOLDS)["grows-a"]}
    found = verdicts(claims, "grows")
    assert {outcome: len(kept) for outcome, kept in found.items()} == {HOLDS: 1, NOT_JUDGED: 1}


def test_lists():
    assert [listed(words) for words in ("a", "ab", "abc")] == ["a", "a and b", "a, b and c"]


def test_no_role_stands_within_an_equation():
    """MyST sets ``{numref}`` and its like only outside of mathematics; in an equation they are shown raw."""
    for page in (paths.root() / "notebooks" / "signal_propagation").glob("*/notebook.md"):
        equations = re.findall(r"\$\$.*?\$\$", page.read_text(), re.DOTALL)
        assert not [math for math in equations if re.search(r"\{\w+\}`", math)], page


def test_no_panel_of_ours_is_titled_as_the_papers():
    """``MNIST (paper, 3 seeds)`` beside a column ``paper`` would read as the authors' data."""
    text = (paths.root() / "notebooks/signal_propagation/fig03_peak_law/notebook.md").read_text()
    assert "'full size' if" in text and "'paper' if" not in text
