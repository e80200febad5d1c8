"""The application behind the page: `create_watch_app`.

    GET  /                                   the page
    GET  /api/about                          players, words, rules
    GET  /api/runs                           names of runs
    GET  /api/runs/RUN                       sources of games, metrics; 304 if nothing has changed
    GET  /api/runs/RUN/games?source=&after=  games of a source, from an offset on
    GET  /api/review?run=&board=             the solver's review of every turn of a board
    POST /api/watch                          a player's game, one line of JSON per turn
    POST /api/play, /api/play/GAME           a game by hand
    GET  /runs/RUN/report.html               the report of a run, linked to the page

An invalid request is answered by `{"error": …}` and a 4xx status. Bodies must have the content type JSON, which a page
of another site cannot send. Responses never hold the secret of a running game.
"""

from __future__ import annotations

import json
import random
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from anyio import to_thread
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from wordle_rl.config import LARGEST_SEED, ConfigError, describe
from wordle_rl.config.context import GameContext
from wordle_rl.evaluate.records import EvaluationError
from wordle_rl.game import Dictionary
from wordle_rl.report import ReportError, read_run
from wordle_rl.report.page import render as render_report
from wordle_rl.runs import RunError
from wordle_rl.serve.serve_settings import ServeSettings
from wordle_rl.serve.watch.hand_play import HandGames, NotFoundError
from wordle_rl.serve.watch.live_games import Players, live_events
from wordle_rl.serve.watch.review import Reviewer, parse_board
from wordle_rl.serve.watch.run_files import Source, find_runs, games_of, mark_of, sources_of, summary_of, words_source
from wordle_rl.serve.watch.watch_page import page_headers, render_page
from wordle_rl.solver import Solver, SolverError
from wordle_rl.words import WordList, WordListError
from wordle_rl.words.split import Split, SplitName

MAX_BODY_BYTES = 4096


class RequestError(ValueError):
    """An invalid request."""


class BusyError(RuntimeError):
    """Too many games are being watched."""


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class WatchRequest(_Body):
    """A game to watch. Without a secret, the seed draws one from a part of the answers."""

    player: str = Field(max_length=400)
    secret: str | None = Field(None, max_length=16)
    part: Literal["train", "val", "test"] = "train"
    seed: int = Field(default_factory=lambda: secrets.randbelow(LARGEST_SEED), ge=0, le=LARGEST_SEED)
    temperature: float = Field(0.0, ge=0, le=2)

    def secret_among(self, words: WordList, split: Split) -> str:
        """Return the secret.

        Raises:
            RequestError: If the requested secret is not listed.
        """
        if self.secret is None:
            return random.Random(self.seed).choice(split.named(self.part))
        secret = self.secret.strip().lower()
        if secret not in words or len(secret) != words.word_length:
            raise RequestError(f"{secret[:16]!r} is not in word list {words.name!r}; name a listed word")
        return secret


class HandGameRequest(_Body):
    """Rules of a game by hand."""

    dictionary: Dictionary = Dictionary.APP
    hard_mode: bool = False
    seed: int | None = Field(None, ge=0, le=LARGEST_SEED)


class HandGuess(_Body):
    """A word played by hand."""

    guess: str = Field(max_length=64)


BodyT = TypeVar("BodyT", bound=_Body)


