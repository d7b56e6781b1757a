"""What the layers of a network return, batch by batch."""

from collections.abc import Mapping
from fnmatch import fnmatchcase

import torch

from alignbook.metrics.evaluation import evaluation_mode

from . import masks
from .axes import ALONE, axes, returning, values_of
from .data import cast, leaves, mapped, taken
from .measurable import measurable
from .network import device_of


class Reader:
    """Called with a batch of inputs, it returns {layer: its output (n, …), the examples first}.

    Zeros stand where a mask hides the position. ``left`` says which layers have none, and why.

    Parameters
    ----------
    network : torch.nn.Module
    patterns : list of str, optional
        Names of modules or patterns; None: all that own a weight of two or more dimensions.
    """

    def __init__(self, network, patterns):
        self.network, self.left, self.places, self.axis = network, {}, {}, None
        modules = {name or "(network)": module for name, module in network.named_modules()}
        self.modules = {
            name: module for name, module in modules.items()
            if (any(w.ndim >= 2 for w in module.parameters(recurse=False)) if patterns is None
                else any(fnmatchcase(name, pattern) for pattern in patterns))
        }  # fmt: skip
        if not self.modules:
            raise ValueError(f"the network has no such layers: {', '.join(patterns or ['with a weight'])}")

    def __call__(self, batch):
        count, mask = len(leaves(batch)[0]), masks.mask_of(batch, self.network.forward)
        if self.axis is None or (mask is not None and not self.places):
            self.axis, left, self.places = axes(lambda *at: self._some(batch, *at), count, mask)
            self.left |= {name: _sentence(why) for name, why in left.items()}
        outputs, first = self._outputs(batch), {}
        for name in (name for name in self.modules if name not in self.left):
            values = self.axis[name].first(outputs[name], count) if name in outputs else None
            if values is None:
                self.left[name] = "its output has no axis for the examples of every batch"
            else:
                hide = mask is not None
                first[name] = masks.hidden(values, mask, self.places.get(name, ())) if hide else values
        return first

    def _some(self, batch, rows, shorter=False):
        """{name: its output, or why there is none} for these examples, without the last position."""
        few = mapped(lambda values: values[rows.to(values.device)], batch)
        if shorter:
            few = masks.cut(few, masks.mask_of(batch, self.network.forward).shape[1])
        outputs = self._outputs(few)
        return {name: outputs.get(name, "it is not called") for name in self.modules}

    @torch.no_grad()
    def _outputs(self, batch):
        """{name: the output, or why there is none} of the modules that are called on a batch."""
        outputs, device, network = {}, device_of(self.network), self.network
        kinds = [p.dtype for p in network.parameters() if p.is_floating_point()]

        def keep(name, output):
            values = values_of(output)
            # A copy: an activation that works in place must not change what is kept.
            outputs[name] = values if isinstance(values, str) else values.clone()

        def placed(values):
            values = values.to(device)
            return values.clone() if values.dtype in kinds else cast(values, (*kinds, None)[0]).clone()

        batch = mapped(placed, batch)
        with measurable(network), evaluation_mode(network), returning(network, self.modules, keep):
            if isinstance(batch, Mapping):
                network(**taken(network.forward, batch)[0])
            else:
                network(*(batch if isinstance(batch, tuple) else (batch,)))
        return outputs


def left_out(readers):
    """{layer: why it has no number} of one or two networks."""
    whose = ("", "other: ")
    return {whose[i] + name: why for i, reader in enumerate(readers) for name, why in reader.left.items()}


def _sentence(why):
    return why if why.startswith("it ") else f"it {why}" if why == ALONE else f"its output {why}"
