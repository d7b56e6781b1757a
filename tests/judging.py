"""What the tests of a study ask of its statements on a table."""

from companion.statements import judged


def of(reading, parameters):
    """``claims(table)``, {id: Claim}, and ``outcomes(table)``, {id: outcome}.

    Each takes other values of some parameters by name.
    """

    def claims(table, **other):
        return {claim.id: claim for claim in judged(reading.STATEMENTS, table, parameters | other)}

    def outcomes(table, **other):
        return {id: claim.outcome for id, claim in claims(table, **other).items()}

    return claims, outcomes
