"""How verdicts of several cases are said."""

import pytest

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED, Claim
from alignbook.studies.transferability.wording import over_cases, verdicts

SAID = verdicts("It does", "It does not", "It is the same", "it does")


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ([HOLDS, HOLDS], "It does"),
        ([UNDECIDED, HOLDS, CONTRADICTED], "It does on 1 of 3 targets (1 undecided, 1 contradicted)"),
        ([UNDECIDED, CONTRADICTED], "It does not on 1 of 2 targets (1 undecided)"),
        ([ABSENT, NOT_JUDGED], "It is the same on 1 of 2 targets (1 not judged)"),
        ([UNDECIDED], "It is undecided whether it does"),
        ([NOT_JUDGED], "We do not judge whether it does"),
        ([NOT_RUN], None),
    ],
)
def test_no_case_hides_the_others(outcomes, said):
    claims = {
        str(place): Claim("", "", "", None, None, None, None, outcome, 3, "")
        for place, outcome in enumerate(outcomes)
    }
    assert over_cases(claims | {"another": None}, list(claims), SAID) == said
