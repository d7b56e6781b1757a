# make book: the environment, every notebook and the book. PROFILE=smoke|quick|paper chooses what it shows.
# make test: what must pass before every push; SELECT='not slow and not book' leaves out the book. make test-all: everything.
# make lab: the notebooks in JupyterLab. make clean: all that was generated but your results.
# make fuzz attacks the metrics with some thousand odd arguments: ten minutes.
# make bench measures, make bench-list lists what, see CONTRIBUTING.md; WORK='name ...' takes some.
SHELL := bash
# Kernels, workers and tests start often: their modules are compiled once.
unexport PYTHONDONTWRITEBYTECODE
.SHELLFLAGS := -o pipefail -c
PYTHON ?= python3
VENV := .venv
LAB := .venv-lab
BIN := $(VENV)/bin
READY := $(VENV)/.ready
INSTALL = $(BIN)/pip install --disable-pip-version-check --constraint constraints.txt --editable
PEERS := $(VENV)/.peers
# What pip does, in a line for every tenth package.
SHORT = awk '/^Collecting /&&++n%10==1 { print "package " n ": " $$2 } \
  /^Installing collected/ { print "all found; unpacking them takes about a minute" } { fflush() }'

# The commands of an environment name the place where it was made: elsewhere they would run that place's code.
WAS := $(shell sed -n '1s|^..\(/.*\)/bin/python.*|\1|p' $(BIN)/alignbook 2>/dev/null)
ifneq ($(WAS),)
ifneq ($(realpath $(WAS)),$(realpath $(VENV)))
$(error $(VENV) was made in $(dir $(WAS)): remove it ("rm -rf $(VENV)") and call make again)
endif
endif

.PHONY: book test test-all lab fuzz bench bench-list env lint clean

book: $(READY)
	@echo 'the book: about six minutes the first time, two when little has changed'
	@$(BIN)/alignbook book $(if $(PROFILE),--profile $(PROFILE))
	@echo 'to change a figure: $(BIN)/alignbook run representation_alignment/fig04 -p spread=0.5 --open'

test: $(READY)
	@echo 'what must pass before every push: about eight minutes on two cores'
	@$(BIN)/python -m pytest -n auto --dist worksteal $(if $(SELECT),-m '$(SELECT)')
	@echo 'all tests pass'

# With the stored book, long fuzzing, the lowest versions and other people's networks.
test-all: $(READY)
	@echo 'every test: about an hour on two cores'
	@ALIGNBOOK_FUZZ=$(or $(CASES),2000) $(BIN)/python -m pytest -n auto --dist worksteal -m ''
	@scripts/lowest.sh
	@scripts/others.sh
	@echo 'all tests pass'

# Its root must be here, where pyproject.toml says what a notebook keeps when it is saved.
lab: $(LAB)/.ready
	$(LAB)/bin/jupyter lab --ServerApp.root_dir=. --LabApp.default_url=/lab/tree/notebooks

fuzz: $(READY)
	ALIGNBOOK_FUZZ=$(or $(CASES),2000) $(BIN)/python -m pytest -n auto tests/metrics/test_fuzz.py

bench: $(PEERS)
	$(BIN)/python -m benchmarks $(WORK)

bench-list: $(PEERS)
	$(BIN)/python -m benchmarks --list

env: $(READY)

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "alignbook needs Python 3.11 or newer; set PYTHON=")'
	@echo 'installing the environment into $(VENV): 2.6 GB, one to three minutes'
	@$(PYTHON) -m venv --clear $(VENV)
	@$(INSTALL) '.[book,test]' | $(SHORT)
	@touch $@

# Of its own: the book's pages would be executed again with JupyterLab beside them. Its kernel is the book's.
$(LAB)/.ready: $(READY)
	@echo 'installing JupyterLab into $(LAB): 0.3 GB, less than a minute'
	@$(PYTHON) -m venv --clear $(LAB)
	@$(LAB)/bin/pip install --disable-pip-version-check --constraint constraints.txt jupyterlab jupytext | $(SHORT)
	@$(BIN)/python -m ipykernel install --prefix $(LAB) --name python3 > /dev/null 2>&1
	@mkdir -p $(LAB)/share/jupyter/lab/settings
	@echo '{"@jupyterlab/docmanager-extension:plugin": {"defaultViewers": {"markdown": "Jupytext Notebook"}}}' \
	  > $(LAB)/share/jupyter/lab/settings/overrides.json
	@touch $@

# The peers have a marker of their own: neither make book nor make test installs them.
$(PEERS): $(READY)
	$(INSTALL) '.[bench]'
	@touch $@

clean:
	@test ! -d _build || find _build -mindepth 1 -maxdepth 1 ! -name results -exec rm -rf {} +
