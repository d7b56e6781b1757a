"""From Gaussian patches to images, step by step: the transfer function f(σ) (Figures 21 and 22, E.2)."""

import math

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.claims import CONTRADICTED, HOLDS, Claim, KeyNumber, interval
from alignbook.data import load, random_labels
from alignbook.experiments import Unit
from alignbook.metrics import patch_covariance, transfer_function
from alignbook.seeding import torch_stream
from alignbook.training.loop import module_step, train
from alignbook.training.nets import he_normal_

from .fig04_transfer_function import rise_and_fall

HEADLINE = "neighbours"
SIZE = 3  # patches of 3×3 pixels
CLASSES = 10
MOMENTUM = 0.9  # A.3
# From the ideal case to the real one: (inputs, stride of both convolutions).
STEPS = {
    "one covariance": ("gaussian", 3),
    "one per position": ("positions", 3),
    "permuted patches": ("permuted", 3),
    "images, stride 3": ("images", 3),
    "images, stride 2": ("images", 2),
    "images, stride 1": ("images", 1),
}
IDEAL = "one covariance"


def units(parameters):
    """One unit per step and seed."""
    names = "dataset side images filters second_filters init_scale rate batch_size goal max_epochs".split()
    shared = {name: parameters[name] for name in names}
    return [
        Unit(f"{inputs}-stride{stride}-seed{seed}", compute,
             shared | {"inputs": inputs, "stride": stride, "seed": seed})
        for seed in range(parameters["seeds"])
        for inputs, stride in STEPS.values()
    ]  # fmt: skip


class TwoConvolutions(nn.Module):
    """Two 3×3 convolutions without padding, ReLU each, and one dense layer, the head (E.2).

    side : height and width of the images. filters : of either convolution. stride : of both.
    """

    def __init__(self, side, filters, stride):
        super().__init__()
        channels = [3, *filters]
        self.convs = nn.ModuleList(
            nn.Conv2d(before, after, SIZE, stride)
            for before, after in zip(channels, filters, strict=False)
        )
        for _ in filters:
            side = (side - SIZE) // stride + 1
        self.head = nn.Linear(filters[-1] * side**2, CLASSES)

    def forward(self, x):
        """Logits (n, 10) of images (n, 3, side, side)."""
        for conv in self.convs:
            x = conv(x).relu()
        return self.head(x.permute(0, 2, 3, 1).flatten(1))


