"""How the eigenvectors of trained filters match those of image patches (Figure 3, Table D.1 right)."""

from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, UNDECIDED, KeyNumber
from alignbook.over_seeds import difference
from alignbook.statements import Requirement, Statement
from alignbook.streams import numpy_stream

from ..random_bases import random_bases
from .design import DIMENSION

THRESHOLD = 0.4  # Figure 3: |⟨v_x, v_w⟩| above it is a match
SHOWN = 10  # Figure 3: eigenvectors of Σ_w
# Table D.1, right: σ_i² and |⟨e_i, e_i'⟩| of two groups of 30 networks.
PRINTED = pd.read_csv(Path(__file__).with_name("printed.csv"), index_col="index")
PRINTED_RUNS = 30  # D.1: in each of the two groups
PRINTED_FILTERS = PRINTED_RUNS * 64
PRINTED_IMAGES = 50_000  # A.7
BASES = 100  # random ones, for chance
ONE_THREAD = threadpool_limits.wrap(limits=1)  # matrices so small that threads would wait for each other
COUNTS = ("matched", "one", "two", "more")  # columns of by_group


def weights(table):
    """{run: its filters (filters, 75)}, runs in order; empty where none is stored."""
    if "kind" not in table:
        return {}
    rows = table[table["kind"] == "filter"]
    values, places = _numbers(rows), rows.reset_index(drop=True).groupby("seed").indices
    return {seed: values[places[seed]] for seed in sorted(places)}


def data_basis(table):
    """(Σ_x, its eigenvectors as columns, the largest eigenvalue first), or None where it is not stored."""
    rows = table[table["kind"] == "data"] if "kind" in table else table.iloc[:0]
    if rows.empty:
        return None
    cov = _numbers(rows)
    cov = (cov + cov.T) / 2
    return cov, leading(cov)[1]


def _numbers(rows):
    return rows[[f"w{k}" for k in range(DIMENSION)]].to_numpy()


def leading(cov):
    """(eigenvalues, eigenvectors as columns) of a symmetric matrix, the largest first."""
    values, vectors = np.linalg.eigh(cov)
    return values[::-1], vectors[:, ::-1]


def pooled(runs):
    """Covariance (75, 75) of the filters of several runs, each (filters, 75)."""
    return np.cov(np.concatenate(runs), rowvar=False)


def matches(vectors_x, vectors_w):
    """For each column of ``vectors_w`` (d, k), which columns of ``vectors_x`` (d, d) match it: k lists.

    Those with |⟨v_x, v_w⟩| above 0.4, the best first.
    """
    products = np.abs(vectors_x.T @ vectors_w)
    order = np.argsort(-products, axis=0)
    return [[int(i) for i in order[:, k] if products[i, k] > THRESHOLD] for k in range(products.shape[1])]


def by_chance(bases, vectors_w):
    """How many columns of ``vectors_w`` (d, k) match a column of a basis, mean over ``bases`` (n, d, d)."""
    products = np.abs(bases.transpose(0, 2, 1) @ vectors_w)
    return (products > THRESHOLD).any(1).sum(1).mean()


def with_bases(bases, cov):
    """Misalignment (n,) of a covariance (d, d) with bases (n, d, d), as ``misalignment_basis`` of each."""
    forward, inverse = ((matrix @ bases * bases).sum(1) for matrix in (cov, np.linalg.inv(cov)))
    return np.sqrt(forward * inverse).sum(1) - len(cov)


def groups_of(table, parameters):
    """The runs' filters in groups of equal size, lists of (filters, 75) arrays; a remainder is left out."""
    runs = list(weights(table).values())
    size = len(runs) // parameters["groups"]
    if not size:
        return []
    return [runs[start : start + size] for start in range(0, size * parameters["groups"], size)]


