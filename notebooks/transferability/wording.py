"""How the chapter's findings word a verdict, and the verdicts of a statement's cases. No torch."""

from collections import Counter

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED

SHORT = {  # of one more reading or condition
    HOLDS: "it holds",
    CONTRADICTED: "the opposite holds",
    ABSENT: "both are alike",
    UNDECIDED: "it is undecided",
    NOT_JUDGED: "it is not judged",
    NOT_RUN: "it was not measured",
}
_ORDER = (HOLDS, CONTRADICTED, ABSENT, UNDECIDED, NOT_JUDGED)


def verdicts(holds, contradicted, absent, whether):
    """{outcome: words} of a statement; ``whether`` ends a sentence on what is open."""
    return {
        HOLDS: holds,
        CONTRADICTED: contradicted,
        ABSENT: absent,
        UNDECIDED: f"It is undecided whether {whether}",
        NOT_JUDGED: f"We do not judge whether {whether}",
    }


def over_cases(claims, ids, said, cases="targets"):
    """A sentence without its full stop: what holds of how many cases, and how the others came out.

    claims : {id: Claim}; ids : of one statement's cases; said : {outcome: words}
    cases : how they are called. None where no case was measured.
    """
    counts = Counter(claims[id].outcome for id in ids)
    seen = next((one for one in _ORDER if counts[one]), None)
    if seen is None:
        return None
    count = counts.pop(seen)
    others = ", ".join(f"{number} {outcome}" for outcome, number in counts.items())
    return said[seen] + (f" on {count} of {len(ids)} {cases} ({others})" if others else "")
