"""What the tests of a study ask: its jobs at once, tables made of rows, its statements on a table."""

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import torch

from alignbook.kernels.products import float32_convolutions
from companion.runs import notebooks, parameters
from companion.statements import judged

NOTHING = pd.DataFrame({"unit": []})  # the table where every job diverged
QUIET = {"device": torch.device("cpu"), "report": lambda share, text="": None}


def given(name, profile="smoke", **changes):
    """The parameters of the study called ``name`` at a profile, but for ``changes``."""
    return parameters.resolve(notebooks.find(name), profile, changes)


def compute(job, report=QUIET["report"], **arguments):
    """The table of ``job``, as a worker computes it; ``arguments`` replace some of its own."""
    with float32_convolutions():
        return job.compute(**job.arguments | arguments, device=QUIET["device"], report=report)


def joined(jobs, tables):
    """``tables`` one below the other, with the scalar arguments of their jobs as columns, as of a page."""
    rows = []
    for job, table in zip(jobs, tables, strict=True):
        scalars = {k: v for k, v in job.arguments.items() if isinstance(v, str | int | float | bool)}
        own = {name: value for name, value in scalars.items() if name not in table}
        rows.append(table.assign(**own, unit=job.name))
    return pd.concat(rows, ignore_index=True)


def rows(noise=0.0, draw=0, **columns):
    """A table with a row for every combination of the values of those ``columns`` that are lists or ranges.

    Other columns are a value, or a function of the row so far: ``lambda row: 0.5 + row.noise``, where
    ``row.noise`` is drawn for each row, normally with deviation ``noise``.
    """
    axes = {name: value for name, value in columns.items() if isinstance(value, list | range)}
    stream, made = np.random.default_rng(draw), []
    for values in itertools.product(*axes.values()):
        row = SimpleNamespace(**dict(zip(axes, values, strict=True)), noise=noise * stream.standard_normal())
        for name, value in columns.items():
            if name not in axes:
                setattr(row, name, value(row) if callable(value) else value)
        made.append({name: getattr(row, name) for name in columns})
    return pd.DataFrame(made)


def of(reading, parameters=None):
    """``claims(table)``, {id: Claim}, and ``outcomes(table)``, {id: outcome}.

    Each takes other values of some ``parameters`` by name, which are by default those of the smoke run.
    """
    parameters = parameters or given("/".join(reading.__name__.split(".")[-3:-1]))

    def claims(table, **other):
        return {claim.id: claim for claim in judged(reading.STATEMENTS, table, parameters | other)}

    def outcomes(table, **other):
        return {id: claim.outcome for id, claim in claims(table, **other).items()}

    return claims, outcomes
