"""What a few examples cost on the network at hand: memory, and how long they take at least."""

from torch import nn

from . import budget
from .errors import DoesNotApply, TooLong
from .features import layer_inputs
from .instruments import asked, takes_exact
from .tangents import BUCKETS, named_weights

# As many passes through the network with one example take the least examples of an instrument, about.
PASSES = {"filters": 8, "slice": 170, "features": 8, "tangent": 250, "curvature": 1000}


def room(name, network, task, rows, layers, limits):
    """How many of the examples fit into the memory. Raises DoesNotApply for too few."""
    each = {"features": _of_features, "tangent": _of_kernels}.get(name)
    if each is None:
        return len(rows)
    return limits.fits(each(network, task, rows, layers, limits), len(rows))


def affordable(name, each, left):
    """Raise DoesNotApply where the least examples would take much more than the seconds that are left.

    each : seconds that one example takes to go through the network.
    """
    needed = PASSES[name] * each
    if needed > 2 * left:
        raise TooLong(budget.too_long(f"{budget.LEAST} examples", needed))


def _of_features(network, task, rows, layers, limits):
    few = task.labelled(rows)[:2]
    kept, _ = layer_inputs(network, task, few, 0, layers)
    return sum(4 * values[0].numel() for values, _ in kept.values())


def _of_kernels(network, task, rows, layers, limits):
    """Bytes per example: layers' inputs and their outputs' gradients, or of other networks the sketches."""
    shape = []

    def look(layer, given, output):
        shape.append((given[0][0].numel() if given else 0, output[0].numel()))

    layers = [m for m in network.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    hooks = [m.register_forward_hook(look) for m in layers]
    try:
        _, _, outputs = asked(network, task, rows)
    finally:
        for hook in hooks:
            hook.remove()
    if takes_exact(network, task, rows, outputs):
        return 4 * sum(2 * entering + (len(outputs) + 2) * leaving for entering, leaving in shape)
    weights = [w.numel() for w in named_weights(network.model).values()]
    held = 2 * (8 + 4) * sum(w for w in weights if w > 2 * BUCKETS)  # a bucket and a sign of each entry
    if held > limits.memory:
        needed = f"sketches of the gradients take {budget.gigabytes(held)}"
        raise DoesNotApply(f"{needed}, more than {budget.gigabytes(limits.memory)} (--memory)")
    return 4 * len(outputs) * sum(min(w, 2 * BUCKETS) for w in weights)
