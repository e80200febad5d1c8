"""Play what is asked, in lockstep or each game at its own pace; make records of the games; measure regret.

`evaluate` is the one place that plays secrets to measure a player: `wordle-rl eval`, a run's own evaluation, the
validations and probes of training, preflight and the search for equal entropy differ only in what they ask, in who
opens the player and in what they keep of a game.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

from wordle_rl.chat.codec import longest_game
from wordle_rl.config.base import seed_after
from wordle_rl.config.context import GameContext
from wordle_rl.config.evaluation import PatienceSettings
from wordle_rl.data.game_record import GameNotes, GameRecord
from wordle_rl.env import StopReason, Transcript
from wordle_rl.evaluate.asked import Asked
from wordle_rl.evaluate.records import occurrences
from wordle_rl.game import Turn, scored_pairs, turns_used, violates_clues
from wordle_rl.policy.base import Ask, ConcurrentSampler, Sampler, run_async
from wordle_rl.reward import Rubric
from wordle_rl.rollout import Trajectory, play, play_alone
from wordle_rl.solver import Solver, fitting_answers

WASTED_TURN_REGRET = 1.0
"""Regret of a turn without marks. It revealed nothing, so best play needs one more guess."""

G = TypeVar("G")
"""What is kept of a game: its record, a reward, its entropy."""

OpenPlayer = Callable[[int], AbstractContextManager[tuple[Sampler, int | None]]]
"""Opens a player for draws of this seed, and yields it with its longest prompt in tokens (None: no limit)."""


class KeptGames(Protocol[G]):
    """Games of an earlier call, by secret and its occurrence, and a place for new ones: `journal.Journal`."""

    games: dict[tuple[str, int], G]

    def store(self, secret: str, occurrence: int, game: G) -> None:
        """Keep a finished game."""


def evaluate(
    asked: Asked,
    open_player: OpenPlayer,
    measure: Callable[[Trajectory], G],
    journal: KeptGames[G] | None = None,
    progress: Callable[[G], None] | None = None,
) -> list[G]:
    """Play every game that is asked for, and return what `measure` keeps of each, in order.

    Args:
        open_player: Opened unless a journal holds every game, and closed in the end.
        measure: Called with each game as it ends, won, lost or an error.
        journal: Stores games as they end. Games it already holds are not played again.
        progress: Called with each game that was played.
    """
    keys = occurrences(asked.secrets)
    before = {} if journal is None else journal.games
    games = {index: before[key] for index, key in enumerate(keys) if key in before}
    missing = [index for index in range(len(keys)) if index not in games]

    def finish(index: int, trajectory: Trajectory) -> None:
        games[index] = measure(trajectory)
        if progress is not None:
            progress(games[index])

    def keep(index: int) -> None:
        if journal is not None:
            journal.store(*keys[index], games[index])

    # In training, processes without secrets of their own open the player too: sending it the weights takes all of them.
    if missing or journal is None:
        # With the seed of its first call a player would draw the games that it has kept once more.
        seed = seed_after(asked.player.seed, len(before)) if asked.player.draws else asked.player.seed
        with open_player(seed) as (sampler, max_prompt_tokens):
            if isinstance(sampler, ConcurrentSampler):
                run_async(_play_apart(asked, missing, sampler, finish, keep))
            else:
                _play_together(asked, missing, (sampler, max_prompt_tokens), finish, keep)
    return [games[index] for index in range(len(keys))]


def _play_together(
    asked: Asked,
    missing: Sequence[int],
    player: tuple[Sampler, int | None],
    finish: Callable[[int, Trajectory], None],
    keep: Callable[[int], None],
) -> None:
    (sampler, max_prompt_tokens), words, prompter = player, asked.context.words, asked.context.prompter
    size = asked.batch_size or len(missing) or 1
    room_for = getattr(sampler, "room_for", None)  # of players that keep running games in this machine's memory
    if asked.batch_size and room_for is not None and sampler.codec is not None:
        # The worst case of a game (every reply at its limit) is rare, and so leaves room for everything else.
        size = min(
            size, room_for(longest_game(words, prompter, sampler.codec, asked.player.sampling.max_completion_tokens))
        )

    def ended(batch: Sequence[int], place: int, game: Trajectory) -> None:
        finish(batch[place], game)
        if not asked.player.is_sampled:
            keep(batch[place])

    # Batches follow the order of the secrets, so a stopped evaluation has finished the first ones.
    for batch in (missing[first : first + size] for first in range(0, len(missing), size)):
        play(
            [asked.starts[index] for index in batch],
            words,
            prompter,
            sampler,
            max_prompt_tokens=max_prompt_tokens,
            on_finished=partial(ended, batch),
        )
        # Sampled games are kept by whole batches. Those that end first are mostly quick wins; keeping them while the
        # rest is drawn anew would bias the figures in the player's favour.
        for index in batch if asked.player.is_sampled else ():
            keep(index)


async def _play_apart(
    asked: Asked,
    missing: Sequence[int],
    sampler: ConcurrentSampler,
    finish: Callable[[int, Trajectory], None],
    keep: Callable[[int], None],
) -> None:
    """Play each game at its own pace.

    This always ends: requests, games and the whole evaluation have time limits, and too many failed games in a row stop
    it. An unfinished game is an error with its reason, never a loss.
    """
    context, patience = asked.context, asked.player.patience
    done: set[int] = set()

    async def play_one(index: int, ask: Ask) -> bool:
        """Play one game and keep it. Return True if it was finished."""
        start = asked.starts[index]
        game = await play_alone(index, start, context.words, context.prompter, ask, patience.game_timeout_s)
        finish(index, game)
        keep(index)
        done.add(index)
        return game.error is None

    why = await _play_all(missing, sampler, patience, play_one)
    for index in missing:
        if index not in done:
            unplayed = Transcript(asked.starts[index].secret, context.prompter.rules, (), StopReason.REQUEST_FAILED)
            finish(index, Trajectory(unplayed, error=why))


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


def record_of(trajectory: Trajectory, rubric: Rubric | None = None, solver: Solver | None = None) -> GameRecord:
    """Return the record of a game, with its reward under a rubric. An error has no reward."""
    record = GameRecord.of(trajectory.transcript)
    board = record.board()
    turns = (
        turn.noted(
            repeated=turn.guess is not None and any(past.guess == turn.guess for past in board[:place]),
            violates_clues=turn.guess is not None and violates_clues(turn.guess, board[:place]),
        )
        for place, turn in enumerate(record.turns)
    )
    reward = None
    if rubric is not None and solver is not None and trajectory.error is None:
        reward = rubric.score(trajectory.transcript, solver).total
    return replace(record, turns=tuple(turns), error=trajectory.error, notes=GameNotes(reward=reward))


def with_regret(records: Iterable[GameRecord], context: GameContext) -> list[GameRecord]:
    """Measure the regret of every turn.

    Games that share turns share the work, so thousands of games from one opener take seconds. Every further opener
    takes about half a second on the default list.
    """
    solver, max_turns = context.solver, context.prompter.rules.max_turns
    fitting = fitting_answers(solver)
    known: dict[tuple[tuple[tuple[str, str], ...], str, int], float] = {}  # equal positions are solved once

    def regret(turn: Turn, earlier: Sequence[Turn]) -> float:
        if turn.guess is None or turn.marks is None:
            return WASTED_TURN_REGRET if turn.costs_turn else 0.0
        turns_left = max_turns - turns_used(earlier)
        key = (scored_pairs(earlier), turn.guess, turns_left)
        if key not in known:
            known[key] = solver.regret(turn.guess, fitting(earlier), turns_left)
        return known[key]

    def measured(record: GameRecord) -> GameRecord:
        board = record.board()
        turns = (turn.noted(regret=regret(board[i], board[:i])) for i, turn in enumerate(record.turns))
        return replace(record, turns=tuple(turns))

    return [measured(record) for record in records]
