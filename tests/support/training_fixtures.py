"""What the tests of training share: sixty words, tiny runs, and settings that finish in a second."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from wordle_rl.config.context import GameContext
from wordle_rl.config.files import load_config
from wordle_rl.config.model import GameSettings
from wordle_rl.config.run import RunConfig
from wordle_rl.config.teachers import TeacherSettings, TraceSettings
from wordle_rl.config.training import RLOptimizerSettings
from wordle_rl.data.game_record import GameRecord
from wordle_rl.prompt import Prompter, Shape, Style, Thinking
from wordle_rl.runs import Run, write_jsonl
from wordle_rl.solver import Solver
from wordle_rl.teachers.games import draw_secrets, solver_traces
from wordle_rl.teachers.solver import SolverTeacher
from wordle_rl.words import WordList, load_words
from wordle_rl.words.split import Split, split_secrets

NUM_ANSWERS, NUM_GUESSES = 60, 90
TINY = {"hidden_size": 32, "num_layers": 1, "num_heads": 2, "num_kv_heads": 1, "intermediate_size": 48}


def write_word_directory(directory: Path) -> Path:
    """A directory with sixty answers among ninety guesses, spread over the embedded list."""
    answers = load_words().answers
    outside = [word for word in load_words().guesses if word not in load_words().answer_index]
    chosen = answers[:: len(answers) // NUM_ANSWERS][:NUM_ANSWERS]
    others = outside[:: len(outside) // (NUM_GUESSES - NUM_ANSWERS)][: NUM_GUESSES - NUM_ANSWERS]
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "answers.txt").write_text("\n".join(chosen) + "\n")
    (directory / "guesses.txt").write_text("\n".join(sorted([*chosen, *others])) + "\n")
    return directory


def made_once(make: Callable[[Path], object], name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that the first of the processes of a test run makes, and the others find."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        directory = tmp_path_factory.mktemp("once") / name
        make(directory)
        return directory
    directory = tmp_path_factory.getbasetemp().parent / "once" / name
    directory.parent.mkdir(exist_ok=True)
    made = directory.parent / f"{name}.made"
    with FileLock(directory.parent / f"{name}.lock"):
        if not made.exists():
            make(directory)
            made.touch()
    return directory


@pytest.fixture(scope="session")
def word_directory(tmp_path_factory) -> Path:
    return made_once(write_word_directory, "sixty", tmp_path_factory)


@pytest.fixture(scope="session")
def sixty(word_directory) -> WordList:
    return load_words(str(word_directory))


@pytest.fixture(scope="session")
def split(sixty) -> Split:
    return split_secrets(sixty)


@pytest.fixture(scope="session")
def solver(sixty) -> Solver:
    return Solver(sixty)


@pytest.fixture(scope="session")
def traces(sixty, split, solver) -> list[GameRecord]:
    """200 narrated games of a teacher that often plays less than its best."""
    settings = TraceSettings(
        num_games=200, narrate=True, teacher=TeacherSettings(noise_rate=0.3, random_opener_rate=0.5)
    )
    secrets = draw_secrets(sixty, split, settings, 0)
    return list(solver_traces(secrets, SolverTeacher(solver), settings, 0))


@pytest.fixture(scope="session")
def plain_traces(sixty, split, solver) -> list[GameRecord]:
    """64 games without thinking."""
    settings = TraceSettings(num_games=64, teacher=TeacherSettings())
    secrets = draw_secrets(sixty, split, settings, 0)
    return list(solver_traces(secrets, SolverTeacher(solver), settings, 0))


class StopAt:
    """Presses Ctrl-C, once, when a step is done, or when the note of the progress begins with a text."""

    def __init__(self, moment: int | str) -> None:
        self.moment, self.pressed = moment, False

    def __call__(self, done: int, _total: int, note: str) -> None:
        reached = done == self.moment if isinstance(self.moment, int) else note.startswith(self.moment)
        if reached and not self.pressed:
            self.pressed = True
            os.kill(os.getpid(), signal.SIGINT)


def compact(shape: Shape = Shape.TRANSCRIPT, max_turns: int = 6) -> Prompter:
    thinking = Thinking.OPTIONAL if shape is Shape.SPOKEN else Thinking.OFF
    return GameSettings(style=Style.COMPACT, shape=shape, thinking=thinking, max_turns=max_turns).prompter(5)


def make_run(directory: Path, words: WordList) -> Run:
    return Run.create(directory, RunConfig(), split_secrets(words))


def training_of(learner, run: Run, stage: str = "grpo", **options: object):
    """What a training is given beside its settings."""
    from wordle_rl.train.training_loop import Training

    return Training(learner, run, stage, **options)


def small_model(tokenizer, seed: int = 0):
    from wordle_rl.policy.tiny import make_model

    return make_model(tokenizer, **TINY, seed=seed)


def flipped(content: bytes) -> bytes:
    """The bytes of a file with one bit changed, in the middle."""
    place = len(content) // 2
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def halved(content: bytes) -> bytes:
    """The first half of a file."""
    return content[: len(content) // 2]


def weights_of(model) -> dict[str, object]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def same_bits(a: dict, b: dict) -> bool:
    """True if all weights are equal to the last bit."""
    return a.keys() == b.keys() and all(a[name].equal(b[name]) for name in a)


def close(a: dict, b: dict, tolerance: float = 1e-6) -> bool:
    return a.keys() == b.keys() and all(bool((a[name] - b[name]).abs().max() <= tolerance) for name in a)


def fast(name: str = "adamw", **settings: object) -> RLOptimizerSettings:
    muon = 0.02 if name == "muon" else None
    return RLOptimizerSettings(learning_rate=3e-3, muon_learning_rate=muon, warmup=0.0, schedule="constant", **settings)


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_config(path: Path, word_directory: Path, **changes: str) -> Path:
    """A TOML file of a run that takes seconds; `changes` replace lines by their key, section__key = text.

    A key without a section stands at the top.
    """
    settings = {
        "": {"max_completion_tokens": "12"},
        "words": {"source": json.dumps(str(word_directory))},
        "game": {"style": '"compact"', "thinking": '"off"'},
        "traces": {"num_games": "200"},
        "model": {"hidden_size": "32", "num_layers": "1", "max_length": "128", "precision": '"fp32"'},
        "sft": {"batch_size": "32"},
        "grpo": {"steps": "2", "groups_per_step": "2", "group_size": "4"},
    }
    for name, text in changes.items():
        *section, key = name.split("__")
        settings.setdefault(".".join(section), {})[key] = text
    lines = []
    for section, values in settings.items():
        lines += [f"[{section}]"] * bool(section) + [*(f"{key} = {text}" for key, text in values.items()), ""]
    path.write_text("\n".join(lines))
    return path


def begun(config: RunConfig, directory: Path, taught: Path) -> Path:
    """A run that has done its SFT: the games, the model and the metrics of another run."""
    Run.create(directory, config, config.words.split_of(load_words(config.words.source)))
    for name in ("traces.jsonl", "validation_traces.jsonl"):
        shutil.copy(taught / name, directory)
    shutil.copytree(taught / "sft", directory / "sft")
    write_jsonl(directory / "metrics.jsonl", (row for row in rows(taught / "metrics.jsonl") if row["stage"] == "sft"))
    return directory


@pytest.fixture(scope="session")
def finished_run(word_directory, tmp_path_factory) -> Path:
    """A whole run in miniature: 200 games, two GRPO steps, evaluations and a report. Each process has its own copy."""
    pytest.importorskip("torch")

    def make(directory: Path) -> None:
        from rich.console import Console

        from wordle_rl.pipeline import Pipeline

        config = load_config(write_config(directory.with_suffix(".toml"), word_directory))
        Pipeline(config, directory, Console(quiet=True))()

    made = made_once(make, "mini", tmp_path_factory)
    return Path(shutil.copytree(made, tmp_path_factory.mktemp("runs") / "mini"))


@pytest.fixture
def cli(capsys):
    """Run a command; its exit code, standard output and standard error."""

    from wordle_rl.cli import main

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def context_of(config: RunConfig, words: WordList) -> GameContext:
    """The context of a config, with these words instead of its own."""
    solver = Solver(words)
    return GameContext(words, split_secrets(words), config.game.prompter(words.word_length), solver)


def context_for(words: WordList, prompter: Prompter, solver: Solver, split: Split | None = None) -> GameContext:
    """The context of a word list, a prompter and a solver, with the list's own split unless another is given."""
    return GameContext(words, split or split_secrets(words), prompter, solver)
