"""All instruments on one network, on what it was before, and on the same with random weights."""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import nn

from alignbook.errors import AlignbookError, on_one_line
from alignbook.metrics.checks import above, integer, patterns

from . import budget, weights
from .copies import copied, device_of, measurable, random_states_kept
from .data import gathered
from .features import OUTPUT
from .measure import MEASURES, Session
from .network import Network, initialised
from .parameters import TRAINABLE, checked, chosen, lines, require, require_known, some
from .result import Probe
from .task import function

INSTRUMENTS = ("filters", "features", "tangent", "curvature", "slice", "deviation")
FRESH = "initialisation"


@torch.inference_mode(False)
@random_states_kept()
def probe(
    model: nn.Module,
    data: Any,
    targets: ArrayLike | torch.Tensor | None = None,
    *,
    before: nn.Module | Mapping[str, Any] | str | Path | None = None,
    forward: Callable[[nn.Module, Any], Any] | None = None,
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None,
    layers: str | Sequence[str] | None = None,
    examples: int | None = None,
    only: str | Sequence[str] | None = None,
    without: str | Sequence[str] = (),
    parameters: str | Sequence[str] = TRAINABLE,
    seed: int = 0,
    minutes: float = 10.0,
    device: str | torch.device | None = None,
    report: Callable[[str], object] | None = None,
) -> Probe:
    """Measure a network with the instruments of the four papers.

    Parameters
    ----------
    model : nn.Module
        A copy is measured, in float32 and evaluation mode; the network, the data and all random states are
        never changed.
    data : tensor, array, tuple, dict, Dataset, DataLoader or iterable of batches
        The inputs, floats or integers (n, …), with ``targets``; ``(inputs, targets)``; a dict such as Hugging
        Face's, with the targets under ``labels``; batches or a sequence of these. The network is called with
        a tensor, with a tuple's parts, or with a dict's entries by name.
    targets : tensor or array, optional
        Integers are classes, (n,), or classes of positions, (n, T) or (n, H, W), for outputs (n, T, classes)
        or (n, classes, H, W); −100 stands for no class. Floats are numbers, (n,) or (n, k).
    before : nn.Module, state dict, checkpoint or path, optional
        The network at another time, measured beside it. A path is a file of weights, never read as code, or a
        folder of Hugging Face's. Where weights do not fit, those that both have are compared.
    forward : callable, optional
        ``forward(model, inputs) → outputs`` for a network that is called otherwise, or returns something else
        than a tensor, ``.logits``, ``["out"]`` or a tuple that begins with one.
    loss : callable, optional
        ``loss(outputs, targets)`` → scalar. None: the network's own where it has one, else cross-entropy for
        classes, mean squared error for numbers.
    layers : str or list of str, optional
        Names of modules, or patterns such as ``"encoder.*.attention.*"``, for features, tangent kernels and
        the deviation; None: all.
    examples : int, optional
        How many are read, and each instrument sees, up to its most. None: 1,000 are read, evenly from first
        to last where the data have a length, and each instrument sees as many as the time allows.
    only, without : str or list of str
        Names of :data:`alignbook.probing.INSTRUMENTS`, of which one measures these alone or all others;
        ``initialisation`` is the network at random weights.
    parameters : str or list of str
        Of which parameters curvature, slice, tangent kernels and deviation are: ``"trainable"``, those that
        require gradients; ``"all"``; or names and patterns of parameters or modules, ``["blocks.0.*"]``.
    seed : int
        Seed of all draws.
    minutes : float
        Time for all instruments, or infinity. One that needs more than the rest is left out.
    device : str or torch.device, optional
        Where it is measured; None: where the network is.
    report : callable, optional
        ``report(text)`` before each measurement.

    Returns
    -------
    Probe
        Tables, facts, what was left out and why. A network that answers differently when asked twice is not
        measured.

    Raises
    ------
    ValueError
        For arguments that do not fit together.
    AlignbookError
        Where the network cannot be copied, or fails on the inputs and nothing can be measured.

    Notes
    -----
    Cost, for n examples, k outputs and L layers with weights, each network: features L singular value
    decompositions of n rows; tangent kernels k backward passes and O(L (n k)²) products; curvature about a
    hundred Hessian-vector products, each about two to four gradients; the slice 21 forward passes.

    Examples
    --------
    >>> import torch, alignbook
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> found = alignbook.probe(net, torch.randn(40, 4), torch.arange(40) % 2)
    >>> sorted(found.tables)
    ['curvature', 'features', 'slice', 'tangent']
    >>> found.left_out["filters"]
    'the network has no two-dimensional convolution'
    """
    above(minutes, "minutes", math.inf)
    if examples is not None:
        integer(examples, "examples", budget.LEAST)
    integer(seed, "seed", 0)
    function(forward, "forward", "model and inputs")
    function(loss, "loss", "outputs and targets")
    without = _without(only, without)
    checked(parameters)
    end = budget.clock() + 60 * minutes
    data, total = gathered(data, targets, examples)
    model = copied(model).float().to(_device(device))
    where, names = device_of(model), set(chosen(model, parameters))
    networks = {"network": Network(model, data, forward)}
    session = Session(
        networks, total, minutes=minutes, examples=examples, parameters=parameters, seed=seed,
        layers=_layers(layers, networks["network"]), end=end, report=report,
    )  # fmt: skip
    session.said += [*data.said, *session.said_of_inputs(), *lines(model, parameters)]
    session.left_out |= dict.fromkeys((name for name in without if name in INSTRUMENTS), "left out as asked")
    start = None if before is None else _add_before(session, before, forward)
    if FRESH not in without:
        _add_random(session, forward)
    for each in networks.values():
        own = {name for name, _ in each.model.named_parameters()}
        require(each.model, names & own or set(chosen(each.model, parameters)))
    with measurable(where):
        session.begin(loss)
        todo = [name for name in MEASURES if name not in session.left_out]
        for position, name in enumerate(todo):
            session.measure(name, len(todo) - position)
    session.deviation(start)
    if session.failed and not session.tables:
        raise AlignbookError(f"the network fails on these inputs and targets: {session.failed}")
    return session.result(INSTRUMENTS, _made(seed, minutes, where))


