#!/usr/bin/env bash
# Writes constraints-hashes.txt: what make env installs on this kind of machine, with the SHA-256 of every file.
#   pip install --require-hashes -r constraints-hashes.txt && pip install --no-deps --editable .
# refuses any other file. Other systems have other files: run it there again.
set -euo pipefail
cd "$(dirname "$0")/.."
report=$(mktemp)
trap 'rm -f "$report"' EXIT
.venv/bin/pip install --quiet --disable-pip-version-check --dry-run --ignore-installed --report "$report" \
  --constraint constraints.txt '.[book,test]'
.venv/bin/python - "$report" > constraints-hashes.txt <<'PY'
import json
import platform
import sys

lines = []
for item in json.load(open(sys.argv[1]))["install"]:
    name, version = item["metadata"]["name"].lower().replace("_", "-"), item["metadata"]["version"]
    if name != "alignbook":
        lines.append(f"{name}=={version} --hash=sha256:{item['download_info']['archive_info']['hashes']['sha256']}")
system = f"{platform.system()} {platform.machine()}, Python {sys.version_info[0]}.{sys.version_info[1]}"
print(f"# Written by scripts/hashes.sh on {system}, torch of the builds without CUDA.", *sorted(lines), sep="\n")
PY
