"""All layers but the last frozen at initialisation (Lou et al. 2022, Figure 18 and Table 4, Appendix F).

Networks of the same depth that are trained whole, on the same images, stand beside them.
The frozen layers map an image to features φ(z_{L-1}(x)). On these the last layer is trained, by SGD on the
cross-entropy as in the paper; beside it stands the least-squares readout with a small ridge, whose limit of
infinite width is known: regression with the NNGP kernel of the outputs.
"""

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.kernels.mlp_sgd import MLP
from alignbook.kernels.nngp import nngp_kernel
from alignbook.kernels.products import float32_products
from alignbook.metrics.tangent_alignment import tangent_alignment
from alignbook.seeding import torch_stream
from alignbook.training.loop import module_step, train
from companion.jobs import Job
from companion.studies.signal_propagation.shared.dense import (
    CLASSES,
    accuracy,
    centred_labels,
    images,
    step_of,
)

PAPER_WIDTH = 2048  # Figure 18; the width at which ``rate`` is meant
ROWS = 8192  # examples taken through the frozen layers at once


def jobs(parameters):
    """One network per width on a part of the images; per width and all noise scales on all; the limit."""
    p = parameters
    shared = {
        name: p[name]
        for name in "dataset depth epochs batch_size rate momentum ridge test_images alignment_images".split()
    }
    made = []
    for seed in range(p["seeds"]):
        for width in p["widths"]:
            extra = {"width": width, "train_images": p["train_images"], "noise_scales": [1.0]}
            made.append(Job(f"width{width}-seed{seed}", compute, shared | extra | {"seed": seed}))
        for width in p["all_images_widths"]:
            extra = {"width": width, "train_images": 0, "noise_scales": list(p["noise_scales"])}
            made.append(Job(f"width{width}-all-seed{seed}", compute, shared | extra | {"seed": seed}))
        for width in p["all_images_widths"] if seed < p["maxima_networks"] else ():
            extra = {name: p[name] for name in "dataset depth epochs batch_size rate momentum".split()}
            extra |= {"width": width, "test_images": p["test_images"], "seed": seed}
            made.append(Job(f"maxima{width}-seed{seed}", compute_maxima, extra))
        limit = {name: p[name] for name in "dataset depth ridge test_images train_images".split()}
        made.append(Job(f"limit-seed{seed}", compute_limit, limit | {"seed": seed}))
        whole = {name: p[name] for name in "dataset depth batch_size rate momentum test_images".split()}
        whole |= {"width": p["unfrozen_width"], "steps": p["unfrozen_steps"], "seed": seed}
        for count in (p["train_images"], 0):
            part = "" if count else "-all"
            name = f"unfrozen{p['unfrozen_width']}{part}-seed{seed}"
            made.append(Job(name, compute_unfrozen, whole | {"train_images": count}))
    names = dict.fromkeys(job.name for job in made)
    return [next(job for job in made if job.name == name) for name in names]


