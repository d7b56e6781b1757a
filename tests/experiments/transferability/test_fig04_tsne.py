"""Figure 4: distances between ends of training, on made-up networks and tables."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.training.resnet import ResNet
from companion.claims import CONTRADICTED, HOLDS
from companion.studies.transferability.fig04_tsne import design, reading
from companion.studies.transferability.shared.targets import named
from companion.studies.transferability.shared.tuned import kernels
from tests import judging

TARGETS = ["mnist", "cifar10-natural", "shapes"]
PARAMETERS = {
    "targets": TARGETS, "source": "photos", "pretrain_epochs": 1, "pretrain_images": 64, "part_epochs": 1,
    "width": 8, "blocks": 1, "examples": 64, "epochs": 1, "decay_epochs": [], "batch_size": 32,
    "learning_rate": 0.01, "scratch_rate": 0.05, "perplexity": 5.0, "seeds": 2,
    "source_accuracy": False,
    "imagenet_weights": "random", "imagenet_targets": ["photos", "digits"], "imagenet_examples": 33,
    "imagenet_test_images": 9, "imagenet_epochs": 1, "imagenet_seeds": 2,
}  # fmt: skip


def made_up(apart, moved=1.0, seeds=3):
    """The table of networks at ``apart`` times random directions per start plus ``moved`` times noise."""
    tables = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        centres = {start: apart * rng.standard_normal(200) for start in design.STARTS}
        own = {target: apart * rng.standard_normal(200) for target in TARGETS}
        nets = {}
        for start, target in itertools.product(design.STARTS, TARGETS):
            centre = own[target] if start == "random, its own" else centres[start]
            nets[start, target] = (centre, centre + moved * rng.standard_normal(200))
        for one, two in itertools.combinations_with_replacement(TARGETS, 2):
            for start, other in itertools.product(design.STARTS, repeat=2):
                before, first = nets[start, one]
                row = {"start": start, "other_start": other, "seed": seed, "moved": np.nan, "norm": np.nan}
                row["distance"] = np.linalg.norm(first - nets[other, two][1])
                if one == two and start == other:
                    row |= {"moved": np.linalg.norm(first - before), "norm": np.linalg.norm(first)}
                pair = {"dataset": named(one)["dataset"], "part": named(one)["part"]}
                pair |= {
                    "other": named(two)["dataset"],
                    "other_part": named(two)["part"],
                }
                tables.append(row | pair)
    return pd.DataFrame(tables)


_, outcomes = judging.of(reading, PARAMETERS)


def test_kernels_leave_out_the_head_and_batch_norm():
    net = ResNet(3, width=8, generator=torch.Generator().manual_seed(0))
    other = ResNet(3, width=8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        other.head.weight.add_(1)
        other.norm.weight.add_(1)
    assert np.array_equal(kernels(net), kernels(other))
    with torch.no_grad():
        other.stem.weight.add_(1)
    difference = np.linalg.norm(kernels(net) - kernels(other))
    assert difference == pytest.approx(net.stem.weight.numel() ** 0.5)


def test_statements_can_hold_and_fail():
    held = outcomes(made_up(apart=10.0))
    assert set(held.values()) == {HOLDS}
    failed = outcomes(made_up(apart=0.02, moved=1.0))
    assert failed["around"] == HOLDS  # a start is 1/√2 as far as another end, wherever it is
    assert HOLDS not in (failed["near"], failed["near-shared"])
    swapped = made_up(apart=10.0)
    swapped["distance"] = 1 / swapped["distance"].clip(1e-3)
    assert outcomes(swapped)["near"] == outcomes(swapped)["sources"] == CONTRADICTED


def test_the_matrix_is_symmetric_and_complete():
    table = made_up(apart=10.0)
    matrix, names = reading.distances(table, 1)
    assert len(names) == 4 * 3 and np.array_equal(matrix, matrix.T) and not np.diag(matrix).any()
    with pytest.raises(KeyError, match="missing"):
        reading.distances(table.iloc[:-1], 2)
    source = pd.DataFrame({"kind": ["source"], "seed": [1], "source_test_accuracy": [30.0]})
    both = reading.distances(pd.concat([table, source], ignore_index=True), 1)
    assert np.array_equal(both[0], matrix) and both[1] == names


def test_mean_distances_against_the_matrix():
    table = made_up(apart=10.0)
    rows = reading.summary(table)
    matrix, names = reading.distances(table, 1)
    place = {name: position for position, name in enumerate(names)}
    targets = {target for _, target in names}
    wanted = np.mean(
        [matrix[place["pretrained", name], place["pretrained on a part", name]] for name in targets]
    )
    assert rows["pretrained"]["sources"][1] == pytest.approx(wanted)
    assert rows["pretrained on a part"]["sources"][1] == pytest.approx(wanted)
    assert "sources" not in rows["random, shared"] and "across" not in rows["random, its own"]
    own = [place["pretrained", name] for name in targets]
    within = [matrix[a, b] for a in own for b in own if a != b]
    assert rows["pretrained"]["within"][1] == pytest.approx(np.mean(within))
    across = [matrix[place["pretrained", a], place["random, its own", a]] for a in targets]
    assert rows["pretrained"]["across"][1] == pytest.approx(np.mean(across))
