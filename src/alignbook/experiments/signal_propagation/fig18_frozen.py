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

from alignbook.claims import UNDECIDED, Claim, KeyNumber, interval
from alignbook.experiments import Unit
from alignbook.experiments.signal_propagation.dense import (
    CLASSES,
    accuracy,
    centred_labels,
    images,
    step_of,
)
from alignbook.kernels.mlp_sgd import MLP
from alignbook.kernels.nngp import nngp_kernel
from alignbook.kernels.products import float32_products
from alignbook.metrics.tangent_alignment import tangent_alignment
from alignbook.seeding import torch_stream
from alignbook.training.loop import module_step, train

HEADLINE = "evolves"
# Table 4 (MNIST, 10 layers): width -> (largest training accuracy, largest test accuracy), percent
PAPER_TABLE = {75000: (97.6, 96.4), 10000: (96.4, 95.6), 2048: (92.6, 91.9)}
PAPER_WIDTH = 2048  # Figure 18; the width at which ``rate`` is meant
ROWS = 8192  # examples taken through the frozen layers at once

# Fixed before any result was seen.
CHANGE = 0.1  # "non-trivial": the mean relative change of the hidden layers' alignments

EVOLVES = (
    "Though all layers but the last are frozen, the hidden layers' alignments change (ours: by over a tenth)."
)
RISES = "They rise (change of their mean)."
WIDER = "Frozen networks become more accurate with width (points, narrowest to widest)."
PRINTED = "One run of ours could have given the printed accuracy."
BEHIND = (
    "A network trained whole classifies more test images than a frozen one (points; the better of the frozen "
    "network's SGD and least squares)."
)


def units(parameters):
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
            made.append(Unit(f"width{width}-seed{seed}", compute, shared | extra | {"seed": seed}))
        for width in p["all_images_widths"]:
            extra = {"width": width, "train_images": 0, "noise_scales": list(p["noise_scales"])}
            made.append(Unit(f"width{width}-all-seed{seed}", compute, shared | extra | {"seed": seed}))
        limit = {name: p[name] for name in "dataset depth ridge test_images train_images".split()}
        made.append(Unit(f"limit-seed{seed}", compute_limit, limit | {"seed": seed}))
        whole = {name: p[name] for name in "dataset depth batch_size rate momentum test_images".split()}
        whole |= {"width": p["unfrozen_width"], "steps": p["unfrozen_steps"], "seed": seed}
        for count in (p["train_images"], 0):
            part = "" if count else "-all"
            name = f"unfrozen{p['unfrozen_width']}{part}-seed{seed}"
            made.append(Unit(name, compute_unfrozen, whole | {"train_images": count}))
    names = dict.fromkeys(unit.name for unit in made)
    return [next(unit for unit in made if unit.name == name) for name in names]


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


def nets(table, all_images):
    """Rows of networks on all images or on a part of them; empty where there are none."""
    if "kind" not in table or "noise" not in table:
        return pd.DataFrame()
    rows = table[table["kind"] == "net"]
    return rows[(rows["train_images"] == 0) == all_images]


def accuracies(table, column, all_images=False):
    """(seeds × widths) frame of one column at noise scale 1; empty where there is none."""
    rows = nets(table, all_images)
    if rows.empty:
        return pd.DataFrame()
    rows = rows[rows["noise"] == 1].drop_duplicates(["width", "seed"])
    rows = rows.astype({"width": int})
    return rows.pivot(index="seed", columns="width", values=column).sort_index(axis=1)


def unfrozen(table, column, all_images=False):
    """One column of the networks trained whole, one value per seed (a Series)."""
    if "kind" not in table:
        return pd.Series(dtype=float)
    rows = table[(table["kind"] == "unfrozen") & ((table["train_images"] == 0) == all_images)]
    return rows.set_index("seed")[column].astype(float) if len(rows) else pd.Series(dtype=float)


def behind(table, width, all_images=False):
    """Test accuracy of the network trained whole less the better of a frozen one's two, points per seed."""
    found = [accuracies(table, column, all_images) for column in ("test_accuracy", "ridge_test")]
    if any(width not in frame for frame in found):
        return pd.Series(dtype=float)
    best = pd.concat([frame[width] for frame in found], axis=1).max(axis=1)
    return (unfrozen(table, "test_accuracy", all_images) - best).dropna()


