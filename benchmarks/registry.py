"""Every work, in the order of the table."""

from . import alignment_curve, hessian_eigenvalues, patch_covariance, tangent_alignment, training

MODULES = (tangent_alignment, patch_covariance, alignment_curve, hessian_eigenvalues, training)


def works():
    """Comparisons, list of :class:`benchmarks.work.Work`."""
    return [work for module in MODULES for work in module.works]


def scalings():
    """Measurements over a size, list of :class:`benchmarks.work.Scaling`."""
    return [scaling for module in MODULES for scaling in getattr(module, "scalings", ())]
