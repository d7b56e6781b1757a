"""Section 3's flat region: a job against plain interpolation, and statements that come out either way."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from alignbook.data import load
from alignbook.data.images import ImageSet
from alignbook.training.pretrained import source_examples
from alignbook.training.resnet import ResNet
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT
from companion.studies.transferability.sec3_flat_region import experiment, reading
from tests import judging

PARAMETERS = {"similar": ["held-out", "cifar100"], "unlike": ["mnist"]}
claims, outcomes = judging.of(reading, PARAMETERS)


@torch.no_grad()
def plain(net, end, x, y, share, batch):
    """The loss of ``net``'s copy whose features lie ``share`` of the way to ``end``'s, module by module."""
    net, end = copy.deepcopy(net).eval(), dict(end.named_parameters())
    for name, value in net.named_parameters():
        if "head" not in name:
            value.copy_((1 - share) * value + share * end[name])
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d) and batch:
            module.running_mean = module.running_var = None  # those of the inputs in their place
    return nn.functional.cross_entropy(net(x), y).item()


def test_the_lines_are_plain_interpolation(monkeypatch):
    net = ResNet(10, width=8, generator=torch.Generator().manual_seed(3)).eval()
    seen = {}

    def disturbed(tuned, x, y, *, steps, generator, **_):
        seen.update(head=tuned.head.weight.clone(), tuned=tuned)
        with torch.no_grad():
            for value in tuned.parameters():
                value.add_(0.1 * torch.randn(value.shape, generator=generator))

    monkeypatch.setattr(experiment, "pretrained", lambda *_, **__: net)
    monkeypatch.setattr(experiment, "fine_tune", disturbed)
    monkeypatch.setattr(experiment, "TEST_IMAGES", 50)
    kept = copy.deepcopy(net.state_dict())
    asked = judging.given("transferability/sec3_flat_region", pretrain_images=128, images=48)
    found = judging.compute(experiment.jobs(asked)[0])
    assert all(torch.equal(value, kept[name]) for name, value in net.state_dict().items())
    assert len(found) == 2 * 2 * 11 and set(found["classes"]) == {10}
    x, y, _ = source_examples("photos", 128, seed=0)
    for row in found[(found["line"] == "tuned") & found["share"].isin([0, 0.3, 1])].itertuples():
        reference = plain(net, seen["tuned"], x[:48], y[:48], row.share, row.statistics == "batch")
        assert row.loss == pytest.approx(reference, rel=1e-4), row
    with torch.no_grad():
        right = net.eval()(x[:48]).argmax(1) == y[:48]
    assert found["source_train_accuracy"][0] == pytest.approx(100 * right.double().mean().item())
    # The new head differs from the source's, and no line moves it.
    assert not torch.equal(seen["head"], net.head.weight)
    start, end = (
        torch.cat([p.flatten() for p in one.parameters() if p.ndim == 4]) for one in (net, seen["tuned"])
    )
    assert found["moved"][0] == pytest.approx(((end - start).norm() / start.norm()).item(), rel=1e-5)
    at_start = found[found["share"] == 0].groupby("statistics")["loss"].nunique()
    ends = found[(found["share"] == 1) & (found["statistics"] == "kept")]["loss"]
    assert set(at_start) == {1} and ends.nunique() == 2


def test_a_random_way_is_as_long_filter_by_filter():
    draws = torch.Generator().manual_seed(0)
    way = {"conv": torch.randn(5, 3, 3, 3, generator=draws), "norm": torch.randn(5, generator=draws)}
    made = experiment.random_like(way, draws)
    assert torch.allclose(made["conv"].flatten(1).norm(dim=1), way["conv"].flatten(1).norm(dim=1))
    assert torch.allclose(made["norm"].norm(), way["norm"].norm())
    assert abs(torch.cosine_similarity(made["conv"].flatten(), way["conv"].flatten(), 0)) < 0.3


def test_targets_have_ten_classes_of_images_that_the_source_has_not_seen(monkeypatch):
    x, y = experiment.target_images("held-out", "photos", 100, 0)
    test = load("photos", "test")
    place = [(test.x == image).flatten(1).all(1).nonzero()[0, 0] for image in x]
    assert torch.equal(test.y[place], y) and len(set(map(int, place))) == 100
    labels = torch.arange(600) % 30
    many = ImageSet("many", labels.view(-1, 1, 1, 1).expand(-1, 3, 32, 32).float(), labels, 30 * ["a"])
    monkeypatch.setattr(experiment, "load", lambda *_: many)
    x, y = experiment.target_images("many", "many", 200, 0)
    classes = x[:, 0, 0, 0].unique()
    assert len(classes) == 10 and torch.equal(classes[y], x[:, 0, 0, 0])
    assert not torch.equal(classes, experiment.target_images("many", "many", 200, 1)[0][:, 0, 0, 0].unique())
    with pytest.raises(ValueError, match="many has 200 in 10 classes"):
        experiment.target_images("many", "many", 201, 0)


def made_up(held_out=0.02, cifar100=0.04, mnist=0.5, random=0.9, moved=2.0):
    """Losses that rise like s² to the given share of the way to guessing, ``random`` times that at random."""
    ends = {"held-out": held_out, "cifar100": cifar100, "mnist": mnist}
    factors = {"tuned": 1, "random": random}
    return judging.rows(
        noise=0.005,
        seed=range(4),
        target=[*ends],
        line=[*factors],
        statistics=["batch", "kept"],
        share=[0.0, 0.5, 1.0],
        classes=10,
        source_train_accuracy=99.0,
        rise=lambda row: (1 + row.noise) * factors[row.line] * ends[row.target] * row.share**2,
        loss=lambda row: 0.8 + row.rise * (np.log(10) - 0.8),
        moved=lambda row: 0.2 * (1 + row.noise) * (moved if row.target == "mnist" else 1),
    )


def test_ratios_are_in_doublings():
    table = made_up(moved=8.0)
    np.testing.assert_allclose(reading.moves_further(table, PARAMETERS, "cifar100"), 3, atol=0.05)
    np.testing.assert_allclose(reading.steeper(made_up(random=0.25), PARAMETERS), 2, atol=0.05)


def test_statements_come_out_either_way():
    assert set(outcomes(made_up(random=0.1)).values()) == {HOLDS}
    fails = outcomes(made_up(held_out=0.6, cifar100=0.7, mnist=0.02, random=4, moved=0.5))
    assert set(fails.values()) == {CONTRADICTED}
    alike = outcomes(made_up(0.11, 0.11, 0.11, moved=1))
    assert alike["farther-out"] == alike["stays-0.1"] == alike["further"] == NO_EFFECT


def test_the_similar_target_that_shows_it_least_decides():
    found = claims(made_up(cifar100=0.8))
    assert found["own-classes"].outcome == HOLDS and found["farther-out"].outcome == CONTRADICTED
    assert found["farther-out"].measured == pytest.approx(-0.3, abs=0.02)
    assert claims(made_up())["farther-out"].measured == pytest.approx(0.46, abs=0.02)


def test_where_the_edge_is_can_decide():
    found = outcomes(made_up(held_out=0.18, mnist=0.27))
    assert (found["stays-0.1"], found["stays-0.2"]) == (CONTRADICTED, NO_EFFECT)
    assert (found["leaves-0.1"], found["leaves-0.2"]) == (HOLDS, HOLDS)
