"""Played games as training sees them: scored against their group, measured, and turned into rows of tokens."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import GRPOTraining
from wordle_rl.data.dataset import Example
from wordle_rl.data.game_record import GameRecord
from wordle_rl.env import Transcript
from wordle_rl.game import Turn
from wordle_rl.reward import RewardBreakdown, Rubric, format_compliance, with_candidates
from wordle_rl.rollout import Trajectory, mask_without_overlong
from wordle_rl.runs import BY_TURN, RunError
from wordle_rl.train.advantages import TurnValues, find_credit, is_constant, token_advantages
from wordle_rl.train.starts import GameSetup
from wordle_rl.words import WordList


@dataclass(frozen=True, slots=True)
class Scored:
    """A game with its reward, and the advantage of each of its own turns.

    Turns from `num_live_turns` on are not trained on, because no answer fits the board any more. None: train on all.
    """

    trajectory: Trajectory
    reward: RewardBreakdown
    advantages: TurnValues
    num_live_turns: int | None = None


@dataclass(frozen=True, slots=True)
class Board:
    """A prompt that a game reached: its token ids, the turns so far, and the game's secret."""

    prompt_ids: tuple[int, ...]
    turns: tuple[Turn, ...]
    secret: str


@dataclass(frozen=True, slots=True)
class Measured:
    """Metrics of some games.

    Attributes:
        means: Means by name.
        denominators: Number of games or replies that a mean is over, for each mean that is not over all games.
        num_wins: Number of games won.
    """

    means: dict[str, float]
    denominators: dict[str, int]
    num_wins: int


def check_some_played(games: Sequence[Scored], failed: Sequence[str], step: str) -> dict[str, float]:
    """Count games dropped because sampling failed (endpoint error, timeout).

    Args:
        games: The games that were played.
        failed: The reason for each game that failed.
        step: Name of the step, for the message.

    Returns:
        `failed_games`, if there are any; otherwise nothing.

    Raises:
        RunError: If no game could be played.
    """
    if not games:
        why = f": {failed[0]}" if failed else ""
        raise RunError(f"no game of {step} could be played{why}; fix the sampler and run again to resume from there")
    return {"failed_games": float(len(failed))} if failed else {}


def measured(games: Sequence[Scored], words: WordList) -> Measured:
    """Compute the metrics of games."""
    transcripts = [game.trajectory.transcript for game in games]
    # A secret outside the answers cannot be won by reasoning, so it counts neither as a win nor as a loss.
    winnable = [transcript for transcript in transcripts if transcript.secret in words.answer_index]
    wins = [transcript.turns_used for transcript in winnable if transcript.won]
    components: Counter[str] = Counter()
    for game in games:
        components.update(game.reward.values)
    means = {f"reward/{name}": total / len(games) for name, total in components.items()}
    means["format_compliance"] = format_compliance(transcripts)
    if winnable:
        means["win_rate"] = len(wins) / len(winnable)
        # Rules with free refusals allow more guesses than turns; such a win counts as one by the last turn.
        max_turns = transcripts[0].rules.max_turns
        turns = [min(used, max_turns) for used in wins]
        means |= {
            f"{BY_TURN}{turn}": sum(used <= turn for used in turns) / len(winnable) for turn in range(1, max_turns + 1)
        }
    if wins:
        means["mean_guesses"] = statistics.fmean(wins)
    replies = [turn for transcript in transcripts for turn in transcript.own_turns]
    tokens = [
        stop - start for game in games for segment in game.trajectory.segments for _, start, stop in segment.spans
    ]
    denominators = {name: len(winnable) for name in means if name.startswith("win_rate")}
    denominators |= {"mean_guesses": len(wins), "format_compliance": len(replies)}
    if replies and tokens:
        means["overlong_share"] = statistics.fmean(turn.overlong for turn in replies)
        means["reply_tokens"] = statistics.fmean(tokens)
        denominators |= {"overlong_share": len(replies), "reply_tokens": len(tokens)}
    return Measured(means, denominators, len(wins))


def group_rows(group: int, games: Sequence[Scored]) -> list[dict[str, Any]]:
    """Convert the scored games of a group to rows of games.jsonl; `group` is its number within the step."""
    rows = []
    for number, game in enumerate(games):
        row = GameRecord.of(game.trajectory.transcript, game.reward, game.advantages).to_row()
        rows.append({"group": group, "game": number, "group_size": len(games), **row})
    return rows


def boards_of(game: Scored) -> Iterator[tuple[Board, tuple[int, ...], bool]]:
    """Yield every board of a game with the reply given there, as token ids, and whether that reply is sound.

    A sound reply is complete, and the rules allow its guess.
    """
    transcript = game.trajectory.transcript
    turns = tuple(played.turn for played in transcript.turns)
    num_given = len(turns) - len(transcript.own_turns)
    for segment in game.trajectory.segments:
        for own, start, stop in segment.spans:
            played = transcript.own_turns[own]
            prompt_ids = segment.prompt_ids + segment.token_ids[:start]  # what the sampler saw, token for token
            board = Board(prompt_ids, turns[: num_given + own], transcript.secret)
            yield board, segment.token_ids[start:stop], not (played.overlong or played.turn.outcome.broke_rules)


