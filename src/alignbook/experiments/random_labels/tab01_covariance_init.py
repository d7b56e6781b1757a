"""Tables 1 to 7 of Maennel et al. 2020: filters computed from the data's covariances (Section 2.5, E.3)."""

from dataclasses import replace

import numpy as np
import pandas as pd

from alignbook import data
from alignbook.claims import Claim, KeyNumber, interval
from alignbook.experiments import Unit
from alignbook.seeding import torch_stream
from alignbook.training.initialise import covariance_filters_, eigenvector_filters, sampled_filters
from alignbook.training.nets import SimpleCNN, he_normal_
from alignbook.training.train import accuracy, fit
from alignbook.training.transfer import copy_convolutions_, layer_norms, rescale_

FILTERS, UNITS = 16, 512  # E.3: three convolutions of 16 filters, a dense layer of 512 units

# τ₁ … τ₁₆. Figure 23 draws f1 and f3 and prints no number. The text says that f1 downweights the
# largest eigenvalue, f3 does so less, and the values lie between 1 and 4; Figure 4 rises, then falls.
CURVES = {
    "f1": [1.0, 2.0, 3.0, *np.linspace(4, 1, 13).tolist()],
    "f2": [1.0] * 16,
    "f3": [3.0, *np.linspace(4, 1, 15).tolist()],
}

# initialisation -> (how filters are made, curve, first eigenvector of each layer counted from 0)
COVARIANCE = {
    "f1": (eigenvector_filters, "f1", (0, 0, 0)),
    "f2": (eigenvector_filters, "f2", (0, 0, 0)),
    "f3": (eigenvector_filters, "f3", (0, 0, 0)),
    "sampled": (sampled_filters, "f2", (0, 0, 0)),
    "smallest": (eigenvector_filters, "f2", (-16, -16, -16)),
    "shifted": (eigenvector_filters, "f2", (3, 9, 9)),  # e4 … e19, e10 … e25
}

# The printed accuracies: table -> (initialisation, {(iterations, part): columns {1}, {1, 2}, {1, 2, 3}}).
# Table 1 is in Section 2.5, the others in Appendix E.3.
PAPER = {
    1: (
        "f1",
        {
            (100, "train"): (0.34, 0.38, 0.41),
            (100, "test"): (0.33, 0.37, 0.40),
            (1000, "train"): (0.61, 0.67, 0.68),
            (1000, "test"): (0.55, 0.56, 0.56),
        },
    ),
    2: (
        "f2",
        {
            (100, "train"): (0.29, 0.37, 0.44),
            (100, "test"): (0.29, 0.37, 0.43),
            (1000, "train"): (0.59, 0.65, 0.68),
            (1000, "test"): (0.55, 0.56, 0.59),
        },
    ),
    3: (
        "f3",
        {
            (100, "train"): (0.30, 0.37, 0.44),
            (100, "test"): (0.29, 0.37, 0.42),
            (1000, "train"): (0.61, 0.64, 0.72),
            (1000, "test"): (0.55, 0.58, 0.56),
        },
    ),
    4: (
        "sampled",
        {
            (100, "train"): (0.29, 0.37, 0.41),
            (100, "test"): (0.29, 0.36, 0.40),
            (1000, "train"): (0.57, 0.62, 0.69),
            (1000, "test"): (0.54, 0.54, 0.56),
        },
    ),
    5: (
        "smallest",
        {
            (100, "train"): (0.15, 0.14, 0.15),
            (100, "test"): (0.15, 0.14, 0.15),
            (1000, "train"): (0.50, 0.48, 0.47),
            (1000, "test"): (0.46, 0.47, 0.44),
        },
    ),
    6: (
        "shifted",
        {
            (100, "train"): (0.17, 0.20, 0.27),
            (100, "test"): (0.18, 0.20, 0.26),
            (1000, "train"): (0.56, 0.60, 0.62),
            (1000, "test"): (0.53, 0.56, 0.59),
        },
    ),
    7: (
        "pretrained",
        {
            (100, "train"): (0.37, 0.39, 0.41),
            (100, "test"): (0.34, 0.37, 0.39),
            (1000, "train"): (0.70, 0.75, 0.78),
            (1000, "test"): (0.51, 0.53, 0.57),
        },
    ),
}
# The column {} is the same in all seven tables.
PAPER_STANDARD = {(100, "train"): 0.31, (100, "test"): 0.31, (1000, "train"): 0.58, (1000, "test"): 0.53}
CELL = ["initialisation", "layers", "iterations", "part"]
# Statements that several claims share.
AS_PRINTED = "One run of ours could have given the printed accuracies (mean over the cells of a table)."
RISES = "Accuracy rises with every further layer of computed filters (f1)."
RISE_ELSEWHERE = "Accuracy rises with every further layer (f2, f3, sampled), where the printed means rise."
ALIKE = "With two or three layers computed, the curves f1, f2 and f3 give the same accuracy."
FIRST = "With only the first layer computed, f1 is the best of the three curves."
SHIFTED = "Without the largest eigenvectors, accuracy is below that of random initialisation."
MATCH = "Three computed layers (f1) match three layers pre-trained on random labels."
TITLES = {"standard": "the column {} (He's initialisation everywhere)"}
TITLES |= {name: f"table {n}" for n, (name, _) in PAPER.items()}

