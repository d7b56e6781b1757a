"""alignbook: what aligns with what while a network trains, and what that means for transfer.

The public face: ``load``, ``patch_covariance``, ``misalignment``, ``transfer_function``, ``alignment_curve``,
``tangent_alignment``, ``cka``, ``layer_cka``, ``hessian_eigenvalues``, ``spectral_density``,
``tangent_kernel``, ``activations``, ``layer_ranks``, ``weight_deviation``, ``filter_normalised_directions``,
``landscape``, ``loss_variation``, ``probe``, ``compare``, ``Probe``, ``Recorder`` and
``AlignbookError``. The command is ``alignbook``.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alignbook.data import load as load
    from alignbook.errors import AlignbookError as AlignbookError
    from alignbook.metrics.cka import cka as cka
    from alignbook.probing import Probe as Probe, compare as compare, probe as probe
    from alignbook.probing.representations import (
        activations as activations,
        layer_cka as layer_cka,
        layer_ranks as layer_ranks,
        tangent_kernel as tangent_kernel,
    )
    from alignbook.public import (
        alignment_curve as alignment_curve,
        filter_normalised_directions as filter_normalised_directions,
        hessian_eigenvalues as hessian_eigenvalues,
        landscape as landscape,
        loss_variation as loss_variation,
        misalignment as misalignment,
        patch_covariance as patch_covariance,
        spectral_density as spectral_density,
        tangent_alignment as tangent_alignment,
        transfer_function as transfer_function,
        weight_deviation as weight_deviation,
    )
    from alignbook.recording import Recorder as Recorder

__version__ = "0.3.0.dev0"

# Public name → the module that defines it; imported on first use, so that the command starts fast.
PUBLIC = {
    "load": "alignbook.data",
    "patch_covariance": "alignbook.public",
    "misalignment": "alignbook.public",
    "transfer_function": "alignbook.public",
    "alignment_curve": "alignbook.public",
    "tangent_alignment": "alignbook.public",
    "cka": "alignbook.metrics.cka",
    "layer_cka": "alignbook.probing.representations",
    "hessian_eigenvalues": "alignbook.public",
    "spectral_density": "alignbook.public",
    "tangent_kernel": "alignbook.probing.representations",
    "activations": "alignbook.probing.representations",
    "layer_ranks": "alignbook.probing.representations",
    "weight_deviation": "alignbook.public",
    "filter_normalised_directions": "alignbook.public",
    "landscape": "alignbook.public",
    "loss_variation": "alignbook.public",
    "probe": "alignbook.probing",
    "compare": "alignbook.probing",
    "Probe": "alignbook.probing",
    "Recorder": "alignbook.recording",
    "AlignbookError": "alignbook.errors",
}
__all__ = ["__version__", *PUBLIC]


def __getattr__(name):
    if name in PUBLIC:
        if name == "load":
            importlib.import_module("alignbook.installed").settle()
        return getattr(importlib.import_module(PUBLIC[name]), name)
    raise AttributeError(f"module 'alignbook' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
