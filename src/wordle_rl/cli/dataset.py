"""`dataset`: games of a file summarised, or turned into rows for training."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from pydantic import ValidationError
from rich.table import Table

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.cli import console
from wordle_rl.cli.arguments import Json, StrictFraction, Words
from wordle_rl.config import ConfigError, ModelSettings, StartSettings, TraceSettings, describe
from wordle_rl.data.dataset import DatasetLimits, SFTForm, fault_of, write_dataset
from wordle_rl.data.external import import_rows
from wordle_rl.data.game_record import GameRecord, board_row
from wordle_rl.data.summaries import summarise, summarise_teachers
from wordle_rl.data.trace_files import SettingsFile, read_games
from wordle_rl.evaluate import write_rows
from wordle_rl.game import Rules, score_guess
from wordle_rl.prompt import Prompter, Shape, Style, Thinking
from wordle_rl.runs.progress import in_percent
from wordle_rl.solver import Solver
from wordle_rl.teachers.games import validation_traces
from wordle_rl.teachers.solver import SolverTeacher
from wordle_rl.train.prefix_guesses import PrefixGuesses
from wordle_rl.words import WordList, load_words
from wordle_rl.words.split import Split, split_secrets


@dataclass(frozen=True)
class DatasetRequest:
    """What to make of games: the options of `dataset`."""

    games: Annotated[str, tyro.conf.Positional]
    """A traces file, or a directory of wordle_data_WORD.csv; with --rows other people's rows: a file (CSV, JSON,
    parquet), or a data set of the Hugging Face hub (network) as OWNER/NAME or OWNER/NAME:SPLIT, with [:100] at its end
    the first 100 rows."""
    out: Path | None = None
    """Stem of the files: `<out>_sft_train.jsonl` and so on; with --rows the file itself. They replace earlier rows, and
    no other file. Left out: the games are only summarised."""
    csv: Path | None = None
    """Without --out: also write the whole summary to this file, unless it holds something else."""
    top: int = 20
    """Without --out: rows shown, hardest first."""
    rows: Literal["grpo", "instruction"] | None = None
    """Rows of other people: `grpo`, rows of prompt, word_list, past_guess_history, secret (as in
    predibase/wordle-grpo), become boards on which games begin (`run --rl.starts.file`), the marks computed again by the
    rules; `instruction`, rows of instruction, output, become messages to fine-tune on."""
    form: Annotated[SFTForm, tyro.conf.arg(name="format")] = "messages"
    """Form of the SFT rows: conversations, or `instruction`: a row of instruction, output for every reply."""
    model: str | None = None
    """With --format instruction: the model whose chat template writes the rows, a directory or hub name; left out:
    ChatML."""
    words: Words = "default"
    split_seed: int = 0
    """Seed of the split."""
    strict_fraction: StrictFraction = 0.0
    style: Style | str = Style.ENGLISH
    """Wording of the prompts, a built-in style or `module:attribute`."""
    shape: Shape = Shape.TRANSCRIPT
    """One growing conversation, or a fresh prompt every turn."""
    thinking: Thinking = Thinking.OPTIONAL
    """Whether replies hold the teacher's thinking; `off` leaves it out, neither checked nor counted; `required` rejects
    games with a taught guess without thinking."""
    system_prompt: str | None = None
    """Text in place of the style's own rules; {word_length}, {max_turns} and {example}, a well-formed reply, are filled
    in. Empty: no system message."""
    max_turns: int | None = None
    """Games of more guesses are rejected; left out: the same as --game-turns."""
    game_turns: int | None = None
    """Guesses that the rules of the games allowed, which the prompts state; left out: what is recorded with a language
    model's traces, else 6."""
    max_words: int = 4096
    """Games whose replies have more words are rejected."""
    max_tokens: int = 0
    """Games of more completion tokens, as the endpoint counted them, are rejected, and so are games without a count
    (the solver's, or of an endpoint that does not count); 0: no bound."""
    no_won_only: bool = False
    """Keep lost games."""
    no_consistent_only: bool = False
    """Keep games with a taught guess that contradicts the marks, such as deliberate probes."""
    no_check_thinking: bool = False
    """Keep games whose thinking leaks tags, announces another guess or calls a ruled-out word possible."""
    no_validation: bool = False
    """Do not have the solver play each validation secret once, where all games are its own."""
    starts_player: str | None = None
    """Draw the boards of `<out>_rl_start_states.jsonl`, one for each training secret, by this player (`random`,
    `consistent` or `teacher`; `consistent:5` opens with one of the 5 best openers); left out: the boards before the
    last guess of each game."""
    max_prefix_guesses: int = 4
    """With --starts-player: most guesses on a board; each number from 0 on is as frequent."""
    as_json: Json = False


