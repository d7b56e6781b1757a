"""The sweeps: how often pre-training on random labels helps (Maennel et al. 2020, Figures 12 to 18, B).

A *group* is one choice of architecture, initial scale, learning rate, and of examples, classes and epochs
upstream; within it, networks are trained on real and on random labels, from scratch and with one layer or all
layers transferred (B). Which groups there are: :mod:`.sweep_design`; what they say: :mod:`.sweep_analysis`.
"""

import math

import pandas as pd
from torch import nn

from alignbook import data
from alignbook.claims import CONTRADICTED, HOLDS, UNDECIDED, Claim, KeyNumber, interval
from alignbook.errors import AlignbookError, Diverged
from alignbook.experiments import Unit
from alignbook.seeding import torch_stream
from alignbook.training.deep import VGG, ResNet18
from alignbook.training.nets import SimpleCNN, he_normal_layer_
from alignbook.training.train import accuracy, fit
from alignbook.training.transfer import layer_norms, layers_of, rescale_

from ..downstream import shrunk, tasks
from ..layers import parts, transfer_
from ..sweep_analysis import (
    FACTORS,
    by_group,
    coefficients,
    comparisons,
    exact,
    judged,
    near_guess,
    share_claim,
)
from ..sweep_design import balanced_design, random_design
from ..vgg_transfer import first_epochs

HEADLINE = "faster"
ARCHITECTURES = {"cnn": "SimpleCNN", "vgg": "VGG-16", "resnet": "ResNet-18"}
SWEEPS = {"12": "Experiments A", "13": "Experiments B"}  # CIFAR-10
SECOND = {"14": "ImageNet, Experiments A", "15": "ImageNet, Experiments B"}
INITS = {"12": ["he"], "13": ["he", "orthogonal"], "14": ["he"], "15": ["he"]}  # B.1 to B.4
LABELS = {"real": "real labels", "random": "random labels"}
RATE = 0.01  # B.6, Figures 16 and 17
FIGURE_17_SCALE = 1.0  # B.6
FIGURE_18_SCALE, FIGURE_18_RATE = 0.747, 0.008  # B.6

FASTER = "Pre-trained on random labels, most networks train faster than from scratch with the same settings."
MORE = "Transferring all layers helps more than transferring one."
RESNET = "Most groups of ResNet-18 train faster after pre-training."
RESNET_SECOND = "In ImageNet's place: ResNet-18 trains faster after pre-training."
OTHERS = "In ImageNet's place, fewer examples: SimpleCNN and VGG-16 do not train faster after pre-training."
DETAIL = {
    "16": "Figure 16's ResNet-18 trains faster after pre-training.",
    "18": "Figure 18's VGG-16 trains more slowly after pre-training.",
}
GUESS = {"12": 0.1, "13": 0.1, "14": 0.01, "15": 0.01, "17": 0.01}  # of CIFAR-10's and CIFAR-100's labels
NO_GAIN = 1.0  # points of area: a mean gain in test accuracy below this is none
VGG_TEST = "Transferring one layer of VGG-16 improves test accuracy on real labels (mean over groups)."
NO_TEST = f"Experiments B: pre-training does not improve test accuracy (points lost, above −{NO_GAIN:g})."
TEST_17 = "Figure 17's VGG-16 has a better test accuracy after pre-training."
DECIDES = "A larger initial scale and more classes upstream turn the effect negative."


