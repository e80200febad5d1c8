"""The `wordle-rl` command: argument parsing, and nothing that another room could do."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from pydantic import BaseModel, ValidationError
from rich.console import Console
from rich.markup import escape

from wordle_rl import commands, evaluating
from wordle_rl.config import (
    ConfigError,
    Constrain,
    LLMTeacherSettings,
    PatienceSettings,
    PlaySettings,
    RunConfig,
    SamplingSettings,
    TraceSettings,
    describe,
    load_config,
)
from wordle_rl.dataset import DatasetLimits
from wordle_rl.evaluate import EvaluationError
from wordle_rl.game import Dictionary
from wordle_rl.imports import Format
from wordle_rl.pipeline import Stage
from wordle_rl.prompt import Shape, Style, Thinking
from wordle_rl.report import ReportError
from wordle_rl.reward import RewardError
from wordle_rl.runs import RunError
from wordle_rl.solver import SolverError
from wordle_rl.templates import ChatTemplateError
from wordle_rl.words import SplitName, WordListError

_USER_ERRORS = (
    ConfigError,
    WordListError,
    SolverError,
    RunError,
    EvaluationError,
    RewardError,
    ReportError,
    ChatTemplateError,
    OSError,
)

Json = Annotated[bool, tyro.conf.arg(name="json", help="Print the result as JSON.")]
Words = Annotated[
    str,
    tyro.conf.arg(help="default, original, nyt, an imported name, or a directory with answers.txt and guesses.txt."),
]
Seed = Annotated[int, tyro.conf.arg(help="Seed of everything drawn at random.")]


def words(
    action: Annotated[Literal["show", "import"], tyro.conf.Positional],
    source: Annotated[str, tyro.conf.Positional] = "default",
    as_json: Json = False,
) -> None:
    """Show a word list and its split, or import lists into the user's cache.

    Args:
        action: `show` a list, or `import` one from a directory.
        source: A list's name, or a directory.
        as_json: Print the result as JSON.
    """
    commands.words(action, source, as_json)


def solve(
    words: Words = "default",
    opener: str | None = None,
    tree: bool = False,
    secret: str | None = None,
    top: int = 10,
    as_json: Json = False,
) -> None:
    """Best openers, the best strategy tree, or how the solver finds one secret.

    Args:
        opener: First guess of the tree; the best one found if left out.
        tree: Build the whole tree and print its totals.
        secret: Show the tree's guesses for this secret.
        top: How many openers to list.
    """
    commands.solve(words, opener, tree, secret, top, as_json)


def traces(
    out: Path,
    words: Words = "default",
    settings: Annotated[TraceSettings, tyro.conf.arg(name="")] = TraceSettings(),
    llm: Annotated[LLMTeacherSettings, tyro.conf.arg(name="")] = LLMTeacherSettings(),
    kind: Annotated[
        Literal["solver", "openai"], tyro.conf.arg(name="teacher", help="The solver, or an endpoint's model.")
    ] = "solver",
    csv: Path | None = None,
    split_seed: int = 0,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Have a teacher play games and write them as JSON lines.

    The solver makes the file anew, from training secrets and words outside the answers. A language model's games cost
    money: they are appended one by one, and the same command plays only what is missing.

    Args:
        out: The file to write.
        csv: With `--teacher openai`: also write wordle_data_WORD.csv for every word into this directory.
        split_seed: Seed of the split.
    """
    if kind == "openai":
        _refuse_others(settings, TraceSettings(), "solver")
        commands.llm_traces(out, words, llm, split_seed, seed, csv, as_json)
        return
    _refuse_others(llm, LLMTeacherSettings(), "openai")
    if csv is not None:
        raise ConfigError("--csv is for --teacher openai; for the solver's games see `wordle-rl analyze --out`")
    commands.traces(out, words, settings, split_seed, seed, as_json)


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
        out: Also write the whole table as CSV.
        split_seed: Seed of the split.
        top: Rows shown, hardest first.
    """
    commands.analyze(traces, out, words, split_seed, top, as_json)


def dataset(
    traces: Annotated[Path, tyro.conf.Positional],
    out: Path,
    words: Words = "default",
    split_seed: int = 0,
    style: Style = Style.ENGLISH,
    shape: Shape = Shape.TRANSCRIPT,
    thinking: Thinking = Thinking.OPTIONAL,
    max_turns: int = 6,
    max_words: int = 4096,
    won_only: bool = True,
    consistent_only: bool = True,
    check_thinking: bool = True,
    max_tokens: int = 0,
    as_json: Json = False,
) -> None:
    """Turn traces into SFT and RL rows, checked again; every rejected game is counted with its reason.

    Args:
        traces: A traces file, or a directory of wordle_data_WORD.csv.
        out: Stem of the files: `<out>_sft_train.jsonl` and so on.
        split_seed: Seed of the split.
        style: Wording of the prompts.
        shape: One growing conversation, or a fresh prompt every turn.
        thinking: Whether replies hold the narrated thinking.
        max_turns: Longer games are rejected.
        max_words: Games whose replies have more words are rejected.
        won_only: Reject games that were not won.
        consistent_only: Reject games with a taught guess that contradicts the marks; off keeps deliberate probes.
        check_thinking: Reject thinking that leaks tags, announces another guess or calls a ruled-out word possible.
        max_tokens: Games that took more completion tokens, as the endpoint counted them, are rejected; 0: no bound.
    """
    limits = DatasetLimits(max_turns, max_words, won_only, consistent_only, check_thinking, max_tokens)
    commands.dataset(traces, out, words, split_seed, style, shape, thinking, limits, as_json)


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
    """Read other data sets (CSV, JSON lines, parquet) into rows of ours; odd rows are counted with their reason.

    grpo: rows of prompt, word_list, past_guess_history, secret (as in predibase/wordle-grpo) become boards to start
    from, marked again by the rules. instruction: rows of instruction, output become messages to fine-tune on. Rows of
    held-out secrets are left out.

    Args:
        data: The file to read.
        out: The file to write, JSON lines.
        split_seed: Seed of the split.
        thinking: Whether an output may, must or must not think before its guess.
        max_turns: Guesses per game; a board must leave one.
    """
    commands.import_data(data, out, form, words, split_seed, thinking, max_turns, as_json)


@dataclass(frozen=True)
class RunArguments:
    """Where a run goes, and any setting of its config."""

    out: Path
    """The run directory. A run with the same settings goes on where it stopped."""
    overwrite: bool = False
    """Remove an earlier run in that directory first."""
    until: Stage = "report"
    """The last stage to run."""
    as_json: Json = False
    config: Annotated[RunConfig, tyro.conf.arg(name="")] = RunConfig()
    """Settings; they override the config file."""


def run_config(arguments: list[str], until: Stage | None = None) -> None:
    """`run CONFIG.toml --out DIR [--sft.epochs 2 …]`: the whole chain, or up to a stage."""
    given = arguments and not arguments[0].startswith("-")
    base = load_config(Path(arguments[0])) if given else RunConfig()
    name = until or "run"
    with _plain_refusals():
        parsed = tyro.cli(
            RunArguments,
            prog=f"wordle-rl {name} [CONFIG.toml]",
            description=_DESCRIPTIONS[name],
            default=RunArguments(out=Path("runs") / (Path(arguments[0]).stem if given else "run"), config=base),
            args=arguments[1:] if given else arguments,
            config=_STYLE,
        )
    commands.run(parsed.config, parsed.out, parsed.overwrite, until or parsed.until, parsed.as_json)


@dataclass(frozen=True)
class PreflightArguments:
    """How closely to look, and any setting of the run's config."""

    groups: int = 4
    """Groups of games the model plays; 0: none, so that its weights are not needed."""
    as_json: Json = False
    config: Annotated[RunConfig, tyro.conf.arg(name="")] = RunConfig()
    """Settings; they override the config file."""