def compute(
    *,
    dataset,
    depth,
    width,
    train_images,
    test_images,
    noise_scales,
    epochs,
    batch_size,
    rate,
    momentum,
    ridge,
    alignment_images,
    seed,
    device,
    report,
):
    """Train the last layer of one network, from each of ``noise_scales``; A_l (Eq. 7) before and after.

    ``train_images``, ``test_images`` 0: all. Frozen weights N(0, 2/fan_in), those of the last layer
    N(0, s²·2/width) at first, with the same draw for every noise scale s. rate : of SGD at width 2048, taken
    inversely to the width, since the features' squared length grows with it. ridge : of the least-squares
    readout, in units of that length. alignment_images : training images of the alignments, 0: none.

    One row per noise scale and layer (one alone without alignments): noise, layer, alignment,
    alignment_init; and of the network train_accuracy, test_accuracy (percent), train_loss (nats, mean over
    the last epoch), ridge_train, ridge_test (percent, the readout). Raises Diverged.
    """
    x, y = images(dataset, "train", train_images, seed, device)
    x_test, y_test = images(dataset, "test", test_images, seed, device)
    sample = torch.randperm(len(x), generator=torch_stream(seed, "fig18", "alignment"))[:alignment_images]
    seen, labels = x[sample.to(device)], y[sample.to(device)]
    keep = alignment_images > 0
    h, h_test, frozen = features(
        x, x_test, depth, width, seed, keep, lambda done, text: report(0.6 * done, text)
    )
    readout = least_squares(h, y, ridge)
    of_readout = {
        "ridge_train": 100 * accuracy(readout, h, y),
        "ridge_test": 100 * accuracy(readout, h_test, y_test),
    }
    draw = torch.randn(CLASSES, width, generator=torch_stream(seed, "fig18", "head", width))
    rows = []
    for number, noise in enumerate(noise_scales):
        head = nn.Linear(width, CLASSES, bias=False, device=device)
        with torch.no_grad():
            head.weight.copy_(draw * noise * (2 / width) ** 0.5)
        before = alignments(frozen, head, seen, labels)
        learning_rate = rate * PAPER_WIDTH / width
        trained = train(
            module_step(head, h, y, torch.optim.SGD(head.parameters(), lr=learning_rate, momentum=momentum)),
            len(h),
            batch_size=batch_size,
            epochs=epochs,
            rate=learning_rate,
            generator=torch_stream(seed, "fig18", "order"),
            device=device,
            report=lambda done, text, number=number: report(
                0.6 + 0.4 * (number + done) / len(noise_scales), text
            ),
        )
        of_network = {
            "noise": noise,
            "train_accuracy": 100 * accuracy(head, h, y),
            "test_accuracy": 100 * accuracy(head, h_test, y_test),
            "train_loss": trained.loss,
            **of_readout,
        }
        after = alignments(frozen, head, seen, labels)
        for layer, pair in enumerate(zip(before, after, strict=True), start=1):
            rows.append(
                {"layer": layer, "alignment_init": pair[0], "alignment": pair[1]}
                | of_network
                | {"kind": "net"}
            )
    return pd.DataFrame(rows)


def compute_maxima(
    *, dataset, depth, width, test_images, epochs, batch_size, rate, momentum, seed, device, report
):
    """The largest accuracies that the network of :func:`compute` passes at noise scale 1, as in Table 4.

    On all training images, looked at after every epoch. One row: train_accuracy, test_accuracy (percent), and
    at_train, at_test, the first epochs at which they were reached. Raises Diverged.
    """
    x, y = images(dataset, "train", 0, seed, device)
    x_test, y_test = images(dataset, "test", test_images, seed, device)
    h, h_test, _ = features(x, x_test, depth, width, seed, False, lambda done, text: report(0.6 * done, text))
    draw = torch.randn(CLASSES, width, generator=torch_stream(seed, "fig18", "head", width))
    head = nn.Linear(width, CLASSES, bias=False, device=device)
    with torch.no_grad():
        head.weight.copy_(draw * (2 / width) ** 0.5)
    learning_rate, passed = rate * PAPER_WIDTH / width, []

    def look(now):
        passed.append([100 * accuracy(head, h, y), 100 * accuracy(head, h_test, y_test)])
        return False

    trained = train(
        module_step(head, h, y, torch.optim.SGD(head.parameters(), lr=learning_rate, momentum=momentum)),
        len(h),
        batch_size=batch_size,
        epochs=epochs,
        rate=learning_rate,
        generator=torch_stream(seed, "fig18", "order"),
        device=device,
        until=look,
        report=lambda done, text: report(0.6 + 0.4 * done, text),
    )
    look(trained)  # not asked after the last epoch
    largest, at = np.max(passed, axis=0), np.argmax(passed, axis=0) + 1
    row = {"kind": "maxima", "train_accuracy": largest[0], "test_accuracy": largest[1]}
    return pd.DataFrame([row | {"at_train": at[0], "at_test": at[1]}])


def compute_limit(*, dataset, depth, ridge, train_images, test_images, seed, device, report):
    """Regression on the centred labels with the NNGP kernel: the least-squares readout at infinite width.

    ridge : in units of the kernel's mean diagonal. One row: ridge_train, ridge_test (percent).
    """
    x, y = images(dataset, "train", train_images, seed, device)
    x_test, y_test = images(dataset, "test", test_images, seed, device)
    kernel = nngp_kernel(x, x, depth)
    report(0.4, "kernel of the training images")
    amount = ridge * float(kernel.diagonal().mean())
    weights = solve(kernel.clone(), centred_labels(y).double(), amount)
    report(0.6, "solved")
    hits = [
        float(100 * ((gram @ weights).argmax(1) == labels).double().mean())
        for gram, labels in ((kernel, y), (nngp_kernel(x_test, x, depth), y_test))
    ]
    return pd.DataFrame([{"kind": "limit", "ridge_train": hits[0], "ridge_test": hits[1]}])


