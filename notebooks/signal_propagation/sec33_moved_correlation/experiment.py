"""The Equilibrium Hypothesis put to the test: the inputs' correlation is moved, the depth is not.

Every image loses the mean image and its own mean pixel, is scaled to one length, and gets the same grey level
added. The grey level sets the cosines of all pairs: c + (1 - c) × what they were, at the same length √d. By
the hypothesis (Lou et al. 2022, Section 3.3) the layer that aligns best moves towards the input as c grows.
"""

import math

from alignbook.seeding import torch_stream
from companion.jobs import jobs_over
from companion.studies.signal_propagation.shared.dense import images
from companion.studies.signal_propagation.shared.followed import followed


def jobs(parameters):
    """One network per data set, depth, correlation and seed."""
    p = parameters
    names = "width learning_rate batch_size momentum weight_decay epochs train_images alignment_images"
    shared = {name: p[name] for name in names.split()}
    axes = {"dataset": p["datasets"], "depth": p["depths"], "cosine": p["cosines"]}
    name = "{dataset}-depth{depth}-cosine{cosine:g}-seed{seed}"
    return jobs_over(name, compute, shared, seed=range(p["seeds"]), **axes)


def compute(
    *,
    dataset,
    depth,
    cosine,
    width,
    learning_rate,
    batch_size,
    momentum,
    weight_decay,
    epochs,
    train_images,
    alignment_images,
    seed,
    device,
    report,
):
    """A network on images of mean cosine ``cosine``, followed: see :func:`followed` for the rows.

    Networks of one depth and seed start from the same weights and see the images in the same order, whatever
    the cosine. train_images : 0 for all; epochs : those after which layers are measured.
    """
    x, y = images(dataset, "train", train_images, seed, device)
    x_test, y_test = images(dataset, "test", 0, seed, device)
    return followed(
        (with_cosine(x, x.mean(0), cosine), y),
        (with_cosine(x_test, x.mean(0), cosine), y_test),
        width=width,
        depth=depth,
        learning_rate=learning_rate,
        batch_size=batch_size,
        momentum=momentum,
        weight_decay=weight_decay,
        epochs=epochs,
        alignment_images=alignment_images,
        streams=[
            torch_stream(seed, "moved correlation", purpose, depth)
            for purpose in ("weights", "order", "images")
        ],
        report=report,
    )


def with_cosine(x, mean, cosine):
    """Rows of length √d whose pairwise cosines are ``cosine`` + (1 - ``cosine``) × those without ``mean``.

    x : (n, d) tensor; mean : (d,). A constant is added to all pixels of rows without a mean of their own.
    """
    rows = x - mean
    rows = rows - rows.mean(1, keepdim=True)
    rows = rows / rows.norm(dim=1, keepdim=True).clamp_min(1e-12)
    return math.sqrt((1 - cosine) * x.shape[1]) * rows + math.sqrt(cosine)