# What a variation changes, and the cells (initialisation, layers) and iterations where it is tried.
VARIATIONS = [
    ({"schedule": "constant"}, [("standard", 0), ("f2", 3)], None),  # None: all iteration counts
    ({"padding": "valid"}, [("standard", 0), ("f2", 3)], None),
    ({"pool": "valid"}, [("standard", 0), ("f2", 3)], 1),
    ({"init_scale": 0.5}, [("standard", 0), ("f2", 3)], 1),
    ({"filter_scale": "he"}, [("f2", 1), ("f2", 3), ("shifted", 1)], 1),
    ({"filter_scale": "he"}, [("f3", 3), ("sampled", 3), ("smallest", 3)], None),
    ({"filter_scale": "raw"}, [("f1", 3), ("sampled", 3)], 1),
    ({"centred": False}, [("f2", 3), ("shifted", 1)], 1),
    ({"patch_stride": 1}, [("f2", 3), ("shifted", 1), ("shifted", 3)], 1),
    ({"first_number": 0}, [("shifted", 1), ("shifted", 2), ("shifted", 3)], None),
    ({"pretrain_epochs": 10}, [("pretrained", 3)], 1),
    ({"pretrain_epochs": 120}, [("pretrained", 3)], None),
    ({"precision": "float32"}, [("standard", 0)], 1),
    ({"precision": "float32"}, [("f2", 3), ("smallest", 2), ("smallest", 3)], None),
]

# Other ways to pre-train for Table 7, with three layers: name of the units -> (what changes, whether the
# layers are scaled back before they are handed over). The rate 0.01 and the scale 0.518 are those of A.10.
PRETRAINING = {
    "rate": ({"pretrain_rate": 0.01}, [False, True]),
    "unscaled": ({}, [False]),
    "joint": ({"schedule": "constant", "init_scale": 0.518}, [True]),
}
TABLE_7 = "table7-"  # what the names of their units begin with


def standard(*, seed, iterations, device, report, **protocol):
    """The column {}: He's initialisation everywhere. Arguments and table: see :func:`units`."""
    images = _images(seed, protocol, device)
    return _downstream(lambda net: net, "standard", 0, images, seed, iterations, protocol, report)


def from_covariance(
    *,
    initialisation,
    layers,
    filter_scale,
    centred,
    patch_stride,
    seed,
    iterations,
    device,
    report,
    **protocol,
):
    """Tables 1 to 6: the first ``layers`` convolutions computed from the training images."""
    images = _images(seed, protocol, device)
    make, curve, first = COVARIANCE[initialisation]

    def prepare(net):
        return covariance_filters_(
            net,
            images["x"],
            layers,
            make=make,
            tau=CURVES[curve],
            first=first,
            filter_scale=filter_scale,
            centred=centred,
            stride=patch_stride,
            generator=torch_stream(seed, "tab01", "filters"),
        )

    return _downstream(prepare, initialisation, layers, images, seed, iterations, protocol, report)