def compute_unfrozen(
    *,
    dataset,
    depth,
    width,
    train_images,
    test_images,
    steps,
    batch_size,
    rate,
    momentum,
    seed,
    device,
    report,
):
    """Train every layer of a network (Eq. 8) by SGD on the images that the frozen networks see.

    ``train_images``, ``test_images`` 0: all. rate : as given, whatever the width. steps : of SGD.
    One row: train_accuracy, test_accuracy (percent), train_loss (nats, mean over the last epoch).
    Raises Diverged.
    """
    x, y = images(dataset, "train", train_images, seed, device)
    x_test, y_test = images(dataset, "test", test_images, seed, device)
    start = torch_stream(seed, "fig18", "unfrozen", width)
    net = MLP(x.shape[1], width, depth, CLASSES, start, device=device)
    trained = train(
        step_of(net, x, y, momentum, 0.0),
        len(x),
        batch_size=batch_size,
        steps=steps,
        rate=rate,
        generator=torch_stream(seed, "fig18", "order"),
        device=device,
        report=report,
    )
    row = {
        "kind": "unfrozen",
        "train_accuracy": 100 * accuracy(net.logits, x, y),
        "test_accuracy": 100 * accuracy(net.logits, x_test, y_test),
        "train_loss": trained.loss,
    }
    return pd.DataFrame([row])


@torch.no_grad()
def features(x, x_test, depth, width, seed, keep, report):
    """φ(z_{L-1}) of two sets of inputs, (n, width) each, and the frozen weights, a list if ``keep``."""
    h, h_test, frozen = x, x_test, []
    for layer in range(1, depth):
        draw = torch.randn(width, h.shape[1], generator=torch_stream(seed, "fig18", "weights", width, layer))
        weight = draw.mul_((2 / h.shape[1]) ** 0.5).to(x.device)
        with float32_products():
            h, h_test = (
                torch.cat([(part @ weight.T).relu_() for part in inputs.split(ROWS)])
                for inputs in (h, h_test)
            )
        if keep:
            frozen.append(weight)
        report(layer / (depth - 1), f"layer {layer} of {depth}")
    return h, h_test, frozen


def least_squares(h, y, ridge):
    """Outputs (as a function of features) of the ridge readout on the centred labels, through the origin.

    h : (n, width); ridge : in units of the mean squared length of the rows. The smaller of the two systems,
    of n or of width equations, in float64.
    """
    target = centred_labels(y).double()
    amount = ridge * float(h.double().square().sum(1).mean())
    if h.shape[1] <= len(h):
        moments = torch.zeros(h.shape[1], h.shape[1], dtype=torch.float64, device=h.device)
        right = torch.zeros(h.shape[1], target.shape[1], dtype=torch.float64, device=h.device)
        for rows, wanted in zip(h.split(ROWS), target.split(ROWS), strict=True):
            moments += rows.T @ rows  # a block's products in the features' precision, their sum in float64
            right += rows.double().T @ wanted
        weights = solve(moments, right, amount)
    else:
        weights = h.double().T @ solve((h @ h.T).double(), target, amount)
    return lambda inputs: inputs @ weights.to(inputs.dtype)


def solve(matrix, right, amount):
    """(matrix + amount I)⁻¹ right by Cholesky; ``matrix`` (m, m) is overwritten."""
    matrix.diagonal().add_(amount)
    return torch.cholesky_solve(right, torch.linalg.cholesky(matrix))


def alignments(frozen, head, x, y):
    """A_l of the network of ``frozen`` weights and ``head``, one per layer; [nan] without weights."""
    if not frozen:
        return [np.nan]
    modules = []
    for weight in frozen:
        linear = nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
        linear.weight = nn.Parameter(weight, requires_grad=False)
        modules += [linear, nn.ReLU()]
    return tangent_alignment(nn.Sequential(*modules, head), x, y)
