"""Networks as they are measured."""

from contextlib import contextmanager


@contextmanager
def evaluation_mode(model):
    """Inside, every module of ``model`` is in evaluation mode; afterwards each is as it was."""
    training = [module for module in model.modules() if module.training]
    try:
        model.eval()
        yield
    finally:
        for module in training:
            module.training = True
