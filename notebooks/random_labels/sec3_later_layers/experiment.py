"""Early layers alone, late ones alone: which of them turn the effect of pre-training? (Sections 1.1 and 3)

A SimpleCNN learns random labels at each of several initial scales. Then its first convolution, all its
convolutions, its dense layer or all of these are handed on, and the rest is drawn anew.
"""

import pandas as pd
import torch

from alignbook.seeding import torch_stream
from alignbook.training.nets import SimpleCNN, he_normal_
from alignbook.training.train import accuracy, fit
from alignbook.training.transfer import layer_norms, rescale_
from companion.jobs import jobs_over
from companion.studies.random_labels.shared.downstream import fresh_head_, tasks
from companion.studies.random_labels.shared.vgg_transfer import first_epochs

from .design import ALL, EARLY, FIRST, KINDS, LATE, SCRATCH, STARTS


def jobs(parameters):
    """One job per seed and initial scale."""
    shared = {name: value for name, value in parameters.items() if name not in ("scales", "seeds")}
    seeds, scales = range(parameters["seeds"]), parameters["scales"]
    return jobs_over("scale{init_scale:g}-seed{seed}", compute, shared, seed=seeds, init_scale=scales)


def compute(
    *, dataset, side, convolutions, filters, units, images, upstream_classes, classes, upstream_epochs,
    epochs, stops, points, batch_size, learning_rate, init_scale, seed, device, report,
):  # fmt: skip
    """Pre-train on random labels, hand on the layers of each of ``STARTS``, train on both kinds of labels.

    Layers are scaled back to their norms at initialisation (A.4). All networks of a kind draw their other
    layers, the head and the order of images alike. Columns ``labels``, ``start`` (``upstream`` for
    pre-training itself), ``epoch``, ``accuracy`` on all training images, and ``dead``, the share of the dense
    layer's units that are active on no image. Raises Diverged.
    """
    split = tasks(
        dataset, upstream=images, upstream_classes=upstream_classes, downstream=images, classes=classes,
        side=side, seed=seed, device=device,
    )  # fmt: skip
    training = {"batch_size": batch_size, "learning_rate": learning_rate}

    def stream(*names):
        return torch_stream(seed, "later layers", *names)

    def fresh(name):
        net = SimpleCNN(split.x.shape[1:], [filters] * convolutions, units, upstream_classes)
        return he_normal_(net, init_scale, stream(name)).to(device)

    source = fresh("upstream")
    norms = layer_norms(source)
    fit(
        source, split.upstream_x, split.upstream_y, steps=upstream_epochs * (images // batch_size),
        generator=stream("upstream batches"), report=lambda done, text: report(0.3 * done, text), **training,
    )  # fmt: skip
    known = accuracy(source, split.upstream_x, split.upstream_y)
    upstream = {"start": "upstream", "epoch": upstream_epochs, "accuracy": known}
    tables = [pd.DataFrame([upstream | {"dead": dead(source, split.upstream_x)}])]
    rescale_(source, norms)
    runs = [(kind, start) for kind in KINDS for start in STARTS]
    for number, (kind, start) in enumerate(runs):
        net = hand_on_(fresh("downstream"), source, start)
        fresh_head_(net, split.classes[kind], init_scale, stream("head", kind))
        curve = first_epochs(
            net.to(device), split.x, split.y[kind], epochs=epochs, stops=stops, points=points,
            generator=stream("batches", kind), extra=lambda net: {"dead": dead(net, split.x)},
            report=lambda done, text, n=number: report(0.3 + 0.7 * (n + done) / len(runs), text), **training,
        )  # fmt: skip
        tables.append(curve.assign(labels=kind, start=start))
    return pd.concat(tables, ignore_index=True)


def hand_on_(net, source, start):
    """Give ``net`` the layers of ``source`` that ``start`` names; returns ``net``."""
    layers = {
        SCRATCH: [],
        FIRST: [(net.convs[0], source.convs[0])],
        EARLY: list(zip(net.convs, source.convs, strict=True)),
        LATE: [(net.dense, source.dense)],
    }
    for to, made in layers[EARLY] + layers[LATE] if start == ALL else layers[start]:
        to.load_state_dict(made.state_dict())
    return net


@torch.no_grad()
def dead(net, x):
    """Share of the dense layer's units that are 0 on all of ``x`` (n, C, H, W)."""
    hidden = net.features(x, len(net.convs)).permute(0, 2, 3, 1).flatten(1)
    return float((net.dense(hidden) <= 0).all(0).double().mean())
