"""Spectra of layer kernels and of the Fisher information, VGG-19 (Lou et al. 2022, Figures 19 to 23).

A unit is one network: learning rate, share of random labels, seed. Its table has one row per layer.
"""

import math

import numpy as np
import pandas as pd
import torch

from alignbook.claims import CONTRADICTED, HOLDS, Claim, KeyNumber
from alignbook.experiments import Unit
from alignbook.experiments.signal_propagation.small_deep import evaluated, fit, images_of, network
from alignbook.metrics.tangent_spectrum import tangent_spectra
from alignbook.seeding import torch_stream

HEADLINE = "rank"
KEPT = (1, 2, 3, 5, 8, 13, 20, 30, 50, 80, 120, 200)  # places of the eigenvalues that are stored
DECAY = 50  # place of the eigenvalue by which a decay is judged
# Figures 19 and 20: (learning rate, share of random labels) -> test accuracy
PAPER = {(0.02, 0.0): 0.9059, (0.001, 0.0): 0.8307, (0.001, 0.2): 0.7041}
NEAR = 0.9  # "near 1", as for Figure 6
NOISE = "The network with random labels has larger stable ranks than those without (difference of ln R_l)."
FIELDS = ("rank", "correlation", "alignment", "kernel_rank", "fisher_rank", "fisher_correlation")


def units(parameters):
    """One network per learning rate, share of random labels and seed."""
    names = "dataset images test_images side width batch_size epochs momentum weight_decay alignment_images"
    shared = {name: parameters[name] for name in names.split()}
    return [
        Unit(
            f"rate{rate:g}-noise{noise:g}-seed{seed}",
            compute,
            {"learning_rate": rate, "label_noise": noise, "seed": seed, **shared},
        )
        for rate in parameters["rates"]
        for noise in parameters["label_noises"]
        for seed in range(parameters["seeds"])
    ]


def compute(
    *,
    dataset,
    images,
    test_images,
    side,
    width,
    learning_rate,
    label_noise,
    batch_size,
    epochs,
    momentum,
    weight_decay,
    alignment_images,
    seed,
    device,
    report,
):
    """Train VGG-19 with SGD to a loss of 0.1, or for ``epochs``, and take every layer's spectra.

    Spectra on ``alignment_images`` of the training images with the labels that were trained on.
    One row per layer: layer (from 1), the fields of :class:`alignbook.metrics.tangent_spectrum.Spectrum`,
    eigenvalue_001 … (of the largest; nan past the last); and per network passes (epochs taken), train_loss
    (mean of the last epoch, nats), train_accuracy (on these labels, on as many images as test_images),
    test_accuracy (0 to 1) and test_loss.
    """
    x, y, x_test, y_test, classes = images_of(
        dataset, images=images, test_images=test_images, side=side, label_noise=label_noise, seed=seed
    )
    x, y, x_test, y_test = (values.to(device) for values in (x, y, x_test, y_test))
    net = network("vgg19", x.shape[1:], classes, width=width, seed=seed).to(device)
    trained = fit(
        net,
        x,
        y,
        optimiser="sgd",
        learning_rate=learning_rate,
        batch_size=batch_size,
        momentum=momentum,
        weight_decay=weight_decay,
        epochs=epochs,
        seed=seed,
        device=device,
        report=report,
    )
    test_accuracy, test_loss = evaluated(net, x_test, y_test)
    order = torch.randperm(len(x), generator=torch_stream(seed, "fig19", "alignment"))
    sample = order[:alignment_images].to(device)
    rows = []
    for layer, spectrum in enumerate(tangent_spectra(net, x[sample], y[sample]), start=1):
        values = spectrum.eigenvalues
        kept = {f"eigenvalue_{n:03d}": values[n - 1] if n <= len(values) else math.nan for n in KEPT}
        rows.append({"layer": layer, **{field: getattr(spectrum, field) for field in FIELDS}, **kept})
    return pd.DataFrame(rows).assign(
        passes=trained.epochs,
        train_loss=trained.loss,
        train_accuracy=evaluated(net, x[: len(x_test)], y[: len(x_test)])[0],
        test_accuracy=test_accuracy,
        test_loss=test_loss,
    )


