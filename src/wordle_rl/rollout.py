"""Play many games in lockstep with one sampler: games -> trajectories -> groups.

All games of a batch advance together with one sampler call a turn. A finished game leaves the batch at once.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from wordle_rl.boards import InitialState, start_of
from wordle_rl.chat.codec import ChatCodec, opening_length
from wordle_rl.chat.masks import Segment
from wordle_rl.env import StopReason, Transcript, WordleEnv
from wordle_rl.game import Turn
from wordle_rl.policy.base import Ask, Completion, Request, Sampler
from wordle_rl.prompt import Prompter, Shape, Thinking
from wordle_rl.words import WordList

SampleTokens = Callable[[list[int]], Awaitable[tuple[Sequence[int], Sequence[float]]]]
"""Maps the token ids of a prompt to those of a completion, closing token included, and their log-probabilities."""

ShouldStop = Callable[[str, Sequence[Turn], int], bool]
"""Maps the secret, the board and the number of replies so far to whether the rest of a game is not needed."""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One played game: its transcript and, for token samplers, its tokens exactly as sampled.

    `error` says why a game could not be finished. Such a game is no loss and has no reward.
    """

    transcript: Transcript
    segments: tuple[Segment, ...] = ()
    error: str | None = None


@dataclass
class ActiveGame:
    """A game in play. Token samplers also use the open sequence; finished ones are in `segments`."""

    game_id: int
    secret: str
    env: WordleEnv
    own_turns: int = 0
    error: str | None = None
    prompt_ids: list[int] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    loss_mask: list[int] = field(default_factory=list)
    sampler_logprobs: list[float] = field(default_factory=list)
    spans: list[tuple[int, int, int]] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)

    def all_ids(self) -> list[int]:
        """Tokens of the open sequence: the next prompt."""
        return self.prompt_ids + self.token_ids

    def add_environment(self, ids: Sequence[int]) -> None:
        """Append environment tokens (loss mask 0)."""
        self.token_ids += ids
        self.loss_mask += [0] * len(ids)
        self.sampler_logprobs += [0.0] * len(ids)

    def add_completion(self, completion: Completion) -> None:
        """Append the reply of the next own turn (loss mask 1)."""
        start = len(self.token_ids)
        self.token_ids += completion.token_ids
        self.loss_mask += [1] * len(completion.token_ids)
        self.sampler_logprobs += completion.sampler_logprobs
        self.spans.append((self.own_turns, start, len(self.token_ids)))
        self.own_turns += 1

    def close_segment(self) -> None:
        """End the open sequence after its last reply."""
        stop = self.spans[-1][2]  # drop an observation after which no reply was sampled
        self.segments.append(
            Segment(
                tuple(self.prompt_ids),
                tuple(self.token_ids[:stop]),
                tuple(self.loss_mask[:stop]),
                tuple(self.sampler_logprobs[:stop]),
                tuple(self.spans),
            )
        )
        self.prompt_ids, self.token_ids, self.loss_mask, self.sampler_logprobs, self.spans = [], [], [], [], []

    def close(self) -> Trajectory:
        """Return the record of the finished game."""
        if self.spans:
            self.close_segment()
        return Trajectory(self.env.transcript(), tuple(self.segments), self.error)


def play(
    starts: Sequence[InitialState],
    words: WordList,
    prompter: Prompter,
    sampler: Sampler,
    *,
    max_prompt_tokens: int | None = None,
    on_finished: Callable[[int, Trajectory], None] | None = None,
    should_stop: ShouldStop | None = None,
) -> list[Trajectory]:
    """Play one game per start, and return the trajectories in that order.

    Args:
        max_prompt_tokens: Truncate a game whose next prompt would be longer. None: no limit.
        on_finished: Called with the index and trajectory of each game as it ends.
        should_stop: Called after each turn. True truncates the game (`NOT_NEEDED`).
    """
    sampler.begin()  # ids start at 0 again, so a cache of earlier games must go
    trajectories: dict[int, Trajectory] = {}
    active = [open_game(game_id, start, words, prompter, sampler.codec) for game_id, start in enumerate(starts)]
    while active:
        asked = [running for running in active if not truncate_if_too_long(running, max_prompt_tokens)]
        requests = [
            Request(running.game_id, running.env.conversation, running.env.turns, running.all_ids())
            for running in asked
        ]
        for running, completion in zip(asked, sampler.sample(requests) if requests else [], strict=True):
            advance(running, completion, sampler.codec)
        for running in active:
            env = running.env
            if should_stop and env.stop_reason is None and should_stop(running.secret, env.turns, running.own_turns):
                env.truncate(StopReason.NOT_NEEDED)
            if running.env.stop_reason is not None:
                trajectory = running.close()
                trajectories[running.game_id] = trajectory
                if on_finished is not None:
                    on_finished(running.game_id, trajectory)
        active = [running for running in active if running.env.stop_reason is None]
    return [trajectories[game_id] for game_id in range(len(starts))]


