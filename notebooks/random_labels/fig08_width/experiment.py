"""Wider dense layers and what pre-training on random labels costs (Maennel et al. 2020, Figure 8, A.12)."""

import pandas as pd
import torch

from alignbook.claims import HOLDS, Claim, KeyNumber, interval
from alignbook.experiments import Unit
from alignbook.seeding import torch_stream
from alignbook.training.nets import SimpleCNN, he_normal_
from alignbook.training.train import accuracy, fit
from alignbook.training.transfer import layer_norms, rescale_

from ..downstream import area, fresh_head_, learning_curve, tasks

HEADLINE = "closes"
SOURCE = "Figure 8, Section 3"
NEGATIVE = "With the narrowest dense layer, the pre-trained network trains more slowly than from scratch."
CLOSES = "The gap to training from scratch is smaller with the widest dense layer than with the narrowest."
DEAD = "Of the pre-trained network's dense units, fewer are dead after fine-tuning the wider the layer is."
KINDS = {"real": "real labels", "random": "random labels"}


def units(parameters):
    """One unit per width and seed, and for the narrowest width one per other image size and seed."""
    narrow = min(parameters["dense_units"])
    cells = [(width, parameters["side"]) for width in parameters["dense_units"]]
    cells += [(narrow, side) for side in parameters["other_sides"]]
    names = "dataset labels convolutions filters upstream_images upstream_classes upstream_epochs"
    names += " downstream_images classes epochs record batch_size learning_rate init_scale test_images"
    common = {name: parameters[name] for name in names.split()}
    made = []
    for width, side in dict.fromkeys(cells):
        for seed in range(parameters["seeds"]):
            arguments = common | {"dense_units": width, "side": side, "seed": seed}
            made.append(Unit(f"units{width}-side{side}-seed{seed}", compute, arguments))
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


def curves(table, labels, dense_units, side, start, column="accuracy"):
    """(seeds × epochs) frame of one network's learning curves; empty where there are none."""
    if "start" not in table:
        return pd.DataFrame()
    rows = table[
        (table["labels"] == labels)
        & (table["dense_units"] == dense_units)
        & (table["side"] == side)
        & (table["start"] == start)
    ]
    return rows.pivot(index="seed", columns="epoch", values=column).sort_index(axis=1)


def gaps(table, labels, dense_units, side):
    """Area under the curve from scratch minus that of the pre-trained network, one per seed (a Series).

    Areas are means over training (Appendix B); positive where pre-training slows training down.
    """
    scratch, pretrained = (
        curves(table, labels, dense_units, side, start) for start in ("scratch", "pretrained")
    )
    if scratch.empty or pretrained.empty:
        return pd.Series(dtype=float)
    areas = (pd.Series(area(f.columns, f.to_numpy()), index=f.index) for f in (scratch, pretrained))
    return (next(areas) - next(areas)).dropna()


def dead_after(table, labels, dense_units, side):
    """Share of dead dense units of the pre-trained network after fine-tuning, one per seed (a Series)."""
    frame = curves(table, labels, dense_units, side, "pretrained", "dead")
    return frame.iloc[:, -1] if len(frame) else pd.Series(dtype=float)


def _across(table, parameters, labels, measure):
    """(seeds × widths) frame of ``measure`` at the figure's image size; only seeds with all widths."""
    side, widths = parameters["side"], sorted(parameters["dense_units"])
    return pd.DataFrame({width: measure(table, labels, width, side) for width in widths}).dropna()


def claims(table, parameters):
    """Negative transfer at the narrowest width, a smaller gap and fewer dead units at the widest, by seed.

    Fixed before the first run of profile quick: areas between learning curves, differences within a seed.
    """
    made = []
    for kind in parameters["labels"]:
        gap = _across(table, parameters, kind, gaps)
        dead = _across(table, parameters, kind, dead_after)
        narrow, wide = gap.columns[0], gap.columns[-1]
        about = {
            "closes": f"{CLOSES} {wide} against {narrow} units, {KINDS[kind]}.",
            "negative": f"{NEGATIVE} {narrow} units, {KINDS[kind]}.",
            "dead": f"{DEAD} {wide} against {narrow} units, {KINDS[kind]}.",
        }
        for id, statement in about.items():
            place = (f"{id}-{kind}", statement, SOURCE)
            group = {"closes": CLOSES, "negative": NEGATIVE, "dead": DEAD}[id]
            if gap.empty or (id != "negative" and narrow == wide):
                made.append(Claim.missing(*place, "too few widths or none finished").tagged(group))
                continue
            values = {
                "closes": gap[narrow] - gap[wide],
                "negative": gap[narrow],
                "dead": dead[narrow] - dead[wide],
            }[id]
            made.append(Claim.greater(*place, values).tagged(group, ours=id == "dead"))
    return made


def finding(table, parameters):
    """The gap at the narrowest and the widest layer, random labels first."""
    said = []
    for kind in sorted(parameters["labels"]):
        gap = 100 * _across(table, parameters, kind, gaps)
        if not gap.empty:
            narrow, wide = gap.columns[0], gap.columns[-1]
            widths = [f"{interval(gap[n], '{:+.1f}')} ({n} units)" for n in dict.fromkeys((narrow, wide))]
            said.append(f"{KINDS[kind]} {', '.join(widths)}")
    if not said:
        return "No width has finished: there is nothing to compare."
    text = f"From scratch minus pre-trained, in points: {'; '.join(said)}."
    if not negative(table, parameters):
        text += " That pre-training slows the narrowest network is not found."
    return text


def negative(table, parameters):
    """Whether pre-training slows the narrowest network down, with any kind of labels: the claim holds."""
    return any(claim.outcome == HOLDS for claim in claims(table, parameters) if "negative" in claim.id)


def key_numbers(table, parameters):
    """The gap by width (the first kind of labels that is random, if any), and dead units."""
    kind = "random" if "random" in parameters["labels"] else parameters["labels"][0]
    gap = 100 * _across(table, parameters, kind, gaps)
    dead = 100 * _across(table, parameters, kind, dead_after)
    if gap.empty:
        return []

    def both(frame):
        return " / ".join(interval(frame[width], "{:.1f}") for width in dict.fromkeys(frame.columns[[0, -1]]))

    return [
        KeyNumber(f"scratch − pre-trained, {KINDS[kind]}, narrowest / widest (points)", both(gap)),
        KeyNumber("dead dense units after fine-tuning, narrowest / widest (%)", both(dead)),
    ]


def by_side(table, parameters, labels):
    """{side of the images: gaps of the narrowest network, by seed}, ascending."""
    narrow = min(parameters["dense_units"])
    sides = sorted({parameters["side"], *parameters["other_sides"]})
    found = {side: gaps(table, labels, narrow, side) for side in sides}
    return {side: values for side, values in found.items() if len(values)}
