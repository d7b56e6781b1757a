"""Data sets, label randomisation and disjoint splits."""

from . import shapes  # enters itself among the embedded sets
from .halves import HALVES, colour32, half
from .images import DataError, ImageSet, available, digest, fetch, load, location
from .labels import disjoint_splits, random_labels

__all__ = [
    "HALVES",
    "DataError",
    "ImageSet",
    "available",
    "colour32",
    "digest",
    "disjoint_splits",
    "fetch",
    "half",
    "load",
    "location",
    "random_labels",
    "shapes",
]