def dataset(asked: Annotated[DatasetRequest, tyro.conf.arg(name="")]) -> None:
    """Summarise teacher games, or check them and turn them into rows for SFT and RL (--out).

    Each game is checked again, and rejected ones are counted by reason. SFT rows are conversations; the solver's games
    have no validation secrets, so it plays each of those once for `<out>_sft_val.jsonl`. With --rows the rows of other
    people are read instead; rows with held-out secrets or strict words are left out.
    """
    if asked.rows is not None:
        _import(asked)
    elif asked.out is None:
        _summarise(asked)
    else:
        _write(asked, asked.out)


def _summarise(asked: DatasetRequest) -> None:
    """Games, wins and guesses by secret and teacher, and the part of the split that a secret is in."""
    if asked.top < 1:
        raise ConfigError(f"--top {asked.top} shows no word; give at least 1", "top")
    split = split_secrets(load_words(asked.words), asked.split_seed)
    games = list(_games(Path(asked.games)))
    teachers = [{**asdict(row), "win_rate": row.win_rate} for row in summarise_teachers(games)]
    rows = [{**asdict(row), "win_rate": row.win_rate, "part": split.part_of(row.secret)} for row in summarise(games)]
    if asked.csv is not None:
        write_rows(asked.csv, rows, "--csv")
    num_games, num_wins, num_errors = (
        sum(row[name] for row in teachers) for name in ("num_games", "num_wins", "num_errors")
    )
    if asked.as_json:
        totals = {"num_games": num_games, "num_wins": num_wins, "num_errors": num_errors}
        secrets = {row["secret"] for row in rows}
        console.print_json({**totals, "num_secrets": len(secrets), "teachers": teachers, "words": rows})
        return
    won = f"{in_percent(num_wins / num_games)}% won" if num_games else "none finished"
    if len(teachers) > 1 or num_errors:
        console.out.print(_summary_table(teachers, "teacher", "teachers"))
    console.out.print(_summary_table(rows[: asked.top], "secret", f"{num_games:,} games, {won}"))


def _codec_of(asked: DatasetRequest) -> ChatCodec | None:
    """Tokenizer and template of the model that instruction rows are for; None: ChatML."""
    if asked.model is None:
        return None
    if asked.form != "instruction":
        raise ConfigError(
            f"--model {asked.model} writes rows of --format instruction; messages are the same for every model", "model"
        )
    from wordle_rl.models.loading import load_codec

    return load_codec(ModelSettings(path=asked.model))[0]


def _games(path: Path) -> Iterator[GameRecord]:
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