def units(parameters):
    """One unit per group and seed, ``FIGURE-ARCHITECTURE-GROUP-seedSEED``; then those of Figures 16 to 18."""
    made = []
    for figure in (*SWEEPS, *SECOND):
        for architecture in ARCHITECTURES:
            for number, group in enumerate(groups(parameters, figure, architecture)):
                name = f"{figure}-{architecture}-{number:02d}"
                runs = parameters[_seeds(figure)]
                seeds = [group["seed"]] if "seed" in group else range(runs)
                made += [_unit(parameters, name, figure, group, seed) for seed in seeds]
    for name, figure, group in details(parameters):
        runs = parameters[_seeds(figure)]
        made += [_unit(parameters, name, figure, group, seed) for seed in range(runs)]
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
    scales = _pair(parameters, "second_scales" if second else f"scales_{figure}")
    found["init_scale"] = _within(parameters, scales) if architecture == "vgg" else scales
    # Those of B.3 and B.4 are printed as in B.1.
    found["learning_rate"] = _pair(parameters, "rates_13" if figure == "13" else "rates_12")
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
    scale = _for_vgg(parameters, FIGURE_17_SCALE)
    made.append(("17-vgg", "15", vgg | {"init_scale": scale, "learning_rate": RATE, "share": 1.0}))
    scale = _for_vgg(parameters, FIGURE_18_SCALE)
    made.append(("18-vgg", "14", vgg | {"init_scale": scale, "learning_rate": FIGURE_18_RATE, "share": 0.25}))
    return made


def _pair(parameters, name):
    values = parameters[name]
    if len(values) != 2 or not 0 < values[0] < values[1]:
        raise AlignbookError(f"{name} must be two numbers, the lower first, not {values}")
    return tuple(values)


def _for_vgg(parameters, scale):
    """A printed initial scale of VGG-16, at the same place of the part of the range that it has."""
    low, high = _pair(parameters, "second_scales")
    least, most = _within(parameters, (low, high))
    return float(f"{least * (most / least) ** (math.log(scale / low) / math.log(high / low)):.4g}")


def _within(parameters, scales):
    """The part of a range of initial scales that VGG-16 has: what lies within ``vgg_scales``."""
    least, most = _pair(parameters, "vgg_scales")
    low, high = max(scales[0], least), min(scales[1], most)
    if low >= high:
        raise AlignbookError(f"vgg_scales {[least, most]} has no part of the range {list(scales)}")
    return low, high


def _unit(parameters, name, figure, group, seed):
    """A group's unit; what a group does not say is the same for the whole sweep."""
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
    return Unit(f"{name}-seed{seed}", compute, arguments)


def network(architecture, shape, classes, *, width, convolutions, filters, dense_units):
    """The network for images of ``shape`` (C, H, W): "cnn" has the last three sizes, others ``width``."""
    if architecture == "cnn":
        return SimpleCNN(shape, [filters] * convolutions, dense_units, classes)
    if architecture == "vgg":
        return VGG(16, shape, classes, width=width)
    return ResNet18(shape, classes, width=width, norm="group", version=2)


def draw_layer_(layer, init, scale, generator):
    """Draw a convolution or dense layer anew: He normal ("he", A.3) or "orthogonal" (B.2), times ``scale``.

    Orthogonal: the weights as a matrix (outputs × fan-in) have orthonormal rows or columns, times ``scale``;
    biases are zero.
    """
    if init == "he":
        he_normal_layer_(layer, scale, generator)
        return
    nn.init.orthogonal_(layer.weight, scale, generator=generator)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


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


def claims(table, parameters):
    """Shares below x = y, what more layers add, ResNet-18, Figures 16 and 18, test accuracy, what decides.

    Written down before the first run of profile quick, but those of test accuracy: their rules after it and
    before their outcomes were looked at. Points in which neither network learned, and those of
    a network that diverged, do not enter.
    """
    points = comparisons(table)
    everything = judged(points, *SWEEPS)
    share, ends = by_group(everything)
    test = "95 % bootstrap interval over groups"
    about = (HEADLINE, f"{FASTER} (Share of all points.)", "Section 4; Figures 12 and 13")
    made = [share_claim(*about, share, ends, _groups_of(everything), test)]
    for figure, name in SWEEPS.items():
        for labels, said in LABELS.items():
            rows = _whole(judged(points, figure), labels)
            about = (f"faster-{figure}-{labels}", f"{name}, {said}, all layers: {FASTER}", f"Figure {figure}")
            made.append(_exact_claim(*about, rows).tagged(FASTER))
    made.append(_more_layers(everything))
    for labels, said in LABELS.items():
        rows = _whole(_of(everything, "resnet"), labels)
        about = (f"resnet-{labels}", f"CIFAR-10, {said}: {RESNET}", "B.5; Figures 12 and 13")
        made.append(_exact_claim(*about, rows).tagged(RESNET))
        rows = _whole(_of(judged(points, *SECOND), "resnet"), labels)
        about = (f"resnet-second-{labels}", f"{RESNET_SECOND} ({said}; share.)", "B.3 to B.5")
        made.append(_exact_claim(*about, rows).tagged(RESNET_SECOND))
        rows = _whole(_of(judged(points, "15"), "cnn", "vgg"), labels)
        about = (f"others-second-{labels}", f"{OTHERS} ({said}; share.)", "B.4; Figure 15")
        made.append(_exact_claim(*about, rows, above=False).tagged(OTHERS))
    for figure, statement in DETAIL.items():
        for labels, said in LABELS.items():
            values = detail_gains(table, figure, labels)
            statement_here = f"{statement} ({said}, points of area.)"
            about = (f"figure-{figure}-{labels}", statement_here, f"B.6, Figure {figure}")
            if values.empty:
                claim = Claim.missing(*about, "none in which a network learned is among the results")
            else:
                claim = Claim.greater(*about, values if figure == "16" else -values)
            made.append(claim.tagged(statement))
    made += _of_test(table, points)
    return [*made, *_decides(coefficients(everything), _groups_of(everything))]


