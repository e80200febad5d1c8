"""`analyze`, `dataset` and `import`: rows made of games."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import tyro
from pydantic import ValidationError
from rich.table import Table

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.cli import console
from wordle_rl.cli.options import Json, StrictFraction, Words
from wordle_rl.config import ConfigError, ModelSettings, StartSettings, TeacherSettings, TraceSettings, describe
from wordle_rl.data.dataset import DatasetLimits, SFTForm, fault_of, write_dataset
from wordle_rl.data.external import Format, import_rows
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


def analyze(
    traces: Annotated[Path, tyro.conf.Positional],
    out: Path | None = None,
    words: Words = "default",
    split_seed: int = 0,
    top: int = 20,
    as_json: Json = False,
) -> None:
    """Summarise teacher games by secret: games, wins, guesses, and the part of the split that the secret is in.

    Args:
        traces: A traces file, or a directory of wordle_data_WORD.csv.
        out: Also write the whole table to this file as CSV, unless it holds something else.
        split_seed: Seed of the split.
        top: Rows shown, hardest first.
    """
    if top < 1:
        raise ConfigError(f"--top {top} shows no word; give at least 1")
    found = load_words(words)
    split = split_secrets(found, split_seed)
    games = list(_games(traces))
    teachers = [{**asdict(row), "win_rate": row.win_rate} for row in summarise_teachers(games)]
    rows = [{**asdict(row), "win_rate": row.win_rate, "part": split.part_of(row.secret)} for row in summarise(games)]
    if out is not None:
        write_rows(out, rows, "--out")
    num_games, num_wins, num_errors = (
        sum(row[name] for row in teachers) for name in ("num_games", "num_wins", "num_errors")
    )
    if as_json:
        totals = {"num_games": num_games, "num_wins": num_wins, "num_errors": num_errors}
        secrets = {row["secret"] for row in rows}
        console.print_json({**totals, "num_secrets": len(secrets), "teachers": teachers, "words": rows})
        return
    won = f"{in_percent(num_wins / num_games)}% won" if num_games else "none finished"
    if len(teachers) > 1 or num_errors:
        console.out.print(_summary_table(teachers, "teacher", "teachers"))
    console.out.print(_summary_table(rows[:top], "secret", f"{num_games:,} games, {won}"))


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


def dataset(
    traces: Annotated[Path, tyro.conf.Positional],
    out: Path,
    words: Words = "default",
    split_seed: int = 0,
    strict_fraction: StrictFraction = 0.0,
    style: Style | str = Style.ENGLISH,
    shape: Shape = Shape.TRANSCRIPT,
    thinking: Thinking = Thinking.OPTIONAL,
    system_prompt: str | None = None,
    max_turns: int | None = None,
    game_turns: int | None = None,
    max_words: int = 4096,
    won_only: bool = True,
    consistent_only: bool = True,
    check_thinking: bool = True,
    max_tokens: int = 0,
    form: Annotated[SFTForm, tyro.conf.arg(name="format", help="Form of the SFT rows; see above.")] = "messages",
    model: str | None = None,
    validation: bool = True,
    starts_player: str | None = None,
    max_prefix_guesses: int = 4,
    as_json: Json = False,
) -> None:
    """Check teacher games, and turn them into rows for SFT and RL; rejected games are counted by reason.

    SFT rows are conversations (`messages`), or with `--format instruction` one row of instruction, output for every
    reply. The solver's games have no validation secrets: it plays each of those once for `<out>_sft_val.jsonl`.

    Args:
        traces: A traces file, or a directory of wordle_data_WORD.csv.
        out: Stem of the files: `<out>_sft_train.jsonl` and so on. They replace earlier rows, and no other file.
        split_seed: Seed of the split.
        style: Wording of the prompts, a built-in style or `module:attribute`.
        shape: One growing conversation, or a fresh prompt every turn.
        thinking: Whether replies hold the teacher's thinking; `off` leaves it out, neither checked nor counted;
            `required` rejects games with a taught guess without thinking.
        system_prompt: Text in place of the style's own rules; {word_length}, {max_turns} and {example}, a
            well-formed reply, are filled in. Empty: no system message.
        max_turns: Games of more guesses are rejected; left out: the same as --game-turns.
        game_turns: Guesses that the rules of the games allowed, which the prompts state; left out: what is recorded
            with a language model's traces, else 6.
        model: With --format instruction: the model whose chat template writes the rows, a directory or hub name; left
            out: ChatML.
        max_words: Games whose replies have more words are rejected.
        won_only: Lost games are rejected; `--no-` keeps them.
        consistent_only: Games with a taught guess that contradicts the marks are rejected; `--no-` keeps deliberate
            probes.
        check_thinking: Games whose thinking leaks tags, announces another guess or calls a ruled-out word possible are
            rejected; `--no-` leaves thinking unchecked.
        max_tokens: Games of more completion tokens, as the endpoint counted them, are rejected, and so are games
            without a count (the solver's, or of an endpoint that does not count); 0: no bound.
        validation: Have the solver play each validation secret once, if all games are its own; `--no-` leaves it out.
        starts_player: Draw the boards of `<out>_rl_start_states.jsonl`, one for each training secret, by this player
            (`random`, `consistent` or `teacher`; `consistent:5` opens with one of the 5 best openers); left out: the
            boards before the last guess of each game.
        max_prefix_guesses: With --starts-player: most guesses on a board; each number from 0 on is as frequent.
    """
    limits = DatasetLimits(max_turns, max_words, won_only, consistent_only, check_thinking, max_tokens, thinking)
    found = load_words(words)
    turns = _turns_of(traces) if game_turns is None else game_turns
    if turns < 1:
        raise ConfigError(f"--game-turns {turns} makes no game; give at least 1")
    limits = _within(limits, turns)
    rules = Rules(max_turns=turns)
    prompter = Prompter(style, shape, limits.thinking, found.word_length, rules, system_prompt)
    split = split_secrets(found, split_seed, strict_fraction=strict_fraction)
    solver = Solver(found.reserving(split.strict).named)
    games = _games(traces)
    if validation and max_tokens == 0:
        games = chain(games, _validation_games(traces, found, split, solver, limits, turns))
    boards = None
    if starts_player is not None:
        boards = _boards(found, split, solver, starts_player, max_prefix_guesses, turns)
    codec = _codec_of(model, form)
    counts = write_dataset(games, found, split, prompter, limits, out, form=form, codec=codec, boards=boards)
    if as_json:
        console.print_json(counts)
        return
    for name, rows in counts["rows"].items():
        console.out.print(f"{rows:>8,} rows  {out}_{name}.jsonl", highlight=False)
    if counts["repeated"]:
        console.out.print(f"{counts['repeated']:>8,} of the SFT rows repeat another one", highlight=False)
    for reason, games in counts["rejected"].items():
        console.out.print(f"{games:>8,} games left out: {reason}", highlight=False)
    if not counts["rows"]["sft_val"]:
        console.out.print("no SFT rows for validation: the games have no validation secret", highlight=False)


def _codec_of(model: str | None, form: SFTForm) -> ChatCodec | None:
    """Tokenizer and template of the model that instruction rows are for; None: ChatML."""
    if model is None:
        return None
    if form != "instruction":
        raise ConfigError(f"--model {model} writes rows of --format instruction; messages are the same for every model")
    from wordle_rl.models.loading import load_codec

    return load_codec(ModelSettings(path=model))[0]


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
    settings = TraceSettings(narrate=narrate, teacher=TeacherSettings(stray_rate=0.0, max_turns=turns))
    games = validation_traces(split, SolverTeacher(solver), settings, seed=0)
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


def import_data(
    data: Annotated[str, tyro.conf.Positional],
    out: Path,
    form: Annotated[Format, tyro.conf.arg(name="format", help="Kind of the rows; see above.")],
    words: Words = "default",
    split_seed: int = 0,
    strict_fraction: StrictFraction = 0.0,
    thinking: Thinking = Thinking.OPTIONAL,
    max_turns: int = 6,
    as_json: Json = False,
) -> None:
    """Turn other people's data (CSV, JSON, parquet, or a data set of the hub) into rows for training.

    `--format grpo` reads rows of prompt, word_list, past_guess_history, secret (as in predibase/wordle-grpo). They
    become boards on which games begin, here (`run --rl.starts.file`) or elsewhere; the marks are computed again by the
    rules. `--format instruction` reads rows of instruction, output. They become messages to fine-tune on. Rows with
    held-out secrets or strict words are left out; rows left out are counted by reason.

    Args:
        data: The file to read, or a data set of the Hugging Face hub (network) as OWNER/NAME or OWNER/NAME:SPLIT; with
            [:100] at its end, the first 100 rows.
        out: The file to write, JSON lines; it replaces earlier rows, and no other file. Without a usable row nothing is
            written.
        split_seed: Seed of the split.
        thinking: Whether an output may, must or must not think before its guess.
        max_turns: Guesses per game; a board must leave one.
    """
    if max_turns < 1:
        raise ConfigError(f"--max-turns {max_turns} makes no game; give at least 1")
    found = load_words(words)
    prompter = Prompter(thinking=thinking, word_length=found.word_length, rules=Rules(max_turns=max_turns))
    split = split_secrets(found, split_seed, strict_fraction=strict_fraction)
    counts = import_rows(data, out, form, found, split, prompter)
    if as_json:
        console.print_json(counts)
        return
    console.out.print(f"{counts['rows']:>8,} rows  {out}", highlight=False)
    for reason, number in counts["skipped"].items():
        console.out.print(f"{number:>8,} rows left out: {reason}", highlight=False)
