"""What the studies of peaks functions share: tasks, representations, normalisations (Section 7.1)."""

TASKS = ("source", "related", "unrelated")
REPRESENTATIONS = ("original", "init", "transfer")

# What is scaled to length one, and whether a constant feature stands for the bias unit.
NORMALISATIONS = ("constant, then length one", "length one, then constant", "no constant")
