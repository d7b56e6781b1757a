"""What commands say is kept, and made again where anything that it follows from has changed."""

import json

import pytest

from companion.runs import kept, notebooks


def status(checkout):
    return {row["profile"]: row for row in json.loads(checkout.run("status", "--json")[1])}


def test_status_follows_the_store_the_profiles_and_the_code(checkout):
    assert status(checkout)["quick"]["stored"] == 0
    checkout.run("run", "fig99", "--no-notebook")
    assert status(checkout)["quick"]["stored"] == 3 and status(checkout)["quick"]["stale"] == 0
    checkout.profile("quick", "{labels: [plain], rate: 0.5, seeds: 5}")
    assert (status(checkout)["quick"]["jobs"], status(checkout)["quick"]["stored"]) == (5, 3)
    code = checkout.experiment.read_text()
    checkout.experiment.write_text(code.replace("* rate", "* rate * 2"))
    assert status(checkout)["quick"]["stale"] == 3
    assert status(checkout)["quick"]["why"] == {f"plain-seed{i}": ["the code has changed"] for i in range(3)}
    told = checkout.run("status")[1].splitlines()[-1]
    assert told.startswith("stale: toy/fig99_toy, quick: the code has changed (plain-seed0, plain-seed1")
    checkout.experiment.write_text(code)
    assert status(checkout)["quick"]["stale"] == 0
    (file,) = (checkout.root / "_build/status").glob("*.json")
    file.write_text('{"key": ')
    assert status(checkout)["quick"]["stored"] == 3


def test_what_is_kept_is_not_made_twice(monkeypatch, tmp_path):
    monkeypatch.setenv("ALIGNBOOK_BUILD", str(tmp_path))
    book, made = notebooks.every()[0], []
    monkeypatch.setattr(kept, "_status", lambda notebook: made.append(notebook.name) or [1])
    assert kept.status(book, {}) == [1] == kept.status(book, {}) and len(made) == 1


@pytest.mark.parametrize("what", ["ALIGNBOOK_DATA", "CUDA_VISIBLE_DEVICES", "MKL_CBWR", "an archive"])
def test_data_and_device_are_in_the_key(what, monkeypatch, tmp_path):
    monkeypatch.setenv("ALIGNBOOK_DATA", str(tmp_path))
    book = notebooks.every()[0]
    before = kept._key(book, {}, kept._own)
    if what == "an archive":
        (tmp_path / "mnist.npz").write_bytes(b"")
    else:
        monkeypatch.setenv(what, str(tmp_path / "other"))
    assert kept._key(book, {}, kept._own) != before


@pytest.mark.parametrize(
    ("edited", "claims", "status", "shown"),
    [
        ("{study}/reading.py", True, False, True),
        ("{study}/experiment.py", True, True, True),
        ("{study}/notebook.md", True, True, True),
        ("{other}/reading.py", False, False, False),
        ("{other}/experiment.py", False, True, True),  # the other's profiles tell what a verification covers
        ("{other}/profiles.yaml", False, True, True),
        ("{other}/notebook.md", False, False, False),
        ("{study}/../__init__.py", True, True, True),
        ("{study}/../shared.csv", True, True, True),
    ],
)
def test_only_files_that_count_are_in_the_key(edited, claims, status, shown, monkeypatch, tmp_path):
    book, other = notebooks.every()[:2]
    assert book.paper == other.paper
    monkeypatch.setattr(kept.paths, "root", lambda: tmp_path)
    copies = [
        notebooks.Notebook(one.name, tmp_path / "notebooks" / one.name / "notebook.md")
        for one in (book, other)
    ]
    for copy in copies:
        copy.source.parent.mkdir(parents=True)
        for name in ("notebook.md", "experiment.py", "reading.py"):
            (copy.source.parent / name).write_text("")

    def keys():
        return [kept._key(copies[0], {}, counts) for counts in (kept._own, kept._computing, kept.shown)]

    before = keys()
    path = edited.format(study=copies[0].source.parent, other=copies[1].source.parent)
    (tmp_path / path).write_text("edited")
    assert [one != two for one, two in zip(before, keys(), strict=True)] == [claims, status, shown]


def test_another_studys_parameters_count_though_its_prose_does_not(monkeypatch, tmp_path):
    book, other = notebooks.every()[:2]
    monkeypatch.setattr(kept.paths, "root", lambda: tmp_path)
    text = tmp_path / "notebooks" / other.name / "notebook.md"
    text.parent.mkdir(parents=True)
    keys = set()
    for seeds in ("3", "4"):
        for prose in ("Prose.", "More."):
            text.write_text(f"{prose}\n```{{code-cell}} python\nseeds: int = {seeds}\n```\n{prose}\n")
            keys.add(kept._key(book, {}, kept.shown))
    assert len(keys) == 2
