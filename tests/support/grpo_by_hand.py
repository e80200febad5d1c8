"""A GRPO step worked out by hand: scripted games, credit, and the gradient game by game by plain forward passes.

Nothing here uses the package's advantages, rows, batches, losses or learner. With L the loss of a token and p its
log-probability under the weights of the step, the gradient is the sum of dL/dp times the gradient of p, so that only p
is left to autograd.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch")
from reward_games import WORDS
from torch import Tensor

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.chat.masks import Segment
from wordle_rl.config.stages import GRPOSettings
from wordle_rl.env import Transcript
from wordle_rl.game import score_guess
from wordle_rl.policy.base import Completion
from wordle_rl.rollout import Trajectory

Reply = str | None
"""A word, prose, or None for a reply that is cut at its limit."""
FAILS = "fails"
"""A reply that the player cannot give."""


class Player:
    """An engine that says what a script holds; log-probabilities are made up, about those of a blank model."""

    def __init__(self, codec: ChatCodec, script: Sequence[Sequence[Reply]]) -> None:
        self.codec, self._script = codec, script

    def begin(self) -> None:
        pass

    def sample(self, requests) -> list[Completion]:
        return [self._said(self._script[r.game_id % len(self._script)][len(r.turns)]) for r in requests]

    def _said(self, reply: Reply) -> Completion:
        if reply == FAILS:
            return Completion("", error="the player is gone")
        text = "<guess>" if reply is None else reply if " " in reply else f"<guess>{reply}</guess>"
        ids = tuple(self.codec.encode(text) if reply is None else self.codec.reply_ids(text))
        logprobs = tuple(-5.0 + 0.3 * (place % 5 - 2) for place in range(len(ids)))
        return Completion(text, ids, logprobs, overlong=reply is None)

    @contextmanager
    def policy(self, _sampling, _seed) -> Iterator[tuple["Player", None]]:
        yield self, None

    sampler = policy

    def send_weights(self) -> None:
        pass

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Row:
    """A sequence to learn from: (start, stop, advantage) of each trained reply, by places in the completion."""

    segment: Segment
    replies: tuple[tuple[int, int, float], ...]

    @property
    def num_tokens(self) -> int:
        return sum(stop - start for start, stop, _ in self.replies)


def credits(rewards: Sequence[Sequence[float]], settings: GRPOSettings) -> list[list[float]]:
    """The advantage of each turn of each game of a group."""
    totals = [sum(values) for values in rewards]
    worth = [list(values) for values in rewards]  # what is compared at each turn
    if settings.credit == "turn":
        worth = [[sum(values[turn:]) for turn in range(len(values))] for values in rewards]
    if settings.credit == "game":
        mean = sum(totals) / len(totals)
        found = [[total - mean] * len(values) for total, values in zip(totals, rewards, strict=True)]
    else:
        means: list[float] = []
        for turn in range(max(map(len, worth))):
            reached = [values[turn] for values in worth if len(values) > turn]
            means.append(sum(reached) / len(reached) if len(reached) > 1 else means[-1])
        found = [[value - mean for value, mean in zip(values, means, strict=False)] for values in worth]
    if settings.scale_advantages:
        mean = sum(totals) / len(totals)
        deviation = math.sqrt(sum((total - mean) ** 2 for total in totals) / (len(totals) - 1))
        found = [[value / deviation for value in values] for values in found]
    return found


def live_turns(transcript: Transcript) -> int:
    """Turns at which some answer still fitted the board; all of them for a secret that is an answer."""
    if transcript.secret in WORDS.answers:
        return len(transcript.turns)
    fitting, count = list(WORDS.answers), 0
    for played in transcript.turns:
        count += bool(fitting)
        if played.turn.marks:
            fitting = [word for word in fitting if score_guess(word, played.turn.guess) == played.turn.marks]
    return count


def rows_of_group(
    games: Sequence[Trajectory], rewards: Callable[[Transcript], Sequence[float]], settings: GRPOSettings, stops
) -> list[Row]:
    """The rows of a group of games."""
    alive = [live_turns(game.transcript) for game in games]
    earned = [rewards(game.transcript)[:live] for game, live in zip(games, alive, strict=True)]
    found = []
    for game, live, values in zip(games, alive, credits(earned, settings), strict=True):
        for segment in game.segments:
            replies = [
                (start, stop, values[turn])
                for turn, start, stop in segment.spans
                if turn < live and not (settings.mask_overlong and segment.token_ids[stop - 1] not in stops)
            ]
            found.append(Row(segment, tuple(replies)))
    return found


def rows_of_candidates(game: Trajectory, value: Callable[[Segment], float]) -> list[Row]:
    """The candidates of a game; those of a turn share their prompt."""
    at: dict[tuple[int, ...], list[Segment]] = {}
    for segment in game.segments:
        at.setdefault(segment.prompt_ids, []).append(segment)
    found = []
    for candidates in at.values():
        mean = sum(map(value, candidates)) / len(candidates)
        found += [Row(each, ((0, len(each.token_ids), value(each) - mean),)) for each in candidates]
    return found


@dataclass(frozen=True)
class Step:
    """A step worked out by hand.

    Attributes:
        loss: Of the step.
        gradient: Of each weight.
        kl: KL divergence from the start, the mean of its tokens' estimates.
        entropy: Of the policy, the mean over its tokens.
        ratios: Training over sampling, of each token.
    """

    loss: float
    gradient: dict[str, Tensor]
    kl: float
    entropy: float
    ratios: Tensor


def step_of(rows: Sequence[Row], model, start_weights: dict[str, Tensor], settings: GRPOSettings, longest: int) -> Step:
    """The step on these rows of a model whose training began with `start_weights`; `longest`: tokens of a row."""
    weights = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    scored = []
    for current in (start_weights, weights):
        model.load_state_dict(current, strict=False)
        scored.append([_logprobs(model, row, settings.temperature) for row in rows])
    total = sum(row.num_tokens for row in rows)
    loss, surrogate, divergences, entropies, ratios = 0.0, torch.zeros(()), [], [], []
    for row, (reference, _), (logprobs, entropy) in zip(rows, *scored, strict=True):
        if not row.num_tokens:
            continue
        policy, reference = logprobs.detach(), reference.detach()
        sampler = torch.tensor([row.segment.sampler_logprobs[i] for a, b, _ in row.replies for i in range(a, b)])
        gain = torch.tensor([advantage for start, stop, advantage in row.replies for _ in range(start, stop)])
        ratios.append((policy - sampler).exp())
        if settings.importance_cap and not settings.batches_ahead:
            gain = gain * ratios[-1].clamp(max=settings.importance_cap)
        weight = {
            "dapo": 1 / total,
            "grpo": 1 / (row.num_tokens * len(rows)),
            "dr_grpo": 1 / (longest * len(rows)),
        }[settings.loss_type]
        # k3, which is weighed by the ratio too; the derivative of a ratio by p is the ratio.
        away = reference - policy
        divergence = away.exp() - away - 1
        divergences.append(divergence)
        entropies.append(entropy.detach())
        # Games that were played ahead have ratios to the sampler; beyond the clip range nothing is gained any more.
        ratio = ratios[-1] if settings.batches_ahead else torch.ones_like(policy)
        low, high = 1 - settings.epsilon, 1 + settings.epsilon_high
        clipped = (gain > 0) & (ratio > high) | (gain < 0) & (ratio < low)
        value = -gain * ratio.clamp(low, high).where(clipped, ratio)
        times_ratio = (-gain * ratio).where(~clipped, 0.0) + settings.beta * ratio * divergence
        slope = times_ratio + settings.beta * ratio * (1 - away.exp())
        loss += float(weight * (value + settings.beta * ratio * divergence).sum())
        surrogate = surrogate + weight * (slope * logprobs).sum()
    gradients = torch.autograd.grad(surrogate, list(model.parameters()))
    names = [name for name, _ in model.named_parameters()]
    kl, entropy = (float(torch.cat(values).mean()) for values in (divergences, entropies))
    return Step(loss, dict(zip(names, gradients, strict=True)), kl, entropy, torch.cat(ratios))


def _logprobs(model, row: Row, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the trained tokens of a row, and the entropy of the policy at each."""
    ids = torch.tensor([[*row.segment.prompt_ids, *row.segment.token_ids]])
    logits = model(input_ids=ids).logits[0, len(row.segment.prompt_ids) - 1 : -1] / temperature
    places = [place for start, stop, _ in row.replies for place in range(start, stop)]
    targets = torch.tensor([row.segment.token_ids[place] for place in places], dtype=torch.long)
    logprobs = logits.log_softmax(-1)[places]
    return logprobs.gather(1, targets[:, None])[:, 0], -(logprobs.exp() * logprobs).sum(-1)
