"""The fixed examples a recorder measures on, whatever form they come in, and the network that reads them."""

import random
from collections.abc import Iterable, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from alignbook.kernels.products import float32_convolutions
from alignbook.metrics.checks import integer

LABELS = ("labels", "label", "targets", "target", "y")


def collected(data, most):
    """(inputs, targets) of the first ``most`` examples, detached copies; inputs a tensor or a dict of them.

    data : (inputs, targets), or a DataLoader or another iterable of batches, each such a pair or a dict
        with the targets among its entries.
    Raises ValueError where they have another form.
    """
    if isinstance(data, tuple | list) and len(data) == 2 and not isinstance(data[0], tuple | list):
        batches = [tuple(data)]
    else:
        batches = [data] if isinstance(data, Mapping) else data
    integer(most, "examples", 1)
    if not isinstance(batches, Iterable):
        raise ValueError(f"data must be (inputs, targets) or batches of them, not a {type(data).__name__}")
    parts, count = [], 0
    for batch in batches:
        inputs, targets = _pair(batch)
        sizes = {len(part) for part in (inputs.values() if isinstance(inputs, Mapping) else [inputs])}
        if sizes != {len(targets)}:
            raise ValueError(f"a batch has {sorted(sizes)[0]} inputs and {len(targets)} targets")
        parts.append((inputs, targets))
        count += len(targets)
        if count >= most:
            break
    if count == 0:
        raise ValueError("there are no examples to record on")
    inputs = _joined([part for part, _ in parts], most)
    return inputs, torch.cat([part for _, part in parts])[:most].detach().clone()


def _pair(batch):
    if isinstance(batch, Mapping):
        name = next((name for name in LABELS if name in batch), None)
        if name is None:
            raise ValueError(f"a batch has no labels among {', '.join(map(str, batch))}")
        inputs = {key: torch.as_tensor(value) for key, value in batch.items() if key != name}
        return inputs, torch.as_tensor(batch[name])
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise ValueError(f"a batch must be (inputs, targets) or a dict, not a {type(batch).__name__}")
    inputs, targets = batch
    if isinstance(inputs, Mapping):
        return {key: torch.as_tensor(value) for key, value in inputs.items()}, torch.as_tensor(targets)
    return torch.as_tensor(inputs), torch.as_tensor(targets)


def _joined(parts, most):
    if isinstance(parts[0], Mapping):
        return {key: torch.cat([part[key] for part in parts])[:most].detach().clone() for key in parts[0]}
    return torch.cat(parts)[:most].detach().clone()


class Reading(nn.Module):
    """A network as the instruments want it: one tensor in, one tensor out.

    Where the inputs are a dict the tensor holds numbers of rows of it.
    """

    def __init__(self, model, fields=None):
        super().__init__()
        self.model, self.fields = model, fields

    def forward(self, x):
        if self.fields is None:
            outputs = self.model(x)
        else:
            outputs = self.model(**{name: values[x.long()] for name, values in self.fields.items()})
        if isinstance(outputs, torch.Tensor):
            return outputs
        if hasattr(outputs, "logits"):
            return outputs.logits
        return outputs["logits"] if isinstance(outputs, Mapping) else outputs[0]


def unwrapped(model):
    """The network itself, without what DistributedDataParallel and torch.compile put around it."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
            inner = model.module
        if inner is None:
            return model
        model = inner


def loss_of(outputs, targets):
    """Mean cross-entropy for classes (of examples or of positions), mean squared error for numbers."""
    if targets.is_floating_point():
        return functional.mse_loss(outputs, targets.reshape(outputs.shape))
    return functional.cross_entropy(outputs.movedim(-1, 1), targets)


@contextmanager
def untouched(model):
    """Afterwards the random states are as before, and so are the model's modes and buffers.

    Inside, a GPU does not round what it convolves.
    """
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    python, numpy = random.getstate(), np.random.get_state()
    modes = [(module, module.training) for module in model.modules()]
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    with torch.random.fork_rng([device] if device.type == "cuda" else []), float32_convolutions():
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
