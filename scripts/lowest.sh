#!/usr/bin/env bash
# The instruments' tests on the lowest versions that pyproject.toml states, in an environment of their own.
set -euo pipefail
cd "$(dirname "$0")/.."
venv="${VENV:-.venv-lowest}"
"${PYTHON:-python3}" -m venv --clear "$venv"
lowest=$("$venv/bin/python" - <<'PY'
import tomllib

with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
extras = project["optional-dependencies"]
stated = dict.fromkeys(project["dependencies"] + extras["data"] + extras["report"])
print(*(text.replace(">=", "==") for text in stated))
PY
)
# shellcheck disable=SC2086
"$venv/bin/pip" install --quiet --disable-pip-version-check $lowest hypothesis mpmath pytest
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --editable .
"$venv/bin/python" -m pytest -q -W default tests/kernels tests/metrics tests/probing tests/recording
