"""Independent random streams of NumPy, named; what reads stored tables needs them without torch."""

import zlib

import numpy as np


def _sequence(seed, names):
    return np.random.SeedSequence([seed, *(zlib.crc32(str(name).encode()) for name in names)])


def numpy_stream(seed, *names):
    """NumPy generator of the stream ``names`` (str or int, any number) under ``seed`` (int ≥ 0)."""
    return np.random.default_rng(_sequence(seed, names))
