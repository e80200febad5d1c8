"""Teacher games, and rows made of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any

from rich.table import Table

from wordle_rl.commands.console import messages, out, print_json
from wordle_rl.config import ConfigError, LLMTeacherSettings, TraceSettings, check_seed
from wordle_rl.data.dataset import DatasetLimits, summarise, summarise_teachers, write_dataset
from wordle_rl.data.external import Format, import_rows
from wordle_rl.data.trace import Trace, read_traces
from wordle_rl.data.trace_files import SettingsFile, read_games
from wordle_rl.evaluate import write_rows
from wordle_rl.game import Rules
from wordle_rl.prompt import Prompter, Shape, Style, Thinking
from wordle_rl.runs.progress import in_percent, show_progress
from wordle_rl.solver import Solver
from wordle_rl.teachers.games import write_solver_traces
from wordle_rl.words import load_words
from wordle_rl.words.split import split_secrets


def traces(path: Path, source: str, settings: TraceSettings, split_seed: int, seed: int, as_json: bool) -> None:
    """Teacher games to a file."""
    check_seed(seed)
    if settings.file is not None:
        raise ConfigError("--file is for a run that learns from games made before (traces.file); here games are made")
    _check_traces(path)
    if _holds_bought_games(path):
        raise ConfigError(f"{path} holds games of a language model, which cost money; name another --out")
    found = load_words(source)
    split = split_secrets(found, split_seed)
    with show_progress(messages, "teacher plays", settings.num_games, transient=True) as advance:
        count = write_solver_traces(
            path, split, Solver(found), settings, seed, lambda done: advance(done, settings.num_games, "")
        )
    if as_json:
        print_json({"file": str(path), "num_games": count})
    else:
        out.print(f"{count:,} games in {path}", highlight=False)


def _check_traces(path: Path) -> None:
    """Refuse to write over a file that does not begin with a game."""
    if not path.is_file():
        return
    try:
        next(read_traces(path), None)
    except ValueError:  # not a trace, not JSON, or not text
        raise ConfigError(f"{path} is no traces file; name another --out") from None


def _holds_bought_games(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open(encoding="utf-8", errors="replace") as file:
        return any('"teacher":' in line and '"teacher":"solver"' not in line for line in file)


def llm_traces(
    path: Path,
    source: str,
    settings: LLMTeacherSettings,
    split_seed: int,
    seed: int,
    csv_directory: Path | None,
    as_json: bool,
) -> None:
    """A language model's games to a file; goes on where it was stopped."""
    check_seed(seed)
    try:
        from wordle_rl.teachers.collect import collect, describe
    except ModuleNotFoundError:
        raise ConfigError('this teacher needs the openai package: pip install "wordle-rl[openai]"') from None
    found = load_words(source)
    split = split_secrets(found, split_seed)
    done = collect(path, found, split, settings, seed, csv_directory, messages)
    tally = done.tally
    if as_json:
        print_json(
            {"file": str(path), **asdict(tally), "cost": tally.cost(settings)}
            | {"num_before": done.num_before, "num_missing": done.num_missing}
            | {"tokens_before": done.spent_before.tokens, "cost_before": done.spent_before.cost(settings)}
        )
    else:
        out.print(f"{tally.num_games:,} games added to {path}, {done.num_before:,} were there", highlight=False)
        out.print(describe(tally, settings), highlight=False)
    if tally.over_budget:
        earlier = f"; {done.spent_before.tokens:,} tokens of it by earlier calls" if done.spent_before.tokens else ""
        missing = f"{done.num_missing:,} games are still to be played"
        messages.print(f"the budget is used up: {missing}{earlier}", highlight=False, soft_wrap=True)
    if tally.num_errors:
        messages.print(
            f"{tally.num_errors} games failed and are no losses; the same command plays them again. "
            f"The last: {tally.last_error}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        if not tally.num_games and not tally.over_budget:
            raise ConfigError(f"no game could be played: {tally.last_error}")


def analyze(path: Path, csv_path: Path | None, source: str, split_seed: int, top: int, as_json: bool) -> None:
    """A table of success per word."""
    if top < 1:
        raise ConfigError(f"--top {top} shows no word; give at least 1")
    found = load_words(source)
    split = split_secrets(found, split_seed)
    games = list(_games(path))
    teachers = [{**asdict(row), "win_rate": row.win_rate} for row in summarise_teachers(games)]
    rows = [{**asdict(row), "win_rate": row.win_rate, "part": split.part_of(row.secret)} for row in summarise(games)]
    if csv_path is not None:
        write_rows(csv_path, rows, "--out")
    num_games, num_wins, num_errors = (
        sum(row[name] for row in teachers) for name in ("num_games", "num_wins", "num_errors")
    )
    if as_json:
        totals = {"num_games": num_games, "num_wins": num_wins, "num_errors": num_errors}
        secrets = {row["secret"] for row in rows}
        print_json({**totals, "num_secrets": len(secrets), "teachers": teachers, "words": rows})
        return
    won = f"{in_percent(num_wins / num_games)}% won" if num_games else "none finished"
    if len(teachers) > 1 or num_errors:
        out.print(_summary_table(teachers, "teacher", "teachers"))
    out.print(_summary_table(rows[:top], "secret", f"{num_games:,} games, {won}"))


def _games(path: Path) -> Iterator[Trace]:
    games = read_games(path)
    first = next(games, None)
    if first is None:
        raise ConfigError(f"{path} holds no games")
    return chain([first], games)


def _summary_table(rows: Sequence[dict[str, Any]], first: str, title: str) -> Table:
    names = ["secret", "part", "teacher"] if first == "secret" else ["teacher"]
    if len({row["teacher"] for row in rows}) == 1 and first == "secret":
        names.remove("teacher")
    table = Table(*names, "games", "wins", "guesses on wins", "errors", "broken turns", title=title)
    for row in rows:
        guesses = row["mean_guesses_on_wins"]
        table.add_row(
            *(row[name] for name in names),
            str(row["num_games"]),
            str(row["num_wins"]),
            f"{guesses:.2f}" if guesses else "–",
            str(row["num_errors"]),
            str(row["num_broken_turns"]),
        )
    return table


def dataset(
    path: Path,
    stem: Path,
    source: str,
    split_seed: int,
    style: Style,
    shape: Shape,
    system_prompt: str | None,
    limits: DatasetLimits,
    game_turns: int | None,
    as_json: bool,
) -> None:
    """SFT and RL rows from traces."""
    found = load_words(source)
    turns = _turns_of(path) if game_turns is None else game_turns
    if turns < 1:
        raise ConfigError(f"--game-turns {turns} makes no game; give at least 1")
    if limits.max_turns is None:
        limits = replace(limits, max_turns=turns)
    elif limits.max_turns > turns:
        raise ConfigError(
            f"--max-turns {limits.max_turns} is more than the {turns} guesses of a game; "
            f"lower it, or pass --game-turns {limits.max_turns} if the games were played by that rule"
        )
    rules = Rules(max_turns=turns)
    prompter = Prompter(style, shape, limits.thinking, found.word_length, rules, system_prompt)
    counts = write_dataset(_games(path), found, split_secrets(found, split_seed), prompter, limits, stem)
    if as_json:
        print_json(counts)
        return
    for name, rows in counts["rows"].items():
        out.print(f"{rows:>8,} rows  {stem}_{name}.jsonl", highlight=False)
    if counts["repeated"]:
        out.print(f"{counts['repeated']:>8,} of the SFT rows repeat another one", highlight=False)
    for reason, games in counts["rejected"].items():
        out.print(f"{games:>8,} games left out: {reason}", highlight=False)
    if not counts["rows"]["sft_val"]:
        out.print("no SFT rows for validation: the games have no validation secret", highlight=False)


def _turns_of(path: Path) -> int:
    """The guesses that the rules of some traces allowed: as recorded beside them, else six."""
    recorded = SettingsFile(path).game_turns() if path.is_file() else None
    return recorded or Rules().max_turns


def import_data(
    path: Path,
    target: Path,
    form: Format,
    source: str,
    split_seed: int,
    thinking: Thinking,
    max_turns: int,
    as_json: bool,
) -> None:
    """Other people's rows as ours."""
    if max_turns < 1:
        raise ConfigError(f"--max-turns {max_turns} makes no game; give at least 1")
    found = load_words(source)
    prompter = Prompter(thinking=thinking, word_length=found.word_length, rules=Rules(max_turns=max_turns))
    counts = import_rows(path, target, form, found, split_secrets(found, split_seed), prompter)
    if as_json:
        print_json(counts)
        return
    out.print(f"{counts['rows']:>8,} rows  {target}", highlight=False)
    for reason, number in counts["skipped"].items():
        out.print(f"{number:>8,} rows left out: {reason}", highlight=False)
