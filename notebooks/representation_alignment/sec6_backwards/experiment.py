"""The stored runs of Figures 1 and 13, read once more: nothing is computed for this page alone (Section 6).

Both have alignment curves of several representations and the learning curves of linear models on them.
"""

from companion.runs import notebooks, parameters

FIGURES = ("fig01_three_representations", "fig13_pretrained")


def jobs(given):
    """The jobs of both figures at one of their profiles, as many seeds as asked for."""
    found = []
    for figure in FIGURES:
        study = notebooks.find(f"representation_alignment/{figure}")
        values = parameters.resolve(study, given["profile"])
        values["seeds"] = min(values["seeds"], given["seeds"])
        found += study.experiment.jobs(values)
    return found
