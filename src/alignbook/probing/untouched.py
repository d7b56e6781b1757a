"""The caller's network: copied where it can be, and as it was, bit for bit, where it is measured in place."""

import copy
import random
from collections import deque
from contextlib import contextmanager

import numpy as np
import torch

INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
CONTAINERS = (list, dict, set, deque)


@contextmanager
def random_states_kept():
    """Restore all global random states: loaders, datasets and networks may draw from them."""
    python, numpy = random.getstate(), np.random.get_state()
    of_gpu = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(of_gpu):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


@contextmanager
def untouched(*networks):
    """Restore networks and random states, whatever their modules do when they are called.

    Values of parameters and buffers, modes, attributes, what lists and dicts among the attributes hold, and
    the states of random generators. Memory: a copy of the weights.
    """
    modules = [_Kept(module) for network in networks for module in network.modules()]
    tensors = {}
    for module in modules:
        for value in module.tensors():
            storage = value.detach()
            tensors.setdefault(id(value), (value, storage, storage.clone()))
    with random_states_kept():
        try:
            yield
        finally:
            for module in modules:
                module.restore()
            with torch.no_grad():
                for value, storage, before in tensors.values():
                    if value.is_leaf and value.data_ptr() != storage.data_ptr():
                        value.data = storage
                    if not same_bits(storage, before):
                        storage.copy_(before)


class _Kept:
    """A module's attributes, and how to restore them."""

    def __init__(self, module):
        self.module = module
        self.attributes = dict(vars(module))
        self.contents = [(v, copy.copy(v)) for v in self.attributes.values() if isinstance(v, CONTAINERS)]
        self.draws = [(v, _state(v)) for v in self.attributes.values() if _state(v) is not None]

    def tensors(self):
        """The tensors that it holds."""
        yield from self.module.parameters(recurse=False)
        yield from self.module.buffers(recurse=False)
        held = [*self.attributes.values(), *(v for _, c in self.contents for v in _values(c))]
        for value in held:
            if isinstance(value, torch.Tensor) and value.layout == torch.strided and not value.is_nested:
                yield value

    def restore(self):
        own = vars(self.module)
        for name in [name for name in own if name not in self.attributes]:
            del own[name]
        own.update(self.attributes)
        for container, before in self.contents:
            now, then = list(_items(container)), list(_items(before))
            if len(now) != len(then) or any(a is not b for a, b in zip(now, then, strict=True)):
                container.clear()
                container.extend(before) if isinstance(container, list | deque) else container.update(before)
        for generator, before in self.draws:
            _restore_state(generator, before)


def _values(container):
    return list(container.values()) if isinstance(container, dict) else list(container)


def _items(container):
    """All that it holds, keys of a dict before the values."""
    return [*container, *container.values()] if isinstance(container, dict) else container


def _state(value):
    """The state of a random generator, or None for anything else."""
    if isinstance(value, torch.Generator):
        return value.get_state()
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, np.random.RandomState):
        return value.get_state()
    return value.getstate() if isinstance(value, random.Random) else None


def _restore_state(generator, state):
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        generator.set_state(state)


def same_bits(one, other):
    """Whether two tensors of one shape and type hold the same bits: a nan is equal to itself, 0 not to -0."""
    if one.is_quantized or not one.numel():
        return one.numel() == 0 or torch.equal(one, other)
    if one.is_complex():
        one, other = torch.view_as_real(one.resolve_conj()), torch.view_as_real(other.resolve_conj())
    kind = INTEGERS[one.element_size()]
    return torch.equal(one.view(kind), other.view(kind))


def copy_of(model):
    """A deep copy; what modules keep of earlier calls is detached. Raises what copying raises."""
    memo = {}
    for module in model.modules():
        _note(list(vars(module).values()), memo)
    return copy.deepcopy(model, memo)


def _note(values, memo):
    """Put into ``memo`` copies of the tensors and generators that deepcopy refuses."""
    for value in values:
        if isinstance(value, torch.Tensor) and value.grad_fn is not None:
            memo[id(value)] = value.detach().clone()
        elif isinstance(value, torch.Generator):
            memo[id(value)] = torch.Generator(value.device).set_state(value.get_state())
        elif isinstance(value, list | tuple | set | deque):
            _note(value, memo)
        elif isinstance(value, dict):
            _note(value.values(), memo)
