"""Wider dense layers and what pre-training on random labels costs (Maennel et al. 2020, Figure 8, A.12)."""

import pandas as pd
import torch

from alignbook.seeding import torch_stream
from alignbook.training.nets import SimpleCNN, he_normal_
from alignbook.training.train import accuracy, fit
from alignbook.training.transfer import layer_norms, rescale_
from companion.jobs import jobs_over

from ..shared.downstream import fresh_head_, learning_curve, tasks


def jobs(parameters):
    """One job per width and seed, and for the narrowest width one per other image size and seed."""
    narrow = min(parameters["dense_units"])
    cells = [(width, parameters["side"]) for width in parameters["dense_units"]]
    cells += [(narrow, side) for side in parameters["other_sides"]]
    names = "dataset labels convolutions filters upstream_images upstream_classes upstream_epochs"
    names += " downstream_images classes epochs record batch_size learning_rate init_scale test_images"
    common = {name: parameters[name] for name in names.split()}
    made = []
    for width, side in dict.fromkeys(cells):
        shared, name = common | {"dense_units": width, "side": side}, f"units{width}-side{side}-seed{{seed}}"
        made += jobs_over(name, compute, shared, seed=range(parameters["seeds"]))
    return made


def compute(
    *,
    dataset,
    labels,
    dense_units,
    convolutions,
    filters,
    side,
    upstream_images,
    upstream_classes,
    upstream_epochs,
    downstream_images,
    classes,
    epochs,
    record,
    batch_size,
    learning_rate,
    init_scale,
    test_images,
    seed,
    device,
    report,
):
    """Pre-train on random labels, rescale, put a new head on, train on each of ``labels``; and from scratch.

    From scratch means from the weights with which pre-training began, with the same new head, images and
    order of images: the two differ by pre-training alone. Returns columns ``labels`` ("real", "random"),
    ``start`` ("pretrained", "scratch"), ``epoch``, ``accuracy`` on all training images, ``dead``: share of
    the dense units that no held-out image activates, and ``upstream_accuracy`` after pre-training.
    """
    split = tasks(
        dataset, upstream=upstream_images, upstream_classes=upstream_classes, downstream=downstream_images,
        classes=classes, side=side, test=test_images, seed=seed, device=device,
    )  # fmt: skip
    training = {"batch_size": batch_size, "learning_rate": learning_rate}
    runs = [(kind, start) for kind in labels for start in ("scratch", "pretrained")]

    def part(number):
        return lambda done, text: report((number + done) / (len(runs) + 1), text)

    shape = split.x.shape[1:]
    net = SimpleCNN(shape, [filters] * convolutions, dense_units, upstream_classes)
    net = he_normal_(net, init_scale, torch_stream(seed, "fig08", "network")).to(device)
    norms, body = layer_norms(net), {"scratch": _body(net)}
    fit(
        net, split.upstream_x, split.upstream_y, steps=upstream_epochs * (upstream_images // batch_size),
        generator=torch_stream(seed, "fig08", "upstream batches"), report=part(0), **training,
    )  # fmt: skip
    upstream = accuracy(net, split.upstream_x, split.upstream_y)
    body["pretrained"] = _body(rescale_(net, norms))
    tables = []
    for number, (kind, start) in enumerate(runs, start=1):
        net = SimpleCNN(shape, [filters] * convolutions, dense_units, upstream_classes)
        net.load_state_dict(body[start], strict=False)
        fresh_head_(net, split.classes[kind], init_scale, torch_stream(seed, "fig08", "head", kind))
        curve = learning_curve(
            net.to(device), split.x, split.y[kind], epochs=epochs, record=record, **training,
            generator=torch_stream(seed, "fig08", "batches", kind), report=part(number),
            extra=lambda net: {"dead": dead_share(net, split.test_x)},
        )  # fmt: skip
        tables.append(curve.assign(labels=kind, start=start))
    return pd.concat(tables, ignore_index=True).assign(upstream_accuracy=upstream)


def _body(net):
    """Weights and biases of every layer but the head, copied."""
    return {name: value.clone() for name, value in net.state_dict().items() if not name.startswith("head")}


@torch.no_grad()
def dead_share(net, x, batch_size=250):
    """Share of the units of a :class:`SimpleCNN`'s dense layer that none of the images ``x`` activates."""
    active = torch.zeros(net.dense.out_features, dtype=torch.bool, device=x.device)
    for images in x.split(batch_size):
        inputs = net.features(images, len(net.convs)).permute(0, 2, 3, 1).flatten(1)
        active |= (net.dense(inputs) > 0).any(0)
    return 1 - float(active.float().mean())
