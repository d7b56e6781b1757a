"""How far the mean of random numbers is from the truth, over how many they are (to be replaced)."""

import pandas as pd

from alignbook.experiments import Job
from alignbook.seeding import numpy_stream


def jobs(parameters):
    """One job per seed."""
    arguments = {"sizes": parameters["sizes"]}
    return [Job(f"seed{seed}", compute, arguments | {"seed": seed}) for seed in range(parameters["seeds"])]


def compute(*, sizes, seed, device, report):
    """Rows of ``size`` and ``error``, the mean over 200 samples of |mean of ``size`` draws| (float)."""
    rows = []
    for size in sizes:
        draws = numpy_stream(seed, f"draws of {size}").standard_normal((200, size))
        rows.append({"size": size, "error": abs(draws.mean(axis=1)).mean()})
    return pd.DataFrame(rows)
