"""The caller's own network, measured where it is."""

import warnings
from contextlib import ExitStack, contextmanager

import torch
from torch import nn

from alignbook.metrics import checks
from alignbook.metrics.evaluation import evaluation_mode

from . import parameters as by_name
from .measurable import measurable
from .network import Network, device_of, unwrapped
from .untouched import untouched


@torch.no_grad()
def checked_network(model):
    """The network without wrappers. Raises for what is none, and for weights that are not finite."""
    checks.instance(model, "model", nn.Module, "a torch.nn.Module")
    for place, tensor in (*model.named_parameters(), *model.named_buffers()):
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise ValueError(f"{place} of the model has entries that are not finite")
    return unwrapped(model)


@contextmanager
def left_alone(*models, parameters=None, steady=None):
    """Inside, networks run measurably on copies of their inputs; afterwards they are as they were.

    parameters : which of the first network's are meant. steady : inputs that it has to answer alike twice.
    """
    with ExitStack() as stack:
        if parameters is not None:
            inner = models[0].model if isinstance(models[0], Network) else models[0]
            for line in by_name.odd(inner):
                warnings.warn(line, RuntimeWarning, stacklevel=5)
            stack.enter_context(by_name.only(inner, by_name.chosen(inner, parameters)))
        stack.enter_context(untouched(*models))
        stack.enter_context(measurable(*models))
        stack.enter_context(torch.autocast(device_of(models[0]).type, enabled=False))
        for model in models:
            hook = model.register_forward_pre_hook(_copies, prepend=True, with_kwargs=True)
            stack.callback(hook.remove)
        if steady is not None:
            _require_steady(models[0], steady[:2])
        yield


def _copies(_, given, named):
    def copied(value):
        return value.clone() if isinstance(value, torch.Tensor) else value

    return tuple(map(copied, given)), {name: copied(value) for name, value in named.items()}


@torch.no_grad()
def _require_steady(model, inputs):
    with evaluation_mode(model):
        first, second = (checks.in_one_sentence("running the model", lambda: model(inputs)) for _ in range(2))
    if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
        raise ValueError(f"the model must return one tensor, not {type(first).__name__}")
    if not first.isfinite().all():
        raise ValueError("the model's outputs are not finite")
    # The processor may round the same sum differently.
    if first.shape != second.shape or not torch.allclose(first, second, rtol=1e-3, atol=1e-6):
        raise ValueError("the model answers differently twice: it is random, or keeps count of its calls")
