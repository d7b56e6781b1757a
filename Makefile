# Two commands do everything: make book, make test. PROFILE=smoke|quick|paper chooses what the book shows.
# make fuzz attacks the metrics with some thousand odd arguments: ten minutes.
# make bench measures the kernels against their peers; WORK='name ...' takes some of them (make bench-list).
# make bench-notebooks measures whole notebooks against the last commit before the kernels: an hour and more.
# make bench-cluster measures what a job costs on a cluster: five minutes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
INSTALL = $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable
PEERS := $(VENV)/.peers

# The commands of an environment name the place where it was made: elsewhere they would run that place's code.
WAS := $(shell sed -n '1s|^..\(/.*\)/bin/python.*|\1|p' $(BIN)/alignbook 2>/dev/null)
ifneq ($(WAS),)
ifneq ($(realpath $(WAS)),$(realpath $(VENV)))
$(error $(VENV) was made in $(dir $(WAS)): remove it ("rm -rf $(VENV)") and call make again)
endif
endif

.PHONY: book test fuzz bench bench-list bench-notebooks bench-cluster env lint clean

book: $(READY)
	$(BIN)/alignbook book $(if $(PROFILE),--profile $(PROFILE))

test: $(READY)
	$(BIN)/python -m pytest -n auto --dist worksteal

fuzz: $(READY)
	ALIGNBOOK_FUZZ=$(or $(CASES),2000) $(BIN)/python -m pytest -n auto tests/metrics/test_fuzz.py

bench: $(PEERS)
	$(BIN)/python -m benchmarks $(WORK)

bench-list: $(PEERS)
	$(BIN)/python -m benchmarks --list

bench-notebooks: $(READY)
	$(BIN)/python -m benchmarks.notebooks $(WORK)

bench-cluster: $(READY)
	$(BIN)/python -m benchmarks.cluster

env: $(READY)

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "alignbook needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv --clear $(VENV)
	@echo 'installing the environment: one to three minutes'
	$(INSTALL) '.[book,test]'
	@touch $@

# The peers have a marker of their own: neither make book nor make test installs them.
$(PEERS): $(READY)
	$(INSTALL) '.[bench]'
	@touch $@

clean:
	rm -rf _build