def networks(table):
    """One row per network: rate, noise, seed, accuracies, and means over its layers.

    log_rank, log_fisher : of ln R_l; spread, fisher_spread : standard deviations over the layers of the same;
    alignment, correlation, fisher_correlation : means; decay : mean of log10 λ_50/λ_1. Layers without a
    spectrum are left out.
    """
    rows = []
    keys = ["learning_rate", "label_noise", "seed"]
    for key, layers in table.groupby(keys) if len(table) else ():
        layers = layers.dropna(subset="rank")
        if len(layers) < 2:
            continue
        rank, fisher = np.log(layers["rank"]), np.log(layers["fisher_rank"])
        rows.append(
            {
                **dict(zip(keys, key, strict=True)),
                **{name: layers[name].iloc[0] for name in ACCURACIES},
                **{name: layers[name].mean() for name in ("alignment", "correlation", "fisher_correlation")},
                "log_rank": rank.mean(),
                "log_fisher": fisher.mean(),
                "spread": rank.std(),
                "fisher_spread": fisher.std(),
                "decay": np.log10(layers[f"eigenvalue_{DECAY:03d}"].clip(lower=1e-16)).mean(),
            }
        )
    means = ["alignment", "correlation", "fisher_correlation"]
    names = [*keys, *ACCURACIES, *means, "log_rank", "log_fisher", "spread", "fisher_spread", "decay"]
    return pd.DataFrame(rows, columns=names)


ACCURACIES = ("test_accuracy", "train_accuracy", "train_loss", "passes")


def within_seeds(nets, column):
    """Correlation of test accuracy with ``column`` over the networks of a seed, one per seed (a Series).

    Pearson's; of seeds with at least four networks, more than the paper's three.
    """
    result = {}
    for seed, rows in nets.groupby("seed"):
        if len(rows) > 3 and rows[column].std() > 0 and rows["test_accuracy"].std() > 0:
            result[seed] = float(np.corrcoef(rows["test_accuracy"], rows[column])[0, 1])
    return pd.Series(result, dtype=float)


def over_networks(nets, column):
    """(r, (low, high)) over all networks, Fisher's 95 % interval; None below four networks."""
    if len(nets) < 4 or not nets[column].std() > 0 or not nets["test_accuracy"].std() > 0:
        return None
    r = float(np.corrcoef(nets["test_accuracy"], nets[column])[0, 1])
    z, half = math.atanh(max(min(r, 1 - 1e-12), 1e-12 - 1)), 1.96 / math.sqrt(len(nets) - 3)
    return r, (math.tanh(z - half), math.tanh(z + half))


def by_noise(nets, column):
    """``column`` with random labels less without, at the same rate, per seed (a Series; means over both)."""
    clean = nets[nets["label_noise"] == 0].set_index(["learning_rate", "seed"])[column]
    noisy = nets[nets["label_noise"] > 0].groupby(["learning_rate", "seed"])[column].mean()
    return (noisy - clean).dropna().groupby("seed").mean()


def by_rate(nets, column):
    """``column`` at the lowest rate less at the highest, without random labels, per seed (a Series)."""
    clean = nets[nets["label_noise"] == 0]
    rates = sorted(clean["learning_rate"].unique())
    if len(rates) < 2:
        return pd.Series(dtype=float)
    low, high = (
        clean[clean["learning_rate"] == rate].set_index("seed")[column] for rate in (rates[0], rates[-1])
    )
    return (low - high).dropna()


