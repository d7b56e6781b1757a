"""Rows as linear models and alignment see them: with a constant for the bias, and of length one."""

import torch


def with_constant(features):
    """Append a constant 1, then scale rows to length one: the normalisation of ``alignment_curve``."""
    constant = torch.ones(len(features), 1, dtype=features.dtype)
    return torch.nn.functional.normalize(torch.cat([features, constant], dim=1), dim=1)
