"""Where the alignment peaks, by learning rate, batch and optimiser (Lou et al. 2022, Figures 4, 11 to 15).

A unit is one network: family, learning rate, batch size, seed. Its table has one row per layer.
"""

import math

import numpy as np
import pandas as pd
import torch
from torch.nn import functional

from alignbook.claims import CONTRADICTED, HOLDS, OPPOSED, Claim, KeyNumber, interval
from alignbook.data import load
from alignbook.experiments import Unit
from alignbook.experiments.signal_propagation.dense import CLASSES, step_of
from alignbook.experiments.signal_propagation.small_deep import GOAL, evaluated, fit, images_of, network
from alignbook.kernels.mlp_sgd import MLP
from alignbook.kernels.products import float32_products
from alignbook.metrics.tangent_alignment import tangent_alignment
from alignbook.metrics.tangent_spectrum import matrix_alignment
from alignbook.seeding import torch_stream
from alignbook.training.loop import train

HEADLINE = "moves"
# family -> (name on the page, architecture, optimiser)
FAMILIES = {
    "dense": ("fully connected", None, "sgd"),
    "vgg19": ("VGG-19", "vgg19", "sgd"),
    "vgg19-adam": ("VGG-19 (Adam)", "vgg19", "adam"),
    "resnet18": ("ResNet-18", "resnet18", "sgd"),
    "resnet18-adam": ("ResNet-18 (Adam)", "resnet18", "adam"),
    "vgg19-second": ("VGG-19", "vgg19", "sgd"),
    "resnet18-second": ("ResNet-18", "resnet18", "sgd"),
}
SECOND = ("vgg19-second", "resnet18-second")  # on the second images
# Printed gaps on CIFAR-10, by panel: (family, rate, batch) -> (accuracy gap in points, loss gap).
# Of Figure 15's five loss gaps for four panels none can be told to belong to one.
PAPER = {
    ("vgg19", 0.0005, 128): (13.1, 0.560),
    ("vgg19", 0.001, 128): (12.3, 0.484),
    ("vgg19", 0.0032, 128): (8.89, 0.357),
    ("vgg19", 0.01, 128): (5.9, 0.224),
    ("vgg19-adam", 0.000032, 128): (17.4, 0.769),
    ("vgg19-adam", 0.0001, 128): (12.4, 0.557),
    ("vgg19-adam", 0.00032, 128): (11.9, 0.507),
    ("vgg19", 0.0032, 32): (4.7, 0.236),
    ("vgg19", 0.0032, 512): (11.3, 0.562),
    ("vgg19", 0.0032, 2048): (12.2, 0.652),
    ("resnet18", 0.001, 128): (10.79, None),
    ("resnet18", 0.003, 128): (9.28, None),
    ("resnet18", 0.01, 128): (4.39, None),
    ("resnet18", 0.02, 128): (5.5, None),
}
DECIMALS = 9
AXES = {"rate": "A higher learning rate", "batch": "A smaller batch"}


def conditions(parameters):
    """[(family, learning rate, batch size)], in the order of the figures; each once."""
    p = parameters
    wanted = [("dense", rate, batch) for rate in p["dense_rates"] for batch in p["dense_batches"]]
    wanted += [("vgg19", rate, p["batch_size"]) for rate in p["vgg_rates"]]
    wanted += [("vgg19", p["vgg_rate"], batch) for batch in p["vgg_batches"]]
    wanted += [("vgg19-adam", rate, p["batch_size"]) for rate in p["adam_rates"]]
    wanted += [("resnet18", rate, p["batch_size"]) for rate in p["resnet_rates"]]
    wanted += [("resnet18", p["resnet_rate"], batch) for batch in p["resnet_batches"]]
    wanted += [("resnet18-adam", rate, p["batch_size"]) for rate in p["resnet_adam_rates"]]
    wanted += [("resnet18-second", rate, p["batch_size"]) for rate in p["resnet_second_rates"]]
    wanted += [("vgg19-second", rate, p["batch_size"]) for rate in p["second_rates"]]
    return list(dict.fromkeys(wanted))


