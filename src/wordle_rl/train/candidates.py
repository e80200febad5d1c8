"""Rollouts with several guesses at every turn: candidates are sampled from one state and judged, the best is played.

The candidates of a turn share their prompt, so the mean of their values is a baseline for that state, and each guess is
credited with its own value alone. Playing the best keeps games near good play, where the useful states are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wordle_rl.env import PlayedTurn, StopReason, Transcript
from wordle_rl.prompt import Prompter
from wordle_rl.reward import Rubric
from wordle_rl.rollout import ActiveGame, InitialState, Segment, Trajectory, advance, open_game, truncate_if_too_long
from wordle_rl.samplers.base import Completion, Request, Sampler
from wordle_rl.solver import Solver
from wordle_rl.solver.boards import fitting_answers, turn_regret
from wordle_rl.train.advantages import TurnValues
from wordle_rl.train.scoring import PlayedGame
from wordle_rl.words import WordList

Judge = Callable[[ActiveGame, Completion], float]
"""The value of a reply in a running game; more is better."""


def play_branching(
    starts: Sequence[InitialState],
    words: WordList,
    prompter: Prompter,
    sampler: Sampler,
    num_candidates: int,
    judge: Judge,
    *,
    max_prompt_tokens: int | None = None,
) -> list[PlayedGame]:
    """Play one game per start, sampling `num_candidates` replies for each turn and playing the best.

    Args:
        starts: Initial states.
        words: The word lists.
        prompter: Wording, shape, grammar and rules.
        sampler: The player; one that works with tokens.
        num_candidates: Replies per turn; the first of equals is played. Those that fail are left out.
        judge: See `Judge`.
        max_prompt_tokens: A game whose next prompt would be longer is truncated. None: no bound.

    Returns:
        Games in the order of `starts`, each candidate a segment of its own: its prompt, and one reply sampled. A
        span's first number is the candidate's index in the game, not a turn. A game of which no candidate of a turn
        could be sampled has an error.

    Raises:
        ValueError: If the sampler has no codec, or there is nothing to choose from.
    """
    if sampler.codec is None:
        raise ValueError("candidates are compared token for token; give a sampler with a codec")
    if num_candidates < 2:
        raise ValueError(f"num_candidates {num_candidates} leaves nothing to compare; give at least 2")
    sampler.begin()
    games = [open_game(game_id, start, words, prompter, sampler.codec) for game_id, start in enumerate(starts)]
    segments: list[list[Segment]] = [[] for _ in starts]
    judged: list[list[TurnValues]] = [[] for _ in starts]
    active = games
    while active:
        asked = [game for game in active if not truncate_if_too_long(game, max_prompt_tokens)]
        requests = [
            Request(
                game.game_id * num_candidates + candidate,
                game.env.conversation,
                game.env.turns,
                game.all_ids(),
            )
            for game in asked
            for candidate in range(num_candidates)
        ]
        completions = sampler.sample(requests) if requests else []
        for place, game in enumerate(asked):
            given = completions[place * num_candidates : (place + 1) * num_candidates]
            replies = [reply for reply in given if reply.error is None]
            if not replies:
                advance(game, given[0], sampler.codec)
                continue
            values = tuple(judge(game, reply) for reply in replies)
            candidates = segments[game.game_id]
            for reply in replies:
                candidates.append(_segment(game, reply, len(candidates)))
            judged[game.game_id].append(values)
            advance(game, replies[values.index(max(values))], sampler.codec)
        active = [game for game in active if game.env.stop_reason is None]
    return [
        PlayedGame(Trajectory(game.env.transcript(), tuple(candidates), game.error), tuple(values))
        for game, candidates, values in zip(games, segments, judged, strict=True)
    ]


def regret_judge(solver: Solver) -> Judge:
    """A judge by quick regret: expected guesses given away, looking one guess ahead."""
    fitting = fitting_answers(solver)

    def judge(game: ActiveGame, reply: Completion) -> float:
        return -turn_regret(game.env.preview(reply.text), fitting(game.env.turns), solver.quick_regret)

    return judge


def reward_judge(rubric: Rubric, solver: Solver) -> Judge:
    """A judge by reward: what the guess's own turn earns if the game ends with it."""

    def judge(game: ActiveGame, reply: Completion) -> float:
        env = game.env
        turn = env.preview(reply.text)
        played = PlayedTurn(
            reply.text, env.prompter.parse(reply.text), turn, False, len(reply.token_ids), reply.overlong
        )
        reason = StopReason.SOLVED if turn.guess == game.secret and turn.marks else StopReason.OUT_OF_TURNS
        ended = Transcript(game.secret, env.prompter.rules, (*env.played, played), reason)
        return rubric.score(ended, solver).turn_rewards[-1]

    return judge


def _segment(game: ActiveGame, reply: Completion, number: int) -> Segment:
    """One reply under the prompt it was sampled from; `number` is the candidate's index in the game."""
    count = len(reply.token_ids)
    prompt_ids = tuple(game.all_ids())
    return Segment(prompt_ids, reply.token_ids, (1,) * count, reply.sampler_logprobs, ((number, 0, count),))
