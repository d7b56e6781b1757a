"""How the eigenvectors of trained filters match those of image patches (Figure 3): measures, statements."""

from pathlib import Path

import numpy as np
import pandas as pd

from companion.over_seeds import difference
from companion.statements import Case, Number, Statement

from .eigenvectors import SHOWN, by_group, of_all

# Table D.1, right: σ_i² and |⟨e_i, e_i'⟩| of two groups of 30 networks.
PRINTED = pd.read_csv(Path(__file__).with_name("printed.csv"), index_col="index")


def of_groups(measure):
    """Reading: ``measure`` of the table of groups; None where it lacks what that takes."""

    def values(table, parameters):
        found = by_group(table, parameters["groups"]).rename_axis("group")
        return measure(found) if len(found) else None

    return values


def pooled(name):
    """Reading: a number of :func:`of_all`, None without results."""
    return lambda table, parameters: of_all(table).get(name)


def beyond_sampling(table, parameters):
    """ln of all runs' misalignment over that of filters that are aligned but for sampling."""
    found = of_all(table)
    return np.log(found["misalignment"] / found["flipped"]) if found else None


STATEMENTS = [
    Statement(
        "matched", "More of the ten leading eigenvectors of Σ_w match those of Σ_x than match random ones.",
        source="Figure 3", of=of_groups(lambda found: difference(found["matched"], found["chance"])),
        above=0, matters=1.0, unit="of ten eigenvectors", headline=True,
        because="one eigenvector is the smallest number that can match",
    ),
    Statement(
        "one-or-two", "With all runs pooled, all ten match one eigenvector of Σ_x or two.", source="Figure 3",
        of=pooled("few"), exactly=SHOWN, within=0.0, unit="of ten eigenvectors",
    ),
    Statement(
        "aligned", "Σ_w is less misaligned with Σ_x than with any of 100 random bases (difference of ln).",
        source="Section 2.2", of=of_groups(lambda found: np.log(found["least"] / found["misalignment"])),
        above=0, matters=0.1, unit="in ln", because="random bases differ by more than a tenth",
    ),
    Statement(
        "sampling", "What is left of the misalignment is sampling noise (ln of their ratio, runs pooled).",
        source="Appendix D.1", of=beyond_sampling, exactly=0.0, within=0.1, unit="in ln", ours=True,
        post_hoc="chosen when the correlation of two components had been seen",
    ),
    Statement(
        "leading-measured",
        "Only the leading eigenvectors of Σ_w are measured well: agreement of halves, 1–3 minus 10–12.",
        source="Appendix D.1", of=of_groups(lambda found: difference(found["first"], found["last"])),
        above=0, matters=0.05, unit="of |cosine|", because="a twentieth of the range from 0 to 1",
    ),
]  # fmt: skip
NUMBERS = [
    Number(
        "pooled", "misalignment of all filters", lambda t, p, name: [of_all(t)[name]] if of_all(t) else None,
        each=lambda p: [Case(name, "", {"name": name}) for name in ("misalignment", "flipped", "random")],
    ),
    Number("chance", "how many of ten random vectors match", of_groups(lambda found: found["chance"])),
]  # fmt: skip
