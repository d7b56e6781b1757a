"""Features of a network trained on ImageNet against inputs, initialisation and hand-made ones (Figure 13).

And Figures 19 and 20: the same on CIFAR-10. EfficientNet-Lite0 stands in for VGG16, ResNet-50 and ResNet-101.
"""

import math

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.claims import CONTRADICTED, HOLDS, Claim, KeyNumber, interval
from alignbook.data import colour32
from alignbook.experiments import Unit
from alignbook.seeding import numpy_stream, torch_stream
from alignbook.studies.representation_alignment import image_features
from alignbook.studies.representation_alignment.constant_feature import with_constant
from alignbook.studies.representation_alignment.fig01_three_representations.experiment import linear_model
from alignbook.studies.representation_alignment.fig06_architectures.experiment import (
    DIGITS,
    THRESHOLDS,
    curve,
)
from alignbook.studies.representation_alignment.two_classes import images
from alignbook.training.imagenet import imagenet_network
from alignbook.training.nets import he_normal_layer_

HEADLINE = "better"
NAMES = {
    "transfer": "pre-trained",
    "original": "inputs",
    "init": "initialisation",
    "hog": "HOG",
    "sift": "SIFT",
    "rbf": "RBF",
}
LEARNED = ("transfer", "hog", "sift", "rbf")  # on which linear models are trained (Figure 13, c and d)
LOSSES = ("squared", "logistic")
TITLES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
CLASSES = {"cifar10": 10, "cifar100": 100, "photos": 10}
BATCH = 50  # images that go through a network at once
CURVE = 40  # steps that are stored, evenly spaced in the logarithm
GONE = 0.05  # of ‖y‖²: alignment that has dropped off
SHARE = (0.0, 1.0)  # no area lies outside
CLOSED = 1e-6  # of ‖y‖²: what the closed-form solution may leave of labels that it fits


def units(parameters):
    """One unit per data set and seed; each seed has two classes of its own."""
    shared = {name: value for name, value in parameters.items() if name not in ("seeds", "datasets")}
    return [
        Unit(f"{dataset}-seed{seed}", compute, {"dataset": dataset, "seed": seed} | shared)
        for dataset in parameters["datasets"]
        for seed in range(parameters["seeds"])
    ]


def compute(
    *,
    dataset,
    network,
    points,
    test_points,
    dictionary,
    bandwidth,
    step_sizes,
    iterations,
    early,
    seed,
    device,
    report,
):
    """Extract all representations of two classes, align them, train linear models. Rows, by ``kind``:

    ``area`` : representation, area (:func:`fig06_architectures.curve`), features, first and second (the
        classes); unfitted and wrong of the LEARNED: share of ‖y‖² and of the training labels that the
        closed-form solution of least squares misses;
    ``curve`` : representation, threshold (over √n), alignment over ‖y‖²;
    ``step`` : representation, loss, step_size, step, train and test: mean squared error over that of zero
        weights, which is 1 for labels of ±1, or logistic loss in bits, also 1 there.
    """
    draw = numpy_stream(seed, "fig13", "classes", dataset)
    classes = tuple(int(label) for label in draw.choice(CLASSES[dataset], 2, replace=False))
    data = images(dataset, points, classes, seed)
    (x, y), (x_test, y_test) = data["train"], data["test"]
    kept = numpy_stream(seed, "fig13", "test", dataset).permutation(len(y_test))[:test_points]
    x_test, y_test = x_test[kept], y_test[kept]
    made = {"original": (x, x_test)}
    made |= network_features(network, x, x_test, seed, device, report)
    made |= hand_made(x, x_test, dictionary, bandwidth, seed)
    report(0.8, "hand-made features")
    tables = []
    for done, (name, parts) in enumerate(made.items()):
        area, alignment = curve(parts[0], y)
        row = {"kind": "area", "area": area, "features": parts[0].shape[1]}
        row |= dict(zip(("first", "second"), classes, strict=True))
        grid = np.linspace(0, 1, THRESHOLDS).round(DIGITS)
        found = [pd.DataFrame({"kind": "curve", "threshold": grid, "alignment": alignment.round(DIGITS)})]
        if name in LEARNED:
            phi, phi_test = (with_constant(part).numpy() for part in parts)
            row |= closed_form(phi, y.numpy())
            found += learning_curves(
                phi, y.numpy(), phi_test, y_test.numpy(), step_sizes, iterations, min(early, iterations)
            )
        tables += [table.assign(representation=name) for table in [pd.DataFrame([row]), *found]]
        report(0.8 + 0.2 * (done + 1) / len(made), NAMES[name])
    return pd.concat(tables, ignore_index=True)