def preflight_config(arguments: list[str]) -> None:
    """`preflight CONFIG.toml [--groups N] [--model.path DIR …]`: whether a run will work."""
    given = arguments and not arguments[0].startswith("-")
    base = load_config(Path(arguments[0])) if given else RunConfig()
    with _plain_refusals():
        parsed = tyro.cli(
            PreflightArguments,
            prog="wordle-rl preflight [CONFIG.toml]",
            description=_DESCRIPTIONS["preflight"],
            default=PreflightArguments(config=base),
            args=arguments[1:] if given else arguments,
            config=_STYLE,
        )
    if parsed.groups < 0:
        raise ConfigError(f"groups {parsed.groups} must not be negative; 0 plays no games")
    commands.preflight_run(parsed.config, parsed.groups, parsed.as_json)


_TYRO_PREFIX = re.compile(
    r"^Value error Error parsing config\.(\S+): \d+ validation errors? for \w+ (?:Value error, )?"
)


@contextmanager
def _plain_refusals() -> Iterator[None]:
    """Say in one line, as for a config file, what tyro would draw a box around."""
    heard = io.StringIO()
    try:
        with redirect_stderr(heard):
            yield
    except SystemExit as stop:
        if not stop.code:
            raise
        words = " ".join(re.sub(r"[\u2500-\u257f]", " ", heard.getvalue()).split())
        message = _TYRO_PREFIX.sub(r"\1: ", words).partition(" [type=")[0]
        raise ConfigError(message.partition(" For full helptext")[0]) from None


