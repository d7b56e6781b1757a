"""What is measured is a copy of the caller's network, run exactly, eagerly and with second derivatives."""

import copy
import random
import sys
import warnings
from contextlib import ExitStack, contextmanager
from unittest import mock

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils import checkpoint
from torch.utils._pytree import tree_leaves

from alignbook.errors import AlignbookError, on_one_line
from alignbook.kernels.products import float32_convolutions
from alignbook.metrics import checks

from . import parameters as by_name

WRAPPERS = {"DataParallel": "module", "DistributedDataParallel": "module", "OptimizedModule": "_orig_mod"}


def unwrapped(model):
    """The network inside of wrappers for several devices or compilation."""
    while inner := _inner(model):
        model = inner
    return model


def _inner(model):
    for kind in type(model).__mro__:
        inner = getattr(model, WRAPPERS.get(kind.__name__, ""), None)
        if isinstance(inner, nn.Module):
            return inner
    return None


def placed(values, network):
    """A tensor where the network is, floats in its precision where they have another."""
    kinds = [p.dtype for p in network.parameters() if p.is_floating_point()]
    other = kinds and values.is_floating_point() and values.dtype not in kinds
    return values.to(device_of(network), kinds[0] if other else None)


def device_of(network):
    """Where the parameters lie, or else the buffers; the CPU for a network without either."""
    return next((v.device for v in [*network.parameters(), *network.buffers()]), torch.device("cpu"))


@torch.inference_mode(False)
def copied(model):
    """A copy of the unwrapped network in evaluation mode; what it holds of earlier calls is detached.

    Raises ValueError for what is no network, AlignbookError for one that cannot be copied.
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"the network must be an nn.Module, not {type(model).__name__}")
    model, memo = unwrapped(model), {}
    for value in tree_leaves([vars(module) for module in model.modules()]):  # what deepcopy refuses
        if isinstance(value, torch.Tensor) and value.grad_fn is not None:
            memo[id(value)] = value.detach().clone()
        elif isinstance(value, torch.Generator):
            memo[id(value)] = torch.Generator(value.device).set_state(value.get_state())
    try:
        network = copy.deepcopy(model, memo)
    except Exception as error:  # a reader's own class may refuse in any way
        why = f"{type(error).__name__}: {on_one_line(error)}"
        raise AlignbookError(f"the network cannot be copied, to be measured: {why}") from None
    if any(theirs is mine for theirs, mine in zip(model.modules(), network.modules(), strict=False)):
        raise AlignbookError("the network cannot be copied, to be measured: its copy is itself")
    for module in network.modules():
        if isinstance(module, nn.Embedding | nn.EmbeddingBag):
            module.sparse = False  # sparse gradients have no second derivative
    network._alignbook_theirs = frozenset(map(id, model.parameters()))
    return network.eval()


def require_own(network, outputs):
    """Raise ValueError where a copy's outputs depend on the parameters of the caller's network.

    A function that keeps the network, as a lambda among its attributes, is not copied with it.
    """
    theirs, waiting, seen = getattr(network, "_alignbook_theirs", ()), [outputs.grad_fn], set()
    while waiting:
        step = waiting.pop()
        if step is None or step in seen:
            continue
        seen.add(step)
        if id(getattr(step, "variable", None)) in theirs:
            raise ValueError(
                "a function that the network calls, such as a lambda, holds one of its modules, so that its "
                "copy cannot be measured: make it a method"
            )
        waiting += [following for following, _ in step.next_functions]


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
def measurable(device):
    """Take paths through networks that are exact and have second derivatives.

    Attention takes the plain path, which calls its parts; MobileNetV3's gates are made of what can be
    differentiated twice; checkpoints keep what they would compute again, and a reentrant one passes gradients
    on to its weights; nothing is compiled or cast, and a GPU does not round what it convolves.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        stack.enter_context(random_states_kept())
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast)
        torch.backends.mha.set_fastpath_enabled(False)
        if "torch._dynamo" in sys.modules:  # else nothing is compiled
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(mock.patch.object(functional, "hardsigmoid", _hardsigmoid))
        stack.enter_context(mock.patch.object(checkpoint, "CheckpointFunction", _Plain))
        stack.enter_context(mock.patch.object(checkpoint, "_checkpoint_without_reentrant_generator", _plain))
        stack.enter_context(nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH))
        stack.enter_context(float32_convolutions())
        stack.enter_context(torch.autocast(device.type, enabled=False))
        yield


def _hardsigmoid(input, inplace=False):
    """A hardsigmoid that can be differentiated twice."""
    output = functional.relu6(input + 3) / 6
    return input.copy_(output) if inplace else output


class _Plain:
    """What a reentrant checkpoint calls, without checkpointing."""

    @staticmethod
    def apply(function, preserve, *arguments):
        return function(*arguments)


def _plain(*_, **__):
    """What a checkpoint goes through before and after its function, without checkpointing."""
    yield


@contextmanager
def measured(model, parameters=None):
    """Inside, a copy of a network for a metric; it works on copies of its inputs.

    parameters : which of its parameters require gradients; None: as they do.
    """
    checks.instance(model, "model", nn.Module, "a torch.nn.Module")
    network = copied(model)
    if parameters is not None:
        by_name.require(network, by_name.chosen(network, parameters))
        for line in by_name.lines(network, by_name.ALL):
            warnings.warn(line, RuntimeWarning, stacklevel=5)
    network.register_forward_pre_hook(_copies, prepend=True, with_kwargs=True)
    with measurable(device_of(network)):
        yield network


def _copies(_, given, named):
    def clone(value):
        return value.clone() if isinstance(value, torch.Tensor) else value

    return tuple(map(clone, given)), {name: clone(value) for name, value in named.items()}


@torch.enable_grad()
def require_steady(network, inputs):
    """Raise ValueError for a network that answers the same two examples differently, or no finite tensor."""
    outputs = [checks.in_one_sentence("running the model", lambda: network(inputs[:2])) for _ in range(2)]
    if not all(isinstance(each, torch.Tensor) for each in outputs):
        raise ValueError(f"the model must return one tensor, not {type(outputs[0]).__name__}")
    require_own(network, outputs[0])
    outputs = [each.detach() for each in outputs]
    if not outputs[0].isfinite().all():
        raise ValueError("the model's outputs are not finite")
    # The processor may round the same sum differently.
    if outputs[0].shape != outputs[1].shape or not torch.allclose(*outputs, rtol=1e-3, atol=1e-6):
        raise ValueError("the model answers differently twice: it is random, or keeps count of its calls")
