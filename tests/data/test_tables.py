"""Tables of numbers: from a made-up archive of UCI's, what may be wrong, digests of tables and of images."""

import http.client
import io
import zipfile

import numpy as np
import pytest

from alignbook.data import DataError, images, tables


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGNBOOK_DATA", str(tmp_path))
    monkeypatch.setattr(tables, "URL", "file:///nowhere/at.all")
    return tmp_path


def archive(rows):
    """UCI's zip file with made-up ``rows``."""
    lines = [",".join(["patientId", *(f"value{n}" for n in range(384)), "reference"])]
    for row in range(rows):
        lines.append(",".join(map(str, [row // 2, *np.arange(384) / 384, 20.5 + row])))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr(tables.FILE, "\n".join(lines))
    return packed.getvalue()


def test_ct_slices_are_downloaded_once(root, monkeypatch):
    (root / "uci.zip").write_bytes(archive(5))
    monkeypatch.setattr(tables, "URL", (root / "uci.zip").as_uri())
    unpacked = tables.unpacked
    monkeypatch.setattr(tables, "unpacked", lambda content: unpacked(content, rows=5))
    assert not tables.available("ct_slices")
    table = tables.load_table("ct_slices")
    assert table.x.shape == (5, 384) and table.y.tolist() == [20.5, 21.5, 22.5, 23.5, 24.5]
    assert np.allclose(table.x[1], np.arange(384) / 384)
    (root / "uci.zip").unlink()
    assert tables.fetch("ct_slices") == root / "ct_slices.npz" and tables.available("ct_slices")
    assert sorted(path.name for path in root.iterdir()) == ["ct_slices.npz"]


WHOLE = archive(3)


@pytest.mark.parametrize(
    "answer",
    [
        OSError("network is unreachable"),
        http.client.IncompleteRead(b"few", 1000),
        WHOLE[:1000],
        WHOLE.replace(b"patientId", b"patient\xff\xff"),
        WHOLE,
        b"<html>not found</html>",
    ],
    # Not of the bytes: an archive holds the time, and two workers must collect the same tests.
    ids=["no network", "cut off", "a part", "other columns", "too small", "a page"],
)
def test_a_download_that_is_not_whole_is_one_line(root, monkeypatch, answer):
    def answered(*_, **__):
        if isinstance(answer, Exception):
            raise answer
        return io.BytesIO(answer)

    monkeypatch.setattr(tables.urllib.request, "urlopen", answered)
    with pytest.raises(DataError, match="ct_slices is not at .* download failed .*ALIGNBOOK_DATA") as caught:
        tables.fetch("ct_slices")
    assert "\n" not in str(caught.value) and not list(root.iterdir())


@pytest.mark.parametrize(
    "content",
    [
        {"x": np.zeros((4, 384))},
        {"x": np.zeros((4, 383)), "y": np.zeros(4)},
        {"x": np.zeros((4, 384)), "y": np.zeros(3)},
        {"x": np.full((4, 384), np.nan), "y": np.zeros(4)},
    ],
)
def test_a_damaged_file_is_refused(root, content):
    np.savez(root / "ct_slices.npz", **content)
    with pytest.raises(DataError, match="ct_slices.npz"):
        tables.load_table("ct_slices")


def test_digests_follow_the_content(root):
    rng = np.random.default_rng(0)
    made = {"x": rng.random((4, 384)), "y": rng.random(4)}
    np.savez(root / "ct_slices.npz", **made)
    first = tables.digest("ct_slices")
    np.savez(root / "ct_slices.npz", **made | {"patient": np.zeros(4)})
    assert tables.digest("ct_slices") == first
    np.savez(root / "ct_slices.npz", x=made["x"], y=2 * made["y"])
    assert tables.digest("ct_slices") != first != tables.digest("diabetes")
    assert tables.digest("digits") == images.digest("digits")


def test_diabetes_is_always_there():
    table = tables.load_table("diabetes")
    assert table.x.shape == (442, 10) and table.y.shape == (442,) and tables.fetch("diabetes") is None
    assert tables.available("diabetes") and tables.fetch("digits") is None
    with pytest.raises(DataError, match="known: ct_slices"):
        tables.load_table("boston")
