"""How the findings of this chapter follow the verdicts on the replicates of a statement. No torch."""

from alignbook.claims import NOT_RUN


def verdicts(claims, id):
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
    found, place = verdicts(claims, id), place or counted
    total = sum(map(len, found.values()))
    return "; ".join(clause.format(place(found[o], total)) for o, clause in says.items() if o in found)


def counted(claims, total):
    """`` in 2 of 5 settings``, `` in all 5 settings``; nothing where there is only one."""
    if total == 1:
        return ""
    return f" in all {total} settings" if len(claims) == total else f" in {len(claims)} of {total} settings"


def named(claims, total=None):
    """`` on MNIST and CIFAR-10``, by what stands in the parentheses of the claims' sentences."""
    return f" on {listed(case_of(claim) for claim in claims)}"


def case_of(claim):
    """Which replicate a claim is, as its sentence says at its end."""
    return claim.statement.removeprefix(f"{claim.group} (").removesuffix(")")


def listed(words):
    """``a, b and c``."""
    *most, final = words
    return f"{', '.join(most)} and {final}" if most else final
