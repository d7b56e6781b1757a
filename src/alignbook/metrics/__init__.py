"""The papers' measures of alignment: pure functions of arrays and tensors."""

# ruff: noqa: F401

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
