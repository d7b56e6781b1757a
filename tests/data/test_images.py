"""Archives of images: loading, downloading, digests, and what may be wrong with them."""

import os
import zipfile
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pytest
import torch

from alignbook.data import DataError, available, digest, fetch, images, load, location

REAL = os.environ.get("ALIGNBOOK_DATA", "/nowhere")


def arrays(n=40, side=6, colours=(3,), classes=4):
    rng = np.random.default_rng(0)
    made = {"classes": np.array([f"class {i}" for i in range(classes)])}
    for split, count in (("train", n), ("test", n // 2)):
        made[f"x_{split}"] = rng.integers(0, 256, (count, side, side + 1, *colours), dtype=np.uint8)
        made[f"y_{split}"] = rng.integers(0, classes, count, dtype=np.uint8)
    return made


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """An empty data folder and cache, and no network."""
    monkeypatch.setenv("ALIGNBOOK_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(images, "_digests", {})
    monkeypatch.setattr(images, "import_torchvision", lambda: fake_torchvision(None))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def fake_torchvision(content, seen=None):
    """A torchvision whose MNIST holds ``content``, or has no network."""

    class MNIST:
        def __init__(self, folder, train, download):
            assert download and folder.is_dir()
            if seen is not None:
                seen.append(folder)
            (folder / "raw").write_text("downloaded")
            if content is None:
                raise URLError("no network\nat all")
            split = "train" if train else "test"
            self.data = torch.from_numpy(content[f"x_{split}"])
            self.targets = content[f"y_{split}"].tolist()
            self.classes = list(content["classes"])

    return SimpleNamespace(datasets=SimpleNamespace(MNIST=MNIST))


def in_order(made, split):
    order = images._order(made[f"x_{split}"], made[f"y_{split}"])
    return made[f"x_{split}"][order], made[f"y_{split}"][order]


def one_line(error, *parts):
    message = str(error.value)
    assert "\n" not in message
    for part in parts:
        assert str(part) in message


@pytest.mark.parametrize("colours", [(3,), (1,), ()])
def test_load_scales_and_orders(root, colours):
    made = arrays(colours=colours)
    np.savez(root / "toy.npz", **made)
    for split in ("train", "test"):
        data = load("toy", split)
        x, y = in_order(made, split)
        x = x.reshape(*x.shape[:3], -1)
        assert data.x.dtype == torch.float32 and data.y.dtype == torch.int64
        assert data.x.shape == (len(x), x.shape[3], 6, 7) and data.x.is_contiguous()
        np.testing.assert_allclose(data.x.permute(0, 2, 3, 1).numpy(), x / 127.5 - 1, atol=1e-6)
        assert data.y.tolist() == y.tolist()
        assert data.classes == made["classes"].tolist() and data.name == "toy" and len(data) == len(x)


def test_order_depends_on_content_alone(root):
    made = arrays()
    made["x_train"][1] = made["x_train"][0]  # the same image twice, with different labels
    made["y_train"][:2] = 0, 1
    np.savez(root / "one.npz", **made)
    for split in ("train", "test"):
        order = np.random.default_rng(1).permutation(len(made[f"y_{split}"]))
        for key in (f"x_{split}", f"y_{split}"):
            made[key] = made[key][order]
    np.savez(root / "two.npz", **made)
    for split in ("train", "test"):
        one, two = load("one", split), load("two", split)
        assert torch.equal(one.x, two.x) and torch.equal(one.y, two.y)
        assert not torch.equal(one.y, torch.from_numpy(made[f"y_{split}"]).long())
        # None lost, none with another's label.
        bag = sorted(zip(map(bytes, made[f"x_{split}"]), made[f"y_{split}"], strict=True))
        loaded = ((one.x.permute(0, 2, 3, 1) + 1) * 127.5).round().byte().contiguous().numpy()
        assert sorted(zip(map(bytes, loaded), one.y.tolist(), strict=True)) == bag
    assert digest("one") == digest("two")


def test_subsets_are_seeded(root):
    np.savez(root / "toy.npz", **arrays())
    everything = load("toy")
    first, again, other = (load("toy", n=15, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first.x, again.x) and torch.equal(first.y, again.y)
    assert not torch.equal(first.x, other.x)
    positions = [(everything.x == x).flatten(1).all(1).nonzero().item() for x in first.x]
    assert len(set(positions)) == 15
    assert torch.equal(everything.y[positions], first.y)
    assert torch.equal(load("toy", n=10).x, first.x[:10])  # smaller subsets are part of larger ones


def test_missing_without_a_network_or_offered_by_nobody(root):
    assert not available("mnist")
    for function in (load, digest, fetch):
        with pytest.raises(DataError) as error:
            function("mnist")
        one_line(error, root / "mnist.npz", "no network at all", "ALIGNBOOK_DATA", "mnist.npz")
    assert list(root.rglob("*")) == [root / ".downloads"]  # nothing half made
    with pytest.raises(DataError) as error:
        load("imagenet")
    one_line(error, root / "imagenet.npz", "cifar10", "photos", "ALIGNBOOK_DATA")


def square(side, colours):
    """Like :func:`arrays`, but as wide as high."""
    made = arrays(side=side, colours=colours)
    return {key: value[:, :, :side] if key.startswith("x") else value for key, value in made.items()}


def test_a_part_of_a_known_set_is_not_the_set(root):
    np.savez(root / "mnist.npz", **square(28, ()))
    with pytest.raises(DataError, match="holds 40 . 20 images, which is not the whole of"):
        load("mnist")


def pin(monkeypatch, name, made):
    """Let ``made`` be what the known set ``name`` holds."""
    due = images._hash(images._sorted(dict(made)), name not in images.UNNAMED)
    monkeypatch.setitem(images.PINNED, name, (len(made["y_train"]), len(made["y_test"]), due))


@pytest.mark.parametrize(("name", "side", "colours"), [("mnist", 28, ()), ("cifar10", 32, (3,))])
def test_known_sets_hold_what_they_are_known_to_hold(root, monkeypatch, name, side, colours):
    made = square(side, colours)
    pin(monkeypatch, name, made)
    order = np.random.default_rng(1).permutation(40)
    shuffled = made | {key: made[key][order] for key in ("x_train", "y_train")}
    np.savez_compressed(root / f"{name}.npz", **shuffled)
    assert len(load(name)) == 40 and digest(name) == images.PINNED[name][2]
    other_names = {"classes": np.array(["north", "east", "south", "west"])}
    strangers = [
        {"x_train": 255 - made["x_train"]},
        {"y_train": (made["y_train"] + 1) % 4},
        {"y_test": (made["y_test"] + 1) % 4},
        other_names,
    ]
    for changed in strangers:
        np.savez(root / f"{name}.npz", **(made | changed))
        if changed is other_names and name == "mnist":  # whose classes are spelled in several ways
            assert digest(name) == images.PINNED[name][2]
            continue
        for function in (load, digest, fetch):
            with pytest.raises(DataError) as error:
                function(name)
            one_line(error, root / f"{name}.npz", f"are not those of {name}", "a name of its own")
        np.savez(root / "mine.npz", **(made | changed))
        assert len(load("mine")) == 40


@pytest.mark.parametrize("name", images.PINNED)
def test_the_pinned_digests_are_those_of_the_real_sets(root, monkeypatch, name):
    monkeypatch.setenv("ALIGNBOOK_DATA", REAL)
    if not available(name):
        pytest.skip(f"no {name} on this machine: ALIGNBOOK_DATA names no folder that has it")
    assert digest(name) == images.PINNED[name][2]


def test_download_is_kept(root, monkeypatch):
    made, seen = square(28, ()), []
    pin(monkeypatch, "mnist", made)
    monkeypatch.setattr(images, "import_torchvision", lambda: fake_torchvision(made, seen))
    data, (x, y) = load("mnist"), in_order(made, "train")
    assert data.y.tolist() == y.tolist()
    np.testing.assert_allclose(data.x[:, 0].numpy(), x / 127.5 - 1, atol=1e-6)
    assert available("mnist") and len(seen) == 2
    load("mnist", "test")
    assert len(seen) == 2  # not downloaded again
    assert not list((root / ".downloads").iterdir())
    with zipfile.ZipFile(root / "mnist.npz") as archive:
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}


def test_where_archives_lie(tmp_path, monkeypatch):
    monkeypatch.delenv("ALIGNBOOK_DATA")
    monkeypatch.setenv("ALIGNBOOK_ROOT", str(tmp_path / "checkout"))
    assert location("mnist") == tmp_path / "checkout" / "data" / "mnist.npz"
    monkeypatch.delenv("ALIGNBOOK_ROOT")
    assert (location("mnist").parents[1] / "src" / "alignbook" / "data").is_dir()
    assert location("photos") is None


def test_truncated_anywhere(root):
    path = root / "toy.npz"
    np.savez(path, **arrays())
    whole = path.read_bytes()
    for kept in (0, 1, 100, len(whole) // 2, len(whole) - 30, len(whole) - 1):
        path.write_bytes(whole[:kept])
        with pytest.raises(DataError) as error:
            load("toy")
        one_line(error, path, "replace")


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"y_test": None}, "lacks y_test"),
        ({"x_train": np.zeros((40, 6, 7, 3), np.float32)}, "x_train must be uint8"),
        ({"x_train": np.zeros((0, 6, 7, 3), np.uint8), "y_train": np.zeros(0, np.uint8)}, "x_train is empty"),
        ({"y_train": np.zeros(39, np.uint8)}, "y_train must be uint8 (40,)"),
        ({"y_train": np.full(40, 4, np.uint8)}, "goes up to 4, but there are 4 classes"),
        ({"classes": np.array([None, "a"], dtype=object)}, "no readable"),  # pickles are not read
    ],
)
def test_wrong_archives(root, change, part):
    np.savez(root / "toy.npz", **{k: v for k, v in (arrays() | change).items() if v is not None})
    for function in (load, digest):
        with pytest.raises(DataError) as error:
            function("toy")
        one_line(error, root / "toy.npz", part)


