"""How this chapter's data sets are called in text."""

from companion.statements import over

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


by_set = over("datasets", NAMES, "dataset")  # cases of a statement
