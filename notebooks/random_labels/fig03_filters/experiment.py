"""First filters of wide residual networks trained on random labels (Figure 3, Table D.1 right; A.7)."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
from torch import nn

from alignbook.claims import Claim, KeyNumber, interval
from alignbook.data import load, random_labels
from alignbook.experiments import Unit
from alignbook.metrics import misalignment, misalignment_basis, patch_covariance
from alignbook.seeding import numpy_stream, torch_stream
from alignbook.training.nets import he_normal_
from alignbook.training.resnet import Block
from alignbook.training.train import accuracy, fit

from ..fig02_misalignment.experiment import random_bases

HEADLINE = "matched"
SIZE, CHANNELS = 5, 3  # A.7
DIMENSION = CHANNELS * SIZE**2
CLASSES = 10
THRESHOLD = 0.4  # Figure 3: |⟨v_x, v_w⟩| above it is a match
SHOWN = 10  # Figure 3: eigenvectors of Σ_w
# Table D.1, right: σ_i² and |⟨e_i, e_i'⟩| of two groups of 30 networks.
PRINTED = pd.DataFrame(
    {
        "variance": [0.281, 0.202, 0.154, 0.141, 0.107, 0.104, 0.085, 0.078, 0.077, 0.072, 0.063, 0.059],
        "agreement": [0.974, 0.958, 0.916, 0.934, 0.861, 0.861, 0.906, 0.946, 0.924, 0.811, 0.598, 0.645],
    },
    index=range(1, 13),
)
PRINTED_RUNS = 30  # D.1: in each of the two groups
PRINTED_FILTERS = PRINTED_RUNS * 64
PRECISE = 0.1  # of an agreement: an interval that reaches further from the printed one says little
COUNTS = ("matched", "one", "two", "more")  # columns of by_group
DIGITS = 5  # of a stored weight


class WideResNet(nn.Module):
    """A 5×5 convolution, three groups of residual blocks with batch norm, the mean over places, a head.

    filters : of the first convolution. width : of the first group; the others have 2·width and 4·width.
    blocks : per group. stride : of the first group; 2 in the others. Maps (n, 3, H, W) to logits (n, 10).
    """

    def __init__(self, *, filters, width, blocks, stride):
        super().__init__()
        self.stem = nn.Conv2d(CHANNELS, filters, SIZE, padding=SIZE // 2, bias=False)
        self.norm = nn.BatchNorm2d(filters)
        layers, before = [], filters
        for group in range(3):
            for block in range(blocks):
                after, step = width * 2**group, (stride if group == 0 else 2) if block == 0 else 1
                layers.append(Block(before, after, step))
                before = after
        self.groups = nn.Sequential(*layers)
        self.head = nn.Linear(before, CLASSES)

    def forward(self, x):
        """Logits (n, 10) of images (n, 3, H, W)."""
        return self.head(self.groups(self.norm(self.stem(x)).relu()).mean((2, 3)))


def units(parameters):
    """The data's covariance, and one unit per network."""
    names = "dataset side images filters width blocks stride init_scale rate batch_size epochs".split()
    shared = {name: parameters[name] for name in names}
    data = {name: parameters[name] for name in ("dataset", "side")}
    made = [Unit("data", covariance, data | {"seed": 0})]
    return made + [Unit(f"run{k}", compute, shared | {"seed": k}) for k in range(parameters["runs"])]


def middle(x, side):
    """The middle (n, C, side, side) of images (n, C, H, W); ValueError where they are smaller."""
    height, width = x.shape[2:]
    if side > min(height, width):
        raise ValueError(f"images of {height}×{width} have no middle of {side}×{side}")
    top, left = (height - side) // 2, (width - side) // 2
    return x[..., top : top + side, left : left + side]


def covariance(*, dataset, side, seed, device, report):
    """Σ_x of all 5×5 patches of all training images: a row per entry of a patch, columns ``w0`` … ``w74``."""
    cov = patch_covariance(middle(load(dataset).x, side).to(device), SIZE).cov
    return _table(cov).assign(kind="data")