def limit(table, column):
    """``ridge_train`` or ``ridge_test`` of the infinitely wide network, one per seed (a Series)."""
    if "kind" not in table:
        return pd.Series(dtype=float)
    rows = table[table["kind"] == "limit"]
    return rows.set_index("seed")[column] if len(rows) else pd.Series(dtype=float)


def layers(table, noise, column="alignment"):
    """(seeds × layers) frame of the alignments on all images at one noise scale; empty where none."""
    rows = nets(table, True)
    if rows.empty:
        return pd.DataFrame()
    rows = rows[(rows["noise"] == noise) & (rows["width"] == rows["width"].min())]
    return rows.astype({"layer": int}).pivot(index="seed", columns="layer", values=column)


def off_centre(table, noise):
    """Distance of the layer of largest alignment from the middle of all layers, per seed (a Series)."""
    frame = layers(table, noise).dropna()
    if frame.empty:
        return pd.Series(dtype=float)
    return (frame.idxmax(axis=1) - (frame.columns.max() + 1) / 2).abs()


def changes(table, noise):
    """Mean over the hidden layers, 1 … L - 1, of |A_l after / A_l before - 1|, per seed (a Series)."""
    after, before = (layers(table, noise, name) for name in ("alignment", "alignment_init"))
    if after.empty:
        return pd.Series(dtype=float)
    return (after / before - 1).abs().iloc[:, :-1].mean(axis=1).dropna()


def rises(table, noise):
    """Change of the mean alignment of the hidden layers, 1 … L - 1, by training, per seed (a Series)."""
    after, before = (layers(table, noise, name) for name in ("alignment", "alignment_init"))
    if after.empty:
        return pd.Series(dtype=float)
    return (after - before).iloc[:, :-1].mean(axis=1).dropna()


def gaps(table, width):
    """|accuracy of the readout - that of the limit|, test images, in points per seed (a Series)."""
    found, end = accuracies(table, "ridge_test"), limit(table, "ridge_test")
    if width not in found:
        return pd.Series(dtype=float)
    return (found[width] - end).abs().dropna()


def claims(table, parameters):
    """Figure 18's two statements, Table 4's (networks trained whole beside), and the limit, ours to test."""
    p, made = parameters, []

    def greater(id, statement, where, values, group=None, ours=False, than=0.0):
        if len(values):
            claim = Claim.greater(id, statement, where, values, than=than)
        else:
            claim = Claim.missing(id, statement, where, "nothing was measured")
        claim = claim.within(0.0) if group == EVOLVES else claim  # a mean of magnitudes
        made.append(claim.tagged(group=group, ours=ours))

    for noise in p["noise_scales"]:
        statement, values = f"{EVOLVES} Noise scale {noise:g}.", changes(table, noise)
        greater(f"evolves-{noise:g}", statement, "Figure 18", values, group=EVOLVES, than=CHANGE)
    for noise in p["noise_scales"]:
        statement, where = f"{RISES} Noise scale {noise:g}.", "Figure 18; the direction is ours"
        greater(f"rises-{noise:g}", statement, where, rises(table, noise), group=RISES, ours=True)
    low, high = min(p["noise_scales"]), max(p["noise_scales"])
    moved = (off_centre(table, high) - off_centre(table, low)).dropna()
    statement = "Less noise in the last layer moves the peak of the alignment towards the centre"
    greater("centre", f"{statement} (layers, noise scale {high:g} to {low:g}).", "Figure 18", moved)
    for column in ("train", "test"):
        frame = accuracies(table, f"{column}_accuracy")
        change = (
            (frame.iloc[:, -1] - frame.iloc[:, 0]).dropna() if frame.shape[1] > 1 else pd.Series(dtype=float)
        )
        greater(f"wider-{column}", f"{WIDER} On {column} images.", "Table 4", change, group=WIDER)
    whole = accuracies(table, "train_accuracy", all_images=True)
    short = 100 - whole[PAPER_WIDTH].dropna() if PAPER_WIDTH in whole else pd.Series(dtype=float)
    statement = (
        f"At width {PAPER_WIDTH} training does not reach 100 % training accuracy (points short of it)."
    )
    greater("short", statement, "Figure 18, Table 4", short)
    for width in p["all_images_widths"]:
        for column, printed in zip(("train", "test"), PAPER_TABLE.get(width, ()), strict=False):
            frame = accuracies(table, f"{column}_accuracy", all_images=True)
            about = (f"printed-{width}-{column}", f"{PRINTED} Width {width}, {column} images.", "Table 4")
            if width in frame and p["dataset"] == "mnist":
                claim = Claim.one_run(*about, frame[width].dropna(), printed)
            else:
                claim = Claim.missing(*about, "not computed on all images of MNIST", paper=printed)
            made.append(claim.tagged(group=PRINTED))
    for all_images, widths in ((False, p["widths"]), (True, p["all_images_widths"])):
        for width in widths:
            tail, where = (f"{width}-all", "all images") if all_images else (width, "a part of the images")
            about = f"{BEHIND} Width {p['unfrozen_width']} against {width}, {where}."
            greater(
                f"behind-{tail}", about, "Table 4, caption", behind(table, width, all_images), group=BEHIND
            )
    narrow, wide = (gaps(table, end) for end in (min(p["widths"]), max(p["widths"])))
    statement = "The least-squares readout comes nearer to the infinitely wide network's with width"
    about = f"{statement} (points by which the widest is nearer in test accuracy than the narrowest)."
    greater("limit", about, "Figure 18, caption; the readout is ours", (narrow - wide).dropna(), ours=True)
    return made


