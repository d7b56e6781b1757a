"""Checkpoints: made once, made anew when broken, waited for; what the arguments do."""

import math

import pytest
import torch

from alignbook.data import HALVES, colour32, load
from alignbook.seeding import torch_stream
from alignbook.training import pretrained as module
from alignbook.training.fine_tune import accuracy_and_loss, crops_and_flips
from alignbook.training.pretrained import pretrained

SMALL = {"epochs": 1, "images": 40, "width": 2, "batch_size": 10, "seed": 0}


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGNBOOK_RESULTS", str(tmp_path))
    monkeypatch.delenv("ALIGNBOOK_CHECKPOINTS", raising=False)
    return tmp_path / ".checkpoints"


def same(a, b):
    states = zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in states)


def test_trained_once_and_read_afterwards(store, monkeypatch):
    net = pretrained("photos", **SMALL)
    assert not net.training and net.head.weight.shape == (10, 8)
    (file,) = store.glob("*.pt")
    torch.save({}, store / "other.pt")
    with monkeypatch.context() as patch:  # the text of the sources stays: only the call must not happen
        patch.setattr(module, "_train", None)
        assert same(pretrained("photos", **SMALL), net)
    for broken in (b"", b"no archive", file.read_bytes()[:-300]):
        file.write_bytes(broken)
        again = pretrained("photos", **SMALL)  # made anew
        assert same(again, net)
        assert file.read_bytes() != broken
    before = {path.name for path in store.iterdir()}
    assert not same(pretrained("photos", **{**SMALL, "seed": 1}), net)
    assert len({path.name for path in store.iterdir()} - before) == 2  # a checkpoint and its lock


def test_checkpoints_and_schedules():
    nets = pretrained("photos", **SMALL | {"epochs": 2}, checkpoints=[2, 0, 1], schedule="constant")
    assert sorted(nets) == [0, 1, 2]
    assert not same(nets[0], nets[1]) and not same(nets[1], nets[2])
    assert same(nets[2], pretrained("photos", **SMALL | {"epochs": 2}, schedule="constant"))
    assert not same(nets[2], pretrained("photos", **SMALL | {"epochs": 2}))
    assert same(nets[1], pretrained("photos", **SMALL, schedule="constant"))


def written_out(net, x, y, *, epochs, batch_size, learning_rate, schedule, regularised, generator):
    """Pre-training without the loop."""
    net.to(memory_format=torch.channels_last).train()
    optimiser = torch.optim.SGD(net.parameters(), lr=learning_rate, momentum=0.9)
    optimiser.param_groups[0]["weight_decay"] = 5e-4 if regularised else 0.0
    steps, step = epochs * (len(x) // batch_size), 0
    for _ in range(epochs):
        order = torch.randperm(len(x), generator=generator)
        for index in order.split(batch_size)[: len(x) // batch_size]:
            if schedule == "one-cycle":
                done = step / steps  # up over a fifth, then down along a cosine
                falling = (1 + math.cos(math.pi * (done - 0.2) / (1 - 0.2))) / 2
                share = max(done / 0.2, 0.02) if done < 0.2 else falling
                optimiser.param_groups[0]["lr"] = learning_rate * share
            logits = net(crops_and_flips(x[index], generator) if regularised else x[index])
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(logits, y[index]).backward()
            optimiser.step()
            step += 1


@pytest.mark.parametrize("schedule", ["one-cycle", "constant"])
@pytest.mark.parametrize("regularised", [True, False])
def test_the_same_bits_as_written_out(schedule, regularised):
    chosen = {"schedule": schedule, "regularised": regularised}
    ours = pretrained("photos", **SMALL | {"epochs": 2, "images": 47}, **chosen)
    x, y, classes = module.source_examples("photos", 47, seed=0)
    net = module.ResNet(classes, width=2, generator=torch_stream(0, "pretrained"))
    generator = torch_stream(0, "pretrained", "batches")
    written_out(net, x, y, epochs=2, batch_size=10, learning_rate=0.1, **chosen, generator=generator)
    assert same(ours, net)


def test_halves_labels_and_grey_images():
    net = pretrained("photos", **SMALL, subset="natural")
    assert len(net.head.bias) == len(HALVES["photos"]["natural"])
    pretrained("digits", **SMALL)
    x, y, classes = module.source_examples("photos", 30, seed=5)
    assert x.shape == (30, 3, 32, 32) and classes == 10
    noisy, random = (
        module.source_examples("photos", 2000, "all", labels, share, seed=5)[1]
        for labels, share in (("real", 0.5), ("random", 0.0))
    )
    x, y, _ = module.source_examples("photos", 2000, seed=5)
    assert 0.40 < (noisy != y).float().mean() < 0.50  # a tenth of the drawn labels are right by chance
    assert 0.86 < (random != y).float().mean() < 0.94


def test_training_learns():
    net = pretrained("photos", epochs=2, images=600, width=8, batch_size=20, learning_rate=0.1, seed=0)
    images = load("photos", "test", n=200)
    accuracy, _ = accuracy_and_loss(net, colour32(images.x), images.y)
    assert accuracy > 0.3  # chance: 0.1


def test_bad_arguments():
    for change, message in (
        ({"labels": "wrong"}, "'wrong'; known: real, random"),
        ({"subset": "both"}, "'both'"),
        ({"schedule": "cosine"}, "'cosine'"),
        ({"checkpoints": [2]}, "from 0 to 1"),
        ({"images": 2001}, "there are 2000"),
        ({"batch_size": 41}, "batch of 41"),
    ):
        with pytest.raises(ValueError, match=message):
            pretrained("photos", **SMALL | change)
