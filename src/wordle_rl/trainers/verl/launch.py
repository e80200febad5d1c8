"""A training from a run's config to a run's model: what verl needs on disk, the training, the model."""

from __future__ import annotations

import json
import random
from pathlib import Path

from wordle_rl.chat.codec import longest_game
from wordle_rl.cli import console
from wordle_rl.config import ConfigError, RunConfig
from wordle_rl.config.context import GameContext
from wordle_rl.pipeline import finish_model
from wordle_rl.policy.gguf import at_directory
from wordle_rl.policy.loading import load_model, save_model
from wordle_rl.prompt import Style
from wordle_rl.runs import Run, RunError
from wordle_rl.runs.lineage import is_trained, leak_warning, lesson_of, trained_further
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
    context = GameContext.of(config)
    start = _start(config, run)
    games = RunGames.of(config, start, tool=cluster.tool)
    doubt = leak_warning(Path(start), context.split)
    for note in (f"model.path {doubt}" if doubt else "", _check_lengths(games, cluster)):
        if note:
            console.messages.print(f"note: {note}", highlight=False, soft_wrap=True)
    overrides = translated(config, cluster, run, start)
    if show:
        for override in overrides:
            console.out.print(override, highlight=False, markup=False, soft_wrap=True)
        return
    from wordle_rl.trainers.verl.trainer import compose, train

    Run.create(run, config, context.split)
    write_data(config, context, run, TOOL_AGENT if cluster.tool else AGENT)
    write_agent_file(run)
    train(compose(overrides))
    _take_model(run, games, start)
    console.out.print(f"model: {run / 'grpo'}", highlight=False)


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


def _check_lengths(games: RunGames, cluster: VerlSettings) -> str:
    """Refuse prompts that verl would filter out; return a note if games may be truncated, else ''."""
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
        return ""
    return (
        f"a game may come to {longest} tokens, and is truncated where its next completion could exceed "
        f"--max-response-tokens {cluster.max_response_tokens}"
    )


def write_data(config: RunConfig, context: GameContext, run: Path, agent: str = AGENT) -> None:
    """Write the training secrets, in an order of the seed, and the validation secrets as parquet in verl's columns."""
    from datasets import Dataset

    train = list(context.split.train[: config.rl.max_secrets or None])
    random.Random(config.seed).shuffle(train)
    prompt = [dict(message) for message in context.prompter.opening()]  # verl measures it; only our loop reads `secret`
    for split, secrets in (("train", train), ("val", context.split.val)):
        rows = [
            {
                "data_source": f"wordle_{split}",
                "agent_name": agent,
                "prompt": prompt,
                "secret": secret,
                "split": split,
                "reward_model": {"style": "rule", "ground_truth": secret},
                "extra_info": {"index": index, "split": split},
            }
            for index, secret in enumerate(secrets)
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
    finish_model(run / "grpo", trained_further(Path(start), games.config.game, lesson))


def last_weights(run: Path) -> Path:
    """Return the transformers directory in the newest whole checkpoint."""
    tracker = checkpoints(run) / "latest_checkpointed_iteration.txt"  # written last
    if not tracker.is_file():
        raise RunError(f"verl left no checkpoint in {checkpoints(run)}; its log says why")
    weights = checkpoints(run) / f"global_step_{tracker.read_text().strip()}" / "actor" / "huggingface"
    if not any(weights.glob("*.safetensors")):
        raise RunError(f"{weights} holds no weights; leave hf_model in actor.checkpoint.save_contents")
    return weights
