"""What a start gains over another: mean accuracy over training (Maennel et al. 2020, Appendix B)."""

import pandas as pd

from companion.over_seeds import area, at, curves, difference

KINDS = {"real": "real labels", "random": "random labels"}
VISIBLE = "the panels show accuracy from 0 to 1: one point is the width of a line"


def mean_accuracy(rows):
    """Mean training accuracy over training (0..1), by seed: the area under the learning curve."""
    return area(curves(rows, "epoch", "accuracy"))


def above(accuracies, start):
    """(seeds × starts) frame: ``accuracies`` (0..1) less those of ``start``, in points; empty of none."""
    return accuracies.sub(accuracies[start], axis=0).mul(100) if len(accuracies) else pd.DataFrame()


def gain(rows, one="pretrained", other="scratch"):
    """:func:`mean_accuracy` of the start ``one`` less that of ``other``, by seed."""
    return difference(mean_accuracy(at(rows, start=one)), mean_accuracy(at(rows, start=other)))
