"""Every layer's alignment while a network trains, and at the end (Lou et al. 2022, Figures 1, 2, 7, 9, 10).

A unit is one network: data set, depth, learning rate, seed. Its table has one row per record and layer.
"""

import math

import numpy as np
import pandas as pd
import torch
from torch.nn import functional

from alignbook.claims import Claim, KeyNumber, interval
from alignbook.data import load
from alignbook.experiments import Unit
from alignbook.kernels.mlp_sgd import MLP
from alignbook.kernels.products import float32_products
from alignbook.metrics.tangent_alignment import tangent_alignment
from alignbook.seeding import torch_stream
from alignbook.studies.signal_propagation.dense import CLASSES, NAMES, step_of
from alignbook.studies.signal_propagation.fig03_peak_law.experiment import LEARNED
from alignbook.training.loop import train

HEADLINE = "hierarchy"
EARLY = 2.0  # epochs: Appendix B.4, "≈ 2 epochs of batch training"
# Figures 9 (c) and 10 (c), rate 0.05: data set -> (test accuracy, test loss)
PAPER = {"fashion_mnist": (0.871, 0.41), "cifar10": (0.514, 1.41)}
PAPER_RATE = 0.05
ACCURACY_MARGIN = 0.02  # as in Figure 3's tables

STATEMENT = (
    "The alignment rises within the first two epochs and then changes less, and it ends largest in a "
    "hidden layer."
)


def units(parameters):
    """One network per data set, depth, learning rate and seed."""
    p = parameters
    wanted = [(dataset, p["depth"], p["learning_rate"]) for dataset in p["datasets"]]
    wanted += [(dataset, p["deep"], p["learning_rate"]) for dataset in p["deep_datasets"]]
    wanted += [(dataset, p["depth"], rate) for dataset in p["rate_datasets"] for rate in p["rates"]]
    names = "width batch_size epochs record momentum weight_decay train_images alignment_images test_images"
    shared = {name: p[name] for name in names.split()}
    return [
        Unit(
            f"{dataset}-depth{depth:03d}-rate{rate:g}-seed{seed}",
            compute,
            {"dataset": dataset, "depth": depth, "learning_rate": rate, "seed": seed, **shared},
        )
        for dataset, depth, rate in dict.fromkeys(wanted)
        for seed in range(p["seeds"])
    ]


def compute(
    *,
    dataset,
    depth,
    width,
    learning_rate,
    batch_size,
    epochs,
    record,
    momentum,
    weight_decay,
    train_images,
    alignment_images,
    test_images,
    seed,
    device,
    report,
):
    """Train one network of Eq. 8 by SGD at a constant rate and measure A_l (Eq. 7) on the way.

    train_images : drawn by the seed, 0 for all; A_l and the training loss are taken on ``alignment_images``
    of them. test_images : the first ones, 0 for all. record : epochs, which may be fractions; before
    training and the end are added, and epochs past the end left out.

    One row per record and layer: step, epoch, layer (1 to depth), alignment; and per record train_loss,
    test_loss (nats) and test_accuracy (0 to 1). Raises Diverged when a loss is not finite.
    """
    images = load(dataset, "train", n=train_images or None, seed=seed)
    test = load(dataset, "test")
    x, y = images.x.flatten(1).to(device), images.y.to(device)
    x_test, y_test = (values[: test_images or None].to(device) for values in (test.x.flatten(1), test.y))
    mlp = MLP(x.shape[1], width, depth, CLASSES, torch_stream(seed, "fig02", "weights", depth), device=device)
    sample = torch.randperm(len(x), generator=torch_stream(seed, "fig02", "alignment"))[:alignment_images]
    x_sample, y_sample = x[sample.to(device)], y[sample.to(device)]
    per_epoch = math.ceil(len(x) / batch_size)
    last = epochs * per_epoch
    tables = []

    def measure(step):
        logits = mlp.logits(x_test)
        tables.append(
            pd.DataFrame(
                {
                    "step": step,
                    "epoch": step / per_epoch,
                    "layer": np.arange(1, depth + 1),
                    "alignment": tangent_alignment(mlp.sequential(), x_sample, y_sample),
                    "train_loss": float(functional.cross_entropy(mlp.logits(x_sample), y_sample)),
                    "test_loss": float(functional.cross_entropy(logits, y_test)),
                    "test_accuracy": float((logits.argmax(1) == y_test).double().mean()),
                }
            )
        )

    with float32_products():
        train(
            step_of(mlp, x, y, momentum, weight_decay),
            len(x),
            batch_size=batch_size,
            epochs=epochs,
            rate=learning_rate,
            generator=torch_stream(seed, "fig02", "order", depth),
            device=device,
            at={0, last, *(round(epoch * per_epoch) for epoch in record)},
            on=measure,
            report=report,
        )
    return pd.concat(tables, ignore_index=True)


