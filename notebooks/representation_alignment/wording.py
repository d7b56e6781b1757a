"""How findings of this chapter begin, and how they name what came out otherwise."""

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED


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