def _write(asked: DatasetRequest, out: Path) -> None:
    """Rows for SFT and RL."""
    traces, found = Path(asked.games), load_words(asked.words)
    turns = _turns_of(traces) if asked.game_turns is None else asked.game_turns
    if turns < 1:
        raise ConfigError(f"--game-turns {turns} makes no game; give at least 1", "game_turns")
    limits = DatasetLimits(
        asked.max_turns,
        asked.max_words,
        not asked.no_won_only,
        not asked.no_consistent_only,
        not asked.no_check_thinking,
        asked.max_tokens,
        asked.thinking,
    )
    limits = _within(limits, turns)
    prompter = Prompter(
        asked.style, asked.shape, limits.thinking, found.word_length, Rules(max_turns=turns), asked.system_prompt
    )
    split = split_secrets(found, asked.split_seed, strict_fraction=asked.strict_fraction)
    solver = Solver(found.reserving(split.strict).named)
    games = _games(traces)
    if not asked.no_validation and asked.max_tokens == 0:
        games = chain(games, _validation_games(traces, found, split, solver, limits, turns))
    boards = None
    if asked.starts_player is not None:
        boards = _boards(found, split, solver, asked.starts_player, asked.max_prefix_guesses, turns)
    codec = _codec_of(asked)
    counts = write_dataset(games, found, split, prompter, limits, out, form=asked.form, codec=codec, boards=boards)
    if asked.as_json:
        console.print_json(counts)
        return
    for name, number in counts["rows"].items():
        console.out.print(f"{number:>8,} rows  {out}_{name}.jsonl", highlight=False)
    if counts["repeated"]:
        console.out.print(f"{counts['repeated']:>8,} of the SFT rows repeat another one", highlight=False)
    for reason, number in counts["rejected"].items():
        console.out.print(f"{number:>8,} games left out: {reason}", highlight=False)
    if not counts["rows"]["sft_val"]:
        console.out.print("no SFT rows for validation: the games have no validation secret", highlight=False)


def _within(limits: DatasetLimits, turns: int) -> DatasetLimits:
    """Limits with a bound on guesses that a game may reach."""
    if limits.max_turns is None:
        return replace(limits, max_turns=turns)
    if limits.max_turns > turns:
        raise ConfigError(
            f"--max-turns {limits.max_turns} is more than the {turns} guesses of a game; "
            f"lower it, or pass --game-turns {limits.max_turns} if the games were played by that rule"
        )
    return limits


def _validation_games(
    path: Path, words: WordList, split: Split, solver: Solver, limits: DatasetLimits, turns: int
) -> Iterator[GameRecord]:
    """The solver's sound games of validation secrets, if a file has only its games and none of these."""
    narrate = False
    for trace in _games(path):
        if trace.teacher != "solver" or split.part_of(trace.secret) == "val":
            return
        narrate = narrate or any(turn.thinking for turn in trace.turns)
    settings = TraceSettings(narrate=narrate)
    games = validation_traces(split, SolverTeacher(solver), settings, seed=0, max_turns=turns)
    yield from (game for game in games if fault_of(game, words, limits) is None)  # what is rejected is not counted


def _boards(
    words: WordList, split: Split, solver: Solver, player: str, most: int, turns: int
) -> Iterator[dict[str, Any]]:
    """A board for each training secret, by a player."""
    try:
        settings = StartSettings(player=player, max_prefix_guesses=most)
    except ValueError as error:
        raise ConfigError(f"--starts-{describe(error)}" if isinstance(error, ValidationError) else str(error)) from None
    if most >= turns:
        raise ConfigError(f"--max-prefix-guesses {most} leaves none of {turns} turns to play; lower it")
    prefixes, rng = PrefixGuesses(words, solver, settings), random.Random("boards")
    return (
        board_row(secret, [(guess, score_guess(secret, guess)) for guess in prefixes(secret, rng)])
        for secret in split.train
    )


def _turns_of(path: Path) -> int:
    """Guesses per game in some traces: as recorded with them, else six."""
    recorded = SettingsFile(path).game_turns() if path.is_file() else None
    return recorded or Rules().max_turns


def _import(asked: DatasetRequest) -> None:
    """Rows of other people as rows for training; without a usable one nothing is written."""
    turns = asked.game_turns or 6
    if asked.out is None or asked.rows is None:
        raise ConfigError("--rows writes a file; give it as --out", "out")
    found = load_words(asked.words)
    prompter = Prompter(thinking=asked.thinking, word_length=found.word_length, rules=Rules(max_turns=turns))
    split = split_secrets(found, asked.split_seed, strict_fraction=asked.strict_fraction)
    counts = import_rows(asked.games, asked.out, asked.rows, found, split, prompter)
    if asked.as_json:
        console.print_json(counts)
        return
    console.out.print(f"{counts['rows']:>8,} rows  {asked.out}", highlight=False)
    for reason, number in counts["skipped"].items():
        console.out.print(f"{number:>8,} rows left out: {reason}", highlight=False)
