"""The sweeps: how often pre-training on random labels helps (Maennel et al. 2020, Figures 12 to 18, B).

A *group* is one choice of architecture, initial scale, learning rate, and of examples, classes and epochs
upstream; within it, networks are trained on real and on random labels, from scratch and with one layer or all
layers transferred (B). Which groups there are: :mod:`.sweep_design`; what they say: :mod:`.sweep_analysis`.
"""

import pandas as pd

from alignbook import data
from alignbook.errors import Diverged
from alignbook.seeding import torch_stream
from alignbook.training.deep import VGG, ResNet18
from alignbook.training.nets import SimpleCNN
from alignbook.training.train import accuracy, fit
from alignbook.training.transfer import layer_norms, layers_of, rescale_
from companion.jobs import Job

from ..shared.downstream import shrunk, tasks
from ..shared.initial_scales import for_vgg, pair, within
from ..shared.layers import draw_layer_, parts, transfer_
from ..shared.sweep_design import balanced_design, random_design
from ..shared.vgg_transfer import first_epochs
from .design import ARCHITECTURES, INITS, SECOND, SWEEPS

RATE = 0.01  # B.6, Figures 16 and 17
FIGURE_17_SCALE = 1.0  # B.6
FIGURE_18_SCALE, FIGURE_18_RATE = 0.747, 0.008  # B.6


def jobs(parameters):
    """One job per group and seed, ``FIGURE-ARCHITECTURE-GROUP-seedSEED``; then those of Figures 16 to 18."""
    made = []
    for figure in (*SWEEPS, *SECOND):
        for architecture in ARCHITECTURES:
            for number, group in enumerate(groups(parameters, figure, architecture)):
                name = f"{figure}-{architecture}-{number:02d}"
                runs = parameters[_seeds(figure)]
                seeds = [group["seed"]] if "seed" in group else range(runs)
                made += [_job(parameters, name, figure, group, seed) for seed in seeds]
    for name, figure, group in details(parameters):
        runs = parameters[_seeds(figure)]
        made += [_job(parameters, name, figure, group, seed) for seed in range(runs)]
    return made


def _seeds(figure):
    """Which parameter says how many seeds the groups of a figure have."""
    return "second_seeds" if figure in SECOND else "seeds"


def groups(parameters, figure, architecture):
    """The groups of one architecture in a sweep: dicts of the values in which groups differ (B.1 to B.4).

    With ``each_seed`` every group is run with every seed; otherwise the seed is one more factor of the
    design, its blocks, and a group is run once.
    """
    second, found = figure in SECOND, {}
    if not parameters["each_seed"]:
        found["seed"] = list(range(parameters[_seeds(figure)]))
    found["init"] = INITS[figure]
    scales = pair(parameters, "second_scales" if second else f"scales_{figure}")
    found["init_scale"] = within(parameters, scales) if architecture == "vgg" else scales
    # Those of B.3 and B.4 are printed as in B.1.
    found["learning_rate"] = pair(parameters, "rates_13" if figure == "13" else "rates_12")
    found["share"] = parameters[f"second_shares_{figure}" if second else "shares"]
    if not second:
        found["upstream_classes"] = parameters["upstream_classes"]
        found["upstream_epochs"] = parameters["upstream_epochs"]
    if architecture == "cnn":
        found["convolutions"] = parameters["second_convolutions" if second else "convolutions"]
        found["filters"] = parameters["second_filters" if second else "filters"]
        found["dense_units"] = parameters["second_units" if second else f"units_{figure}"]
    count = parameters["second_groups" if second else "groups"]
    if parameters["design"] == "random":
        chosen = random_design(found, count, figure, architecture)
    else:
        chosen = balanced_design(found, count, parameters["levels"], figure, architecture)
    return [group | {"architecture": architecture} for group in chosen]


def details(parameters):
    """[(name, sweep whose sizes it has, group)] of Figures 16 to 18 (B.6)."""
    resnet = {"architecture": "resnet", "init": "he", "learning_rate": RATE, "share": 1.0}
    made = [
        (f"16-resnet-scale{scale:g}", "15", resnet | {"init_scale": scale})
        for scale in parameters["figure_16_scales"]
    ]
    vgg = {"architecture": "vgg", "init": "he"}
    scale = for_vgg(parameters, FIGURE_17_SCALE)
    made.append(("17-vgg", "15", vgg | {"init_scale": scale, "learning_rate": RATE, "share": 1.0}))
    scale = for_vgg(parameters, FIGURE_18_SCALE)
    made.append(("18-vgg", "14", vgg | {"init_scale": scale, "learning_rate": FIGURE_18_RATE, "share": 0.25}))
    return made


