"""The embedded image sets: shapes, determinism, disjoint regions."""

import socket

import numpy as np
import pytest

from alignbook.data import available, digest, embedded, images, load


def test_photos_have_the_promised_shape():
    train, test = load("photos"), load("photos", "test")
    assert train.x.shape == (2000, 3, 32, 32) and test.x.shape == (500, 3, 32, 32)
    assert train.y.bincount().tolist() == [200] * 10 and test.y.bincount().tolist() == [50] * 10
    assert len(set(train.classes)) == 10
    assert len(set(train.y[:100].tolist())) > 5  # the order is mixed
    # Colour, and more than one colour.
    assert (train.x.amax(1) - train.x.amin(1)).mean() > 0.1
    assert len(np.unique(embedded.photos()["x_train"].reshape(2000, -1), axis=0)) > 1900


def test_train_and_test_crops_share_no_pixel(monkeypatch):
    # Photographs whose pixels are their own coordinates.
    def coordinates(name, real=embedded._photograph):
        height, width, _ = real(name).shape
        rows, columns = np.mgrid[:height, :width]
        return np.stack([rows, columns, 0 * rows], axis=-1).astype(np.uint16)

    monkeypatch.setattr(embedded, "_photograph", coordinates)
    arrays = embedded.photos.__wrapped__()
    for label in range(10):
        train, test = (arrays[f"x_{s}"][arrays[f"y_{s}"] == label] for s in ("train", "test"))
        assert not set(train[..., 1].ravel()) & set(test[..., 1].ravel())  # no common column
        corners = {tuple(crop[0, 0]) for crop in (*train, *test)}
        assert len(corners) == 250  # no crop twice


def test_digits_are_scikit_learns():
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    arrays = embedded.digits()
    for split in ("train", "test"):
        rows = arrays[f"x_{split}"].reshape(-1, 64) / (255 / 16)
        found = np.abs(rows[0] - images).max(1) < 0.1
        assert found.any() and (labels[found] == arrays[f"y_{split}"][0]).all()
    both = np.concatenate([arrays["x_train"], arrays["x_test"]]).reshape(-1, 64)
    assert sorted(map(bytes, both)) == sorted(map(bytes, np.round(images * (255 / 16)).astype(np.uint8)))


@pytest.mark.parametrize("name", embedded.EMBEDDED)
def test_made_alike_twice_and_without_a_network(name, monkeypatch):
    monkeypatch.setattr(socket.socket, "connect", None)
    assert available(name)
    assert images._hash(embedded.EMBEDDED[name].__wrapped__()) == digest(name)
