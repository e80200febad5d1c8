"""`dataset`: summarise a file of games, or turn it into rows for training."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from pydantic import Field, ValidationError
from rich.table import Table

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.cli import console
from wordle_rl.cli.arguments import fill_in
from wordle_rl.config.base import ConfigError, Section
from wordle_rl.config.files import describe
from wordle_rl.config.model import ModelSettings
from wordle_rl.config.options import Json, StrictFraction, Words
from wordle_rl.config.stages import StartSettings
from wordle_rl.config.teachers import TraceSettings
from wordle_rl.data.dataset import (
    START_ROW,
    DatasetLimits,
    SFTForm,
    check_replaceable,
    fault_of,
    summarise,
    write_dataset,
)
from wordle_rl.data.game_record import GameRecord, board_row
from wordle_rl.data.trace_files import SettingsFile, read_games
from wordle_rl.evaluate import results_table
from wordle_rl.evaluate.records import write_rows
from wordle_rl.evaluate.results_table import number_text
from wordle_rl.game import Rules, score_guess
from wordle_rl.prompt import Prompter, Shape, Style, Thinking
from wordle_rl.report.terminal import figures_table
from wordle_rl.runs import write_jsonl
from wordle_rl.runs.progress import in_percent
from wordle_rl.solver import Solver
from wordle_rl.teachers.games import validation_traces
from wordle_rl.teachers.solver import SolverTeacher
from wordle_rl.train.starts import PrefixGuesses
from wordle_rl.train.starts_file import read_start_boards
from wordle_rl.words import WordList, load_words
from wordle_rl.words.split import Split, split_secrets


class DatasetRequest(Section):
    """Options of `dataset`."""

    games: Annotated[str, tyro.conf.Positional]
    """A traces file, or a directory of wordle_data_WORD.csv. With --rows, rows made elsewhere: a file (CSV, JSON,
    parquet), or a Hugging Face data set (network) as OWNER/NAME or OWNER/NAME:SPLIT. End it with [:100] to read only
    the first 100 rows."""
    out: Path | None = None
    """Prefix of the files to write: `<out>_sft_train.jsonl` and so on. With --rows, the file itself. Earlier rows are
    replaced, other files are not. {model} in the name stands for --model, {time} for the time of the call. Default:
    only summarise the games."""
    csv: Path | None = None
    """Without --out: also write the whole summary to this file. Another kind of file is not overwritten."""
    rows: Literal["grpo"] | None = None
    """Form of rows made elsewhere. `grpo`: rows of prompt, word_list, past_guess_history, secret, as in
    predibase/wordle-grpo, become initial states for `run --grpo.starts.file`; the marks are computed again."""
    form: Annotated[SFTForm, tyro.conf.arg(name="format")] = "messages"
    """Form of the SFT rows: whole conversations, or `instruction`, one row of instruction, output per reply."""
    model: str | None = None
    """With --format instruction: model whose chat template to use, a directory or hub name. Default: ChatML."""
    words: Words = "default"
    split_seed: int = 0
    """Seed of the split into train, val and test secrets."""
    strict_fraction: StrictFraction = 0.0
    style: Style | str = Style.ENGLISH
    """Wording of the prompts: a built-in style, or your own as `module:attribute`."""
    shape: Shape = Shape.TRANSCRIPT
    """One growing conversation (transcript), or a fresh prompt every turn (state); spoken is for runs alone."""
    thinking: Thinking = Thinking.OPTIONAL
    """Whether replies hold the teacher's thinking. `off` drops it unchecked; `required` rejects games in which a taught
    guess has none."""
    system_prompt: str | None = None
    """Text that replaces the style's own rules; {word_length}, {max_turns} and {example} (a well-formed reply) are
    filled in. Empty: no system message."""
    max_turns: int | None = None
    """Reject games of more guesses. Default: --game-turns."""
    game_turns: int | None = Field(None, ge=1)
    """Guesses per game that the prompts state. Default: as recorded with a language model's traces, else 6."""
    max_tokens: int = Field(0, ge=0)
    """Reject games of more completion tokens, as counted by the endpoint. Games without a count, such as the solver's,
    are then rejected too. 0: no limit."""
    no_consistent_only: bool = False
    """Keep games in which a taught guess contradicts the marks, such as a deliberate probe."""
    drop_duplicates: bool = False
    """With --out: leave out games that came before with the same secret and turns. They are always counted."""
    starts_player: str | None = None
    """Player that draws the boards of `<out>_rl_start_states.jsonl`, one per training secret: `random`, `consistent` or
    `teacher`; `consistent:5` opens with one of the 5 best openers. Default: the board before each game's last guess."""
    max_prefix_guesses: int = 4
    """With --starts-player: most guesses on a board. Every number from 0 up is equally frequent."""
    as_json: Json = False


