"""Readings that were chosen when the first seeds had been seen: other seeds alone decide them."""

from alignbook.statements import Requirement


def chosen_later(seen, why):
    """What such a statement has beside its reading: ``seen`` seeds had been seen; ``why``, a line."""

    def new(table, parameters, **given):
        seeds = table["seed"].unique()
        return float((seeds >= seen).mean()) if len(seeds) else None

    text = "share of the runs made after the reading was chosen"
    return {"post_hoc": why, "requires": (Requirement(text, new, at_least=1.0),)}
