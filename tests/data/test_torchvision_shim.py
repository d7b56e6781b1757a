"""torchvision imports beside a PyTorch that its compiled operators do not fit."""

CODE = """
from alignbook.data.torchvision_shim import import_torchvision
torchvision = import_torchvision()
assert import_torchvision() is torchvision
import torch
assert torchvision.models.resnet18(num_classes=3).eval()(torch.zeros(1, 3, 32, 32)).shape == (1, 3)
print(torchvision.datasets.CIFAR10.__name__)
"""


def test_imports_in_a_process_that_has_imported_nothing_of_it(checkout):
    _, out, err = checkout.start(code=CODE).ended()
    assert out.strip() == "CIFAR10", err
