"""Where the command's network and data come from: callables, weights; images or vectors."""

import contextlib
import importlib
import inspect
import operator
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

from alignbook.data import load
from alignbook.data.torchvision_shim import import_torchvision
from alignbook.errors import AlignbookError, on_one_line

from . import weights
from .data import cast, tensor


def network(source, arch=None, say=None):
    """The network that ``source`` names.

    source : ``torchvision:resnet18`` or ``timm:resnet18``, at random weights; ``module:callable`` that
        returns an nn.Module, or ``module:network`` that is one (the working directory is searched first); a
        folder that Hugging Face's ``save_pretrained`` wrote, with its ``config.json``; a file or folder of
        weights (see :func:`alignbook.probing.weights.read`).
    arch : the network that the weights belong to, in one of the first two forms.
    say : callable (line), for weights that are left over.

    Raises AlignbookError, one line, for whatever goes wrong.
    """
    path = Path(source)
    if not path.exists():
        return _of_name(source)
    if arch is None and (path / "config.json").is_file():
        return _hugging_face(path)
    state = weights.read(path)
    if arch is None:
        raise AlignbookError(
            f"{source} holds weights only: say of which network, by --arch, e.g. torchvision:resnet18 or "
            "module:callable"
        )
    sized = [value for value in state.values() if value.ndim]
    plain = _of_name(arch, len(sized[-1]) if sized else None)  # the head's bias comes last
    state, left = weights.matched(state, plain.state_dict())
    filled, why = weights.filled(plain, state)
    if filled is None:
        raise AlignbookError(f"{source} does not fit the network: {why}")
    if left and say is not None:
        say(f"{source}: {left}")
    return filled


def _of_name(source, classes=None):
    """A library's network, with so many classes, or the reader's own."""
    library, _, name = source.partition(":")
    if library not in ("torchvision", "timm") or name.startswith("models."):
        return _called(source)
    options = {} if classes is None else {"num_classes": classes}
    try:
        import_torchvision()
        if library == "timm":
            import timm

            make, known = timm.create_model, {"pretrained": False}
        else:
            from torchvision.models import get_model as make, get_model_builder

            builder = _tried(lambda: get_model_builder(name), f"torchvision has no network {name!r}")
            known = {"weights": None, "weights_backbone": None}
            known = {key: None for key in known if key in inspect.signature(builder).parameters}
    except ImportError:
        raise AlignbookError(f"{library}:{name} needs {library}") from None
    return _tried(lambda: make(name, **known, **options), f"{source} cannot be made")


def _hugging_face(folder):
    """The network of a folder, with the weights in it, or random ones where there are none."""
    import_torchvision()
    try:
        import transformers
    except ImportError:
        raise AlignbookError(f"{folder} has a config.json: it needs transformers, or --arch") from None

    def load():
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
        kind = getattr(transformers, (config.architectures or [""])[0] or "AutoModel")
        if any(folder.glob("*.safetensors")) or any(folder.glob("*.bin")):
            return kind.from_pretrained(folder, local_files_only=True)
        return kind.from_config(config) if hasattr(kind, "from_config") else kind(config)

    return _tried(load, f"{folder} cannot be read")


def _called(source):
    thing = named(source)
    if isinstance(thing, nn.Module):
        return thing
    network = _tried(thing, f"{source} cannot be called")
    if not isinstance(network, nn.Module):
        raise AlignbookError(f"{source} returns no nn.Module, but is of type {type(network).__name__}")
    return network


def named(source):
    """What ``module:name`` or ``module:name.attribute`` names. Raises AlignbookError, one line."""
    module, separator, name = source.partition(":")
    if not separator:
        raise AlignbookError(f"there is no file {source}, and module:callable would have a colon")
    if "" not in sys.path:
        sys.path.insert(0, "")
    with contextlib.suppress(ImportError):  # the reader's module may import it, which fails without this
        import_torchvision()
    return _tried(
        lambda: operator.attrgetter(name)(importlib.import_module(module)), f"{source} cannot be called"
    )