def _made(seed, minutes, device):
    """What a report says of how it was made."""
    packages = {name: version(name) for name in ("alignbook", "torch")}
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    limit = minutes if minutes < float("inf") else None
    on = {"device": str(device), "threads": torch.get_num_threads(), "date": date}
    return packages | {"seed": seed, "minutes": limit} | on


def _without(only, without):
    """The instruments that are left out. Raises ValueError for a name that is none."""
    only, without = ([v] if isinstance(v, str) else list(v or ()) for v in (only, without))
    every = [*INSTRUMENTS, FRESH]
    if unknown := {*only, *without} - {*every}:
        raise ValueError(f"no instrument {', '.join(sorted(unknown))}; known: {', '.join(every)}")
    if only and without:
        raise ValueError("only and without: give one of them")
    return [name for name in every if name not in only] if only else without


def _device(device):
    """The device, or None. Raises ValueError for one that PyTorch does not know or has not got here."""
    try:
        return device if device is None else torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError):
        raise ValueError(f"there is no device {str(device)!r} here") from None


def _layers(layers, network):
    """The patterns, of which each must be some module's. Raises ValueError with the nearest name."""
    chosen = patterns(layers)
    require_known(chosen or (), [*list(network.names().values())[1:], "(network)", OUTPUT], "layer")
    return chosen


def _add_before(session, before, forward):
    """Add the network before to the others, where its weights fit; its state dict."""
    model = session.networks["network"].model
    if isinstance(before, nn.Module):
        network, why = copied(before).float().to(device_of(model)), None
        state, left = weights.matched(network.state_dict(), model.state_dict())
    else:
        state, left = weights.matched(weights.state_of(before, "before"), model.state_dict())
        network, why = weights.filled(model, state)
    session.said += [f"before: {left}"] if left else []
    if network is not None:
        session.networks["before"] = Network(network, session.data, forward)
    else:
        session.said.append(f"before: {why}; only its weights are compared")
    return state


def _add_random(session, forward):
    """Add the network at random weights to the others, where that can be had."""
    try:
        fresh, permuted = initialised(session.networks["network"].model, session.seed)
        session.networks[FRESH] = Network(fresh, session.data, forward)
        if permuted:
            line = f"random weights: no module initialises {some(permuted)}: as they are, in random order"
            session.said.append(line)
    except Exception as error:  # a reader's own module may initialise in any way
        session.left_out[FRESH] = on_one_line(error)
