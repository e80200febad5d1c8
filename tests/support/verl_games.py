"""Shared parts of the tests of verl: a run on sixty words, and an agent loop whose server is in this process."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from scripted import scripted
from training_fixtures import write_config
from transformers import PreTrainedModel
from verl.experimental.agent_loop.agent_loop import DictConfigWrap
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.rollout.replica import TokenOutput

from wordle_rl.boards import InitialState
from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.context import GameContext
from wordle_rl.config.files import load_config
from wordle_rl.policy.loading import load_model, save_model
from wordle_rl.rollout import Trajectory, play
from wordle_rl.runs import Run
from wordle_rl.runs.lineage import Lineage, lesson_of, save_lineage
from wordle_rl.trainers.verl.play import RunGames, run_games
from wordle_rl.trainers.verl.trainer import compose

Loop = Any


def verl_run(directory: Path, word_directory: Path, **changes: str) -> Path:
    """A run directory whose model `sft` opens with some listed word; `changes` as of `write_config`."""
    config = load_config(write_config(directory.with_suffix(".toml"), word_directory, **changes))
    context = GameContext.of(config)
    split = context.split
    run = Run.create(directory, config, split)
    model, codec = load_model(config.model, 0)
    teach_openers(model, codec, context)
    save_model(model, codec, run.directory / "sft")
    save_lineage(run.directory / "sft", Lineage(game=config.game, lessons=(lesson_of(config.words, split),)))
    return run.directory


Completions = dict[tuple[int, ...], tuple[tuple[int, ...], tuple[float, ...]]]
"""Token ids of prompts -> token ids and log-probabilities of what was sampled there."""


def play_recorded(
    games: RunGames, start: InitialState, reply: Callable[[int], str | None]
) -> tuple[Trajectory, Completions]:
    """A game by our own rollout, and its completions.

    Args:
        games: What is played with.
        start: Secret and initial state.
        reply: Number of turns on the board -> the reply; None: one that is cut at its token limit.
    """
    completions: Completions = {}

    class Recorder(scripted(lambda _, turns: reply(len(turns)))):
        def sample(self, requests):
            said = super().sample(requests)
            for request, completion in zip(requests, said, strict=True):
                logprobs = tuple(-0.5 - 0.1 * place for place in range(len(completion.token_ids)))
                completions[tuple(request.prompt_ids)] = (completion.token_ids, logprobs)
            return said

    recorder = Recorder(None, games.codec)
    [trajectory] = play([start], games.context.words, games.context.prompter, recorder)
    return trajectory, completions


def teach_openers(model: PreTrainedModel, codec: ChatCodec, context: GameContext, steps: int = 60) -> None:
    """Teach sixty answers as a first guess, so that sampled games differ in what they earn."""
    prompt = codec.prompt_ids(context.prompter.opening())
    rows = [prompt + codec.reply_ids(context.prompter.reply(word)) for word in context.words.answers[:60]]
    ids = torch.tensor(rows)  # (words, tokens)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        logits = model(ids).logits[:, len(prompt) - 1 : -1]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, len(prompt) :].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class RecordedServer:
    """Answers a prompt with the completion that was recorded for it.

    Args:
        completions: What was sampled.
        versions: Version of the weights that answer each request; the last one stays.
    """

    def __init__(self, completions: Completions, versions: tuple[int, ...] = (3,)):
        self._completions, self._versions = completions, versions
        self.asked: list[dict[str, Any]] = []

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any]) -> TokenOutput:
        version = self._versions[min(len(self.asked), len(self._versions) - 1)]
        self.asked.append(dict(sampling_params))
        ids, logprobs = self._completions[tuple(prompt_ids)]
        about = {"global_steps": version, "min_global_steps": version, "max_global_steps": version}
        return TokenOutput(token_ids=list(ids), log_probs=list(logprobs), stop_reason="completed", extra_fields=about)


def make_loop(kind: Callable[..., Loop], run: Path, server: object, **lengths: int) -> tuple[Loop, RunGames]:
    """An agent loop of a run against a server, and what it plays with."""
    model = run / "sft"
    config = compose(
        [
            "actor_rollout_ref.rollout.name=vllm",
            f"actor_rollout_ref.model.path={model}",
            *(f"data.{name}={length}" for name, length in lengths.items()),
        ]
    )
    games = run_games(run, str(model))

    async def make() -> Loop:
        return kind(
            trainer_config=DictConfigWrap(config),
            server_manager=server,
            tokenizer=games.codec.tokenizer,
            processor=None,
            dataset_cls=RLHFDataset,
            data_config=DictConfigWrap(config.data),
            hf_model_type="qwen3",
            run_directory=str(run),
        )

    return asyncio.run(make()), games
