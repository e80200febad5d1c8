"""A training from a run's config to a run's model: what verl needs on disk, the training, the model."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

from wordle_rl.boards import InitialState
from wordle_rl.chat.codec import longest_game
from wordle_rl.cli import console
from wordle_rl.config.base import ConfigError
from wordle_rl.config.context import GameContext
from wordle_rl.config.run import RunConfig
from wordle_rl.pipeline import finish_model
from wordle_rl.policy.directory import at_directory, described_at
from wordle_rl.policy.loading import load_model, save_model
from wordle_rl.prompt import Style
from wordle_rl.runs import VALIDATION_SECRETS_FILE, Run, RunError, boards_file, write_jsonl
from wordle_rl.runs.checksums import check_sealed
from wordle_rl.runs.jsonl_store import rewind
from wordle_rl.runs.lineage import is_trained, leak_warning, lesson_of, trained_further
from wordle_rl.train.starts_file import StartBoards, ValidationFile, read_start_boards
from wordle_rl.trainers.verl.play import RunGames
from wordle_rl.trainers.verl.settings import (
    AGENT,
    TOOL_AGENT,
    VerlSettings,
    agent_file,
    checkpoints,
    data_file,
    translated,
)


def launch(config: RunConfig, cluster: VerlSettings, directory: Path, *, show: bool = False) -> None:
    """Train a config that `check_settings` accepts, and leave the model in `grpo` of the run's directory.

    With `show`, print verl's settings and write nothing.
    """
    run = directory.resolve()
    validation = ValidationFile.of(config, run)
    context, boards = validation.context, given_boards(config, validation.context, run)
    start = _start(config, run)
    games = RunGames.of(config, start, tool=cluster.tool)
    doubt = leak_warning(described_at(start), context.split)
    read = [f"{what}{file.counted()}" for what, file in (("", boards), ("validation: ", validation.found)) if file]
    for note in (f"model.path {doubt}" if doubt else "", _check_lengths(games, cluster), *read):
        if note:
            console.messages.print(f"note: {note}", highlight=False, soft_wrap=True)
    overrides = translated(config, cluster, run, start)
    if show:
        for override in overrides:
            console.out.print(override, highlight=False, markup=False, soft_wrap=True)
        return
    from wordle_rl.trainers.verl.trainer import compose, train

    Run.create(run, config, context.split)
    # Copies of the files, as `wordle-rl run` keeps them: a training that is resumed reads these.
    for path, file in (
        (boards_file(run, "grpo"), boards),
        (run / VALIDATION_SECRETS_FILE, validation.found),
    ):
        if file is not None and not path.is_file():
            write_jsonl(path, file.rows())
    write_data(config, context, run, boards, validation.secrets, TOOL_AGENT if cluster.tool else AGENT)
    write_agent_file(run)
    rewind_logs(run)
    train(compose(overrides))
    _take_model(run, games, start)
    console.out.print(f"model: {run / 'grpo'}", highlight=False)


def _start(config: RunConfig, run: Path) -> str:
    """Return the model to start from: an absolute directory, since verl's workers run elsewhere, or a hub name."""
    place = config.stages.index("grpo")
    before = config.stages[place - 1] if place else None
    if before is not None and not is_trained(run / before):
        raise ConfigError(
            f"{run} has no model of {before}; make it with `wordle-rl run CONFIG.toml --out {run} --until {before}`"
        )
    if is_trained(run / "grpo"):
        raise ConfigError(f"{run} has a model of GRPO; remove {run / 'grpo'} to train it again")
    path = at_directory(config.start_of("grpo", run)).path
    check_sealed(Path(path))
    return str(Path(path).resolve()) if Path(path).is_dir() else path


def _check_lengths(games: RunGames, cluster: VerlSettings) -> str:
    """Refuse prompts that verl would filter out; return a note if games may be truncated, else ''."""
    prompter = games.context.prompter
    coded = prompter.style in (Style.COMPACT, Style.SPELLED) or not isinstance(prompter.style, Style)
    if cluster.tool and (coded or prompter.brackets):
        raise ConfigError(f'game.style "{prompter.style}" has no words for tool calls; use "english" or "symbols"')
    opening = len(games.codec.prompt_ids(prompter.opening()))
    if opening > cluster.max_prompt_tokens:
        raise ConfigError(f"--max-prompt-tokens {cluster.max_prompt_tokens}: the opening prompt has {opening}")
    budget = games.config.max_completion_tokens
    longest = longest_game(games.context.words, prompter, games.codec, budget) - opening
    if longest <= cluster.max_response_tokens:
        return ""
    return (
        f"a game may come to {longest} tokens, and is truncated where its next completion could exceed "
        f"--max-response-tokens {cluster.max_response_tokens}"
    )