@dataclass(frozen=True, slots=True)
class PlayedGame:
    """A game before it is scored.

    Attributes:
        trajectory: The game. With candidates, it has one segment for each of them.
        candidate_values: With candidates, their values for each own turn; otherwise empty.
    """

    trajectory: Trajectory
    candidate_values: tuple[TurnValues, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Scored games that share a secret and an initial state.

    Attributes:
        games: The games that did not fail.
        reward_std: Standard deviation of their total rewards; with candidates, of the values within a turn, averaged
            over turns.
        is_constant: True if every advantage is zero, so that there is nothing to learn.
        failed: Reasons of the games that were dropped: sampling failed, or the reward is not finite.
    """

    games: list[Scored]
    reward_std: float
    is_constant: bool
    failed: tuple[str, ...] = ()


def score_group(group: Sequence[PlayedGame], rubric: Rubric, setup: GameSetup, settings: GRPOTraining) -> Group:
    """Score the games of a group and compare them.

    Games whose sampling failed or whose reward is not finite are dropped; the others form the baseline.

    Args:
        group: Games that share a secret and an initial state.
        rubric: The rewards of this step.
        setup: Words and solver.
        settings: `credit` and `scale_advantages`; with `turn_candidates` above 1, compare candidates instead.
    """
    failed = [game.trajectory.error for game in group if game.trajectory.error is not None]
    played = [game for game in group if game.trajectory.error is None]
    scored = [(game, rubric.score(game.trajectory.transcript, setup.solver)) for game in played]
    finite = [(game, reward) for game, reward in scored if _is_finite(game, reward)]
    failed += ["its reward is not finite"] * (len(scored) - len(finite))
    group, rewards = [game for game, _ in finite], [reward for _, reward in finite]
    live: list[int | None] = [None] * len(group)
    std = 0.0
    if len(group) < (2 if settings.turn_candidates == 1 else 1):  # nothing to compare with
        advantages = [(0.0,) * len(reward.turn_rewards) for reward in rewards]
    elif settings.turn_candidates > 1:
        advantages = [candidate_advantages(game.candidate_values) for game in group]
        std = statistics.fmean(statistics.pstdev(values) for game in group for values in game.candidate_values)
    else:
        live = [num_live_turns(game.trajectory.transcript, setup) for game in group]
        advantages = _game_advantages(rewards, live, settings)
        std = statistics.pstdev(reward.total for reward in rewards)
    trajectories = [game.trajectory for game in group]
    games = [Scored(*of) for of in zip(trajectories, rewards, advantages, live, strict=True)]
    return Group(games, std, is_constant(advantages), tuple(failed))


def _is_finite(game: PlayedGame, reward: RewardBreakdown) -> bool:
    values = (reward.total, *reward.turn_rewards, *(value for turn in game.candidate_values for value in turn))
    return all(map(math.isfinite, values))


def candidate_advantages(values: Sequence[TurnValues]) -> TurnValues:
    """Centre the values of the candidates within each turn, and concatenate the turns.

    Examples:
        >>> candidate_advantages([(0.0, 1.0), (0.25, 0.25)])
        (-0.5, 0.5, 0.0, 0.0)
    """
    return tuple(value - statistics.fmean(turn) for turn in values for value in turn)


def _game_advantages(
    rewards: Sequence[RewardBreakdown], live: Sequence[int | None], settings: GRPOTraining
) -> list[TurnValues]:
    # Only live turns enter the baseline; the turns after them get 0.0.
    compared = [reward.turn_rewards[:turns] for reward, turns in zip(rewards, live, strict=True)]
    advantages = find_credit(settings.credit)(compared, scale=settings.scale_advantages)
    return [
        values + (0.0,) * (len(reward.turn_rewards) - len(values))
        for values, reward in zip(advantages, rewards, strict=True)
    ]


def num_live_turns(transcript: Transcript, setup: GameSetup) -> int:
    """Count the own turns to train on, at least 1.

    These are all of them or, if the secret is outside the answers, those at which some answer still fits the board.
    """
    if transcript.secret in setup.words.answer_index:
        return len(transcript.own_turns)
    return max(1, sum(len(candidates) > 0 for _, candidates in with_candidates(transcript, setup.solver)))


def rows_of(game: Scored, codec: ChatCodec, mask_overlong: bool = False) -> list[Example]:
    """Convert a scored game to sequences to learn from: one per transcript, or one per turn in state shape.

    Args:
        game: A `Scored` game.
        codec: Knows the ids that end a turn.
        mask_overlong: Leave replies that were cut at the token limit out of the loss.
    """
    rows = []
    for segment in game.trajectory.segments:
        loss_mask = mask_without_overlong(segment, codec.stop_ids) if mask_overlong else list(segment.loss_mask)
        for turn, start, stop in segment.spans:
            if game.num_live_turns is not None and turn >= game.num_live_turns:
                loss_mask[start:stop] = [0] * (stop - start)  # no answer fits the board any more
        nothing = [0] * len(segment.prompt_ids)
        rows.append(
            Example(
                token_ids=[*segment.prompt_ids, *segment.token_ids],
                loss_mask=nothing + loss_mask,
                advantages=nothing + token_advantages(segment, game.advantages),
                sampler_logprobs=[*nothing, *segment.sampler_logprobs],
            )
        )
    return rows
