"""Which eigenvectors of the filters' covariance Σ_w match eigenvectors of the patches' covariance Σ_x."""

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from alignbook.streams import numpy_stream
from companion.over_seeds import once

from ..shared.random_bases import random_bases
from .design import DIMENSION, PRINTED_RUNS

THRESHOLD = 0.4  # Figure 3: |⟨v_x, v_w⟩| above it is a match
SHOWN = 10  # Figure 3: eigenvectors of Σ_w
COMPARED = 12  # Table D.1: eigenvectors
BASES = 100  # random ones, for chance
ONE_THREAD = threadpool_limits.wrap(limits=1)  # matrices so small that threads would wait for each other


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


@once
@ONE_THREAD
def by_group(table, groups):
    """A row for each of ``groups`` groups of runs, of equal size: what its Σ_w has in common with Σ_x.

    ``matched``: of the ten leading eigenvectors of Σ_w, how many match an eigenvector of Σ_x; ``one``,
    ``two``, ``more``: how many match one, two or more of them; ``chance``: how many match one of random
    orthonormal vectors, mean of 100 bases; ``misalignment`` of Σ_w with Σ_x, and with these bases the mean,
    ``random``, and the ``least`` (none where the group's filters are too few); ``first`` and ``last``: mean
    |⟨e_i, e_i'⟩| between the group's two halves over i = 1 … 3 and 10 … 12. A remainder of runs is left out.
    """
    data, runs = data_basis(table), list(weights(table).values())
    size = len(runs) // groups
    if data is None or not size:
        return pd.DataFrame()
    return pd.DataFrame(_group(k, data[1], runs[k * size : (k + 1) * size]) for k in range(groups))


def _group(number, vectors_x, runs):
    cov = pooled(runs)
    top = leading(cov)[1][:, :SHOWN]
    counts = np.array([len(found) for found in matches(vectors_x, top)])
    bases = random_bases(DIMENSION, BASES, numpy_stream(number, "figure 3", "bases"))
    row = {
        "matched": (counts > 0).sum(), "one": (counts == 1).sum(), "two": (counts == 2).sum(),
        "more": (counts > 2).sum(), "chance": by_chance(bases, top),
    }  # fmt: skip
    if sum(map(len, runs)) > 2 * DIMENSION:
        own, *others = with_bases(np.concatenate([vectors_x[None], bases]), cov)
        row |= {"misalignment": own, "random": np.mean(others), "least": min(others)}
    if len(runs) > 1:
        found = agreement(runs)
        row |= {"first": found[:3].mean(), "last": found[9:12].mean()}
    return row


def agreement(runs, most=PRINTED_RUNS):
    """|⟨e_i, e_i'⟩| (12,) of the leading eigenvectors of Σ_w of two halves of ``runs`` (Table D.1, right).

    A half has ``most`` runs at most, by default as many as the paper's.
    """
    half = min(len(runs) // 2, most)
    one, two = (leading(pooled(part))[1] for part in (runs[:half], runs[half : 2 * half]))
    return np.abs((one * two).sum(0))[:COMPARED]


@once
@ONE_THREAD
def halvings(table, count=20):
    """(halvings × 12) agreements of random halvings of all runs, which are not independent of each other."""
    runs = list(weights(table).values())
    if len(runs) < 2:
        return pd.DataFrame()
    rng = numpy_stream(0, "figure 3", "halvings")
    found = [agreement([runs[k] for k in rng.permutation(len(runs))]) for _ in range(count)]
    return pd.DataFrame(found, columns=range(1, COMPARED + 1))


@once
@ONE_THREAD
def of_all(table, flips=20):
    """What all runs' Σ_w has in common with Σ_x: {name: number}, empty without results.

    ``misalignment`` with Σ_x; ``flipped``: the mean over filters whose components along Σ_x's eigenvectors
    have random signs, so that they are aligned but for sampling; ``random``: with random bases, mean;
    ``few``: how many of the ten leading eigenvectors match one or two of Σ_x's; ``correlation`` of the
    filters' components along the two that match the first best.
    """
    data, runs = data_basis(table), weights(table)
    if data is None or not runs:
        return {}
    parts = np.concatenate(list(runs.values())) @ data[1]  # components along v_x
    cov, axes, rng = np.cov(parts, rowvar=False), np.eye(DIMENSION), numpy_stream(0, "figure 3", "flips")
    flipped = [np.cov(parts * rng.choice([-1, 1], parts.shape), rowvar=False) for _ in range(flips)]
    top = leading(cov)[1][:, :SHOWN]
    one, other = np.argsort(-np.abs(top[:, 0]))[:2]
    return {
        "misalignment": with_bases(axes[None], cov)[0],
        "flipped": np.mean([with_bases(axes[None], each)[0] for each in flipped]),
        "random": with_bases(random_bases(DIMENSION, BASES, rng), cov).mean(),
        "few": sum(len(found) in (1, 2) for found in matches(axes, top)),
        "correlation": np.corrcoef(parts[:, one], parts[:, other])[0, 1],
    }
