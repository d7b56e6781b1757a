"""Measurements of alignbook's kernels, side by side with named peers: ``python -m benchmarks --help``."""
