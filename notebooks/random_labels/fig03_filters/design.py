"""Sizes of the first layer's filters (A.7)."""

SIZE, CHANNELS = 5, 3  # A.7
DIMENSION = CHANNELS * SIZE**2
PRINTED_RUNS = 30  # D.1: networks in each of the two groups
