"""What the three convolutions are at the start of the second task."""

RANDOM, COMPUTED = "random", "computed"
PRETRAINED = "pre-trained {}"  # for so many epochs


def starts(epochs):
    """The starts, in the order of the page; ``epochs`` of pre-training."""
    return [RANDOM, COMPUTED, *(PRETRAINED.format(count) for count in sorted(epochs))]
