"""What runs on a forge and in containers: every script that is named is there, and versions agree."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib

import jsonschema
import pytest
import yaml

from alignbook import paths

ROOT = paths.root()
CI = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
SCRIPTS = sorted((ROOT / "scripts").glob("*.sh"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "tests" / "workflow.schema.json").read_text()))


def faults(workflow):
    """What the schema has against a workflow; YAML 1.1 reads its key ``on`` as true."""
    named = {"on" if name is True else name: value for name, value in workflow.items()}
    return [error.json_path for error in SCHEMA.iter_errors(json.loads(json.dumps(named)))]


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "workflows").iterdir()), ids=lambda path: path.name
)
def test_workflows_fit_the_schema(path):
    assert faults(yaml.safe_load(path.read_text())) == []


def steps():
    return [step for job in CI["jobs"].values() for step in job["steps"]]


def test_every_job_calls_a_script_that_is_there_and_can_be_run():
    called = {step["run"].split()[0] for step in steps() if "run" in step} - {"make"}
    by_make = set(re.findall(r"^\t@(scripts/\S+)", (ROOT / "Makefile").read_text(), re.MULTILINE))
    by_hand = {"scripts/hashes.sh", "scripts/book.sh"}  # where a pin changes; before a release
    assert called | by_make | by_hand == {".ci/run", *(f"scripts/{path.name}" for path in SCRIPTS)}
    assert all(os.access(ROOT / name, os.X_OK) for name in called)
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"]) for step in steps() if "uses" in step)
    assert all(job["runs-on"] and job["timeout-minutes"] for job in CI["jobs"].values())


@pytest.mark.parametrize("script", [*(ROOT / ".ci").iterdir(), *SCRIPTS], ids=lambda path: path.name)
def test_scripts_stop_at_the_first_fault_and_can_be_parsed(script):
    assert "set -euo pipefail" in script.read_text()
    assert subprocess.run(["bash", "-n", script], capture_output=True).stderr == b""


def test_the_workflow_covers_what_the_project_promises():
    jobs = CI["jobs"]
    stated = {text.rpartition(":: ")[2] for text in PROJECT["classifiers"] if ":: 3." in text}
    versions = sorted(stated, key=lambda version: int(version.split(".")[1]))
    tried = [job["steps"][1]["with"]["python-version"] for job in (jobs["test"], jobs["newest"])]
    assert tried == [versions[0], versions[-1]]
    assert PROJECT["requires-python"] == f">={versions[0]}"
    everything, smoke, stored = jobs["test"]["steps"][2:]
    assert everything["run"] == ".ci/run test-all" and jobs["pages"]["needs"] == "test"
    folder = everything["env"]["PYTEST_ADDOPTS"].removeprefix("--basetemp=")
    assert smoke["with"]["path"] == f"{folder}/book-smoke/html"
    assert smoke["with"]["if-no-files-found"] == "error"
    assert stored["with"]["path"] == f"{folder}/book-stored/html"
    assert "refs/heads/main" in jobs["pages"]["if"] and jobs["unpinned"]["continue-on-error"] is True


@pytest.mark.slow
def test_a_source_distribution_has_every_tracked_file(tmp_path):
    git = ["git", "-C", ROOT]
    tracked = subprocess.run([*git, "ls-files"], capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("no checkout of git")
    names = [name for name in tracked.stdout.splitlines() if (ROOT / name).is_file()]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    build = "import setuptools.build_meta as backend; backend.build_sdist('dist')"
    command = [sys.executable, "-W", "ignore", "-c", build]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    (archive,) = (tmp_path / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as content:
        held = {name.partition("/")[2] for name in content.getnames()}
    assert set(names) <= held and "data/results/.checkpoints" not in held
