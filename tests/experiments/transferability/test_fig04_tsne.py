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


def made_up(apart):
    """The table of networks at ``apart`` times random directions per start plus noise."""
    rows = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        shared = {start: apart * rng.standard_normal(200) for start in design.STARTS}
        begins = {
            (start, target): apart * rng.standard_normal(200) if start == reading.OWN else shared[start]
            for start, target in itertools.product(design.STARTS, TARGETS)
        }
        ends = {name: begin + rng.standard_normal(200) for name, begin in begins.items()}
        for one, two in itertools.combinations_with_replacement(TARGETS, 2):
            pair = named(one) | {"other": named(two)["dataset"], "other_part": named(two)["part"]}
            for start, other in itertools.product(design.STARTS, repeat=2):
                row = pair | {"start": start, "other_start": other, "seed": seed}
                row["distance"] = np.linalg.norm(ends[start, one] - ends[other, two])
                if one == two and start == other:
                    row["moved"] = np.linalg.norm(ends[start, one] - begins[start, one])
                rows.append(row)
    return pd.DataFrame(rows)


_, outcomes = judging.of(reading, {})


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
    failed = outcomes(made_up(apart=0.02))
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
    two = [matrix[place["pretrained", name], place["pretrained on a part", name]] for name in TARGETS]
    for start in ("pretrained", "pretrained on a part"):
        assert rows[start]["sources"][1] == pytest.approx(np.mean(two))
    assert "sources" not in rows["random, shared"] and "across" not in rows["random, its own"]
    own = [place["pretrained", name] for name in TARGETS]
    within = [matrix[a, b] for a in own for b in own if a != b]
    assert rows["pretrained"]["within"][1] == pytest.approx(np.mean(within))
    across = [matrix[place["pretrained", name], place["random, its own", name]] for name in TARGETS]
    assert rows["pretrained"]["across"][1] == pytest.approx(np.mean(across))
