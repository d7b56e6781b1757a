"""How well eigenvectors can be measured, and what alignment is: Table D.1, Figure 19, Propositions 1, 2.

Four kinds of jobs: ``split``, eigenvectors of patch covariances of two disjoint halves (D.1); ``angles``,
sampling noise of directions in two dimensions (D.3); ``training``, whether training commutes with the
symmetries of the data (Proposition 1, Appendix C); ``misalignment``, Proposition 2 (D.4).
"""

import math

import numpy as np
import pandas as pd
import torch

from alignbook.data import load
from alignbook.metrics.patch_covariance import patch_covariance
from alignbook.seeding import numpy_stream
from companion.jobs import Job

from .directions import information, root_mean_square_angle
from .propositions import departures, properties

DRAWN = 50  # directions in a picture of Figure 19


def jobs(parameters):
    """Splits of the images, and one job of the other kinds for each seed."""
    images = {name: parameters[name] for name in ("dataset", "size", "images")}
    angles = {name: parameters[name] for name in ("ratios", "samples", "repeats")}
    training = {name: parameters[name] for name in ("dimension", "width", "inputs", "steps", "rate")}
    made = [Job(f"split{k}", split, images | {"seed": k}) for k in range(parameters["splits"])]
    for k in range(parameters["seeds"]):
        made.append(Job(f"angles-seed{k}", angles_of, angles | {"seed": k}))
        made.append(Job(f"training-seed{k}", training_of, training | {"seed": k}))
    made.append(Job("misalignment", misalignment_of, {"pairs": parameters["pairs"], "seed": 0}))
    return made


def split(*, dataset, size, images, seed, device, report):
    """Patch covariances of two disjoint random halves of ``images`` images each, test images included.

    One row per eigenvector, ``kind == "split"``, the largest eigenvalue first: ``index`` (from 1),
    ``variance`` and ``variance_other``, σ_i² in either half; ``apart`` = 1 - |⟨e_i, e_i'⟩|; ``partner``, the
    same for the e_j' that is most like e_i, wherever in the order it is.
    """
    parts = [load(dataset, name).x for name in ("train", "test")]
    count = sum(len(part) for part in parts)
    if 2 * images > count:
        raise ValueError(f"two halves of {images} images, but {dataset} has {count}")
    order = numpy_stream(seed, "split", dataset).permutation(count)
    bases = []
    for half in (order[:images], order[images : 2 * images]):
        first, second = half[half < len(parts[0])], half[half >= len(parts[0])] - len(parts[0])
        chosen = torch.cat([parts[0][first], parts[1][second]])
        values, vectors = np.linalg.eigh(patch_covariance(chosen.to(device), size=size).cov)
        bases.append((values[::-1], vectors[:, ::-1]))
        report(len(bases) / 2, f"{len(bases)} of 2 halves")
    (values, vectors), (others, turned) = bases
    apart, partner = (_apart(vectors, turned[:, j]) for j in (..., np.abs(vectors.T @ turned).argmax(1)))
    return pd.DataFrame(
        {
            "kind": "split", "index": np.arange(1, len(values) + 1),
            "variance": values, "variance_other": others, "apart": apart, "partner": partner,
        }
    )  # fmt: skip


def _apart(vectors, others):
    """1 - |⟨v, w⟩| of unit columns, as |v - sign(⟨v, w⟩) w|² / 2: the difference would lose seven digits."""
    signs = np.sign((vectors * others).sum(0))
    return np.square(vectors - signs * others).sum(0) / 2


def angles_of(*, ratios, samples, repeats, seed, device, report):
    """Angles of the first axis of an empirical covariance from the true one's, Σ = diag(1, λ).

    One row per λ and n with ``kind == "angles"``: ``spread``, the root mean square angle (rad) over
    ``repeats`` covariances; ``exact``, :func:`root_mean_square_angle`; ``fisher``, 1/√(n I(α)). And, for the
    first 50 of them, a row each with ``kind == "direction"``: ``angle`` (rad). Covariances come from
    Wishart's law (Bartlett), which is that of n samples.
    """
    generator = numpy_stream(seed, "angles")
    rows = []
    for ratio in ratios:
        for n in samples:
            a = np.sqrt(generator.chisquare(n, repeats))
            b = np.sqrt(generator.chisquare(n - 1, repeats))
            c = generator.standard_normal(repeats)
            # Σ^(1/2) L Lᵀ Σ^(1/2) with L = [[a, 0], [c, b]]
            one, two, cross = a**2, ratio * (b**2 + c**2), math.sqrt(ratio) * a * c
            angle = np.arctan2(2 * cross, two - one) / 2
            cell = {"ratio": ratio, "samples": n}
            rows.append(
                cell
                | {
                    "kind": "angles",
                    "spread": math.sqrt(np.mean(angle**2)),
                    "exact": root_mean_square_angle(ratio, n),
                    "fisher": 1 / math.sqrt(n * information(ratio)),
                }
            )
            rows += [cell | {"kind": "direction", "angle": value} for value in angle[:DRAWN]]
    return pd.DataFrame(rows)


def training_of(*, dimension, width, inputs, steps, rate, seed, device, report):
    """:func:`propositions.departures`, ``kind == "training"``: Proposition 1, optimiser by optimiser."""
    rows = departures(dimension, width, inputs, steps, rate, seed, report)
    return pd.DataFrame(rows).assign(kind="training")


def misalignment_of(*, pairs, seed, device, report):
    """:func:`propositions.properties`, ``kind == "misalignment"``: ``property`` and its ``value``."""
    found = properties(pairs, numpy_stream(seed, "proposition 2"), report)
    return pd.DataFrame({"kind": "misalignment", "property": list(found), "value": list(found.values())})
