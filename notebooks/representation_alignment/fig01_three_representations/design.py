"""A representation of Figure 1 that the paper has not."""

OTHER = "rbf-other"  # the RBF network of another bandwidth
