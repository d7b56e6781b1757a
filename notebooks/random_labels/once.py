"""What is measured of a table once, although every statement, the finding and the page ask for it."""

import functools
import weakref


def once(measure):
    """``measure(table, *more)``, kept until it is asked of another table: nobody changes one in between."""
    kept = {"table": lambda: None}

    @functools.wraps(measure)
    def found(table, *more):
        if kept["table"]() is not table:
            kept.clear()
            kept["table"] = weakref.ref(table)
        if more not in kept:
            kept[more] = measure(table, *more)
        return kept[more]

    return found
