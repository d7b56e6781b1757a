#!/usr/bin/env bash
# The tests that are skipped where other packages are missing: networks of transformers, timm and Lightning, their
# trainers with a recorder, and the types of the public face. In an environment of their own, with the pinned versions.
set -euo pipefail
cd "$(dirname "$0")/.."
venv="${VENV:-.venv-others}"
"${PYTHON:-python3}" -m venv --clear "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check --constraint constraints.txt \
  --editable '.[book,test,others]'
"$venv/bin/python" -m pytest -q -W default -m "" tests/probing/test_packages.py tests/recording/test_trainers.py \
  tests/test_package.py tests/pages/test_reference.py
