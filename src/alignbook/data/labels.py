"""Random labels and disjoint index sets."""

from operator import index

import torch


def random_labels(n, classes, generator):
    """Labels drawn uniformly and independently of the inputs (Maennel et al., Section 2.1; uniformly: A.1).

    n : number of labels; classes : number of classes; generator : CPU ``torch.Generator``.
    Returns (n,) int64 in 0 … classes - 1.
    """
    return torch.randint(classes, (n,), generator=generator)


def disjoint_splits(n_total, sizes, generator):
    """Random index sets without a common element.

    sizes : how many indices each set gets, integers (else TypeError); they may not add up to more than
    ``n_total`` (ValueError).
    Returns one (size,) int64 tensor per entry, indices in 0 … n_total - 1 in random order.
    """
    sizes = [index(size) for size in sizes]
    if min(sizes, default=0) < 0 or sum(sizes) > n_total:
        raise ValueError(f"cannot take disjoint sets of sizes {sizes} from {n_total} examples")
    order = torch.randperm(n_total, generator=generator)
    return list(order[: sum(sizes)].split(sizes))