def figures(nets):
    """The three networks of Figures 19 and 20 as {colour: (learning rate, share of random labels)}.

    blue: highest rate, orange: lowest rate, both without random labels; green: lowest rate, with the most.
    Empty where there is but one rate, or no share.
    """
    rates, noises = sorted(nets["learning_rate"].unique()), sorted(nets["label_noise"].unique())
    if len(rates) < 2 or len(noises) < 2 or noises[0] > 0:
        return {}
    low, high, noise = rates[0], rates[-1], noises[-1]
    return {"blue": (high, 0.0), "orange": (low, 0.0), "green": (low, noise)}


def of_figure(nets, colour, column):
    """``column`` of the networks of one colour, one per seed (a Series)."""
    found = figures(nets)
    if colour not in found:
        return pd.Series(dtype=float)
    rate, noise = found[colour]
    rows = nets[(nets["learning_rate"] == rate) & (nets["label_noise"] == noise)]
    return rows.set_index("seed")[column].astype(float)


def between(nets, colours, column):
    """``column`` of the first of two colours less that of the second, per seed (a Series)."""
    first, second = (of_figure(nets, colour, column) for colour in colours)
    return (first - second).dropna()


def highest_term(table):
    """Largest correlation term of a layer between the first and the last, best network, per seed."""
    best = figures(table).get("blue") if len(table) else None
    if best is None:
        return pd.Series(dtype=float)
    inner = table["layer"].between(2, table["layer"].max() - 1)
    rows = table[inner & (table["learning_rate"] == best[0]) & (table["label_noise"] == best[1])]
    return rows.groupby("seed")["correlation"].max().dropna()


def claims(table, parameters):
    """Accuracy against ranks and alignments over the networks of a seed; noise; the Fisher information."""
    nets = networks(table)
    per_seed = nets.groupby("seed")
    within = "Pearson, over the networks of a seed"
    values = [
        (
            "rank",
            "Higher test accuracy goes with a lower stable rank (minus its correlation with ln R_l, mean "
            f"over the layers; {within}).",
            "Figure 20b, Appendix G.1",
            -within_seeds(nets, "log_rank"),
        ),
        (
            "alignment",
            f"Higher test accuracy goes with larger alignments A_l, mean over the layers ({within}).",
            "Figure 20a",
            within_seeds(nets, "alignment"),
        ),
        (
            "correlation",
            f"Higher test accuracy goes with larger correlation terms, mean over the layers ({within}).",
            "Figure 20c",
            within_seeds(nets, "correlation"),
        ),
        (
            "near-one",
            "In the best network the correlation term is near 1 in an intermediate layer (the largest of "
            f"them; ours: above {NEAR:g}).",
            "Figure 20c, Appendix G.1",
            highest_term(table),
        ),
        (
            "noise-blue",
            f"{NOISE} Against the highest rate.",
            "Figure 20b",
            between(nets, ("green", "blue"), "log_rank"),
        ),
        (
            "noise-orange",
            f"{NOISE} Against the same, lowest rate.",
            "Figure 20b",
            between(nets, ("green", "orange"), "log_rank"),
        ),
        (
            "noise",
            "At the same rate random labels enlarge stable ranks (difference of ln R_l, mean of the rates).",
            "Figure 20b; at both rates ours",
            by_noise(nets, "log_rank"),
        ),
        (
            "rate",
            "Without random labels, too, the lower rate has larger stable ranks (difference of ln R_l).",
            "Figure 20b; without the random labels ours",
            by_rate(nets, "log_rank"),
        ),
        (
            "decay",
            "Eigenvalues drop faster in the network of Figure 19 (b), highest rate, no random labels, than "
            f"in that of (a), lowest rate, random labels (difference of log10 of the {DECAY}th over the "
            "first).",
            "Figure 19; rates as in Figure 20",
            between(nets, ("green", "blue"), "decay"),
        ),
        (
            "decay-same",
            f"They drop faster without random labels at the same rate, too (log10 of the {DECAY}th over the "
            "first, mean over the rates).",
            "Figure 19; at the same rate ours",
            by_noise(nets, "decay"),
        ),
        (
            "fisher-below",
            "The Fisher information has a lower stable rank than the layer's kernel (difference of ln R_l).",
            "Figures 21 and 22, Appendix G.4",
            (nets["log_rank"] - nets["log_fisher"]).groupby(nets["seed"]).mean(),
        ),
        (
            "fisher-even",
            "The Fisher information's stable rank varies less over the layers (difference of the standard "
            "deviations of ln R_l).",
            "Figure 21",
            (nets["spread"] - nets["fisher_spread"]).groupby(nets["seed"]).mean(),
        ),
        (
            "fisher-rank",
            "Higher test accuracy goes with a lower stable rank of the Fisher information (minus the "
            f"correlation; {within}).",
            "Figure 22",
            -within_seeds(nets, "log_fisher"),
        ),
        (
            "fisher-correlation",
            "The Fisher information's correlation term is below the kernel's (difference of the means).",
            "Figure 23; the comparison is ours",
            per_seed["correlation"].mean() - per_seed["fisher_correlation"].mean(),
        ),
    ]
    made = []
    for id, statement, source, measured in values:
        about = (id, statement, source)
        why = "too few networks of a seed for it"
        than = NEAR if id == "near-one" else 0.0
        claim = Claim.greater(*about, measured, than=than) if len(measured) else Claim.missing(*about, why)
        if within in statement:
            claim = claim.within(-1.0, 1.0)
        elif id == "near-one":
            claim = claim.within(0.0, 1.0)
        group = NOISE if id in ("noise-blue", "noise-orange") else None
        made.append(claim.tagged(group=group, ours=id in OURS))
    return made