def _of_test(table, points):
    """What B says of held-out images: gains over groups (seeds in Figure 17); not judged near a guess."""
    held_out = {figure: judged(points, figure, what="test") for figure in SWEEPS}
    rows = _of(held_out["12"], "vgg")
    rows = rows if rows.empty else rows[rows["layers"] == "one"]
    near = near_guess(rows, GUESS["12"])
    made = [_test_claim("test-12-vgg", VGG_TEST, "B.1, Figure 12", rows.get("gain", []), 0.0, near)]
    rows = held_out["13"]
    gains = rows.groupby("group")["gain"].mean() if len(rows) else []
    near = near_guess(rows, GUESS["13"])
    about = ("test-13-none", NO_TEST, "B.2, Figure 13")
    made.append(_test_claim(*about, [-gain for gain in gains], -NO_GAIN, near))
    near = near_guess(detail_points(table, "17", "real", what="test"), GUESS["17"])
    gains = detail_gains(table, "17", "real", what="test")
    return [*made, _test_claim("test-17", TEST_17, "B.6, Figure 17", gains, 0.0, near, what="seed")]


def _test_claim(id, statement, source, values, than, near, what="group"):
    """``values`` above ``than``; the readings, means, margins, are ours: the paper says "several", "some"."""
    if not len(values):
        return Claim.missing(id, statement, source, "none in which a network learned is among the results")
    claim = Claim.greater(id, statement, source, values, than, what=what).tagged(ours=True)
    return claim.not_judged("test accuracy is near that of a guess") if near else claim


def _exact_claim(id, statement, source, rows, above=True):
    share, ends = exact(rows["below"] if len(rows) else [])
    return share_claim(id, statement, source, share, ends, len(rows), "exact 95 % interval", above)


def _more_layers(points):
    """B.5: per group, what transferring all layers gains over transferring one, mean over the labels."""
    about = ("more-layers", f"{MORE} (Points of area.)", "B.5")
    values = layers_add(points)
    if values.empty:
        return Claim.missing(*about, "no group with both is among the results")
    return Claim.greater(*about, values, what="group")


def layers_add(points):
    """Series over groups: gain with all layers less gain with one (points), mean over the labels."""
    if points.empty:
        return pd.Series(dtype=float)
    wide = points.pivot(index=["group", "labels"], columns="layers", values="gain")
    return (wide.get("all", math.nan) - wide.get("one", math.nan)).dropna().groupby("group").mean()


def _decides(found, count):
    """Section 1.1: the signs of two coefficients, by their bootstrap intervals."""
    made = []
    for factor in ("init_scale", "upstream_classes"):
        statement = f"{DECIDES} (Coefficient of {FACTORS[factor]}.)"
        source = "Section 1.1, Figure 1; the regression is ours"
        about = (f"decides-{factor.replace('_', '-')}", statement, source)
        if factor not in found.index:
            claim = Claim.missing(*about, "too few groups, or too little variation, for a regression")
        else:
            value, low, high = (float(end) for end in found.loc[factor])
            outcome = HOLDS if high < 0 else CONTRADICTED if low > 0 else UNDECIDED
            test = f"95 % bootstrap interval over {count} groups against 0, to lie below"
            claim = Claim(*about, None, None, value, (low, high), outcome, count, test)
        made.append(claim.tagged(DECIDES, ours=True))
    return made