def _job(parameters, name, figure, group, seed):
    """A group's job; what a group does not say is the same for the whole sweep."""
    second = figure in SECOND
    downstream = parameters[f"second_downstream_{figure}" if second else "downstream"]
    epochs = group.get("upstream_epochs", parameters["second_upstream_epochs"])
    arguments = {name: parameters[name] for name in "side width batch_size points test".split()} | {
        "dataset": parameters["second_dataset" if second else "dataset"],
        "upstream": round(group["share"] * downstream),
        "upstream_classes": group.get("upstream_classes", parameters["second_classes"]),
        "upstream_epochs": max(1, round(epochs * parameters["epoch_share"])),
        "downstream": downstream,
        "classes": parameters["second_classes" if second else "classes"],
        "epochs": parameters["second_epochs" if second else "epochs"],
        "stops": parameters[f"{group['architecture']}_stops"],
        "layers": ["all"] if second else ["one", "all"],
        "seed": seed,
    }
    for key in ("architecture", "init", "init_scale", "learning_rate"):
        arguments[key] = group[key]
    for key in ("convolutions", "filters", "dense_units"):
        arguments[key] = group.get(key, 0)  # SimpleCNN's alone
    return Job(f"{name}-seed{seed}", compute, arguments)


def network(architecture, shape, classes, *, width, convolutions, filters, dense_units):
    """The network for images of ``shape`` (C, H, W): "cnn" has the last three sizes, others ``width``."""
    if architecture == "cnn":
        return SimpleCNN(shape, [filters] * convolutions, dense_units, classes)
    if architecture == "vgg":
        return VGG(16, shape, classes, width=width)
    return ResNet18(shape, classes, width=width, norm="group", version=2)


def compute(
    *,
    dataset,
    architecture,
    side,
    width,
    convolutions,
    filters,
    dense_units,
    init,
    init_scale,
    learning_rate,
    upstream,
    upstream_classes,
    upstream_epochs,
    downstream,
    classes,
    epochs,
    stops,
    layers,
    batch_size,
    points,
    test,
    seed,
    device,
    report,
):
    """Pre-train on random labels; train downstream from scratch and with ``layers`` ("one", "all") handed on.

    All downstream networks of a kind of labels draw the other layers, the head and the order of images alike.
    Layers are rescaled to their norm at initialisation, but not a ResNet's (A.4). The rate falls at thirds of
    ``epochs``; a run ends after ``stops`` of them. Columns ``labels`` ("real", "random"), ``start``
    ("scratch", "one", "all"; "upstream": pre-training itself), ``epoch``, ``accuracy`` on all training images
    (0..1), ``test`` on held-out images with real labels; a run that diverged is one row without an accuracy.
    """
    images = tasks(
        dataset, upstream=upstream, upstream_classes=upstream_classes, downstream=downstream,
        classes=classes, side=side, seed=seed, device=device,
    )  # fmt: skip
    held_out = data.load(dataset, "test", n=test, seed=seed)
    test_x, test_y = shrunk(held_out.x, side).to(device), held_out.y.to(device)
    shape = tuple(images.x.shape[1:])
    sizes = {"width": width, "convolutions": convolutions, "filters": filters, "dense_units": dense_units}
    training = {"batch_size": batch_size, "learning_rate": learning_rate}
    before, each = upstream * upstream_epochs, downstream * min(stops, epochs)
    runs = [(kind, start) for kind in ("real", "random") for start in ("scratch", *layers)]
    total = before + each * len(runs)

    def stream(*names):
        return torch_stream(seed, "figure 12", architecture, *names)

    def fresh(outputs, name):
        net, generator = network(architecture, shape, outputs, **sizes), stream(name)
        for layer in layers_of(net):
            draw_layer_(layer, init, init_scale, generator)
        return net.to(device)

    source = fresh(upstream_classes, "upstream")
    norms = layer_norms(source)
    try:
        fit(
            source, images.upstream_x, images.upstream_y, generator=stream("upstream batches"),
            steps=upstream_epochs * (upstream // batch_size), **training,
            report=lambda done, text: report(done * before / total, f"pre-training, {text}"),
        )  # fmt: skip
        known = accuracy(source, images.upstream_x, images.upstream_y)
        if architecture != "resnet":
            rescale_(source, norms)
    except Diverged:
        source, known = None, float("nan")
    tables = [pd.DataFrame([{"start": "upstream", "epoch": upstream_epochs, "accuracy": known}])]
    for number, (kind, start) in enumerate(runs):
        net = fresh(images.classes[kind], f"downstream {kind}")
        if start != "scratch":
            if source is None:
                continue
            transfer_(net, source, 1 if start == "one" else len(parts(net)))
        begun = (before + number * each) / total
        try:
            curve = first_epochs(
                net, images.x, images.y[kind], epochs=epochs, stops=stops, points=points, **training,
                generator=stream("batches", kind),
                report=lambda done, text, begun=begun: report(begun + done * each / total, text),
                extra=(lambda net: {"test": accuracy(net, test_x, test_y)}) if kind == "real" else None,
            )  # fmt: skip
        except Diverged as error:
            reached = error.step // (downstream // batch_size)
            curve = pd.DataFrame([{"epoch": reached, "accuracy": float("nan")}])
        tables.append(curve.assign(labels=kind, start=start))
    return pd.concat(tables, ignore_index=True)
