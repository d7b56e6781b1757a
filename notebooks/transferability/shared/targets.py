"""What the studies of one chapter share about their targets: names, training, the start."""

# How many classes each target has; the tests compare it with the images.
CLASSES = {
    **dict.fromkeys(("cifar10", "fashion_mnist", "mnist", "shapes", "digits", "photos"), 10),
    **{"cifar100": 100, "cifar100-natural": 30, "cifar100-artificial": 30},
    **dict.fromkeys(("cifar10-natural", "cifar10-artificial"), 4),
    **dict.fromkeys(("photos-natural", "photos-artificial"), 5),
}
STARTS = {"scratch": "random weights", "pretrained": "pre-trained weights"}  # of a network, and what they are


def named(name):
    """The image set and its part that a target's ``name`` stands for, as arguments of a job."""
    dataset, _, part = name.partition("-")
    return {"dataset": dataset, "part": part or "all"}


def name_of(dataset, part):
    """The target's name, of which :func:`named` is the inverse."""
    return dataset if part == "all" else f"{dataset}-{part}"


def training_of(parameters):
    """Images, network, length and decay of training on a target, as arguments of a job."""
    per_epoch = parameters["examples"] // parameters["batch_size"]
    return {
        **{name: parameters[name] for name in ("examples", "width", "blocks", "batch_size")},
        "steps": parameters["epochs"] * per_epoch,
        "decay_at": [epoch * per_epoch for epoch in parameters["decay_epochs"]],
    }


def start_of(parameters):
    """Source, length and images of pre-training, and the network, as arguments of a job."""
    names = ("source", "pretrain_epochs", "pretrain_images", "width", "blocks")
    return {name: parameters[name] for name in names}
