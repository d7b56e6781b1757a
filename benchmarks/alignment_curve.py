"""Alignment of features with labels, against singular value decompositions."""

import numpy as np

from alignbook.metrics import alignment_curve

from .work import Aim, Contender, Work, pair


def setup(device, n, d, decades):
    """(features (n, d) float64, labels (n,) of ±1): Gaussian, singular values over ``decades``."""
    rng = np.random.default_rng(0)
    rotation, _ = np.linalg.qr(rng.standard_normal((d, d)))
    features = rng.standard_normal((n, d)) * np.logspace(0, -decades, d) @ rotation
    labels = np.sign(features[:, 0] / features[:, 0].std() + rng.standard_normal(n))
    return features, labels


def ours(state):
    """(thresholds: 0 and each singular value, alignment at each, ‖y‖²)."""
    features, labels = state
    return *alignment_curve(features, labels), labels @ labels


def prepared(features):
    """Features with a constant, rows of length one."""
    features = np.concatenate([features, np.ones((len(features), 1))], axis=1)
    return features / np.linalg.norm(features, axis=1, keepdims=True)


def curve(left, singular, labels):
    """The same as :func:`ours` from left singular vectors in columns and their values, descending."""
    gains = np.square(labels @ left)
    tails = np.cumsum(gains)[::-1]
    return np.append(0.0, singular[::-1]), np.concatenate([tails[:1], tails]), labels @ labels


def full_svd(state):
    """With all n left singular vectors, what the paper's published demonstration computes."""
    features, labels = state
    left, singular, _ = np.linalg.svd(prepared(features))
    return curve(left[:, : len(singular)], singular, labels)


def thin_svd(state):
    """With the d + 1 left singular vectors that count."""
    features, labels = state
    left, singular, _ = np.linalg.svd(prepared(features), full_matrices=False)
    return curve(left, singular, labels)


def fractions(result):
    """Thresholds over the largest and alignment over ‖y‖², one behind the other."""
    thresholds, alignment, square = result
    return np.concatenate([thresholds / thresholds[-1], alignment / square])


def largest_difference(ours, theirs):
    """Largest difference of two curves of fractions."""
    ours, theirs = pair(ours, theirs)
    return float(np.abs(ours - theirs).max())


def cost(n, d, decades):
    """A Gram matrix with symmetry used, products with the labels; features read once."""
    return {"float64": n * (d + 1) * (d + 2) + 2 * n * (d + 1), "bytes": 8 * n * (d + 1)}


OURS = Contender("alignbook", "alignbook", ours, answer=fractions)
FULL = Contender("full SVD", "numpy", full_svd, answer=fractions)
THIN = Contender("thin SVD", "numpy", thin_svd, answer=fractions)
PRECISE = Aim("projections within 1e-6 of ‖y‖²", "error", 1e-6, "thin SVD")


def work(name, what, decades, contenders, aims):
    """Features with singular values over ``decades``, before the bias is added."""
    return Work(
        name=f"alignment_curve/{name}",
        title=f"Alignment curve: n = 10,000, d = 128 and a bias, {what}",
        setup=setup,
        sizes={"n": 10000, "d": 128, "decades": decades},
        small={"n": 300, "d": 16, "decades": decades},
        contenders=contenders,
        cost=cost,
        agreement="largest difference of an alignment over ‖y‖², or of a singular value over the largest",
        error=largest_difference,
        tolerance=1e-6,
        aims=aims,
    )


works = (
    work(
        "gaussian",
        "Gaussian features",
        0,
        (OURS, FULL, THIN),
        (
            Aim("at least 30 times faster than a full SVD", "faster", 30, "full SVD"),
            Aim("at most a fiftieth of its memory", "memory share", 1 / 50, "full SVD"),
            PRECISE,
        ),
    ),
    work("decades", "singular values over six decades", 6, (OURS, THIN), (PRECISE,)),
)
