"""What Figures 3 and 8 and Tables 1 to 3 fix, and the open choices. No torch."""

from pathlib import Path

import pandas as pd

# Tables 1 to 3: data set -> depth -> (learning rate, epochs, test accuracy)
PAPER_TABLES = {
    dataset: {row.depth: (row.rate, row.epochs, row.accuracy) for row in rows.itertuples()}
    for dataset, rows in pd.read_csv(Path(__file__).with_name("printed.csv")).groupby("dataset")
}
# Figure 8: setting -> (factor of the learning rate, factor of the batch size)
SETTINGS = {"tables": (1.0, 1), "low rate": (0.25, 1), "large batch": (1.0, 4)}
# What the paper names or contradicts itself on without settling it: setting -> arguments that change
CHOICES = {
    "no momentum": {"momentum": 0.0},
    "no decay": {"weight_decay": 0.0},
    "decay 0.005": {"weight_decay": 0.005},
    "width 256": {"width": 256},
}
# How the images of CIFAR-10 are prepared, which the paper does not say: setting -> crops and flips, too
CROPPED = "crops and flips"
PREPARED = {"standardised": False, CROPPED: True}
# What trains another network, or ends its training earlier: setting -> (a bias in every layer, final loss)
OPEN = {"biases": (True, 0.0), "stop at 0.1": (False, 0.1)}
PAIR_DEPTHS = range(10, 101, 10)  # Figure 3


def asked(names, dataset):
    """Those of the open choices ``names`` that are asked of ``dataset``, in the order of the page."""
    return [name for name in (*choices(dataset), *prepared(dataset), *OPEN) if name in names]


def choices(dataset):
    """The names of ``CHOICES`` that change something for ``dataset``: Table 1 has width 256 anyway."""
    return [name for name in CHOICES if (dataset, name) != ("cifar10", "width 256")]


def prepared(dataset):
    """The names of ``PREPARED`` where they are asked of ``dataset``: of CIFAR-10 alone."""
    return list(PREPARED) if dataset == "cifar10" else []
