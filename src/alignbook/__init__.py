"""alignbook: what aligns with what while a network trains, and what that means for transfer.

The public face: ``load``, ``patch_covariance``, ``misalignment``, ``transfer_function``, ``alignment_curve``,
``tangent_alignment``, ``cka``, ``layer_cka``, ``hessian_eigenvalues``, ``spectral_density``,
``tangent_kernel``, ``activations``, ``layer_ranks``, ``weight_deviation``, ``filter_normalised_directions``,
``landscape``, ``loss_variation``, ``probe``, ``compare``, ``Probe``, ``Recorder`` and
``AlignbookError``. The command is ``alignbook``.
"""

import importlib

__version__ = "0.3.0.dev0"

# Public name → the module that defines it; imported on first use, so that the command starts fast.
PUBLIC = {
    "load": "alignbook.data",
    "patch_covariance": "alignbook.public",
    "misalignment": "alignbook.public",
    "transfer_function": "alignbook.public",
    "alignment_curve": "alignbook.public",
    "tangent_alignment": "alignbook.public",
    "cka": "alignbook.public",
    "layer_cka": "alignbook.public",
    "hessian_eigenvalues": "alignbook.public",
    "spectral_density": "alignbook.public",
    "tangent_kernel": "alignbook.public",
    "activations": "alignbook.public",
    "layer_ranks": "alignbook.public",
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
