"""How rough the landscape is where training starts, layer by layer (Figures 5, 12 and 13).

One layer's filters move in a plane, all other weights stay. The network is as training finds it: batch norm
takes the statistics of the images, and the head is new.
"""

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.claims import Claim, KeyNumber, interval
from alignbook.experiments import Unit
from alignbook.metrics import landscape
from alignbook.metrics.landscape import batch_norm
from alignbook.seeding import torch_stream
from alignbook.studies.transferability import imagenet_source
from alignbook.studies.transferability.by_seed import factor
from alignbook.studies.transferability.layers import main_layers, middle
from alignbook.studies.transferability.planes import grid, rows_of, where
from alignbook.studies.transferability.tab01_weight_deviation.experiment import source_units
from alignbook.studies.transferability.targets import named, start_of, training_of
from alignbook.studies.transferability.tuned import recorded, target, tuned

HEADLINE = "middle"
STARTS = {"scratch": "random", "pretrained": "pre-trained"}
LAG = 10  # second differences over one tenth of a side of the plane, whatever its number of points


def units(parameters):
    """Per start and seed: training, the planes of all layers, the middle one's, and that one's variations.

    And :func:`imagenet_units`.
    """
    arguments = named(parameters["dataset"]) | training_of(parameters) | start_of(parameters)
    arguments["learning_rate"] = parameters["learning_rate"]
    own = {"radius": parameters["radius"], "mode": "train", "head": "fresh"}
    few = {"points": parameters["layer_points"]}
    kinds = {
        "training": (training, {}),
        "layers": (planes, own | few | {"layers": "all"}),
        "middle": (planes, own | {"points": parameters["points"], "layers": "middle"}),
        "far": (planes, own | few | {"layers": "middle", "radius": parameters["far_radius"]}),
        "eval": (planes, own | few | {"layers": "middle", "mode": "eval"}),
        "scaled": (planes, own | few | {"layers": "middle", "head": "scaled"}),
    }
    made = []
    for kind, (compute, more) in kinds.items():
        more = more if compute is training else more | {"images": parameters["images"]}
        for seed in range(parameters["seeds"]):
            for start in STARTS:
                given = arguments | more | {"start": start, "seed": seed}
                made.append(Unit(f"{kind}-{start}-seed{seed}", compute, given))
    return made + imagenet_units(parameters) + source_units(parameters)


def imagenet_units(parameters):
    """Per start and seed of EfficientNet-Lite0: planes of layers, and the middle one's with scaled heads."""
    arguments = named(parameters["dataset"]) | {
        "weights": parameters["imagenet_weights"],
        "images": parameters["imagenet_images"],
        "points": parameters["imagenet_points"],
        "radius": parameters["radius"],
    }
    kinds = {
        "layers": {"layers": "some", "count": parameters["imagenet_layers"], "head": "fresh"},
        "scaled": {"layers": "middle", "count": 1, "head": "scaled"},
    }
    return [
        Unit(
            f"imagenet-{kind}-{start}-seed{seed}",
            imagenet_planes,
            arguments | more | {"start": start, "seed": seed},
        )
        for kind, more in kinds.items()
        for seed in range(parameters["seeds"])
        for start in STARTS
    ]


def training(*, device, report, **given):
    """Columns ``step``, ``train_loss`` (all training images, evaluation mode) and the others of Tuned."""
    return pd.DataFrame(_tuned(given, device, report).rows)


def planes(*, layers, radius, points, mode, head, images, device, report, **given):
    """The loss around the weights before training, one layer at a time.

    layers : "all" convolutions but those of shortcuts, or the "middle" one of them.
    mode : batch norm's, "train" or "eval". head : "fresh", or "scaled" so that the logits' differences
    between the classes have a standard deviation of one on the images.
    Columns ``layer``, ``position`` from the input on, ``alpha``, ``beta``, ``loss``.
    """
    net = _tuned(given, device, lambda done, text: report(done / 2, text)).before
    net = net.to(device, memory_format=torch.channels_last)
    x, y, *_ = target(given["dataset"], given["examples"], given["seed"], given["part"])
    x, y = x[:images].to(device, memory_format=torch.channels_last), y[:images].to(device)
    if head == "scaled":
        scale_head_(net, x, mode)
    names = main_layers(net)
    wanted = list(enumerate(names)) if layers == "all" else [middle(names)]
    parts = []
    for done, (position, name) in enumerate(wanted):
        found = landscape(
            net,
            nn.functional.cross_entropy,
            x,
            y,
            generator=torch_stream(given["seed"], "plane", name),
            radius=radius,
            points=points,
            layer=name,
            mode=mode,
        )
        parts.append(rows_of(found).assign(layer=name, position=position))
        report(0.5 + (done + 1) / len(wanted) / 2, name)
    return pd.concat(parts, ignore_index=True)


