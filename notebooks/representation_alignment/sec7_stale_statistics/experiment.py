"""Random labels of one domain, or its images alone: what lowers alignment with another? (Section 7.3)

Figure 16 measures a network in evaluation mode after it has learned random labels of a source domain. Its
batch norm then works with running statistics of the source's images. Here one arm refreshes these statistics
on the source and changes no weight, and every arm is measured a second time with the target's statistics.
"""

import copy
from itertools import combinations

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.data import colour32, load, random_labels
from alignbook.data.street_digits import street_digits
from alignbook.seeding import torch_stream
from alignbook.training import loop
from alignbook.training.fine_tune import accuracy_and_loss, features_of
from alignbook.training.imagenet import imagenet_network
from alignbook.training.resnet import ResNet, fresh_head_
from companion.jobs import jobs_over
from companion.studies.representation_alignment.shared.alignment_grid import curve

from .design import DOMAINS, KEPT, LABELS, NONE, STATISTICS, TARGET

CLASSES = 10
WEIGHT_DECAY = 1e-4
RIDGE = 1e-3  # of the linear probe, times the number of images
PASS = 50  # images of a batch while statistics are taken


class Smaller(nn.Module):
    """An ImageNet network that sees images at ``side`` × ``side`` pixels, not at its own size."""

    def __init__(self, net, side):
        super().__init__()
        self.body, self.head, self.side = net.body, net.head, side

    def features(self, x):
        """What the head reads, (n, 1280), of images (n, 3, H, W) in [-1, 1]."""
        x = nn.functional.interpolate(x, (self.side, self.side), mode="bilinear", antialias=True)
        return self.body.extract_features((127.5 * x + 0.5) / 128).mean((2, 3))

    def forward(self, x):
        """Logits (n, classes)."""
        return self.head(self.features(x))


def jobs(parameters):
    """One job per seed and source domain."""
    shared = {name: value for name, value in parameters.items() if name != "seeds"}
    return jobs_over("{start}-seed{seed}", compute, shared, seed=range(parameters["seeds"]), start=DOMAINS)


def compute(
    *, dataset, network, side, learned, measured, epochs, rate, batch_size, start, seed, device, report
):
    """Measure a network untouched, after statistics of ``start`` and after random labels of ``start``.

    network : ``imagenet``, or ``random``, a small one that has learned nothing, to try the code where the
    weights are not installed. start : the source, one of ``DOMAINS``. Rows:

    ``measured`` : arm, statistics (``kept`` or ``target``), target, area (Equation 2, mean over all pairs of
        classes), probe (percent of other images that a linear model of the features has right)
    ``source`` : fitted, percent of the random labels that the network gives
    """
    base = base_network(network, side, seed, device)
    domains = {name: digits(dataset, name, learned + 2 * measured, seed) for name in DOMAINS}
    x = domains[start][0][:learned].to(device)
    nets = {NONE: base, STATISTICS: with_statistics(base, x), LABELS: copy.deepcopy(base)}
    fitted = learn_random_labels(
        nets[LABELS], x, torch_stream(seed, "stale", start), epochs=epochs, rate=rate,
        batch_size=batch_size, report=lambda done, text: report(0.6 * done, text),
    )  # fmt: skip
    rows = [{"kind": "source", "fitted": fitted}]
    cells = [(target, arm) for target in DOMAINS if target != start for arm in nets]
    for number, (target, arm) in enumerate(cells):
        images, labels = (part[learned:] for part in domains[target])
        own = {KEPT: nets[arm]}
        if arm != STATISTICS:  # which with the target's is the untouched network again
            own[TARGET] = with_statistics(nets[arm], images[:measured].to(device))
        for statistics, net in own.items():
            features = features_of(net, images.to(device)).cpu().double()
            found = alignment_and_probe(features, labels, measured)
            about = {"kind": "measured", "arm": arm, "statistics": statistics, "target": target}
            rows.append(about | found)
        report(0.6 + 0.4 * (number + 1) / len(cells), f"{arm}, {target}")
    return pd.DataFrame(rows)


