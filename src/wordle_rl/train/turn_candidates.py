"""Rollouts with several candidate guesses per turn: sample, judge, play the best.

The candidates of a turn share a prompt, so their mean value is a baseline for that state. Each guess is credited with
its own value only. Playing the best one keeps games close to good play, where the useful states are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wordle_rl.boards import InitialState
from wordle_rl.chat.masks import Segment
from wordle_rl.env import PlayedTurn, StopReason, Transcript
from wordle_rl.policy.base import Completion, Request, Sampler
from wordle_rl.prompt import Prompter
from wordle_rl.reward import Rubric
from wordle_rl.rollout import ActiveGame, ShouldStop, Trajectory, advance, open_game, truncate_if_too_long
from wordle_rl.solver import Solver, fitting_answers, turn_regret
from wordle_rl.train.advantages import TurnValues
from wordle_rl.words import WordList

Judge = Callable[[ActiveGame, Completion], float]
"""Values a reply in a running game; higher is better."""


def play_branching(
    starts: Sequence[InitialState],
    words: WordList,
    prompter: Prompter,
    sampler: Sampler,
    num_candidates: int,
    judge: Judge,
    *,
    max_prompt_tokens: int | None = None,
    should_stop: ShouldStop | None = None,
) -> list[tuple[Trajectory, list[TurnValues]]]:
    """Play one game per start: sample `num_candidates` replies, at least 2, for each turn and play the best.

    Failed replies are left out; among equals the first is played. If all candidates of a turn failed, the game has an
    error.

    Returns:
        Games in the order of `starts`, each with the values of the candidates of every own turn. Each candidate is a
        segment of its own: its prompt and one sampled reply. The first number of a span is the candidate's index in the
        game, not a turn.
    """
    if sampler.codec is None:
        raise ValueError("turn_candidates needs token ids; use a sampler with a codec")
    sampler.begin()
    games = [open_game(game_id, start, words, prompter, sampler.codec) for game_id, start in enumerate(starts)]
    segments: list[list[Segment]] = [[] for _ in starts]
    judged: list[list[TurnValues]] = [[] for _ in starts]
    active = games
    while active:
        asked = [game for game in active if not truncate_if_too_long(game, max_prompt_tokens)]
        requests = [
            Request(
                game.game_id * num_candidates + candidate,  # a random stream of its own for each candidate
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
            candidates, prompt_ids = segments[game.game_id], tuple(game.all_ids())
            for reply in replies:
                count = len(reply.token_ids)
                span = (len(candidates), 0, count)
                candidates.append(Segment(prompt_ids, reply.token_ids, (1,) * count, reply.sampler_logprobs, (span,)))
            judged[game.game_id].append(values)
            advance(game, replies[values.index(max(values))], sampler.codec)
        for game in active:
            env = game.env
            if should_stop and env.stop_reason is None and should_stop(game.secret, env.turns, game.own_turns):
                env.truncate(StopReason.NOT_NEEDED)
        active = [game for game in active if game.env.stop_reason is None]
    return [
        (Trajectory(game.env.transcript(), tuple(candidates), game.error), values)
        for game, candidates, values in zip(games, segments, judged, strict=True)
    ]


def regret_judge(solver: Solver) -> Judge:
    """Judge by quick regret: expected guesses given away, looking one guess ahead."""
    fitting = fitting_answers(solver)

    def judge(game: ActiveGame, reply: Completion) -> float:
        return -turn_regret(game.env.preview(reply.text), fitting(game.env.turns), solver.quick_regret)

    return judge


def reward_judge(rubric: Rubric, solver: Solver) -> Judge:
    """Judge by reward: what the turn earns if the game ends with it."""

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
