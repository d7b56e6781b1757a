"""In which order a network uses its parameters."""

import torch
from torch.overrides import TorchFunctionMode

READERS = ("__get__", "dim", "size", "is_floating_point")  # ask for a property of a tensor, and use no value


class _Uses(TorchFunctionMode):
    """Inside, ``found`` gets the names of the tensors that functions are called with, in order."""

    def __init__(self, names):
        self.names, self.found = names, {}

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if getattr(function, "__name__", "") not in READERS:
            for value in _flat((args, kwargs or {})):
                name = self.names.get(id(value))
                if name is not None:
                    self.found.setdefault(name, len(self.found))
        return function(*args, **(kwargs or {}))


def _flat(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _flat(part)
    elif isinstance(value, dict):
        yield from _flat(tuple(value.values()))


@torch.no_grad()
def of_use(network, rows):
    """{(module, parameter): when it is first used, from 0} for the examples ``rows``.

    network : :class:`.network.Network`. A parameter that is not used is not among them.
    """
    named = {tuple(_parts(name)): p for name, p in network.model.named_parameters()}
    with _Uses({id(p): whose for whose, p in named.items()}) as uses:
        network(rows)
    return uses.found


def _parts(name):
    module, _, parameter = name.rpartition(".")
    return module or "(network)", parameter
