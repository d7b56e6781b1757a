"""How the eigenvectors of trained filters match those of image patches (Figure 3, Table D.1 right)."""

from pathlib import Path

import numpy as np
import pandas as pd

from alignbook.claims import KeyNumber
from alignbook.over_seeds import difference
from alignbook.statements import Requirement, Statement
from alignbook.wording import by_verdict, fitting

from .design import PRINTED_RUNS
from .eigenvectors import SHOWN, by_group, data_basis, halvings, leading, matches, pairs, pooled, weights

# Table D.1, right: σ_i² and |⟨e_i, e_i'⟩| of two groups of 30 networks.
PRINTED = pd.read_csv(Path(__file__).with_name("printed.csv"), index_col="index")
PRINTED_FILTERS = PRINTED_RUNS * 64
PRINTED_IMAGES = 50_000  # A.7
COUNTS = ("matched", "one", "two", "more")  # columns of by_group


def of_groups(measure):
    """``of`` of a statement: ``measure`` of the table of groups, None where it lacks what that takes."""

    def values(table, parameters):
        found = by_group(table, parameters["groups"]).rename_axis("group")
        return measure(found) if len(found) else None

    return values


def learned(table, parameters):
    """Share of the random labels that a network has right, mean over the runs."""
    return table.loc[table["kind"] == "filter"].groupby("seed")["accuracy"].first().mean()


def one_or_two(table):
    """How many of the ten leading eigenvectors of all runs' Σ_w match one or two eigenvectors of Σ_x."""
    _, vectors = leading(pooled(list(weights(table).values())))
    return sum(len(found) in (1, 2) for found in matches(data_basis(table)[1], vectors[:, :SHOWN]))


def of_ten(number):
    """``all ten``, ``9 of ten``."""
    return "all ten" if number == SHOWN else f"{number} of ten"


def filters_in_half(table, parameters):
    """Filters in each of two halves of all runs, of 30 runs at most."""
    runs = list(weights(table).values())
    return min(len(runs) // 2, PRINTED_RUNS) * len(runs[0]) if runs else float("nan")


def filters_in_half_group(table, parameters):
    """Filters in each of two halves of a group of runs."""
    runs = list(weights(table).values())
    return len(runs) // parameters["groups"] // 2 * len(runs[0]) if runs else float("nan")


LEARNED = Requirement("share of the random labels that the networks fit", learned, at_least=0.95)
STATEMENTS = [
    Statement(
        "matched",
        "More of the ten leading eigenvectors of Σ_w match eigenvectors of Σ_x than match random vectors.",
        of=of_groups(lambda found: difference(found["matched"], found["chance"])), source="Figure 3",
        above=0, matters=1.0, unit="of ten eigenvectors", requires=(LEARNED,), headline=True,
        because="one eigenvector is the smallest number that can match",
    ),
    Statement(
        "one-or-two", "One group of runs could have all ten match one or two eigenvectors of Σ_x.",
        of=of_groups(lambda found: (found["one"] + found["two"]).astype(float)), source="Figure 3",
        one_run=SHOWN, unit="of ten eigenvectors", bounds=(0.0, SHOWN), requires=(LEARNED,), ours=True,
    ),
    Statement(
        "aligned", "Σ_w is less misaligned with Σ_x than with any of 100 random bases (difference of ln).",
        of=of_groups(lambda found: np.log(found["least"] / found["misalignment"])), source="Section 2.2",
        above=0, matters=0.1, unit="in ln",
        because="a tenth of the misalignment: random bases differ by more", requires=(LEARNED,),
    ),
    Statement(
        "leading-measured",
        "Only the leading eigenvectors of Σ_w are measured well: agreement of halves, 1–3 minus 10–12.",
        of=of_groups(lambda found: difference(found["first"], found["last"])), source="D.1",
        above=0, matters=0.05, unit="of |cosine|", because="a twentieth of the range from 0 to 1",
        requires=(
            Requirement("filters in each half of a group", filters_in_half_group, at_least=PRINTED_FILTERS),
            LEARNED,
        ),
    ),
    Statement(
        "table-d1",
        "The agreement of two groups of runs is as printed (mean of twelve; ours is one pair of groups).",
        of=lambda t, p: pairs(t), source="Table D.1 (right)", one_run=PRINTED["agreement"].mean(),
        unit="of |cosine|",
        requires=(
            Requirement("images that a network sees", lambda t, p: p["images"], at_least=PRINTED_IMAGES),
            Requirement("filters in each of the two groups", filters_in_half, at_least=PRINTED_FILTERS),
            LEARNED,
        ),
    ),
]  # fmt: skip

SAID = by_verdict(
    holds="The leading directions of trained filters match directions of the data more often than by chance",
    contradicted="The leading directions of trained filters match the data's less often than by chance",
    absent="The leading directions of trained filters match the data's no more often than by chance",
    undecided="It is undecided whether the leading directions of trained filters match the data's",
    not_judged="We do not judge whether the leading directions of trained filters match the data's, since "
    "the networks have not learned their labels",
)


def finding(table, parameters, claims):
    """How many of the ten match, beside chance, and what stands in for the paper's network."""
    found, outcome = by_group(table, parameters["groups"]), claims["matched"].outcome
    if found.empty or outcome not in SAID:
        return "No filters are among the results: there is nothing to see."
    ten = of_ten(one_or_two(table))
    text = f"{SAID[outcome]}: with all runs pooled, as in the paper, {ten} match one direction or a mixture "
    text += f"of two; of ten random ones, {found['chance'].mean():.1f} would match any."
    small = " A small ResNet stands in for the paper's wide one." * (parameters["blocks"] < 4)
    return fitting(text + small, text)


def key_numbers(table, parameters):
    """Matches of all runs and of a group of them, and agreement of halves beside the printed one."""
    found, frame, made = by_group(table, parameters["groups"]), halvings(table), []
    if not found.empty:
        what = "of ten leading directions of filters, how many match one or two of the data's"
        made.append(KeyNumber(f"{what}, all runs pooled", one_or_two(table), f"{SHOWN:g}"))
        few = (found["one"] + found["two"]).mean()
        made.append(KeyNumber(f"{what}, mean over {parameters['groups']} groups of runs", f"{few:.1f}"))
    if len(frame):
        what = "first direction: |cosine| between two halves of the runs"
        made.append(KeyNumber(what, f"{frame[1].mean():.3f}", f"{PRINTED['agreement'][1]:.3f}"))
    return made