def imagenet_planes(
    *, dataset, part, weights, start, layers, count, head, images, radius, points, seed, device, report
):
    """The loss around EfficientNet-Lite0's weights before training, by layers. Rows as :func:`planes`.

    weights : "imagenet", or "random" for the network in its place. layers : "some", ``count`` of
    :func:`imagenet_source.first_convolutions`, evenly spaced, the middle one among them where ``count`` is
    odd; or "middle". Batch norm takes the statistics of the images. head : as of :func:`planes`.
    """
    x, y, *_, classes = target(dataset, images, seed, part)
    x, y = x.to(device, memory_format=torch.channels_last), y.to(device)
    net = imagenet_source.initial(weights, start, dataset, part, classes, seed)
    net = net.to(device, memory_format=torch.channels_last)
    if head == "scaled":
        scale_head_(net, x, "train")
    names = imagenet_source.first_convolutions(net)
    spaced = np.linspace(0, len(names) - 1, min(count, len(names))).round().astype(int).tolist()
    wanted = [len(names) // 2] if layers == "middle" else spaced
    parts = []
    for done, position in enumerate(wanted):
        rest, entering, layer = imagenet_source.from_layer(net, names[position], x)
        found = landscape(
            rest,
            nn.functional.cross_entropy,
            entering,
            y,
            generator=torch_stream(seed, "plane", names[position]),
            radius=radius,
            points=points,
            layer=layer,
            mode="train",
        )
        parts.append(rows_of(found).assign(layer=names[position], position=position))
        report((done + 1) / len(wanted), names[position])
    return pd.concat(parts, ignore_index=True).assign(mode="train")


def _tuned(given, device, report):
    given = given | {"decay_at": tuple(given["decay_at"])}
    return tuned(**given, record=recorded(given["steps"]), device=device, report=report)


@torch.no_grad()
def scale_head_(net, x, mode):
    """Scale ``net.head`` so that on ``x`` logits differ between classes with a standard deviation of one."""
    with batch_norm(net, mode):
        buffers = {name: value.clone() for name, value in net.named_buffers()}
        logits = net(x)
        net.load_state_dict(buffers, strict=False)  # running statistics as they were
    spread = (logits - logits.mean(1, keepdim=True)).std()
    net.head.weight /= spread
    net.head.bias /= spread


def variation(loss):
    """Standard deviation of the loss (points, points) over a plane, in nats."""
    return float(np.std(loss))


def curvature(loss, radius):
    """Mean |L(u − h) − 2 L(u) + L(u + h)| / h² along both axes of a plane, h about a tenth of a side.

    loss : (points, points) on [-radius, radius]²; h is a whole number of its steps.
    """
    step = 2 * radius / (len(loss) - 1)
    lag = max(1, round((len(loss) - 1) / LAG))
    second = [
        np.abs(part[: -2 * lag] - 2 * part[lag:-lag] + part[2 * lag :]).ravel() for part in (loss, loss.T)
    ]
    return float(np.concatenate(second).mean() / (lag * step) ** 2)


def rise(rows):
    """(alpha, beta, loss less that at the centre) of rows of one landscape, as :func:`grid`."""
    alpha, beta, loss = grid(rows)
    return alpha, beta, loss - loss[len(alpha) // 2, len(beta) // 2]


def roughness(table, **conditions):
    """One row per start, seed and layer: ``curvature``, ``variation``, ``centre`` (the loss there).

    conditions : arguments of :func:`planes`, such as ``layers="all", mode="train"``.
    """
    rows = where(table, **conditions)
    made = []
    if len(rows):
        for (start, seed, position, layer), part in rows.groupby(["start", "seed", "position", "layer"]):
            alpha, _, loss = grid(part)
            made.append(
                {
                    "start": start,
                    "seed": seed,
                    "position": int(position),
                    "layer": layer,
                    "curvature": curvature(loss, alpha[-1]),
                    "variation": variation(loss),
                    "centre": float(loss[len(loss) // 2, len(loss) // 2]),
                }
            )
    names = ["start", "seed", "position", "layer", "curvature", "variation", "centre"]
    return pd.DataFrame(made, columns=names)


def cases(parameters):
    """{what is looked at: arguments of :func:`roughness`} of the middle layer, the paper's own case first."""
    own = {"layers": "middle", "mode": "train", "head": "fresh", "radius": parameters["radius"]}
    return {
        f"as in the paper: radius {parameters['radius']:g}, batch statistics, fresh head": own,
        f"radius {parameters['far_radius']:g}": own | {"radius": parameters["far_radius"]},
        "running statistics": own | {"mode": "eval"},
        "heads scaled to equal logits": own | {"head": "scaled"},
    }


def all_layers(table, parameters):
    """:func:`roughness` of every layer."""
    return roughness(table, layers="all", mode="train", head="fresh", radius=parameters["radius"])


def from_middle(rows):
    """The rows of the middle layer and of those after it: Appendix B.4 shows the 25th to 48th layer."""
    positions = np.sort(rows["position"].unique())
    return rows[rows["position"] >= positions[len(positions) // 2]] if len(positions) else rows


def ratios(rows, column):
    """log2 of ``column``, random over pre-trained, one value per seed; zeros and gaps left out."""
    both = (
        rows.pivot_table(index="seed", columns="start", values=column).reindex(columns=list(STARTS)).dropna()
    )
    both = both[(both > 0).all(axis=1)]
    return [float(value) for value in np.log2(both["scratch"] / both["pretrained"])]


def growth(rows, start):
    """Slope of log2 of the curvature per layer towards the input, of a fitted line; one value per seed."""
    values = []
    for _, part in rows[rows["start"] == start].groupby("seed"):
        if len(part) > 1 and (part["curvature"] > 0).all():
            values.append(-float(np.polyfit(part["position"], np.log2(part["curvature"]), 1)[0]))
    return values


def ahead(table):
    """log2 of the mean training loss over the recorded steps after the start, random over pre-trained."""
    if "train_loss" not in table:
        return []
    rows = table[table["step"] > 0]
    means = rows.groupby(["seed", "start"], as_index=False)["train_loss"].mean()
    return ratios(means, "train_loss")


def claims(table, parameters):
    """Logarithms of ratios, and slopes over the layers; one value per seed.

    Of our own source, then of weights trained on ImageNet.
    """
    made, second = [], imagenet_source.trained(table)
    table = imagenet_source.own(table)
    first, *others = cases(parameters).items()
    rows = roughness(table, **first[1])
    made.append(
        _greater(
            "middle",
            "In the middle layer the landscape at the start is smoother with pre-trained weights: log2 of "
            "the curvature along lines, random over pre-trained, is positive.",
            "Figure 5(b)(c)",
            ratios(rows, "curvature"),
        )
    )
    made.append(
        _greater(
            "middle-variation",
            "There the loss varies less with pre-trained weights: log2 of its standard deviation over the "
            "plane, random over pre-trained, is positive.",
            "Figure 5(b)(c)",
            ratios(rows, "variation"),
        )
    )
    for number, (label, case) in enumerate(others):
        claim = _greater(
            f"middle-other-{number + 1}",
            f"log2 of the curvature in the middle layer, random over pre-trained, is positive ({label}).",
            "Figure 5(b)(c)",
            ratios(roughness(table, **case), "curvature"),
        )
        made.append(
            claim.tagged("The middle layer's landscape is smoother in other conditions, too.", ours=True)
        )
    rows = from_middle(all_layers(table, parameters))
    random, own = (growth(rows, start) for start in STARTS)
    count = rows["position"].nunique()
    made.append(
        _greater(
            "grows",
            "With random weights the curvature grows from the last layer to the middle one: slope of its "
            "log2 per layer.",
            "Figure 13, B.4",
            random,
        )
    )
    statement = (
        "With pre-trained weights the layers from the middle one on are nearly alike: slope of log2 of the "
        "curvature is 0."
    )
    tolerance = 1 / max(count - 1, 1)  # a factor of two from the last of these layers to the first
    if own:
        claim = Claim.equals("even", statement, "Figure 12, B.4", own, 0.0, tolerance)
    else:
        claim = Claim.missing("even", statement, "Figure 12, B.4", "nothing was measured")
    made.append(claim)
    difference = [a - b for a, b in zip(random, own, strict=True)] if len(random) == len(own) else []
    made.append(
        _greater(
            "grows-more",
            "From the last layer to the middle one the curvature grows more with random weights than with "
            "pre-trained ones: difference of the slopes.",
            "Figures 12 and 13, B.4",
            difference,
        )
    )
    made.append(
        _greater(
            "faster",
            "From pre-trained weights the training loss falls faster: log2 of its mean over the recorded "
            "steps, random over pre-trained, is positive.",
            "Figure 5(a)",
            ahead(table),
        )
    )
    return made + _imagenet_claims(second)


def imagenet_layers(table):
    """:func:`roughness` of the layers of EfficientNet-Lite0, heads new."""
    return roughness(imagenet_source.imagenet(table), layers="some", head="fresh")


def imagenet_middle(table, head="fresh"):
    """:func:`roughness` of its middle layer."""
    if head == "scaled":
        return roughness(imagenet_source.imagenet(table), layers="middle", head="scaled")
    rows = imagenet_layers(table)
    positions = np.sort(rows["position"].unique())
    return rows[rows["position"] == positions[len(positions) // 2]] if len(positions) else rows


def _imagenet_claims(table):
    """The statements of :func:`claims` on landscapes, from weights trained on ImageNet."""
    rows, middle_rows = from_middle(imagenet_layers(table)), imagenet_middle(table)
    random, own = (growth(rows, start) for start in STARTS)
    scaled = ratios(imagenet_middle(table, "scaled"), "curvature")
    difference = [a - b for a, b in zip(random, own, strict=True)] if len(random) == len(own) else []
    bends = "Middle layer: log2 of the curvature, random over pre-trained, is positive"
    made = [
        _greater("middle-imagenet", f"{bends}.", "Figure 5(b)(c)", ratios(middle_rows, "curvature")),
        _greater(
            "middle-variation-imagenet",
            "Middle layer: log2 of the loss's standard deviation, random over pre-trained, is positive.",
            "Figure 5(b)(c)",
            ratios(middle_rows, "variation"),
        ),
        _greater("middle-scaled-imagenet", f"{bends} (heads of equal logits).", "Figure 5(b)(c)", scaled),
        _greater(
            "grows-imagenet",
            "Random weights: slope of log2 of the curvature per layer towards the middle one is positive.",
            "Figure 13, B.4",
            random,
        ),
        _greater(
            "grows-more-imagenet",
            "That slope is larger with random weights than with pre-trained ones: difference.",
            "Figures 12 and 13, B.4",
            difference,
        ),
    ]
    group = f"The same from weights trained on ImageNet, in {imagenet_source.NAME}."
    return [claim.tagged(group=group, ours="scaled" in claim.id) for claim in made]


def _greater(id, statement, where, values):
    if not values:
        return Claim.missing(id, statement, where, "nothing was measured with both starts")
    return Claim.greater(id, statement, where, values)


def finding(table, parameters):
    """Curvatures of the middle layer and their growth over the layers, in plain text."""
    second, table = imagenet_source.trained(table), imagenet_source.own(table)
    (_, own), *_ = cases(parameters).items()
    found = ratios(roughness(table, **own), "curvature")
    if not found:
        return "Nothing was measured with both starts."
    text = (
        f"At the start, the middle layer's landscape bends {factor(found)} times as much with "
        f"random weights as with those from {parameters['source']}"
    )
    rows = from_middle(all_layers(table, parameters))
    random, own = (growth(rows, start) for start in STARTS)
    bends = ratios(imagenet_middle(second), "curvature")
    if bends:
        text += f"; in {imagenet_source.NAME}, against ImageNet's, {factor(bends)} times."
    else:
        text += " (in place of ImageNet)."
    if random and own:
        text += (
            f" Per layer from the last to the middle one it is multiplied by {2 ** np.mean(random):.2f} with "
            f"random and {2 ** np.mean(own):.2f} with pre-trained weights."
        )
    return text


def key_numbers(table, parameters):
    """Curvature and start of the middle layer's landscape from either start."""
    rows = roughness(imagenet_source.own(table), **next(iter(cases(parameters).values())))
    if rows.empty:
        return []
    numbers = [
        KeyNumber(
            f"curvature in the middle layer, {label} (nats)",
            interval(rows.loc[rows["start"] == start, "curvature"], "{:.2f}"),
        )
        for start, label in STARTS.items()
    ]
    losses = [f"{rows.loc[rows['start'] == start, 'centre'].mean():.2f}" for start in STARTS]
    return [*numbers, KeyNumber("loss at the start, random / pre-trained (nats)", " / ".join(losses))]


def dependence(table, parameters):
    """One row per case of :func:`cases`: loss at the centre, curvature, variation; random / pre-trained."""
    made, table = [], imagenet_source.own(table)
    for label, case in cases(parameters).items():
        rows = roughness(table, **case)
        if rows.empty:
            continue
        means = rows.groupby("start")[["centre", "curvature", "variation"]].mean().reindex(list(STARTS))
        pairs = {
            column: " / ".join(f"{means.loc[start, column]:.3g}" for start in STARTS) for column in means
        }
        made.append(
            {
                "case": label,
                "loss at the centre": pairs["centre"],
                "curvature": pairs["curvature"],
                "log2 of the ratio": interval(ratios(rows, "curvature")),
                "standard deviation": pairs["variation"],
                "log2 of its ratio": interval(ratios(rows, "variation")),
            }
        )
    return pd.DataFrame(made)
