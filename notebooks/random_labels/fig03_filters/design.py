"""Sizes of the first layer's filters (A.7)."""

SIZE, CHANNELS = 5, 3  # A.7
DIMENSION = CHANNELS * SIZE**2
