"""Laws of the imports: one direction, heavy libraries in few rooms, and nothing done at import."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "wordle_rl"

ORDER = (
    "errors", "import_paths", "words", "game", "solver", "prompt", "env", "reward", "chat", "config", "runs",
    "policy", "rollout", "data", "teachers", "train", "evaluate", "preflight", "report", "pipeline", "cli",
)  # fmt: skip
"""Rooms; each may import from those before it. A package is one room."""

HEAVY = {"torch", "transformers", "trl", "datasets", "peft", "tokenizers", "safetensors", "accelerate", "vllm", "mlx"}
TENSOR_ROOMS = {"policy", "train"}
LIGHT_MODULES = {
    "policy", "policy.base", "policy.constrain", "policy.directory", "policy.gguf",
    "policy.numbers", "policy.openai", "policy.providers", "policy.scripted", "policy.vllm_server",
    "train", "train.advantages", "train.checkpoints", "train.grpo_rollouts",
    "train.scored_games", "train.starts", "train.starts_file", "train.turn_candidates",
}  # fmt: skip

# Adapters, and what starts the command, stand outside the direction: they may import every room, and no room may
# import them.
BORDERS = {"__main__", "serve", "conformance", "trainers", "mlx"}


def modules() -> dict[str, Path]:
    """Dotted names inside the package, with their files."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").rstrip(".")
        if name:
            found[name] = path
    return found


MODULES = modules()
ROOMS = {name: path for name, path in MODULES.items() if name.split(".")[0] not in BORDERS}


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def statements(node: ast.AST, *, at_import_only: bool) -> Iterator[ast.stmt]:
    """Statements below a node; with `at_import_only`, those that run when the module is imported."""
    for child in ast.iter_child_nodes(node):
        lazy = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or is_type_checking(child)
        if at_import_only and lazy:
            continue
        if isinstance(child, ast.stmt):
            yield child
        yield from statements(child, at_import_only=at_import_only)


def imported(path: Path, *, at_import_only: bool = False) -> set[str]:
    """Full dotted names a file imports, `from a import b` as `a.b`."""
    names = set()
    for statement in statements(ast.parse(path.read_text(encoding="utf-8")), at_import_only=at_import_only):
        if isinstance(statement, ast.Import):
            names |= {alias.name for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom):
            assert statement.level == 0, f"{path.name} imports relatively"
            names |= {f"{statement.module}.{alias.name}" for alias in statement.names}
    return names


def rooms_of(names: set[str]) -> set[str]:
    """Which rooms of the package are among imported names."""
    known = {name.split(".")[0] for name in MODULES}
    inside = {name.split(".")[1] for name in names if name.startswith("wordle_rl.")}
    return inside & known


def test_a_room_imports_only_from_rooms_before_it() -> None:
    found = {}
    for name, path in ROOMS.items():
        ahead = set(ORDER[ORDER.index(name.split(".")[0]) + 1 :]) | BORDERS
        found[name] = rooms_of(imported(path)) & ahead
    assert {name: rooms for name, rooms in found.items() if rooms} == {}


def uses_tensors(name: str) -> bool:
    return name.split(".")[0] in TENSOR_ROOMS and name not in LIGHT_MODULES


def test_tensor_libraries_stay_in_their_rooms() -> None:
    heavy = [other for other in ROOMS if uses_tensors(other)]
    found = {}
    for name in ROOMS.keys() - heavy:
        at_import = imported(MODULES[name], at_import_only=True)
        libraries = {library.split(".")[0] for library in at_import} & HEAVY
        found[name] = [*libraries, *(other for other in heavy if in_imports(other, at_import))]
    assert {name: names for name, names in found.items() if names} == {}


def in_imports(name: str, names: set[str]) -> bool:
    full = f"wordle_rl.{name}"
    return any(other == full or other.startswith(f"{full}.") for other in names)


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
    light = [name for name in ROOMS if not uses_tensors(name)]
    code = IMPORT_ALL.format(blocked=sorted(HEAVY), names=light)
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{len(light)}\n"
