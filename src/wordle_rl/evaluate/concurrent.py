"""Play games with an endpoint, each at its own pace, with limits on number and time, stored as they end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from wordle_rl.config import PatienceSettings
from wordle_rl.data.game_record import GameRecord
from wordle_rl.evaluate.journal import Journal
from wordle_rl.evaluate.play import Scorer, check_plan, record_of
from wordle_rl.evaluate.records import Evaluation, not_played, occurrences
from wordle_rl.policy.base import Ask, ConcurrentSampler, run_async
from wordle_rl.prompt import Prompter
from wordle_rl.rollout import InitialState, play_alone
from wordle_rl.words import WordList


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
    """Play one game per secret and keep all of them. Measure regret afterwards with `with_regret`.

    This always ends: requests, games and the whole evaluation have time limits, and too many failed games in a row stop
    it. An unfinished game is an error with its reason, never a loss.

    Args:
        planned: The evaluation without its games.
        secrets: The words to find; repeats are played again.
        words: The word list.
        prompter: Wording, grammar and rules.
        sampler: The player.
        patience: Concurrency and limits.
        journal: Stores games as they end. Games it already holds are not played again.
        on_finished: Called with the record of each newly played game.
        prefixes: Prefix guesses of each secret's game. None: empty boards.
        scorer: Scores each game. None: no rewards.

    Raises:
        EvaluationError: If there are no secrets, or `planned` has other words or rules.
        RunError: If a finished game cannot be written.
    """
    check_plan(planned, secrets, words, prompter)
    keys = occurrences(secrets)
    records = {key: journal.games[key] for key in keys if journal is not None and key in journal.games}

    async def play(game_id: int, ask: Ask) -> bool:
        """Play one game and store it. Return True if it was finished."""
        secret, occurrence = keys[game_id]
        start = InitialState(secret, prefixes[game_id] if prefixes else ())
        game = await play_alone(game_id, start, words, prompter, ask, patience.game_timeout_s)
        record = records[secret, occurrence] = record_of(game, scorer=scorer)
        if journal is not None and not record.failed:
            journal.store(secret, occurrence, record)
        if on_finished is not None:
            on_finished(record)
        return not record.failed

    missing = [game_id for game_id, key in enumerate(keys) if key not in records]
    why = run_async(_play_all(missing, sampler, patience, play)) if missing else ""
    return replace(planned, records=tuple(records.get(key) or not_played(key[0], why) for key in keys))


async def _play_all(
    game_ids: Sequence[int],
    sampler: ConcurrentSampler,
    patience: PatienceSettings,
    play: Callable[[int, Ask], Awaitable[bool]],
) -> str:
    """Play until all games are done or a limit is reached. Return why some are unfinished, or ''."""
    waiting = iter(game_ids)
    failures = 0  # in a row

    # Each task takes the next waiting game, so at most `concurrency` games are in play.
    async def take_turns(ask: Ask) -> None:
        nonlocal failures
        while not _given_up(failures, patience) and (game_id := next(waiting, None)) is not None:
            failures = 0 if await play(game_id, ask) else failures + 1

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
