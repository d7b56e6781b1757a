"""What a look at a network that trains leaves as it was."""

from contextlib import contextmanager

import torch

from alignbook.probing.gathering import random_states_kept


@contextmanager
def untouched(model):
    """Afterwards the random states are as before, and so are the model's modes and buffers."""
    modes = [(module, module.training) for module in model.modules()]
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    with random_states_kept():
        try:
            yield
        finally:
            for module, training in modes:
                module.training = training
            with torch.no_grad():
                for buffer, before in buffers:
                    if not torch.equal(buffer, before):
                        buffer.copy_(before)
