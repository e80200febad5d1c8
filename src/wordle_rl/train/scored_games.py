"""Played games as training sees them: scored against their group, measured, and turned into rows of tokens."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.chat.masks import mask_without_overlong
from wordle_rl.config.stages import GRPOSettings
from wordle_rl.data.game_record import GameRecord
from wordle_rl.env import Transcript
from wordle_rl.game import Turn
from wordle_rl.prompt import Prompter
from wordle_rl.reward import RewardBreakdown, Rubric, format_compliance, with_candidates
from wordle_rl.rollout import ShouldStop, Trajectory
from wordle_rl.runs import BY_TURN, RunError
from wordle_rl.solver import fitting_answers
from wordle_rl.train.advantages import TurnValues, find_credit, is_constant, token_advantages
from wordle_rl.train.example import Example
from wordle_rl.train.starts import GameSetup
from wordle_rl.words import WordList

if TYPE_CHECKING:
    from wordle_rl.train.learner import Learner


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
    """Metrics of some games: means by name, and how many games were won.

    `denominators` has the number of games or replies that a mean is over, for each mean that is not over all games.
    """

    means: dict[str, float]
    denominators: dict[str, int]
    num_wins: int


def check_some_played(games: Sequence[Scored], failed: Sequence[str], step: str) -> dict[str, float]:
    """Count games dropped because sampling failed (endpoint error, timeout), as metrics; refuse if no game is left."""
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
        turns = range(1, transcripts[0].rules.max_turns + 1)
        means |= {f"{BY_TURN}{turn}": sum(used <= turn for used in wins) / len(winnable) for turn in turns}
    if wins:
        means["mean_guesses"] = statistics.fmean(wins)
    invented = [transcript.won for transcript in transcripts if transcript.secret not in words]
    if invented:
        means["invented_win_rate"] = statistics.fmean(invented)
    replies = [turn for transcript in transcripts for turn in transcript.own_turns]
    tokens = [
        stop - start for game in games for segment in game.trajectory.segments for _, start, stop in segment.spans
    ]
    denominators = {name: len(winnable) for name in means if name.startswith("win_rate")}
    denominators |= {"mean_guesses": len(wins), "format_compliance": len(replies), "invented_win_rate": len(invented)}
    if replies and tokens:
        means["cut_off_rate"] = statistics.fmean(turn.overlong for turn in replies)
        means["reply_tokens"] = statistics.fmean(tokens)
        denominators |= {"cut_off_rate": len(replies), "reply_tokens": len(tokens)}
    return Measured(means, denominators, len(wins))


_SUMS = {"cumulative_wins", "failed_games", "refilled_groups", "skipped_groups"}


def merged_metrics(records: Sequence[tuple[Mapping[str, float], Mapping[str, int]]]) -> dict[str, float]:
    """Merge metrics and denominators of all processes: sum counts, average the rest weighted by denominators."""
    found: dict[str, list[tuple[float, int]]] = {}
    for metrics, denominators in records:
        for name, value in metrics.items():
            found.setdefault(name, []).append((value, denominators.get(name, 1)))
    return {
        name: sum(value for value, _ in values)
        if name in _SUMS
        else sum(value * count for value, count in values) / max(sum(count for _, count in values), 1)
        for name, values in found.items()
    }


def group_rows(group: int, games: Sequence[Scored]) -> list[dict[str, Any]]:
    """Convert the scored games of a group to rows of games.jsonl; `group` is its number within the step."""
    rows = []
    for number, game in enumerate(games):
        row = GameRecord.of(game.trajectory.transcript, game.reward, game.advantages).to_row()
        rows.append({"group": group, "game": number, "group_size": len(games), **row})
    return rows


def boards_of(game: Trajectory) -> Iterator[tuple[Board, tuple[int, ...], bool]]:
    """Yield every board of a game with the reply given there, as token ids, and whether that reply is sound.

    A sound reply is complete, and the rules allow its guess.
    """
    transcript = game.transcript
    turns = tuple(played.turn for played in transcript.turns)
    num_given = len(turns) - len(transcript.own_turns)
    for segment in game.segments:
        for own, start, stop in segment.spans:
            played = transcript.own_turns[own]
            prompt_ids = segment.prompt_ids + segment.token_ids[:start]  # what the sampler saw, token for token
            board = Board(prompt_ids, turns[: num_given + own], transcript.secret)
            yield board, segment.token_ids[start:stop], not (played.overlong or played.turn.outcome.broke_rules)


def beliefs_of(games: Sequence[Trajectory], learner: Learner, prompter: Prompter) -> list[TurnValues]:
    """Return the policy's belief in the secret, log pi(secret | board) in nats, before each own turn of each game.

    The temperature is that of play. A component of a `Rubric` sees the transcript alone. A reward by belief
    (`belief_rises`) needs the policy, so the trainer computes it, before credit.
    """
    rows: list[Example] = []
    counts: list[int] = []
    for game in games:
        reply = learner.codec.reply_ids(prompter.reply(game.transcript.secret, ""))
        boards = [board.prompt_ids for board, _, _ in boards_of(game)]
        rows += [Example([*ids, *reply], [0] * len(ids) + [1] * len(reply)) for ids in boards]
        counts.append(len(boards))
    found = iter(learner.logprobs(rows))
    return [tuple(next(found) for _ in range(count)) for count in counts]


def belief_rises(beliefs: TurnValues, clip: float, *, won: bool) -> TurnValues:
    """Return by how much the marks of each guess raise the belief in the secret, within -1 and 1.

        clip(b after - b before) / clip     times `grpo.belief_weight`, added to the rewards of the turn

    A won game ends at log 1 = 0. The last turn of a lost game earns 0: no board follows it. Without the clip the
    rewards of a game would sum to b at its end - b at its start, whatever was guessed in between (potential-based
    shaping, Ng et al. 1999): a win ends highest, and the turns share what it gained. The clip breaks this, but without
    it one board that the policy thought impossible outweighs a whole batch.

    Source: IGPO, arXiv:2510.14967.

    Examples:
        >>> belief_rises((-8.0, -7.0, -2.0), 2.0, won=True)
        (0.5, 1.0, 1.0)
        >>> belief_rises((-8.0, -7.0, -9.0), 2.0, won=False)
        (0.5, -1.0, 0.0)
    """
    rises = [after - before for before, after in pairwise((*beliefs, 0.0 if won else beliefs[-1]))]
    return tuple(max(-clip, min(clip, rise)) / clip for rise in rises)


@dataclass(frozen=True, slots=True)
class Group:
    """Scored games that share a secret and an initial state.

    Attributes:
        reward_std: Standard deviation of their total rewards; with candidates, of the values within a turn, averaged
            over turns.
        is_constant: True if every advantage is zero, so that there is nothing to learn.
        failed: Reasons of the games that were dropped: sampling failed, or the reward is not finite.
    """

    games: list[Scored]
    reward_std: float
    is_constant: bool
    failed: tuple[str, ...] = ()


def score_group(
    group: Sequence[Trajectory],
    rubric: Rubric,
    setup: GameSetup,
    settings: GRPOSettings,
    candidates: Sequence[Sequence[TurnValues]] = (),
    rises: Sequence[TurnValues] = (),
) -> Group:
    """Score the games of a group and compare them.

    Games whose sampling failed or whose reward is not finite are dropped; the others form the baseline. With
    `turn_candidates` above 1, the candidates of a turn are compared instead: `candidates` has their values, for each
    own turn of each game. `rises` has the reward by belief of each game, if it is asked for (`belief_rises`).
    """
    games: list[tuple[Trajectory, RewardBreakdown, Sequence[TurnValues]]] = []
    failed: list[str] = []
    for place, trajectory in enumerate(group):
        if trajectory.error is not None:
            failed.append(trajectory.error)
            continue
        reward = rubric.score(trajectory.transcript, setup.solver)
        if rises:
            reward = reward.plus("belief", rises[place], settings.belief_weight)
        turns = candidates[place] if candidates else ()
        numbers = (reward.total, *reward.turn_rewards, *(value for turn in turns for value in turn))
        if all(map(math.isfinite, numbers)):
            games.append((trajectory, reward, turns))
        else:
            failed.append("its reward is not finite")
    live: list[int | None] = [None] * len(games)
    std = 0.0
    if len(games) < (2 if settings.turn_candidates == 1 else 1):  # nothing to compare with
        advantages = [(0.0,) * len(reward.turn_rewards) for _, reward, _ in games]
    elif settings.turn_candidates > 1:
        # Each value above the mean of its turn.
        advantages = [tuple(value - statistics.fmean(turn) for turn in turns for value in turn) for *_, turns in games]
        std = statistics.fmean(statistics.pstdev(values) for *_, turns in games for values in turns)
    else:
        live = [num_live_turns(trajectory.transcript, setup) for trajectory, *_ in games]
        # Only live turns enter the baseline; the turns after them get 0.0.
        compared = [reward.turn_rewards[:count] for (_, reward, _), count in zip(games, live, strict=True)]
        credited = find_credit(settings.credit)(compared, scale=settings.scale_advantages)
        advantages = [
            values + (0.0,) * (len(reward.turn_rewards) - len(values))
            for values, (_, reward, _) in zip(credited, games, strict=True)
        ]
        std = statistics.pstdev(reward.total for _, reward, _ in games)
    scored = [
        Scored(trajectory, reward, values, count)
        for (trajectory, reward, _), values, count in zip(games, advantages, live, strict=True)
    ]
    return Group(scored, std, is_constant(advantages), tuple(failed))


def num_live_turns(transcript: Transcript, setup: GameSetup) -> int:
    """Count the own turns to train on, at least 1: those at which some answer still fits the board.

    A secret that is an answer always fits. For any other secret the fitting answers can run out.
    """
    if transcript.secret in setup.words.answer_index:
        return len(transcript.own_turns)
    return max(1, sum(len(candidates) > 0 for _, candidates in with_candidates(transcript, setup.solver)))


def stop_rule(setup: GameSetup, max_guesses: int) -> ShouldStop:
    """Return the rule that ends a game once nothing more can be learnt from it, or after `max_guesses`; 0: no limit."""
    fitting = fitting_answers(setup.solver)

    def should_stop(secret: str, board: Sequence[Turn], num_replies: int) -> bool:
        if num_replies == max_guesses:
            return True
        # With secrets outside the answers no answer may fit. Later guesses would be masked anyway (`num_live_turns`).
        return secret not in setup.words.answer_index and not len(fitting(board))

    return should_stop


def rows_of(game: Scored, codec: ChatCodec, mask_overlong: bool = False) -> list[Example]:
    """Convert a scored game to sequences to learn from: one per transcript, or one per turn in other shapes.

    With `mask_overlong`, replies that were cut at the token limit are left out of the loss.
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
