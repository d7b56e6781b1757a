"""The targets on a page: which rows of a table are whose, and what a sentence calls them."""

import pandas as pd

from companion.over_seeds import at
from companion.studies.transferability.shared.targets import named


def of_target(table, name):
    """The rows of ``table`` of the target called ``name``, see :func:`named`."""
    return at(table, **named(name))


def of_source(table):
    """The rows in which the accuracy of the pre-trained networks on their own source is measured."""
    return at(table, kind="source")


def source_of(table, parameters):
    """The same, or what another page's runs have stored of networks that are pre-trained alike.

    By seed; of the seeds that no page has measured there is nothing.
    """
    rows = of_source(table)
    if len(rows):
        return rows
    from companion.runs import results
    from companion.studies.transferability.shared.pretrained_source import source_jobs  # imports torch

    jobs = source_jobs({**parameters, "source_accuracy": True, "seeds": _seeds(parameters)})
    found = [results.fetch(job) for job in jobs if results.exists(job)]
    return pd.concat([rows, *(item.table for item in found if item is not None)], ignore_index=True)


def _seeds(parameters):
    """The most seeds that a part of the page has."""
    return max(value for name, value in parameters.items() if name.endswith("seeds"))


def words(target):
    """How a sentence calls a target: ``cifar10-natural`` is half of a set."""
    dataset, _, part = target.partition("-")
    called = {
        "cifar10": "CIFAR-10",
        "cifar100": "CIFAR-100",
        "fashion_mnist": "Fashion-MNIST",
        "mnist": "MNIST",
    }
    halves = {"natural": "animals of ", "artificial": "objects of "}
    return f"{halves.get(part, '')}{called.get(dataset, dataset)}"


def source_said(table, parameters):
    """A sentence on how well the pre-trained networks classify images of their own source."""
    rows = source_of(table, parameters)
    if rows.empty:
        return "The accuracy of the pre-trained networks on their own source has not been measured."
    test, train = (rows[f"source_{split}_accuracy"].mean() for split in ("test", "train"))
    asked = _seeds(parameters)
    some = f" ({len(rows)} of {asked} measured)" if len(rows) < asked else ""
    return (
        f"The pre-trained networks{some} classify {test:.0f} % of their source's test images and "
        f"{train:.0f} % of its training images correctly."
    )
