"""Which layer's tangent kernel aligns most with the labels, over depth (Lou et al. 2022, Figures 3 and 8).

A unit is one network: data set, depth, setting, seed. Its table has one row per layer.
"""

import math
from functools import cache

import numpy as np
import pandas as pd
import torch

from alignbook.claims import CONTRADICTED, Claim, KeyNumber
from alignbook.data import load
from alignbook.experiments import Unit
from alignbook.experiments.signal_propagation.dense import CLASSES, NAMES, accuracy, images, step_of
from alignbook.kernels.mlp_sgd import MLP
from alignbook.kernels.products import float32_products
from alignbook.metrics.tangent_alignment import tangent_alignment
from alignbook.seeding import numpy_stream, torch_stream
from alignbook.training import loop
from alignbook.training.fine_tune import crops_and_flips

# Tables 1 to 3: depth -> (learning rate, epochs, test accuracy)
PAPER_TABLES = {
    "cifar10": {
        10: (0.005, 100, 0.56),
        20: (0.003, 100, 0.583),
        30: (0.003, 150, 0.577),
        40: (0.001, 200, 0.587),
        50: (0.001, 250, 0.58),
        60: (0.0007, 300, 0.583),
        70: (0.0005, 300, 0.591),
        80: (0.0005, 500, 0.572),
        90: (0.0001, 500, 0.569),
        100: (0.0001, 700, 0.56),
    },
    "fashion_mnist": {
        10: (0.003, 100, 0.883),
        20: (0.004, 100, 0.886),
        30: (0.004, 100, 0.896),
        40: (0.002, 100, 0.889),
        50: (0.001, 100, 0.884),
        60: (0.0007, 100, 0.877),
        70: (0.0003, 200, 0.887),
        80: (0.0002, 200, 0.879),
        90: (0.0001, 300, 0.876),
        100: (0.00007, 300, 0.88),
    },
    "mnist": {
        10: (0.003, 100, 0.97),
        20: (0.003, 100, 0.97),
        30: (0.003, 100, 0.969),
        40: (0.002, 100, 0.976),
        50: (0.001, 100, 0.976),
        60: (0.0007, 100, 0.976),
        70: (0.0002, 200, 0.948),
        80: (0.0001, 200, 0.944),
        90: (0.0002, 300, 0.961),
        100: (0.0001, 300, 0.958),
    },
}
# Figure 8: setting -> (factor of the learning rate, factor of the batch size)
SETTINGS = {"tables": (1.0, 1), "low rate": (0.25, 1), "large batch": (1.0, 4)}
# What the paper names or contradicts itself on without settling it: setting -> arguments that change
CHOICES = {
    "no momentum": {"momentum": 0.0},
    "no decay": {"weight_decay": 0.0},
    "decay 0.005": {"weight_decay": 0.005},
    "width 256": {"width": 256},
}
# How the images of CIFAR-10 are prepared, which the paper does not say: setting -> crops and flips, too
PREPARED = {"standardised": False, "crops and flips": True}
PAPER_SLOPE = 3 / 5  # Corollary 1, Figure 3

# Fixed before any result was seen.
LEARNED = 0.2  # test accuracy below twice chance: the network did not learn and enters no fit
SLOPE_MARGIN = 0.2
ACCURACY_MARGIN = 0.02
# Networks of profile paper take days: what is stored of them joins what profile quick shows.
JOINED = {"quick": "paper"}
MIN_DEPTHS = 3  # fewer depths with a network that learned: no slope
BOOTSTRAP = 2000


def schedule(dataset, depth):
    """(learning rate, epochs) of the tables at ``depth``.

    A depth that they lack has the values of the nearest one (the smaller of two), a data set that they
    lack those of Fashion-MNIST.
    """
    table = PAPER_TABLES.get(dataset, PAPER_TABLES["fashion_mnist"])
    nearest = min(table, key=lambda known: (abs(known - depth), known))
    return table[nearest][:2]


def units(parameters):
    """One network per data set, depth and seed; Figure 8's settings on one data set; the open choices."""
    p = parameters
    wanted = [(dataset, depth, "tables") for dataset in p["datasets"] for depth in p["depths"]]
    groups = [(p["variation_dataset"], p["variation_depths"], _VARIATIONS)]
    groups += [(d, p["choice_depths"], [*choices(d), *prepared(d)]) for d in p["choice_datasets"]]
    for dataset, depths, settings in groups:
        wanted += [(dataset, depth, setting) for setting in settings for depth in depths]
        base = [(dataset, depth, "tables") for depth in depths]
        wanted += [condition for condition in base if condition not in wanted]
    return [_unit(p, *condition, seed) for condition in wanted for seed in range(p["seeds"])]