def cut(images):
    """Images (n, C, 3h, 3w) as their patches that do not overlap, (n, h·w, 9·C), entries as in Σ_x."""
    n, channels, height, width = images.shape
    parts = images.reshape(n, channels, height // SIZE, SIZE, width // SIZE, SIZE)
    return parts.permute(0, 2, 4, 1, 3, 5).reshape(n, -1, channels * SIZE**2)


def joined(patches, shape):
    """The inverse of :func:`cut`; ``shape`` is (C, 3h, 3w)."""
    channels, height, width = shape
    parts = patches.reshape(-1, height // SIZE, width // SIZE, channels, SIZE, SIZE)
    return parts.permute(0, 3, 1, 4, 2, 5).reshape(-1, *shape)


def approximated(images, inputs, generator):
    """Images in place of ``images`` (n, 3, 3h, 3w) float32, of the same shape (E.2).

    inputs : ``"gaussian"``, every patch N(0, Σ_x), independent of the others; ``"positions"``, with the
    covariance of the patches at its position; ``"permuted"``, real patches, those of each position shuffled
    among the images; ``"images"``, as they are. Raises ValueError for another.
    """
    if inputs == "images":
        return images
    patches = cut(images)
    n, places, d = patches.shape
    if inputs == "permuted":
        order = torch.rand(n, places, generator=generator).argsort(0)
        chosen = patches.gather(0, order[..., None].expand(-1, -1, d))
    elif inputs in ("gaussian", "positions"):
        groups = patches.double() if inputs == "positions" else patches.double().reshape(-1, 1, d)
        centred = groups - groups.mean(0)
        covariance = torch.einsum("nkd,nke->kde", centred, centred) / len(groups)  # (positions or 1, d, d)
        values, vectors = torch.linalg.eigh(covariance)
        roots = vectors * values.clamp(min=0).sqrt()[:, None, :]
        draw = torch.randn(n, places, d, generator=generator, dtype=torch.float64)
        chosen = torch.einsum("kde,nke->nkd", roots.expand(places, d, d), draw).float()
    else:
        raise ValueError(f"inputs are {inputs!r}; known: gaussian, positions, permuted, images")
    return joined(chosen, images.shape[1:])


def compute(
    *,
    dataset,
    side,
    images,
    inputs,
    stride,
    filters,
    second_filters,
    init_scale,
    rate,
    batch_size,
    goal,
    max_epochs,
    seed,
    device,
    report,
):
    """Train one network on random labels until its loss is below ``goal`` (nats); f(σ) before and after.

    One row per eigenvalue of the covariance of the patches that the first convolution sees, σ ascending:
    ``index``, ``sigma``, ``tau`` and ``tau_start`` (Definition 3), and the same in all rows ``epochs``,
    ``loss`` of the last epoch, ``converged`` (1 or 0) and ``displacement`` of the filters over their norm.
    Raises Diverged.
    """
    x = load(dataset, n=images, seed=seed).x
    first = (x.shape[-1] - side) // 2
    x = x[..., first : first + side, first : first + side].contiguous()
    x = approximated(x, inputs, torch_stream(seed, "figure 21", inputs))
    cov_x = patch_covariance(x, SIZE, stride).cov
    y = random_labels(images, CLASSES, torch_stream(seed, "figure 21", "labels"))
    net = TwoConvolutions(side, [filters, second_filters], stride)
    he_normal_(net, init_scale, torch_stream(seed, "figure 21", "network"))
    start = _filters(net)
    net = net.to(device, memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(net.parameters(), lr=rate, momentum=MOMENTUM)
    done = train(
        module_step(net, x.to(device), y.to(device), optimiser),
        images,
        batch_size=batch_size,
        epochs=max_epochs,
        rate=rate,
        generator=torch_stream(seed, "figure 21", "batches"),
        device=device,
        until=lambda now: now.loss < goal,
        report=report,
    )
    end = _filters(net)
    sigma, tau = transfer_function(cov_x, np.cov(end, rowvar=False))
    _, before = transfer_function(cov_x, np.cov(start, rowvar=False))
    return pd.DataFrame(
        {
            "index": range(len(sigma)), "sigma": sigma, "tau": tau, "tau_start": before,
            "epochs": done.epochs, "loss": done.loss, "converged": int(done.loss < goal),
            "displacement": np.linalg.norm(end - start) / np.linalg.norm(start),
        }
    )  # fmt: skip


def _filters(net):
    """The first convolution's filters as rows, float64."""
    return net.convs[0].weight.detach().flatten(1).double().cpu().numpy()


def rows_of(table, step):
    """The rows of one of ``STEPS``; none where nothing is stored."""
    inputs, stride = STEPS[step]
    rows = table[table["unit"].astype(str).str.startswith(f"{inputs}-stride{stride}-")]
    return rows if "tau" in table else rows.iloc[:0]


def growth(rows):
    """τ after training over τ before: (seeds × eigenvalues) frame, σ ascending, columns their mean σ."""
    after, before = (rows.pivot(index="seed", columns="index", values=name) for name in ("tau", "tau_start"))
    return (after / before).dropna().set_axis(rows.groupby("index")["sigma"].mean().to_numpy(), axis=1)


def up_and_down(values):
    """The sequence nearest to ``values`` (k,) in least squares that only rises and then only falls."""
    values = np.asarray(values, dtype=float)
    best, least = None, math.inf
    for top in range(len(values) + 1):
        fit = np.concatenate([_monotone(values[:top]), -_monotone(-values[top:])])
        error = np.square(fit - values).sum()
        if error < least:
            best, least = fit, error
    return best


def _monotone(values):
    """Least-squares non-decreasing fit: neighbours that fall are pooled to their mean."""
    means, sizes = [], []
    for value in values:
        means.append(float(value))
        sizes.append(1)
        while len(means) > 1 and means[-2] > means[-1]:
            size = sizes[-2] + sizes[-1]
            means[-2:] = [(means[-2] * sizes[-2] + means[-1] * sizes[-1]) / size]
            sizes[-2:] = [size]
    return np.repeat(means, sizes)


def departures(table):
    """(seeds × steps) frame: how far ln of a curve's growth is from rising and then falling.

    Root mean square distance from the nearest curve that does, over that one's height, largest less
    smallest: 0 for one top, whatever the shape otherwise. Noise adds to all.
    """
    found = {}
    for step in STEPS:
        rows = rows_of(table, step)
        if len(rows):
            found[step] = np.log(growth(rows)).apply(departure, axis=1)
    return pd.DataFrame(found)


def departure(values):
    """:func:`departures` of one curve (k,); 0 where the nearest curve is flat to rounding."""
    near = up_and_down(values)
    height = np.ptp(near)
    return math.sqrt(np.mean((np.asarray(values) - near) ** 2)) / height if height > 1e-12 else 0.0


def distances(table):
    """(seeds × steps) frame: distance of a curve's shape from that of the same seed's ideal case.

    A shape is ln of the growth less its mean over the eigenvalues, over its standard deviation: what size and
    length of training do to a whole curve does not count. Root mean square.
    """
    shapes = {}
    for step in STEPS:
        rows = rows_of(table, step)
        if len(rows):
            logs = np.log(growth(rows)).set_axis(range(rows["index"].nunique()), axis=1)
            shapes[step] = logs.sub(logs.mean(axis=1), axis=0).div(logs.std(axis=1, ddof=0), axis=0)
    if IDEAL not in shapes:
        return pd.DataFrame()
    ideal = shapes.pop(IDEAL)
    return pd.DataFrame(
        {step: np.sqrt(np.square(shape - ideal).mean(axis=1)) for step, shape in shapes.items()}
    ).dropna()


COMPARED = (
    ("neighbours", "permuted patches", "images, stride 3", "Figure 22, E.2",
     "Correlations between neighbouring patches take f(σ) away from rising and then falling."),
    ("stride-2", "images, stride 3", "images, stride 2", "Figure 22, E.2",
     "Overlapping patches (stride 2) take it further away than patches side by side (stride 3)."),
    ("stride-1", "images, stride 2", "images, stride 1", "Figure 22, E.2",
     "Stride 1 takes it further away than stride 2."),
)  # fmt: skip


def claims(table, parameters):
    """What each step adds, over seeds that share images, labels and initial filters. Fixed before quick."""
    away, apart = departures(table), distances(table)
    made = []
    for id, before, after, where, statement in COMPARED:
        about = (id, f"{statement} (Difference of the departures.)", where)
        if {before, after} <= set(away):
            made.append(Claim.greater(*about, (away[after] - away[before]).dropna()))
        else:
            made.append(Claim.missing(*about, "not among the results"))
    about = (
        "still-close",
        "Up to permuted patches the curve stays closer to the ideal one than that of images does.",
        "Figure 21, E.2",
    )
    wanted = ["one per position", "permuted patches", "images, stride 3"]
    if set(wanted) <= set(apart):
        near = apart[wanted[:2]].max(axis=1)
        made.append(Claim.greater(*about, apart[wanted[2]] - near))
    else:
        made.append(Claim.missing(*about, "not among the results"))
    group = "In the ideal case the curve goes up and then down."
    rows = rows_of(table, IDEAL)
    for number, word in enumerate(("rises", "falls")):
        about = (f"ideal-{word}", f"{group} It {word} (difference of ln of the growth).", "Figure 21, E.2")
        if rows.empty:
            made.append(Claim.missing(*about, "not among the results").tagged(group))
        else:
            made.append(Claim.greater(*about, rise_and_fall(growth(rows))[number]).tagged(group))
    return made


def finding(table, parameters):
    """The departures step by step, and whether the ideal case, their measure, rises and falls."""
    away = departures(table)
    if away.empty:
        return "No network is among the results: there is nothing to see."
    parts = [f"{100 * away[step].mean():.1f} ({step})" for step in away]
    said = f"Away from rising and then falling, in % of f's growth: {', '.join(parts)}."
    own = {claim.id: claim.outcome for claim in claims(table, parameters)}
    open_ends = {word: own[f"ideal-{word}"] for word in ("rises", "falls") if own[f"ideal-{word}"] != HOLDS}
    if open_ends and IDEAL in away:
        listed = " and ".join(
            f"that its own curve {word} is {'wrong' if outcome == CONTRADICTED else outcome}"
            for word, outcome in open_ends.items()
        )
        said += f" The ideal case is the measure, yet {listed}."
    return said


def key_numbers(table, parameters):
    """Departures of the ideal case, of permuted patches and of images."""
    away = departures(table)
    said = {
        "permuted patches": "very close to ideal",
        "images, stride 3": "first significant deviation",
        "images, stride 1": "strongest",
    }
    return [
        KeyNumber(f"departure from up and down: {step}", interval(away[step], "{:.3f}"), word)
        for step, word in said.items()
        if step in away
    ]
