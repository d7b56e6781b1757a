"""From Gaussian patches to images, step by step: the transfer function f(σ) (Figures 21 and 22, E.2)."""

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.data import load, random_labels
from alignbook.metrics.patch_covariance import patch_covariance
from alignbook.metrics.transfer_function import transfer_function
from alignbook.seeding import torch_stream
from alignbook.training.loop import module_step, train
from alignbook.training.nets import he_normal_
from companion.jobs import Job

from .design import STEPS

SIZE = 3  # patches of 3×3 pixels
CLASSES = 10
MOMENTUM = 0.9  # A.3


def jobs(parameters):
    """One job per step and seed."""
    names = "dataset side images filters second_filters init_scale rate batch_size goal max_epochs".split()
    shared = {name: parameters[name] for name in names}
    return [
        Job(f"{inputs}-stride{stride}-seed{seed}", compute,
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
            nn.Conv2d(before, after, SIZE, stride) for before, after in zip(channels, filters, strict=False)
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