def units(parameters):
    """One network per family, learning rate, batch size and seed."""
    p = parameters
    shared = {name: p[name] for name in ("momentum", "weight_decay", "alignment_images", "test_images")}
    dense = {"dataset": p["dense_dataset"], "depth": p["dense_depth"], "width": p["dense_width"]}
    dense |= {"images": p["dense_images"], "epochs": p["dense_epochs"]}
    deep = {"width": p["width"], "side": p["side"], "images": p["images"], "epochs": p["epochs"]}
    made = []
    for family, rate, batch in conditions(p):
        arguments = shared | {"family": family, "learning_rate": rate, "batch_size": batch}
        if family == "dense":
            arguments |= dense
        else:
            arguments |= deep | {"dataset": p["dataset"]}
            if family in SECOND:
                arguments |= {"dataset": p["second_dataset"]}
                arguments["alignment_images"] = p["second_alignment_images"]
            if family == "vgg19-second":
                arguments["epochs"] = p["second_epochs"]
            arguments |= dict(zip(("architecture", "optimiser"), FAMILIES[family][1:], strict=True))
        for seed in range(p["seeds"]):
            name = f"{family}-rate{rate:g}-batch{batch}-seed{seed}"
            compute = compute_dense if family == "dense" else compute_deep
            made.append(Unit(name, compute, arguments | {"seed": seed}))
    return made


def compute_dense(
    *,
    family,
    dataset,
    depth,
    width,
    learning_rate,
    batch_size,
    images,
    epochs,
    momentum,
    weight_decay,
    alignment_images,
    test_images,
    seed,
    device,
    report,
):
    """A fully connected network (Eq. 8), trained by SGD to a loss of 0.1 or for ``epochs``.

    ``family`` only names the condition. One row per layer: layer (from 1), alignment (on training images);
    and per network passes (epochs taken), train_loss (mean of the last epoch, nats), train_accuracy,
    test_accuracy (0 to 1), test_loss. Raises Diverged.
    """
    chosen, test = load(dataset, "train", n=images or None, seed=seed), load(dataset, "test")
    x, y = chosen.x.flatten(1).to(device), chosen.y.to(device)
    x_test, y_test = (part[: test_images or None].to(device) for part in (test.x.flatten(1), test.y))
    mlp = MLP(x.shape[1], width, depth, CLASSES, torch_stream(seed, "fig04", "weights"), device=device)

    def accuracy_and_loss(inputs, labels):
        logits = mlp.logits(inputs)
        loss = functional.cross_entropy(logits, labels)
        return float((logits.argmax(1) == labels).double().mean()), float(loss)

    with float32_products():
        trained = train(
            step_of(mlp, x, y, momentum, weight_decay),
            len(x),
            batch_size=batch_size,
            epochs=epochs,
            rate=learning_rate,
            generator=torch_stream(seed, "fig04", "order"),
            device=device,
            until=lambda now: now.loss <= GOAL,
            report=report,
        )
        measured = accuracy_and_loss(x, y)[0], *accuracy_and_loss(x_test, y_test)
    sample = _sample(len(x), alignment_images, seed).to(device)
    return _table(tangent_alignment(mlp.sequential(), x[sample], y[sample]), trained, *measured)


def compute_deep(
    *,
    family,
    dataset,
    architecture,
    optimiser,
    width,
    side,
    learning_rate,
    batch_size,
    images,
    epochs,
    momentum,
    weight_decay,
    alignment_images,
    test_images,
    seed,
    device,
    report,
):
    """VGG-19 or ResNet-18 with batch normalisation, as :func:`compute_dense`, whose columns it has."""
    x, y, x_test, y_test, classes = images_of(
        dataset, images=images, test_images=test_images, side=side, label_noise=0.0, seed=seed
    )
    x, y, x_test, y_test = (values.to(device) for values in (x, y, x_test, y_test))
    net = network(architecture, x.shape[1:], classes, width=width, seed=seed).to(device)
    trained = fit(
        net,
        x,
        y,
        optimiser=optimiser,
        learning_rate=learning_rate,
        batch_size=batch_size,
        momentum=momentum,
        weight_decay=weight_decay,
        epochs=epochs,
        seed=seed,
        device=device,
        report=report,
    )
    sample = _sample(len(x), alignment_images, seed).to(device)
    measured = evaluated(net, x, y)[0], *evaluated(net, x_test, y_test)
    return _table(matrix_alignment(net, x[sample], y[sample]), trained, *measured)