def by_group(table, parameters):
    """A row per group of runs: what its Σ_w has in common with Σ_x.

    ``matched``: of the ten leading eigenvectors of Σ_w, how many match an eigenvector of Σ_x; ``one``,
    ``two``, ``more``: how many match one, two or more of them; ``chance``: how many match one of random
    orthonormal vectors, mean of 100 bases; ``misalignment`` of Σ_w with Σ_x, and with these bases the mean,
    ``random``, and the ``least`` (none where the group's filters are too few); ``first`` and ``last``: mean
    |⟨e_i, e_i'⟩| between the group's two halves over i = 1 … 3 and 10 … 12.
    """
    data = data_basis(table)
    if data is None:
        return pd.DataFrame()
    groups = groups_of(table, parameters)
    rows = [_group(number, data[0].tobytes(), *_packed(runs)) for number, runs in enumerate(groups)]
    return pd.DataFrame(rows)


def _packed(runs):
    """Filters of several runs as what a cache can tell apart: their bytes, and how many each run has."""
    return np.concatenate(runs).tobytes(), tuple(map(len, runs))


@ONE_THREAD
@lru_cache(maxsize=64)  # every statement asks for it, and so do the finding and the page
def _group(number, cov_x, filters, sizes):
    """The row of one group, of the bytes of Σ_x and of the filters, ``sizes`` of them in each run."""
    cov_x, filters = (np.frombuffer(part).reshape(-1, DIMENSION) for part in (cov_x, filters))
    runs = np.split(filters, np.cumsum(sizes)[:-1])
    cov = pooled(runs)
    top = leading(cov)[1][:, :SHOWN]
    vectors_x = leading(cov_x)[1]
    counts = np.array([len(found) for found in matches(vectors_x, top)])
    bases = random_bases(DIMENSION, BASES, numpy_stream(number, "figure 3", "bases"))
    row = {
        "matched": (counts > 0).sum(), "one": (counts == 1).sum(), "two": (counts == 2).sum(),
        "more": (counts > 2).sum(), "chance": by_chance(bases, top),
    }  # fmt: skip
    if len(filters) > 2 * DIMENSION:
        others = with_bases(bases, cov)
        row |= {
            "misalignment": with_bases(vectors_x[None], cov)[0],
            "random": others.mean(),
            "least": others.min(),
        }
    if len(runs) > 1:
        found = agreement(runs)
        row |= {"first": found[:3].mean(), "last": found[9:12].mean()}
    return row


