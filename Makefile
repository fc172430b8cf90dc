# make reproduce   every figure and check at the quick profile, then where to look
# make test        the tests
# Both need only a Python >= 3.11 and make the environment they use, .venv, themselves; a second run reuses it.

PYTHON ?= python3
PROFILE ?= quick
BENCH ?= affpcl
# Papers and their folders.
PAPERS ?= affpcl:affpcl firm:firm fslora:fslora psl:psharelora ood:oodpl
# Two workers: more than the compilation of the kernels twice would waste; a file stays with one worker.
PYTEST_FLAGS ?= -q -n 2 --dist loadfile
# A part of the slow tests, and of those with Flower: PART=1/3 is the first third.
PART ?= 1/1
# Extra options of pip, for example the index of a CPU build of torch where the default one brings CUDA.
PIP_FLAGS ?=

VENV := .venv
PINS := constraints.txt
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check -c $(PINS) $(PIP_FLAGS)
MADE := $(VENV)/.made
SPLIT := --group $(firstword $(subst /, ,$(PART))) --splits $(lastword $(subst /, ,$(PART))) --splitting-algorithm least_duration
# Flower wants older versions of some libraries than the rest: an environment of its own, which make makes
# when it calls itself with the two variables.
FLOWER := .venv-flower
# The lowest versions of all that users install.
OLDEST := .venv-oldest
EXTRAS := certify dask images llm page tensorboard

.PHONY: help reproduce test test-slow test-flower test-oldest lint site verdicts index bench model notebook clean
.DELETE_ON_ERROR:
# One environment: two installations at once would spoil it.
.NOTPARALLEL:

help:
	@echo "make reproduce   every figure and check at the $(PROFILE) profile, then where to look"
	@echo "make test        the tests (make test-slow: the long ones; make test-flower: those that need Flower;"
	@echo "                 with PART=1/3 the first third of these; make test-oldest: with the lowest versions of libraries)"
	@echo "make lint        style, types, and which package may import which"
	@echo "make site        the documentation, as pages below site/ that need no network; minutes the first time,"
	@echo "                 in which it judges and draws the gallery"
	@echo "make verdicts    judge again what is not current of the verdicts kept with the papers"
	@echo "make index       what ratecheck list says of the papers, kept so that it need not import them"
	@echo "make bench       ours against the best peers on this machine"
	@echo "make model       fetch a small pretrained language model, for ratecheck bridge --model smollm2"
	@echo "make notebook    open the notebooks"
	@echo "make clean       remove the environment and the caches, keep the results"

reproduce: $(VENV)/.run
	@echo "==> computing (profile $(PROFILE)); Ctrl-C keeps what is done, the next run resumes"
	@$(BIN)/ratecheck reproduce --profile $(PROFILE)

test: $(VENV)/.test
	@echo "==> tests"
	@$(BIN)/python -m pytest $(PYTEST_FLAGS)

# Two at a time, whatever their file: some files take minutes.
test-slow: $(VENV)/.test
	@echo "==> slow tests"
	@$(BIN)/python -m pytest $(PYTEST_FLAGS) --dist worksteal -m slow $(SPLIT)

# Two at a time, whatever their file: they wait for processes to start.
test-flower:
	@$(MAKE) -s VENV=$(FLOWER) PINS=constraints-flower.txt $(FLOWER)/.flower
	@echo "==> tests with Flower"
	@$(FLOWER)/bin/python -m pytest $(PYTEST_FLAGS) --dist worksteal -m "" $(SPLIT) tests/lora_bridge/test_flower_*.py

# The lowest versions that pyproject.toml allows, of what users install; those of the tests' tools are today's, and what
# these warn of there is no failure. It downloads gigabytes: torch's old versions come with CUDA.
test-oldest:
	@$(PYTHON) -m venv --clear $(OLDEST)
	@$(OLDEST)/bin/python -m pip install -qq --disable-pip-version-check uv
	@echo "==> installing the lowest versions"
	@$(OLDEST)/bin/uv pip compile -q --resolution lowest-direct $(EXTRAS:%=--extra %) pyproject.toml -o $(OLDEST)/versions.txt
	@$(OLDEST)/bin/uv pip install -q --python $(OLDEST) -c $(OLDEST)/versions.txt $(EXTRAS:%=-e ".[%]") --group test
	@echo "==> tests with the lowest versions"
	@$(OLDEST)/bin/python -m pytest $(PYTEST_FLAGS) -W ignore::DeprecationWarning