def _tried(action, what):
    try:
        return action()
    except AlignbookError:
        raise
    except (Exception, SystemExit) as error:  # the reader's own code, or a file of any content
        raise AlignbookError(f"{what}: {type(error).__name__}: {on_one_line(error)}") from None


def examples(source, n, *, split="test", size=None, seed=0, mean=None, std=None):
    """(inputs (n, …), targets): ``n`` of them, drawn by ``seed``; fewer where there are fewer.

    source : an image set of ours (:func:`alignbook.load`, ``split`` of it); an ``.npz`` archive with ``x``
        (n, …) and ``y`` (n, …); or a folder of images, a folder for each class.
    Images (ours, uint8 arrays (n, H, W) or (n, H, W, channels), and folders) become (n, C, H, W) in [-1, 1],
    or with ``mean`` and ``std``, a number or one for each channel, what lies in [0, 1] less mean over std.
    Other arrays stay as they are: floats, or integers such as the numbers of words.
    size : images are resized so that they are square, of so many pixels to a side.
    Raises AlignbookError, one line, for whatever goes wrong.
    """
    path = Path(source)
    if path.is_dir():
        images, targets = _folder(path, n, seed, size)
    elif path.suffix == ".npz":
        images, targets = _archive(path, n, seed)
        if images.dtype != torch.uint8:
            if (mean, std) != (None, None):
                raise AlignbookError(f"{source} has no images of bytes, for --mean and --std")
            return images, targets
    else:
        named = load(source, split)
        chosen = _chosen(len(named), n, seed)
        images, targets = (named.x[chosen] + 1) / 2, named.y[chosen]
    return _scaled(images, size, mean, std), targets


def _scaled(images, size, mean, std):
    """(n, C, H, W) floats, of bytes or of what lies in [0, 1]."""
    images = images / 255 if images.dtype == torch.uint8 else images
    if size is not None and images.shape[2:] != (size, size):
        images = nn.functional.interpolate(images, (size, size), mode="bilinear", antialias=True)
    for name, values in (("mean", mean), ("std", std)):
        if values is not None and len(values) not in (1, images.shape[1]):
            raise AlignbookError(f"--{name} has {len(values)} numbers, the images {images.shape[1]} channels")
    if mean is None and std is None:
        mean, std = [0.5], [0.5]
    middle, spread = (torch.tensor(v).view(1, -1, 1, 1) for v in (mean or [0.0], std or [1.0]))
    if not (spread > 0).all():
        raise AlignbookError("--std must be above 0")
    return (images - middle) / spread


def _chosen(count, n, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(count, generator=generator)[: min(n, count)]


def _archive(path, n, seed):
    def opened():
        with np.load(path, allow_pickle=False) as archive:
            return archive["x"], archive["y"]

    x, y = _tried(opened, f"{path} cannot be read (an archive with x and y)")
    if not x.ndim or not y.ndim or len(x) != len(y):
        sizes = [len(v) if v.ndim else "a single number of" for v in (x, y)]
        raise AlignbookError(f"{path}: {sizes[0]} inputs and {sizes[1]} targets")
    chosen = _chosen(len(x), n, seed).numpy()
    try:
        x, y = (cast(tensor(v[chosen], name)) for v, name in ((x, "x"), (y, "y")))
    except ValueError as error:
        raise AlignbookError(f"{path}: {error}") from None
    if x.dtype == torch.uint8 and x.ndim >= 3:
        x = x[:, None] if x.ndim == 3 else x.permute(0, 3, 1, 2)
    elif x.dtype in (torch.uint8, torch.bool):
        x = x.float()
    return x.contiguous(), y if y.is_floating_point() else y.long()


def _folder(path, n, seed, size):
    """(bytes (n, 3, H, W), classes)."""
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
        if size is None and len({image.size for image, _ in pairs}) > 1:
            raise AlignbookError(f"{path} holds images of several sizes: choose one with --size")
        resized = [functional.resize(i, (size, size)) if size else i for i, _ in pairs]
        labels = torch.tensor([label for _, label in pairs])
        return torch.stack([functional.pil_to_tensor(image) for image in resized]), labels

    return _tried(read, f"{path} cannot be read")
