"""Games of your own teacher, from outside the package, as traces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

from wordle_rl.config import GameSettings, TeacherSettings
from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.env import PlayedTurn
from wordle_rl.import_paths import source_mark
from wordle_rl.policy.scripted import OwnSampler
from wordle_rl.prompt import Guess
from wordle_rl.rollout import InitialState, play
from wordle_rl.teachers.games import write_traces
from wordle_rl.words import WordList

_CHUNK = 256
"""Games played and stored together; a stop loses fewer than this."""


def own_teacher(words: WordList, settings: TeacherSettings, game: GameSettings, seed: int) -> OwnSampler:
    """Load the teacher that `traces.teacher.name` names."""
    return OwnSampler(settings.name, "traces.teacher.name", words, game.prompter(words.word_length), seed)


def own_teacher_traces(
    words: WordList,
    secrets: Sequence[str],
    teacher: OwnSampler,
    seed: int,
    on_finished: Callable[[], None] | None = None,
) -> Iterator[GameRecord]:
    """Play one game per secret, all at once, and yield them, lost ones included; call `on_finished` at each end."""
    starts = [InitialState(secret) for secret in secrets]
    ended = None if on_finished is None else lambda _place, _game: on_finished()
    for trajectory in play(starts, words, teacher.prompter, teacher, on_finished=ended):
        found = trajectory.transcript
        yield GameRecord(found.secret, tuple(map(_turn_of, found.turns)), teacher.path, seed)


def write_own_teacher_traces(
    path: Path,
    words: WordList,
    secrets: Sequence[str],
    settings: TeacherSettings,
    game: GameSettings,
    seed: int,
    on_progress: Callable[[int], None],
) -> int:
    """Let your teacher play a game per secret, write them to a file, and return their number.

    A stopped call resumes, see `write_traces`, if the teacher's source file is unchanged.
    """
    teacher = own_teacher(words, settings, game, seed)
    asked = {
        "teacher": teacher.path,
        "code": source_mark(teacher.path),
        "game": game.model_dump(mode="json"),
        "seed": seed,
        "words": words.fingerprint,
        "secrets": list(secrets),
    }

    def play_chunk(start: int) -> Iterator[GameRecord]:
        done = count(start + 1)
        chunk = secrets[start : start + _CHUNK]
        return own_teacher_traces(words, chunk, teacher, seed, on_finished=lambda: on_progress(next(done)))

    write_traces(path, asked, len(secrets), _CHUNK, play_chunk)
    return len(secrets)


def _turn_of(played: PlayedTurn) -> TurnRecord:
    parsed = played.parsed
    said = {"thinking": parsed.thinking, "reply": ""} if isinstance(parsed, Guess) else {"reply": played.reply}
    return TurnRecord.of(played, taught=not played.turn.outcome.broke_rules, **said)