def compute(
    *,
    dataset,
    side,
    images,
    filters,
    width,
    blocks,
    stride,
    init_scale,
    rate,
    batch_size,
    epochs,
    seed,
    device,
    report,
):
    """Train one network on images of its own with random labels (A.3, A.7); its first filters.

    A row per filter, columns ``w0`` … ``w74`` in the order of patches, and in all rows ``accuracy`` on the
    training images (0..1) and ``grown``, the filters' norm over that at initialisation. Raises Diverged.
    """
    x = middle(load(dataset, n=images, seed=seed).x, side).contiguous().to(device)
    y = random_labels(images, CLASSES, torch_stream(seed, "figure 3", "labels")).to(device)
    net = WideResNet(filters=filters, width=width, blocks=blocks, stride=stride)
    net = he_normal_(net, init_scale, torch_stream(seed, "figure 3", "network")).to(device)
    before = net.stem.weight.norm().item()
    fit(
        net,
        x,
        y,
        steps=epochs * (images // batch_size),
        batch_size=batch_size,
        learning_rate=rate,
        generator=torch_stream(seed, "figure 3", "batches"),
        report=report,
    )
    weights = net.stem.weight.detach()
    grown = weights.norm().item() / before
    table = _table(weights.flatten(1).double().cpu().numpy())
    return table.assign(kind="filter", accuracy=accuracy(net, x, y), grown=grown)


def _table(rows):
    """Rows of 75 numbers as a table, to ``DIGITS`` significant digits."""
    rounded = [[float(f"{value:.{DIGITS}g}") for value in row] for row in rows]
    return pd.DataFrame(rounded, columns=[f"w{k}" for k in range(DIMENSION)])


def weights(table):
    """{run: its filters (filters, 75)}, runs in order; empty where none is stored."""
    if "kind" not in table:
        return {}
    return {seed: _numbers(part) for seed, part in table[table["kind"] == "filter"].groupby("seed")}


def data_basis(table):
    """(Σ_x, its eigenvectors as columns, the largest eigenvalue first), or None where it is not stored."""
    rows = table[table["kind"] == "data"] if "kind" in table else table.iloc[:0]
    if rows.empty:
        return None
    cov = _numbers(rows)
    cov = (cov + cov.T) / 2
    return cov, leading(cov)[1]


def _numbers(rows):
    return rows[[f"w{k}" for k in range(DIMENSION)]].to_numpy()


def leading(cov):
    """(eigenvalues, eigenvectors as columns) of a symmetric matrix, the largest first."""
    values, vectors = np.linalg.eigh(cov)
    return values[::-1], vectors[:, ::-1]


def pooled(runs):
    """Covariance (75, 75) of the filters of several runs, each (filters, 75)."""
    return np.cov(np.concatenate(runs), rowvar=False)


def matches(vectors_x, vectors_w):
    """For each column of ``vectors_w`` (d, k), which columns of ``vectors_x`` (d, d) match it: k lists.

    Those with |⟨v_x, v_w⟩| above 0.4, the best first.
    """
    products = np.abs(vectors_x.T @ vectors_w)
    order = np.argsort(-products, axis=0)
    return [[int(i) for i in order[:, k] if products[i, k] > THRESHOLD] for k in range(products.shape[1])]


def groups_of(table, parameters):
    """The runs' filters in groups of equal size, lists of (filters, 75) arrays; a remainder is left out."""
    runs = list(weights(table).values())
    size = len(runs) // parameters["groups"]
    if not size:
        return []
    return [runs[start : start + size] for start in range(0, size * parameters["groups"], size)]


def by_group(table, parameters):
    """A row per group of runs: what its Σ_w has in common with Σ_x.

    ``matched``: of the ten leading eigenvectors of Σ_w, how many match an eigenvector of Σ_x; ``one``,
    ``two``, ``more``: how many match one, two or more of them; ``chance``: how many match one of random
    orthonormal vectors, mean of 100 bases; ``misalignment`` of Σ_w with Σ_x, and with these bases the mean,
    ``random``, and the ``least`` (none where the group's filters are too few); ``first`` and ``last``: mean
    |⟨e_i, e_i'⟩| between the group's two halves over i = 1 … 3 and 10 … 12.
    """
    data = data_basis(table)
    if data is None:
        return pd.DataFrame()
    cov_x, vectors_x = data
    rows = []
    for number, runs in enumerate(groups_of(table, parameters)):
        cov = pooled(runs)
        top = leading(cov)[1][:, :SHOWN]
        counts = np.array([len(found) for found in matches(vectors_x, top)])
        bases = random_bases(DIMENSION, 100, numpy_stream(number, "figure 3", "bases"))
        chance = [sum(map(bool, matches(basis, top))) for basis in bases]
        row = {
            "matched": (counts > 0).sum(), "one": (counts == 1).sum(), "two": (counts == 2).sum(),
            "more": (counts > 2).sum(), "chance": np.mean(chance),
        }  # fmt: skip
        if sum(map(len, runs)) > 2 * DIMENSION:
            row["misalignment"] = misalignment(cov_x, cov)
            others = [misalignment_basis(basis, cov) for basis in bases]
            row |= {"random": np.mean(others), "least": min(others)}
        if len(runs) > 1:
            found = agreement(runs)
            row |= {"first": found[:3].mean(), "last": found[9:12].mean()}
        rows.append(row)
    return pd.DataFrame(rows)


def agreement(runs):
    """|⟨e_i, e_i'⟩| (12,) of the leading eigenvectors of Σ_w of two halves of ``runs`` (Table D.1, right).

    A half has 30 runs at most, as the paper's.
    """
    half = min(len(runs) // 2, PRINTED_RUNS)
    one, two = (leading(pooled(part))[1] for part in (runs[:half], runs[half : 2 * half]))
    return np.abs((one * two).sum(0))[: len(PRINTED)]


def halvings(table, count=20):
    """(halvings × 12) agreements of random halvings of all runs, which are not independent of each other."""
    return _halvings(list(weights(table).values()), count, "halvings")


def _halvings(runs, count, name):
    if len(runs) < 2:
        return pd.DataFrame()
    rng = numpy_stream(0, "figure 3", name)
    found = [agreement([runs[k] for k in rng.permutation(len(runs))]) for _ in range(count)]
    return pd.DataFrame(found, columns=PRINTED.index)


def one_pair(table, parameters):
    """(mean, half width, groups): what one more pair like the paper's could give, mean of twelve agreements.

    The spread of halvings of the same runs, and twice the jackknife variance of their mean over the groups of
    runs (once for our mean, once for what all halvings of the same runs share); t quantile. None below three
    groups.
    """
    groups = groups_of(table, parameters)
    if len(groups) < 3:
        return None
    kept = [[run for other in groups if other is not group for run in other] for group in groups]
    means = [_halvings(runs, 20, f"without {k}").mean(axis=None) for k, runs in enumerate(kept)]
    shared = (len(groups) - 1) ** 2 / len(groups) * np.var(means, ddof=1)
    found = halvings(table).mean(axis=1)
    from scipy import stats  # here: it takes a second, and commands that judge nothing need none

    half = stats.t.ppf(0.975, len(groups) - 1) * math.sqrt(found.var(ddof=1) + 2 * shared)
    return found.mean(), half, len(groups)


def claims(table, parameters):
    """Matches beyond chance, one or two of them, alignment, and which eigenvectors can be measured.

    Over independent groups of runs. Written down before the first run of profile quick; that of Table D.1 was
    not judged then, and its rule was written before there were as many runs as the paper's.
    """
    found = by_group(table, parameters)
    said = {
        "matched": (
            "Of the ten leading eigenvectors of Σ_w more match eigenvectors of Σ_x than random vectors.",
            "Figure 3",
        ),
        "one-or-two": ("All ten match one or two of them.", "Figure 3"),
        "aligned": (
            "Σ_w is less misaligned with Σ_x than with any of 100 random bases (difference of ln).",
            "Section 2.2",
        ),
        "leading-measured": (
            "Only the leading eigenvectors of Σ_w are measured well: agreement of halves, 1–3 less 10–12.",
            "D.1",
        ),
    }
    values = {}
    if "matched" in found:
        values["matched"] = found["matched"] - found["chance"]
    if "misalignment" in found:
        values["aligned"] = np.log(found["least"] / found["misalignment"])
    if "first" in found:
        values["leading-measured"] = found["first"] - found["last"]
    made = []
    for id, (statement, where) in said.items():
        if id == "one-or-two" and "one" in found:
            count = (found["one"] + found["two"]).astype(float)
            claim = Claim.one_run(id, statement, where, count, SHOWN).tagged(ours=True)
            claim = claim.within(0.0, SHOWN)  # no more than ten can match
        elif id in values:
            claim = Claim.greater(id, statement, where, values[id], what="groups of run")
        else:
            claim = Claim.missing(id, statement, where, "not among the results")
        made.append(claim)
    return [*made, _printed(table, parameters)]


def _printed(table, parameters):
    """The mean of Table D.1's twelve agreements: with another number of filters it cannot decide."""
    about = ("table-d1", "Agreement of halves is as printed (mean of twelve).", "Table D.1 (right)")
    frame, mean = halvings(table), PRINTED["agreement"].mean()
    if frame.empty:
        return Claim.missing(*about, "fewer than two runs", paper=mean)
    runs = weights(table)
    count = min(len(runs) // 2, PRINTED_RUNS) * len(next(iter(runs.values())))
    pair = one_pair(table, parameters)
    if count != PRINTED_FILTERS or pair is None:
        claim = Claim.one_run(*about, frame.mean(axis=1), mean)
        why = f"halvings of the same runs; {count:,} filters in each half, the paper has {PRINTED_FILTERS:,}"
        return claim.not_judged(why)
    found, half, groups = pair
    claim = Claim.covers(*about, found, (found - half, found + half), mean, PRECISE, groups)
    test = f"printed mean against what one more pair of {PRINTED_RUNS} runs could give (95 %, jackknife)"
    return replace(claim, test=test)


def finding(table, parameters):
    """How many of the ten match, with how many, beside chance; and that the network is a stand-in."""
    found = by_group(table, parameters)
    if found.empty:
        return "No network is among the results: there is nothing to see."
    mean = found.mean()
    learnt = table.loc[table["kind"] == "filter", "accuracy"].mean()
    return (
        f"Of the ten leading eigenvectors of Σ_w {interval(found['matched'], '{:.1f}')} match an eigenvector "
        f"of Σ_x (random vectors: {mean['chance']:.1f}): {mean['one']:.1f} match one, {mean['two']:.1f} two, "
        f"{mean['more']:.1f} more. "
        f"A small residual network that knows {100 * learnt:.0f} % of its labels stands in for the wide one."
    )


def key_numbers(table, parameters):
    """Matches in a group, and agreement of halves beside the printed one."""
    found, frame = by_group(table, parameters), halvings(table)
    made = []
    if not found.empty:
        what = "of ten eigenvectors of Σ_w, matched / by one / by two / by more"
        mean = found.mean()
        made.append(KeyNumber(what, " / ".join(f"{mean[name]:.1f}" for name in COUNTS)))
    if not frame.empty:
        for number in (1, 12):
            printed = f"{PRINTED['agreement'][number]:.3f}"
            here = f"{frame[number].mean():.3f}"
            made.append(KeyNumber(f"|⟨e, e′⟩| of two halves, eigenvector {number}", here, printed))
    return made
