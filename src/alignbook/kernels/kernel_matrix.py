"""The tangent kernel of one layer as a matrix, for spectra; its squares alone: :mod:`.layer_kernel`.

K[(i,a),(j,b)] = ⟨∂f_a(x_i)/∂W, ∂f_b(x_j)/∂W⟩ = Σ_pq ⟨u_i^p, u_j^q⟩ ⟨g_ia^p, g_jb^q⟩

by the cheaper of two routes: per-example gradients, or for few positions both Gram matrices of every pair of
positions. Reference: float64 Jacobians, in the test.
"""

import torch
from torch.nn import functional

ENTRY = 16  # what an entry's way through memory costs, in operations of a matrix product


def kernel_matrix(inputs, gradients, unfold=None):
    """(n k, n k) float64, rows (example, output), of a layer with weights (o, d).

    inputs : (n, d), or (n, C, H, W) for a convolution; gradients : (k, n, o), or (k, n, o, H', W');
    unfold : for a convolution, the arguments of ``functional.unfold``, which takes inputs to (n, d, P).
    """
    patches = inputs[..., None] if unfold is None else functional.unfold(inputs.double(), **unfold)
    patches = patches.double()  # (n, d, P)
    signals = gradients.reshape(*gradients.shape[:3], -1).double().movedim(0, 1)  # (n, k, o, P)
    (n, k, o, positions), d = signals.shape, patches.shape[1]
    grams = positions**2 * (k * k * (2 * o + ENTRY) + 2 * d)
    if grams < 2 * k * k * o * d:
        return _by_positions(patches, signals)
    gradient = torch.einsum("nkop,ndp->nkod", signals, patches).reshape(n * k, o * d)
    return gradient @ gradient.T


def _by_positions(patches, signals):
    n, k, _, positions = signals.shape
    flat = signals.flatten(0, 1)  # (n k, o, P)
    kernel = flat.new_zeros(n, k, n, k)
    for p in range(positions):
        for q in range(positions):
            of_inputs = patches[..., p] @ patches[..., q].T
            of_gradients = flat[..., p] @ flat[..., q].T
            kernel += of_gradients.view(n, k, n, k) * of_inputs[:, None, :, None]
    return kernel.view(n * k, n * k)
