"""torchvision imports beside a PyTorch that its compiled operators do not fit."""

import subprocess
import sys

import pytest

from alignbook.data import torchvision_shim

CODE = """
from alignbook.data.torchvision_shim import import_torchvision
torchvision = import_torchvision()
assert import_torchvision() is torchvision
import torch
assert torchvision.models.resnet18(num_classes=3).eval()(torch.zeros(1, 3, 32, 32)).shape == (1, 3)
print(torchvision.datasets.CIFAR10.__name__)
"""


def test_imports_in_a_fresh_process():
    run = subprocess.run([sys.executable, "-c", CODE], text=True, capture_output=True)
    assert run.stdout.strip() == "CIFAR10", run.stderr


def test_not_installed(monkeypatch):
    monkeypatch.setattr(torchvision_shim.importlib.util, "find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    monkeypatch.setattr(torchvision_shim, "_library", None)
    with pytest.raises(ImportError, match="not installed"):
        torchvision_shim.import_torchvision()
