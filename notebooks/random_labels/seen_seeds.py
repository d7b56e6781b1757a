"""Readings that were chosen when the first seeds had been seen: they are judged on other seeds alone."""

from alignbook.statements import Requirement

WIDTH, SEEDS = 8, (0, 1, 2)  # the runs that had been seen, of profile quick


def chosen_on(what):
    """The requirement that no seed on which ``what`` was chosen is among those judged.

    what : words, e.g. ``step 64``. Networks of another width than the page's were not seen.
    """

    def count(table, parameters, **given):
        if parameters["width"] != WIDTH or "seed" not in table:
            return 0
        return len(set(table["seed"]) & set(SEEDS))

    return Requirement(f"seeds among these on which {what} was chosen", count, at_most=0)