def base_network(network, side, seed, device):
    """The network from which every arm starts, in evaluation mode."""
    if network == "random":
        return ResNet(CLASSES, width=4, generator=torch_stream(seed, "stale", "network")).to(device).eval()
    return Smaller(imagenet_network(), side).to(device).eval()


def digits(dataset, name, count, seed):
    """(x (n, 3, 32, 32) in [-1, 1], y (n,)): ``count`` images of a domain, or all where there are fewer.

    Street and handwritten digits are made of different images of ``dataset``, coarse ones are
    scikit-learn's.
    """
    if name == "coarse":
        data = load("digits", seed=seed)
        order = torch.randperm(len(data), generator=torch_stream(seed, "stale", name))[:count]
        return colour32(data.x[order]), data.y[order]
    data = load(dataset)
    order = torch.randperm(len(data), generator=torch_stream(seed, "stale", "grey digits"))
    half = min(count, len(data) // 2)
    order = order[:half] if name == "handwritten" else order[half : 2 * half]
    x, y = data.x[order], data.y[order]
    if name == "handwritten":
        return colour32(x), y
    if x.shape[2:] != (28, 28):
        x = nn.functional.interpolate(x, (28, 28), mode="bilinear")
    return street_digits(x, torch_stream(seed, "stale", name)), y


@torch.no_grad()
def with_statistics(net, x):
    """A copy of ``net`` whose batch norms have the mean statistics of the images ``x``, no weight changed."""
    net = copy.deepcopy(net)
    norms = [part for part in net.modules() if isinstance(part, nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over all batches
        norm.train()
    for batch in x.split(PASS):
        net.features(batch)
    return net.eval()


def learn_random_labels(net, x, generator, *, epochs, rate, batch_size, report):
    """Train ``net`` in place by Adam on uniform labels of ``x``; percent of them that it then gives."""
    y = random_labels(len(x), CLASSES, generator).to(x.device)
    fresh_head_(net, CLASSES, generator).to(x.device, memory_format=torch.channels_last)
    optimiser = torch.optim.Adam(net.parameters(), lr=rate, weight_decay=WEIGHT_DECAY)
    for norm in (part for part in net.modules() if isinstance(part, nn.BatchNorm2d)):
        norm.momentum = 0.1  # as PyTorch's ResNet-18 has it
    net.train()
    decay = 3 * epochs // 4 * (len(x) // batch_size)
    loop.train(
        loop.module_step(net, x, y, optimiser),
        len(x),
        batch_size=batch_size,
        epochs=epochs,
        rate=lambda count: rate * (0.1 if count > decay else 1.0),
        last_batch="drop",
        generator=generator,
        device=x.device,
        report=report,
    )
    net.eval()
    return 100 * accuracy_and_loss(net, x, y)[0]


def alignment_and_probe(features, y, measured):
    """{area, probe}: of the first ``measured`` features (n, d) float64; tested on the others."""
    areas, train = [], slice(None, measured)
    for pair in combinations(range(CLASSES), 2):
        first, second = (y[train] == label for label in pair)
        chosen = first | second
        if first.any() and second.any():
            signs = torch.where(second[chosen], 1.0, -1.0).double()
            areas.append(curve(features[train][chosen], signs)[0])
    return {"area": float(np.mean(areas)), "probe": probe(features, y, measured)}


def probe(features, y, measured):
    """Percent of the rows after ``measured`` whose class ridge regression on the others has right.

    Features are centred and scaled to a mean squared length of 1, so that their scale does not matter.
    """
    centred = features - features[:measured].mean(0)
    phi = centred / centred[:measured].square().sum(1).mean().sqrt()
    train, test = phi[:measured], phi[measured:]
    gram = train @ train.T + RIDGE * measured * torch.eye(len(train), dtype=phi.dtype)
    one_hot = nn.functional.one_hot(y[:measured], CLASSES).double()
    mean = one_hot.mean(0)
    outputs = mean + test @ (train.T @ torch.linalg.solve(gram, one_hot - mean))
    return 100 * float((outputs.argmax(1) == y[measured:]).double().mean())
