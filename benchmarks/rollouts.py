"""Games a second of a model: our rollout beside TRL's own `environment_factory` loop.

    python benchmarks/rollouts.py --model runs/imitation [--games 256] [--repeats 3] [--threads 1] [--json]

Both sides play the same secrets with the same model object, all games in one batch, at temperature 1, in the compact
style. Ours is `rollout.play` with `TransformersSampler`, from making the environments to finished trajectories.

TRL's side is what `GRPOTrainer` does for one batch before it scores: it resets the environments and runs `_generate`,
tool calls included; scoring is left out. For the embedded model the reply grammar itself is declared to be a tool call
(`<guess>crane</guess>` calls `guess("crane")`) and a tool's result is framed like any answer, so that the tokens read
and sampled are those of our own games, with no word spent on describing a tool. TRL stops a sequence at
`max_completion_length` tokens, answers included, so it gets the budget of a whole game: for every turn our
limit on a reply plus an answer. It cannot be told that a game is over, so a solved one is played on. It is timed twice:
with the last guess carried out, after which its loop samples one reply more, and without either, where what is sampled
is one reply a turn as in our games but the last marks are never worked out.

On a machine that does other work at the same time, `--threads 1` keeps torch's threads from waiting for each other.
"""

import argparse
import copy
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from measure import Rate, rate_of, ratio_of, show_rates, take_turns
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from trl import GRPOConfig, GRPOTrainer

from wordle_rl.boards import InitialState
from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.model import ModelSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.env import WordleEnv
from wordle_rl.policy.base import Sampler
from wordle_rl.policy.loading import load_model
from wordle_rl.policy.tiny import END, REPLY
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.prompt import Message, Prompter, Style, Thinking
from wordle_rl.rollout import play
from wordle_rl.words import WordList, load_words
from wordle_rl.words.split import split_secrets

SAMPLING = SamplingSettings(max_completion_tokens=12)
GROUP_SIZE = 8
_ANSWER_TOKENS = 8
"""Room for one answer and its frame; a compact answer has six tokens."""

TOOL_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message.role == 'assistant' -%}"
    f"{{{{- '{REPLY}' + (message.content or '') -}}}}"
    "{%- for call in message.tool_calls or [] -%}"
    "{%- if call.function.name == 'guess' -%}"
    "{{- '<guess>' + (call.function.arguments.word or '') + '</guess>' -}}"
    "{%- else -%}{{- call.function.name + (call.function.arguments | tojson) -}}{%- endif -%}"
    "{%- endfor -%}"
    f"{{{{- '{END}' -}}}}"
    "{%- else -%}{{- message.content -}}{%- endif -%}"
    "{%- endfor -%}"
    f"{{%- if add_generation_prompt -%}}{{{{- '{REPLY}' -}}}}{{%- endif -%}}"
)
"""The embedded model's template with tool calls; tokens are those of the original."""

TOOL_GRAMMAR: dict[str, Any] = {
    "defaults": {"role": "assistant"},
    "start_anchor": REPLY,
    "fields": {
        "tool_calls": {
            "open": "<guess>",
            "close": "</guess>",
            "repeats": True,
            "content": "text",
            "transform": {"type": "function", "function": {"name": "guess", "arguments": {"word": "{content}"}}},
        },
        "content": {"close": END, "content": "text"},
    },
}
"""Schema by which TRL finds the tool call in a reply."""


@dataclass(frozen=True)
class Played:
    """Counts of one rollout: games, guesses carried out, tokens sampled, games won."""

    games: int
    turns: int
    tokens: int
    wins: int

    def __str__(self) -> str:
        return f"{self.turns / self.games:.2f} turns, {self.tokens / self.games:.1f} tokens a game, {self.wins} won"


@dataclass(frozen=True)
class Table:
    """Model, words and wording of the games."""

    words: WordList
    prompter: Prompter
    model: PreTrainedModel
    codec: ChatCodec


