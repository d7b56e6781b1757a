"""The papers' measures of alignment: pure functions of arrays and tensors."""

from .alignment_curve import alignment_curve
from .any_network import tangent_alignment
from .hessian_eigenvalues import HessianEigenvalues, hessian_eigenvalues
from .misalignment import misalignment, misalignment_basis
from .patch_covariance import PatchCovariance, patch_covariance
from .transfer_function import transfer_function

__all__ = [
    "HessianEigenvalues",
    "PatchCovariance",
    "alignment_curve",
    "hessian_eigenvalues",
    "misalignment",
    "misalignment_basis",
    "patch_covariance",
    "tangent_alignment",
    "transfer_function",
]