def networks(table):
    """One row per network.

    Columns dataset, depth, learning_rate, seed; learned (test accuracy of at least twice chance at the end);
    peak, peak_init : the layer (from 1) with the largest alignment at the end and before training;
    rise : by how much the alignment of that layer (of the end) grew from the start to the last record within
    the first two epochs; late : by how much it changed from there to the end;
    hidden : largest alignment of a layer between the first and the last, less the larger of these two's;
    ends : smallest alignment of a layer between them, less the smaller of these two's;
    middle : mean alignment of the middle half of the layers, less the others'; all three at the end;
    test_accuracy, test_loss : at the end.
    """
    rows = []
    keys = ["dataset", "depth", "learning_rate", "seed"]
    for key, rows_of in table.groupby(keys, sort=False) if len(table) else ():
        curves = rows_of.pivot(index="epoch", columns="layer", values="alignment").sort_index()
        end, depth = curves.iloc[-1], len(curves.columns)
        at_end = rows_of[rows_of["epoch"] == curves.index[-1]].iloc[0]
        if not end.notna().any():
            continue
        peak = int(end.idxmax())
        early = curves[peak][curves.index <= EARLY].iloc[-1]
        inner, outer = end.iloc[1:-1], end.iloc[[0, -1]]
        quarter = depth // 4
        middle = end.iloc[quarter : depth - quarter]
        rows.append(
            {
                **dict(zip(keys, key, strict=True)),
                "learned": at_end["test_accuracy"] >= LEARNED,
                "peak": peak,
                "peak_init": curves.iloc[0].idxmax() if curves.iloc[0].notna().any() else math.nan,
                "largest": end[peak],
                "rise": early - curves[peak].iloc[0],
                "late": end[peak] - early,
                "hidden": inner.max() - outer.max(),
                "ends": inner.min() - outer.min(),
                "middle": middle.mean() - end.drop(middle.index).mean(),
                "test_accuracy": at_end["test_accuracy"],
                "test_loss": at_end["test_loss"],
            }
        )
    names = [*keys, "learned", "peak", "peak_init", "largest", "rise", "late", "hidden", "ends", "middle"]
    return pd.DataFrame(rows, columns=[*names, "test_accuracy", "test_loss"]).astype({"learned": bool})


def conditions(parameters):
    """[(data set, depth)] of the networks at the figures' rate, those of Figures 2 and 7 first."""
    p = parameters
    pairs = [(dataset, p["depth"]) for dataset in p["datasets"]]
    return list(dict.fromkeys(pairs + [(dataset, p["deep"]) for dataset in p["deep_datasets"]]))


def chosen(nets, dataset, depth, rate):
    """The networks of one condition that learned, by seed."""
    here = nets[(nets["dataset"] == dataset) & (nets["depth"] == depth) & (nets["learning_rate"] == rate)]
    return here[here["learned"]].sort_values("seed")


def title(dataset, depth):
    """``MNIST, 10 layers``."""
    return f"{NAMES.get(dataset, dataset)}, {depth} layers"


def claims(table, parameters):
    """Rise and hidden peak per network kind; where it is large and small; the rate; printed accuracies."""
    p, nets, made = parameters, networks(table), []
    for dataset, depth in conditions(p):
        here, name = chosen(nets, dataset, depth, p["learning_rate"]), title(dataset, depth)
        id = f"{dataset}-{depth}"
        rises = (
            f"hierarchy-rises-{id}",
            f"{name}: the alignment of the layer that ends highest rises by more in the first two epochs "
            "than it changes in all later ones (difference of the two).",
            "Figure 2, Section 2.3, Appendix B.4",
        )
        hidden = (
            f"hierarchy-hidden-{id}",
            f"{name}: at the end a hidden layer is above both the first and the last (by how much).",
            "Figures 1, 2 and 7, Section 2.3",
        )
        made += [
            _greater(rises, here["rise"] - here["late"].abs()).tagged(STATEMENT),
            _greater(hidden, here["hidden"]).tagged(STATEMENT),
        ]
        for kind, statement in SHAPES.items():
            about = (f"{kind}-{id}", f"{name}: {statement[0].lower()}{statement[1:]}", "Sections 1 and 2.3")
            made.append(_greater(about, here[kind]).tagged(statement, ours=kind == "middle"))
    for dataset in p["rate_datasets"]:
        made += _of_rates(nets, dataset, p)
    return made


