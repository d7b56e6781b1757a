"""Independent random streams, named, so that adding one never shifts another."""

import zlib

import numpy as np
import torch


def _sequence(seed, names):
    return np.random.SeedSequence([seed, *(zlib.crc32(str(name).encode()) for name in names)])


def numpy_stream(seed, *names):
    """NumPy generator of the stream ``names`` (str or int, any number) under ``seed`` (int ≥ 0)."""
    return np.random.default_rng(_sequence(seed, names))


def torch_stream(seed, *names, device="cpu"):
    """PyTorch generator on ``device`` of the stream ``names`` under ``seed`` (int ≥ 0)."""
    state = int(_sequence(seed, names).generate_state(1, np.uint64)[0] >> 1)
    return torch.Generator(device=device).manual_seed(state)
