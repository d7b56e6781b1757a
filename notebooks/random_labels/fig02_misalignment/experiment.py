"""Misalignment of first-layer filters with image patches over training (Maennel et al. 2020, Figure 2).

Four kinds of jobs:

``real-…``, ``random-…``   the runs of the figure (A.6); Figure 4 uses the same ones
``sweep-…``                the same over the scale of the initial weights, which the paper leaves open
``float32-…``              the start of runs in float32 (and ``bfloat16-…``), to see what precision changes
``floor``                  what sampling alone adds to the misalignment
"""

import numpy as np
import pandas as pd

from alignbook.metrics.misalignment import misalignment_basis
from alignbook.seeding import numpy_stream
from companion.jobs import Job

from ..shared.filter_design import DIMENSION, SWEEP_SEED
from ..shared.filter_training import figure_jobs, job, sweep_jobs

SPECTRA = ("flat", "linear", "six decades")  # true eigenvalues of the simulated filters


def jobs(parameters):
    """The runs of the figure, the sweep, the comparison of precisions and the floor."""
    result = figure_jobs(parameters)
    for scale in parameters["sweep_scales"]:
        result += sweep_jobs(parameters, scale, parameters["sweep_seeds"])
    if parameters["precision"] != "float32":  # else there is nothing to compare
        short = min(parameters["precision_epochs"], parameters["epochs"])
        labels = parameters["labels"][0]  # real ones by default: these move the filters sooner
        result += [
            job(f"{precision}-{labels}-seed{seed}", parameters, labels, seed, precision=precision,
                 epochs=short, record=[short])
            for precision in ("float32", parameters["precision"])
            for seed in range(SWEEP_SEED, SWEEP_SEED + parameters["precision_seeds"])
        ]  # fmt: skip
    floor = {"filters": parameters["filters"], "dimension": DIMENSION, "draws": parameters["floor_draws"]}
    result.append(Job("floor", compute_floor, floor | {"seed": 0}))
    return result


def compute_floor(*, filters, dimension, draws, seed, device, report):
    """Misalignment of sample covariances whose true covariance is exactly aligned.

    Draws ``filters`` Gaussian vectors with a diagonal covariance, ``draws`` times for each of three
    spectra, and scores their sample covariance against the true eigenvectors. The score does not
    depend on the true eigenvalues: with D diagonal, (D B D)ᵢᵢ ((D B D)⁻¹)ᵢᵢ = Bᵢᵢ (B⁻¹)ᵢᵢ. The same
    draws serve all spectra, so that the table shows this to rounding. CPU only (``device`` is unused).
    """
    draw = numpy_stream(seed, "floor").standard_normal((draws, filters, dimension))
    standard = np.eye(dimension)
    rows = []
    for done, spectrum in enumerate(SPECTRA):
        report(done / len(SPECTRA), spectrum)
        scale = np.sqrt(eigenvalues(spectrum, dimension))
        for k in range(draws):
            score = misalignment_basis(standard, np.cov(draw[k] * scale, rowvar=False))
            rows.append({"kind": "floor", "spectrum": spectrum, "draw": k, "misalignment": score})
    return pd.DataFrame(rows)


def eigenvalues(spectrum, dimension):
    """(dimension,) eigenvalues of one of ``SPECTRA``."""
    if spectrum == "flat":
        return np.ones(dimension)
    if spectrum == "linear":
        return np.linspace(0.1, 3.0, dimension)
    return np.logspace(-6, 0, dimension)
