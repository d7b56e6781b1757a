"""What Figures 2 and 4 fix of their runs on images. No torch."""

DIMENSION = 27  # A.6: patches of 3×3 pixels in three colours
SWEEP_SEED = 1000  # trial runs have seeds from here on; those of the figures have smaller ones
