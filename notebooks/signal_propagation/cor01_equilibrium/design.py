"""What Corollary 1 and Figure 3 fix."""

FIGURE_3_DEPTHS = range(10, 101, 10)  # Figure 3: depth 10j, j = 1, ..., 10
PAPER_SLOPE = 3 / 5  # Corollary 1