_DESCRIPTIONS = {
    "run": "The whole chain: teacher games, SFT, GRPO (or what --algorithm names), evaluation, report.",
    "sft": "The chain up to supervised fine-tuning.",
    "grpo": "The chain up to GRPO.",
    "preflight": "Whether a run will work: chat template, stop tokens, budgets, memory, a few games; trains nothing.",
}


def evaluate(
    player: Annotated[str, tyro.conf.arg(aliases=["--model"])],
    words: Words = "default",
    split: SplitName = "held_out",
    split_seed: int = 0,
    out: Path | None = None,
    name: str | None = None,
    temperature: float = 0.0,
    constrain: Constrain = "none",
    base_url: str | None = None,
    settings: Annotated[PlaySettings, tyro.conf.arg(name="")] = PlaySettings(),
    patience: Annotated[PatienceSettings, tyro.conf.arg(name="")] = PatienceSettings(),
    csv: Path | None = None,
    overwrite: bool = False,
    style: Style | None = None,
    shape: Shape | None = None,
    thinking: Thinking | None = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Play secrets and measure: six turns, strict dictionary, no retries.

    Args:
        player: solver, random, openai:MODEL, or a model or run directory.
        split: Which secrets to play.
        split_seed: Seed of the split.
        out: Write every game to this file (JSON), for `compare` and `report`. An endpoint's finished games are kept
            beside it as they end (.games.jsonl), and the same command goes on with what is missing.
        name: What to call the player in tables.
        temperature: 0 is greedy.
        constrain: `words` limits a model's guesses to listed words; such results are kept apart from all others.
        base_url: Address of the endpoint for openai:MODEL.
        csv: Write a row per game to this file; `compare` reads it too.
        overwrite: Forget the games that an endpoint played before.
        style: Wording; left out: the model's own, else english.
        shape: Conversation shape; left out: the model's own, else transcript.
        thinking: Left out: the model's own, else optional.
    """
    sampling = SamplingSettings(
        temperature=temperature,
        max_completion_tokens=settings.max_completion_tokens,
        max_batch_size=settings.max_batch_size,
        constrain=constrain,
    )
    wording = evaluating.Wording(style, shape, thinking)
    source = evaluating.Source(words, split_seed, split, settings.max_games)
    outputs = evaluating.Outputs(out, csv, overwrite)
    evaluating.evaluate_player(
        player,
        source,
        sampling,
        wording,
        base_url,
        patience,
        name,
        outputs,
        settings.regret,
        seed,
        as_json,
        settings.engine,
    )


def compare(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional],
    names: tuple[str, ...] = (),
    csv: Path | None = None,
    top: int = 20,
    as_json: Json = False,
) -> None:
    """Compare evaluations on the words all of them played: figures, and McNemar's exact test and a paired bootstrap
    of each against the first.

    Args:
        runs: Evaluation files (JSON or CSV), two or more; the first is the base.
        names: What to call them; left out: their own names.
        csv: Also write a row per evaluation to this file.
        top: Words shown, those that differ most.
    """
    evaluating.compare_files(runs, names, csv, top, as_json)


def report(run: Annotated[Path, tyro.conf.Positional], as_json: Json = False) -> None:
    """Write a run's page: curves, distributions, every game, in one file.

    Args:
        run: A run directory.
    """
    commands.report(run, as_json)


def card(run: Annotated[Path, tyro.conf.Positional], as_json: Json = False) -> None:
    """Write a model card (README.md) beside each trained model of a run, over the one that is there.

    Args:
        run: A run directory, or one model's directory in it.
    """
    commands.card(run, as_json)


def push(
    run: Annotated[Path, tyro.conf.Positional],
    repo: str,
    private: bool = False,
    dry_run: bool = False,
    as_json: Json = False,
) -> None:
    """Send a trained model with its card to the Hugging Face hub, with the token of HF_TOKEN or `hf auth login`.

    Args:
        run: A model directory, or a run, whose last model is sent.
        repo: USER/NAME; made if it is not there.
        private: Make a new repository private.
        dry_run: Send nothing, list the files.
    """
    commands.push_model(run, repo, private, dry_run, as_json)


def audit(run: Annotated[Path, tyro.conf.Positional], as_json: Json = False) -> None:
    """Prove from a run's records that no held-out secret was a secret in training; exit code 2 if one was.

    Args:
        run: A run directory.
    """
    commands.audit_run(run, as_json)


def merge(
    adapter: Annotated[Path, tyro.conf.Positional],
    out: Path,
    dtype: Literal["auto", "float32", "bfloat16"] = "auto",
    as_json: Json = False,
) -> None:
    """Fold a LoRA adapter into its base model, compare both, and keep the whole as an ordinary model directory.

    Args:
        adapter: An adapter's directory, or a run that trained one.
        out: The new model directory.
        dtype: Type of the stored weights; auto: as the base model's.
    """
    commands.merge_adapter(adapter, out, dtype, as_json)


def consolidate(checkpoint: Annotated[Path, tyro.conf.Positional], out: Path, as_json: Json = False) -> None:
    """Gather a sharded checkpoint, as FSDP leaves it, into one ordinary model directory.

    Args:
        checkpoint: A directory such as RUN/sft/checkpoints/checkpoint-100.
        out: The new model directory.
    """
    commands.consolidate_checkpoint(checkpoint, out, as_json)


def play(
    player: Annotated[str, tyro.conf.arg(aliases=["--model"])] = "human",
    secret: str | None = None,
    words: Words = "default",
    temperature: float = 0.0,
    max_completion_tokens: int = 512,
    constrain: Constrain = "none",
    base_url: str | None = None,
    dictionary: Dictionary = Dictionary.STRICT,
    hard_mode: bool = False,
    seed: int | None = None,
) -> None:
    """Play in the terminal yourself, or watch a player.

    Args:
        player: human, solver, random, openai:MODEL, or a model or run directory.
        secret: The word to find; left out: a random answer.
        temperature: 0 is greedy.
        max_completion_tokens: Bound on one turn's reply.
        constrain: `words` limits a model's guesses to listed words.
        base_url: Address of the endpoint for openai:MODEL.
        dictionary: What an unlisted guess costs (for a human, `app` asks again).
        hard_mode: Every revealed hint must be used.
        seed: Seed of the secret and the player; left out: a new game every time.
    """
    sampling = SamplingSettings(
        temperature=temperature, max_completion_tokens=max_completion_tokens, constrain=constrain
    )
    commands.play(player, secret, words, sampling, base_url, dictionary, hard_mode, seed)


_STYLE = (tyro.conf.FlagCreatePairsOff, tyro.conf.ConsolidateSubcommandArgs, tyro.conf.EnumChoicesFromValues)
_COMMANDS: dict[str, Callable[..., None]] = {
    "words": words,
    "solve": solve,
    "traces": traces,
    "analyze": analyze,
    "dataset": dataset,
    "import": import_data,
    "eval": evaluate,
    "compare": compare,
    "report": report,
    "card": card,
    "push": push,
    "audit": audit,
    "merge": merge,
    "consolidate": consolidate,
    "play": play,
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit code is 0, 2 after a wrong input, 130 after Ctrl-C."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if given[:1] == ["run"]:
            run_config(given[1:])
        elif given[:1] == ["preflight"]:
            preflight_config(given[1:])
        elif given[:1] == ["sft"] or given[:1] == ["grpo"]:
            run_config(given[1:], "sft" if given[0] == "sft" else "grpo")
        else:
            overview = {**_COMMANDS, **{name: _described(name) for name in _DESCRIPTIONS}}
            tyro.extras.subcommand_cli_from_dict(
                overview,
                prog="wordle-rl",
                description="Teach language models to play Wordle, and measure honestly what they learned.",
                args=given or ["--help"],
                config=_STYLE,
            )
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (*_USER_ERRORS, ValidationError) as error:
        message = describe(error) if isinstance(error, ValidationError) else str(error)
        Console(stderr=True, soft_wrap=True).print(f"[bold red]error:[/] {_escaped(message)}", highlight=False)
        return 2
    except KeyboardInterrupt:
        Console(stderr=True).print("stopped; what was finished is kept, and the same command goes on from there")
        return 130
    return 0


def _described(name: str) -> Callable[..., None]:
    """A stand-in for the commands that read a config file first, so that --help lists them."""

    def stand_in() -> None:
        raise ConfigError(f"use: wordle-rl {name} CONFIG.toml{'' if name == 'preflight' else ' --out DIR'}")

    stand_in.__doc__ = _DESCRIPTIONS[name]
    return stand_in


def _escaped(message: str) -> str:
    return escape(" ".join(message.split()))


if __name__ == "__main__":
    sys.exit(main())
