"""What a look at a network that trains leaves as it was."""

import random
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def untouched(model):
    """Afterwards the random states are as before, and so are the model's modes and buffers."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    python, numpy = random.getstate(), np.random.get_state()
    modes = [(module, module.training) for module in model.modules()]
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        try:
            yield
        finally:
            for module, training in modes:
                module.training = training
            with torch.no_grad():
                for buffer, before in buffers:
                    if not torch.equal(buffer, before):
                        buffer.copy_(before)
            random.setstate(python)
            np.random.set_state(numpy)
