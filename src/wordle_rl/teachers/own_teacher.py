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
from wordle_rl.runs.store import unfinished
from wordle_rl.words import WordList

_CHUNK = 256
"""Games played and stored together; a stop loses fewer than this."""


def own_teacher(words: WordList, settings: TeacherSettings, game: GameSettings, seed: int) -> OwnSampler:
    """Load the teacher that `traces.teacher.name` names.

    Raises:
        ConfigError: If there is no such teacher.
    """
    return OwnSampler(settings.name, "traces.teacher.name", words, game.prompter(words.word_length), seed)


def own_teacher_traces(
    words: WordList,
    secrets: Sequence[str],
    teacher: OwnSampler,
    seed: int,
    on_finished: Callable[[], None] | None = None,
) -> Iterator[GameRecord]:
    """Play one game per secret, all at once, and yield them, lost ones included.

    Args:
        words: The word lists; a guess outside them is refused.
        secrets: Words of the list.
        teacher: The teacher, see `own_teacher`.
        seed: Seed to record with the games.
        on_finished: Called as each game ends.

    Raises:
        ConfigError: If the teacher does not return one guess or reply per board.
    """
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

    Games are kept beside the file until all are complete. A stopped call resumes after the last complete chunk, if the
    settings and the teacher's source file are unchanged.

    Raises:
        ConfigError: See `own_teacher` and `own_teacher_traces`.
        RunError: If a file cannot be written, or another process writes it.
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
    with unfinished(path, asked) as store:
        done = store.keep_multiple(_CHUNK)
        finished = count(done + 1)
        for start in range(done, len(secrets), _CHUNK):
            chunk = secrets[start : start + _CHUNK]
            games = own_teacher_traces(words, chunk, teacher, seed, on_finished=lambda: on_progress(next(finished)))
            store.add(*(trace.to_row() for trace in games))
        store.finish(path)
    return len(secrets)


def _turn_of(played: PlayedTurn) -> TurnRecord:
    parsed = played.parsed
    said = {"thinking": parsed.thinking, "reply": ""} if isinstance(parsed, Guess) else {"reply": played.reply}
    return TurnRecord.of(played, taught=not played.turn.outcome.broke_rules, **said)
