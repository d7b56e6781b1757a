"""The tasks that linear models learn, and where their weights are looked at (Figure 11)."""

TASKS = ("related", "unrelated")
REDUCTIONS = tuple(range(5, 100, 5))  # percent of the training loss at zero weights
