"""What the studies of one chapter share about their targets: names, training, the start. No torch."""

from collections import Counter

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, UNDECIDED
from alignbook.over_seeds import at

STARTS = {"scratch": "random weights", "pretrained": "pre-trained weights"}  # of a network, and what they are


def named(name):
    """The image set and its part that a target's ``name`` stands for, as arguments of a unit."""
    dataset, _, part = name.partition("-")
    return {"dataset": dataset, "part": part or "all"}


def name_of(dataset, part):
    """The target's name, of which :func:`named` is the inverse."""
    return dataset if part == "all" else f"{dataset}-{part}"


def training_of(parameters):
    """Images, network, length and decay of training on a target, as arguments of a unit."""
    per_epoch = parameters["examples"] // parameters["batch_size"]
    return {
        **{name: parameters[name] for name in ("examples", "width", "blocks", "batch_size")},
        "steps": parameters["epochs"] * per_epoch,
        "decay_at": [epoch * per_epoch for epoch in parameters["decay_epochs"]],
    }


def start_of(parameters):
    """Source, length and images of pre-training, and the network, as arguments of a unit."""
    names = ("source", "pretrain_epochs", "pretrain_images", "width", "blocks")
    return {name: parameters[name] for name in names}


def of_target(table, name):
    """The rows of ``table`` of the target called ``name``, see :func:`named`."""
    return at(table, **named(name))


def of_source(table):
    """The rows in which the accuracy of the pre-trained networks on their own source is measured."""
    return at(table, kind="source")


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


def over_cases(outcomes, said, cases="targets"):
    """A sentence without its full stop: what holds of how many cases, and how the others came out.

    outcomes : of one statement's cases; said : {outcome: words}, one for each that a verdict can be
    cases : how they are called. None where no case has a verdict.
    """
    counts = Counter(outcomes)
    seen = next((one for one in (HOLDS, CONTRADICTED, ABSENT, UNDECIDED) if counts[one]), None)
    if seen is None:
        return None
    count = counts.pop(seen)
    others = ", ".join(f"{number} {outcome}" for outcome, number in counts.items())
    return said[seen] + (f" on {count} of {len(outcomes)} {cases} ({others})" if others else "")