async def body_of(request: Request, kind: type[BodyT]) -> BodyT:
    """Read the body of a request, which must be JSON with that content type.

    Raises:
        RequestError: If it is not, is too long, or has other fields than `kind`.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RequestError("send JSON, with the content type application/json")
    body = b""
    try:
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY_BYTES:
                raise RequestError(f"the body is longer than {MAX_BODY_BYTES} bytes; shorten it")
    except ClientDisconnect:
        raise RequestError("the connection was closed before the body ended") from None
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise RequestError(describe(error)) from None


MAX_WATCHED = 8
"""Most games to stream at once."""

Json = dict[str, Any]
Handler = Callable[[Request], Awaitable[Response]]


def create_watch_app(settings: ServeSettings) -> Starlette:
    """Create the application of the page; all its addresses are relative, so it can be mounted anywhere.

    Raises:
        WordListError: If there is no such word list.
    """
    watch = Watch(settings, GameContext.from_settings(settings.words, settings.game))
    routes = [
        Route("/", _page),
        Route("/api/about", _answered(watch.about)),
        Route("/api/runs", _answered(watch.runs)),
        Route("/api/runs/{run}", _answered(watch.run)),
        Route("/api/runs/{run}/games", _answered(watch.games)),
        Route("/api/review", _answered(watch.review)),
        Route("/api/watch", _answered(watch.watch), methods=["POST"]),
        Route("/api/play", _answered(watch.open_game), methods=["POST"]),
        Route("/api/play/{game}", _answered(watch.guess), methods=["POST"]),
        Route("/runs/{run}/report.html", _answered(watch.report)),
    ]
    return Starlette(routes=routes)


def create_page_app(settings: ServeSettings) -> Starlette:
    """Create the application of `wordle-rl watch`: the page at `/watch/`, to which `/` redirects.

    Raises:
        WordListError: If there is no such word list.
    """
    return Starlette(routes=[Route("/", to_page), Mount("/watch", create_watch_app(settings))])


async def to_page(_: Request) -> Response:
    """Redirect to the page, by a relative address, so that it works behind a proxy that adds a prefix."""
    return RedirectResponse("watch/")


class Watch:
    """Handlers of the page's requests.

    Args:
        settings: Directory of runs, and more players.
        context: Words, split, wording and solver of games that belong to no run.
    """

    def __init__(self, settings: ServeSettings, context: GameContext) -> None:
        self._directory, self._context = settings.runs, context
        self._source_of_words = settings.words.source
        self._parts: tuple[SplitName, ...] = ("train", *settings.allow_held_out)
        self._players = Players(settings.runs, context, settings.players, settings.players_url or None)
        self._reviewers: dict[str, Reviewer] = {}
        answers = tuple(word for part in self._parts for word in context.split.named(part))
        self._hand_games = HandGames(self._reviewer(context.solver), answers, settings.game.max_turns)
        self._num_watched = 0

    async def about(self, _: Request) -> Response:
        """Players, words and rules."""
        words = self._context.words
        players = await to_thread.run_sync(self._players.ids)
        return _json(
            {
                "players": [{"id": identity, "label": label} for identity, label in players.items()],
                "parts": self._parts,
                "words": words.name,
                "word_length": words.word_length,
                "num_answers": len(words.answers),
                "max_turns": self._context.prompter.rules.max_turns,
            }
        )

    async def runs(self, _: Request) -> Response:
        """Names of runs, newest first."""
        return _json({"runs": list(await to_thread.run_sync(find_runs, self._directory))})

    async def run(self, request: Request) -> Response:
        """Summary of a run; 304 if its files have not changed."""
        run = self._run(request.path_params["run"])
        return await _unless_unchanged(request, partial(mark_of, run), lambda: _json(summary_of(run)))

    async def games(self, request: Request) -> Response:
        """Games of a source from an offset on; 304 if the file has not changed."""
        source = self._source(request)
        after = _number(request, "after")
        stat = source.path.stat()
        mark = f"{stat.st_ino:x}-{stat.st_size:x}-{stat.st_mtime_ns:x}-{after:x}"
        return await _unless_unchanged(request, lambda: mark, lambda: _json(games_of(source, after)))

    async def review(self, request: Request) -> Response:
        """Review of a board by the solver, turn by turn."""
        name = request.query_params.get("run")
        source = words_source(self._run(name)) if name else self._source_of_words
        solver = await to_thread.run_sync(self._players.solver_of, source)
        try:
            turns = parse_board(request.query_params.get("board", ""), solver.words.word_length)
        except ValueError as error:
            raise RequestError(str(error)) from None
        max_turns = _number(request, "max_turns", self._context.prompter.rules.max_turns)
        reviewed = await to_thread.run_sync(self._reviewer(solver), turns, max_turns)
        return _json({"turns": [asdict(turn) for turn in reviewed]})

    async def watch(self, request: Request) -> Response:
        """Stream a game of a player."""
        wanted = await body_of(request, WatchRequest)
        if self._num_watched >= MAX_WATCHED:
            raise BusyError(f"{MAX_WATCHED} games are being watched; try again when one has ended")
        if wanted.part not in self._parts:
            raise RequestError(f"part {wanted.part!r} is held out here; use {', '.join(self._parts)}")
        seat = await to_thread.run_sync(self._players.seat, wanted.player, wanted.temperature, wanted.seed)
        secret = wanted.secret_among(seat.words, seat.split)
        events = live_events(seat, secret, self._reviewer(seat.solver))
        return StreamingResponse(self._streamed(events), media_type="application/x-ndjson", headers=_NEVER_KEPT)

    async def open_game(self, request: Request) -> Response:
        """Begin a game by hand."""
        wanted = await body_of(request, HandGameRequest)
        return _json(self._hand_games.open(wanted.dictionary, wanted.hard_mode, wanted.seed))

    async def guess(self, request: Request) -> Response:
        """Play a word by hand."""
        wanted = await body_of(request, HandGuess)
        return _json(self._hand_games.guess(request.path_params["game"], wanted.guess))

    async def report(self, request: Request) -> Response:
        """The report of a run as it stands."""
        name = request.path_params["run"]
        run = self._run(name)
        page = await to_thread.run_sync(lambda: render_report(read_run(run), watch_page=f"../../#run={quote(name)}&"))
        return HTMLResponse(page, headers={"X-Content-Type-Options": "nosniff"})

    def _run(self, name: str) -> Path:
        found = find_runs(self._directory).get(name)
        if found is None:
            raise NotFoundError(f"no run {name[:80]!r}")
        return found

    def _source(self, request: Request) -> Source:
        asked = request.query_params.get("source", "games")
        found = sources_of(self._run(request.path_params["run"])).get(asked)
        if found is None:
            raise NotFoundError(f"the run has no source {asked[:80]!r}")
        return found

    def _reviewer(self, solver: Solver) -> Reviewer:
        return self._reviewers.setdefault(solver.words.fingerprint, Reviewer(solver))

    async def _streamed(self, events: Iterator[Json]) -> AsyncIterator[bytes]:
        # If the viewer leaves, the generator is closed and the game stops.
        self._num_watched += 1
        try:
            while (event := await to_thread.run_sync(next, events, None)) is not None:
                yield json.dumps(event, allow_nan=False).encode() + b"\n"
        finally:
            self._num_watched -= 1


_NEVER_KEPT = {"Cache-Control": "no-store"}


async def _page(_: Request) -> Response:
    page = render_page()
    return HTMLResponse(page.html, headers=page_headers(page))


def _answered(handler: Handler) -> Handler:
    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except NotFoundError as error:
            return _json({"error": str(error)}, status=404)
        except BusyError as error:
            return _json({"error": str(error)}, status=503)
        except _REFUSED as error:
            return _json({"error": str(error)}, status=400)

    return answer


async def _unless_unchanged(request: Request, mark: Callable[[], str], respond: Callable[[], Response]) -> Response:
    tag = f'"{await to_thread.run_sync(mark)}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    response = await to_thread.run_sync(respond)
    response.headers.update(headers)
    return response


_REFUSED = (
    RequestError, ConfigError, RunError, ReportError, EvaluationError, WordListError, SolverError,
)  # fmt: skip


def _json(value: Any, status: int = 200) -> Response:
    body = json.dumps(value, allow_nan=False)  # ASCII, so that a lone surrogate in a reply cannot break it
    return Response(body, status, {"X-Content-Type-Options": "nosniff", **_NEVER_KEPT}, "application/json")


def _number(request: Request, name: str, default: int = 0) -> int:
    text = request.query_params.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise RequestError(f"{name} {text[:40]!r} is not a number; give a whole number")
    return int(text)