async def play_alone(
    game_id: int, start: InitialState, words: WordList, prompter: Prompter, ask: Ask, timeout_s: float | None = None
) -> Trajectory:
    """Play one game at its own pace with a player that returns text only. Past `timeout_s` it is an error."""
    running = open_game(game_id, start, words, prompter, None)
    try:
        async with asyncio.timeout(timeout_s) as limit:
            while running.env.stop_reason is None:
                request = Request(game_id, running.env.conversation, running.env.turns)
                advance(running, await ask(request), None)
    except TimeoutError:
        if not limit.expired():
            raise
        advance(running, Completion("", error=f"the game took longer than {timeout_s:g} s"), None)
    return running.close()


async def play_tokens(
    running: ActiveGame, codec: ChatCodec, sample: SampleTokens, max_prompt_tokens: int | None = None
) -> Trajectory:
    """Play a game of `open_game` to its end with another engine, tokens in and tokens out."""
    while running.env.stop_reason is None and not truncate_if_too_long(running, max_prompt_tokens):
        ids, logprobs = await sample(running.all_ids())
        advance(running, Completion.of_tokens(codec, ids, logprobs), codec)
    return running.close()


def groups_of(trajectories: Sequence[Trajectory], group_size: int) -> list[list[Trajectory]]:
    """Cut a batch, in order, into groups of trajectories that share a secret and an initial state."""
    if group_size < 1 or len(trajectories) % group_size:
        raise ValueError(f"{len(trajectories)} trajectories do not divide into groups of {group_size}")
    groups = [list(trajectories[i : i + group_size]) for i in range(0, len(trajectories), group_size)]
    if any(len({start_of(trajectory.transcript) for trajectory in group}) > 1 for group in groups):
        raise ValueError(f"every {group_size} trajectories in a row must share their secret and their prefix guesses")
    return groups


def pass_at(num_games: int, num_wins: int, k: int) -> float:
    """Estimate pass@k without bias: the chance that at least one of `k` games is won.

    Equals the fraction of all choices of k of these games that hold a win.

    Source: Chen et al. 2021, arXiv:2107.03374, section 2.1.

    Examples:
        >>> [round(pass_at(8, 2, k), 3) for k in (1, 2, 8)]
        [0.25, 0.464, 1.0]
    """
    if not 0 <= num_wins <= num_games or not 1 <= k <= num_games:
        raise ValueError(f"{num_wins} wins of {num_games} games give no pass@{k}; k must be 1 to the number of games")
    return 1 - math.comb(num_games - num_wins, k) / math.comb(num_games, k)


def powers_of_two(most: int) -> list[int]:
    """Return the k for which pass@k is quoted: 1, 2, 4 and so on up to `most`, and `most` itself.

    Examples:
        >>> powers_of_two(6), powers_of_two(8)
        ([1, 2, 4, 6], [1, 2, 4, 8])
    """
    return sorted({most, *(2**power for power in range(most.bit_length()))} - {0})


def open_game(
    game_id: int, start: InitialState, words: WordList, prompter: Prompter, codec: ChatCodec | None
) -> ActiveGame:
    """Set up one game. Prefix guesses follow the opening prompt as if they had been played, without a thought."""
    env = WordleEnv(start.secret, words, prompter, start.prefix_guesses, start.prompt, invented=start.invented)
    running = ActiveGame(game_id, start.secret, env)
    if codec is not None:
        conversation = running.env.conversation
        running.prompt_ids = codec.prompt_ids(conversation[: opening_length(conversation)])
        # A prompt of the start's own stays as it is.
        whole = codec.prompt_ids(conversation, Thinking.OFF if start.prompt else prompter.kept_thinking)
        running.add_environment(whole[len(running.prompt_ids) :])
    return running


def truncate_if_too_long(running: ActiveGame, max_prompt_tokens: int | None) -> bool:
    """Truncate a game whose next prompt is too long. Return True if it was truncated.

    A game whose first prompt is too long was never played: it is an error, not a loss.
    """
    length = len(running.prompt_ids) + len(running.token_ids)
    if max_prompt_tokens is None or length <= max_prompt_tokens:
        return False
    if not running.own_turns:
        running.error = f"its first prompt has {length} tokens, and the model takes {max_prompt_tokens}"
        running.env.truncate(StopReason.REQUEST_FAILED)
        return True
    running.env.truncate(StopReason.TOKEN_BUDGET)
    return True


def advance(running: ActiveGame, completion: Completion, codec: ChatCodec | None) -> None:
    """Give one completion to its game and record both sides of the exchange."""
    if completion.error is not None:
        running.error = completion.error
        running.env.truncate(StopReason.REQUEST_FAILED)
        return
    num_tokens = len(completion.token_ids) if codec is not None else None
    observation = running.env.step(completion.text, num_tokens=num_tokens, overlong=completion.overlong)
    if codec is None:
        return
    running.add_completion(completion)
    if observation.stop_reason is not None:
        return
    if running.env.prompter.shape is not Shape.TRANSCRIPT:
        running.close_segment()  # the next prompt does not continue what was sampled
        running.prompt_ids = codec.prompt_ids(running.env.conversation)
    else:
        # A reply cut at its budget gets its closing token from us, outside the loss.
        feedback = codec.bridge_ids(observation.messages[0])
        running.add_environment([*codec.closed(completion.token_ids), *feedback])
