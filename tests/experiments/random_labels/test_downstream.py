"""From random labels to a second task: images, head, learning curve."""

import numpy as np
import pytest
import torch

from alignbook.training.nets import SimpleCNN, he_normal_
from alignbook.training.train import accuracy, fit
from companion.studies.random_labels.shared import downstream


def made(**other):
    sizes = {"upstream": 30, "upstream_classes": 3, "downstream": 70, "classes": 10, "side": 8, "seed": 2}
    return downstream.tasks("photos", **sizes | other)


def keys(images):
    return {image.numpy().tobytes() for image in images}


def test_tasks_are_disjoint_and_labels_are_drawn_for_each():
    split = made(upstream=300, downstream=700, test=40, side=32)
    assert not keys(split.upstream_x) & keys(split.x) and not keys(split.x) & keys(split.test_x)
    agreement = (split.y["real"] == split.y["random"]).float().mean()
    assert 0.03 < agreement < 0.2  # a tenth by chance
    assert torch.equal(split.x, made(upstream=300, downstream=700, side=32).x)
    assert not torch.equal(split.x, made(upstream=300, downstream=700, side=32, seed=3).x)


def test_shrunk_images_are_means_of_blocks():
    x = torch.randn(2, 3, 12, 8, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="whole blocks"):
        downstream.shrunk(x, 8)
    small = downstream.shrunk(x, 4)
    assert small.shape == (2, 3, 4, 4)
    torch.testing.assert_close(small[1, 2, 3, 0], x[1, 2, 9:12, 0:2].mean())
    assert torch.equal(downstream.shrunk(x[:, :, :8], 8), x[:, :, :8])


def test_a_fresh_head_leaves_the_body_alone():
    net = he_normal_(SimpleCNN((3, 8, 8), [4], 12, 5), 1.0, torch.Generator().manual_seed(0))
    before = net.dense.weight.clone()
    downstream.fresh_head_(net, 7, 2.0, torch.Generator().manual_seed(1))
    assert net.head.weight.shape == (7, 12) and not net.head.bias.any()
    assert float(net.head.weight.detach().std()) == pytest.approx(2 * np.sqrt(2 / 12), rel=0.3)
    assert torch.equal(net.dense.weight, before)


def test_a_learning_curve_is_training_seen_from_time_to_time():
    split = made()

    def network():
        return he_normal_(SimpleCNN((3, 8, 8), [8], 16, 10), 1.0, torch.Generator().manual_seed(0))

    task, training = (split.x, split.y["real"]), {"batch_size": 16, "learning_rate": 0.05}
    draws = [torch.Generator().manual_seed(1) for _ in range(2)]
    seen = downstream.learning_curve(
        network(), *task, epochs=6, record=[3, 2, 9], **training, generator=draws[0],
        extra=lambda net: {"norm": float(net.dense.weight.detach().norm())},
    )  # fmt: skip
    net = fit(network(), *task, steps=6 * 4, **training, generator=draws[1])
    assert seen["epoch"].tolist() == [0, 2, 3, 6]  # 9 is never reached
    assert seen["accuracy"].iloc[-1] == accuracy(net, split.x, split.y["real"])
    assert seen["norm"].iloc[-1] == float(net.dense.weight.detach().norm()) != seen["norm"].iloc[0]
