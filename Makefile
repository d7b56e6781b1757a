# Two commands do everything: make book, make test. PROFILE=smoke|quick|paper chooses what the book shows.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: book test env lint clean

book: $(READY)
	$(BIN)/alignbook book $(if $(PROFILE),--profile $(PROFILE))

test: $(READY)
	$(BIN)/python -m pytest -n auto --dist loadgroup

env: $(READY)

lint: $(READY)
	$(BIN)/ruff check src tests

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "alignbook needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[book,test]'
	@touch $@

clean:
	rm -rf _build
