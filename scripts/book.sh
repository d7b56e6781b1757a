#!/usr/bin/env bash
# Builds the book, at PROFILE (smoke: everything afresh) or as it is stored, and fails where no page came out.
#   scripts/book.sh [PROFILE]
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf _build/html _build/smoke-results
make book PROFILE="${1:-}"
test -f _build/html/index.html
