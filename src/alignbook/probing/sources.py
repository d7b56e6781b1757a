"""Where the probe's network and data come from: callables, weights, TorchScript; images or vectors."""

import contextlib
import copy
import importlib
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

from alignbook.data import load
from alignbook.data.torchvision_shim import import_torchvision
from alignbook.errors import AlignbookError, on_one_line

CHECKPOINT_KEYS = ("state_dict", "model_state_dict", "model")  # where trainers keep the weights


def network(source, arch=None, like=None, trust=False):
    """The network that ``source`` names.

    source : ``module:callable`` that returns an nn.Module (the working directory is searched first), or a
        file: TorchScript, or a state dict, which is read with ``weights_only=True``.
    arch : a classifier of torchvision that the state dict belongs to, e.g. ``resnet18``.
    like : a network whose copy takes the state dict in its place.
    trust : whether a file of TorchScript may be read: it is code, which may write files and more.

    Raises AlignbookError, one line, for whatever goes wrong.
    """
    path = Path(source)
    if path.is_file():
        if _is_script(path):
            if not trust:
                raise AlignbookError(f"{source} is TorchScript, which is code: --trust runs it")
            return _tried(lambda: torch.jit.load(path, map_location="cpu"), f"{source} cannot be read")
        state = _tried(
            lambda: torch.load(path, map_location="cpu", weights_only=True), f"{source} cannot be read"
        )
        for key in CHECKPOINT_KEYS:
            if isinstance(state, dict) and isinstance(state.get(key), dict):
                state = state[key]
        if not isinstance(state, dict) or not all(isinstance(v, torch.Tensor) for v in state.values()):
            raise AlignbookError(f"{source} holds no state dict: names with tensors")
        if arch is None and like is None:
            raise AlignbookError(
                f"{source} holds weights only: say of which network, by --arch or module:callable"
            )
        net = copy.deepcopy(like) if arch is None else _torchvision(arch, state)
        _tried(lambda: net.load_state_dict(state), f"{source} does not fit the network")
        return net
    module, separator, name = source.partition(":")
    if not separator:
        raise AlignbookError(f"there is no file {source}, and module:callable would have a colon")
    if "" not in sys.path:
        sys.path.insert(0, "")
    with contextlib.suppress(ImportError):  # the reader's module may import it, which fails without this
        import_torchvision()
    made = _tried(lambda: getattr(importlib.import_module(module), name)(), f"{source} cannot be called")
    if not isinstance(made, nn.Module):
        raise AlignbookError(f"{source} returns no nn.Module but a {type(made).__name__}")
    return made


def _tried(action, what):
    try:
        return action()
    except AlignbookError:
        raise
    except Exception as error:  # the reader's own code, or a file of any content
        raise AlignbookError(f"{what}: {type(error).__name__}: {on_one_line(error)}") from None


def _is_script(path):
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any("/code/" in name for name in archive.namelist())


def _torchvision(arch, state):
    try:
        import_torchvision()
        from torchvision.models import get_model, list_models
    except ImportError:
        raise AlignbookError("--arch needs torchvision") from None
    if arch not in list_models():
        raise AlignbookError(f"torchvision has no network {arch!r}")
    classes = len(next(reversed(state.values())))  # the head's bias comes last
    return _tried(lambda: get_model(arch, weights=None, num_classes=classes), f"{arch} cannot be made")


def examples(source, n, *, split="test", size=None, seed=0):
    """(inputs (n, …) float32, targets): ``n`` of them, drawn by ``seed``; fewer where there are fewer.

    source : an image set of ours (:func:`alignbook.load`, ``split`` of it); an ``.npz`` archive with ``x``
        (n, …) and ``y`` (n,) or (n, k); or a folder of images, a folder for each class.
    Images (uint8, (n, H, W) or (n, H, W, channels)) become (n, C, H, W) in [-1, 1]; other arrays stay as they
    are. size : images are resized so that they are square, of so many pixels to a side.

    Raises AlignbookError, one line, for whatever goes wrong.
    """
    path = Path(source)
    if path.is_dir():
        inputs, targets = _folder(path, n, size or 224, seed)
    elif path.suffix == ".npz":
        inputs, targets = _archive(path, n, seed)
    else:
        images = load(source, split)
        chosen = _chosen(len(images), n, seed)
        inputs, targets = images.x[chosen], images.y[chosen]
    if size is not None and inputs.ndim == 4 and inputs.shape[2:] != (size, size):
        inputs = nn.functional.interpolate(inputs, (size, size), mode="bilinear", antialias=True)
    return inputs, targets


def _chosen(count, n, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(count, generator=generator)[: min(n, count)]


def _archive(path, n, seed):
    def read():
        with np.load(path, allow_pickle=False) as archive:
            return archive["x"], archive["y"]

    x, y = _tried(read, f"{path} cannot be read (an archive with x and y)")
    if len(x) != len(y):
        raise AlignbookError(f"{path}: {len(x)} inputs and {len(y)} targets")
    chosen = _chosen(len(x), n, seed).numpy()
    x, y = (
        torch.from_numpy(np.ascontiguousarray(x[chosen])),
        torch.from_numpy(np.ascontiguousarray(y[chosen])),
    )
    if x.dtype == torch.uint8 and x.ndim >= 3:
        x = x[:, None] if x.ndim == 3 else x.permute(0, 3, 1, 2)
        x = x.float() / 127.5 - 1
    y = y.float() if y.is_floating_point() else y.long()
    return x.float().contiguous(), y


def _folder(path, n, size, seed):
    try:
        import_torchvision()
        from torchvision.datasets import ImageFolder
        from torchvision.transforms import functional
    except ImportError:
        raise AlignbookError("a folder of images needs torchvision") from None
    images = _tried(lambda: ImageFolder(path), f"{path} cannot be read")
    chosen = _chosen(len(images), n, seed).tolist()

    def read():
        pairs = [images[i] for i in chosen]
        x = [functional.pil_to_tensor(functional.resize(image, (size, size))) for image, _ in pairs]
        return torch.stack(x).float() / 127.5 - 1, torch.tensor([label for _, label in pairs])

    return _tried(read, f"{path} cannot be read")
