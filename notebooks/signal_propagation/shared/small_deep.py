"""VGG-19 and ResNet-18 at a width and image size that two cores can train (Lou et al. 2022, Section 4 and G).

The layer lists are the networks' own; ``width`` and the side of the images are not.
"""

import torch
from torch.nn import functional

from alignbook.data import load
from alignbook.data.labels import random_labels
from alignbook.seeding import torch_stream
from alignbook.training.deep import VGG, ResNet18
from alignbook.training.fine_tune import accuracy_and_loss
from alignbook.training.loop import module_step, train
from alignbook.training.nets import he_normal_

from .stopping import GOAL

EVALUATION_BATCH = 500


def images_of(dataset, *, images, test_images, side, label_noise, seed):
    """(x, y, x_test, y_test, classes) of ``images`` drawn by the seed, first ``test_images``; 0: all.

    x : (n, C, side, side), means over squares of the images' pixels, whose side ``side`` must divide.
    A share ``label_noise`` of the training labels is drawn anew, uniformly; those of the test set are not.
    """
    chosen, test = load(dataset, "train", n=images or None, seed=seed), load(dataset, "test")
    y, classes = chosen.y.clone(), len(chosen.classes)
    count = round(label_noise * len(y))
    which = torch.randperm(len(y), generator=torch_stream(seed, "label noise"))[:count]
    y[which] = random_labels(count, classes, torch_stream(seed, "noisy labels"))
    x, x_test = (
        functional.avg_pool2d(values, values.shape[-1] // side)
        for values in (chosen.x, test.x[: test_images or None])
    )
    return x, y, x_test, test.y[: test_images or None], classes


def network(architecture, in_shape, classes, *, width, seed):
    """``vgg19`` or ``resnet18`` with batch normalisation, He's initialisation, channels last."""
    if architecture == "vgg19":
        net = VGG(19, in_shape, classes, width=width, norm="batch")
    else:
        net = ResNet18(in_shape, classes, width=width, norm="batch")
    he_normal_(net, 1.0, torch_stream(seed, "small deep", architecture, "weights"))
    return net.to(memory_format=torch.channels_last)


def fit(
    net, x, y, *, optimiser, learning_rate, batch_size, momentum, weight_decay, epochs, seed, device, report
):
    """Train ``net`` at a constant rate until an epoch's mean loss is at most ``GOAL``, or for ``epochs``.

    optimiser : ``sgd`` with ``momentum``, or ``adam`` with PyTorch's moments, each with ``weight_decay``.
    Returns the loop's Trained. Raises Diverged when the loss is not finite.
    """
    if optimiser == "adam":
        chosen = torch.optim.Adam(net.parameters(), learning_rate, weight_decay=weight_decay)
    else:
        chosen = torch.optim.SGD(net.parameters(), learning_rate, momentum, weight_decay=weight_decay)
    return train(
        module_step(net, x, y, chosen),
        len(x),
        batch_size=batch_size,
        epochs=epochs,
        rate=learning_rate,
        generator=torch_stream(seed, "small deep", "order"),
        device=device,
        until=lambda now: now.loss <= GOAL,
        report=report,
    )


def evaluated(net, x, y):
    """(accuracy, loss) in evaluation mode: a share, and nats."""
    return accuracy_and_loss(net, x, y, EVALUATION_BATCH)
