"""How rough the landscape is where training starts, layer by layer (Figures 5, 12 and 13).

One layer's filters move in a plane, all other weights stay. The network is as training finds it: batch norm
takes the statistics of the images, and the head is new.
"""

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.metrics.landscape import batch_norm, landscape
from alignbook.seeding import torch_stream
from companion.jobs import arguments_of, jobs_over
from companion.studies.transferability.shared import imagenet_source
from companion.studies.transferability.shared.layers import main_layers, middle
from companion.studies.transferability.shared.planes import rows_of
from companion.studies.transferability.shared.pretrained_source import source_jobs
from companion.studies.transferability.shared.targets import STARTS, named, start_of, training_of
from companion.studies.transferability.shared.tuned import recorded, target, tuned


def jobs(parameters):
    """Per start and seed: training, the planes of all layers, the middle one's, and that one's variations.

    And :func:`imagenet_jobs`.
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
        shared = arguments | more | ({} if compute is training else {"images": parameters["images"]})
        name, seeds = f"{kind}-{{start}}-seed{{seed}}", range(parameters["seeds"])
        made += jobs_over(name, compute, shared, seed=seeds, start=STARTS)
    return made + imagenet_jobs(parameters) + source_jobs(parameters)


def imagenet_jobs(parameters):
    """Per start and seed of EfficientNet-Lite0: planes of layers, and the middle one's with scaled heads."""
    others = {name: f"imagenet_{name}" for name in ("weights", "images", "points")}
    arguments = named(parameters["dataset"]) | arguments_of(parameters, "radius", **others)
    kinds = {
        "layers": {"layers": "some", "count": parameters["imagenet_layers"], "head": "fresh"},
        "scaled": {"layers": "middle", "count": 1, "head": "scaled"},
    }
    made, seeds = [], range(parameters["seeds"])
    for kind, more in kinds.items():
        name = f"imagenet-{kind}-{{start}}-seed{{seed}}"
        made += jobs_over(name, imagenet_planes, arguments | more, seed=seeds, start=STARTS)
    return made


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
