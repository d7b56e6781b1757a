"""What batch norm takes while the weights move, and the two starts."""

MODES = ("batch", "running", "settled")
RANDOM, PRETRAINED = "random", "pretrained"
CLASSES = {"cifar100": 100, "cifar10": 10, "photos": 10}  # of the data sets
