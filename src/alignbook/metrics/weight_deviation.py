"""How far weights moved from where they started (ICLR 2020 submission on transferability, Section 3)."""

import math
from dataclasses import dataclass
from numbers import Integral

import torch
from torch import nn


@dataclass(frozen=True)
class WeightDeviation:
    """How far each layer moved, and all of them.

    Attributes
    ----------
    layers : dict of str to float
        {name of the parameter: ‖W - W₀‖_F}, in the order of the network.
    total : float
        Their sum, divided by √n where n is given.
    """

    layers: dict[str, float]
    total: float


def weight_deviation(before, after, n=None):
    """How far the weights moved from their start (ICLR 2020 submission, Section 3).

    Parameters
    ----------
    before, after : torch.nn.Module or dict
        Modules or state dicts of the same names and shapes; nothing is changed. After a new head was put
        on, ``before`` is the network with it: W₀ of the head is then its random start.
    n : int, optional
        Number of target examples; by default the factor is left out.

    Returns
    -------
    WeightDeviation

    Raises
    ------
    ValueError
        For names or shapes that differ, no weights, entries that are not finite, another n.

    Notes
    -----
    The total is (1/√n) Σ_l ‖W_l - W₀_l‖_F over weight matrices and convolution kernels (ICLR 2020 submission,
    Section 3, Table 1 and Figure 2). A parameter counts where it is floating point and has at least two
    dimensions. Biases and all that batch norm holds, running statistics included, are left out: the paper
    speaks of weight matrices. Differences are squared and summed in float64. For a fixed network whose head
    alone was trained the sum is the head's ‖W - W₀‖_F. Cost: one pass over the weights.

    Examples
    --------
    >>> import torch
    >>> from alignbook import weight_deviation
    >>> before = {"layer.weight": torch.zeros(2, 2), "layer.bias": torch.zeros(2)}
    >>> after = {"layer.weight": torch.ones(2, 2), "layer.bias": torch.ones(2)}
    >>> weight_deviation(before, after, n=4)
    WeightDeviation(layers={'layer.weight': 2.0}, total=1.0)
    """
    if n is not None and (not isinstance(n, Integral) or n < 1):
        raise ValueError(f"n must be an integer from 1 on, not {n}")
    first, second = _weights(before), _weights(after)
    if list(first) != list(second):
        odd = ", ".join(sorted(set(first) ^ set(second))) or "their order"
        raise ValueError(f"before and after hold different weights: {odd}")
    if not first:
        raise ValueError("there are no weights of two or more dimensions")
    layers = {}
    for name, start in first.items():
        end = second[name]
        if start.shape != end.shape:
            raise ValueError(
                f"{name} has different shapes before and after, {tuple(start.shape)} and {tuple(end.shape)}"
            )
        difference = end.detach().double().cpu() - start.detach().double().cpu()
        layers[name] = float(torch.linalg.vector_norm(difference))
        if not math.isfinite(layers[name]):
            raise ValueError(f"{name} has entries that are not finite")
    total = math.fsum(layers.values())
    return WeightDeviation(layers, total if n is None else total / math.sqrt(n))


def _weights(network):
    state = network.state_dict() if isinstance(network, nn.Module) else network
    return {
        name: value
        for name, value in state.items()
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.ndim >= 2
    }