def dataset(asked: Annotated[DatasetRequest, tyro.conf.arg(name="")]) -> None:
    """Summarise teacher games, or check them and turn them into rows for SFT and RL (--out).

    Every game is checked again, and rejected ones are counted by reason. SFT rows are whole conversations. The solver's
    games hold no validation secrets, so it plays each of those once for `<out>_sft_val.jsonl`. With --rows, rows made
    elsewhere are read instead; those with held-out secrets or strict words are dropped.
    """
    if asked.out is not None:
        asked = asked.model_copy(update={"out": fill_in(asked.out, asked.model)})
    if asked.drop_duplicates and (asked.out is None or asked.rows is not None):
        raise ConfigError("--drop-duplicates is for rows made of games; name --out, and leave out --rows")
    if asked.csv is not None and (asked.out is not None or asked.rows is not None):
        raise ConfigError("--csv is the table of a summary; leave out --out and --rows, or --csv")
    if not asked.is_default("max_prefix_guesses") and asked.starts_player is None:
        raise ConfigError("--max-prefix-guesses is for --starts-player; name that, or leave it out")
    if asked.rows is not None:
        _import(asked)
    elif asked.out is None:
        _summarise(asked)
    else:
        _write(asked, asked.out)


def _summarise(asked: DatasetRequest) -> None:
    split = split_secrets(load_words(asked.words), asked.split_seed)
    games = list(_games(Path(asked.games)))
    teachers = summarise(games, per_secret=False)
    rows = [{**row, "part": split.part_of(row["secret"])} for row in summarise(games, per_secret=True)]
    if asked.csv is not None:
        write_rows(asked.csv, rows, "--csv")
    num_games, num_wins, num_errors = (
        sum(row[name] for row in teachers) for name in ("num_games", "num_wins", "num_errors")
    )
    totals = {"num_games": num_games, "num_wins": num_wins, "num_errors": num_errors}
    totals["num_secrets"] = len({row["secret"] for row in rows})
    finished = [game.lesson for game in games if game.error is None]
    totals["num_duplicates"] = len(finished) - len({*finished})
    again = f", {totals['num_duplicates']:,} duplicates" if totals["num_duplicates"] else ""
    won = f"{in_percent(num_wins / num_games)}% won" if num_games else "none finished"
    # With one teacher and no errors, its row would repeat the title of the next table.
    parts = {part: [row for row in rows if row["part"] == part] for part in ("train", "val", "test", "outside")}
    shown: list[object] = [_counts_table({part: found for part, found in parts.items() if found}, "secrets")]
    if len(teachers) > 1:  # one alone would repeat the figures of all
        shown += ["", _counts_table({row["teacher"]: [row] for row in teachers}, "teachers")]
    shown += [
        "",
        f"{num_games:,} games of {totals['num_secrets']:,} secrets, {won}{again}; each secret: --csv FILE or --json",
    ]
    console.show({**totals, "teachers": teachers, "words": rows}, shown, asked.as_json)


def _codec_of(asked: DatasetRequest) -> ChatCodec | None:
    if asked.model is None:
        return None
    if asked.form != "instruction":
        raise ConfigError(f"--model {asked.model} needs --format instruction; messages are the same for every model")
    from wordle_rl.policy.loading import load_codec

    return load_codec(ModelSettings(path=asked.model))


def _games(path: Path) -> Iterator[GameRecord]:
    games = read_games(path)
    # Read lazily, since such files outgrow memory; only the first game is asked for ahead.
    first = next(games, None)
    if first is None:
        raise ConfigError(f"{path} holds no games; name a traces file")
    return chain([first], games)


def _counts_table(groups: Mapping[str, Sequence[dict[str, Any]]], head: str) -> Table:
    titles = ("number", "games", "wins", "guesses on wins", "errors", "broken turns")
    cells = []
    for name, rows in groups.items():
        games, wins, errors, broken = (
            sum(row[key] for row in rows) for key in ("num_games", "num_wins", "num_errors", "num_broken_turns")
        )
        guesses = sum(row["num_wins"] * (row["mean_guesses_on_wins"] or 0) for row in rows) / wins if wins else None
        counts = (f"{games:,}", f"{wins:,}", number_text(guesses, 2), f"{errors:,}", f"{broken:,}")
        cells.append((name, f"{len(rows):,}", *counts))
    return figures_table(results_table.Table(titles, tuple(cells)), head=head)


