"""Tasks from images: disjoint, balanced, on the sphere, departing in known steps."""

import numpy as np
import pytest
import torch

from alignbook.errors import AlignbookError
from companion.studies.transferability.shared.image_pairs import flipped, pool, related, rotated


def test_pairs_are_disjoint_and_balanced():
    images = pool("digits", 0)
    (first, y), (second, _), (others, _) = images.pair(0, 7), images.pair(0, 8), images.pair(2, 8)
    assert y.tolist() == [1.0] * 4 + [-1.0] * 3
    every = torch.cat([first, second, others]).flatten(1)
    assert len(torch.unique(every, dim=0)) == 23
    rows = images.on_sphere(second)
    np.testing.assert_allclose(rows.norm(dim=1), 1)
    with pytest.raises(AlignbookError, match="fewer than"):
        images.pair(0, 1000)


def test_seeds_draw_classes_and_images():
    one, again, other = pool("digits", 0), pool("digits", 0), pool("digits", 1)
    assert one.order == again.order != other.order and sorted(one.order) == list(range(10))
    assert torch.equal(one.images, again.images) and not torch.equal(one.images, other.images)


def test_turning():
    images = torch.arange(2 * 2 * 3 * 3, dtype=torch.float64).reshape(2, 2, 3, 3)
    assert rotated(images, 0) is images
    np.testing.assert_allclose(rotated(images, 180), images.flip(2, 3), atol=1e-9)
    np.testing.assert_allclose(rotated(images, 90), torch.rot90(images, -1, (3, 2)), atol=1e-9)


def test_flips_are_nested():
    y = torch.tensor([1.0, -1, 1, -1, 1, -1, 1, -1])
    turned = [set(torch.nonzero(flipped(y, share, 3) != y)[:, 0].tolist()) for share in (0, 0.25, 0.5, 1)]
    assert [len(part) for part in turned] == [0, 2, 4, 8]
    assert turned[0] < turned[1] < turned[2] < turned[3]
    assert not torch.equal(flipped(y, 0.25, 3), flipped(y, 0.25, 4))


def test_related_tasks_use_new_images():
    images = pool("digits", 0)
    source, _ = images.pair(0, 6)
    tasks = related(images, [0.0, 90.0], [1.0], 6, 0)
    assert [task[0] for task in tasks] == ["rotated", "rotated", "flipped", "classes"]
    assert [task[1] for task in tasks] == [0.0, 90.0, 1.0, 0.0]
    assert torch.equal(tasks[0][2], tasks[2][2]) and torch.equal(tasks[0][3], -tasks[2][3])
    assert len(torch.unique(torch.cat([source, tasks[0][2], tasks[3][2]]).flatten(1), dim=0)) == 18
