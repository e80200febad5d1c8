"""Play secrets with one player, in lockstep or each game at its own pace; measure regret."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from wordle_rl.boards import InitialState
from wordle_rl.chat.codec import longest_game
from wordle_rl.config.evaluation import PatienceSettings
from wordle_rl.data.game_record import GameRecord
from wordle_rl.evaluate.journal import Journal
from wordle_rl.evaluate.records import Evaluation, EvaluationError, not_played, occurrences
from wordle_rl.game import Game, Rules, Turn, violates_clues
from wordle_rl.policy.base import (
    Ask,
    ConcurrentSampler,
    Sampler,
    TokenSampler,
    run_async,
)
from wordle_rl.prompt import Prompter
from wordle_rl.reward import Rubric
from wordle_rl.rollout import Trajectory, play, play_alone
from wordle_rl.solver import Solver, fitting_answers
from wordle_rl.words import WordList

WASTED_TURN_REGRET = 1.0
"""Regret of a turn without marks. It revealed nothing, so best play needs one more guess."""


def evaluate(
    planned: Evaluation,
    secrets: Sequence[str],
    words: WordList,
    prompter: Prompter,
    sampler: Sampler,
    *,
    solver: Solver | None = None,
    regret_games: int | None = None,
    batch_size: int | None = None,
    journal: Journal | None = None,
    drawn: bool = False,
    on_finished: Callable[[GameRecord], None] | None = None,
    prefixes: Sequence[tuple[str, ...]] | None = None,
    scorer: Scorer | None = None,
) -> Evaluation:
    """Play one game per secret and keep all of them.

    Args:
        planned: The evaluation without its games.
        secrets: The words to find, in any order; repeats are played again.
        solver: Measures regret, if given. Games that share turns share the work, so thousands of games from one
            opener take seconds. Every further opener takes about half a second on the default list.
        regret_games: Measure regret in this many games, evenly spaced in `secrets`. None: in all. For players that
            rarely repeat an opener, such as the random one.
        batch_size: Most games in play at once, to limit memory. None: all.
        journal: Stores games as they end. Games it already holds are not played again.
        drawn: True if the player samples. Its games are then stored by whole batches. Games that end first are mostly
            quick wins; storing them while the rest is sampled again would bias the figures in the player's favour.
    """
    if not secrets:
        raise EvaluationError("no secrets to play; give at least one")
    meter = None if solver is None else _RegretMeter(solver, prompter.rules)
    share = len(secrets) if regret_games is None else min(regret_games, len(secrets))
    keys = occurrences(secrets)
    before = {} if journal is None else journal.games
    records = {index: before[key] for index, key in enumerate(keys) if key in before}
    missing = [index for index in range(len(secrets)) if index not in records]

    def keep(index: int) -> None:
        if journal is not None and not records[index].failed:
            journal.store(*keys[index], records[index])

    def finish(batch: Sequence[int], place: int, trajectory: Trajectory) -> None:
        index = batch[place]
        # Spread `share` measured games evenly over all indices.
        measured = (index + 1) * share // len(secrets) > index * share // len(secrets)
        records[index] = _record_of(trajectory, meter if measured else None, scorer)
        if not drawn:
            keep(index)
        if on_finished is not None:
            on_finished(records[index])

    size = batch_size or len(secrets)
    room_for = getattr(sampler, "room_for", None)  # of players that keep running games in this machine's memory
    if room_for is not None and isinstance(sampler, TokenSampler) and sampler.codec is not None:
        # The worst case of a game (every reply at its limit) is rare, and so leaves room for everything else.
        longest = longest_game(words, prompter, sampler.codec, sampler.settings.max_completion_tokens)
        size = min(size, room_for(longest))
    # Batches follow the order of the secrets, so a stopped evaluation has finished the first ones.
    for batch in (missing[first : first + size] for first in range(0, len(missing), size)):
        starts = [InitialState(secrets[index], prefixes[index] if prefixes else ()) for index in batch]
        play(starts, words, prompter, sampler, on_finished=partial(finish, batch))
        for index in batch if drawn else ():
            keep(index)
    return replace(planned, records=tuple(records[index] for index in range(len(secrets))))


def with_regret(evaluation: Evaluation, words: WordList, solver: Solver) -> Evaluation:
    """Add every turn's regret to games that were stored without it."""
    meter = _RegretMeter(solver, evaluation.rules)
    records = []
    for record in evaluation.records:
        game = Game(record.secret, words, evaluation.rules)
        board = [game.play(turn.guess) for turn in record.turns]
        turns = (
            replace(turn, regret=meter.regret(board[place], board[:place])) for place, turn in enumerate(record.turns)
        )
        records.append(replace(record, turns=tuple(turns)))
    return replace(evaluation, records=tuple(records))


