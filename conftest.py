"""Collection: files that need packages of another environment are left out where these are missing.

verl and the trainers of `make test-integrations` stand in environments of their own, since they clash with others.
"""

from importlib.util import find_spec

_NEEDS = {
    "gymnasium": ["src/wordle_rl/integrations/gymnasium_env.py"],
    "mlx": ["src/wordle_rl/mlx/[!_c]*", "tests/support/*mlx*.py"],
    "nemo_gym": ["src/wordle_rl/integrations/nemo_gym_server.py"],
    "openenv": [
        "src/wordle_rl/conformance/openenv.py",
        "src/wordle_rl/serve/*",
        "src/wordle_rl/integrations/trl_environment.py",
    ],
    "skyrl": ["src/wordle_rl/integrations/skyrl_train.py"],
    "skyrl_gym": ["src/wordle_rl/integrations/skyrl_env.py"],
    "tinker": ["src/wordle_rl/integrations/tinker_env.py"],
    "verifiers": ["src/wordle_rl/integrations/verifiers_taskset.py"],
    "verl": ["src/wordle_rl/integrations/verl/*", "tests/support/verl_*.py"],
}
"""Package -> files that import it."""

collect_ignore_glob = [pattern for package, files in _NEEDS.items() if find_spec(package) is None for pattern in files]