def _sample(count, wanted, seed):
    return torch.randperm(count, generator=torch_stream(seed, "fig04", "alignment"))[:wanted]


def _table(alignment, trained, train_accuracy, test_accuracy, test_loss):
    return pd.DataFrame(
        {
            "layer": np.arange(1, len(alignment) + 1),
            "alignment": alignment,
            "passes": trained.epochs,
            "train_loss": trained.loss,
            "train_accuracy": train_accuracy,
            "test_accuracy": test_accuracy,
            "test_loss": test_loss,
        }
    )


def networks(table):
    """One row per network.

    Columns family, dataset, learning_rate, batch_size, seed, passes, train_loss and the accuracies;
    reached : whether the training loss came down to 0.1; layers : how many; peak : the layer (from 1) with
    the largest alignment; place : log2 of it; position : it from 0 (first layer) to 1 (last); height : that
    alignment; contrast : how many times the mean over the layers it is; accuracy_gap : training less test
    accuracy, in points; loss_gap : test less training loss, in nats.
    """
    rows = []
    keys = ["family", "dataset", "learning_rate", "batch_size", "seed"]
    measured = ["passes", "train_loss", "train_accuracy", "test_accuracy", "test_loss"]
    for key, layers in table.groupby(keys, sort=False) if len(table) else ():
        count = int(layers["layer"].max())
        layers = layers.dropna(subset="alignment")
        if layers.empty:
            continue
        top = layers.loc[layers["alignment"].idxmax()]
        rows.append(
            {
                **dict(zip(keys, key, strict=True)),
                **{name: top[name] for name in measured},
                "reached": top["train_loss"] <= GOAL,
                "layers": count,
                "peak": int(top["layer"]),
                "place": math.log2(top["layer"]),
                "position": (top["layer"] - 1) / max(1, count - 1),
                "height": top["alignment"],
                "contrast": top["alignment"] / layers["alignment"].mean(),
                "accuracy_gap": 100 * (top["train_accuracy"] - top["test_accuracy"]),
                "loss_gap": top["test_loss"] - top["train_loss"],
            }
        )
    names = [*keys, *measured, "reached", "layers", "peak", "place", "position", "height", "contrast"]
    names += ["accuracy_gap", "loss_gap"]
    return pd.DataFrame(rows, columns=names).astype({"reached": bool})


def slopes(nets, family, axis, column):
    """Change of ``column`` per doubling of the rate, or per halving of the batch, one per seed (a Series).

    Least squares over the networks of a family and seed that reached the loss, on log2 of the learning rate
    and of the batch size at once where both vary; no seed with fewer than two values along ``axis``.
    """
    names = {"rate": "learning_rate", "batch": "batch_size"}
    result = {}
    here = nets[(nets["family"] == family) & nets["reached"]]
    for seed, rows in here.groupby("seed"):
        varied = [name for name, key in names.items() if rows[key].nunique() > 1]
        if axis not in varied:
            continue
        logs = np.log2(rows[[names[name] for name in varied]].to_numpy(dtype=float))
        design = np.column_stack([np.ones(len(rows)), logs])
        if np.linalg.matrix_rank(design) < design.shape[1]:
            continue
        solved = np.linalg.lstsq(design, rows[column].to_numpy(dtype=float), rcond=None)[0]
        change = solved[1 + varied.index(axis)] * (1 if axis == "rate" else -1)
        result[seed] = round(float(change), DECIMALS) + 0.0  # peaks that all are the same: 0, not rounding
    return pd.Series(result, dtype=float)


def sweeps(parameters):
    """[(family, axis)] of what the parameters vary."""
    made = []
    for family in FAMILIES:
        here = [(rate, batch) for name, rate, batch in conditions(parameters) if name == family]
        for axis, position in (("rate", 0), ("batch", 1)):
            if len({pair[position] for pair in here}) > 1:
                made.append((family, axis))
    return made


