"""Training one layer at a time, and what the alignment foretells (Lou et al. 2022, Section 2.1, Appendix C).

With outputs F ∈ R^{nk}, K_l = Ψ_lᵀ Ψ_l the tangent kernel of layer l, Z the predicted probabilities and
η = LR/n, one step of gradient descent on the cross-entropy by layer l alone changes the outputs by

    δf = -η K_l (Z - Y)  ≈  η K_l Ỹ   (Equation 4, at initialisation),      ‖δf‖ ≤ η Tr(K_l) ‖Ỹ‖,

and all layers together move them along the labels by ⟨Ỹ, δf⟩ ≈ Σ_l η Tr(K_l ỸỸᵀ) (Equation 5). A layer's
share is Tr(K_l ỸỸᵀ) = A_l ‖C K_l C‖ ‖Ỹ‖²; the paper takes A_l, without the norm, for what the layer adds.
"""

import copy

import pandas as pd
import torch
from torch import nn
from torch.nn import functional

from alignbook.kernels.mlp_sgd import MLP
from alignbook.metrics.tangent_alignment import tangent_alignment
from alignbook.seeding import torch_stream
from alignbook.training.loop import train
from companion.jobs import Job
from companion.studies.signal_propagation.shared.dense import (
    CLASSES,
    centred_labels,
    images as images_of,
    step_of,
)

from ..shared.tangent_step import cosine, held


def jobs(parameters):
    """Per data set and seed: one network, layer by layer; a mean of several; and another, for Equation 4."""
    p = parameters
    shared = {name: p[name] for name in ("depth", "width", "images", "learning_rate")}
    recipe = {name: p[name] for name in ("momentum", "steps", "batch_size", "weight_decay", "train_images")}
    made = []
    for dataset in p["datasets"]:
        for seed in range(p["seeds"]):
            given = shared | {"dataset": dataset, "seed": seed}
            made.append(Job(f"{dataset}-seed{seed}", compute, given | recipe))
            more = given | {"networks": p["networks"]}
            made.append(Job(f"{dataset}-mean-seed{seed}", compute_mean, more))
            others = given | {"seed": p["seeds"] + seed}
            made.append(Job(f"{dataset}-uniform-seed{others['seed']}", compute_uniform, others))
    return made


def compute(
    *,
    dataset,
    depth,
    width,
    images,
    learning_rate,
    momentum,
    steps,
    batch_size,
    weight_decay,
    train_images,
    seed,
    device,
    report,
):
    """Train each layer of one network alone, from initialisation and after one epoch of training them all.

    images : how many, as many of each class, layers are measured and trained on, by ``steps`` of full-batch
    gradient descent with ``momentum``. train_images : of the epoch of mini-batch SGD; 0: all.

    A row per start (epochs of ordinary training: 0, 1) and layer: what :func:`first_steps` gives, alignment
    (A_l), drop (of the mean loss by training it alone, nats), change (of the outputs, root mean square), and
    loss (at the start).
    """
    x, y = balanced(dataset, images, seed, device)
    all_x, all_y = images_of(dataset, "train", train_images, seed, device)
    mlp = MLP(x.shape[1], width, depth, CLASSES, torch_stream(seed, "appC", "weights"), device=device)
    tables = []

    def look(start):
        net = mlp.sequential()
        rows = pd.DataFrame(first_steps(copy.deepcopy(net).double(), x.double(), y, learning_rate))
        rows["alignment"] = tangent_alignment(net, x, y)
        trained = []
        for layer in range(depth):
            trained.append(alone(net, layer, x, y, learning_rate, momentum, steps))
            report((start + (layer + 1) / depth) / 2, f"layer {layer + 1} alone after {start} epochs")
        rows[["drop", "change"]] = trained
        with torch.no_grad():
            loss = float(functional.cross_entropy(net(x), y))
        tables.append(rows.assign(start=start, loss=loss))

    look(0)
    train(
        step_of(mlp, all_x, all_y, momentum, weight_decay),
        len(all_x),
        batch_size=batch_size,
        epochs=1,
        rate=learning_rate,
        generator=torch_stream(seed, "appC", "order"),
        device=device,
    )
    look(1)
    return pd.concat(tables, ignore_index=True).assign(kind="layer")


def compute_mean(*, dataset, depth, width, images, learning_rate, networks, seed, device, report):
    """Equation 4 as a mean over ``networks`` initial networks on the same images.

    Rows: layer, gained (mean of ⟨Ỹ, δf⟩ over mean of η Tr(K_l ỸỸᵀ)), mean_cosine (of the mean of δf with the
    mean of η K_l Ỹ).
    """
    x, y = balanced(dataset, images, seed, device)
    sums = torch.zeros(2, depth, len(x), CLASSES, dtype=torch.float64, device=device)
    for index in range(networks):
        draw = torch_stream(seed, "appC", "mean", index)
        net = MLP(x.shape[1], width, depth, CLASSES, draw, device=device).sequential().double()
        for layer, (actual, _, by_labels) in enumerate(changes(net, x.double(), y, learning_rate)):
            sums[0, layer] += actual
            sums[1, layer] += by_labels
        report((index + 1) / networks, f"network {index + 1} of {networks}")
    along = (sums * centred_labels(y).double()).sum((2, 3))
    return pd.DataFrame(
        {
            "kind": "mean",
            "layer": layer + 1,
            "gained": float(along[0, layer] / along[1, layer]),
            "mean_cosine": cosine(sums[0, layer], sums[1, layer]),
        }
        for layer in range(depth)
    )