class RolloutDoneError(Exception):
    """Raised once TRL has its completions, since scoring them is not timed."""


class RolloutTrainer(GRPOTrainer):
    """TRL's trainer, stopped after its generation."""

    def _generate(self, prompts: list[Any]) -> Any:
        _, _, self.sampled_masks, *_ = super()._generate(prompts)
        raise RolloutDoneError

    def roll_out(self, rows: list[dict[str, Any]]) -> float:
        """Seconds for one batch of games."""
        started = time.perf_counter()
        try:
            self._generate_and_score_completions(rows)
        except RolloutDoneError:
            return time.perf_counter() - started
        raise RuntimeError("TRL went on without generating")


def main() -> None:
    """Play both sides in turn and print the rates."""
    parser = argparse.ArgumentParser(description="Time rollouts.")
    parser.add_argument("--model", required=True, help="directory of an embedded model trained in the compact style")
    parser.add_argument("--games", type=int, default=256, help=f"games per batch, a multiple of {GROUP_SIZE}")
    parser.add_argument("--repeats", type=int, default=3, help="batches of each side; the median is shown")
    parser.add_argument("--threads", type=int, help="torch's threads; default: its choice")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore", FutureWarning)  # TRL's own use of transformers
    words = load_words()
    prompter = Prompter(Style.COMPACT, thinking=Thinking.OFF)
    model, codec = load_model(ModelSettings(path=options.model), seed=0)
    secrets = list(split_secrets(words, seed=0).train[: options.games // GROUP_SIZE])
    secrets = [secret for secret in secrets for _ in range(GROUP_SIZE)]
    rates = compare(Table(words, prompter, model, codec), secrets, options.repeats)
    show_rates(f"Rollouts, {len(secrets)} games a batch", "games", rates, as_json=options.json)


def compare(table: Table, secrets: Sequence[str], repeats: int) -> list[Rate]:
    """Our rollout and TRL's on the same games, in turn, after one batch of each to warm up."""
    turns = table.prompter.rules.max_turns
    calls = {"TRL environment_factory": turns, "TRL, last guess not played": turns - 1}
    log: dict[str, list[Played]] = {name: [] for name in ["wordle-rl", *calls]}
    jobs = {"wordle-rl": ours(table, secrets, log["wordle-rl"])}
    with tempfile.TemporaryDirectory() as directory:
        for name, max_calls in calls.items():
            jobs[name] = trls(table, secrets, max_calls, log[name], Path(directory))
        take_turns(jobs, 1)
        seconds = take_turns(jobs, repeats)
    rates = []
    for name, times in seconds.items():
        note = str(log[name][-1])
        if name in calls:
            note += f"; wordle-rl is {ratio_of(seconds['wordle-rl'], times):.1f} x as fast"
        rates.append(rate_of(name, len(secrets), times, note))
    return rates


def ours(
    table: Table, secrets: Sequence[str], log: list[Played], sampler: Sampler | None = None
) -> Callable[[], float]:
    """A job that plays one batch with our rollout; `sampler`: another than ours with the settings of these games."""
    sampler = sampler or TransformersSampler(table.model, table.codec, SAMPLING)
    starts = [InitialState(secret) for secret in secrets]

    def job() -> float:
        started = time.perf_counter()
        games = play(starts, table.words, table.prompter, sampler)
        elapsed = time.perf_counter() - started
        turns = sum(len(game.transcript.turns) for game in games)
        tokens = sum(sum(segment.loss_mask) for game in games for segment in game.segments)
        log.append(Played(len(games), turns, tokens, sum(game.transcript.won for game in games)))
        return elapsed

    return job


def trls(
    table: Table, secrets: Sequence[str], max_calls: int, log: list[Played], directory: Path
) -> Callable[[], float]:
    """A job that plays one batch with TRL's loop, which carries out at most `max_calls` guesses a game."""
    trainer = make_trainer(table, len(secrets), max_calls, directory)
    rows = [{"prompt": table.prompter.opening(), "secret": secret} for secret in secrets]

    def job() -> float:
        elapsed = trainer.roll_out(copy.deepcopy(rows))
        environments: list[GuessingGame] = trainer.environments or []
        games = [environment.game for environment in environments]
        turns = sum(len(game.turns) for game in games)
        tokens = sum(sum(mask) for mask in trainer.sampled_masks)
        log.append(Played(len(games), turns, tokens, sum(game.stop_reason == "solved" for game in games)))
        return elapsed

    return job


class GuessingGame:
    """Our environment in the form TRL asks for: `reset`, and a method that is the tool."""

    def __init__(self, words: WordList, prompter: Prompter) -> None:
        self._words, self._prompter = words, prompter
        self.game: WordleEnv

    def reset(self, **row: Any) -> None:
        """Begin a new game for a row of the dataset, which holds the prompt too."""
        self.game = WordleEnv(row["secret"], self._words, self._prompter)

    def guess(self, word: str) -> str:
        """Guess the secret word.

        Args:
            word: A listed word.

        Returns:
            The marks of its letters.
        """
        if self.game.stop_reason is None:
            self.game.step(self._prompter.reply(word))
        return self._prompter.feedback(self.game.turns)["content"]


def make_trainer(table: Table, num_games: int, max_calls: int, directory: Path) -> RolloutTrainer:
    """TRL's trainer around the same model object, with a copy of the tokenizer that knows the tool."""
    tokenizer: PreTrainedTokenizerBase = copy.deepcopy(table.codec.tokenizer)
    tokenizer.chat_template = TOOL_TEMPLATE
    tokenizer.response_template = TOOL_GRAMMAR
    turns = table.prompter.rules.max_turns
    arguments = GRPOConfig(
        output_dir=str(directory),
        per_device_train_batch_size=num_games,
        num_generations=GROUP_SIZE,
        max_completion_length=turns * (SAMPLING.max_completion_tokens + _ANSWER_TOKENS),
        max_tool_calling_iterations=max_calls,
        temperature=SAMPLING.temperature,
        bf16=False,
        gradient_checkpointing=False,
        use_cpu=table.model.device.type == "cpu",
        report_to=[],
        disable_tqdm=True,
        log_level="error",
    )
    trainer = RolloutTrainer(
        model=table.model,
        reward_funcs=no_reward,
        args=arguments,
        train_dataset=Dataset.from_dict({"prompt": [table.prompter.opening()] * num_games}),
        processing_class=tokenizer,
        environment_factory=lambda: GuessingGame(table.words, table.prompter),
    )
    check_same_tokens(trainer, table)
    return trainer


def check_same_tokens(trainer: RolloutTrainer, table: Table) -> None:
    """Make sure that TRL frames prompts and answers in the very tokens of our games.

    Raises:
        RuntimeError: If it does not, as with a model whose tokenizer is not the embedded one.
    """
    opening = table.prompter.opening()
    tokenizer: Any = trainer.processing_class
    prompt = tokenizer.apply_chat_template(opening, tokenize=True, add_generation_prompt=True, return_dict=False)
    result = {"role": "tool", "name": "guess", "content": "cGrXaYnXeG"}
    answer = trainer._get_tool_suffix_ids([result])  # type: ignore[no-untyped-call]  # TRL leaves it untyped
    own_answer = table.codec.bridge_ids(Message(role="user", content="cGrXaYnXeG"))
    if prompt != table.codec.prompt_ids(opening) or answer != own_answer:
        raise RuntimeError("TRL and wordle-rl frame a game differently; give an embedded model in the compact style")


def no_reward(completions: list[Any], **_: object) -> list[float | None]:
    """TRL wants a reward; it is never asked for one here."""
    return [0.0] * len(completions)


if __name__ == "__main__":
    main()
