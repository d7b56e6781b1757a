"""Data sets, label randomisation and disjoint splits."""

from .images import DataError, ImageSet, available, digest, fetch, load, location
from .labels import disjoint_splits, random_labels

__all__ = [
    "DataError",
    "ImageSet",
    "available",
    "digest",
    "disjoint_splits",
    "fetch",
    "load",
    "location",
    "random_labels",
]
