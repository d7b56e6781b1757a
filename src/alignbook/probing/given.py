"""Functions that a reader gives, told apart from what is none before anything is measured."""

import torch


def forward(value):
    """``forward=`` as it was given. Raises ValueError for what cannot be called."""
    return _function(value, "forward", "model and inputs")


def loss(value):
    """``loss=``, which is refused where it returns no single number. Raises ValueError for no function."""
    if _function(value, "loss", "outputs and targets") is None:
        return None

    def checked(outputs, targets):
        number = value(outputs, targets)
        if not isinstance(number, torch.Tensor) or number.numel() != 1:
            what = (
                f"{tuple(number.shape)}" if isinstance(number, torch.Tensor) else f"a {type(number).__name__}"
            )
            raise ValueError(f"loss must return a tensor of one number, the mean of the examples, not {what}")
        return number.reshape(())

    return checked


def _function(value, name, of):
    if value is not None and (not callable(value) or isinstance(value, type)):
        what = value.__name__ if isinstance(value, type) else type(value).__name__
        raise ValueError(f"{name} must be a function of {of}, not {what}")
    return value
