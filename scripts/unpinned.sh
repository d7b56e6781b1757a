#!/usr/bin/env bash
# The whole suite on the newest versions of everything: tells what the next pins will meet. With the packages whose
# networks and trainers are tried where they are installed, and mypy for the types of the public face.
# Sphinx and MyST are not the newest: jupyter-book 1 asks for sphinx~=7.0, myst-parser~=3.0 and myst-nb~=1.0.
set -euo pipefail
cd "$(dirname "$0")/.."
venv="${VENV:-.venv-unpinned}"
"${PYTHON:-python3}" -m venv --clear "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check --editable '.[book,test,others]'
"$venv/bin/python" -m pytest -n auto --dist worksteal -W default -m ""
