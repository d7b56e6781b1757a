"""The exact equilibrium layer of real images, and new networks to hold it against (Figure 3, Section 3.3).

Nothing is fitted: both information losses of Lou et al. 2022 are those of the infinitely wide network on the
data's own pairs of images, and the layer is where their means are equal (κ = 1).
"""

import pandas as pd

from alignbook.data import load
from alignbook.seeding import torch_stream
from alignbook.training.fine_tune import crops_and_flips
from companion.jobs import jobs_over
from companion.studies.signal_propagation.shared.dense import images as pixels
from companion.studies.signal_propagation.shared.equilibrium_layer import (
    cosines_of,
    layer_of,
    losses_by_depth,
    supreme_losses,
)
from companion.studies.signal_propagation.shared.followed import followed

from .design import AS_IN_TABLES, CROPPED, KAPPA, KAPPAS


def jobs(parameters):
    """The layers of every data set, with crops where asked, and networks by depth, rate and seed."""
    p = parameters
    prepared = [(dataset, AS_IN_TABLES) for dataset in p["datasets"]]
    prepared += [(dataset, CROPPED) for dataset in p["cropped"]]
    made = []
    for dataset, setting in prepared:
        pairs = {"dataset": dataset, "setting": setting, "images": p["pair_images"], "depths": p["depths"]}
        name = f"pairs-{dataset}-{setting.replace(' ', '-')}-seed{{seed}}"
        made += jobs_over(name, compute_pairs, pairs, seed=range(p["pair_seeds"]))
    names = ("width", "batch_size", "momentum", "weight_decay", "epochs", "train_images", "alignment_images")
    shared = {name: p[name] for name in names}
    axes = {"dataset": p["new_datasets"], "learning_rate": p["rates"], "depth": p["new_depths"]}
    name = "{dataset}-depth{depth}-rate{learning_rate:g}-seed{seed}"
    return made + jobs_over(name, compute, shared, seed=range(p["seeds"]), **axes)


def compute_pairs(*, dataset, setting, images, depths, seed, device, report):
    """The exact equilibrium layer of ``images`` training images, all of whose pairs enter, at every depth.

    setting : ``tables``, pixels in [-1, 1]; ``crops and flips``, standardised by channel and cropped at
    random as the networks with that name see them.

    Rows of ``depth`` and ``statistic``: ``mean``, over pairs, at every ``kappa``; ``supremum`` as in
    Definition 3, at κ = 1. Column ``equilibrium``: the layer, from 1.
    """
    x = load(dataset, "train", n=images, seed=seed).x
    if setting == CROPPED:
        whole = load(dataset, "train").x
        over = {"dim": (0, 2, 3), "keepdim": True}
        x = crops_and_flips(
            (x - whole.mean(**over)) / whole.std(**over), torch_stream(seed, "exact peak", "crops")
        )
    cosines = cosines_of(x.flatten(1))
    rows, suprema = [], supreme_losses(cosines, depths)
    for depth, losses in losses_by_depth(cosines, depths).items():
        rows += [("mean", depth, kappa, layer_of(*losses, kappa)) for kappa in KAPPAS]
        rows.append(("supremum", depth, KAPPA, layer_of(*suprema[depth])))
    return pd.DataFrame(rows, columns=["statistic", "depth", "kappa", "equilibrium"])


def compute(
    *,
    dataset,
    depth,
    learning_rate,
    width,
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
    """A network on pixels in [-1, 1], with the rows of :func:`followed`. train_images : 0 for all."""
    return followed(
        pixels(dataset, "train", train_images, seed, device),
        pixels(dataset, "test", 0, seed, device),
        width=width,
        depth=depth,
        learning_rate=learning_rate,
        batch_size=batch_size,
        momentum=momentum,
        weight_decay=weight_decay,
        epochs=epochs,
        alignment_images=alignment_images,
        streams=[
            torch_stream(seed, "exact peak", purpose, depth) for purpose in ("weights", "order", "images")
        ],
        report=report,
    )
