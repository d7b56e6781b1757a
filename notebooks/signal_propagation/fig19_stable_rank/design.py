"""Which eigenvalues of a layer's kernel are stored."""

KEPT = (1, 2, 3, 5, 8, 13, 20, 30, 50, 80, 120, 200)  # places of the eigenvalues that are stored
