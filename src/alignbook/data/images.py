"""Image sets by name: the embedded ones, and ``<root>/<name>.npz`` for the others.

The archive holds ``x_train``, ``x_test`` (N, H, W) or (N, H, W, 3) uint8, ``y_train``, ``y_test`` (N,)
uint8 and ``classes`` (K,) strings. The root is ``ALIGNBOOK_DATA``, by default ``data/`` in the checkout.
Uncompressed archives load fastest. Images come in an order that depends on their content alone: archives
of the same images in different orders give the same results, bit for bit.
"""

import functools
import hashlib
import importlib.util
import json
import math
import os
import re
import shutil
import socket
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ..errors import AlignbookError
from ..paths import root
from ..seeding import numpy_stream
from .arguments import checked
from .embedded import EMBEDDED
from .torchvision_shim import import_torchvision

# name -> class in torchvision.datasets, shape of an image
DOWNLOADS = {
    "cifar10": ("CIFAR10", (32, 32, 3)),
    "cifar100": ("CIFAR100", (32, 32, 3)),
    "mnist": ("MNIST", (28, 28)),
    "fashion_mnist": ("FashionMNIST", (28, 28)),
    "kmnist": ("KMNIST", (28, 28)),
    "svhn": ("SVHN", (32, 32, 3)),
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
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
BOMB, MOST_PACKED = 2**28, 100  # bytes from which on an archive may not be packed more tightly than that
_digests = {}  # what `version` says of a file -> digest; embedded sets by name


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

    Raises DataError when it is missing and cannot be had, or holds images of another set's shape or without
    a pixel, classes that are no texts, or under the name of a known set a part of it or anything else.
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
    if path is not None and (fault := _fault_in_headers(name, path) or _stranger(name, path)):
        raise DataError(f"{path} holds {fault}; replace or remove it")
    return path


def headers(path):
    """({array: (shape, dtype)} of an archive, None), or ({}, what is wrong with it): nothing is unpacked.

    Neither where an array cannot be read: reading it tells. Wrong is what NumPy does not write, an array that
    is not as large as it says, and what takes more memory than any images would.
    """
    found, total = {}, 0
    try:
        with open(path, "rb") as file:
            begins = file.read(6)
        if begins == np.lib.format.MAGIC_PREFIX:
            return {}, "a single array, which is no .npz archive"
        if begins and not begins.startswith(b"PK"):
            return {}, "something else than an .npz archive"
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                total += entry.file_size
                with archive.open(entry) as file:
                    read = _HEADERS.get(np.lib.format.read_magic(file))
                    shape, _, kind = read(file) if read else ((), False, np.dtype(object))
                    if (
                        not kind.hasobject
                        and file.tell() + math.prod(shape) * kind.itemsize != entry.file_size
                    ):
                        return {}, f"{entry.filename}, which is not as large as it says"
                found[entry.filename.removesuffix(".npy")] = shape, kind
    except (NotImplementedError, RuntimeError) as error:
        return {}, f"an archive that NumPy has not written ({_reason(error)})"
    except UNREADABLE:
        return {}, None
    if total > max(BOMB, MOST_PACKED * os.path.getsize(path)):
        return (
            {},
            f"arrays of {total / 1e9:.1f} GB in {os.path.getsize(path) / 1e6:.1f} MB, which are no data",
        )
    return found, None


@functools.lru_cache(maxsize=64)
def _headers(state):
    """:func:`headers` of the file with this :func:`version`, looked at once."""
    return headers(Path(state[0]))


def _fault_in_headers(name, path):
    """What the arrays' headers say is wrong, or None."""
    found, fault = _headers(version(path))
    if fault:
        return fault
    if "classes" in found and found["classes"][1].kind == "S":
        return f"classes as byte strings ({found['classes'][1]}), not as strings"
    for key in ("x_train", "x_test"):
        if key in found and 0 in found[key][0][1:]:
            return f"images {found[key][0][1:]} without a pixel in {key}"
    due = DOWNLOADS[name][1] if name in DOWNLOADS else None
    if due and "x_train" in found and found["x_train"][0][1:] not in (due, (*due, 1)):
        return f"images {found['x_train'][0][1:]}, those of {name} are {due}"
    return None


def _stranger(name, path):
    """How an archive under a known name differs from the set, or None: see :func:`_fault_in_headers`."""
    if name not in PINNED:
        return None
    *whole, due = PINNED[name]
    try:
        if _kept(name, path, lambda: _sorted(_read(path))) == due:
            return None
        with open(path, "rb") as file, np.load(file) as archive:
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
    return _kept(name, path, lambda: _arrays(name, KEYS))


def _kept(name, path, arrays):
    """The digest of ``arrays()``, what ``path`` holds, made once for every content of the file."""
    state = (name, *version(path))
    if state not in _digests:
        key = (name, str(path.resolve()), _contents(path), SCHEME)
        value = _recall(key) if key[2] else None
        if value is None:
            value = _hash(arrays(), name not in UNNAMED)
            _remember(key, value)
        _digests[state] = value
    return _digests[state]


def version(path):
    """What of a file changes with every write; its time alone can be set to what it was."""
    stat = path.stat()
    return str(path), stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino


def _contents(path):
    """SHA-256 (hex) of an archive's labels, class names and checksums of images; None where it is damaged."""
    sha = hashlib.sha256()
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            for key in KEYS:
                entry = archive.getinfo(f"{key}.npy")
                sha.update(f"{key} {entry.CRC} {entry.file_size} ".encode())
                if not key.startswith("x_"):
                    sha.update(archive.read(entry))
    except (KeyError, NotImplementedError, RuntimeError, *UNREADABLE):
        return None
    return sha.hexdigest()


def _read(path):
    """The arrays of an archive as they stand in it. Raises one of UNREADABLE, or KeyError."""
    with open(path, "rb") as file, np.load(file) as archive:
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
                dataset = getattr(datasets, DOWNLOADS[name][0])(folder, train=split == "train", download=True)
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


def _note(key):
    """The cache file for the archive of ``key``: one each, so that writers never meet."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "alignbook" / f"{hashlib.sha256(key[1].encode()).hexdigest()[:24]}.json"


def _recall(key):
    """The stored digest for ``key`` or None; an unreadable or outdated note counts as none."""
    try:
        note = json.loads(_note(key).read_text())
        if note["key"] == list(key) and re.fullmatch("[0-9a-f]{64}", note["sha256"]):
            return note["sha256"]
    except (OSError, RuntimeError, ValueError, KeyError, TypeError):
        pass  # RuntimeError: no home folder
    return None


def _remember(key, value):
    """Store the digest if the cache folder can be written; hashing again is only slow."""
    try:
        note = _note(key)
        note.parent.mkdir(parents=True, exist_ok=True)
        partial = note.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps({"key": list(key), "sha256": value}))
        os.replace(partial, note)
    except (OSError, RuntimeError):
        pass
