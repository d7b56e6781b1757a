"""Readings that were chosen after the first three seeds had been seen: judged on later seeds alone.

Of the paper's chapter on signal propagation; no torch.
"""

from alignbook.over_seeds import from_seed
from alignbook.statements import Requirement

SEEN = 3  # seeds 0 to 2 had been seen


def on_new(of):
    """The reading ``of`` on the seeds from ``SEEN`` on; as long as there are none, on all, to be shown."""

    def reading(table, parameters, **given):
        values = of(table, parameters, **given)
        new = None if values is None else from_seed(values, SEEN)
        return values if new is None or new.empty else new

    return reading


def enough_new(of):
    """The requirement that ``of`` has three new seeds: without them there is no verdict."""

    def count(table, parameters, **given):
        values = of(table, parameters, **given)
        return 0.0 if values is None else float(len(from_seed(values, SEEN)))

    return Requirement("seeds that had not been seen when this reading was chosen", count, at_least=3)
