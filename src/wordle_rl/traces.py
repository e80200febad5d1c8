"""Teacher games as traces: correct by construction, with the teacher's thinking where it is wanted."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wordle_rl.config import TraceSettings
from wordle_rl.game import Outcome, Turn, violates_clues
from wordle_rl.prompt import describe_knowledge, knowledge_of
from wordle_rl.runs import RunError, read_jsonl
from wordle_rl.solver import decode_marks
from wordle_rl.teacher import SolverTeacher, TeacherGames
from wordle_rl.words import Split, WordList

_CHUNK = 4096


@dataclass(frozen=True, slots=True)
class TraceTurn:
    """One turn of a teacher's game.

    `taught` is False for a guess the teacher disowns (it stands on the board but is not learnt); `remaining`
    is the number of answers possible before the guess; `thinking` is empty unless the traces are narrated.
    """

    guess: str
    marks: str
    taught: bool = True
    remaining: int = 0
    thinking: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """One teacher's game, won or not."""

    secret: str
    turns: tuple[TraceTurn, ...]
    teacher: str = "solver"
    seed: int = 0

    @property
    def won(self) -> bool:
        """Whether the last guess found the secret."""
        return bool(self.turns) and self.turns[-1].guess == self.secret

    def board(self, turns: int | None = None) -> list[Turn]:
        """The first `turns` turns (all by default) as the rules see them."""
        return [Turn(turn.guess, turn.marks, Outcome.SCORED) for turn in self.turns[:turns]]

    def to_row(self) -> dict[str, Any]:
        """The trace as a JSON object."""
        return asdict(self)

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Trace:
        """Read a trace back.

        Raises:
            KeyError: If a field is missing.
            TypeError: If a field is unknown or of the wrong kind.
        """
        turns = tuple(TraceTurn(**turn) for turn in row["turns"])
        return cls(row["secret"], turns, row.get("teacher", "solver"), row.get("seed", 0))


def draw_secrets(words: WordList, split: Split, settings: TraceSettings, seed: int) -> list[str]:
    """The secrets of the teacher's games: training secrets and words outside the answers, never a held-out one."""
    rng = random.Random(seed)
    outside = [word for word in words.guesses if word not in words.answer_index]
    num_outside = round(settings.num_games * settings.outside_rate) if outside else 0
    secrets = rng.choices(outside, k=num_outside) if num_outside else []
    rounds, rest = divmod(settings.num_games - num_outside, len(split.train))
    secrets += list(split.train) * rounds + rng.sample(split.train, rest)
    rng.shuffle(secrets)
    return secrets


def solver_traces(
    words: WordList,
    secrets: Sequence[str],
    teacher: SolverTeacher,
    settings: TraceSettings,
    seed: int,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[Trace]:
    """Play one teacher game per secret.

    Args:
        words: The word lists.
        secrets: See `draw_secrets`.
        teacher: The solver teacher.
        settings: How it plays and whether it narrates.
        seed: Seed of its noise.
        on_progress: Called with the number of games done so far.
    """
    for start in range(0, len(secrets), _CHUNK):
        games = teacher.play(secrets[start : start + _CHUNK], settings.teacher, seed + start)
        yield from _as_traces(words, games, settings.narrate, seed)
        if on_progress is not None:
            on_progress(min(start + _CHUNK, len(secrets)))


def _as_traces(words: WordList, games: TeacherGames, narrate: bool, seed: int) -> Iterator[Trace]:
    columns = (games.guesses, games.codes, games.taught, games.remaining, games.classes)
    for secret, *rows in zip(games.secrets.tolist(), *(column.tolist() for column in columns), strict=True):
        turns: list[TraceTurn] = []
        for guess, code, taught, remaining, classes in zip(*rows, strict=True):
            if guess < 0:
                break
            word = words.guesses[guess]
            thinking = ""
            if narrate and taught:
                thinking = narration(turns, word, remaining, classes, probes=word not in words.answer_index)
            turns.append(TraceTurn(word, decode_marks(code, words.word_length), taught, remaining, thinking))
        yield Trace(words.guesses[secret], tuple(turns), seed=seed)


def narration(turns: Sequence[TraceTurn], guess: str, remaining: int, classes: int, *, probes: bool = False) -> str:
    """Say what is known, how many words remain and why this guess; every sentence is true by construction.

    `probes`: the guess is no answer, so it cannot be the secret whatever the board says.
    """
    board = [Turn(turn.guess, turn.marks, Outcome.SCORED) for turn in turns]
    known = describe_knowledge(knowledge_of(board, len(guess)))
    if remaining == 1:
        return " ".join([*known, f"Only {guess} fits."])
    count = f"{remaining} words are possible" if turns else f"Any of {remaining} words is possible"
    reason = f"{guess} is one of them"
    if not turns:
        reason = f"I open with {guess}"
    elif probes or violates_clues(guess, board):
        reason = f"{guess} is not, but sorts them into {classes} groups"
    elif classes == remaining:
        reason = f"{guess} is one of them and tells all of them apart"
    elif classes:
        reason = f"{guess} is one of them and sorts them into {classes} groups"
    return " ".join([*known, f"{count}; {reason}."])


def read_traces(path: Path) -> Iterator[Trace]:
    """Read a traces file.

    Raises:
        RunError: If the file is missing or a line is no trace; the message names the line.
    """
    for number, row in enumerate(read_jsonl(path), start=1):
        try:
            yield Trace.from_row(row)
        except (KeyError, TypeError) as error:
            raise RunError(f"{path}:{number} is no trace ({error}); make it with `wordle-rl traces`") from None
