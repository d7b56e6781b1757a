"""What Figure 18 fixes."""

PAPER_WIDTH = 2048  # Figure 18; the width at which ``rate`` is meant