class _RegretMeter:
    # Equal positions are solved once.

    def __init__(self, solver: Solver, rules: Rules) -> None:
        self._solver = solver
        self._max_turns = rules.max_turns
        self._fitting = fitting_answers(solver)
        self._regrets: dict[tuple[tuple[Turn, ...], str, int], float] = {}

    def regret(self, turn: Turn, earlier: Sequence[Turn]) -> float:
        if turn.guess is None or turn.marks is None:
            return WASTED_TURN_REGRET if turn.costs_turn else 0.0
        scored = tuple(past for past in earlier if past.marks is not None)
        turns_left = self._max_turns - sum(past.costs_turn for past in earlier)
        key = (scored, turn.guess, turns_left)
        if key not in self._regrets:
            self._regrets[key] = self._solver.regret(turn.guess, self._fitting(scored), turns_left)
        return self._regrets[key]


@dataclass(frozen=True)
class Scorer:
    """Score finished games with a rubric. Errors have no reward."""

    rubric: Rubric
    solver: Solver

    def __call__(self, trajectory: Trajectory) -> float | None:
        """Return the reward of a game, or None for an error."""
        return None if trajectory.error else self.rubric.score(trajectory.transcript, self.solver).total


def _record_of(trajectory: Trajectory, meter: _RegretMeter | None = None, scorer: Scorer | None = None) -> GameRecord:
    record = GameRecord.of(trajectory.transcript)
    board = record.board()
    turns = []
    for place, turn in enumerate(record.turns):
        earlier = board[:place]
        turns.append(
            replace(
                turn,
                repeated=turn.guess is not None and any(past.guess == turn.guess for past in earlier),
                violates_clues=turn.guess is not None and violates_clues(turn.guess, earlier),
                regret=None if meter is None else meter.regret(board[place], earlier),
            )
        )
    reward = None if scorer is None else scorer(trajectory)
    return replace(record, turns=tuple(turns), error=trajectory.error, reward=reward)


def evaluate_concurrently(
    planned: Evaluation,
    secrets: Sequence[str],
    words: WordList,
    prompter: Prompter,
    sampler: ConcurrentSampler,
    patience: PatienceSettings,
    *,
    journal: Journal | None = None,
    on_finished: Callable[[GameRecord], None] | None = None,
    prefixes: Sequence[tuple[str, ...]] | None = None,
    scorer: Scorer | None = None,
) -> Evaluation:
    """Play one game per secret, as `evaluate` does, but each at its own pace. Measure regret later with `with_regret`.

    This always ends: requests, games and the whole evaluation have time limits, and too many failed games in a row stop
    it. An unfinished game is an error with its reason, never a loss.
    """
    keys = occurrences(secrets)
    records = {key: journal.games[key] for key in keys if journal is not None and key in journal.games}

    async def play_one(game_id: int, ask: Ask) -> bool:
        """Play one game and store it. Return True if it was finished."""
        secret, occurrence = keys[game_id]
        start = InitialState(secret, prefixes[game_id] if prefixes else ())
        game = await play_alone(game_id, start, words, prompter, ask, patience.game_timeout_s)
        record = records[secret, occurrence] = _record_of(game, scorer=scorer)
        if journal is not None and not record.failed:
            journal.store(secret, occurrence, record)
        if on_finished is not None:
            on_finished(record)
        return not record.failed

    missing = [game_id for game_id, key in enumerate(keys) if key not in records]
    why = run_async(_play_all(missing, sampler, patience, play_one)) if missing else ""
    return replace(planned, records=tuple(records.get(key) or not_played(key[0], why) for key in keys))


async def _play_all(
    game_ids: Sequence[int],
    sampler: ConcurrentSampler,
    patience: PatienceSettings,
    play_one: Callable[[int, Ask], Awaitable[bool]],
) -> str:
    """Play until all games are done or a limit is reached. Return why some are unfinished, or ''."""
    waiting = iter(game_ids)
    failures = 0  # in a row

    # Each task takes the next waiting game, so at most `concurrency` games are in play.
    async def take_turns(ask: Ask) -> None:
        nonlocal failures
        while not _given_up(failures, patience) and (game_id := next(waiting, None)) is not None:
            failures = 0 if await play_one(game_id, ask) else failures + 1

    async with sampler.session() as ask:
        tasks = [asyncio.create_task(take_turns(ask)) for _ in range(min(patience.concurrency, len(game_ids)))]
        try:
            async with asyncio.timeout(60 * patience.max_minutes or None):
                await asyncio.gather(*tasks)
        except TimeoutError:
            return f"not finished within {patience.max_minutes:g} minutes"
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return f"not played after {failures} games in a row were errors" if _given_up(failures, patience) else ""


def _given_up(failures: int, patience: PatienceSettings) -> bool:
    return 0 < patience.max_failures <= failures
