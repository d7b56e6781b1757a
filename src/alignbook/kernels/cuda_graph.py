"""Training steps that a GPU is told of once: CUDA graphs.

A step of a narrow network of a hundred layers is several hundred small kernels, and the GPU waits for each
to be launched. Recorded once they start together: the same kernels on the same memory, so that what is
computed does not change.
"""

import functools
from contextlib import contextmanager

import torch

WARM = 3  # plain steps before one is recorded: libraries set themselves up in the first ones


def replayed(step):
    """Decorator of a method ``step(self, *tensors, *constants)`` that returns a tensor.

    On CUDA, steps after the first three with the same shapes, types and constants are replayed from a
    recording, one for each combination of these. It belongs to ``self``, and holds copies of the tensors
    given and what the step allocates. Elsewhere ``step`` is called.
    ``step`` must only launch work on tensors: no synchronisation, no decision by a value; and what it keeps
    in ``self`` must stay the same memory. Precision settings stay as they were when it was recorded. Call it
    from one thread and stream; recording waits for the GPU once. Reference: ``step`` without the decorator,
    in the test.
    """

    @functools.wraps(step)
    def stepped(self, *arguments):
        tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
        if not _on_gpu(tensors[0]):
            return step(self, *arguments)
        constants = arguments[len(tensors) :]
        key = (*((t.shape, t.dtype) for t in tensors), *constants)
        recordings = vars(self).setdefault("_recordings", {})
        if key not in recordings:
            recordings[key] = _Recording()
        return recordings[key].run(lambda *given: step(self, *given, *constants), tensors)

    return stepped


class _Recording:
    """One step: plain at first, then recorded, then replayed."""

    def __init__(self):
        self.calls, self.replay = 0, None

    def run(self, step, tensors):
        self.calls += 1
        device = tensors[0].device
        if self.calls <= WARM:
            return _apart(lambda: step(*tensors), device)
        if self.replay is None:
            self.held = [t.clone() for t in tensors]
            self.replay, self.output = _record(lambda: step(*self.held), device)
        for held, given in zip(self.held, tensors, strict=True):
            held.copy_(given)
        self.replay()
        return self.output.clone()  # the next replay writes over it


def _on_gpu(tensor):
    return tensor.is_cuda


@functools.cache
def _stream(device):
    """The stream on which steps are tried and recorded: libraries set themselves up for each anew."""
    return torch.cuda.Stream(device)


def _apart(function, device):
    """``function()``, launched on that stream between what is launched before and after."""
    stream, current = _stream(device), torch.cuda.current_stream(device)
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        result = function()
    current.wait_stream(stream)
    return result


def _record(function, device):
    """(callable that launches what ``function`` does, the tensor it returns); nothing is computed yet."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.device(device), _own_workspaces():
        with torch.cuda.graph(graph, stream=_stream(device), capture_error_mode="thread_local"):
            result = function()
    return graph.replay, result


@contextmanager
def _own_workspaces():
    """Inside, cuBLAS allocates its workspaces anew, and forgets them afterwards.

    They are kept per stream and go with the first graph that was recorded there, while later graphs may
    still point to them. So each graph gets one in its own memory, as PyTorch does for compiled graphs.
    """
    torch._C._cuda_clearCublasWorkspaces()
    try:
        yield
    finally:
        torch._C._cuda_clearCublasWorkspaces()