def finding(table, parameters):
    """The change of the alignments, at which noise it is undecided, and the accuracies."""
    parts = []
    outcome = {claim.id: claim.outcome for claim in claims(table, parameters)}
    changed, unsure = [], []
    for noise in parameters["noise_scales"]:
        values = changes(table, noise)
        if len(values):
            changed.append(100 * values.mean())
            if outcome[f"evolves-{noise:g}"] == UNDECIDED:
                unsure.append(f"{noise:g}")
    if changed:
        where = "every noise" if len(unsure) == len(changed) else f"noise {' and '.join(unsure)}"
        but = f" (whether over {100 * CHANGE:.0f} is undecided at {where})" if unsure else ""
        ends = f"{min(changed):.0f} to {max(changed):.0f}"
        parts.append(f"Training the last layer alone changes the others' alignments by {ends} %{but}.")
    frozen = accuracies(table, "test_accuracy", all_images=True)
    for width in frozen.columns[:1]:
        printed = PAPER_TABLE.get(width) if parameters["dataset"] == "mnist" else None
        said = f"Test accuracy frozen at width {width}: {frozen[width].mean():.1f} %"
        said += f" (printed {printed[1]:g})" if printed else ""
        whole = unfrozen(table, "test_accuracy", all_images=True)
        if len(whole):
            said += f"; not frozen, width {parameters['unfrozen_width']}: {whole.mean():.1f} %"
        parts.append(f"{said}.")
    end, found = limit(table, "ridge_test"), accuracies(table, "ridge_test")
    if len(end) and len(found):
        widest = found.columns[-1]
        parts.append(
            f"Least squares, {parameters['train_images']} images: {found[widest].mean():.1f} % at "
            f"width {widest}, {end.mean():.1f} % at infinite width."
        )
    return " ".join(parts) or "Nothing was computed."


def key_numbers(table, parameters):
    """Table 4's two accuracies at the smallest width on all images, and the infinitely wide network's."""
    result = []
    for column, place in (("train", 0), ("test", 1)):
        frame = accuracies(table, f"{column}_accuracy", all_images=True)
        if frame.shape[1]:
            width = frame.columns[0]
            printed = PAPER_TABLE.get(width, (None, None))[place]
            what = f"{column} accuracy at width {width} (%)"
            result.append(KeyNumber(what, interval(frame[width].dropna(), "{:.1f}"), printed))
    end = limit(table, "ridge_test")
    if len(end):
        what = f"test accuracy at infinite width, {parameters['train_images']} images (%)"
        result.append(KeyNumber(what, interval(end, "{:.1f}")))
    return result
