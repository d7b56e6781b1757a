"""environment.yml and pyproject.toml name the same versions, all pinned, peers of the benchmark aside."""

import importlib.metadata
import re
import shutil
import subprocess
import tomllib

import pytest
import yaml

from alignbook import paths


def test_conda_and_pip_users_get_the_same_versions():
    project = tomllib.loads((paths.root() / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", peer) for peer in optional["bench"])
    # The benchmark's peers are no part of the environment: make bench alone installs them.
    groups = [project["dependencies"], optional["book"], optional["test"]]
    pinned = {requirement for group in groups for requirement in group}
    version = r"[\w.-]+==[\w.]+(; sys_platform == 'linux')?"
    assert all(re.fullmatch(version, requirement) for requirement in pinned)
    environment = yaml.safe_load((paths.root() / "environment.yml").read_text())
    python, _, pip = environment["dependencies"]
    assert set(pip["pip"]) == pinned | {"--editable ."}
    assert project["requires-python"] == f">={python.removeprefix('python=')}"


def test_what_is_installed_is_what_is_pinned():
    lines = (paths.root() / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert len(pins) > 50 and list(pins) == sorted(pins)
    project = (paths.root() / "pyproject.toml").read_text()
    assert not [name for name in pins if re.search(rf'"{name}==', project)]
    everything = importlib.metadata.distributions()
    installed = {dist.name.lower().replace("_", "-"): dist.version for dist in everything}
    wrong = {name: installed[name] for name, pin in pins.items() if installed.get(name, pin) != pin}
    assert wrong == {}


@pytest.mark.skipif(shutil.which("make") is None, reason="no make on this machine")
def test_a_moved_checkout_says_what_to_do(tmp_path):
    made = tmp_path / "made"
    commands = made / ".venv/bin"
    commands.mkdir(parents=True)
    (commands / "alignbook").write_text(f"#!{commands}/python3\nimport sys\n")
    shutil.copy(paths.root() / "Makefile", made)
    shutil.copytree(made, tmp_path / "copied")
    (tmp_path / "link").symlink_to(made)

    def clean(folder):
        run = subprocess.run(["make", "clean"], cwd=tmp_path / folder, text=True, capture_output=True)
        return run.returncode, run.stderr.strip()

    assert clean("made")[0] == clean("link")[0] == 0
    status, said = clean("copied")
    assert status == 2 and said.endswith(
        f'made in {made}/: remove it ("rm -rf .venv") and call make again.  Stop.'
    )
    shutil.rmtree(made)
    assert clean("copied") == (status, said)
