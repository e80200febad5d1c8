"""What the tests of training share: sixty words, tiny runs, and settings that finish in a second."""

import json
from pathlib import Path

import pytest

from wordle_rl.config import GameSettings, OptimizerSettings, RunConfig, TeacherSettings, TraceSettings
from wordle_rl.prompt import Prompter, Shape, Style, Thinking
from wordle_rl.runs import Run
from wordle_rl.solver import Solver
from wordle_rl.teacher import SolverTeacher
from wordle_rl.traces import Trace, draw_secrets, solver_traces
from wordle_rl.words import Split, WordList, load_words, split_secrets

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


@pytest.fixture(scope="session")
def word_directory(tmp_path_factory) -> Path:
    return write_word_directory(tmp_path_factory.mktemp("words") / "sixty")


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
def traces(sixty, split, solver) -> list[Trace]:
    """200 narrated games of a teacher that strays often."""
    settings = TraceSettings(
        num_games=200, narrate=True, teacher=TeacherSettings(stray_rate=0.3, noise_rate=0.3, random_opener_rate=0.5)
    )
    secrets = draw_secrets(sixty, split, settings, 0)
    return list(solver_traces(sixty, secrets, SolverTeacher(solver), settings, 0))


@pytest.fixture(scope="session")
def plain_traces(sixty, split, solver) -> list[Trace]:
    """64 games without thinking or strays."""
    settings = TraceSettings(num_games=64, teacher=TeacherSettings(stray_rate=0.0))
    secrets = draw_secrets(sixty, split, settings, 0)
    return list(solver_traces(sixty, secrets, SolverTeacher(solver), settings, 0))


def compact(shape: Shape = Shape.TRANSCRIPT, max_turns: int = 6) -> Prompter:
    return GameSettings(style=Style.COMPACT, shape=shape, thinking=Thinking.OFF, max_turns=max_turns).prompter(5)


def make_run(directory: Path, words: WordList) -> Run:
    return Run.create(directory, RunConfig(), split_secrets(words))


def small_model(tokenizer, seed: int = 0):
    from wordle_rl.tiny import make_model

    return make_model(tokenizer, **TINY, seed=seed)


def weights_of(model) -> dict[str, object]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def fast(name: str = "adamw", **settings: object) -> OptimizerSettings:
    return OptimizerSettings(name=name, learning_rate=3e-3, warmup_share=0.0, schedule="constant", **settings)


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
