"""Arguments of `traces`, `analyze`, `dataset` and `import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro
from pydantic import BaseModel

from wordle_rl.cli.options import Json, Seed, Words
from wordle_rl.commands import data as command
from wordle_rl.config import ConfigError, LLMTeacherSettings, TraceSettings
from wordle_rl.data.dataset import DatasetLimits
from wordle_rl.data.external import Format
from wordle_rl.prompt import Shape, Style, Thinking


def traces(
    out: Path,
    words: Words = "default",
    settings: Annotated[TraceSettings, tyro.conf.arg(name="")] = TraceSettings(),
    llm: Annotated[LLMTeacherSettings, tyro.conf.arg(name="")] = LLMTeacherSettings(),
    kind: Annotated[
        Literal["solver", "openai"], tyro.conf.arg(name="teacher", help="The solver, or an endpoint's model.")
    ] = "solver",
    base_url: str | None = None,
    csv: Path | None = None,
    split_seed: int = 0,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Have a teacher play games and write them as JSON lines.

    The solver's games replace the file; their secrets are training secrets and words outside the answers. A language
    model's games cost money: they are appended one by one, and the same command plays only what is missing.

    Args:
        out: The file to write.
        base_url: With `--teacher openai`: another name of --provider.
        csv: With `--teacher openai`: also write wordle_data_WORD.csv for every word into this directory.
        split_seed: Seed of the split.
    """
    if kind == "openai":
        _refuse_others(settings, TraceSettings(), "solver")
        if base_url is not None and llm.provider is not None:
            raise ConfigError("--provider and --base-url both say where the teacher is asked; leave one of them out")
        asked = llm if base_url is None else llm.model_copy(update={"provider": base_url})
        command.llm_traces(out, words, asked, split_seed, seed, csv, as_json)
        return
    _refuse_others(llm, LLMTeacherSettings(), "openai")
    if base_url is not None:
        raise ConfigError("--base-url is for --teacher openai; leave it out, or change the teacher")
    if csv is not None:
        raise ConfigError("--csv is for --teacher openai; for the solver's games see `wordle-rl analyze --out`")
    command.traces(out, words, settings, split_seed, seed, as_json)


def _refuse_others(given: BaseModel, default: BaseModel, teacher: str) -> None:
    """Refuse settings of the teacher that does not play."""
    for name in type(given).model_fields:
        if getattr(given, name) != getattr(default, name):
            raise ConfigError(f"{name} is a setting of --teacher {teacher}; leave it out, or change the teacher")


def analyze(
    traces: Annotated[Path, tyro.conf.Positional],
    out: Path | None = None,
    words: Words = "default",
    split_seed: int = 0,
    top: int = 20,
    as_json: Json = False,
) -> None:
    """Summarise traces per secret: games, wins, guesses, and the part of the split it belongs to.

    Args:
        traces: A traces file, or a directory of wordle_data_WORD.csv.
        out: Also write the whole table to this file as CSV, unless it holds something else.
        split_seed: Seed of the split.
        top: Rows shown, hardest first.
    """
    command.analyze(traces, out, words, split_seed, top, as_json)


def dataset(
    traces: Annotated[Path, tyro.conf.Positional],
    out: Path,
    words: Words = "default",
    split_seed: int = 0,
    style: Style = Style.ENGLISH,
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
    as_json: Json = False,
) -> None:
    """Check traces again and turn them into SFT and RL rows; every rejected game is counted by reason.

    Args:
        traces: A traces file, or a directory of wordle_data_WORD.csv.
        out: Stem of the files: `<out>_sft_train.jsonl` and so on. They replace earlier rows, and no other file.
        split_seed: Seed of the split.
        style: Wording of the prompts.
        shape: One growing conversation, or a fresh prompt every turn.
        thinking: Whether replies hold the teacher's thinking; `off` leaves it out, neither checked nor counted;
            `required` rejects games with a taught guess without thinking.
        system_prompt: Text told instead of the style's own rules; {word_length}, {max_turns} and {example}, a
            well-formed reply, are filled in. Empty: no system message.
        max_turns: Games of more guesses are rejected; left out: the same as --game-turns.
        game_turns: Guesses that the rules of the games allowed, which the prompts state; left out: what is recorded
            beside a language model's traces, else 6.
        max_words: Games whose replies have more words are rejected.
        won_only: Lost games are rejected; `--no-` keeps them.
        consistent_only: Games with a taught guess that contradicts the marks are rejected; `--no-` keeps deliberate
            probes.
        check_thinking: Games whose thinking leaks tags, announces another guess or calls a ruled-out word possible are
            rejected; `--no-` leaves thinking unchecked.
        max_tokens: Games of more completion tokens, as the endpoint counted them, are rejected, and so are games
            without a count (the solver's, or of an endpoint that does not count); 0: no bound.
    """
    limits = DatasetLimits(max_turns, max_words, won_only, consistent_only, check_thinking, max_tokens, thinking)
    command.dataset(traces, out, words, split_seed, style, shape, system_prompt, limits, game_turns, as_json)


def import_data(
    data: Annotated[Path, tyro.conf.Positional],
    out: Path,
    form: Annotated[Format, tyro.conf.arg(name="format", help="What the rows are; see above.")],
    words: Words = "default",
    split_seed: int = 0,
    thinking: Thinking = Thinking.OPTIONAL,
    max_turns: int = 6,
    as_json: Json = False,
) -> None:
    """Turn other data sets (CSV, JSON lines, parquet) into rows of ours; rows left out are counted by reason.

    grpo: rows of prompt, word_list, past_guess_history, secret (as in predibase/wordle-grpo) become boards to start
    from, here (`run --starts-file`) or elsewhere, marked again by the rules. instruction: rows of instruction, output
    become messages to fine-tune on. Rows of held-out secrets are left out.

    Args:
        data: The file to read.
        out: The file to write, JSON lines; it replaces earlier rows, and no other file.
        split_seed: Seed of the split.
        thinking: Whether an output may, must or must not think before its guess.
        max_turns: Guesses per game; a board must leave one.
    """
    command.import_data(data, out, form, words, split_seed, thinking, max_turns, as_json)
