"""Tables of numbers by name: UCI's CT slices, and diabetes, which is always there.

``ct_slices``
    Relative location of CT slices on the axial axis (Graf et al. 2011, UCI repository, data set 206): 384
    features of an image, its position in the body in cm, and the patient. ``<root>/ct_slices.npz`` with ``x``
    (n, 384), ``y`` (n,) and ``patient`` (n,); all 53,500 rows are downloaded where it is missing.
``diabetes``
    scikit-learn's 442 patients with ten features, in place of it where nothing may be downloaded.
"""

import csv
import hashlib
import io
import urllib.request
import zipfile
from dataclasses import dataclass
from functools import cache

import numpy as np

from .. import system
from ..errors import on_one_line
from . import images
from .images import DataError

URL = "https://archive.ics.uci.edu/static/public/206/relative+location+of+ct+slices+on+axial+axis.zip"
FILE = "slice_localization_data.csv"  # in the archive: patient, 384 features, position
ROWS, FEATURES = 53500, 384
LARGEST, UNPACKED = 2**27, 2**29  # bytes: more than the archive, and the table in it, have
TIMEOUT = 30  # seconds without a byte
TABLES = ("ct_slices", "diabetes")


@dataclass(frozen=True)
class Table:
    """Rows with a number to predict. name; x : (n, d) float64; y : (n,) float64."""

    name: str
    x: np.ndarray
    y: np.ndarray


def load_table(name):
    """The :class:`Table` ``name``, rows as they stand in the file.

    Downloads ct_slices where it is missing and can be had. Raises DataError where it cannot, for a file that
    is damaged, and for a name that is none of ``TABLES``.
    """
    path = fetch_table(name)
    if path is None:
        from sklearn.datasets import load_diabetes  # takes a second

        x, y = load_diabetes(return_X_y=True)
        return Table(name, x, y)
    try:
        with open(path, "rb") as file, np.load(file) as archive:
            x, y = (archive[key].astype(np.float64) for key in ("x", "y"))
    except (KeyError, *images.UNREADABLE) as error:
        raise DataError(f"{path} is no archive with x and y ({error}); replace or remove it") from error
    if x.ndim != 2 or x.shape[1] != FEATURES or y.shape != x.shape[:1] or not np.isfinite(x.sum() + y.sum()):
        raise DataError(f"{path} holds x {x.shape} and y {y.shape}, not (n, {FEATURES}) and (n,) of numbers")
    return Table(name, x, y)


def fetch_table(name):
    """Download the table ``name`` unless it is there; returns its path, None for ``diabetes``."""
    if name not in TABLES:
        raise DataError(f"no table {name!r}; known: {', '.join(TABLES)}")
    if name == "diabetes":
        return None
    path = images.location(name)
    if not path.is_file():
        try:
            with urllib.request.urlopen(URL, timeout=TIMEOUT) as answer:
                arrays = unpacked(answer.read(LARGEST))
            path.parent.mkdir(parents=True, exist_ok=True)
            whole = io.BytesIO()
            np.savez(whole, **arrays)
            system.replace(path, whole.getvalue())
        except Exception as error:  # whatever a server sends
            raise DataError(
                f"{name} is not at {path} and its download failed ({on_one_line(error)}); "
                f"put {path.name} there (see data/README.md) or set ALIGNBOOK_DATA to its folder"
            ) from error
    images.require_archive(path)
    return path


def unpacked(archive, rows=ROWS):
    """{x, y, patient} of UCI's zip file, bytes. Raises ValueError unless it holds ``rows`` rows."""
    with zipfile.ZipFile(io.BytesIO(archive)) as file, file.open(FILE) as lines:
        if file.getinfo(FILE).file_size > UNPACKED:
            raise ValueError(f"{FILE} is larger than the table")
        reader = csv.reader(io.TextIOWrapper(lines, encoding="ascii"))
        next(reader)  # the names of the columns
        table = np.array(list(reader), dtype=np.float64)
    if table.shape != (rows, FEATURES + 2):
        raise ValueError(f"{FILE} is {table.shape}, not {(rows, FEATURES + 2)}")
    x, y, patient = table[:, 1:-1].astype(np.float32), table[:, -1].astype(np.float32), table[:, 0]
    return {"x": x, "y": y, "patient": patient.astype(np.int64)}


def fetch(name):
    """Have the image set or table ``name`` at hand; returns where it lies, None where it is embedded."""
    return fetch_table(name) if name in TABLES else images.fetch(name)


def available(name):
    """Whether ``name`` can be loaded without a download (its file is not read)."""
    return name == "diabetes" or images.available(name)


def digest(name):
    """SHA-256 (hex) of the rows of the table, or the images and labels of the set ``name``."""
    if name not in TABLES:
        return images.digest(name)
    path = fetch_table(name)
    return _hash(name, path, path and images.version(path))


@cache
def _hash(name, path, version):
    table = load_table(name)
    sha = hashlib.sha256(f"{table.x.shape} ".encode())
    for array in (table.x, table.y):
        sha.update(np.ascontiguousarray(array).data)
    return sha.hexdigest()
