"""Independent random streams, named, so that adding one never shifts another."""

import numpy as np
import torch

from alignbook.streams import _sequence, numpy_stream

__all__ = ["numpy_stream", "torch_stream"]


def torch_stream(seed, *names, device="cpu"):
    """PyTorch generator on ``device`` of the stream ``names`` under ``seed`` (int ≥ 0)."""
    state = int(_sequence(seed, names).generate_state(1, np.uint64)[0] >> 1)
    return torch.Generator(device=device).manual_seed(state)
