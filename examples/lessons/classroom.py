"""What all lessons use: a game small enough to learn in seconds, a beginner who knows only its form, and an exam.

Twelve words may be said, in three guesses; four of them are ever the secret, and nobody tells the player which. Luck
wins a quarter of the games. The player is a transformer of 0.1 M parameters that reads one character a token.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

from wordle_rl.boards import InitialState
from wordle_rl.chat.codec import ChatCodec
from wordle_rl.chat.masks import encode_game
from wordle_rl.config.training import SamplingSettings
from wordle_rl.env import WordleEnv
from wordle_rl.game import Rules
from wordle_rl.policy.tiny import make_model, make_tokenizer
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.prompt import Message, Prompter, Style, Thinking
from wordle_rl.reward import Rubric
from wordle_rl.rollout import Trajectory, groups_of, play
from wordle_rl.solver import Solver
from wordle_rl.train.advantages import Credit, TurnValues, turn_advantages
from wordle_rl.train.example import Example
from wordle_rl.train.logprobs import Scorer
from wordle_rl.train.loss import cross_entropy
from wordle_rl.train.micro_batches import Batch
from wordle_rl.train.scored_games import Scored, rows_of
from wordle_rl.words import WordList, load_words

LISTED = load_words().answers[::228]  # twelve words
SECRETS = LISTED[1::3]
WORDS = WordList("twelve words", SECRETS, LISTED)
SOLVER = Solver(WORDS)
REWARD = Rubric({"win": 1.0, "speed": 0.5, "rule_break": -0.2}, keep_order=False)
"""A win earns 1, a quick one up to 0.5 more; the first broken rule of a game costs 0.2."""
PROMPTER = Prompter(style=Style.COMPACT, thinking=Thinking.OFF, rules=Rules(max_turns=3))
CODEC = ChatCodec(make_tokenizer())
SAMPLING = SamplingSettings(max_completion_tokens=8)  # <guess>, five letters, </guess>, end of turn
GROUP_SIZE = 16


def encode(conversation: Sequence[Message]) -> tuple[list[int], list[int]]:
    """Return the tokens of a conversation, and 1 at those of replies."""
    return encode_game(CODEC, conversation)


def beginner(
    codec: ChatCodec = CODEC,
    steps: int = 80,
    encode: Callable[[Sequence[Message]], tuple[Sequence[int], Sequence[int]]] = encode,
) -> PreTrainedModel:
    """A player who can say the twelve words, and knows nothing else: trained on them in random order."""
    torch.set_num_threads(1)  # more would only wait for each other over a model this small
    model = make_model(codec.tokenizer, hidden_size=64, num_heads=2, intermediate_size=128)
    optimizer, scorer, rng = adamw(model, 5e-3), Scorer(model), random.Random(0)
    for _ in range(steps):
        rows: list[Example] = []
        while len(rows) < 16:
            env = WordleEnv(rng.choice(LISTED), WORDS, PROMPTER)
            for guess in rng.sample(LISTED, len(LISTED)):
                if env.step(f"<guess>{guess}</guess>").stop_reason:
                    break
            rows.append(Example(*encode(env.conversation)))
        batch = batch_of(rows)
        update(optimizer, cross_entropy(scorer(batch)[0], batch.weights))
    return model


def play_groups(
    model: PreTrainedModel,
    seed: int,
    group_size: int = GROUP_SIZE,
    *,
    secrets: Sequence[str] = SECRETS,
    temperature: float = 1.0,
    codec: ChatCodec = CODEC,
) -> list[list[Trajectory]]:
    """Play every secret `group_size` times, all games in lockstep; the games of a secret are a group."""
    starts = [InitialState(secret) for secret in secrets for _ in range(group_size)]
    sampling = SAMPLING.model_copy(update={"temperature": temperature})
    games = play(starts, WORDS, PROMPTER, TransformersSampler(model, codec, sampling, seed))
    return groups_of(games, group_size)


def earned(game: Trajectory) -> TurnValues:
    """The reward of each turn of a game."""
    return REWARD.score(game.transcript, SOLVER).turn_rewards


def weighed(
    groups: Sequence[Sequence[Trajectory]],
    credit: Credit = turn_advantages,
    reward: Callable[[Trajectory], TurnValues] = earned,
) -> list[Example]:
    """Games as rows of tokens, each action with the advantage of its turn; lesson 1 spells this out."""
    rows = []
    for group in groups:
        for game, advantages in zip(group, credit([reward(game) for game in group]), strict=True):
            rows += rows_of(Scored(game, REWARD.score(game.transcript, SOLVER), advantages), CODEC)
    return rows


def batch_of(rows: Sequence[Example]) -> Any:
    """Rows as a `Batch`; every trained token weighs 1 / their number, so that a loss is a mean over tokens."""
    num_tokens = sum(sum(row.loss_mask) for row in rows)
    return Batch.of(rows, [1 / max(1, num_tokens)] * len(rows), CODEC.pad_id)


def adamw(model: PreTrainedModel, rate: float = 1e-3) -> torch.optim.Optimizer:
    """The optimizer of all lessons."""
    return torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)


def update(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    """One optimizer step."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def gradient_of(scorer: Scorer, rows: Sequence[Example]) -> torch.Tensor:
    """The gradient of the policy-gradient loss, all weights in one vector."""
    batch = batch_of(rows)
    scorer.zero_grad()
    (-(batch.weights * batch.advantages * scorer(batch)[0]).sum()).backward()
    return torch.cat([weights.grad.flatten() for weights in scorer.parameters() if weights.grad is not None])


def agreement(gradients: Sequence[torch.Tensor]) -> float:
    """The mean cosine of pairs of gradients: the signal in them, since noise differs; 0 is all noise."""
    directions = torch.nn.functional.normalize(torch.stack([*gradients]), dim=1)  # (gradients, weights)
    # The squared length of the sum counts every pair twice, and each direction with itself.
    pairs = float(directions.sum(0).square().sum()) - len(gradients)
    return pairs / (len(gradients) * (len(gradients) - 1))


def won(groups: Sequence[Sequence[Trajectory]]) -> float:
    """The fraction of games that were won."""
    games = [game for group in groups for game in group]
    return sum(game.transcript.won for game in games) / len(games)


def show(step: int, groups: Sequence[Sequence[Trajectory]]) -> None:
    """Print how many games of a step were won, now and then."""
    if step % 5 == 0:
        print(f"step {step:3}: {won(groups):4.0%} of the games won")


def win_rate(model: PreTrainedModel, secrets: Sequence[str] = SECRETS, temperature: float = 1.0) -> float:
    """The exam: 64 games of every secret, as the model plays when it learns (temperature 1)."""
    return won(play_groups(model, seed=10_000, group_size=64, secrets=secrets, temperature=temperature))