@pytest.fixture
def hashed(monkeypatch):
    """How often the arrays were hashed."""
    calls = []
    monkeypatch.setattr(images, "_hash", lambda *a, real=images._hash: calls.append(1) or real(*a))
    return calls


def test_digest_is_of_the_content(root):
    made = arrays()
    np.savez(root / "one.npz", **made)
    np.savez_compressed(root / "two.npz", **dict(reversed(made.items())))
    np.savez(root / "names.npz", **(made | {"classes": np.array(list("abcd"))}))
    assert digest("one") == digest("two") != digest("names")  # parts of a set are chosen by names
    assert len(digest("one")) == 64
    np.savez(root / "five.npz", **(made | {"classes": np.array(list("abcde"))}))
    assert digest("five") != digest("one")
    grey = arrays(colours=())
    np.savez(root / "grey.npz", **grey)
    np.savez(root / "grey1.npz", **(grey | {key: grey[key][..., None] for key in ("x_train", "x_test")}))
    assert digest("grey") == digest("grey1") and torch.equal(load("grey").x, load("grey1").x)
    for key in images.KEYS[:-1]:
        other = made[key].copy()
        other.flat[0] = 0 if other.flat[0] != 0 else 1
        np.savez(root / f"{key}.npz", **(made | {key: other}))
        assert digest(key) != digest("one")


def test_digest_is_remembered_until_the_file_changes(root, hashed):
    path = root / "toy.npz"
    made = arrays()
    np.savez(path, **made)
    first = digest("toy")
    assert digest("toy") == first and len(hashed) == 1
    images._digests.clear()  # another process
    assert digest("toy") == first and len(hashed) == 1
    made["x_train"][0] = 0
    np.savez(path, **made)
    os.utime(path, ns=(10**18, 10**18))
    assert digest("toy") != first and len(hashed) == 2


def test_other_labels_under_the_old_time_and_size_are_noticed(root):
    path = root / "toy.npz"
    made = arrays()
    np.savez(path, **made)
    first, before = digest("toy"), path.stat()
    np.savez(root / "other.npz", **(made | {"y_train": (made["y_train"] + 1) % 4}))
    with open(path, "r+b") as file:  # the same file: its number stays
        file.write((root / "other.npz").read_bytes())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    for field in ("st_size", "st_mtime_ns", "st_ino"):
        assert getattr(after, field) == getattr(before, field)
    assert digest("toy") == digest("other") != first
