"""Teacher games as traces: how they are stored, and how the solver teacher's are played and put into words."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from wordle_rl.config import TraceSettings
from wordle_rl.game import Outcome, Turn, violates_clues
from wordle_rl.processes import num_cores
from wordle_rl.prompt import describe_knowledge, knowledge_of
from wordle_rl.runs import RunError, read_jsonl, write_jsonl
from wordle_rl.solver import Solver, decode_marks
from wordle_rl.split import Split
from wordle_rl.teaching.coverage import Coverage
from wordle_rl.teaching.slips import misspelt
from wordle_rl.teaching.teacher import SolverTeacher, TeacherGames
from wordle_rl.words import WordList

UNKNOWN_TEACHER = "unknown"
"""The teacher of a game that names none."""

_CHUNK = 4096
_MANY_GAMES = 20_000
"""From this many games on, a second process saves more time than it takes to start."""
_MOST_HELPERS = 8
"""Processes at most: each holds its own matrices, about 150 MB."""


@dataclass(frozen=True, slots=True)
class TraceTurn:
    """One turn of a teacher's game.

    Attributes:
        guess: Empty if none could be read.
        marks: Empty if the guess was not scored; `outcome` says why.
        taught: False for a turn that is not to be learnt: a stray, a slip, or one that broke the rules.
        remaining: Answers possible before the guess; 0: not counted.
        thinking: The teacher's reasoning, if any.
        outcome: What the rules made of the reply.
        costs_turn: False for a refusal that was free.
        reply: A language model's text, unchanged.
        finish: Why the endpoint ended the reply, if that was not an ordinary stop: `length`, `content_filter`,
            `refusal`.
    """

    guess: str
    marks: str
    taught: bool = True
    remaining: int = 0
    thinking: str = ""
    outcome: Outcome = Outcome.SCORED
    costs_turn: bool = True
    reply: str = ""
    finish: str = ""

    def to_row(self) -> dict[str, Any]:
        """The turn as a JSON object; fields that only language models use are left out if they have their default."""
        return _row_of(self, always=("guess", "marks", "taught", "remaining", "thinking"))

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> TraceTurn:
        """Read a turn back.

        Raises:
            TypeError: If a field is missing, unknown or of the wrong kind.
            ValueError: If the outcome is unknown.
        """
        _check_kinds(row, _TURN_KINDS)
        return cls(**{**row, "outcome": Outcome(row.get("outcome", Outcome.SCORED))})


@dataclass(frozen=True, slots=True)
class Trace:
    """One teacher's game, won or not.

    `teacher` is `solver` or a language model's name. `error` says why the game could not be finished: such a game is
    not a loss, and the same command plays it again. Token counts are those the endpoint reports.
    """

    secret: str
    turns: tuple[TraceTurn, ...]
    teacher: str = "solver"
    seed: int = 0
    error: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def key(self) -> tuple[str, int, str]:
        """What identifies a game: secret, seed and teacher."""
        return self.secret, self.seed, self.teacher

    @property
    def won(self) -> bool:
        """Whether the last guess found the secret."""
        return bool(self.turns) and self.turns[-1].guess == self.secret

    def board(self, turns: int | None = None) -> list[Turn]:
        """The first `turns` turns (all by default) as the rules see them."""
        return _board(self.turns[:turns])

    def to_row(self) -> dict[str, Any]:
        """The trace as a JSON object."""
        row = _row_of(self, always=("secret", "turns", "teacher", "seed"))
        return {**row, "turns": [turn.to_row() for turn in self.turns]}

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Trace:
        """Read a trace back; without a teacher's name its teacher is `UNKNOWN_TEACHER`, not the solver.

        Raises:
            KeyError: If the secret or the turns are missing.
            TypeError: If a field is unknown or of the wrong kind.
            ValueError: If a turn's outcome is unknown.
        """
        _check_kinds(row, _TRACE_KINDS)
        turns = tuple(TraceTurn.from_row(turn) for turn in row["turns"])
        return cls(**{"teacher": UNKNOWN_TEACHER, **row, "secret": row["secret"], "turns": turns})


_TURN_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("guess", "marks", "thinking", "outcome", "reply", "finish"), (str,)),
    **dict.fromkeys(("taught", "costs_turn"), (bool,)),
    "remaining": (int,),
}
_TRACE_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("secret", "teacher"), (str,)),
    **dict.fromkeys(("seed", "prompt_tokens", "completion_tokens"), (int,)),
    "error": (str, type(None)),
    "turns": (list,),
}


def _check_kinds(row: object, kinds: dict[str, tuple[type, ...]]) -> None:
    if not isinstance(row, dict):
        raise TypeError(f"a turn is {row!r}, expected an object")
    for name, value in row.items():
        if type(value) not in kinds.get(name, (type(value),)):  # not isinstance: a bool is no int here
            raise TypeError(f"{name} is {value!r}, expected {' or '.join(kind.__name__ for kind in kinds[name])}")


def _row_of(value: Trace | TraceTurn, always: Sequence[str]) -> dict[str, Any]:
    """The fields named in `always`, and of the others those that differ from their default."""
    found = {field.name: (getattr(value, field.name), field.default) for field in fields(value)}
    return {name: kept for name, (kept, default) in found.items() if name in always or kept != default}


def draw_secrets(words: WordList, split: Split, settings: TraceSettings, seed: int) -> list[str]:
    """The secrets of the teacher's games: training secrets, except those kept for learning by play, and words outside
    the answers; never a held-out secret."""
    rng = random.Random(seed)
    num_outside = round(settings.num_games * settings.outside_rate) if words.outside else 0
    secrets = rng.choices(words.outside, k=num_outside) if num_outside else []
    taught, _ = split.shared(settings.rl_only_share)
    rounds, rest = divmod(settings.num_games - num_outside, len(taught))
    secrets += list(taught) * rounds + rng.sample(taught, rest)
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
    """Play one teacher game per secret; with `outside_choice` other outside words may replace those given.

    Args:
        words: The word lists.
        secrets: See `draw_secrets`.
        teacher: The solver teacher.
        settings: How it plays, and whether it writes its thinking.
        seed: Seed of everything drawn at random.
        on_progress: Called with the number of games done so far.
    """
    counts = settings.outside_choice > 1 or settings.teacher.reveal_rate > 0
    play = Coverage(teacher, settings.outside_choice).play if counts else teacher.play
    for start in range(0, len(secrets), _CHUNK):
        games = play(secrets[start : start + _CHUNK], settings.teacher, seed + start)
        yield from _as_traces(words, games, settings, seed, random.Random(f"slips {seed} {start}"))
        if on_progress is not None:
            on_progress(min(start + _CHUNK, len(secrets)))


def validation_traces(split: Split, teacher: SolverTeacher, settings: TraceSettings, seed: int) -> Iterator[Trace]:
    """One game of the teacher per validation secret, to measure SFT by and never to be learnt.

    The teacher plays as in the games that are learnt, noise included: a part of every loss is what nobody can foresee,
    and a model that learns the noise by heart loses most just there. Its chances are drawn apart from those of the
    training games, whose random openings it would otherwise repeat.
    """
    play = settings.teacher.model_copy(update={"reveal_rate": 0.0})  # both are for secrets outside the answers
    inside = settings.model_copy(update={"outside_choice": 1, "teacher": play})
    seed = random.Random(f"validation {seed}").getrandbits(31)
    return solver_traces(teacher.words, split.val, teacher, inside, seed)


def write_solver_traces(
    path: Path,
    split: Split,
    solver: Solver,
    settings: TraceSettings,
    seed: int,
    on_progress: Callable[[int], None],
    validation: Path | None = None,
) -> int:
    """Have the solver teacher play `settings.num_games` games, write them to a file, and return how many there are.

    Its `validation_traces` are written first, to the file `validation`, if that is given.

    Raises:
        WordListError: If the opener is not listed.
        RunError: If a file cannot be written.
    """
    teacher = SolverTeacher(solver)
    if validation is not None:
        write_jsonl(validation, (trace.to_row() for trace in validation_traces(split, teacher, settings, seed)))
    secrets = draw_secrets(solver.words, split, settings, seed)
    games = solver_traces(solver.words, secrets, teacher, settings, seed, on_progress)
    with teacher.helped_by(_num_helpers(settings.num_games)):
        return write_jsonl(path, (trace.to_row() for trace in games))


def _num_helpers(num_games: int) -> int:
    """How many processes are worth starting for so many solver games (see `SolverTeacher.helped_by`)."""
    return min(num_cores(), _MOST_HELPERS) if num_games >= _MANY_GAMES else 1


def _as_traces(
    words: WordList, games: TeacherGames, settings: TraceSettings, seed: int, rng: random.Random
) -> Iterator[Trace]:
    columns = (games.guesses, games.codes, games.taught, games.remaining, games.classes)
    for secret, *rows in zip(games.secrets.tolist(), *(column.tolist() for column in columns), strict=True):
        turns: list[TraceTurn] = []
        spare = settings.teacher.max_turns - sum(guess >= 0 for guess in rows[0])
        for guess, code, taught, remaining, classes in zip(*rows, strict=True):
            if guess < 0:
                break
            word = words.guesses[guess]
            if taught and turns:
                slips = _slips(word, turns, words, settings.slip_rate, spare, remaining, rng)
                turns += slips
                spare -= len(slips)
            thinking = ""
            if settings.narrate and taught:
                probe = word not in words.answer_index or violates_clues(word, _board(turns))
                thinking = narration(turns, word, remaining, classes, probe=probe)
            turns.append(TraceTurn(word, decode_marks(code, words.word_length), taught, remaining, thinking))
        yield Trace(words.guesses[secret], tuple(turns), seed=seed)


def _slips(
    word: str,
    turns: Sequence[TraceTurn],
    words: WordList,
    rate: float,
    most: int,
    remaining: int,
    rng: random.Random,
) -> list[TraceTurn]:
    """Misspelt guesses before a word, usually none; each costs a turn and is not taught."""
    slips: list[TraceTurn] = []
    while len(slips) < most and rng.random() < rate:
        slip = misspelt(word, _board([*turns, *slips]), words, rng)
        if slip is None:
            break
        slips.append(TraceTurn(slip, "", taught=False, remaining=remaining, outcome=Outcome.UNLISTED))
    return slips


def _board(turns: Sequence[TraceTurn]) -> list[Turn]:
    return [Turn(turn.guess or None, turn.marks or None, turn.outcome, turn.costs_turn) for turn in turns]


def narration(turns: Sequence[TraceTurn], guess: str, remaining: int, classes: int, *, probe: bool = False) -> str:
    """What is known, how many words remain, and why this guess; every sentence is true by construction.

    Args:
        turns: The turns before the guess.
        guess: The word played.
        remaining: Number of answers possible before it.
        classes: Into how many classes it splits them; 0: it was not chosen for that.
        probe: The guess is not a possible answer; it was chosen for its classes alone.
    """
    known = describe_knowledge(knowledge_of(_board(turns), len(guess)))
    if remaining == 1:
        return " ".join([*known, f"Only {guess} fits."])
    count = f"{remaining} words are possible" if turns else f"Any of {remaining} words is possible"
    reason = f"{guess} is one of them"
    if not turns:
        reason = f"I open with {guess}"
    elif probe and classes == remaining:
        reason = f"{guess} is none of them but tells all of them apart"
    elif probe:
        reason = f"{guess} is none of them but sorts them into {classes} groups"
    elif classes == remaining:
        reason = f"{guess} is one of them and tells all of them apart"
    elif classes:
        reason = f"{guess} is one of them and sorts them into {classes} groups"
    return " ".join([*known, f"{count}; {reason}."])


def read_traces(path: Path) -> Iterator[Trace]:
    """Read a traces file.

    Raises:
        RunError: If the file is missing or a line is not a trace; the message names the line.
    """
    for number, row in enumerate(read_jsonl(path), start=1):
        try:
            yield Trace.from_row(row)
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(f"{path}:{number} is no trace ({error}); make it with `wordle-rl traces`") from None
