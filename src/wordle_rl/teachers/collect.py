"""`wordle-rl traces --teacher openai`: choose the games, play them, store them and show progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from wordle_rl.config import ConfigError, LLMTeacherSettings, seed_after, served_name
from wordle_rl.data.game_record import GameRecord, read_traces
from wordle_rl.data.trace_files import SettingsFile, write_csv_files
from wordle_rl.policy.openai import check_endpoint
from wordle_rl.policy.providers import find_endpoint
from wordle_rl.runs.progress import show_progress
from wordle_rl.runs.store import Store
from wordle_rl.teachers.llm import Job, LLMTeacher, Tally
from wordle_rl.words import WordList
from wordle_rl.words.split import Split


class Collected(NamedTuple):
    """Result of one call; games that were already in the file, and games that are still missing."""

    tally: Tally
    spent_before: Tally
    num_before: int
    num_missing: int


def choose_secrets(words: WordList, split: Split, settings: LLMTeacherSettings) -> list[str]:
    """Return the secrets to play, each once: a part of the split, or the words of a file."""
    secrets = list(split.named(settings.split))
    if settings.words_file is not None:
        if settings.split != LLMTeacherSettings.model_fields["split"].default:
            raise ConfigError(
                f"--split {settings.split} and --words-file both choose the secrets; leave out one of them"
            )
        secrets = _words_in(settings.words_file, words)
    secrets = secrets[: settings.max_secrets] if settings.max_secrets else secrets
    test = set(split.test)
    if not settings.allow_test_secrets and (among := [secret for secret in secrets if secret in test]):
        raise ConfigError(
            f"{len(among)} of the {len(secrets)} secrets are test secrets, for example {among[0]!r}, which must not be "
            "trained on; choose others, or pass --allow-test-secrets if you only look at the games"
        )
    return secrets


def _words_in(path: Path, words: WordList) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8-sig").split()
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not a text file; write one word per line") from None
    found = list(dict.fromkeys(line.lower() for line in lines))
    if not found:
        raise ConfigError(f"{path} has no words; write one word per line")
    if missing := [word for word in found if word not in words]:
        raise ConfigError(
            f"{path}: {missing[0]!r} is not in word list {words.name!r} ({len(missing)} such words); remove them"
        )
    return found


def collect(
    path: Path,
    words: WordList,
    split: Split,
    settings: LLMTeacherSettings,
    seed: int,
    csv_directory: Path | None,
    console: Console,
) -> Collected:
    """Play the games that a traces file still lacks and append them one by one.

    `seed` is that of the first game of every secret; further games count up. `csv_directory` gets
    `wordle_data_<WORD>.csv`, one for every word of the file.
    """
    if not settings.model:
        raise ConfigError("no teacher is set; pass --model with the name at the endpoint")
    teacher_name, served = served_name(settings.model)
    if teacher_name == "solver":
        raise ConfigError("games of --model solver would pass for the solver teacher's; serve it under another name")
    secrets = choose_secrets(words, split, settings)
    endpoint = find_endpoint(settings.provider or "local", Path.cwd())
    with closing(Store(path, begins=b'{"secret":')) as store:
        if store.num_bytes_cut:
            console.print(
                f"{path} ended in the middle of a line; playing that game again", markup=False, soft_wrap=True
            )
        jobs = {
            (secret, seed_after(seed, number), teacher_name): Job(secret, seed_after(seed, number))
            for number in range(settings.games_per_word)
            for secret in secrets
        }
        finished: set[tuple[str, int, str]] = set()
        before = Tally()  # spent on the wanted games, including failed attempts
        for trace in read_traces(path) if path.exists() else ():
            if trace.error is None:
                finished.add(trace.key)
            if trace.key in jobs:
                before.prompt_tokens += trace.prompt_tokens
                before.completion_tokens += trace.completion_tokens
        # Games in the file count only if they were played with the same settings.
        drawing = settings.model_dump(mode="json", include={"temperature", "top_p", "max_completion_tokens"})
        rules = {f"game.{name}": value for name, value in settings.game.model_dump(mode="json").items()}
        asked = {"words": words.fingerprint[:12], **drawing, **rules, "model": served}
        record = SettingsFile(path)
        if any(model == teacher_name for _, _, model in finished):
            record.check(teacher_name, asked)
        missing = [job for key, job in jobs.items() if key not in finished]
        teacher = LLMTeacher(words, endpoint, settings, before=before)
        try:
            if missing:
                check_endpoint(endpoint)  # before anything costs money
                _play(teacher, missing, store, lambda: record.keep(teacher_name, asked), console)
        finally:
            if csv_directory is not None:
                write_csv_files(path, csv_directory)
        num_missing = len(missing) - teacher.tally.num_games
        return Collected(teacher.tally, teacher.before, len(jobs) - len(missing), num_missing)


def _play(
    teacher: LLMTeacher, jobs: Sequence[Job], store: Store, on_finished: Callable[[], None], console: Console
) -> None:
    with show_progress(console, served_name(teacher.settings.model).alias, len(jobs)) as advance:

        def keep(trace: GameRecord) -> None:
            if trace.error is None:
                on_finished()
            store.add(trace.to_row())
            tally = teacher.tally
            advance(tally.num_games + tally.num_errors, len(jobs), describe(tally, teacher.settings))

        teacher.play(jobs, keep)


def describe(tally: Tally, settings: LLMTeacherSettings) -> str:
    """Summarise wins, errors, tokens and cost so far."""
    cost = tally.cost(settings)
    parts = [f"{tally.num_wins:,} won", f"{tally.num_errors:,} errors", f"{tally.tokens:,} tokens"]
    return ", ".join(parts if cost is None else [*parts, f"cost {cost:.4f}"])
