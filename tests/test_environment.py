"""environment.yml and pyproject.toml name the same versions, all pinned, peers of the benchmark aside."""

import re
import tomllib

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