def shifted_counted(
    *,
    first_number,
    layers,
    filter_scale,
    centred,
    patch_stride,
    seed,
    iterations,
    device,
    report,
    **protocol,
):
    """Table 6 with e4 … e19, e10 … e25 counted from ``first_number`` (from 1: :func:`from_covariance`)."""
    images = _images(seed, protocol, device)

    def prepare(net):
        return covariance_filters_(
            net,
            images["x"],
            layers,
            make=eigenvector_filters,
            tau=CURVES["f2"],
            first=tuple(number - first_number for number in (4, 10, 10)),
            filter_scale=filter_scale,
            centred=centred,
            stride=patch_stride,
            generator=torch_stream(seed, "tab01", "filters"),
        )

    return _downstream(prepare, "shifted", layers, images, seed, iterations, protocol, report)


def pretrained(*, layers, pretrain_images, pretrain_epochs, seed, iterations, device, report, **protocol):
    """Table 7: convolutions trained on other images with random labels; one table for all ``layers``."""
    images = _images(seed, protocol, device, pretrain_images)
    x = images["pretrain_x"]
    y = data.random_labels(len(x), images["classes"], torch_stream(seed, "tab01", "random labels"))
    source = _network(images, seed, "pretrain", protocol).to(device)
    norms = layer_norms(source)
    fit(
        source,
        x,
        y.to(device),
        steps=pretrain_epochs * (len(x) // protocol["batch_size"]),
        generator=torch_stream(seed, "tab01", "pretrain batches"),
        report=lambda done, text: report(done / 2, f"pre-training, {text}"),
        **_training(protocol),
    )
    rescale_(source, norms)
    tables = []
    for place, count in enumerate(layers):
        tables.append(
            _downstream(
                lambda net, count=count: copy_convolutions_(net, source, count),
                "pretrained",
                count,
                images,
                seed,
                iterations,
                protocol,
                lambda done, text, place=place: report(0.5 + 0.5 * (place + done) / len(layers), text),
            )
        )
    return pd.concat(tables, ignore_index=True)


def pretrained_otherwise(
    *,
    layers,
    pretrain_images,
    pretrain_epochs,
    pretrain_rate,
    rescaled,
    seed,
    iterations,
    device,
    report,
    **protocol,
):
    """Table 7 as in :func:`pretrained`, with pre-training at a rate of its own, ``pretrain_rate``.

    ``rescaled`` lists what is handed over from the one pre-trained network: its layers scaled back to their
    norms at the start (True), as they are (False), or both. Two columns beside those of :func:`units`:
    rescaled, and random_labels, the share of the random labels that pre-training fits, in 0..1.
    """
    images = _images(seed, protocol, device, pretrain_images)
    x = images["pretrain_x"]
    y = data.random_labels(len(x), images["classes"], torch_stream(seed, "tab01", "random labels")).to(device)
    source = _network(images, seed, "pretrain", protocol).to(device)
    norms = layer_norms(source)
    fit(
        source,
        x,
        y,
        steps=pretrain_epochs * (len(x) // protocol["batch_size"]),
        generator=torch_stream(seed, "tab01", "pretrain batches"),
        report=lambda done, text: report(done / 2, f"pre-training, {text}"),
        **(_training(protocol) | {"learning_rate": pretrain_rate}),
    )
    fitted = accuracy(source, x, y, precision=protocol["precision"])
    tables, total = [], len(rescaled) * len(layers)
    for scaled_back in sorted(rescaled):  # first as they are: scaling changes the network in place
        if scaled_back:
            rescale_(source, norms)
        for count in layers:
            before = 0.5 + 0.5 * len(tables) / total
            table = _downstream(
                lambda net, count=count: copy_convolutions_(net, source, count),
                "pretrained",
                count,
                images,
                seed,
                iterations,
                protocol,
                lambda done, text, before=before: report(before + 0.5 * done / total, text),
            )
            tables.append(table.assign(rescaled=scaled_back, random_labels=fitted))
    return pd.concat(tables, ignore_index=True)


def _images(seed, protocol, device, pretrain_images=0):
    """Training, test and pre-training images; the first do not depend on how many the last are."""
    train, test = (data.load(protocol["dataset"], split) for split in ("train", "test"))
    sizes = [protocol["train_images"], pretrain_images]
    chosen, others = data.disjoint_splits(len(train.x), sizes, torch_stream(seed, "tab01", "split"))
    (held_out,) = data.disjoint_splits(
        len(test.x), [protocol["test_images"]], torch_stream(seed, "tab01", "test split")
    )
    return {
        "x": train.x[chosen].to(device),
        "y": train.y[chosen].to(device),
        "test_x": test.x[held_out].to(device),
        "test_y": test.y[held_out].to(device),
        "pretrain_x": train.x[others].to(device),
        "classes": len(train.classes),
    }


def _network(images, seed, name, protocol):
    """The network of E.3 with He's initialisation from the stream ``name``, on the CPU."""
    channels, height, width = images["x"].shape[1:]
    # Without padding, three convolutions take six pixels from what the dense layer sees.
    lost = {"same": 0, "valid": 6}[protocol["padding"]]
    shape, pool = (channels, height - lost, width - lost), (3, 2, protocol["pool"])
    net = SimpleCNN(shape, [FILTERS] * 3, UNITS, images["classes"], pool=pool)
    if lost:
        for conv in net.convs:
            conv.padding = (0, 0)
    return he_normal_(net, protocol["init_scale"], torch_stream(seed, "tab01", name))


def _training(protocol):
    return {key: protocol[key] for key in ("batch_size", "learning_rate", "schedule", "precision")}


def _downstream(prepare, initialisation, layers, images, seed, iterations, protocol, report):
    """Train on real labels once per iteration count; accuracies on all training and test images."""
    start = prepare(_network(images, seed, "network", protocol).to(images["x"].device)).state_dict()
    start = {name: value.clone() for name, value in start.items()}
    rows = []
    total, before = sum(iterations), 0
    for steps in iterations:
        net = _network(images, seed, "network", protocol).to(images["x"].device)
        net.load_state_dict(start)
        fit(
            net,
            images["x"],
            images["y"],
            steps=steps,
            generator=torch_stream(seed, "tab01", "batches"),
            report=lambda done, text, before=before, steps=steps: report(
                (before + done * steps) / total, text
            ),
            **_training(protocol),
        )
        before += steps
        row = {"initialisation": initialisation, "layers": layers, "iterations": steps}
        for part, x, y in (("train", "x", "y"), ("test", "test_x", "test_y")):
            row[part] = accuracy(net, images[x], images[y], precision=protocol["precision"])
        rows.append(row)
    return pd.DataFrame(rows)


def units(parameters):
    """One unit per initialisation, layers and seed; for ``pretrained`` all layers in one.

    Parameters: dataset, initialisations, layers, iterations, train_images, test_images,
    pretrain_images, pretrain_epochs, learning_rate, batch_size, schedule, init_scale, filter_scale,
    centred, patch_stride, first_number, padding, pool, precision, variation_seeds, pretraining, seeds.
    Each table has the columns initialisation, layers, iterations, train and test (accuracies in 0..1).
    """
    cells = [("standard", 0)]
    for initialisation in parameters["initialisations"]:
        if initialisation == "pretrained":
            cells.append((initialisation, parameters["layers"]))
        else:
            cells += [(initialisation, layers) for layers in parameters["layers"]]
    made = []
    for seed in range(parameters["seeds"]):
        made += [_unit(*cell, seed, parameters) for cell in cells]
        if seed < parameters["variation_seeds"]:
            made += _varied(seed, parameters)
    made += [_pretrained_otherwise(name, parameters) for name in parameters["pretraining"] if name != "plain"]
    return made


def _pretrained_otherwise(name, parameters):
    """Table 7 with three layers, pre-trained as ``PRETRAINING`` says of ``name``, at one seed.

    ``name`` with "-column" is the column {} under the same change. Products are in float32, unlike elsewhere:
    many processors have no others.
    """
    way = name.removesuffix("-column")
    change, rescaled = PRETRAINING[way]
    values = parameters | {"pretrain_rate": parameters["learning_rate"], "precision": "float32"} | change
    prefix = f"{TABLE_7}{way}__"
    if way != name:
        return _unit("standard", 0, 0, values, prefix)
    unit = _unit("pretrained", [3], 0, values, prefix)
    own = {"pretrain_rate": values["pretrain_rate"], "rescaled": rescaled}
    return replace(unit, compute=pretrained_otherwise, arguments=unit.arguments | own)


def _varied(seed, parameters):
    made = []
    for change, cells, counts in VARIATIONS:
        (key, value), *_ = change.items()
        if parameters[key] == value:
            continue
        values = parameters | change | {"iterations": parameters["iterations"][:counts]}
        for initialisation, layers in cells:
            layers = [layers] if initialisation == "pretrained" else layers
            made.append(_unit(initialisation, layers, seed, values, f"{key}-{value}__"))
    return made


def _unit(initialisation, layers, seed, values, prefix=""):
    common = ["dataset", "iterations", "train_images", "test_images", "learning_rate", "batch_size"]
    common += ["schedule", "init_scale", "padding", "pool", "precision"]
    arguments = {key: values[key] for key in common} | {"seed": seed}
    name = f"{prefix}{initialisation}"
    if initialisation == "standard":
        return Unit(f"{name}-seed{seed}", standard, arguments)
    if initialisation == "pretrained":
        own = {key: values[key] for key in ("pretrain_images", "pretrain_epochs")}
        return Unit(f"{name}-seed{seed}", pretrained, arguments | own | {"layers": layers})
    own = {key: values[key] for key in ("filter_scale", "centred", "patch_stride")}
    arguments |= own | {"layers": layers}
    if initialisation == "shifted" and values["first_number"] != 1:
        arguments["first_number"] = values["first_number"]
        return Unit(f"{name}-{layers}-seed{seed}", shifted_counted, arguments)
    arguments["initialisation"] = initialisation
    return Unit(f"{name}-{layers}-seed{seed}", from_covariance, arguments)


def printed():
    """All 112 printed accuracies: columns table, initialisation, layers, iterations, part, paper."""
    rows = []
    for table, (initialisation, cells) in PAPER.items():
        for (iterations, part), values in cells.items():
            columns = (PAPER_STANDARD[iterations, part], *values)
            for layers, value in enumerate(columns):
                name = initialisation if layers else "standard"
                rows.append((table, name, layers, iterations, part, value))
    return pd.DataFrame(rows, columns=["table", "initialisation", "layers", "iterations", "part", "paper"])


def accuracies(table):
    """One accuracy per row: initialisation, layers, iterations, part, seed, variation, accuracy.

    ``table`` is that of all units but ``PRETRAINING``; ``variation`` is empty for the tables' own cells.
    """
    table = table[~table["unit"].astype(str).str.startswith(TABLE_7)]
    if "train" not in table:  # nothing has finished
        columns = ["initialisation", "layers", "iterations", "seed", "unit", "train", "test"]
        table = pd.DataFrame(columns=columns)
    variation = [unit.partition("__")[0] if "__" in unit else "" for unit in table["unit"]]
    return table.assign(variation=variation).melt(
        id_vars=["initialisation", "layers", "iterations", "seed", "variation"],
        value_vars=["train", "test"],
        var_name="part",
        value_name="accuracy",
    )


def claims(table, parameters):
    """Each table against its printed numbers, and what the text says about them, paired by seed.

    The printed numbers come from one run each, so they are judged as one more run (Claim.one_run).
    "The same accuracy" is the same within 0.02, fixed beforehand (numbers are printed to 0.01).
    What the text compares is compared among the printed numbers, too, in brackets. Where these have the
    other sign, or lie outside the margin, the paper contradicts itself, and nothing is judged.
    """
    cells = accuracies(table)
    cells = cells[cells["variation"] == ""]
    # One row per cell, one column per seed; NaN where a run diverged.
    wide = cells.pivot_table(index=CELL, columns="seed", values="accuracy")
    paper = printed().drop_duplicates(CELL).set_index(CELL)["paper"].sort_index()
    of_paper = {claim.id: claim.measured for claim in _of_text(paper.to_frame(), paper)}
    of_text = [_beside_printed(claim, of_paper[claim.id]) for claim in _of_text(wide, paper)]
    return [*_as_printed(wide, paper), *of_text]


def _beside_printed(claim, printed):
    """``claim`` of the text with the same difference among the printed numbers, which may contradict it."""
    said = replace(claim, statement=f"{claim.statement} (the printed numbers: {printed:+.3f})")
    denied = printed <= 0 if claim.tolerance is None else abs(printed) > claim.tolerance
    if claim.measured is None or not denied:
        return said
    return said.opposed(f"{claim.source} says so; the printed tables have {printed:+.3f}")


HEADLINE = "f1-rises"


def finding(table, parameters):
    """What three computed layers do to the accuracy, against none, and how near the printed cells are."""
    ours, paper = _sides(table)
    if ours is None:
        return "Not all runs that this compares have finished."
    parts = []
    for other, name in (("standard", "He's initialisation"), ("pretrained", "three pre-trained layers")):
        change = interval(100 * (ours["f1"] - ours[other]), "{:+.1f}")
        printed_change = f"{100 * (paper['f1'] - paper[other]):+.1f}"
        parts.append(f"{change} points from {name} (printed: {printed_change})")
    return f"Three computed layers differ in accuracy by {' and by '.join(parts)}."


def key_numbers(table, parameters):
    """Accuracy with no, three computed and three pre-trained layers, averaged over iterations and parts."""
    ours, paper = _sides(table)
    if ours is None:
        return []
    names = {
        "standard": "He's initialisation",
        "f1": "three computed layers (f1)",
        "pretrained": "three pre-trained layers",
    }
    return [
        KeyNumber(f"accuracy, {title}", interval(ours[key], "{:.3f}"), paper[key])
        for key, title in names.items()
    ]


def _sides(table):
    """({initialisation: accuracy per seed}, {initialisation: printed accuracy}), or (None, None).

    Means over iterations and over training and test accuracy, all three layers computed or pre-trained.
    """
    cells = accuracies(table)
    cells = cells[cells["variation"] == ""]
    paper = printed().drop_duplicates(CELL).set_index(CELL)["paper"].sort_index()
    wide = cells.pivot_table(index=CELL, columns="seed", values="accuracy")
    ours, theirs = {}, {}
    for name, layers in (("standard", 0), ("f1", 3), ("pretrained", 3)):
        wanted = pd.MultiIndex.from_product([[name], [layers], [100, 1000], ["train", "test"]])
        if wide.empty or not wanted.isin(wide.index).all():
            return None, None
        ours[name] = wide.loc[wanted].mean(skipna=False).dropna()
        theirs[name] = float(paper.loc[wanted].mean())
    return ours, theirs


def _average(rows):
    """Mean over cells, per seed; NaN for a seed of which one cell is missing."""
    return rows.mean(skipna=False).to_numpy()


def _complete(values):
    """The seeds of which no run diverged."""
    return values[np.isfinite(values)]


def _equal(id, statement, source, one, other, tolerance=0.02):
    if one is None or other is None:
        return Claim.missing(id, statement, source, "not all cells were run", paper=0.0)
    return Claim.equals(id, statement, source, _complete(one - other), 0.0, tolerance)


def _as_printed(wide, paper):
    """The printed cells as one more run: ``wide`` (cells × seeds), ``paper`` (cells)."""
    made = []
    for name, title in TITLES.items():
        printed_cells = paper[paper.index.get_level_values("initialisation") == name]
        about = (
            f"{name}-as-printed",
            f"Mean accuracy over {title}, as printed",
            "Tables 1 to 7" if name == "standard" else title.capitalize(),
        )
        if printed_cells.index.isin(wide.index).all():
            values = _complete(_average(wide.loc[printed_cells.index]))
            claim = Claim.one_run(*about, values, printed_cells.mean())
        else:
            claim = Claim.missing(*about, "not all cells were run", paper=float(printed_cells.mean()))
        made.append(claim.tagged(AS_PRINTED))
    about = (
        "cells-as-printed",
        "Cell by cell the printed numbers are as far from our runs as one of these is from the others (mean "
        "absolute difference over all different cells)",
        "Tables 1 to 7",
    )
    distances = _distances(wide, paper)
    if distances is None:
        return [*made, Claim.missing(*about, "not all cells were run")]
    return [*made, Claim.one_run(*about, *distances)]


def _distances(wide, paper):
    """(distance of each seed from the mean of the others, the printed numbers' from such means), or None.

    Mean absolute differences over the cells. The printed numbers' is averaged over leaving out each seed, so
    that all are taken from means of equally many.
    """
    if not paper.index.isin(wide.index).all():
        return None
    cells = wide.loc[paper.index].dropna(axis=1)
    if cells.shape[1] < 2:
        return None
    others = {seed: cells.drop(columns=seed).mean(axis=1) for seed in cells}
    own = [float((cells[seed] - rest).abs().mean()) for seed, rest in others.items()]
    return own, float(np.mean([(paper - rest).abs().mean() for rest in others.values()]))


def _of_text(wide, paper):
    """What the text and the captions compare: ``wide`` (cells × seeds), ``paper`` (cells)."""

    def printed_mean(name, layers):
        return paper.loc[name if layers else "standard", layers].mean()

    def pick(initialisation, layers=(1, 2, 3), iterations=(100, 1000)):
        """Mean over the cells named: one value per seed, or None when any of them was not run."""
        wanted = pd.MultiIndex.from_product([[initialisation], layers, iterations, ["train", "test"]])
        return _average(wide.loc[wanted]) if wanted.isin(wide.index).all() else None

    def greater(id, statement, source, high, low):
        if high is None or low is None:
            return Claim.missing(id, statement, source, "not all cells were run")
        return Claim.greater(id, statement, source, _complete(high - low))

    made = []
    none = pick("standard", [0])
    at_100, at_1000 = pick("standard", [0], [100]), pick("standard", [0], [1000])
    for name in ("f1", "f2", "f3", "sampled"):
        steps = [none, *(pick(name, [layers]) for layers in (1, 2, 3))]
        for layers in (1, 2, 3):
            if printed_mean(name, layers) <= printed_mean(name, layers - 1):
                continue
            made.append(
                greater(
                    f"{name}-rises-{layers}",
                    f"{name}: accuracy rises from {layers - 1} to {layers} computed layers",
                    TITLES[name].capitalize(),
                    steps[layers],
                    steps[layers - 1],
                ).tagged(RISES if name == "f1" else RISE_ELSEWHERE)
            )
    two_or_three = {name: pick(name, [2, 3]) for name in CURVES}
    for name in ("f1", "f3"):
        made.append(
            _equal(
                f"{name}-like-f2",
                f"With two or three layers computed, {name} and f2 give the same accuracy",
                "Appendix E.3",
                two_or_three[name],
                two_or_three["f2"],
            ).tagged(ALIKE)
        )
    first = {name: pick(name, [1]) for name in CURVES}
    for name in ("f2", "f3"):
        made.append(
            greater(
                f"f1-above-{name}-first-layer",
                f"With only the first layer computed, f1 is better than {name}",
                "Appendix E.3",
                first["f1"],
                first[name],
            ).tagged(FIRST)
        )
    made += [
        _equal(
            "f2-like-pretrained",
            "With two or three layers, computed ones (f2) and pre-trained ones give the same accuracy",
            "Table 7",
            two_or_three["f2"],
            pick("pretrained", [2, 3]),
        ),
        _equal(
            "sampled-like-f2",
            "Sampling from the covariance gives the same accuracy as its eigenvectors",
            "Table 4",
            pick("sampled"),
            pick("f2"),
        ),
        greater(
            "smallest-below-standard",
            "The eigenvectors of the smallest eigenvalues are worse than random initialisation",
            "Table 5",
            none,
            pick("smallest"),
        ),
        greater(
            "shifted-below-f2",
            "Leaving out the largest eigenvectors (e4 … e19, e10 … e25) is worse than using them",
            "Table 6",
            pick("f2"),
            pick("shifted"),
        ),
        greater(
            "shifted-below-standard-100",
            "Without the largest eigenvectors, accuracy after 100 iterations is below random initialisation",
            "Appendix E.3",
            at_100,
            pick("shifted", iterations=[100]),
        ).tagged(SHIFTED),
        greater(
            "shifted-below-standard-1000",
            "Without the largest eigenvectors, accuracy after 1000 iterations is below random initialisation",
            "Appendix E.3",
            at_1000,
            pick("shifted", iterations=[1000]),
        ).tagged(SHIFTED),
        greater(
            "pretrained-above-standard",
            "Three layers pre-trained on random labels are better than random initialisation",
            "Table 7",
            pick("pretrained", [3]),
            none,
        ),
    ]
    for count in (100, 1000):
        made.append(
            _equal(
                f"f1-like-pretrained-{count}",
                f"Three computed layers (f1) match three pre-trained layers after {count} iterations",
                "Section 2.5",
                pick("f1", [3], [count]),
                pick("pretrained", [3], [count]),
            ).tagged(MATCH)
        )
    return made
