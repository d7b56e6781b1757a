"""Spectra of layer tangent kernels and of the Fisher information's blocks (Lou et al. 2022, Appendix G)."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from alignbook.kernels.kernel_matrix import kernel_matrix

from .tangent_alignment import CONSTANT, _signals


@dataclass(frozen=True)
class Spectrum:
    """One layer. Ranks are stable ranks R = Σ λ_i² / λ_1² (G.1), float; nan where the kernel is constant.

    eigenvalues : (nk,) float64 of C K_l C, descending, the largest 1
    rank, correlation : R_l of C K_l C, and Σ_i λ_i/λ_1 ⟨u_i, Ỹ⟩² with Ỹ of length 1
    alignment : A_l of Eq. 7, which is correlation / √rank (G.1)
    kernel_rank : of K_l = Ψ_lᵀ Ψ_l itself
    fisher_rank, fisher_correlation : the same of the Fisher information Ψ_l ∂²L/∂F² Ψ_lᵀ (G.3, G.5)
    """

    eigenvalues: np.ndarray
    rank: float
    correlation: float
    alignment: float
    kernel_rank: float
    fisher_rank: float
    fisher_correlation: float


def tangent_spectra(model, inputs, labels):
    """A :class:`Spectrum` for every linear or convolutional layer, in the order of the forward pass.

    model, inputs (n, …), labels (n,) int64: as for
    :func:`alignbook.metrics.tangent_alignment.tangent_alignment`; kernels of the weights alone, which are
    held one at a time, (nk)² float64 entries.
    The Fisher information has the non-zero eigenvalues of S^½ K_l S^½, S = ∂²L/∂F² of the cross-entropy,
    with blocks diag(p) - ppᵀ (G.4); its correlation is taken with the eigenvectors there, not centred.
    """
    layers, (n, k) = _signals(model, inputs)
    target = nn.functional.one_hot(labels, k).double().flatten() - 1 / k  # Ỹ, (nk,)
    target /= target.norm()
    roots = _roots(_probabilities(model, inputs))
    return [_spectrum(kernel_matrix(*layers.pop(0)), target, roots) for _ in range(len(layers))]


def matrix_alignment(model, inputs, labels):
    """A_l of Eq. 7 from the kernels as matrices, (layers,) float64; nan as for ``tangent_alignment``.

    The same numbers as :func:`alignbook.metrics.tangent_alignment.tangent_alignment`, for few examples: also
    of convolutions with one position and many outputs, and all in float64.
    """
    layers, (_, k) = _signals(model, inputs)
    target = nn.functional.one_hot(labels, k).double().flatten() - 1 / k
    found = []
    for _ in range(len(layers)):
        kernel = kernel_matrix(*layers.pop(0))
        centred = _centred(kernel)
        constant = not centred.norm() > CONSTANT * kernel.norm()
        value = target @ kernel @ target / (centred.norm() * target @ target)
        found.append(float("nan") if constant else float(value))
    return np.array(found)


def _centred(kernel):
    """CKC from the means of rows: C is never formed."""
    means = kernel.mean(0)
    return kernel - means[:, None] - means[None, :] + means.mean()


@torch.no_grad()
def _probabilities(model, inputs):
    training = [module for module in model.modules() if module.training]
    model.eval()
    logits = model(inputs)
    for module in training:
        module.training = True
    return logits.double().softmax(1)


def _roots(p):
    """Square roots (n, k, k) of diag(p_i) - p_i p_iᵀ."""
    values, vectors = torch.linalg.eigh(torch.diag_embed(p) - p[:, :, None] * p[:, None, :])
    return (vectors * values.clamp(min=0).sqrt()[:, None, :]) @ vectors.mT


def _spectrum(kernel, target, roots):
    n, k = roots.shape[:2]
    centred = _centred(kernel)
    if not centred.norm() > CONSTANT * kernel.norm():
        return Spectrum(np.full(n * k, np.nan), *[float("nan")] * 6)
    values = torch.linalg.eigvalsh(centred).flip(0)
    fisher = torch.einsum("iab,ibjc->iajc", roots, kernel.view(n, k, n, k))
    fisher = torch.einsum("iajc,jcd->iajd", fisher, roots).reshape(n * k, n * k)
    rank, correlation = _stable(centred, values[0], target)
    fisher_rank, fisher_correlation = _stable(fisher, _largest(fisher), target)
    return Spectrum(
        (values / values[0]).numpy(force=True),
        rank,
        correlation,
        correlation / rank**0.5,
        _stable(kernel, _largest(kernel), target)[0],
        fisher_rank,
        fisher_correlation,
    )


def _largest(matrix):
    return torch.linalg.eigvalsh(matrix)[-1]


def _stable(matrix, largest, target):
    """(stable rank, correlation with ``target``) of a positive semi-definite matrix."""
    return float((matrix.norm() / largest) ** 2), float(target @ matrix @ target / largest)
