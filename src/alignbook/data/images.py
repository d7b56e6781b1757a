"""Image sets by name: the embedded ones, and ``<root>/<name>.npz`` for the others.

The archive holds ``x_train``, ``x_test`` (N, H, W) or (N, H, W, 3) uint8, ``y_train``, ``y_test`` (N,)
uint8 and ``classes`` (K,) strings. The root is ``ALIGNBOOK_DATA``, by default ``data/`` in the checkout.
Uncompressed archives load fastest. Images come in an order that depends on their content alone: archives
of the same images in different orders give the same results, bit for bit.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import socket
import tempfile
import zipfile
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ..errors import AlignbookError
from ..paths import root
from ..seeding import numpy_stream
from ..system import replace
from .arguments import checked
from .embedded import EMBEDDED
from .torchvision_shim import import_torchvision

DOWNLOADS = {  # name -> class in torchvision.datasets
    "cifar10": "CIFAR10",
    "cifar100": "CIFAR100",
    "mnist": "MNIST",
    "fashion_mnist": "FashionMNIST",
    "kmnist": "KMNIST",
    "svhn": "SVHN",
}
# The packages that hold an embedded set: as they are imported, as they are installed.
LIE_IN = {
    "photos": {"skimage": "scikit-image", "sklearn": "scikit-learn"},
    "digits": {"sklearn": "scikit-learn"},
}
# What the known sets hold, whatever packs and orders them: images to train and to test with, and the digest.
PINNED = {
    "cifar10": (50000, 10000, "3360cceaabe5d7a1fb118eee948821ea6cae1058b16b3538fc0280a1da20b2d4"),
    "cifar100": (50000, 10000, "b849316db539ca9926f0662f707a6b63547a0995c5b736c23f7364683f3b0565"),
    "mnist": (60000, 10000, "f51d274e51707585f5493734d40dfc32eae757cf3e1958efac27baeedbe6d799"),
    "fashion_mnist": (60000, 10000, "7a9b68326a024e1eb439425e3d7eb84630f7abd793b26434d08894f2e0e0cac5"),
}
UNNAMED = ("mnist", "fashion_mnist")  # sources name their classes differently, and nothing asks for the names
DOWNLOAD_TIMEOUT = 30  # seconds without a byte
KEYS = ("x_train", "y_train", "x_test", "y_test", "classes")
SCHEME = 4  # raise it when `_hash` or `_order` changes: remembered digests are then void
# What NumPy raises for a damaged archive; the last two where the file is a bare array.
UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError, AttributeError, TypeError)
_digests = {}  # an embedded set's name, or a file's name and version -> digest


class DataError(AlignbookError):
    """An image set is missing or unusable; the message is one line and names the remedy."""


@dataclass(frozen=True)
class ImageSet:
    """Images with labels.

    Attributes
    ----------
    name : str
        As :func:`load` takes it.
    x : (N, C, H, W) float32 tensor
        In [-1, 1].
    y : (N,) int64 tensor
        The label of each image, from 0 on.
    classes : list of str
        The name of each label.
    """

    name: str
    x: torch.Tensor
    y: torch.Tensor
    classes: list[str]

    def __len__(self):
        return len(self.y)


@checked
def load(name, split="train", n=None, seed=0):
    """Images and labels of a named data set.

    Parameters
    ----------
    name : str
        ``shapes``, which are made here; ``photos`` or ``digits``, which come with ``alignbook[data]``;
        ``cifar10``, ``cifar100``, ``mnist``, ``fashion_mnist``, ``kmnist`` or ``svhn``, which are downloaded
        if they are missing and can be had; or that of an archive of yours, ``<name>.npz`` in the folder that
        the variable ``ALIGNBOOK_DATA`` names.
    split : {"train", "test"}
        Which of the set's own parts.
    n : int, optional
        Size of a random subset; by default all, in an order fixed by their content.
    seed : int
        Chooses the subset.

    Returns
    -------
    ImageSet

    Raises
    ------
    AlignbookError
        Where the set cannot be had or its file is damaged; where ``name`` is no text, ``n`` no integer or
        ``seed`` no integer from 0 on.
    ValueError
        For a wrong ``split`` or an ``n`` that the set does not have.

    Notes
    -----
    Cost: the whole split is read and sorted, O(N C H W) for its N images whatever ``n``, anew at each call; a
    set that is missing is downloaded first. Memory: the split in uint8 a few times, and 4 bytes for each
    pixel and channel of the n images.

    Examples
    --------
    >>> from alignbook import load
    >>> digits = load("digits", n=100)
    >>> digits.x.shape, digits.classes[:3]
    (torch.Size([100, 1, 8, 8]), ['0', '1', '2'])
    """
    if split not in ("train", "test"):
        raise ValueError(f"split is {split!r}; it is either 'train' or 'test'")
    arrays = _arrays(name, (f"x_{split}", f"y_{split}", "classes"))
    x, y = arrays[f"x_{split}"], arrays[f"y_{split}"]
    if n is not None:
        if not 1 <= n <= len(x):
            raise ValueError(f"n is {n}, but {name} has {len(x)} {split} images")
        chosen = numpy_stream(seed, "images", name, split).permutation(len(x))[:n]
        x, y = x[chosen], y[chosen]
    x = torch.from_numpy(np.ascontiguousarray(x.reshape(*x.shape[:3], -1).transpose(0, 3, 1, 2)))
    x = x.to(torch.float32).div_(127.5).sub_(1)
    return ImageSet(name, x, torch.from_numpy(y.astype(np.int64)), [str(c) for c in arrays["classes"]])


def location(name):
    """Where the archive of ``name`` lies or belongs; None for an embedded set."""
    if name in EMBEDDED:
        return None
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise DataError(f"{name!r} is no name of an image set: use letters, digits, '.', '_' and '-'")
    return Path(os.environ.get("ALIGNBOOK_DATA") or root() / "data") / f"{name}.npz"


def available(name):
    """Whether ``name`` can be loaded without a download (its file is not read)."""
    path = location(name)
    return path is None or path.is_file()


def fetch(name):
    """Download ``name`` unless it is there; returns where it lies (None for an embedded set).

    Raises DataError when it is missing and cannot be had, or holds under the name of a known set a part of it
    or anything else.
    """
    path = location(name)
    if path is None:
        for package, project in LIE_IN.get(name, {}).items():
            if importlib.util.find_spec(package) is None:
                raise DataError(f"{name} lie inside {project}: pip install 'alignbook[data]'")
    if path is not None and not path.is_file():
        remedy = f"put {path.name} there (see data/README.md) or set ALIGNBOOK_DATA to its folder"
        if name not in DOWNLOADS:
            known = ", ".join([*DOWNLOADS, *EMBEDDED])
            raise DataError(f"no image set {name!r} at {path} (known: {known}); {remedy}")
        try:
            _download(name, path)
        except Exception as error:
            message = f"{name} is not at {path} and its download failed ({_reason(error)}); {remedy}"
            raise DataError(message) from error
    if path is not None:
        require_archive(path)
        if fault := _stranger(name, path):
            raise DataError(f"{path} holds {fault}; replace or remove it")
    return path


def require_archive(path):
    """Raise DataError unless the file is a whole .npz archive, before NumPy takes it for something else."""
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path} is no .npz archive, or cut off; replace or remove it")


def _stranger(name, path):
    """How an archive under a known name differs from the set, or None; damage shows when it is read."""
    if name not in PINNED:
        return None
    *whole, due = PINNED[name]
    try:
        if _digest_of(name, path, lambda: _sorted(_read(path))) == due:
            return None
        with np.load(path) as archive:
            counts = [len(archive[f"y_{split}"]) for split in ("train", "test")]
    except (KeyError, *UNREADABLE):
        return None
    what = f"images, labels or classes that are not those of {name}"
    if counts != whole:
        what = f"{counts[0]} + {counts[1]} images, which is not the whole of {name} ({whole[0]} + {whole[1]})"
    return f"{what} (give it a name of its own to use it as it is)"


def digest(name):
    """SHA-256 (hex) of the images, labels and class names of ``name``, however packed and ordered.

    Of a known set the names do not count where sources spell them differently. Kept in memory and in the
    user's cache folder, since hashing takes seconds. Raises DataError like :func:`load`.
    """
    path = fetch(name)
    if path is None:
        if name not in _digests:
            _digests[name] = _hash(EMBEDDED[name]())
        return _digests[name]
    return _digest_of(name, path, lambda: _arrays(name, KEYS))


def version(path):
    """What of a file changes with every write; its time alone can be set to what it was."""
    stat = path.stat()
    return str(path), stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino


def _digest_of(name, path, arrays):
    """The digest of ``arrays()``, what ``path`` holds, hashed once for every version of the file."""
    key = f"{SCHEME} {name} {' '.join(map(str, version(path.resolve())))}"
    note = _notes() / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.txt"
    if key not in _digests:
        with suppress(OSError):
            _digests[key] = note.read_text()
    if not re.fullmatch("[0-9a-f]{64}", _digests.get(key, "")):
        _digests[key] = _hash(arrays(), name not in UNNAMED)
        with suppress(OSError):  # hashing again is only slow
            note.parent.mkdir(parents=True, exist_ok=True)
            replace(note, _digests[key].encode())
    return _digests[key]


def _notes():
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "alignbook"


def _read(path):
    """The arrays of an archive as they stand in it. Raises one of UNREADABLE, or KeyError."""
    with np.load(path) as archive:
        arrays = {key: archive[key] for key in KEYS}
    if fault := _fault(arrays):
        raise ValueError(fault)
    return arrays


def _sorted(arrays):
    for split in ("train", "test"):
        order = _order(arrays[f"x_{split}"], arrays[f"y_{split}"])
        arrays |= {key: arrays[key][order] for key in (f"x_{split}", f"y_{split}")}
    return arrays


def _hash(arrays, named=True):
    """named : whether the names of the classes count, or only how many there are."""
    sha = hashlib.sha256()
    for key in KEYS:
        array = arrays[key]
        if key == "classes":
            names = "\0".join(map(str, array)) if named else f"{len(array)}"
            array = np.frombuffer(names.encode(), dtype=np.uint8)
        elif array.ndim == 4 and array.shape[3] == 1:  # loads to the same images
            array = array[..., 0]
        sha.update(f"{key} {array.dtype.str} {array.shape} ".encode())
        sha.update(np.ascontiguousarray(array).data)
    return sha.hexdigest()


def _arrays(name, keys):
    """The named arrays, checked."""
    path = fetch(name)
    if path is None:
        return EMBEDDED[name]()
    try:
        with open(path, "rb") as file, np.load(file) as archive:
            missing = [key for key in KEYS if key not in archive.files]
            if missing:
                raise DataError(f"{path} lacks {', '.join(missing)}; it needs {', '.join(KEYS)}")
            arrays = {key: archive[key] for key in keys}
    except UNREADABLE as error:
        message = f"{path} is no readable .npz archive ({_reason(error)}); replace or remove it"
        raise DataError(message) from error
    fault = _fault(arrays)
    if fault:
        raise DataError(f"{path}: {fault}; replace or remove it")
    for split in ("train", "test"):
        if f"x_{split}" in arrays:
            order = _order(arrays[f"x_{split}"], arrays[f"y_{split}"])
            for key in (f"x_{split}", f"y_{split}"):
                arrays[key] = arrays[key][order]
    return arrays


def _order(x, y):
    """Indices (N,) that sort labelled images by a 64-bit hash: the same whatever order they came in."""
    rows = np.concatenate([x.reshape(len(x), -1), y[:, None]], axis=1)  # (N, pixels + 1) uint8
    rows = np.pad(rows, ((0, 0), (0, -rows.shape[1] % 8))).view("<u8")
    weights = numpy_stream(0, "order of images").integers(2**64, size=rows.shape[1], dtype=np.uint64)
    return np.argsort(rows @ weights, kind="stable")  # products and sums wrap around


def _fault(arrays):
    """What is wrong with the arrays, or None."""
    if arrays["classes"].ndim != 1 or arrays["classes"].dtype.kind not in "US":
        return f"classes must be a list of strings, not {_describe(arrays['classes'])}"
    for split in ("train", "test"):
        x, y = arrays.get(f"x_{split}"), arrays.get(f"y_{split}")
        if x is None:
            continue
        if x.dtype != np.uint8 or not (x.ndim == 3 or (x.ndim == 4 and x.shape[3] in (1, 3))):
            return f"x_{split} must be uint8 (N, H, W) or (N, H, W, 3), not {_describe(x)}"
        if y.dtype != np.uint8 or y.shape != (len(x),):
            return f"y_{split} must be uint8 ({len(x)},), not {_describe(y)}"
        if len(y) == 0:
            return f"x_{split} is empty"
        if y.max() >= len(arrays["classes"]):
            return f"y_{split} goes up to {y.max()}, but there are {len(arrays['classes'])} classes"
    if len({arrays[key].shape[1:] for key in ("x_train", "x_test") if key in arrays}) > 1:
        return "x_train and x_test hold images of different shapes"
    return None


def _reason(error):
    """The error on one short line."""
    return " ".join(str(error).split())[:120] or type(error).__name__


def _describe(array):
    return f"{array.dtype} {array.shape}"


def _download(name, path):
    """Fetch ``name`` with torchvision and write the archive at once."""
    datasets = import_torchvision().datasets
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / ".downloads").mkdir(exist_ok=True)
    # A folder of our own: another process may be downloading the same set.
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=path.parent / ".downloads"))
    timeout = socket.getdefaulttimeout()
    socket.setdefaulttimeout(DOWNLOAD_TIMEOUT)
    try:
        arrays = {}
        for split in ("train", "test"):
            if name == "svhn":  # which torchvision gives otherwise than the others
                dataset = datasets.SVHN(folder, split=split, download=True)
                x, y, classes = dataset.data.transpose(0, 2, 3, 1), dataset.labels, list("0123456789")
            else:
                dataset = getattr(datasets, DOWNLOADS[name])(folder, train=split == "train", download=True)
                x, y, classes = dataset.data, dataset.targets, dataset.classes
            arrays[f"x_{split}"] = np.asarray(x, dtype=np.uint8)
            arrays[f"y_{split}"] = np.asarray(y, dtype=np.uint8)
            arrays["classes"] = np.array(classes)
        partial = folder / "partial.npz"
        np.savez(partial, **arrays)
        os.replace(partial, path)
    finally:
        socket.setdefaulttimeout(timeout)
        shutil.rmtree(folder, ignore_errors=True)
