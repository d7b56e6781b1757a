"""The kernel of an infinitely wide deep ReLU network at initialisation (NNGP), for sets of inputs.

Equation 8 of Lou et al. 2022 with weights N(0, 2/fan_in): outputs z_L(x) are Gaussian with covariance

    K(x, x') = (2/d) ‖x‖ ‖x'‖ c_L,   c_1 = cos(x, x'),   c_{l+1} = (sin θ_l + (π - θ_l) cos θ_l) / π

with θ_l = arccos c_l (Appendix A.1). Reference: :func:`alignbook.kernels.relu_correlation.relu_correlation`,
pair by pair, and wide networks, in the test.
"""

import math

import torch

BLOCK = 2**22  # entries taken through all layers at once: 32 MiB, in place


def nngp_kernel(x, other, depth):
    """K between the rows of ``x`` (n, d) and ``other`` (m, d), none zero: (n, m) float64.

    depth : int ≥ 1, linear layers. Raises ValueError for less, or a row that is zero.
    """
    if depth < 1:
        raise ValueError(f"at least one layer, not {depth}")
    x, other = x.to(torch.float64), other.to(torch.float64)
    lengths = [rows.norm(dim=1) for rows in (x, other)]
    if min(float(length.min()) for length in lengths) == 0:
        raise ValueError("the kernel's correlation is not defined for an input that is zero")
    kernel = (x / lengths[0][:, None]) @ (other / lengths[1][:, None]).T
    for block in kernel.split(max(1, BLOCK // len(other))):
        for _ in range(depth - 1):
            angle = block.clamp_(-1, 1).arccos()
            block.mul_(math.pi - angle).add_(angle.sin_()).div_(math.pi)
    return kernel.mul_(lengths[0][:, None] * (2 / x.shape[1])).mul_(lengths[1])