def _groups_of(points):
    return 0 if points.empty else points["group"].nunique()


def _of(points, *architectures):
    return points if points.empty else points[points["architecture"].isin(architectures)]


def _whole(points, labels):
    """Points of networks with all layers transferred, on ``labels``: one a group."""
    return points if points.empty else points[(points["layers"] == "all") & (points["labels"] == labels)]


def detail_points(table, figure, labels, what="train"):
    """:func:`comparisons` of one of Figures 16 to 18, seed by seed (``seed``), where a network learned."""
    if "start" not in table:
        return pd.DataFrame()
    found = []
    for seed, rows in table[table["unit"].astype(str).str.startswith(f"{figure}-")].groupby("seed"):
        points = comparisons(rows)
        if not points.empty:
            points = points[(points["labels"] == labels) & (points["what"] == what) & points["learned"]]
            found.append(points.assign(seed=seed))
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def detail_gains(table, figure, labels, what="train"):
    """Gain (points of area) in one of Figures 16 to 18: a Series over seeds, mean over scales.

    Where neither network learned there is no value.
    """
    points = detail_points(table, figure, labels, what)
    return points.groupby("seed")["gain"].mean() if len(points) else pd.Series(dtype=float)


def left_out(table):
    """(points of Figures 12 to 15 in which neither network learned, runs that diverged): counts."""
    points = comparisons(table)
    if points.empty:
        return 0, 0
    here = points[points["figure"].isin([*SWEEPS, *SECOND]) & (points["what"] == "train")]
    return int((~here["learned"]).sum()), int(table["accuracy"].isna().sum())


def _percent(share, ends):
    text = f"{100 * share:.0f} %"
    return text + (f" ({100 * ends[0]:.0f} to {100 * ends[1]:.0f})" if ends else "")


def finding(table, parameters):
    """The share of points below x = y, with which labels, and the factors that are clear of zero."""
    points = judged(comparisons(table), *SWEEPS)
    if points.empty:
        return "No network of the sweeps learned: there is nothing to compare."
    text = f"On CIFAR-10 pre-training is faster in {_percent(*by_group(points))} of {len(points)} comparisons"
    parts = [
        f"{_percent(*exact(rows['below']))} with {said}"
        for labels, said in LABELS.items()
        if len(rows := _whole(points, labels))
    ]
    whole = f"in {' and '.join(parts)}" if parts else "nothing to compare"
    text += f"; with all layers {whole}."
    found = coefficients(points)
    clear = found[(found["low"] > 0) | (found["high"] < 0)]
    if len(clear):
        said = "The only factor" if len(clear) == 1 else f"The largest of {len(clear)} factors"
        likely = "more" if clear["value"].iloc[0] > 0 else "less"
        text += f" {said} with an interval clear of zero: {FACTORS[clear.index[0]]} ({likely} likely)."
    elif len(found):
        text += " No factor's interval is clear of zero."
    return f"{text} {parameters['second_dataset']} stands in for ImageNet."


def key_numbers(table, parameters):
    """The share below x = y, that of ResNet-18 on the second data set, and what more layers add."""
    points = comparisons(table)
    everything = judged(points, *SWEEPS)
    if everything.empty:
        return []
    made = [KeyNumber("points below x = y, Figures 12 and 13", _percent(*by_group(everything)))]
    second = _of(judged(points, *SECOND), "resnet")
    if len(second):
        what = "ResNet-18 below x = y, Figures 14 and 15"
        made.append(KeyNumber(what, _percent(*by_group(second)), "100 % (ImageNet)"))
    more = layers_add(everything)
    if len(more):
        what = "all layers transferred, not one: gain (points of area)"
        made.append(KeyNumber(what, interval(more, "{:+.1f}"), "positive"))
    return made