def given_boards(config: RunConfig, context: GameContext, run: Path) -> StartBoards | None:
    """Read the rows of `grpo.starts.file`, or the copy that the run has kept; None if it is not set."""
    path, kept = config.grpo.starts.file, boards_file(run, "grpo")
    if path is None:
        return None
    found = read_start_boards(
        kept if kept.is_file() else path,
        context.words,
        context.split,
        config.game.rules,
        outside=False,
        opening=context.prompter.opening(),
    )
    return found.limited(config.grpo.max_secrets)


def write_data(
    config: RunConfig,
    context: GameContext,
    run: Path,
    boards: StartBoards | None = None,
    validation: Sequence[str] | None = None,
    agent: str = AGENT,
) -> None:
    """Write what is trained on and what is validated as parquet in verl's columns.

    Args:
        boards: Secrets to train on, or boards, to which as many training secrets are added. None: the training secrets.
        validation: Secrets to validate. None: those of the split.
    """
    from datasets import Dataset

    rng, secrets = random.Random(config.seed), list(context.split.train[: config.grpo.max_secrets or None])
    if boards is not None and boards.names_secrets:
        secrets = list(boards.secrets)
    elif boards is not None:
        secrets = [rng.choice(secrets) for _ in boards.starts]
    train = [InitialState(secret) for secret in secrets]
    if boards is not None and not boards.names_secrets:
        train += boards.starts
    rng.shuffle(train)
    shown = [InitialState(secret) for secret in (context.split.val if validation is None else validation)]
    # verl measures the opening prompt; secret and board are read by the agent loop alone.
    prompt = [dict(message) for message in context.prompter.opening()]
    for split, starts in (("train", train), ("val", shown)):
        rows = [
            {
                "data_source": f"wordle_{split}",
                "agent_name": agent,
                "prompt": prompt,
                "secret": start.secret,
                "prefix_guesses": " ".join(start.prefix_guesses),
                "split": split,
                "reward_model": {"style": "rule", "ground_truth": start.secret},
                "extra_info": {"index": index, "split": split},
            }
            for index, start in enumerate(starts)
        ]
        path = data_file(run, split)
        path.parent.mkdir(parents=True, exist_ok=True)
        Dataset.from_list(rows).to_parquet(path)


def write_agent_file(run: Path) -> None:
    """Name our agent loops to verl; JSON is YAML too."""
    about = {"_target_": "wordle_rl.trainers.verl.agent_loop.WordleAgentLoop", "run_directory": str(run)}
    rows = [{"name": AGENT, **about}, {"name": TOOL_AGENT, **about, "tool": True}]
    agent_file(run).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def _take_model(run: Path, games: RunGames, start: str) -> None:
    """Save the newest weights as `<run>/grpo`, with the tokenizer and template that played."""
    model, _ = load_model(games.config.model_at(last_weights(run)), games.config.seed)
    save_model(model, games.codec, run / "grpo")
    lesson = lesson_of(games.config.words, games.context.split)
    finish_model(run / "grpo", trained_further(described_at(start), games.config.game, lesson))


def rewind_logs(run: Path) -> None:
    """Remove the rows that a resumed training writes again: all after its newest checkpoint."""
    done = _steps_saved(run) or 0
    # Validation comes again before the first step.
    games = {"grpo": done + 1, "grpo/validation": done}
    rewind(run, {"metrics.jsonl": games, "games.jsonl": games, "secrets.jsonl": {"grpo": done}})


def _steps_saved(run: Path) -> int | None:
    tracker = checkpoints(run) / "latest_checkpointed_iteration.txt"  # written last
    return int(tracker.read_text()) if tracker.is_file() else None


def last_weights(run: Path) -> Path:
    """Return the transformers directory in the newest whole checkpoint."""
    done = _steps_saved(run)
    if done is None:
        raise RunError(f"verl left no checkpoint in {checkpoints(run)}; its log says why")
    weights = checkpoints(run) / f"global_step_{done}" / "actor" / "huggingface"
    if not any(weights.glob("*.safetensors")):
        raise RunError(f"{weights} holds no weights; leave hf_model in actor.checkpoint.save_contents")
    return weights
