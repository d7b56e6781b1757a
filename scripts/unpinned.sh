#!/usr/bin/env bash
# The whole suite on the newest versions of everything: tells what the next pins will meet. With the packages whose
# networks and trainers are tried where they are installed, and mypy for the types of the public face.
set -euo pipefail
cd "$(dirname "$0")/.."
venv="${VENV:-.venv-unpinned}"
"${PYTHON:-python3}" -m venv --clear "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check --editable '.[book,test]' \
  accelerate lightning mypy safetensors tensorboard timm transformers
"$venv/bin/python" -m pytest -n auto --dist worksteal -W default \
  --deselect tests/test_environment.py::test_what_is_installed_is_what_is_pinned