def choices(dataset):
    """The names of ``CHOICES`` that change something for ``dataset``: Table 1 has width 256 anyway."""
    return [name for name in CHOICES if (dataset, name) != ("cifar10", "width 256")]


def prepared(dataset):
    """The names of ``PREPARED`` where they are asked of ``dataset``: of CIFAR-10 alone."""
    return list(PREPARED) if dataset == "cifar10" else []


def _unit(p, dataset, depth, setting, seed):
    learning_rate, epochs = schedule(dataset, depth)
    rate_factor, batch_factor = SETTINGS.get(setting, (1.0, 1))
    arguments = {
        "dataset": dataset,
        "depth": depth,
        "setting": setting,
        "width": p["cifar10_width"] if dataset == "cifar10" else p["width"],
        "learning_rate": learning_rate * rate_factor,
        "batch_size": p["batch_size"] * batch_factor,
        "epochs": max(1, round(epochs * p["epochs_factor"])),
        "momentum": p["momentum"],
        "weight_decay": p["weight_decay"],
        "train_images": p["train_images"],
        "alignment_images": p["alignment_images"],
        "seed": seed,
        **CHOICES.get(setting, {}),
    }
    name = f"{dataset}-depth{depth:03d}-{setting.replace(' ', '-')}-seed{seed}"
    if setting in PREPARED:
        return Unit(name, compute_prepared, arguments | {"augment": PREPARED[setting]})
    return Unit(name, compute, arguments)


def compute(
    *,
    dataset,
    depth,
    setting,
    width,
    learning_rate,
    batch_size,
    epochs,
    momentum,
    weight_decay,
    train_images,
    alignment_images,
    seed,
    device,
    report,
):
    """Train one network and measure A_l (Eq. 7) before and after.

    ``setting`` only names the condition. ``train_images`` 0 means all; a smaller set is drawn by the
    seed. A_l is taken on ``alignment_images`` of the training images. The constant rate, the order of
    the images anew in every epoch and the incomplete last batch are ours: the paper does not say.

    Returns one row per layer: layer (1 to depth), alignment, alignment_half (on the first half of the
    same images), alignment_init (before training); and per network test_accuracy, train_accuracy
    (0 to 1), train_loss (mean over the last epoch).
    Raises Diverged when the loss of an epoch is not finite.
    """
    x, y = images(dataset, "train", train_images, seed, device)
    mlp = MLP(x.shape[1], width, depth, CLASSES, torch_stream(seed, "fig03", "weights", depth), device=device)
    plain, mean = step_of(mlp, x, y, momentum, weight_decay), torch.zeros((), device=device)

    def step(index, rate):
        loss = plain(index, rate)
        mean.add_(loss, alpha=len(index) / len(x))  # in single precision, as it was stored from the first
        return loss

    table = _trained(
        mlp,
        step,
        (x, y),
        images(dataset, "test", 0, seed, device),
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        alignment_images=alignment_images,
        seed=seed,
        report=report,
        at=[(epochs - 1) * math.ceil(len(x) / batch_size)],
        on=lambda count: mean.zero_(),  # the last epoch begins
    )
    return table.assign(train_loss=mean.item())


def compute_prepared(
    *,
    dataset,
    depth,
    setting,
    width,
    learning_rate,
    batch_size,
    epochs,
    momentum,
    weight_decay,
    train_images,
    alignment_images,
    augment,
    seed,
    device,
    report,
):
    """As :func:`compute`, on images standardised by channel; ``augment``: with crops and flips, too.

    Mean and standard deviation are those of the training images. Crops are of 4 pixels of padding; train
    accuracy and A_l are taken on the images as they are, the mean loss on those that were trained on.
    """
    train = load(dataset, "train", n=train_images or None, seed=seed)
    test = load(dataset, "test")
    scale = {"dim": (0, 2, 3), "keepdim": True}
    mean, deviation = train.x.mean(**scale), train.x.std(**scale)
    x, y = ((train.x - mean) / deviation).to(device), train.y.to(device)
    x_test, y_test = ((test.x - mean) / deviation).to(device), test.y.to(device)
    flat = x.flatten(1)
    weights, moves = (torch_stream(seed, "fig03", purpose, depth) for purpose in ("weights", "crops"))
    mlp = MLP(flat.shape[1], width, depth, CLASSES, weights, device=device)

    def step(index, rate):
        batch = crops_and_flips(x[index], moves).flatten(1) if augment else flat[index]
        return mlp.step(batch, y[index], rate, momentum, weight_decay)

    return _trained(
        mlp,
        step,
        (flat, y),
        (x_test.flatten(1), y_test),
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        alignment_images=alignment_images,
        seed=seed,
        report=report,
    )


