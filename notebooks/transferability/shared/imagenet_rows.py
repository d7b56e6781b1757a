"""The rows of a stored table that belong to the second source, EfficientNet-Lite0. No torch."""

NAME = "EfficientNet-Lite0"


def own(table):
    """The rows of our own source alone."""
    return table[table["weights"].isna()] if "weights" in table else table


def imagenet(table):
    """The rows of the second source alone; none where there is no such column."""
    return table[table["weights"].notna()] if "weights" in table else table.iloc[:0]


def trained(table):
    """Of the second source's rows those from ImageNet's weights: the network in their place shows nothing."""
    return table[table["weights"] == "imagenet"] if "weights" in table else table.iloc[:0]
