"""Where the command's network and data come from: names, callables, weights."""

import contextlib
import importlib
import inspect
import operator
import sys
from pathlib import Path

import torch
from torch import nn

from alignbook.data import load
from alignbook.data.torchvision_shim import import_torchvision
from alignbook.errors import AlignbookError, on_one_line

from . import weights


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


def examples(source, n, split="test", seed=0):
    """What ``source`` names, as :func:`alignbook.probe` takes it.

    source : ``module:name``, data or a function that returns them; or an image set of ours
        (:func:`alignbook.load`), of whose ``split`` ``n`` images are drawn by ``seed``.
    Raises AlignbookError, one line, for whatever goes wrong.
    """
    if ":" in source:
        thing = named(source)
        return _tried(thing, f"{source} cannot be called") if callable(thing) else thing
    images = load(source, split)
    chosen = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))[:n]
    return images.x[chosen], images.y[chosen]
