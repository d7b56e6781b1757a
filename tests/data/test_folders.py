"""Images in folders: their pixels, labels and order, and what is refused."""

import numpy as np
import pytest
import torch
from PIL import Image

from alignbook.data import DataError
from alignbook.data.folders import image_folder


def write(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(pixels, dtype=np.uint8)).save(path)


def test_pixels_and_labels_are_those_of_the_files(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("mug/b.png", "mug/a.PNG", "bike/c.bmp"):
        write(tmp_path / name, rng.integers(256, size=(4, 4, 3)))
    (tmp_path / "mug" / "notes.txt").write_text("no image")
    (tmp_path / ".hidden").mkdir()
    found = image_folder(tmp_path, 4)
    assert found.classes == ["bike", "mug"] and found.y.tolist() == [0, 1, 1]
    assert found.x.shape == (3, 3, 4, 4) and found.x.dtype == torch.float32
    for image, name in zip(found.x, ("bike/c.bmp", "mug/a.PNG", "mug/b.png"), strict=True):
        pixels = np.asarray(Image.open(tmp_path / name))
        np.testing.assert_allclose((image.permute(1, 2, 0).numpy() + 1) * 127.5, pixels, atol=1e-4)


def test_images_of_every_size_and_kind_become_square_and_coloured(tmp_path):
    write(tmp_path / "one" / "grey.png", np.full((9, 5), 255))
    write(tmp_path / "one" / "see-through.png", np.full((3, 7, 4), [255, 0, 0, 10]))
    found = image_folder(tmp_path, 6)
    assert found.x.shape == (2, 3, 6, 6)
    torch.testing.assert_close(found.x[0], torch.ones(3, 6, 6))
    torch.testing.assert_close(found.x[1][:, 0, 0], torch.tensor([1.0, -1.0, -1.0]))


def test_what_is_no_folder_of_classes_is_one_line(tmp_path):
    with pytest.raises(DataError, match="there is no folder"):
        image_folder(tmp_path / "missing", 8)
    with pytest.raises(DataError, match="holds no folders"):
        image_folder(tmp_path, 8)
    (tmp_path / "mug").mkdir()
    with pytest.raises(DataError, match="holds no images"):
        image_folder(tmp_path, 8)
    (tmp_path / "mug" / "a.jpg").write_bytes(b"\xff\xd8 cut short")
    with pytest.raises(DataError, match="a.jpg cannot be read as an image") as error:
        image_folder(tmp_path, 8)
    assert "\n" not in str(error.value)
