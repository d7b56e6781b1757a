"""First filters of wide residual networks trained on random labels (Figure 3, Table D.1 right; A.7)."""

import pandas as pd
from torch import nn

from alignbook.data import load, random_labels
from alignbook.metrics.patch_covariance import patch_covariance
from alignbook.seeding import torch_stream
from alignbook.training.nets import he_normal_
from alignbook.training.resnet import Block
from alignbook.training.train import accuracy, fit
from companion.jobs import Job

from .design import CHANNELS, DIMENSION, SIZE

CLASSES = 10
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


def jobs(parameters):
    """The data's covariance, and one job per network."""
    names = "dataset side images filters width blocks stride init_scale rate batch_size epochs".split()
    shared = {name: parameters[name] for name in names}
    data = {name: parameters[name] for name in ("dataset", "side")}
    made = [Job("data", covariance, data | {"seed": 0})]
    return made + [Job(f"run{k}", compute, shared | {"seed": k}) for k in range(parameters["runs"])]


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
