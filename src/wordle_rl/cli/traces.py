"""`traces`: let a teacher play games, and write them as JSON lines."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro
from pydantic import BaseModel

from wordle_rl.cli import console
from wordle_rl.cli.arguments import fill_in
from wordle_rl.config.base import ConfigError, check_seed
from wordle_rl.config.model import GameSettings
from wordle_rl.config.options import Json, Seed, StrictFraction, Words
from wordle_rl.config.teachers import LLMTeacherSettings, TraceSettings
from wordle_rl.data.game_record import read_traces
from wordle_rl.data.trace_files import write_csv_files
from wordle_rl.runs import check_writable
from wordle_rl.runs.progress import show_progress
from wordle_rl.solver import Solver
from wordle_rl.teachers.games import draw_secrets, write_own_teacher_traces, write_solver_traces
from wordle_rl.words import load_words
from wordle_rl.words.split import split_secrets


def traces(
    out: Path,
    words: Words = "default",
    settings: Annotated[TraceSettings, tyro.conf.arg(name="")] = TraceSettings(),
    llm: Annotated[LLMTeacherSettings, tyro.conf.arg(name="")] = LLMTeacherSettings(),
    kind: Annotated[
        str,
        tyro.conf.arg(
            name="teacher", help="solver, openai (a model at an endpoint), or your own teacher as module:attribute."
        ),
    ] = "solver",
    csv: Path | None = None,
    split_seed: int = 0,
    strict_fraction: StrictFraction = 0.0,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Let a teacher (the solver, or a language model) play games, and write them as JSON lines.

    The games of the solver, or of a teacher of yours (lost ones included), replace the file once all are played. Their
    secrets are training secrets and words outside the answers. A language model's games cost money, so they are
    appended one by one. After a stop, the same command plays only the missing games.

    Args:
        out: The file to write. {model} in its name stands for the teacher, {time} for the time of the call.
        csv: Also write wordle_data_WORD.csv for every secret to this directory.
        split_seed: Seed of the split.
    """
    check_seed(seed)
    out = fill_in(out, llm.model if kind == "openai" else kind)
    check_writable(out)
    if kind == "openai":
        _refuse_others(settings, TraceSettings(), "solver")
        if strict_fraction:
            raise ConfigError(
                "--strict-fraction is for the solver's games; a run drops other games that name such words"
            )
        _play_llm(out, words, llm, split_seed, seed, csv, as_json)
        return
    if kind != "solver":
        settings = TraceSettings.model_validate(
            settings.model_dump() | {"teacher": settings.teacher.model_dump() | {"name": kind}}
        )
    own = settings.teacher.is_own
    solvers = GameSettings(max_turns=llm.game.max_turns)  # the solver has no prompts, so only the turns matter to it
    asked = llm if not own and llm.game != solvers else llm.model_copy(update={"game": GameSettings()})
    _refuse_others(asked, LLMTeacherSettings(), "openai")
    if settings.file is not None:
        raise ConfigError("--file is for `run --traces.file`")
    if csv is not None:
        check_writable(csv / "wordle_data_WORD.csv")
        if any(csv.glob("wordle_data_*.csv")):
            raise ConfigError(f"--csv {csv} holds games, which would be read as if they were of these; name another")
    _check_replaced(out, settings.teacher.name)
    listed = load_words(words)
    split = split_secrets(listed, split_seed, strict_fraction=strict_fraction)
    solver = Solver(listed.reserving(split.strict).named)
    with show_progress(console.messages, "teacher plays", settings.num_games, transient=True) as advance:

        def tell(done: int) -> None:
            advance(done, settings.num_games, "")

        if own:
            secrets = draw_secrets(solver.words, split, settings, seed)
            count = write_own_teacher_traces(out, solver.words, secrets, settings.teacher, llm.game, seed, tell)
        else:
            count = write_solver_traces(out, split, solver, settings, seed, tell, max_turns=llm.game.max_turns)
    if csv is not None:
        write_csv_files(out, csv)
    console.show({"file": str(out), "num_games": count}, [f"{count:,} games in {out}"], as_json)


def _refuse_others(given: BaseModel, default: BaseModel, teacher: str) -> None:
    for name in type(given).model_fields:
        if getattr(given, name) != getattr(default, name):
            raise ConfigError(f"{name} is a setting of --teacher {teacher}; drop it, or change the teacher")


def _check_replaced(path: Path, teacher: str) -> None:
    # Replace only a file that begins with a game, and no game of a teacher other than the solver and this one.
    if not path.is_file():
        return
    try:
        next(read_traces(path), None)
    except ValueError:  # not a trace, not JSON, or not text
        raise ConfigError(f"{path} is no traces file; name another --out") from None
    free = tuple(f'"teacher":"{name}"' for name in ("solver", teacher))
    with path.open(encoding="utf-8", errors="replace") as file:
        if any('"teacher":' in line and not any(name in line for name in free) for line in file):
            raise ConfigError(f"{path} holds another teacher's games, which may have cost money; name another --out")


def _play_llm(
    path: Path,
    source: str,
    settings: LLMTeacherSettings,
    split_seed: int,
    seed: int,
    csv_directory: Path | None,
    as_json: bool,
) -> None:
    from wordle_rl.teachers.llm import collect, describe

    found = load_words(source)
    done = collect(path, found, split_secrets(found, split_seed), settings, seed, csv_directory, console.messages)
    tally, before = done.tally, done.spent_before
    facts = {"file": str(path), **asdict(tally), "cost": tally.cost(settings), "num_before": done.num_before}
    facts |= {"num_missing": done.num_missing, "tokens_before": before.tokens, "cost_before": before.cost(settings)}
    added = f"{tally.num_games:,} games added to {path}, {done.num_before:,} were there"
    console.show(facts, [added, describe(tally, settings)], as_json)
    if tally.over_budget:
        earlier = f"; {before.tokens:,} tokens of it by earlier calls" if before.tokens else ""
        missing = f"{done.num_missing:,} games are still missing"
        console.messages.print(f"the budget is used up: {missing}{earlier}", soft_wrap=True)
    if tally.num_errors:
        console.messages.print(
            f"{tally.num_errors} games failed and are not counted as losses; the same command plays them again. "
            f"The last: {tally.last_error}",
            soft_wrap=True,
        )
        if not tally.num_games and not tally.over_budget:
            raise ConfigError(f"no game could be played: {tally.last_error}")