def agreement(runs):
    """|⟨e_i, e_i'⟩| (12,) of the leading eigenvectors of Σ_w of two halves of ``runs`` (Table D.1, right).

    A half has 30 runs at most, as the paper's.
    """
    half = min(len(runs) // 2, PRINTED_RUNS)
    one, two = (leading(pooled(part))[1] for part in (runs[:half], runs[half : 2 * half]))
    return np.abs((one * two).sum(0))[: len(PRINTED)]


@ONE_THREAD
def halvings(table, count=20):
    """(halvings × 12) agreements of random halvings of all runs, which are not independent of each other."""
    runs = list(weights(table).values())
    if len(runs) < 2:
        return pd.DataFrame()
    rng = numpy_stream(0, "figure 3", "halvings")
    found = [agreement([runs[k] for k in rng.permutation(len(runs))]) for _ in range(count)]
    return pd.DataFrame(found, columns=PRINTED.index)


def beyond_chance(table, parameters):
    """How many more of the ten match an eigenvector of Σ_x than random vectors, by group."""
    found = by_group(table, parameters)
    return difference(found["matched"], found["chance"]) if len(found) else None


def one_or_two(table, parameters):
    """How many of the ten match one or two eigenvectors of Σ_x, by group."""
    found = by_group(table, parameters)
    return (found["one"] + found["two"]).astype(float) if len(found) else None


def aligned(table, parameters):
    """ln of the misalignment with the best of 100 random bases over that with Σ_x, by group."""
    found = by_group(table, parameters)
    return np.log(found["least"] / found["misalignment"]) if "least" in found else None


def first_less_last(table, parameters):
    """Agreement of a group's halves, eigenvectors 1 to 3 less 10 to 12, by group."""
    found = by_group(table, parameters)
    return difference(found["first"], found["last"]) if "first" in found else None


@ONE_THREAD
def pairs(table, parameters):
    """Mean of the twelve agreements, one value per two groups of 30 runs that share none."""
    runs = list(weights(table).values())
    size = 2 * min(len(runs) // 2, PRINTED_RUNS)
    starts = range(0, len(runs) - size + 1, size) if size else ()
    return [agreement(runs[start : start + size]).mean() for start in starts]


def learned(table, parameters):
    """Share of the random labels that a network has right, mean over the runs."""
    return table.loc[table["kind"] == "filter"].groupby("seed")["accuracy"].first().mean()


def filters_in_half(table, parameters):
    """Filters in each of two halves of all runs, of 30 runs at most."""
    runs = list(weights(table).values())
    return min(len(runs) // 2, PRINTED_RUNS) * len(runs[0]) if runs else float("nan")


LEARNED = Requirement("share of the random labels that the networks fit", learned, at_least=0.95)
STATEMENTS = [
    Statement(
        "matched",
        "Of the ten leading eigenvectors of Σ_w more match eigenvectors of Σ_x than random vectors.",
        source="Figure 3", of=beyond_chance, above=0, matters=1.0, unit="of ten eigenvectors",
        because="one eigenvector is the least that can match", requires=(LEARNED,), headline=True,
    ),
    Statement(
        "one-or-two", "All ten match one or two of them.", source="Figure 3", of=one_or_two, one_run=SHOWN,
        unit="of ten eigenvectors", bounds=(0.0, SHOWN), requires=(LEARNED,), ours=True,
    ),
    Statement(
        "aligned", "Σ_w is less misaligned with Σ_x than with any of 100 random bases (difference of ln).",
        source="Section 2.2", of=aligned, above=0, matters=0.1, unit="of ln",
        because="a tenth of the misalignment: random bases differ by more", requires=(LEARNED,),
    ),
    Statement(
        "leading-measured",
        "Only the leading eigenvectors of Σ_w are measured well: agreement of halves, 1–3 less 10–12.",
        source="D.1", of=first_less_last, above=0, matters=0.05, unit="of |cosine|",
        because="a twentieth of the range from 0 to 1", requires=(LEARNED,),
    ),
    Statement(
        "table-d1", "Agreement of two groups of runs is as printed (mean of twelve).",
        source="Table D.1 (right)", of=pairs, one_run=PRINTED["agreement"].mean(), unit="of |cosine|",
        requires=(
            Requirement("images that a network sees", lambda t, p: p["images"], at_least=PRINTED_IMAGES),
            Requirement("filters in each of the two groups", filters_in_half, at_least=PRINTED_FILTERS),
            LEARNED,
        ),
    ),
]  # fmt: skip

SAID = {
    HOLDS: "The leading directions of trained filters are directions of the data or mixtures of them",
    ABSENT: "The leading directions of trained filters match the data's no better than chance",
    CONTRADICTED: "The leading directions of trained filters match the data's less than chance",
    UNDECIDED: "It is undecided whether the leading directions of trained filters match the data's",
}


def finding(table, parameters, claims):
    """How many of the ten match, beside chance, and what stands in for the paper's network."""
    found, claim = by_group(table, parameters), claims["matched"]
    if found.empty or claim.outcome not in SAID:
        return "No networks that know their labels are among the results: there is nothing to see."
    mean = found.mean()
    said = f"{SAID[claim.outcome]}: {mean['matched']:.1f} of ten match, by chance {mean['chance']:.1f}."
    return said + " A small ResNet on crops of few images stands in for WRN-28-4." * (
        parameters["blocks"] < 4
    )


def key_numbers(table, parameters):
    """Matches in a group, and agreement of halves beside the printed one."""
    found, frame = by_group(table, parameters), halvings(table)
    made = []
    if not found.empty:
        what = "of the ten leading directions of the filters: matched, by one, by two, by more of the data's"
        mean = found.mean()
        made.append(KeyNumber(what, ", ".join(f"{mean[name]:.1f}" for name in COUNTS)))
    for number in (1, 12) if len(frame) else ():
        printed = f"{PRINTED['agreement'][number]:.3f}"
        what = f"direction {number}: |cosine| between two halves of the runs"
        made.append(KeyNumber(what, f"{frame[number].mean():.3f}", printed))
    return made
