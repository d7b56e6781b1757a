"""How findings follow verdicts: words for each outcome, and of how many cases it is said. No torch."""

from collections import Counter

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED

LONGEST = 300  # characters of a finding
_ORDER = (HOLDS, CONTRADICTED, ABSENT, UNDECIDED, NOT_JUDGED)


def digits(value):
    """Three significant digits of a number, or all of a whole number of thousands."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


def by_verdict(holds, contradicted, absent, whether=None, *, undecided=None, not_judged=None):
    """{outcome: what a finding says of it}; of a claim that was not run it has nothing to say.

    whether : what follows *whether* where the verdict is open, in place of ``undecided`` and ``not_judged``
    """
    if whether is not None:
        undecided = undecided or f"It is undecided whether {whether}"
        not_judged = not_judged or f"We do not judge whether {whether}"
    return dict(zip(_ORDER, (holds, contradicted, absent, undecided, not_judged), strict=True))


def opening(claim, holds, *, contradicted, absent):
    """The start of a finding that follows the verdict on ``claim``, or None where nothing was measured.

    holds, contradicted, absent : a sentence each, without its full stop; of ``holds`` the other two outcomes
    are made, so it begins with a word that is written small within a sentence
    """
    words = by_verdict(holds, contradicted, absent, holds[0].lower() + holds[1:])
    return words.get(claim.outcome)


def fitting(*findings):
    """The first of several findings, from the longest on, that is at most ``LONGEST``; else the last."""
    return next((text for text in findings if len(text) <= LONGEST), findings[-1])


def joined(sentence, *more):
    """Sentences without their full stops, joined by semicolons; those that are empty or None are left out."""
    return "; ".join((sentence, *(f"{one[0].lower()}{one[1:]}" for one in more if one)))


def sentences(first, *more):
    """``first`` and, of those that are neither empty nor None, a second sentence; with their full stops.

    first, more : without their full stops; several in the second sentence are joined by semicolons
    """
    more = [one for one in more if one]
    if not more:
        return f"{first}."
    second = joined(*more)
    return f"{first}. {second[0].upper()}{second[1:]}."


def weaker(*claims):
    """The outcome of several claims that a sentence joins by *and*: that of the one that shows it least."""
    order = (NOT_RUN, NOT_JUDGED, CONTRADICTED, ABSENT, UNDECIDED, HOLDS)
    return min((claim.outcome for claim in claims), key=order.index)


# Replicates beside the one that a sentence is about.

IT = by_verdict(
    "it holds", "the opposite holds", "it is too small to matter", undecided="it is undecided",
    not_judged="it is not judged",
)  # fmt: skip
OTHERWISE = {
    CONTRADICTED: "the opposite",
    ABSENT: "too little to matter",
    UNDECIDED: "undecided",
    NOT_JUDGED: "not judged",
    NOT_RUN: "not measured",
}


def others(outcome, beside, says=IT):
    """``; with real labels it is undecided``: of replicates those whose verdict differs from ``outcome``.

    beside : {what a sentence calls the replicate: its verdict}; says : {verdict: what is said of it}
    """
    return "".join(
        f"; with {words} {says[found]}"
        for words, found in beside.items()
        if found != outcome and found in says
    )


def over_cases(claims, ids, said, cases="on {} targets"):
    """A sentence without its full stop: what holds of how many cases, and how the others came out.

    claims : {id: Claim}; ids : of one statement's cases; said : {outcome: words}
    cases : how they are called, with ``{}`` for how many. None where no case was measured.
    """
    counts = Counter(claims[id].outcome for id in ids)
    seen = next((one for one in _ORDER if counts[one]), None)
    if seen is None:
        return None
    count = counts.pop(seen)
    if not counts:
        return said[seen]
    rest = f"{'the other' if len(ids) - count == 1 else 'the others'} {either(counts)}"
    return f"{said[seen]} {cases.format(f'{count} of {len(ids)}')} ({rest})"


def either(outcomes):
    """``contradicted, undecided or not judged``: the outcomes in the order of their strength."""
    *most, final = sorted(outcomes, key=(*_ORDER, NOT_RUN).index)
    return f"{', '.join(most)} or {final}" if most else final


def held(outcomes, noun, most=1):
    """``50 of 51 settings (undecided: MNIST)``: in how many a statement holds, and how the others came out.

    outcomes : {name: outcome}, at least one; noun : a plural; of the others ``most`` are named per outcome
    """
    count, rest = len(outcomes), {name: one for name, one in outcomes.items() if one != HOLDS}
    if not rest:
        return f"{'both' if count == 2 else f'all {count}'} {noun}"
    if len(rest) == count and len(set(rest.values())) == 1:
        return f"none of {count} {noun} ({OTHERWISE[next(iter(rest.values()))]} in all)"
    words = {outcome: f"{word}: {{}}" for outcome, word in OTHERWISE.items()}
    return f"{count - len(rest) or 'none'} of {count} {noun} ({grouped(rest, words, most)})"


def grouped(outcomes, words, most=2):
    """``on MNIST and CIFAR-10, not on CT Position``: names by outcome, in the order of their first.

    outcomes : {name: outcome}; words : {outcome: text, {} for the names}, which beyond ``most`` are counted
    """
    found = {}
    for name, outcome in outcomes.items():
        found.setdefault(outcome, []).append(name)
    return ", ".join(words[outcome].format(_at_most(names, most)) for outcome, names in found.items())


def _at_most(names, most):
    if len(names) <= most:
        return listed(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


# The replicates of a statement, found by its id.


def replicates(claims, id):
    """{outcome: [claims]} of the replicates of statement ``id`` that were run.

    claims : {id: Claim}, as a finding is given them; of a statement without replicates its one claim
    """
    found = {}
    for name, claim in claims.items():
        if (name == id or name.startswith(f"{id}-")) and claim.outcome != NOT_RUN:
            found.setdefault(claim.outcome, []).append(claim)
    return found


def clauses(claims, id, says, place=None):
    """What ``says`` has for each verdict on a statement's replicates, joined by semicolons; "" of none.

    says : {outcome: a clause with {} for where}, in the order in which they are said
    place : (claims, how many there are in all) → where, with a space before it; default :func:`counted`
    """
    found, place = replicates(claims, id), place or counted
    total = sum(map(len, found.values()))
    return "; ".join(clause.format(place(found[o], total)) for o, clause in says.items() if o in found)


def counted(claims, total):
    """`` in 2 of 5 settings``, `` in all 5 settings``; nothing where there is only one."""
    if total == 1:
        return ""
    return f" in all {total} settings" if len(claims) == total else f" in {len(claims)} of {total} settings"


def named(claims, total=None):
    """`` on MNIST and CIFAR-10``, by what stands in the parentheses of the claims' sentences."""
    return f" on {listed(claim.case for claim in claims)}"


def together(pairs):
    """{kinds, a tuple: names} of pairs (name, kind): names that have the same kinds, both in their order."""
    kinds, names = {}, {}
    for name, kind in pairs:
        kinds.setdefault(name, []).append(kind)
    for name, found in kinds.items():
        names.setdefault(tuple(found), []).append(name)
    return names


def unmet(claim):
    """The texts of the requirements that ``claim`` does not meet, in their order, a list."""
    return [need["text"] for need in claim.requires if not need["met"]]


def first_unmet(claim, words, otherwise=None):
    """What is said of the first requirement that ``claim`` does not meet.

    words : {text of a requirement: what is said}, in the order that counts
    otherwise : said where all are met, as they may be at profile smoke; None: the claim's own reason
    """
    texts, otherwise = unmet(claim), claim.test if otherwise is None else otherwise
    return next((said for text, said in words.items() if text in texts), otherwise)


def listed(words):
    """``a, b and c``."""
    *most, final = words
    return f"{', '.join(most)} and {final}" if most else final
