"""The wheel: what it holds, and what its command does where there is no checkout."""

import email
import os
import shutil
import subprocess
import sys
import zipfile

import pytest

from alignbook import PUBLIC, paths

BUILD = "import setuptools.build_meta as backend; backend.build_wheel('dist')"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built without the network, from a copy: a build leaves folders behind."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(paths.root() / name, folder)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(paths.root() / "src", folder / "src", ignore=ignored)
    command = [sys.executable, "-W", "ignore", "-c", BUILD]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (found,) = (folder / "dist").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def run(wheel, tmp_path_factory):
    """Runs Python in an empty folder, on the unpacked wheel, without an installed alignbook's path."""
    site, folder = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("elsewhere")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ALIGNBOOK_")}
    environment |= {"PYTHONPATH": str(site), "XDG_CACHE_HOME": str(folder / "cache")}

    def python(*arguments):
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True)

    return python


def test_it_holds_every_module_and_says_what_it_needs(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        told = email.message_from_bytes(archive.read(metadata))
    source = paths.root() / "src"
    files = [path for path in (source / "alignbook").rglob("*") if path.is_file()]
    kept = {str(p.relative_to(source)) for p in files if "__pycache__" not in p.parts}
    assert kept <= names and "alignbook/py.typed" in names
    assert not [name for name in names - kept if ".dist-info/" not in name]
    needed = {text.partition(">")[0] for text in told.get_all("Requires-Dist") if "extra ==" not in text}
    assert needed == {"numpy", "pandas", "scipy", "torch"}
    assert told["License-Expression"] == "BSD-3-Clause" and "Typing :: Typed" in told.get_all("Classifier")


def test_the_command_has_the_instruments_alone(run):
    code = (
        "import sys; sys.modules['companion'] = None; import alignbook.cli as cli; print(cli.__file__); "
        "sys.exit(cli.main(sys.argv[1:]))"
    )
    found = run("-c", code, "--help")
    assert found.returncode == 0 and "/site" in found.stdout and "elsewhere" not in found.stdout
    assert "  probe " in found.stdout and "  run " not in found.stdout
    found = run("-c", code, "status")
    assert found.returncode == 2 and len(found.stderr.splitlines()) == 1, found.stderr
    assert "invalid choice: 'status'" in found.stderr


@pytest.mark.slow
def test_every_public_name_can_be_had_without_the_frame(run):
    code = f"""
import sys
for name in ("yaml", "matplotlib", "PIL", "sklearn", "skimage", "torchvision", "IPython", "distributed"):
    sys.modules[name] = None
import alignbook
for name in {sorted(PUBLIC)}:
    assert callable(getattr(alignbook, name)), name
import torch
record = alignbook.Recorder((torch.randn(9, 4), torch.arange(9) % 3), at=1)
record.step(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)), 0)
try:
    alignbook.load("digits")
except Exception as error:
    print(type(error).__name__, error)
del sys.modules["yaml"], sys.modules["matplotlib"], sys.modules["PIL"]
import alignbook.report  # without IPython
from alignbook import cli
cli.main(["fetch"])
"""
    found = run("-W", "error", "-c", code)
    assert found.returncode == 0, found.stderr
    said = "DataError digits lie inside scikit-learn: pip install 'alignbook[data]'"
    assert found.stdout.startswith(f"{said}\ncifar10 ")
    assert "cache/alignbook/cifar10.npz (missing)" in found.stdout
