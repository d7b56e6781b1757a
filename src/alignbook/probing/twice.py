"""What PyTorch cannot differentiate twice, made of what it can."""

from contextlib import contextmanager

from torch.nn import functional


@contextmanager
def twice_differentiable():
    """Inside, the activation of MobileNetV3's gates has second derivatives, which curvature needs."""
    plain = functional.hardsigmoid
    functional.hardsigmoid = _hardsigmoid
    try:
        yield
    finally:
        functional.hardsigmoid = plain


def _hardsigmoid(input, inplace=False):
    found = functional.relu6(input + 3) / 6
    return input.copy_(found) if inplace else found
