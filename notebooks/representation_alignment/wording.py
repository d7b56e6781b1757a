"""How findings of this chapter begin, and how they name what came out otherwise."""

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED


def opening(claim, holds, *, contradicted, absent):
    """The start of a finding that follows the verdict on ``claim``, or None where nothing was measured.

    holds, contradicted, absent : a sentence each, without its full stop; of ``holds`` the other two outcomes
    are made, so it begins with a word that is written small within a sentence
    """
    inner = holds[0].lower() + holds[1:]
    words = {
        HOLDS: holds,
        CONTRADICTED: contradicted,
        ABSENT: absent,
        UNDECIDED: f"It is undecided whether {inner}",
        NOT_JUDGED: f"These runs cannot decide whether {inner}",
    }
    return words.get(claim.outcome)


def grouped(outcomes, words, most=2):
    """``on MNIST and CIFAR-10, not on CT Position``: names by outcome, in the order of their first.

    outcomes : {name: outcome}; words : {outcome: text, {} for the names}, which beyond ``most`` are counted
    """
    found = {}
    for name, outcome in outcomes.items():
        found.setdefault(outcome, []).append(name)
    return ", ".join(words[outcome].format(_joined(names, most)) for outcome, names in found.items())


def _joined(names, most):
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join if more else " and ".join)(names[:most]) + more


def weaker(*claims):
    """The outcome of several claims that a sentence joins by *and*: that of the one that shows it least."""
    order = (NOT_RUN, NOT_JUDGED, CONTRADICTED, ABSENT, UNDECIDED, HOLDS)
    return min((claim.outcome for claim in claims), key=order.index)


OTHERWISE = {
    CONTRADICTED: "the opposite",
    ABSENT: "too little to matter",
    UNDECIDED: "undecided",
    NOT_JUDGED: "not judged",
    NOT_RUN: "not measured",
}


def held(outcomes, noun, most=1):
    """``50 of 51 settings (undecided: MNIST)``: in how many a statement holds, and how the others came out.

    outcomes : {name: outcome}, at least one; noun : a plural; of the others ``most`` are named per outcome
    """
    count, others = len(outcomes), {name: one for name, one in outcomes.items() if one != HOLDS}
    if not others:
        return f"{'both' if count == 2 else f'all {count}'} {noun}"
    if len(others) == count and len(set(others.values())) == 1:
        return f"none of {count} {noun} ({OTHERWISE[next(iter(others.values()))]} in all)"
    words = {outcome: f"{word}: {{}}" for outcome, word in OTHERWISE.items()}
    return f"{count - len(others) or 'none'} of {count} {noun} ({grouped(others, words, most)})"
