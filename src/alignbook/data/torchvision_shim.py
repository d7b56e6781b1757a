"""torchvision beside a PyTorch build that its compiled operators do not fit.

The registry's torchvision is built for CUDA. Beside a CPU-only PyTorch its operators do not load, and
the import fails because it registers a fake kernel for ``torchvision::nms`` without a schema. Declaring
the schemas first is enough for data sets, transforms and classifiers; nothing here calls the operators.
"""

import importlib
import importlib.util
import sys
from pathlib import Path

import torch

_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_library = None  # the declarations vanish with their Library object


def import_torchvision():
    """The ``torchvision`` module. Raises ImportError where it is not installed.

    Where the compiled operators load, this is a plain import.
    """
    global _library
    if "torchvision" not in sys.modules and _library is None and not _operators_load():
        _library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            _library.define(name + _SCHEMA)
    return importlib.import_module("torchvision")


def _operators_load():
    spec = importlib.util.find_spec("torchvision")
    if spec is None:
        raise ImportError("torchvision is not installed")
    binaries = [
        path
        for folder in spec.submodule_search_locations
        for path in (*Path(folder).glob("_C*.so"), *Path(folder).glob("_C*.pyd"))
    ]
    try:
        for path in binaries:
            torch.ops.load_library(str(path))
    except (ImportError, OSError):
        return False
    return bool(binaries)