def compute_uniform(*, dataset, depth, width, images, learning_rate, seed, device, report):
    """An initial network's steps, layer by layer, beside what they would be with uniform probabilities.

    Rows: layer, alignment (A_l), norm (‖δf‖), by_labels (‖η K_l Ỹ‖).
    """
    x, y = balanced(dataset, images, seed, device)
    draw = torch_stream(seed, "appC", "weights")
    net = MLP(x.shape[1], width, depth, CLASSES, draw, device=device).sequential()
    aligned = tangent_alignment(net, x, y)
    rows = []
    for layer, (actual, _, by_labels) in enumerate(changes(net.double(), x.double(), y, learning_rate)):
        lengths = {"norm": float(actual.norm()), "by_labels": float(by_labels.norm())}
        rows.append({"kind": "uniform", "layer": layer + 1, "alignment": aligned[layer], **lengths})
        report((layer + 1) / depth, f"layer {layer + 1}")
    return pd.DataFrame(rows)


def balanced(dataset, count, seed, device):
    """About ``count`` training images, as many of each class, drawn by the seed."""
    x, y = images_of(dataset, "train", 0, seed, device)
    order = torch.randperm(len(x), generator=torch_stream(seed, "appC", "images")).to(device)
    of_class = functional.one_hot(y[order], CLASSES).cumsum(0).gather(1, y[order][:, None])[:, 0]
    chosen = order[of_class <= count // CLASSES]
    return x[chosen], y[chosen]


def changes(net, x, y, rate):
    """Per layer (δf, -η K_l (Z - Y), η K_l Ỹ), each (n, k): one step of gradient descent by it alone.

    net : nn.Sequential in float64, left as it was. With its ReLUs held a network is linear in each layer, so
    that both products with the kernel are differences of its outputs.
    """
    weights, fixed = list(net.parameters()), held(net, x)
    of_loss = torch.autograd.grad(functional.cross_entropy(net(x), y), weights)
    of_labels = torch.autograd.grad((net(x) * centred_labels(y).to(x.dtype)).sum(), weights)
    with torch.no_grad():
        before = net(x)
        for weight, loss, labels in zip(weights, of_loss, of_labels, strict=True):
            kept = weight.clone()
            weight.sub_(rate * loss)
            actual, first_order = net(x) - before, fixed(x) - before
            weight.copy_(kept).add_(rate / len(x) * labels)
            by_labels = fixed(x) - before
            weight.copy_(kept)
            yield actual, first_order, by_labels


def first_steps(net, x, y, rate):
    """What one step of gradient descent by each layer alone does: a list of dicts, one per layer.

    layer, norm (‖δf‖), along (⟨Ỹ, δf⟩), error (‖δf + η K_l (Z - Y)‖ over ‖η K_l (Z - Y)‖), cosine (of δf with
    K_l Ỹ), share (Tr(K_l ỸỸᵀ)), common (the part of ‖δf‖² that is the same for all examples), trace (Tr K_l),
    bound (‖δf‖ / (η Tr(K_l) ‖Ỹ‖)), and, once for all layers, summed: ⟨Ỹ, δf⟩ of a step by all of them over
    the sum of their own.
    """
    centred, eta = centred_labels(y).to(x.dtype), rate / len(x)
    rows = []
    for layer, (actual, first_order, by_labels) in enumerate(changes(net, x, y, rate), start=1):
        rows.append(
            {
                "layer": layer,
                "norm": float(actual.norm()),
                "along": float((centred * actual).sum()),
                "error": float((actual - first_order).norm() / first_order.norm()),
                "cosine": cosine(actual, by_labels),
                "share": float((centred * by_labels).sum()) / eta,
                "common": float(len(x) * actual.mean(0).square().sum() / actual.square().sum()),
            }
        )
    whole, weights = copy.deepcopy(net), list(net.parameters())
    of_loss = torch.autograd.grad(functional.cross_entropy(net(x), y), weights)
    with torch.no_grad():
        for weight, step in zip(whole.parameters(), of_loss, strict=True):
            weight.sub_(rate * step)
        together = float((centred * (whole(x) - net(x))).sum())
    for row, trace in zip(rows, traces(net, x), strict=True):
        row["trace"] = trace
        row["bound"] = row["norm"] / (eta * trace * float(centred.norm()))
        row["summed"] = together / sum(other["along"] for other in rows)
    return rows


def traces(net, x):
    """Tr K_l of every layer: Σ_i ‖h_i‖² Σ_a ‖∂f_a(x_i)/∂z_l‖², h the layer's inputs."""
    h, inputs, outputs = x, [], []
    for module in net:
        linear = isinstance(module, nn.Linear)
        if linear:
            inputs.append(h.detach().square().sum(1))
        h = module(h)
        if linear:
            outputs.append(h)
    totals = [0.0] * len(inputs)
    for a in range(h.shape[1]):
        deltas = torch.autograd.grad(h[:, a].sum(), outputs, retain_graph=True)
        for layer, delta in enumerate(deltas):
            totals[layer] += float(delta.square().sum(1) @ inputs[layer])
    return totals


def alone(net, layer, x, y, rate, momentum, steps):
    """[drop of the mean loss, root mean square change of the outputs] after training one layer of a copy."""
    twin = copy.deepcopy(net)
    for index, weight in enumerate(twin.parameters()):
        weight.requires_grad_(index == layer)
    optimiser = torch.optim.SGD([list(twin.parameters())[layer]], lr=rate, momentum=momentum)
    with torch.no_grad():
        before = net(x)
    for _ in range(steps):
        optimiser.zero_grad()
        functional.cross_entropy(twin(x), y).backward()
        optimiser.step()
    with torch.no_grad():
        after = twin(x)
    drop = functional.cross_entropy(before, y) - functional.cross_entropy(after, y)
    return [float(drop), float((after - before).square().mean().sqrt())]
