"""A language model as teacher: whole games over an OpenAI-compatible endpoint, many at once, within a budget.

If a request keeps failing, its game is an error, never a loss. Every game is stored as soon as it ends, so finished
games survive whatever stops the run, and the same call plays only what is missing.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from wordle_rl.boards import InitialState
from wordle_rl.config.base import ConfigError, seed_after
from wordle_rl.config.teachers import LLMTeacherSettings, served_name
from wordle_rl.data.game_record import GameNotes, GameRecord, TurnNotes, TurnRecord, read_traces
from wordle_rl.data.trace_files import SettingsFile, write_csv_files
from wordle_rl.env import PlayedTurn
from wordle_rl.policy.base import Completion, Request, run_async
from wordle_rl.policy.openai import (
    NO_QUOTA,
    EndpointClient,
    RequestFailedError,
    Said,
    as_reply,
    check_endpoint,
    read_answer,
)
from wordle_rl.policy.providers import Endpoint, find_endpoint
from wordle_rl.prompt import Guess, with_opened_thought
from wordle_rl.rollout import play_alone
from wordle_rl.runs.jsonl_store import Store
from wordle_rl.runs.progress import show_progress
from wordle_rl.words import WordList
from wordle_rl.words.split import Split

_FATAL_STATUS = {
    401: "correct the key",
    402: "add credit, or use another endpoint",
    403: "correct the key",
    404: "correct --model or --provider",
}
"""Statuses that every further request would get as well, and what to do about them."""


class Job(NamedTuple):
    """A game to play."""

    secret: str
    seed: int


@dataclass
class Spent:
    """Tokens as an endpoint counted them, prompts and games that failed or were cut short included."""

    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def tokens(self) -> int:
        """All tokens."""
        return self.prompt_tokens + self.completion_tokens

    def cost(self, settings: LLMTeacherSettings) -> float | None:
        """Return the money spent, in the currency of the prices; None without prices."""
        if settings.price_in is None or settings.price_out is None:
            return None
        return (self.prompt_tokens * settings.price_in + self.completion_tokens * settings.price_out) / 1e6


@dataclass
class Tally(Spent):
    """Games played and tokens spent so far.

    `num_unfinished` counts games that were cut short because the run stopped; they are not errors. `over_budget` says
    that the budget stopped it.
    """

    num_games: int = 0
    num_wins: int = 0
    num_errors: int = 0
    num_unfinished: int = 0
    over_budget: bool = False
    last_error: str | None = None


class _StoppedError(Exception):
    pass


@dataclass
class _Game(Spent):
    """A game in play."""

    said: list[Said] = field(default_factory=list)
    """Its replies as the endpoint sent them, without the key."""
    is_counted: bool = True
    """The endpoint has reported the tokens of every reply."""


@dataclass
class LLMTeacher:
    """Play games by asking a chat endpoint.

    `tally` counts this run. `before` is what earlier runs spent on the same games; it counts towards the budget.
    """

    words: WordList
    endpoint: Endpoint
    settings: LLMTeacherSettings
    tally: Tally = field(default_factory=Tally)
    before: Spent = field(default_factory=Spent)

    def __post_init__(self) -> None:
        self._prompter = self.settings.game.prompter(self.words.word_length)
        self._failures_in_a_row = 0
        self._fault: str | None = None

    def play(self, jobs: Sequence[Job], on_game: Callable[[GameRecord], None]) -> Tally:
        """Play all games, as many at once as the settings allow; `on_game` gets each as soon as it ends or fails.

        Raises:
            ConfigError: If the endpoint refuses the key or the model, does not report tokens although there is a
                budget, or too many games in a row failed.
        """
        run_async(self._play_all(jobs, on_game))
        if self._fault is not None:
            raise ConfigError(self._fault)
        return self.tally

    async def _play_all(self, jobs: Sequence[Job], on_game: Callable[[GameRecord], None]) -> None:
        self._stop = asyncio.Event()
        waiting, settings = iter(jobs), self.settings

        async def take_turns(client: EndpointClient) -> None:
            while not self._stop.is_set() and (job := next(waiting, None)) is not None:
                trace = await self._play(client, job)
                if trace is None:
                    self.tally.num_unfinished += 1
                else:
                    self._count(trace)
                    on_game(trace)

        drawing = settings.model_dump(include={"temperature", "top_p"}, exclude_none=True)
        async with EndpointClient(
            self.endpoint,
            served_name(settings.model).model,
            settings.max_completion_tokens,
            drawing,
            timeout_s=settings.timeout_s,
            max_retries=settings.max_retries,
            before=self._check_budget,
        ) as client:
            # Each task takes the next waiting game, so at most `max_concurrent` games are in play.
            await asyncio.gather(*(take_turns(client) for _ in range(min(settings.max_concurrent, len(jobs)))))

    def _count(self, trace: GameRecord) -> None:
        if trace.error is None:
            self.tally.num_games += 1
            self.tally.num_wins += trace.won
            self._failures_in_a_row = 0
            return
        self.tally.num_errors += 1
        self.tally.last_error = trace.error
        self._failures_in_a_row += 1
        if self._failures_in_a_row >= self.settings.max_failures:
            self._end(f"{self._failures_in_a_row} games in a row failed, the last with {trace.error}")

    async def _play(self, client: EndpointClient, job: Job) -> GameRecord | None:
        # None if the run ended before the game.
        game, settings = _Game(), self.settings
        seed = job.seed if settings.send_seed else None

        async def ask(request: Request) -> Completion:
            try:
                said = await client.ask(request.messages, lambda answer: self._read(answer, game), seed)
            except RequestFailedError as failed:
                if fix := _FATAL_STATUS.get(402 if failed.code == NO_QUOTA else failed.status or 0):
                    self._end(f"{self.endpoint.base_url} refused: {failed}; {fix}")
                    raise _StoppedError from None
                return Completion("", error=str(failed))
            game.said.append(said)
            return Completion(as_reply(said, settings.game.thinking))

        try:
            start = InitialState(job.secret)
            played = await play_alone(0, start, self.words, self._prompter, ask, settings.game_timeout_s)
        except _StoppedError:
            return None
        counts = (game.prompt_tokens, game.completion_tokens) if game.is_counted else ()
        return GameRecord(
            secret=job.secret,
            turns=tuple(map(_turn_of, played.transcript.turns, game.said)),
            error=played.error,
            notes=GameNotes(served_name(settings.model).alias, job.seed, *counts),
        )

    def _check_budget(self) -> None:
        # Before every request.
        settings, tallies = self.settings, (self.before, self.tally)
        tokens, cost = sum(each.tokens for each in tallies), sum(each.cost(settings) or 0.0 for each in tallies)
        if 0 < settings.budget_tokens <= tokens or 0 < settings.budget_money <= cost:
            self.tally.over_budget = True
            self._stop.set()
        if self._stop.is_set():
            raise _StoppedError

    def _read(self, answer: object, game: _Game) -> Said:
        # Count tokens first, since a response without a message costs tokens, too. Without a count, the response must
        # be readable before it can prove that the endpoint reports none.
        usage: object = getattr(answer, "usage", None)
        if usage is not None:
            self._spend(usage, game)
        said = read_answer(answer, self.endpoint.without_key)
        if usage is None:
            self._spend(None, game)
        return said

    def _spend(self, usage: object, game: _Game) -> None:
        for name in ("prompt_tokens", "completion_tokens"):
            count = getattr(usage, name, None)
            if not isinstance(count, int | float) or not 0 <= count < math.inf:
                game.is_counted = False
                continue
            for total in (self.tally, game):
                setattr(total, name, getattr(total, name) + int(count))
        if not game.is_counted and (self.settings.budget_tokens or self.settings.budget_money):
            self._end("the endpoint does not report all tokens, so no budget can be kept; leave out the budget")

    def _end(self, fault: str) -> None:
        self._fault = self._fault or f"{fault}; finished games are kept"
        self._stop.set()


def _turn_of(played: PlayedTurn, said: Said) -> TurnRecord:
    thought = played.parsed.thinking if isinstance(played.parsed, Guess) else ""
    stood_in = played.reply != with_opened_thought(said.text)  # separate reasoning is the thinking of the reply already
    separate = "" if stood_in and thought else said.reasoning.strip()
    return TurnRecord.of(
        played,
        taught=not played.turn.outcome.broke_rules,
        thinking="\n\n".join(part for part in (separate, thought) if part),
        reply=said.text,
        notes=TurnNotes(finish="" if said.finish == "stop" else said.finish),
    )


class Collected(NamedTuple):
    """Result of one call; games that were already in the file, and games that are still missing."""

    tally: Tally
    spent_before: Spent
    num_before: int
    num_missing: int


def _choose_secrets(split: Split, settings: LLMTeacherSettings) -> list[str]:
    secrets = list(split.named(settings.split))[: settings.max_secrets or None]
    if not secrets:
        raise ConfigError(f"split {settings.split!r} has no secret; name another part")
    test = set(split.test)
    if not settings.allow_test_secrets and (among := [secret for secret in secrets if secret in test]):
        raise ConfigError(
            f"{len(among)} of the {len(secrets)} secrets are test secrets, for example {among[0]!r}, which must not be "
            "trained on; choose others, or pass --allow-test-secrets if you only look at the games"
        )
    return secrets


def collect(
    path: Path,
    words: WordList,
    split: Split,
    settings: LLMTeacherSettings,
    seed: int,
    csv_directory: Path | None,
    console: Console,
) -> Collected:
    """Play the games that a traces file still lacks and append them one by one.

    `seed` is that of the first game of every secret; further games count up. `csv_directory` gets
    `wordle_data_<WORD>.csv`, one for every word of the file.
    """
    if not settings.model:
        raise ConfigError("no teacher is set; pass --model with the name at the endpoint")
    teacher_name, served = served_name(settings.model)
    if teacher_name == "solver":
        raise ConfigError("games of --model solver would pass for the solver teacher's; serve it under another name")
    secrets = _choose_secrets(split, settings)
    endpoint = find_endpoint(settings.provider or "local", Path.cwd())
    with closing(Store(path, begins=b'{"secret":')) as store:
        if store.num_bytes_cut:
            console.print(
                f"{path} ended in the middle of a line; playing that game again", markup=False, soft_wrap=True
            )
        jobs = {
            (secret, seed_after(seed, number), teacher_name): Job(secret, seed_after(seed, number))
            for number in range(settings.games_per_word)
            for secret in secrets
        }
        finished: set[tuple[str, int, str]] = set()
        before = Spent()  # spent on the wanted games, including failed attempts
        for trace in read_traces(path) if path.exists() else ():
            if trace.error is None:
                finished.add(trace.key)
            if trace.key in jobs:
                before.prompt_tokens += trace.notes.prompt_tokens
                before.completion_tokens += trace.notes.completion_tokens
        # Games in the file count only if they were played with the same settings.
        drawing = settings.model_dump(mode="json", include={"temperature", "top_p", "max_completion_tokens"})
        rules = {f"game.{name}": value for name, value in settings.game.model_dump(mode="json").items()}
        asked = {"words": words.fingerprint[:12], **drawing, **rules, "model": served}
        record = SettingsFile(path)
        if any(model == teacher_name for _, _, model in finished):
            record.check(teacher_name, asked)
        missing = [job for key, job in jobs.items() if key not in finished]
        teacher = LLMTeacher(words, endpoint, settings, before=before)
        try:
            if missing:
                check_endpoint(endpoint)  # before anything costs money
                with show_progress(console, teacher_name, len(missing)) as advance:

                    def keep(trace: GameRecord) -> None:
                        if trace.error is None:
                            record.keep(teacher_name, asked)
                        store.add(trace.to_row())
                        done = teacher.tally.num_games + teacher.tally.num_errors
                        advance(done, len(missing), describe(teacher.tally, settings))

                    teacher.play(missing, keep)
        finally:
            if csv_directory is not None:
                write_csv_files(path, csv_directory)
        num_missing = len(missing) - teacher.tally.num_games
        return Collected(teacher.tally, teacher.before, len(jobs) - len(missing), num_missing)


def describe(tally: Tally, settings: LLMTeacherSettings) -> str:
    """Summarise wins, errors, tokens and cost so far."""
    cost = tally.cost(settings)
    parts = [f"{tally.num_wins:,} won", f"{tally.num_errors:,} errors", f"{tally.tokens:,} tokens"]
    return ", ".join(parts if cost is None else [*parts, f"cost {cost:.4f}"])