def _write(asked: DatasetRequest, out: Path) -> None:
    traces, found = Path(asked.games), load_words(asked.words)
    turns = asked.game_turns
    if turns is None:  # as recorded with the traces
        turns = (SettingsFile(traces).game_turns() if traces.is_file() else None) or Rules().max_turns
    if asked.max_turns is not None and asked.max_turns > turns:
        raise ConfigError(
            f"--max-turns {asked.max_turns} is more than the {turns} guesses of a game; lower it, or pass "
            f"--game-turns {asked.max_turns} if the games were played by that rule"
        )
    # Trainers elsewhere learn from every reply of a row.
    if asked.shape is Shape.SPOKEN:
        raise ConfigError(
            "--shape spoken: rows would teach replies without their thinking; set game.shape of a run on --traces.file"
        )
    limits = DatasetLimits(
        max_turns=turns if asked.max_turns is None else asked.max_turns,
        consistent_only=not asked.no_consistent_only,
        max_tokens=asked.max_tokens,
        thinking=asked.thinking,
    )
    prompter = Prompter(
        asked.style, asked.shape, limits.thinking, found.word_length, Rules(max_turns=turns), asked.system_prompt
    )
    split = split_secrets(found, asked.split_seed, strict_fraction=asked.strict_fraction)
    # As in training: a strict word may be guessed, but no label and no start treats it as an answer.
    solver = Solver(found.reserving(split.strict).named)
    games = _games(traces)
    if asked.max_tokens == 0:
        games = chain(games, _validation_games(traces, found, split, solver, limits, turns))
    boards = None
    if asked.starts_player is not None:
        boards = _boards(found, split, solver, asked.starts_player, asked.max_prefix_guesses, turns)
    codec = _codec_of(asked)
    counts = write_dataset(
        games,
        found,
        split,
        prompter,
        limits,
        out,
        form=asked.form,
        codec=codec,
        boards=boards,
        drop_duplicates=asked.drop_duplicates,
    )
    lines = [f"{number:>8,} rows  {out}_{name}.jsonl" for name, number in counts["rows"].items()]
    lines += [f"{number:>8,} games rejected: {reason}" for reason, number in counts["rejected"].items()]
    if counts["duplicates"]:
        lines.append(f"{counts['duplicates']:>8,} games are duplicates; --drop-duplicates leaves them out")
    if not counts["rows"]["sft_val"]:
        lines.append("no SFT rows for validation: no game has a validation secret")
    console.show(counts, lines, asked.as_json)


def _validation_games(
    path: Path, words: WordList, split: Split, solver: Solver, limits: DatasetLimits, turns: int
) -> Iterator[GameRecord]:
    # The solver's games of the validation secrets, if the file holds only solver games and none of these.
    narrate = False  # the added games think aloud if the others do
    for trace in _games(path):
        if trace.notes.teacher != "solver" or split.part_of(trace.secret) == "val":
            return
        narrate = narrate or any(turn.thinking for turn in trace.turns)
    settings = TraceSettings(narrate=narrate)
    games = validation_traces(split, SolverTeacher(solver), settings, seed=0, max_turns=turns)
    # Drop unsound games here, or they would count as rejected games of the file.
    yield from (game for game in games if fault_of(game, words, limits) is None)


def _boards(
    words: WordList, split: Split, solver: Solver, player: str, most: int, turns: int
) -> Iterator[dict[str, Any]]:
    try:
        settings = StartSettings(player=player, max_prefix_guesses=most)
    except ValueError as error:
        named, _, told = describe(error).partition(": ") if isinstance(error, ValidationError) else ("", "", str(error))
        option = "max-prefix-guesses" if named == "max_prefix_guesses" else "starts-player"
        raise ConfigError(f"--{option}: {told}") from None
    if most >= turns:
        raise ConfigError(f"--max-prefix-guesses {most} leaves no turn of {turns} to play; lower it")
    prefixes, rng = PrefixGuesses(words, solver, settings), random.Random("boards")
    return (
        board_row(secret, [(guess, score_guess(secret, guess)) for guess in prefixes(secret, rng)])
        for secret in split.train
    )


def _import(asked: DatasetRequest) -> None:
    # Nothing is written unless some row is usable.
    turns = asked.game_turns or 6
    if asked.out is None:
        raise ConfigError("--rows writes a file; name it with --out")
    found = load_words(asked.words)
    split = split_secrets(found, asked.split_seed, strict_fraction=asked.strict_fraction)
    source, out = Path(asked.games), asked.out
    # Also by a link. Rows that are left out would be lost.
    if source.exists() and out.exists() and out.samefile(source):
        raise ConfigError(f"{out} is the file to read; name another --out")
    check_replaceable(out, (START_ROW,))
    boards = read_start_boards(source, found, split, Rules(max_turns=turns), outside=True, setting="--rows grpo:")
    count = write_jsonl(out, boards.rows())
    told = {"file": str(out), "rows": count, "skipped": dict(sorted(boards.rejected.items()))}
    lines = [f"{number:>8,} rows rejected: {reason}" for reason, number in sorted(boards.rejected.items())]
    console.show(told, [f"{count:>8,} rows  {out}", *lines], asked.as_json)