def _trained(
    mlp, step, train, test, *, epochs, batch_size, learning_rate, alignment_images, seed, report, **calls
):
    """The table of :func:`compute` for ``mlp``, trained by ``step`` on ``train``; both are (x, y).

    calls : ``at`` and ``on`` of the loop.
    """
    (x, y), depth = train, len(mlp.weights)
    sample = torch.randperm(len(x), generator=torch_stream(seed, "fig03", "alignment"))[:alignment_images]
    sample = sample.to(x.device)
    before = tangent_alignment(mlp.sequential(), x[sample], y[sample])
    with float32_products():
        trained = loop.train(
            step,
            len(x),
            batch_size=batch_size,
            epochs=epochs,
            rate=learning_rate,
            generator=torch_stream(seed, "fig03", "order", depth),
            device=x.device,
            report=report,
            **calls,
        )
    net, half = mlp.sequential(), sample[: max(2, len(sample) // 2)]
    return pd.DataFrame(
        {
            "layer": np.arange(1, depth + 1),
            "alignment": tangent_alignment(net, x[sample], y[sample]),
            "alignment_half": tangent_alignment(net, x[half], y[half]),
            "alignment_init": before,
            "test_accuracy": accuracy(mlp.logits, *test),
            "train_accuracy": accuracy(mlp.logits, x, y),
            "train_loss": trained.loss,
        }
    )


def networks(table):
    """One row per network.

    Columns dataset, setting, depth, seed, joined, learned, peak, peak_half, peak_init, test_accuracy,
    train_loss.
    joined : from profile paper, beside the networks that the parameters ask for.
    peak : the layer (from 1) with the largest alignment, the first of equal ones. Layers whose kernel is
    constant (nan) cannot be it; a network with no other layer has none and counts as not learned.
    learned : test accuracy of at least ``LEARNED`` and a peak.
    """
    rows = []
    keys = ["dataset", "setting", "depth", "seed", "joined"]
    if "joined" not in table:
        table = table.assign(joined=False)
    for key, layers in table.groupby(keys, sort=True):
        layers = layers.sort_values("layer")
        peak = _peak(layers, "alignment")
        accuracy = float(layers["test_accuracy"].iloc[0])
        rows.append(
            {
                **dict(zip(keys, key, strict=True)),
                "learned": accuracy >= LEARNED and np.isfinite(peak),
                "peak": peak,
                "peak_half": _peak(layers, "alignment_half"),
                "peak_init": _peak(layers, "alignment_init"),
                "test_accuracy": accuracy,
                "train_loss": float(layers["train_loss"].iloc[0]),
            }
        )
    names = [*keys, "learned", "peak", "peak_half", "peak_init", "test_accuracy", "train_loss"]
    return pd.DataFrame(rows, columns=names).astype({"learned": bool, "joined": bool})


def shown(nets, dataset, depths, settings=("tables",)):
    """The rows of ``nets`` that are shown and judged for one data set.

    Joined networks, of every seed that has all ``depths`` in all ``settings``, with whatever other depths
    they have; where no seed has, those that the parameters ask for, at ``depths``.
    """
    here = nets[(nets["dataset"] == dataset) & nets["setting"].isin(settings)]
    joined = here[here["joined"]]
    wanted = {(setting, depth) for setting in settings for depth in depths}
    whole = [
        seed
        for seed, rows in joined.groupby("seed")
        if wanted <= set(zip(rows["setting"], rows["depth"], strict=True))
    ]
    if whole:
        return joined[joined["seed"].isin(whole)]
    return here[~here["joined"] & here["depth"].isin(depths)]


def _peak(layers, column):
    values = layers[column].to_numpy(dtype=float)
    if not np.isfinite(values).any():
        return float("nan")
    return float(layers["layer"].to_numpy()[np.nanargmax(values)])


def free_fit(depth, peak):
    """(slope, intercept) of the least-squares line log(peak) over log(depth), one point per network."""
    slope, intercept = np.polyfit(np.log(depth), np.log(peak), 1)
    return float(slope), float(intercept)


def fixed_fit(depth, peak, slope=PAPER_SLOPE):
    """C of the least-squares line log(peak) = slope log(depth) + C."""
    return float(np.mean(np.log(peak) - slope * np.log(depth)))


def slope_interval(learned, *stream):
    """95 % bootstrap interval of the free slope: ``learned`` has columns depth and peak.

    Each draw takes as many depths as there are, with replacement, and for each of them as many of its
    networks as there are, with replacement; draws of a single depth are taken again. Percentiles.
    ``stream`` names the random stream. None below ``MIN_DEPTHS`` depths.
    """
    groups = tuple((depth, tuple(rows["peak"])) for depth, rows in learned.groupby("depth"))
    return _slope_interval(groups, stream) if len(groups) >= MIN_DEPTHS else None


@cache  # a page asks for each many times
def _slope_interval(groups, stream):
    groups = [(np.log(depth), np.log(peaks)) for depth, peaks in groups]
    rng = numpy_stream(0, "fig03", "bootstrap", *stream)
    slopes = []
    while len(slopes) < BOOTSTRAP:
        chosen = [groups[i] for i in rng.integers(len(groups), size=len(groups))]
        x = np.concatenate([np.full(len(peaks), depth) for depth, peaks in chosen])
        if x.max() == x.min():
            continue
        y = np.concatenate([rng.choice(peaks, len(peaks)) for _, peaks in chosen])
        slopes.append(np.polyfit(x, y, 1)[0])
    low, high = np.percentile(slopes, [2.5, 97.5])
    return float(low), float(high)


def shifts(nets, setting):
    """Series over seeds: log(peak in ``setting`` / peak in "tables"), averaged over depths.

    nets : networks of one data set. Only depths at which both networks of a seed learned enter.
    """
    learned = nets[nets["learned"]]
    logs = np.log(learned.set_index(["setting", "depth", "seed"])["peak"])
    present = logs.index.get_level_values("setting")
    if setting not in present or "tables" not in present:
        return pd.Series(dtype=float)
    return (logs[setting] - logs["tables"]).dropna().groupby("seed").mean()


def claims(table, parameters):
    """The law of Figure 3 per data set, hidden peaks, the tables' accuracies, Figure 8's two shifts."""
    nets = networks(table if len(table) else pd.DataFrame(columns=_COLUMNS))  # all units may have diverged
    asked_in_full = parameters["epochs_factor"] == 1 and parameters["train_images"] == 0
    judged = []
    for dataset in parameters["datasets"]:
        here = shown(nets, dataset, parameters["depths"])
        full = asked_in_full or bool(here["joined"].any())
        group = [_law(dataset, here), *_hidden_peaks(dataset, here)]
        if dataset in PAPER_TABLES:
            group.append(_accuracies(dataset, here, full))
        judged += group if full else _unjudged(group)
    variations = ("tables", *_VARIATIONS)
    here = shown(nets, parameters["variation_dataset"], parameters["variation_depths"], variations)
    full = asked_in_full or bool(here["joined"].any())
    group = [_shift(here, parameters["variation_dataset"], setting) for setting in _VARIATIONS]
    return judged + (group if full else _unjudged(group))


HEADLINE = "slope"


def finding(table, parameters):
    """The free slope of each data set, those of one outcome together."""
    laws = {claim.id: claim for claim in claims(table, parameters) if claim.id.startswith("slope-")}
    said, deepest = {}, table.groupby("dataset")["depth"].max() if "depth" in table else {}
    for dataset in parameters["datasets"]:
        law = laws[f"slope-{dataset}"]
        if law.measured is None:
            continue
        verdict = law.outcome
        if verdict == CONTRADICTED:
            verdict += f", {'steeper' if law.measured > PAPER_SLOPE else 'flatter'} than 3/5"
        low, high = law.interval
        seeds = f"{law.seeds} seed{'s' * (law.seeds != 1)}"
        if deepest[dataset] < deepest.max():  # than others
            seeds += f", to {deepest[dataset]} layers"
        slope = f"{law.measured:.2f} ({low:.2f} to {high:.2f}; {seeds}) on {NAMES.get(dataset, dataset)}"
        said.setdefault(verdict, []).append(slope)
    if not said:
        return "Too few networks learned for a slope."
    parts = "; ".join(f"{' and '.join(slopes)}: {verdict}" for verdict, slopes in said.items())
    return f"Slope over depth of the layer that aligns most, where the paper has {PAPER_SLOPE:.2f}: {parts}."


def key_numbers(table, parameters):
    """The free slopes with their intervals."""
    result = []
    for law in claims(table, parameters):
        if law.id.startswith("slope-") and len(result) < 3:
            ends = law.interval and f" ({law.interval[0]:.2f} to {law.interval[1]:.2f})"
            here = None if law.measured is None else f"{law.measured:.2f}{ends}"
            name = NAMES.get(law.id[6:], law.id[6:])
            result.append(KeyNumber(f"slope, {name}", here, f"{PAPER_SLOPE:.2f}"))
    return result


def preparation_said(nets, depths, full):
    """(what the preparation of CIFAR-10's images does to the test accuracy, what to the peak): two texts.

    nets : as :func:`networks`; depths : where the preparation is varied; full : whether the networks that
    are asked for have the paper's size. The texts are empty where nothing of it is stored.
    """
    here = shown(nets, "cifar10", depths, ("tables", *PREPARED))
    groups = here[here["learned"]].assign(place=np.log(here["peak"])).groupby(["setting", "depth"])
    means = groups[["test_accuracy", "place"]].mean()
    common = [d for d in depths_of(means, PREPARED) if d in depths_of(means, ["tables"])]
    if not common:
        return "", ""
    fullness = full or bool(here["joined"].any())
    count = here.loc[here["setting"].isin(PREPARED), "seed"].nunique()
    seeds = "one seed" if count == 1 else f"{count} seeds"
    return _gap_said(means, common, seeds) if fullness else "", _peaks_said(means, common, seeds)


def depths_of(means, settings):
    """The depths, ascending, at which ``means`` (indexed by setting and depth) have all of ``settings``."""
    found = [set(means.loc[setting].index) if setting in means.index else set() for setting in settings]
    return sorted(set.intersection(*found))


_PREPARATIONS = {"tables": "as in the tables", **{name: name for name in PREPARED}}


def _listed(parts):
    return " and ".join(parts) if len(parts) < 3 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _gap_said(means, depths, seeds):
    """Test accuracies beside the printed ones, at the ``depths`` that Table 1 has."""
    depths = [depth for depth in depths if depth in PAPER_TABLES["cifar10"]]
    if not depths:
        return ""
    printed = np.array([PAPER_TABLES["cifar10"][depth][2] for depth in depths])
    parts, missing = [], {}
    for setting, name in _PREPARATIONS.items():
        accuracy = means.loc[setting, "test_accuracy"].loc[depths].to_numpy()
        missing[setting] = float(np.mean(printed - accuracy))
        parts.append(f"{_listed([f'{100 * value:.1f}' for value in accuracy])} % ({name})")
    left, before = missing["crops and flips"], missing["tables"]
    if left <= ACCURACY_MARGIN < before:
        verdict = "Crops and flips close the gap"
    else:
        verdict = f"Crops and flips leave {100 * left:.1f} of {100 * before:.1f} points of the gap"
    return (
        f"CIFAR-10 at {_listed([f'{depth}' for depth in depths])} layers, printed "
        f"{_listed([f'{100 * value:.1f}' for value in printed])} %, ours {', '.join(parts)}; {seeds}. "
        f"{verdict} (means over these depths: {100 * before:.1f} points as in the tables, "
        f"{100 * missing['standardised']:.1f} standardised, {100 * left:.1f} with crops and flips)."
    )


def _peaks_said(means, depths, seeds):
    """Peaks at ``depths`` for each preparation, and the slope between the first and the last."""
    places = means["place"]
    parts, slopes = [], {}
    for setting, name in _PREPARATIONS.items():
        peaks = np.exp(places.loc[setting].loc[depths])
        parts.append(f"{_listed([f'{peak:.3g}' for peak in peaks])} ({name})")
        if len(depths) > 1:
            logs = np.log(depths[-1] / depths[0])
            slopes[setting] = float(np.log(peaks.iloc[-1] / peaks.iloc[0]) / logs)
    said = (
        f"The layer of largest alignment at {_listed([f'{depth}' for depth in depths])} layers: "
        f"{', '.join(parts)}; {seeds}."
    )
    if not slopes:
        return said
    plain, moved = slopes["tables"], slopes["crops and flips"]
    change = f"from {plain:.2f} to {moved:.2f}"
    if round(plain, 2) == round(moved, 2):
        return f"{said} The slope between these depths stays {plain:.2f}."
    return (
        f"{said} With crops and flips the slope between these depths {'falls' if moved < plain else 'rises'} "
        f"{change}: the slope of CIFAR-10 on this page rests on images as they are."
    )


def _unjudged(claims):
    """The paper's claims are about trained networks; these are on their way there."""
    why = "training cut short: shown as measured, not judged"
    return [claim if claim.measured is None else claim.not_judged(why) for claim in claims]


_VARIATIONS = {
    "low rate": "A learning rate four times lower moves",
    "large batch": "A batch four times larger moves",
}
LAW = "The layer of largest alignment grows with depth as L^(3/5)."
HIDDEN = "In most trained networks the alignment peaks between the first and the last layer."
BY_TRAINING = "After training more often than before, the peak is between the first and the last layer."
ACCURATE = "One run of ours could have given the printed test accuracies (mean over the depths)."
_COLUMNS = ["dataset", "setting", "depth", "seed", "layer", "alignment", "alignment_half", "alignment_init"]
_COLUMNS += ["test_accuracy", "train_loss"]


def _named(dataset, here):
    name = NAMES.get(dataset, dataset)
    return f"{name}, profile paper" if here["joined"].any() else name


def _law(dataset, here):
    name = _named(dataset, here)
    statement = f"{name}: the layer of largest alignment grows with depth as L to the power 3/5."
    arguments = (f"slope-{dataset}", statement, "Figure 3; Corollary 1 as used there")
    learned = here[here["learned"]]
    interval = slope_interval(learned, dataset)
    if interval is None:
        why = f"fewer than {MIN_DEPTHS} depths at which a network learned"
        return Claim.missing(*arguments, why, paper=PAPER_SLOPE).tagged(LAW)
    slope, _ = free_fit(learned["depth"], learned["peak"])
    seeds = learned["seed"].nunique()
    return Claim.covers(*arguments, slope, interval, PAPER_SLOPE, SLOPE_MARGIN, seeds).tagged(LAW)


def _hidden_peaks(dataset, here):
    name = _named(dataset, here)
    often = (
        f"hidden-peak-{dataset}",
        f"{name}: in most trained networks the alignment peaks between the first and last layers.",
        "Sections 1 and 2.3",
    )
    by_training = (
        f"hidden-by-training-{dataset}",
        f"{name}: after training more often than before, the peak is between first and last layer.",
        "Sections 1 and 2.3; the comparison is ours",
    )
    learned = here[here["learned"]]
    if learned.empty:
        claims = [Claim.missing(*about, "no network learned") for about in (often, by_training)]
    else:
        inner = _inner(learned, "peak")
        gained = inner - _inner(learned, "peak_init")
        claims = [Claim.greater(*often, inner, than=0.5), Claim.greater(*by_training, gained)]
    return [claims[0].tagged(HIDDEN), claims[1].tagged(BY_TRAINING, ours=True)]


def _inner(nets, column):
    """Share of the networks, per seed, whose peak is neither in the first nor in the last layer."""
    return ((nets[column] > 1) & (nets[column] < nets["depth"])).groupby(nets["seed"]).mean()


def _accuracies(dataset, here, full):
    name = _named(dataset, here)
    statement = f"{name}: test accuracy (0 to 1), averaged over the table's depths, as printed."
    arguments = (f"accuracy-{dataset}", statement, "Tables 1 to 3")
    if not full:
        why = "judged only with all training images and all epochs"
        return Claim.missing(*arguments, why).tagged(ACCURATE)
    known = here[here["depth"].isin(PAPER_TABLES[dataset])]
    if known.empty:
        return Claim.missing(*arguments, "no depth of the table was computed").tagged(ACCURATE)
    accuracy = known.pivot(index="seed", columns="depth", values="test_accuracy")
    paper = np.mean([PAPER_TABLES[dataset][depth][2] for depth in accuracy])
    # A seed that lacks a depth (its network diverged) has another mean.
    values = accuracy.mean(axis=1, skipna=False).dropna()
    return Claim.one_run(*arguments, values, paper, ACCURACY_MARGIN).tagged(ACCURATE)


def _shift(here, dataset, setting):
    name = _named(dataset, here)
    statement = f"{_VARIATIONS[setting]} the peak towards the last layer ({name}; shift of log l)."
    arguments = (f"shift-{setting.replace(' ', '-')}", statement, "Figure 8")
    values = shifts(here, setting)
    if values.empty:
        return Claim.missing(*arguments, "no depth at which the networks of both settings learned")
    return Claim.greater(*arguments, values, than=0.0)