def title(family, parameters):
    """``VGG-19, CIFAR-10``."""
    p = parameters
    dataset = p["dense_dataset"] if family == "dense" else p["dataset"]
    dataset = p["second_dataset"] if family in SECOND else dataset
    return f"{FAMILIES[family][0]}, {NAMES.get(dataset, dataset)}"


NAMES = {"fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
MOVES = "A higher learning rate or a smaller batch moves the peak towards the input."
GAPS = "A higher learning rate or a smaller batch goes with a smaller gap between training and test accuracy."
HEIGHTS = "A higher learning rate or a smaller batch makes the peak higher."
LOSS_GAPS = "A higher learning rate or a smaller batch goes with a smaller gap between the losses."
LOSSES = "Networks with a higher peak have a lower test loss (minus the correlation, within a seed)."
DEFINED = "A better defined peak goes with a smaller accuracy gap (minus the correlation, within a seed)."
AWAY = "A peak farther from the last layer goes with a smaller accuracy gap (correlation, within a seed)."
WHERE = "The peak lies early in fully connected networks, in the middle of VGG, near the end of ResNet-18."
# family -> (word, margin by which a position from 0 to 1 lies in that third of the network)
THIRDS = {
    "dense": ("first", lambda position: 1 / 3 - position),
    "vgg19": ("middle", lambda position: 1 / 6 - (position - 1 / 2).abs()),
    "resnet18": ("last", lambda position: position - 2 / 3),
}
SAID = {
    # id -> (column, its sign, what it does, statement, where)
    "moves": (
        "place",
        -1,
        "moves the peak towards the input (log2 of the layer",
        MOVES,
        "Figures 3 and 8",
    ),
    "gap": (
        "accuracy_gap",
        -1,
        "makes the accuracy gap smaller (points",
        GAPS,
        "Section 4, Figures 12 to 15",
    ),
    "loss-gap": (
        "loss_gap",
        -1,
        "makes the loss gap smaller (nats",
        LOSS_GAPS,
        "Figures 12 to 14",
    ),
    "higher": ("height", 1, "makes the largest alignment larger (A_l", HEIGHTS, "Section 4"),
}


def claims(table, parameters):
    """Place, gap and height along every sweep, height against test loss, SGD against Adam."""
    nets, made = networks(table), []
    if not sweeps(parameters):
        return [Claim.missing(HEADLINE, MOVES, SAID["moves"][-1], "one rate and one batch size only")]
    for id, (column, sign, does, statement, where) in SAID.items():
        for family, axis in sweeps(parameters):
            per = "per doubling" if axis == "rate" else "per halving"
            change = f"{AXES[axis][0].lower()}{AXES[axis][1:]}"
            said = f"{title(family, parameters)}: {change} {does}, {per})."
            values = sign * slopes(nets, family, axis, column)
            claim = _greater((f"{id}-{family}-{axis}", said, where), values)
            if id == HEADLINE and family == "dense" and len(values) and _before_centre(nets, family):
                claim = claim.opposed(
                    "Section 4 has the peak of Figure 4 shift towards the centre: away from the input where "
                    "it lies before the centre, as here"
                )
            made.append(claim.tagged(statement))
    for id, (first, second, sign, statement, where, ours) in WITHIN.items():
        for family in dict.fromkeys(family for family, _ in sweeps(parameters)):
            said = f"{title(family, parameters)}: {statement[0].lower()}{statement[1:]}"
            values = sign * within(nets, family, first, second)
            claim = _related((f"{id}-{family}", said, where), values)
            if id == "loss" and len(values):
                claim = claim.opposed("the caption of Figure 4 has the height go with a larger error")
            made.append(claim.tagged(statement, ours))
    return made + _of_adam(nets, parameters) + _places(nets, parameters)


WITHIN = {
    # id -> (column, column, sign of their correlation, statement, where, a reading of ours)
    "loss": (
        "height",
        "test_loss",
        -1,
        LOSSES,
        "Section 4",
        False,
    ),
    "defined": ("contrast", "accuracy_gap", -1, DEFINED, "our reading of Section 4", True),
    "away": ("position", "accuracy_gap", 1, AWAY, "our reading of Section 4", True),
}


def within(nets, family, first="height", second="test_loss"):
    """Correlation of two columns over a seed's networks that reached the loss (a Series)."""
    result = {}
    for seed, rows in nets[(nets["family"] == family) & nets["reached"]].groupby("seed"):
        if len(rows) > 2 and (rows[[first, second]].std() > 10**-DECIMALS).all():
            result[seed] = float(np.corrcoef(rows[first], rows[second])[0, 1])
    return pd.Series(result, dtype=float)


def _before_centre(nets, family):
    """Whether the peaks of the networks that reached the loss lie, in the mean, before the middle layer."""
    return nets.loc[(nets["family"] == family) & nets["reached"], "position"].mean() < 1 / 2


def _of_adam(nets, parameters):
    """Figure 13's caption: worse generalisation and less salient patterns than with SGD."""
    said = {
        "adam-gap": (
            "accuracy_gap",
            1,
            "Adam has larger accuracy gaps than SGD (points, means over the rates).",
        ),
        "adam-height": ("height", -1, "Adam has lower peaks than SGD (A_l, means over the rates)."),
    }
    made, reached = [], nets[nets["reached"] & (nets["batch_size"] == parameters["batch_size"])]
    for id, (column, sign, statement) in said.items():
        means = reached.groupby(["family", "seed"])[column].mean()
        for family, where in (("vgg19", "Figure 13"), ("resnet18", "as Figure 13, of VGG-19")):
            sgd, adam = (
                means[means.index.get_level_values("family") == name] for name in (family, f"{family}-adam")
            )
            values = sign * (adam.droplevel("family") - sgd.droplevel("family")).dropna()
            about = (f"{id}-{family}", f"{title(family, parameters)}: {statement}", where)
            made.append(_greater(about, values).tagged(statement))
    return made


def _places(nets, parameters):
    """In which third of the network the peak lies: Section 4's first, middle and last."""
    made, reached = [], nets[nets["reached"]]
    for family, (word, margin) in THIRDS.items():
        positions = reached.loc[reached["family"] == family, "position"]
        about = (
            f"where-{family}",
            f"{title(family, parameters)}: the peak lies in the {word} third of the layers (margin from that "
            "third's end, as a share of the network).",
            "Section 4, of Figure 4; the thirds are ours",
        )
        made.append(_greater(about, margin(positions), what="network").tagged(WHERE))
    return made


def _related(about, values):
    why = "fewer than three networks of a seed that reached the loss and differ in both"
    return Claim.greater(*about, values) if len(values) else Claim.missing(*about, why)


def _greater(about, values, what="seed"):
    why = "too few networks of a seed reached the training loss of 0.1"
    return Claim.greater(*about, values, what=what) if len(values) else Claim.missing(*about, why)


def finding(table, parameters):
    """In how many sweeps the gap shrinks and the peak moves towards the input, as the claims decide."""
    p = parameters
    few = f"{p['images']} images of {p['side']}×{p['side']}" if p["images"] else "all images"
    dense = f"{p['dense_images']} images" if p["dense_images"] else "all images"
    stand_in = f"Stand-in size: width {p['width']} (full: 64), {few}; fully connected: {dense}."
    judged = claims(table, parameters)
    gaps, losses, places = (
        [
            claim
            for claim in judged
            if claim.group == statement and claim.measured is not None and claim.outcome != OPPOSED
        ]
        for statement in (GAPS, LOSS_GAPS, MOVES)
    )
    if not places:
        return f"No sweep in which networks reached a training loss of {GOAL:g}. {stand_in}"
    return (
        f"Twice the rate or half the batch: accuracy gap {_decided(gaps, 'smaller', 'larger', ' sweeps')}; "
        f"loss gap {_decided(losses, 'smaller', 'larger')}; "
        f"peak {_decided(places, 'nearer the input', 'farther')}. {stand_in}"
    )


def _decided(judged, holds, disagrees, what=""):
    """``smaller in 3 of 7 sweeps, larger in 1, undecided in 3``, by the outcomes of claims."""
    counts = {outcome: sum(claim.outcome == outcome for claim in judged) for outcome in (HOLDS, CONTRADICTED)}
    undecided = len(judged) - sum(counts.values())
    said = f"{holds} in {counts[HOLDS]} of {len(judged)}{what}"
    said += f", {disagrees} in {counts[CONTRADICTED]}" if counts[CONTRADICTED] else ""
    return said + (f", undecided in {undecided}" if undecided else "")


def beside_printed(nets, parameters):
    """Printed gaps beside ours, one row per sweep and kind of gap (a data frame of texts).

    Columns network, over, gap, printed, here (each ``gap at value``, ours means over the seeds), and the
    change per doubling of the rate or halving of the batch, of the printed panels and ours.
    """
    rows = []
    for family, axis in (("vgg19", "rate"), ("vgg19-adam", "rate"), ("resnet18", "rate"), ("vgg19", "batch")):
        key = "learning_rate" if axis == "rate" else "batch_size"
        ours = along(nets, family, axis, parameters)
        ours = ours[ours["reached"]]
        for gap, column, form in (("accuracy (points)", "accuracy_gap", ".1f"), ("loss", "loss_gap", ".2f")):
            printed = printed_gaps(family, axis, column)
            if printed.empty:
                continue
            means = ours.groupby(key)[column].mean()
            rows.append(
                {
                    "network": title(family, parameters),
                    "over": "learning rate" if axis == "rate" else "batch size",
                    "gap": gap,
                    "printed": _at(printed, ".3g"),
                    "here": _at(means, form),
                    "printed, per doubling or halving": f"{printed_slope(family, axis, column):+{form}}",
                    "here, per doubling or halving": interval(
                        slopes(nets, family, axis, column), "{:+" + form + "}"
                    ),
                }
            )
    return pd.DataFrame(rows)


def _at(gaps, form):
    return ", ".join(f"{gap:{form}} ({f'{value:f}'.rstrip('0').rstrip('.')})" for value, gap in gaps.items())


def along(nets, family, axis, parameters):
    """The networks of a sweep: the other hyperparameter at its middle value, or at the one that is fixed."""
    p, here = parameters, nets[nets["family"] == family]
    other = "batch_size" if axis == "rate" else "learning_rate"
    if family == "dense":
        values = sorted(p["dense_batches"] if axis == "rate" else p["dense_rates"])
        fixed = values[len(values) // 2]
    elif axis == "rate":
        fixed = p["batch_size"]
    else:
        fixed = p["resnet_rate"] if family.startswith("resnet") else p["vgg_rate"]
    return here[here[other] == fixed]


def key_numbers(table, parameters):
    """Change of the accuracy gap per doubling of the rate: ours, and the printed panels' by the same fit."""
    nets, result = networks(table), []
    for family, axis in (("vgg19", "rate"), ("resnet18", "rate"), ("vgg19", "batch")):
        values = slopes(nets, family, axis, "accuracy_gap")
        if len(values):
            change = "doubling of the rate" if axis == "rate" else "halving of the batch"
            what = f"gap in points per {change}, {FAMILIES[family][0]}"
            result.append(KeyNumber(what, interval(values, "{:+.1f}"), f"{printed_slope(family, axis):+.1f}"))
    return result


def printed_gaps(family, axis, column="accuracy_gap"):
    """The gaps that the paper prints along a sweep: a Series over the rate or the batch size, ascending."""
    which = 0 if column == "accuracy_gap" else 1
    found = {}
    for (name, rate, batch), gaps in PAPER.items():
        fixed = batch == 128 if axis == "rate" else rate == 0.0032
        if name == family and fixed and gaps[which] is not None:
            found[rate if axis == "rate" else batch] = gaps[which]
    return pd.Series(found, dtype=float).sort_index()


def printed_slope(family, axis, column="accuracy_gap"):
    """:func:`slopes` of the accuracy gaps, or loss gaps, that the paper prints for one family."""
    which = 0 if column == "accuracy_gap" else 1
    rows = [
        {"family": name, "learning_rate": rate, "batch_size": batch, "gap": gaps[which], "seed": 0}
        for (name, rate, batch), gaps in PAPER.items()
        if gaps[which] is not None
    ]
    return float(slopes(pd.DataFrame(rows).assign(reached=True), family, axis, "gap").iloc[0])
