"""How networks run while they are measured: exactly, eagerly, and with second derivatives."""

import sys
from contextlib import ExitStack, contextmanager
from unittest import mock

import torch
from torch import nn
from torch.nn import functional
from torch.utils import checkpoint

from alignbook.kernels.products import float32_convolutions


@contextmanager
def measurable(*networks):
    """Take paths through the networks that have second derivatives, and leave compiled ones as they are.

    Attention takes the plain path, which calls its parts; MobileNetV3's gates are made of what can be
    differentiated twice; embeddings have dense gradients; checkpoints keep what they would compute again,
    and a reentrant one passes gradients on to its weights; a GPU does not round what it convolves.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    embeddings = [m for n in networks for m in n.modules() if isinstance(m, nn.Embedding | nn.EmbeddingBag)]
    sparse = [m for m in embeddings if m.sparse]
    with ExitStack() as stack:
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast)
        torch.backends.mha.set_fastpath_enabled(False)
        if "torch._dynamo" in sys.modules:  # else nothing is compiled
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        for module in sparse:
            stack.callback(setattr, module, "sparse", True)
            module.sparse = False
        stack.enter_context(mock.patch.object(functional, "hardsigmoid", _hardsigmoid))
        stack.enter_context(mock.patch.object(checkpoint, "CheckpointFunction", _Plain))
        stack.enter_context(mock.patch.object(checkpoint, "_checkpoint_without_reentrant_generator", _plain))
        stack.enter_context(nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH))
        stack.enter_context(float32_convolutions())
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
