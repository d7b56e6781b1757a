"""How this chapter's data sets are called in text."""

from companion.statements import Case

NAMES = {
    "mnist": "MNIST",
    "fashion_mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "ct_slices": "CT Position",
}


def title(dataset):
    """``MNIST`` of ``mnist``; the data set's own name where there is no other."""
    return NAMES.get(dataset, dataset)


def by_set(parameters):
    """Cases of a statement, one per data set, given as ``dataset``."""
    return [Case(name, title(name), {"dataset": name}) for name in parameters["datasets"]]