lint: $(VENV)/.dev
	@echo "==> ruff check"
	@$(BIN)/ruff check --output-format concise
	@echo "==> ruff format --check"
	@$(BIN)/ruff format --check --output-format concise
	@echo "==> mypy"
	@$(BIN)/mypy
	@echo "==> import contracts"
	@$(BIN)/lint-imports

# What was computed for the gallery is kept below results/gallery.
site: $(VENV)/.test
	@echo "==> pages (the gallery takes minutes the first time)"
	@$(BIN)/python -m sphinx -q -W --keep-going -b html docs site
	@echo "==> site/index.html"

# Hours where all is to be judged; what was judged with code that computes the same is kept.
verdicts: $(VENV)/.run
	@for paper in $(PAPERS); do \
	  echo "==> verdicts of $$paper"; \
	  $(BIN)/ratecheck audit "$${paper%:*}" --effort hunt --write experiments/$${paper#*:}/results \
	    --out results/verdicts >/dev/null || exit 1; \
	  $(BIN)/ratecheck certify "$${paper%:*}" --write experiments/$${paper#*:}/results \
	    --out results/certificates >/dev/null || exit 1; \
	done

# Seconds; after any change of a paper, linsys or mgda.
index: $(VENV)/.run
	@$(BIN)/python -m ratecheck._commands.listed

bench: $(VENV)/.bench
	@$(BIN)/ratecheck bench $(BENCH)

model: $(VENV)/.llm
	@$(BIN)/ratecheck model smollm2

notebook: $(VENV)/.notebook
	@$(BIN)/jupyter lab notebooks

clean:
	rm -rf $(VENV) $(FLOWER) $(OLDEST) .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find linsys mgda lora_bridge ratecheck experiments tests -name __pycache__ -type d -prune -exec rm -rf {} +

# A virtual environment breaks when its folder moves or its interpreter goes; then it is made again.
ifneq ($(shell $(BIN)/python -c "" 2>/dev/null && cat $(MADE) 2>/dev/null),$(CURDIR))
.PHONY: $(MADE)
endif

$(MADE):
	@command -v $(PYTHON) >/dev/null || { \
	  echo "error: no '$(PYTHON)' found; install Python 3.11 or newer, or name one: make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || { \
	  echo "error: Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) -V 2>&1); name another: make PYTHON=python3.11 ..." >&2; exit 1; }
	@$(PYTHON) -c "import ensurepip, venv" 2>/dev/null || { \
	  echo "error: $(PYTHON) lacks its venv module; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@echo "==> making the environment $(VENV) with $$($(PYTHON) -V)"
	@$(PYTHON) -m venv $(if $(wildcard $(MADE)),--clear) $(VENV)
	@$(INSTALL) --upgrade pip
	@printf '%s' "$(CURDIR)" > $@

# One stamp for each set of libraries; every set is one call of the resolver, so that no later one undoes a pin.
SOURCES := $(MADE) pyproject.toml $(PINS)

$(VENV)/.run: $(SOURCES)
	@echo "==> installing ratecheck and its libraries (about a minute)"
	@$(INSTALL) -e ".[certify,page,images]"
	@touch $@

$(VENV)/.test: $(SOURCES)
	@echo "==> installing ratecheck, its libraries and the tests' (one or two minutes)"
	@$(INSTALL) -e . --group test
	@touch $@ $(VENV)/.run

$(VENV)/.flower: $(SOURCES)
	@echo "==> installing ratecheck, its libraries, the tests' and Flower (two or three minutes)"
	@$(INSTALL) -e ".[llm,flower]" --group test
	@touch $@

$(VENV)/.dev: $(SOURCES)
	@echo "==> installing ratecheck, its libraries, the tests' and the linters (one or two minutes)"
	@$(INSTALL) -e . --group dev
	@touch $@ $(VENV)/.run $(VENV)/.test

$(VENV)/.bench: $(SOURCES)
	@echo "==> installing ratecheck and the libraries it is measured against (about a minute)"
	@$(INSTALL) -e ".[bench]"
	@touch $@ $(VENV)/.run

$(VENV)/.llm: $(SOURCES)
	@echo "==> installing ratecheck and the libraries of its language models (two or three minutes)"
	@$(INSTALL) -e ".[llm]"
	@touch $@ $(VENV)/.run

$(VENV)/.notebook: $(SOURCES)
	@echo "==> installing ratecheck and JupyterLab (about a minute)"
	@$(INSTALL) -e ".[notebook,page,images]"
	@touch $@ $(VENV)/.run
