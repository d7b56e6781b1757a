"""The papers' measures of alignment: pure functions of arrays and tensors."""

from .alignment_curve import alignment_curve
from .any_network import tangent_alignment
from .cka import cka
from .hessian_eigenvalues import HessianEigenvalues, hessian_eigenvalues
from .landscape import Landscape, filter_normalised_directions, landscape
from .layer_gradients import LayerGradients, gradient_projections, layer_gradients
from .loss_variation import LossVariation, loss_variation
from .misalignment import misalignment, misalignment_basis
from .patch_covariance import PatchCovariance, patch_covariance
from .transfer_function import transfer_function
from .weight_deviation import WeightDeviation, weight_deviation

__all__ = [
    "HessianEigenvalues",
    "Landscape",
    "LayerGradients",
    "LossVariation",
    "PatchCovariance",
    "WeightDeviation",
    "alignment_curve",
    "cka",
    "filter_normalised_directions",
    "gradient_projections",
    "hessian_eigenvalues",
    "landscape",
    "layer_gradients",
    "loss_variation",
    "misalignment",
    "misalignment_basis",
    "patch_covariance",
    "tangent_alignment",
    "transfer_function",
    "weight_deviation",
]
