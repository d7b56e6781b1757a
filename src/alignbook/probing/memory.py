"""How many examples of a network fit into memory."""

from torch import nn

from . import budget
from .errors import DoesNotApply
from .features import layer_inputs
from .instruments import asked, takes_exact
from .tangents import BUCKETS, named_weights


def room(name, network, task, rows, layers, limits):
    """How many of the examples an instrument has room for. Raises DoesNotApply for too few."""
    if name == "features":
        values, _ = layer_inputs(network, task, task.labelled(rows)[:2], 0, layers)
        return limits.fits(sum(4 * of_layer[0].numel() for of_layer, _ in values.values()), len(rows))
    if name == "tangent":
        return limits.fits(_of_kernels(network, task, rows, limits), len(rows))
    return len(rows)


def _of_kernels(network, task, rows, limits):
    """Bytes per example: layers' inputs and their outputs' gradients, or of other networks the sketches."""
    sizes = []

    def keep(layer, given, output):
        sizes.append((given[0][0].numel() if given else 0, output[0].numel()))

    hooks = [m.register_forward_hook(keep) for m in network.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    try:
        _, _, outputs = asked(network, task, rows)
    finally:
        for hook in hooks:
            hook.remove()
    if takes_exact(network, task, rows, outputs):
        return 4 * sum(2 * entering + (len(outputs) + 2) * leaving for entering, leaving in sizes)
    weights = [w.numel() for w in named_weights(network.model).values()]
    held = 2 * (8 + 4) * sum(w for w in weights if w > 2 * BUCKETS)  # a bucket and a sign of each entry
    if held > limits.memory:
        needed = f"sketches of the gradients take {budget.gigabytes(held)}"
        raise DoesNotApply(f"{needed}, more than {budget.gigabytes(limits.memory)} (--memory)")
    return 4 * len(outputs) * sum(min(w, 2 * BUCKETS) for w in weights)
