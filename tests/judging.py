"""What the tests of a study ask of its reading: claims, their outcomes and the finding on a table."""

from alignbook.statements import judged


def of(reading, parameters):
    """``claims(table)``, {id: Claim}; ``outcomes(table)``, {id: outcome}; ``said(table)``, the finding."""

    def claims(table):
        return {claim.id: claim for claim in judged(reading.STATEMENTS, table, parameters)}

    def outcomes(table):
        return {id: claim.outcome for id, claim in claims(table).items()}

    def said(table):
        return reading.finding(table, parameters, claims(table))

    return claims, outcomes, said
