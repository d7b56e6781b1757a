"""Images that lie in folders, one folder for each class, as Office-31 does (Saenko et al. 2010)."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from .images import DataError, ImageSet

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp")


def image_folder(path, side):
    """The images below ``path``, class by class, brought to ``side`` × ``side`` pixels: an ImageSet.

    path : a folder that holds a folder for each class, whose name is that of the class; other files, and
        folders whose name begins with a dot, are passed over. side : pixels; proportions are not kept.
    Returns x (N, 3, side, side) float32 in [-1, 1] and labels that count the classes in the order of their
    names. Raises DataError, one line, for a folder that is missing or holds no classes, a class without
    images and an image that cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("mug", "bike"):
    ...     (folder / name).mkdir()
    ...     Image.new("RGB", (6, 4)).save(folder / name / "1.png")
    >>> found = image_folder(folder, 8)
    >>> found.classes, tuple(found.x.shape), found.y.tolist()
    (['bike', 'mug'], (2, 3, 8, 8), [0, 1])
    """
    path = Path(path)
    if not path.is_dir():
        raise DataError(f"there is no folder {path}; it holds a folder of images for each class")
    folders = sorted(item for item in path.iterdir() if item.is_dir() and not item.name.startswith("."))
    if not folders:
        raise DataError(f"{path} holds no folders, where one for each class is needed")
    pixels, labels = [], []
    for label, folder in enumerate(folders):
        files = sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES)
        if not files:
            raise DataError(f"{folder} holds no images ({', '.join(SUFFIXES)})")
        pixels += [_pixels(file, side) for file in files]
        labels += [label] * len(files)
    x = torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).contiguous()
    x = x.to(torch.float32).div_(127.5).sub_(1)
    return ImageSet(path.name, x, torch.tensor(labels), [folder.name for folder in folders])


def _pixels(file, side):
    """(side, side, 3) uint8."""
    try:
        with Image.open(file) as image:
            return np.asarray(image.convert("RGB").resize((side, side), Image.Resampling.BILINEAR))
    except (OSError, ValueError, SyntaxError) as error:  # what PIL raises for a broken file
        raise DataError(f"{file} cannot be read as an image ({' '.join(str(error).split())[:120]})") from None
