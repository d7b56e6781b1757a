"""alignbook: what aligns with what while a network trains, and what that means for transfer.

The public face is ``__all__``; the command is ``alignbook``.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alignbook.data import load as load
    from alignbook.errors import AlignbookError as AlignbookError
    from alignbook.metrics.cka import cka as cka
    from alignbook.probing import Probe as Probe, compare as compare
    from alignbook.probing.probe import probe as probe
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

# Module → its public names, imported on first use, so that the command starts fast.
HOMES = {
    "data": "load",
    "errors": "AlignbookError",
    "metrics.cka": "cka",
    "probing": "Probe compare",
    "probing.probe": "probe",
    "probing.representations": "activations layer_cka layer_ranks tangent_kernel",
    "public": "alignment_curve filter_normalised_directions hessian_eigenvalues landscape loss_variation "
    "misalignment patch_covariance spectral_density tangent_alignment transfer_function weight_deviation",
    "recording": "Recorder",
}
PUBLIC = {name: f"alignbook.{home}" for home, names in HOMES.items() for name in names.split()}
__all__ = ["__version__", *PUBLIC]


def __getattr__(name):
    if name in PUBLIC:
        if name == "load":
            importlib.import_module("alignbook.installed").settle()
        return getattr(importlib.import_module(PUBLIC[name]), name)
    raise AttributeError(f"module 'alignbook' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
