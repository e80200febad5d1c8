"""Laws of the imports: one direction, heavy libraries in few rooms, and nothing done at import."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import wordle_rl

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "wordle_rl"

ORDER = (
    "errors", "import_paths", "words", "game", "solver", "prompt", "env", "reward", "chat", "config", "runs",
    "policy", "boards", "rollout", "data", "teachers", "evaluate", "train", "preflight", "report", "pipeline", "cli",
    "library",
)  # fmt: skip
"""Rooms; each may import from those before it. A package is one room."""

HEAVY = {"torch", "transformers", "trl", "datasets", "peft", "tokenizers", "safetensors", "accelerate", "vllm", "mlx"}
TENSOR_ROOMS = {"policy", "train"}
LIGHT_MODULES = {
    "policy", "policy.base", "policy.constrain", "policy.directory", "policy.gguf",
    "policy.sizes", "policy.openai", "policy.providers", "policy.scripted", "policy.vllm", "policy.vllm_server",
    "train", "train.advantages", "train.checkpoints", "train.example", "train.grpo_rollouts",
    "train.scored_games", "train.starts", "train.starts_file", "train.turn_candidates",
}  # fmt: skip

# Adapters, and what starts the command, stand outside the direction: they may import every room, and no room may
# import them.
BORDERS = {"__main__", "serve", "trainers", "mlx"}


def modules() -> dict[str, Path]:
    """Dotted names inside the package, with their files."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").rstrip(".")
        if name:
            found[name] = path
    return found


ROOMS = {name: path for name, path in modules().items() if name.split(".")[0] not in BORDERS}


def imported(path: Path) -> set[str]:
    """Full dotted names a file imports, `from a import b` as `a.b`."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_a_room_imports_only_from_rooms_before_it() -> None:
    found = {}
    for name, path in ROOMS.items():
        rooms = {other.split(".")[1] for other in imported(path) if other.startswith("wordle_rl.")}
        found[name] = rooms & {*ORDER[ORDER.index(name.split(".")[0]) + 1 :], *BORDERS}
    assert {name: rooms for name, rooms in found.items() if rooms} == {}


IMPORT_ALL = """
import importlib, sys

blocked, names = set({blocked}), {names}

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in blocked:
            raise ImportError(name + " is not installed")

sys.meta_path.insert(0, Refusing())
sys.argv = ["wordle-rl", "--no-such-argument"]  # arguments must not be parsed at import
for name in names:
    importlib.import_module("wordle_rl." + name)
print(len(names))
"""


def test_everything_else_imports_without_torch() -> None:
    assert set(ROOMS) >= LIGHT_MODULES, "a light module was renamed"
    light = [name for name in ROOMS if name.split(".")[0] not in TENSOR_ROOMS or name in LIGHT_MODULES]
    code = IMPORT_ALL.format(blocked=sorted(HEAVY), names=light)
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{len(light)}\n"


def test_the_package_exports_ten_names_and_none_hides_a_module() -> None:
    assert len(set(wordle_rl.__all__)) == 10
    assert set(wordle_rl.__all__) <= set(dir(wordle_rl))
    assert not set(wordle_rl.__all__) & {name.split(".")[0] for name in modules()}
    with pytest.raises(AttributeError, match="load_word"):
        wordle_rl.load_word  # noqa: B018 - the access is the test


def test_type_checkers_see_the_objects_that_a_program_gets() -> None:
    seen = [node for node in ast.walk(ast.parse((PACKAGE / "__init__.py").read_text())) if isinstance(node, ast.If)]
    sources = {alias.name: part.module for part in seen[0].body for alias in part.names}
    assert ast.unparse(seen[0].test) == "TYPE_CHECKING"
    assert sources.keys() == set(wordle_rl.__all__)
    for name, module in sources.items():
        assert getattr(wordle_rl, name) is getattr(import_module(module), name)


def test_a_name_is_imported_when_it_is_asked_for_and_torch_when_it_is_needed() -> None:
    code = (
        "import sys, wordle_rl\n"
        "assert not [name for name in sys.modules if name.startswith('wordle_rl.')]\n"
        "wordle_rl.load_words(), wordle_rl.WordleEnv, wordle_rl.Prompter, wordle_rl.Solver\n"
        "assert not {'wordle_rl.config', 'wordle_rl.cli', 'rich'} & set(sys.modules)\n"
        "from wordle_rl import *\n"
        f"assert not {HEAVY} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
