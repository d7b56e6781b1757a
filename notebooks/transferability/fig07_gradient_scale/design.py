"""How the entries of the gradient are counted."""

BIN = 0.1  # decades, of the histogram
