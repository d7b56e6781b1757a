"""Layers trained one by one towards the labels' kernel, and all at once (Lou et al. 2022, Figures 16 and 17).

Algorithm 1 (Appendix F), layer-wise feature maximisation. Inputs have length 1 (here, after the mean of all
pixels was taken off, without which all images are nearly parallel). For layers l = 1 … L - 1, on
what the layers below give, each feature vector scaled to length 1, minimise over weights and biases of l

    Σ_{i, j ∈ batch} (φ(z_l(x_i))ᵀ φ(z_l(x_j)) - ½ δ_{y_i y_j})²

until the loss on held-out images no longer falls; then train layer L on the cross-entropy. The text at hand
prints φ(z_{l-1}(x_i)) + φ(z_{l-1}(x_j)) for the kernel: a vector, where the loss needs a number, and of the
layer below, which these weights do not change. Section 3.1 defines the forward kernel as an inner product.
"""

import pandas as pd
import torch
from torch import nn
from torch.nn import functional

from alignbook.kernels.mlp_sgd import MLP
from alignbook.metrics.tangent_alignment import tangent_alignment
from alignbook.seeding import torch_stream
from alignbook.training.loop import module_step, train
from companion.jobs import Job
from companion.studies.signal_propagation.shared.dense import CLASSES, accuracy, images, step_of

from .design import TARGET

CHUNK = 5000  # images taken through a layer at once

# Fixed before any result was seen.
PLATEAU = 0.01  # a held-out loss has stopped falling when it was not below its least by this share of it ...
PATIENCE = 2  # ... for so many epochs, unless a parameter says otherwise


def jobs(parameters):
    """Layer by layer per data set and width, with another target for the first; end to end per data set and
    stopping time.
    """
    p = parameters
    shared = {
        name: p[name] for name in "depth train_images validation_images batch_size alignment_images".split()
    }
    layerwise = shared | {"rate": p["layer_rate"], "max_epochs": p["max_epochs"]}
    if p["patience"] != PATIENCE:  # which results do not name that were stored when there was no other
        layerwise |= {"patience": p["patience"]}
    both = {name: p[name] for name in ("momentum", "weight_decay")}
    both |= {"rate": p["rate"], "width": p["end_to_end_width"]}
    others = [epochs for epochs in p["other_epochs"] if epochs != p["epochs"]]
    ends = {"": p["epochs"]} | {f"-epochs{epochs}": epochs for epochs in others}
    conditions = {
        f"layers-{dataset}-width{width}": (compute_layerwise, {"dataset": dataset, "width": width})
        for dataset, widths in ((p["first"], p["first_widths"]), (p["second"], p["second_widths"]))
        for width in widths
    }
    made = []
    for seed in range(p["seeds"]):
        for name, (compute, extra) in conditions.items():
            arguments = layerwise | extra | {"target": TARGET, "seed": seed}
            made.append(Job(f"{name}-seed{seed}", compute, arguments))
        for target in p["other_targets"]:
            extra = {"dataset": p["first"], "width": max(p["first_widths"]), "target": target, "seed": seed}
            made.append(Job(f"layers-target{target:g}-seed{seed}", compute_layerwise, layerwise | extra))
        for dataset in dict.fromkeys((p["first"], p["second"])):
            for stop, epochs in ends.items():
                arguments = shared | both | {"dataset": dataset, "epochs": epochs, "seed": seed}
                made.append(Job(f"end-to-end-{dataset}{stop}-seed{seed}", compute_end_to_end, arguments))
    return list({job.name: job for job in made}.values())


class UnitLength(nn.Module):
    """Scales each example, (n, features), to length 1; one that is zero stays so."""

    def forward(self, z):
        return functional.normalize(z, dim=1)


def compute_layerwise(
    *,
    dataset,
    depth,
    width,
    train_images,
    validation_images,
    batch_size,
    rate,
    max_epochs,
    target,
    alignment_images,
    patience=PATIENCE,
    seed,
    device,
    report,
):
    """Algorithm 1 with Adam; A_l (Eq. 7) of the network that it returns.

    train_images : with those held out, 0: all; validation_images : how many are held out; max_epochs : most
    passes per layer; target : in place of the ½; patience : as of :func:`until_plateau`. LeakyReLU of slope
    0.01.

    One row per layer: layer, alignment, epochs (passes that it took), loss (held out: of pairs, per pair, of
    the last layer cross-entropy); and of the network train_accuracy, test_accuracy (percent).
    Raises Diverged.
    """
    x, y = images(dataset, "train", train_images, seed, device)
    centre, whole = x.mean(), len(x)
    x = functional.normalize(x - centre, dim=1)
    x_test, y_test = images(dataset, "test", 0, seed, device)
    x_test = functional.normalize(x_test - centre, dim=1)
    h, labels = x[validation_images:], y[validation_images:]
    held, held_labels = x[:validation_images], y[:validation_images]
    modules, rows = [], []
    for layer in range(1, depth + 1):
        last = layer == depth
        linear = nn.Linear(h.shape[1], CLASSES if last else width)
        stage = nn.Sequential(linear, *([] if last else [nn.LeakyReLU()]))
        uniform_(linear, torch_stream(seed, "fig16", "weights", layer))
        stage.to(device)
        loss = functional.cross_entropy if last else lambda z, wanted: pair_loss(z, wanted, target)
        trained, reached = until_plateau(
            stage,
            loss,
            (h, labels),
            (held, held_labels),
            batch_size=batch_size,
            rate=rate,
            max_epochs=max_epochs,
            patience=patience,
            generator=torch_stream(seed, "fig16", "order", layer),
            report=lambda done, text, layer=layer: report(
                (layer - 1 + done) / depth, f"layer {layer}, {text}"
            ),
        )
        rows.append({"layer": layer, "epochs": trained.epochs, "loss": reached})
        modules += list(stage)
        if not last:
            modules.append(UnitLength())
            with torch.no_grad():
                h, held = (
                    torch.cat([functional.normalize(stage(part), dim=1) for part in z.split(CHUNK)])
                    for z in (h, held)
                )
    net = nn.Sequential(*modules)
    return measured(net, rows, "layers", (x, y), (x_test, y_test), alignment_images, seed, whole)


