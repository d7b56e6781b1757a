"""alignbook: what aligns with what while a network trains, and what that means for transfer.

The public face: ``load``, ``patch_covariance``, ``misalignment``, ``transfer_function``,
``alignment_curve``, ``tangent_alignment``, ``hessian_eigenvalues``, ``weight_deviation``,
``filter_normalised_directions``, ``landscape``, ``loss_variation``, ``probe``, ``compare``, ``Probe``,
``run`` and ``Claim``. The command is ``alignbook``.
"""

import importlib

__version__ = "0.1.0"

# Public name → the module that defines it; imported on first use, so that the command starts fast.
PUBLIC = {
    "load": "alignbook.data",
    "patch_covariance": "alignbook.metrics",
    "misalignment": "alignbook.metrics",
    "transfer_function": "alignbook.metrics",
    "alignment_curve": "alignbook.metrics",
    "tangent_alignment": "alignbook.metrics",
    "hessian_eigenvalues": "alignbook.metrics.any_network",
    "weight_deviation": "alignbook.metrics",
    "filter_normalised_directions": "alignbook.metrics",
    "landscape": "alignbook.metrics.any_network",
    "loss_variation": "alignbook.metrics.any_network",
    "probe": "alignbook.probing",
    "compare": "alignbook.probing",
    "Probe": "alignbook.probing",
    "run": "alignbook.runs.engine",
    "Claim": "alignbook.claims",
}
__all__ = ["__version__", *PUBLIC]


def __getattr__(name):
    if name in PUBLIC:
        return getattr(importlib.import_module(PUBLIC[name]), name)
    raise AttributeError(f"module 'alignbook' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
