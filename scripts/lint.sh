#!/usr/bin/env bash
# ruff on the whole tree, at the pinned version, in an environment of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
venv="${VENV:-.venv-lint}"
"${PYTHON:-python3}" -m venv --clear "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check --constraint constraints.txt ruff
"$venv/bin/ruff" check .
"$venv/bin/ruff" format --check .