def compute_end_to_end(
    *,
    dataset,
    depth,
    width,
    train_images,
    validation_images,
    batch_size,
    rate,
    epochs,
    momentum,
    weight_decay,
    alignment_images,
    seed,
    device,
    report,
):
    """The fully connected network of Equation 8, all layers trained by SGD on the same images, none held out.

    Columns as :func:`compute_layerwise` has them; loss: mean of the last epoch. ``validation_images`` are
    trained on, too (Figures 16 and 17). Raises Diverged.
    """
    x, y = images(dataset, "train", train_images, seed, device)
    mlp = MLP(x.shape[1], width, depth, CLASSES, torch_stream(seed, "fig16", "mlp"), device=device)
    trained = train(
        step_of(mlp, x, y, momentum, weight_decay),
        len(x),
        batch_size=batch_size,
        epochs=epochs,
        rate=rate,
        generator=torch_stream(seed, "fig16", "mlp order"),
        device=device,
        report=report,
    )
    rows = [{"layer": n, "epochs": trained.epochs, "loss": trained.loss} for n in range(1, depth + 1)]
    test = images(dataset, "test", 0, seed, device)
    return measured(mlp.sequential(), rows, "end to end", (x, y), test, alignment_images, seed, len(x))


def measured(net, rows, kind, train_set, test_set, alignment_images, seed, whole):
    """``rows``, one per layer, with alignments and accuracies of ``net``, as a table."""
    x, y = train_set
    order = torch.randperm(whole, generator=torch_stream(seed, "fig16", "alignment"))[:alignment_images]
    order = order.to(x.device)
    table = pd.DataFrame(rows).assign(kind=kind, alignment=tangent_alignment(net, x[order], y[order]))
    accuracies = {
        name: 100 * accuracy(net, *some)
        for name, some in (("train_accuracy", train_set), ("test_accuracy", test_set))
    }
    return table.assign(**accuracies)


@torch.no_grad()
def uniform_(linear, generator):
    """Draw weights and biases anew, uniform within ± 1/√fan_in, as PyTorch does by itself."""
    bound = linear.in_features**-0.5
    for parameter in (linear.weight, linear.bias):
        parameter.uniform_(-bound, bound, generator=generator)


def pair_loss(features, y, target=TARGET):
    """Mean over all pairs of a batch, each with itself, too, of (φ_iᵀφ_j - target δ)²; (b, width), (b,)."""
    wanted = target * (y[:, None] == y[None, :]).to(features.dtype)
    return (features @ features.T - wanted).square().mean()


def until_plateau(
    stage, loss, train_set, held_out, *, batch_size, rate, max_epochs, patience, generator, report
):
    """Train ``stage`` by Adam until its loss on ``held_out`` has stopped falling.

    That is, until for ``patience`` epochs it was not below its least before by ``PLATEAU`` of it. Returns
    (Trained, the last held-out loss: the mean over batches of the training's size). No step back.
    """
    (x, y), reached = train_set, []

    @torch.no_grad()
    def flat(now):
        batches = zip(*(part.split(batch_size) for part in held_out), strict=True)
        reached.append(float(torch.stack([loss(stage(inputs), wanted) for inputs, wanted in batches]).mean()))
        before, recent = reached[:-patience], reached[-patience:]
        return bool(before) and min(recent) > (1 - PLATEAU) * min(before)

    trained = train(
        module_step(stage, x, y, torch.optim.Adam(stage.parameters(), lr=rate), loss=loss),
        len(x),
        batch_size=batch_size,
        epochs=max_epochs,
        rate=rate,
        last_batch="drop",
        generator=generator,
        device=x.device,
        until=flat,
        report=report,
    )
    if len(reached) < trained.epochs:  # not asked after the last one
        flat(trained)
    return trained, reached[-1]