OURS = ("noise", "rate", "decay-same", "fisher-correlation")  # the paper compares no such pair


def size_of(parameters):
    """What stands in for the paper's network and images, in words."""
    images = parameters["images"]
    side = parameters["side"]
    few = f"{images} images of {side}×{side}" if images else f"all images of {side}×{side}"
    return f"VGG-19 of width {parameters['width']} (full: 64), {few}"


def finding(table, parameters):
    """The correlation of accuracy and stable rank over all networks, and what moves the rank."""
    nets = networks(table)
    found = over_networks(nets, "log_rank")
    if found is None:
        return f"{size_of(parameters)}: fewer than four networks, no correlation."
    r, (low, high) = found
    lead = "Better networks have no clearly lower or higher stable ranks"
    if high < 0 or low > 0:
        lead = f"Better networks have {'lower' if high < 0 else 'higher'} stable ranks"
    span = f"{r:+.2f} ({low:+.2f} to {high:+.2f})"
    said = f"{lead}: over {len(nets)} of them accuracy and ln R_l correlate at {span}."
    outcome = {claim.id: claim.outcome for claim in claims(table, parameters)}
    parts = []
    for id, what, values in (
        ("rate", "the lower rate", by_rate(nets, "log_rank")),
        ("noise", "adding random labels", by_noise(nets, "log_rank")),
    ):
        if len(values):
            times = f"gives {np.exp(values.mean()):.2f} times the rank"
            sure = "" if outcome[id] in (HOLDS, CONTRADICTED) else " (undecided)"
            parts.append(f"{what} {times}{sure}")
    moved = f" At otherwise the same values, {', '.join(parts)}." if parts else ""
    return f"{said}{moved} {size_of(parameters)}."


def key_numbers(table, parameters):
    """The correlations over all networks, and the best test accuracy."""
    nets, result = networks(table), []
    for column, name in (("log_rank", "stable rank"), ("log_fisher", "Fisher information's")):
        found = over_networks(nets, column)
        if found is not None:
            r, (low, high) = found
            what = f"accuracy with ln of {name}, {len(nets)} networks"
            result.append(KeyNumber(what, f"{r:+.2f} ({low:+.2f} to {high:+.2f})"))
    if len(nets):
        best = 100 * nets.groupby(["learning_rate", "label_noise"])["test_accuracy"].mean().max()
        result.append(KeyNumber("best test accuracy in %", f"{best:.1f}", f"{100 * max(PAPER.values()):.2f}"))
    return result
