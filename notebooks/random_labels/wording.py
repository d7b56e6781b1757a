"""How a finding is worded: one clause for each verdict."""

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED


def by_verdict(*, holds, contradicted, absent, undecided, not_judged):
    """{verdict: what a finding says of it}; of a claim that was not run it has nothing to say."""
    return {
        HOLDS: holds, CONTRADICTED: contradicted, ABSENT: absent, UNDECIDED: undecided, NOT_JUDGED: not_judged
    }  # fmt: skip
