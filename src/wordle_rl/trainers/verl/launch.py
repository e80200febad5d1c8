"""A training from a run's config to a run's model: what verl needs on disk, the training, the model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wordle_rl.chat.codec import longest_game
from wordle_rl.config import ConfigError, RunConfig
from wordle_rl.config.context import GameContext
from wordle_rl.policy.gguf import at_directory
from wordle_rl.preflight.before_run import is_trained
from wordle_rl.prompt import Style
from wordle_rl.runs import Run
from wordle_rl.runs.lineage import leak_warning
from wordle_rl.trainers.verl.checkpoint import take_model
from wordle_rl.trainers.verl.dataset import AGENT, TOOL_AGENT, write_data
from wordle_rl.trainers.verl.play import RunGames, run_games
from wordle_rl.trainers.verl.settings import VerlSettings
from wordle_rl.trainers.verl.translate import layout_of, translated, write_agent_file


@dataclass(frozen=True)
class Prepared:
    """A training that can begin.

    Attributes:
        run: The run's directory.
        start: The model that training starts from.
        games: What is played.
        layout: Name of the file of `layouts/`.
        overrides: Hydra overrides over it.
        notes: What a user should know before.
    """

    run: Path
    start: str
    games: RunGames
    layout: str
    overrides: list[str]
    notes: tuple[str, ...]


def prepare(config: RunConfig, cluster: VerlSettings, directory: Path) -> Prepared:
    """Store a run's config, its secrets and what names our agent loops.

    Args:
        config: Settings that `check_settings` accepts.
        cluster: Machines, server, lengths.
        directory: The run's directory.

    Raises:
        ConfigError: If there is no model to start from, the run has one already, or its prompts are too long.
        RunError: If the directory holds another run.
    """
    run = directory.resolve()
    context = GameContext.of(config)
    start = _start(config, run)
    doubt = leak_warning(Path(start), context.split)
    notes: tuple[str, ...] = (f"model.path {doubt}",) if doubt else ()
    Run.create(run, config, context.split)
    games = run_games(run, start, tool=cluster.tool)
    notes += _check_lengths(games, cluster)
    agent = TOOL_AGENT if cluster.tool else AGENT
    files = write_data(config, context, run / "verl", agent)
    write_agent_file(run)
    return Prepared(run, start, games, layout_of(cluster), translated(config, cluster, run, start, files), notes)


def train(prepared: Prepared) -> Path:
    """Train to the end and leave the model in `<run>/grpo`; the model directory.

    Raises:
        RunError: If verl left no checkpoint.
    """
    from wordle_rl.trainers.verl import main

    main.train(main.compose(prepared.layout, prepared.overrides))
    return take_model(prepared.run, prepared.games, prepared.start)


def _start(config: RunConfig, run: Path) -> str:
    """Directory, as all processes find it, or name of the model to start from."""
    if config.start == "sft" and not is_trained(run / "sft"):
        raise ConfigError(
            f"{run} has no model of SFT; make it with `wordle-rl run CONFIG.toml --out {run} --until sft`"
        )
    if is_trained(run / "grpo"):
        raise ConfigError(f"{run} has a model of GRPO; remove {run / 'grpo'} to train it again")
    path = at_directory(config.start_settings(run)).path
    return str(Path(path).resolve()) if Path(path).is_dir() else path


def _check_lengths(games: RunGames, cluster: VerlSettings) -> tuple[str, ...]:
    """Refuse prompts that verl would filter out; note games that may be truncated."""
    prompter = games.context.prompter
    coded = prompter.style in (Style.COMPACT, Style.SPELLED) or not isinstance(prompter.style, Style)
    if cluster.tool and (coded or prompter.brackets):
        raise ConfigError(f'game.style "{prompter.style}" has no words for tool calls; use "english" or "symbols"')
    opening = len(games.codec.prompt_ids(prompter.opening()))
    if opening > cluster.max_prompt_tokens:
        raise ConfigError(f"--max-prompt-tokens {cluster.max_prompt_tokens}: the opening prompt has {opening}")
    budget = games.training.sampling.max_completion_tokens
    longest = longest_game(games.context.words, prompter, games.codec, budget) - opening
    if longest <= cluster.max_response_tokens:
        return ()
    return (
        f"note: a game may come to {longest} tokens, and is truncated where its next completion could exceed "
        f"--max-response-tokens {cluster.max_response_tokens}",
    )