SHAPES = {
    "ends": "The smallest alignment is that of the first or the last layer (the others' above it).",
    "middle": "The middle half of the layers aligns better than the outer half (difference of the means).",
}
EARLIER = "A higher learning rate moves the peak towards the input (layers, highest rate against lowest)."
PRINTED = "One run of ours could have given the printed test accuracy (0 to 1) at rate 0.05."
PRINTED_LOSS = "One run of ours could have given the printed test loss (nats) at rate 0.05."


def _greater(about, values, why="no network learned"):
    return Claim.greater(*about, values) if len(values) else Claim.missing(*about, why)


def moved(nets, dataset, parameters):
    """Series over seeds: peak at the lowest rate less peak at the highest, where both networks learned."""
    rates = sorted(parameters["rates"])
    low, high = (
        chosen(nets, dataset, parameters["depth"], rate).set_index("seed")["peak"]
        for rate in (rates[0], rates[-1])
    )
    return (low - high).dropna()


def _of_rates(nets, dataset, p):
    name = title(dataset, p["depth"])
    about = (f"earlier-{dataset}", f"{name}: {EARLIER[0].lower()}{EARLIER[1:]}", "Figures 3 and 8")
    made = []
    if len(set(p["rates"])) > 1:
        made.append(_greater(about, moved(nets, dataset, p), "no seed learned at both rates").tagged(EARLIER))
    if dataset in PAPER and PAPER_RATE in p["rates"]:
        here, whole = chosen(nets, dataset, p["depth"], PAPER_RATE), p["train_images"] == 0
        why = "fewer training images and epochs than the paper's: shown as measured, not judged"
        for place, (id, column, group, margin, bounds) in enumerate(
            (
                ("printed", "test_accuracy", PRINTED, ACCURACY_MARGIN, (0.0, 1.0)),
                ("printed-loss", "test_loss", PRINTED_LOSS, None, (0.0,)),
            )
        ):
            printed, statement = PAPER[dataset][place], f"{name}: {group[0].lower()}{group[1:]}"
            about = (f"{id}-{dataset}", statement, "Figures 9 (c) and 10 (c)")
            if len(here) == 0:
                claim = Claim.missing(*about, "no network learned", paper=printed)
            else:
                claim = Claim.one_run(*about, here[column], printed, margin).within(*bounds)
                claim = claim if whole else claim.not_judged(why)
            made.append(claim.tagged(group))
    return made


def finding(table, parameters):
    """Where the peaks end, and how much of their height came early."""
    p, nets = parameters, networks(table)
    places, rise, late = {}, [], []
    for dataset, depth in conditions(p):
        here = chosen(nets, dataset, depth, p["learning_rate"])
        if len(here):
            low, high = here["peak"].min(), here["peak"].max()
            peak = f"{low}" if low == high else f"{low} to {high}"
            places.setdefault(depth, []).append(f"{peak} ({NAMES.get(dataset, dataset)})")
            rise.append(here["rise"].mean())
            late.append(here["late"].mean())
    if not places:
        return "No network learned."
    peaks = "; ".join(f"with {depth} layers in layer {', '.join(found)}" for depth, found in places.items())
    without = "" if "kmnist" in p["datasets"] else " KMNIST could not be had."
    return (
        f"The alignment ends highest {peaks}. There it gains {min(rise):.3f} to {max(rise):.3f} in the first "
        f"two epochs, {min(late):+.3f} to {max(late):+.3f} later.{without}"
    )


def key_numbers(table, parameters):
    """The test accuracies and losses that the paper prints, at rate 0.05; the peak's gain in two epochs."""
    p, nets, result = parameters, networks(table), []
    for dataset in p["rate_datasets"]:
        here = chosen(nets, dataset, p["depth"], PAPER_RATE)
        if len(here) and dataset in PAPER:
            accuracy = interval(100 * here["test_accuracy"], "{:.1f}", (0, 100))
            loss = interval(here["test_loss"], within=(0, np.inf))
            name = f"test accuracy in % / test loss, {NAMES.get(dataset, dataset)}, rate {PAPER_RATE:g}"
            printed = f"{100 * PAPER[dataset][0]:.1f} / {PAPER[dataset][1]:g}"
            result.append(KeyNumber(name, f"{accuracy} / {loss}", printed))
    first = [chosen(nets, *condition, p["learning_rate"]) for condition in conditions(p)[:1]]
    if len(result) < 3 and first and len(first[0]):
        name = f"gain in two epochs / later, {title(*conditions(p)[0])}"
        gains = " / ".join(interval(first[0][column]) for column in ("rise", "late"))
        result.append(KeyNumber(name, gains))
    return result[:3]
