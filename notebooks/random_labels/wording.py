"""How a finding is worded: one clause for each verdict."""

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED


def by_verdict(*, holds, contradicted, absent, undecided, not_judged):
    """{verdict: what a finding says of it}; of a claim that was not run it has nothing to say."""
    return {
        HOLDS: holds, CONTRADICTED: contradicted, ABSENT: absent, UNDECIDED: undecided, NOT_JUDGED: not_judged
    }  # fmt: skip


IT = by_verdict(
    holds="it holds", contradicted="it is contradicted", absent="it is too small to matter",
    undecided="it is undecided", not_judged="it is not judged",
)  # fmt: skip


def others(outcome, beside):
    """`` With real labels it is undecided.``: of replicates those whose verdict differs from ``outcome``.

    beside : {what a sentence calls the replicate: its verdict}
    """
    return "".join(
        f" With {words} {IT[found]}." for words, found in beside.items() if found != outcome and found in IT
    )
