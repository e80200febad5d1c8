"""Collection: files that need packages of another environment are left out where these are missing.

verl and the trainers of `make test-trainers` stand in environments of their own, since they clash with others.
"""

from importlib.util import find_spec

_NEEDS = {
    "gymnasium": ["src/wordle_rl/trainers/gymnasium.py"],
    "mlx": ["src/wordle_rl/mlx/[!_c]*", "tests/support/*mlx*.py"],
    "nemo_gym": ["src/wordle_rl/trainers/nemo_gym.py"],
    "openenv": [
        "src/wordle_rl/serve/*",
        "src/wordle_rl/trainers/trl.py",
    ],
    "skyrl_gym": ["src/wordle_rl/trainers/skyrl.py"],
    "tinker": ["src/wordle_rl/trainers/tinker.py"],
    "verifiers": ["src/wordle_rl/trainers/verifiers.py"],
    "verl": [
        "src/wordle_rl/trainers/verl/agent_loop.py",
        "src/wordle_rl/trainers/verl/trainer.py",
        "tests/support/verl_*.py",
    ],
}
"""Package -> files that import it."""

collect_ignore_glob = [pattern for package, files in _NEEDS.items() if find_spec(package) is None for pattern in files]
