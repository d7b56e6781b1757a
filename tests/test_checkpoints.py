"""Checkpoints: by what they are kept apart, who waits for whom, and what they spare."""

import errno
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch

from alignbook import checkpoints, code, system


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGNBOOK_CHECKPOINTS", str(tmp_path / "kept"))
    monkeypatch.setattr(code, "digest", lambda module: module)  # a test names what it likes
    return tmp_path / "kept"


calls = []


def maker(n, module="a_module", seconds=0.0, inner=None, net=None):
    def make():
        calls.append(n)
        time.sleep(seconds)
        return {"value": torch.arange(n), "inner": inner and inner(), "net": net and net.weight.detach()}

    make.__module__ = module
    return make


def kept(n=3, device="cpu", **other):
    return checkpoints.kept(maker(n, **other), {"n": n, "device": device})


def test_of_two_that_want_one_one_makes_and_one_waits():
    calls.clear()
    with ThreadPoolExecutor(2) as pool:  # a lock of its own for each file that was opened
        found = [pool.submit(kept, seconds=0.5) for _ in range(2)]
    assert [part.result()["value"].tolist() for part in found] == [[0, 1, 2], [0, 1, 2]]
    assert calls == [3]


def test_everything_that_the_content_depends_on_is_in_the_key(monkeypatch, folder):
    def files(**other):
        kept(1, **other)
        return len(list(folder.glob("*.pt")))

    assert (files(), files()) == (1, 1)
    assert files(module="another_module") == 2
    net = torch.nn.Linear(2, 2)
    assert files(net=net) == 3 == files(net=net)
    with torch.no_grad():
        net.weight += 1
    assert files(net=net) == 4  # what it starts from
    for number, (where, name, value) in enumerate(
        [
            (system, "versions", lambda: {"torch": "0"}),
            (system, "features", lambda kind: {"kind": kind, "capability": "another"}),
        ]
    ):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, value)
            assert files() == number + 5, name
    assert files() == 6


def test_a_full_disk_costs_the_checkpoint_alone(folder, monkeypatch):
    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(system, "replace", full)
    assert kept()["value"].tolist() == [0, 1, 2] and not list(folder.glob("*.pt"))


def test_what_a_checkpoint_spares_is_counted(monkeypatch):
    now = [0.0]  # a clock on which making alone takes time
    monkeypatch.setattr(checkpoints, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def take(seconds):
        now[0] += seconds

    monkeypatch.setattr(time, "sleep", take)
    before = checkpoints.spared()
    kept(5, seconds=0.5)
    assert checkpoints.spared() == before
    outer = {"n": 6, "seconds": 0.2, "inner": lambda: kept(5, seconds=0.5)}
    kept(**outer)  # which finds the first
    assert checkpoints.spared() - before == pytest.approx(0.5)
    kept(**outer)  # 0.2 s of its own, and the other's
    assert checkpoints.spared() - before == pytest.approx(0.5 + 0.7)