def network_features(network, x, x_test, seed, device, report):
    """{init, transfer: (train, test)}: the last hidden layer of a network before and after training.

    network : ``imagenet`` (EfficientNet-Lite0 and its weights) or ``random``, two small networks that have
    learned nothing, to try the code where the weights are not installed.
    """
    draw = torch_stream(seed, "fig13", "network")
    if network == "random":
        nets = {name: Untrained(draw) for name in ("init", "transfer")}
    else:
        nets = {"init": imagenet_network(pretrained=False, generator=draw), "transfer": imagenet_network()}
    made = {}
    for number, (name, net) in enumerate(nets.items()):
        net.eval().to(device, memory_format=torch.channels_last)
        made[name] = tuple(_through(net, part, device) for part in (x, x_test))
        report(0.3 * (number + 1), NAMES[name])
    return made


class Untrained(nn.Module):
    """Two convolutions drawn from ``generator``; ``features`` maps (n, 3, H, W) to (n, H·W)."""

    def __init__(self, generator):
        super().__init__()
        sizes = ((3, 8), (8, 16))
        self.layers = nn.ModuleList(nn.Conv2d(*size, 3, stride=2, padding=1, bias=False) for size in sizes)
        for layer in self.layers:
            he_normal_layer_(layer, 1, generator)

    def features(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x.flatten(1)


@torch.no_grad()
def _through(net, x, device):
    batches = colour32(_as_images(x).float()).split(BATCH)
    found = [net.features(batch.to(device, memory_format=torch.channels_last)).cpu() for batch in batches]
    return torch.cat(found).double()


def _as_images(x):
    """(n, 3, side, side) of rows (n, 3·side²)."""
    side = math.isqrt(x.shape[1] // 3)
    return x.unflatten(1, (3, side, side))


def hand_made(x, x_test, dictionary, bandwidth, seed):
    """{hog, sift, rbf: (train, test)}, float64 tensors. Words and centres come from the training images."""
    grey = [image_features.grey(_as_images(part).numpy()) for part in (x, x_test)]
    found = [image_features.descriptors(part) for part in grey]
    words = image_features.words(found[0], dictionary, numpy_stream(seed, "fig13", "words"))
    # Pixels in [0, 1], as images are read, flattened and of length one.
    flat = [nn.functional.normalize((part + 1) / 2, dim=1).numpy() for part in (x, x_test)]
    made = {
        "hog": [image_features.histograms_of_gradients(part) for part in grey],
        "sift": [image_features.bags(part, words) for part in found],
        "rbf": [image_features.radial_basis(part, flat[0], bandwidth) for part in flat],
    }
    return {name: tuple(map(torch.from_numpy, parts)) for name, parts in made.items()}


def closed_form(phi, y):
    """{unfitted, wrong}: what the least-squares weights of phi (n, d) leave of ‖y‖², and labels they miss."""
    fitted = phi @ np.linalg.lstsq(phi, y)[0]
    return {
        "unfitted": float(np.square(fitted - y).sum() / (y @ y)),
        "wrong": float((fitted * y <= 0).mean()),
    }


def learning_curves(phi, y, phi_test, y_test, step_sizes, iterations, early):
    """Frames of kind ``step`` of both losses; step sizes at which the squared error diverges are left out."""
    steps = np.unique([0, *np.geomspace(1, iterations, CURVE).round().astype(int), early])
    largest = np.linalg.norm(phi, 2)
    made = []
    for size in step_sizes:
        about = {"kind": "step", "loss": "squared", "step_size": size, "step": steps}
        if size * largest**2 / len(y) < 2:
            errors = linear_model(phi, y, phi_test, y_test, size, steps)
            found = {"train": errors["train_error"], "test": errors["test_error"]}
            made.append(pd.DataFrame(about | found))
    train, test = logistic_descent(phi, y, phi_test, y_test, step_sizes, steps)
    for number, size in enumerate(step_sizes):
        about = {"kind": "step", "loss": "logistic", "step_size": size, "step": steps}
        made.append(pd.DataFrame(about | {"train": train[:, number], "test": test[:, number]}))
    return made


def logistic_descent(phi, y, phi_test, y_test, step_sizes, steps):
    """Gradient descent on mean log₂(1 + exp(−y f)) from zero weights, once for every step size.

    The weights stay Φᵀα: one product with the Gram matrix is a step. Returns (train, test), each (T, K), at
    ``steps`` (T,), ascending, for ``step_sizes`` (K,).
    """
    gram, gram_test = phi @ phi.T, phi_test @ phi.T
    rates = np.asarray(step_sizes, float) / (len(y) * math.log(2))
    alpha = np.zeros((len(y), len(rates)))
    signs, signs_test = y[:, None], y_test[:, None]
    train, test = [], []
    wanted = set(steps.tolist())
    for step in range(int(steps[-1]) + 1):
        margin = signs * (gram @ alpha)
        if step in wanted:
            train.append(np.logaddexp(0, -margin).mean(0) / math.log(2))
            test.append(np.logaddexp(0, -signs_test * (gram_test @ alpha)).mean(0) / math.log(2))
        alpha += rates * signs / (1 + np.exp(np.minimum(margin, 700)))
    return np.array(train), np.array(test)


def areas(table, dataset):
    """(seeds × representations) frame of areas; empty where there are none."""
    if "kind" not in table:
        return pd.DataFrame()
    rows = table[(table["kind"] == "area") & (table["dataset"] == dataset)]
    return rows.pivot(index="seed", columns="representation", values="area")


def best(table, dataset, loss):
    """Rows of kind ``step`` at each representation's step size of lowest training loss after the last step.

    The mean over the runs decides, among those that converge in each; the larger one where two are alike.
    """
    rows = table[(table["kind"] == "step") & (table["dataset"] == dataset) & (table["loss"] == loss)]
    last = rows[rows["step"] == rows["step"].max()]
    grouped = last.groupby(["representation", "step_size"])["train"]
    found = grouped.mean()[grouped.count() == rows["seed"].nunique()].reset_index()
    found = found.sort_values(["train", "step_size"], ascending=[True, False])
    chosen = found.groupby("representation")["step_size"].first()
    return rows[rows["step_size"] == rows["representation"].map(chosen)]


def losses(table, dataset, loss, split, step):
    """(seeds × representations) frame of the ``train`` or ``test`` loss after ``step`` (None: the last)."""
    rows = best(table, dataset, loss)
    rows = rows[rows["step"] == (rows["step"].max() if step is None else step)]
    return rows.pivot(index="seed", columns="representation", values=split)


def ahead(frame, name="transfer", others=("hog", "sift", "rbf")):
    """How far ``name`` lies below the lowest of ``others``, one per seed."""
    return frame[list(others)].min(axis=1) - frame[name]


def before_gone(table, dataset, name="transfer"):
    """Mean alignment over ‖y‖² up to the first threshold at which less than ``GONE`` is left, one per seed.

    1 for a curve that stays at the top and drops at once, 1/2 for one that falls in a straight line.
    """
    rows = table[(table["kind"] == "curve") & (table["dataset"] == dataset)]
    wide = rows[rows["representation"] == name].pivot(index="seed", columns="threshold", values="alignment")
    # Alignment never rises with the threshold: what is kept comes first.
    ends = (wide >= GONE).sum(axis=1).clip(1, wide.shape[1] - 1)
    means = [np.trapezoid(wide.loc[seed].iloc[: end + 1]) / end for seed, end in ends.items()]
    return pd.Series(means, index=wide.index)


def claims(table, parameters):
    """Differences in each run; written before the first run, but for the sudden drop (see the page)."""
    made = []
    for dataset in parameters["datasets"]:
        made += _alignment_claims(table, dataset)
    for dataset in parameters["datasets"]:
        made += _drop_claims(table, dataset)
    why = "one network, with which no other depth is compared"
    deeper = "The deeper the network, the lower its alignment at initialisation."
    made.append(Claim.missing("deeper", deeper, "Figure 19, Section 7.2", why))
    for dataset in parameters["datasets"]:
        made += _learning_claims(table, parameters, dataset)
    return made


def _about(dataset, id, short, source):
    return (f"{id}-{dataset}", f"{TITLES.get(dataset, dataset)}, {short}.", source)


def _alignment_claims(table, dataset):
    found = areas(table, dataset)
    group = "Features of the pre-trained network align better than others."
    made = []
    for name in ("original", "init", "hog", "sift", "rbf"):
        figure = "Figures 13 (a) and 19" if name in ("original", "init") else "Figures 13 (b) and 20 (a)"
        short = f"{NAMES[name]}: how far their area lies below"
        about = _about(dataset, "better", short, f"{figure}, Section 7.2")
        about = (f"{about[0]}-{name}", *about[1:])
        if found.empty:
            claim = Claim.missing(*about, "nothing was computed")
        else:
            claim = Claim.greater(*about, found["transfer"] - found[name])
        made.append(claim.tagged(group=group))
    group = "At random initialisation, the network aligns less than the inputs."
    about = _about(dataset, "poor", "how far its area lies below", "Figures 13 (a) and 19, Section 7.2")
    if found.empty:
        claim = Claim.missing(*about, "nothing was computed")
    else:
        claim = Claim.greater(*about, found["original"] - found["init"])
    return [*made, claim.tagged(group=group)]


def _drop_claims(table, dataset):
    group = "Alignment of pre-trained features stays high and drops off suddenly, not in a straight line."
    short = f"mean share up to where less than {GONE:.0%} is left"
    about = _about(dataset, "sudden", short, "Figures 13 (a) and 19, Section 7.2")
    if "kind" in table:
        claim = Claim.greater(*about, before_gone(table, dataset), than=0.5)
    else:
        claim = Claim.missing(*about, "nothing was computed")
    return [claim.tagged(group=group, ours=True)]


def _learning_claims(table, parameters, dataset):
    early = min(parameters["early"], parameters["iterations"])
    source = "Figures 13 (c, d) and 20 (b, c)"
    faster = "Linear models train fastest on pre-trained features."
    test = "They also end with the lowest test loss."
    slow = "Gradient descent leaves the largest squared training error on RBF features."
    fits = "The closed-form solution on RBF features has no training error and misses no label."
    made = []
    for loss in LOSSES:
        for id, group, split, step in (("faster", faster, "train", early), ("test", test, "test", None)):
            when = "the last step" if step is None else f"step {step}"
            short = f"{loss} {split} loss at {when}: how far below the lowest of the others"
            about = _about(dataset, f"{id}-{loss}", short, source)
            if "kind" in table:
                claim = Claim.greater(*about, ahead(losses(table, dataset, loss, split, step)))
            else:
                claim = Claim.missing(*about, "nothing was computed")
            made.append(claim.tagged(group=group))
    above = "error after the last step less the largest of the others"
    slowly = _about(dataset, "rbf-slow", above, f"{source}, Section 7.2")
    closed = _about(dataset, "rbf-fits", "the larger share of both, worst run", "Section 7.2")
    if "kind" not in table:
        pair = [Claim.missing(*about, "nothing was computed") for about in (slowly, closed)]
    else:
        left = losses(table, dataset, "squared", "train", None)
        above = left["rbf"] - left[["transfer", "hog", "sift"]].max(axis=1)
        rows = table[(table["dataset"] == dataset) & (table["representation"] == "rbf")]
        missed = float(rows[["unfitted", "wrong"]].max().max())
        pair = [Claim.greater(*slowly, above), Claim.computed(*closed, missed, 0.0, CLOSED)]
    made += [claim.tagged(group=group) for claim, group in zip(pair, (slow, fits), strict=True)]
    return made


def finding(table, parameters):
    """Whether pre-trained features align better than each of the others, by outcome, and their areas."""
    parts, unsure, worse = [], [], []
    for dataset in parameters["datasets"]:
        found, title = areas(table, dataset), TITLES.get(dataset, dataset)
        if found.empty:
            continue
        others = found.drop(columns="transfer")
        for name in others:
            outcome = Claim.greater("better", "", "", found["transfer"] - found[name]).outcome
            if outcome != HOLDS:
                (worse if outcome == CONTRADICTED else unsure).append(f"{NAMES[name]} on {title}")
        next_best = others.mean().idxmax()
        parts.append(
            f"{interval(found['transfer'], within=SHARE)} on {title}, next {NAMES[next_best]} "
            f"{others[next_best].mean():.2f}"
        )
    if not parts:
        return "Nothing was computed."
    who = (
        "EfficientNet-Lite0 trained on ImageNet (for the paper's three)"
        if parameters["network"] == "imagenet"
        else "a small untrained network (in place of one trained on ImageNet)"
    )
    word = f"not better than {_named(worse)}" if worse else "better than all others"
    word += f"{',' if worse else ' but'} {_named(unsure)} (undecided)" if unsure else ""
    return f"Features of {who} align {word}: {'; '.join(parts)}.{_trained(table, parameters)}"


def _trained(table, parameters):
    """By which loss linear models train fastest on the pre-trained features, on all data sets, by outcome."""
    datasets, said = parameters["datasets"], {HOLDS: [], CONTRADICTED: [], "": []}
    judged = [claim for dataset in datasets for claim in _learning_claims(table, parameters, dataset)]
    outcomes = {claim.id: claim.outcome for claim in judged}
    for loss in LOSSES:
        found = {outcomes[f"faster-{loss}-{dataset}"] for dataset in datasets}
        said[found.pop() if found in ({HOLDS}, {CONTRADICTED}) else ""].append(loss)
    words = {HOLDS: "fastest by {}", CONTRADICTED: "not by {}", "": "open by {}"}
    parts = [words[outcome].format(" and ".join(losses)) for outcome, losses in said.items() if losses]
    return f" Training: {', '.join(parts)} loss."


def _named(names):
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return " and ".join(names[:2]) if not more else ", ".join(names[:2]) + more


def key_numbers(table, parameters):
    """Areas, training losses after the early steps, and the RBF features' two errors."""
    if "kind" not in table:
        return []
    early, made = min(parameters["early"], parameters["iterations"]), []
    dataset = parameters["datasets"][0]
    title, found = TITLES.get(dataset, dataset), areas(table, dataset)
    shown = " / ".join(f"{found[name].mean():.2f}" for name in ("transfer", "original", "init"))
    made.append(KeyNumber(f"area, {title}: pre-trained / inputs / initialisation", shown))
    shown = " / ".join(f"{found[name].mean():.2f}" for name in ("hog", "sift", "rbf"))
    made.append(KeyNumber(f"area, {title}: HOG / SIFT / RBF", shown))
    left = losses(table, dataset, "squared", "train", early)
    shown = " / ".join(f"{left[name].mean():.2f}" for name in LEARNED)
    made.append(
        KeyNumber(f"squared training error, {title}, {early} steps: pre-trained / HOG / SIFT / RBF", shown)
    )
    return made
