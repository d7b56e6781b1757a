"""The representations of Figures 1 and 5, best first, as printed."""

NAMES = {"relu": "ReLU network", "rbf": "RBF network", "dictionary": "dictionary"}
OTHER = "rbf-other"  # the RBF network of another bandwidth
