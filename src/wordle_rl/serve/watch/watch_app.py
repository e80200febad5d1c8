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

An invalid request is answered by `{"error": …}` and a 4xx status. FastAPI runs each handler in a thread, and takes only
bodies with the content type JSON, which a page of another site cannot send. No response holds the secret of a running
game.
"""

from __future__ import annotations

import asyncio
import json
import random
import secrets
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException as StarletteHTTPException

from wordle_rl.config.base import LARGEST_SEED
from wordle_rl.config.context import GameContext
from wordle_rl.errors import UserError
from wordle_rl.game import Dictionary
from wordle_rl.report import read_run
from wordle_rl.report.page import render as render_report
from wordle_rl.serve.gate import guard
from wordle_rl.serve.serve_settings import ServeSettings
from wordle_rl.serve.watch.live_games import HandGames, Players, live_events
from wordle_rl.serve.watch.review import Reviewer, parse_board
from wordle_rl.serve.watch.run_files import find_runs, games_of, mark_of, sources_of, summary_of, words_source
from wordle_rl.serve.watch.watch_page import render_page
from wordle_rl.solver import Solver
from wordle_rl.words.split import SplitName

MAX_REPORTS = 4
"""Most rendered reports in memory, each of a run's files as they were; the least recently read one is dropped."""
Whole = Annotated[int, Query(ge=0, le=2**53)]
"""A whole number that JavaScript can hold."""


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class WatchRequest(_Body):
    """A game to watch. Without a secret, the seed draws one from a part of the answers."""

    player: str = Field(max_length=400)
    secret: str | None = Field(None, max_length=16)
    part: Literal["train", "val", "test"] = "train"
    seed: int = Field(default_factory=lambda: secrets.randbelow(LARGEST_SEED), ge=0, le=LARGEST_SEED)
    temperature: float = Field(0.0, ge=0, le=2)


class HandGameRequest(_Body):
    """Rules of a game by hand."""

    dictionary: Dictionary = Dictionary.APP
    hard_mode: bool = False
    seed: int | None = Field(None, ge=0, le=LARGEST_SEED)


class HandGuess(_Body):
    """A word played by hand."""

    guess: str = Field(max_length=64)


def create_watch_app(settings: ServeSettings) -> FastAPI:
    """Create the application of the page; all its addresses are relative, so it can be mounted anywhere."""
    watch = Watch(settings, GameContext.from_settings(settings.words, settings.game))
    app = FastAPI(title="wordle-rl: watch", openapi_url=None)
    app.get("/")(_page)
    app.get("/api/about")(watch.about)
    app.get("/api/runs")(watch.runs)
    app.get("/api/runs/{run}")(watch.run)
    app.get("/api/runs/{run}/games")(watch.games)
    app.get("/api/review")(watch.review)
    app.post("/api/watch")(watch.watch)
    app.post("/api/play")(watch.open_game)
    app.post("/api/play/{game}")(watch.guess)
    app.get("/runs/{run}/report.html")(watch.report)

    @app.exception_handler(UserError)
    def refused(_: Request, error: UserError) -> Response:
        return _json({"error": str(error)}, status=400)

    @app.exception_handler(StarletteHTTPException)
    def failed(_: Request, error: StarletteHTTPException) -> Response:
        return _json({"error": error.detail}, status=error.status_code)

    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> Response:
        faults = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
        return _json({"error": "; ".join(faults)}, status=400)

    return app


def create_page_app(settings: ServeSettings) -> FastAPI:
    """Create the application of `wordle-rl watch`: the page at `/watch/`, to which `/` redirects."""
    app = FastAPI(title="wordle-rl: watch", openapi_url=None)
    guard(app, settings)
    app.add_route("/", to_page)
    app.mount("/watch", create_watch_app(settings))
    return app


async def to_page(_: Request) -> Response:
    """Redirect to the page, by a relative address, so that it works behind a proxy that adds a prefix."""
    return RedirectResponse("watch/")


def _page() -> Response:
    page = render_page()
    headers = {"Content-Security-Policy": page.policy, "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache"}
    return HTMLResponse(page.html, headers={"X-Content-Type-Options": "nosniff", **headers})


class Watch:
    """Handlers of the page's requests; `context` has the words, wording and solver of games that belong to no run."""

    def __init__(self, settings: ServeSettings, context: GameContext) -> None:
        self._directory, self._context = settings.runs, context
        self._source_of_words = settings.words.source
        self._parts: tuple[SplitName, ...] = ("train", *settings.allow_held_out)
        self._players = Players(settings.runs, context, settings.players, settings.players_url or None)
        self._rendered = lru_cache(MAX_REPORTS)(_rendered)
        self._rendering = asyncio.Lock()
        self._reviewers: dict[str, Reviewer] = {}
        answers = tuple(word for part in self._parts for word in context.split.named(part))
        self._hand_games = HandGames(self._reviewer(context.solver), answers, settings.game.max_turns)

    def about(self) -> Response:
        """Players, words and rules."""
        words = self._context.words
        return _json(
            {
                "players": [{"id": identity, "label": label} for identity, label in self._players.ids().items()],
                "parts": self._parts,
                "words": words.name,
                "word_length": words.word_length,
                "num_answers": len(words.answers),
                "max_turns": self._context.prompter.rules.max_turns,
            }
        )

    def runs(self) -> Response:
        """Names of runs, newest first."""
        return _json({"runs": list(find_runs(self._directory))})

    def run(self, run: str, request: Request) -> Response:
        """Summary of a run; 304 if its files have not changed."""
        directory = self._run(run)
        tag = {"ETag": f'"{mark_of(directory)}"', "Cache-Control": "no-cache"}
        # The page asks every few seconds, and most of the time nothing is new.
        if tag["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=tag)
        response = _json(summary_of(directory))
        response.headers.update(tag)
        return response

    def games(self, run: str, source: str = "games", after: Whole = 0) -> Response:
        """Games of a source from an offset on."""
        found = sources_of(self._run(run)).get(source)
        if found is None:
            raise HTTPException(404, f"the run has no source {source[:80]!r}")
        return _json(games_of(found, after))

    def review(self, run: str = "", board: str = "", max_turns: Whole | None = None) -> Response:
        """Review of a board by the solver, turn by turn."""
        solver = self._players.solver_of(words_source(self._run(run)) if run else self._source_of_words)
        try:
            turns = parse_board(board, solver.words.word_length)
        except ValueError as error:
            raise HTTPException(400, str(error)) from None
        if max_turns is None:
            max_turns = self._context.prompter.rules.max_turns
        return _json({"turns": [asdict(turn) for turn in self._reviewer(solver)(turns, max_turns)]})

    def watch(self, wanted: WatchRequest) -> Response:
        """Stream a game of a player."""
        if wanted.part not in self._parts:
            raise HTTPException(400, f"part {wanted.part!r} is held out here; use {', '.join(self._parts)}")
        seat = self._players.seat(wanted.player, wanted.temperature, wanted.seed)
        if wanted.secret is None:
            secret = random.Random(wanted.seed).choice(seat.context.split.named(wanted.part))
        else:
            secret = wanted.secret.strip().lower()
            if secret not in seat.context.words or len(secret) != seat.context.words.word_length:
                raise HTTPException(
                    400, f"{secret!r} is not in word list {seat.context.words.name!r}; name a listed word"
                )
        # A line a turn, as it is played: a game of a language model can take a minute.
        events = live_events(seat, secret, self._reviewer(seat.context.solver))
        lines = (json.dumps(event, allow_nan=False).encode() + b"\n" for event in events)
        return StreamingResponse(lines, media_type="application/x-ndjson", headers=_NEVER_KEPT)

    def open_game(self, wanted: HandGameRequest) -> Response:
        """Begin a game by hand."""
        return _json(self._hand_games.open(wanted.dictionary, wanted.hard_mode, wanted.seed))

    def guess(self, game: str, wanted: HandGuess) -> Response:
        """Play a word by hand."""
        answer = self._hand_games.guess(game, wanted.guess)
        if answer is None:
            raise HTTPException(404, "this game is over, or has made room for newer ones; begin another")
        return _json(answer)

    async def report(self, run: str) -> Response:
        """The report of a run as it stands."""
        # One at a time: each takes a processor for seconds. Whoever waits gets the page that the first one rendered.
        async with self._rendering:
            page = await run_in_threadpool(self._report_of, run)
        return HTMLResponse(page, headers={"X-Content-Type-Options": "nosniff"})

    def _report_of(self, run: str) -> bytes:
        directory = self._run(run)
        return self._rendered(directory, mark_of(directory), run)

    def _run(self, name: str) -> Path:
        found = find_runs(self._directory).get(name)
        if found is None:
            raise HTTPException(404, f"no run {name[:80]!r}")
        return found

    def _reviewer(self, solver: Solver) -> Reviewer:
        return self._reviewers.setdefault(solver.words.fingerprint, Reviewer(solver, self._players.lock_of(solver)))


def _rendered(directory: Path, _mark: str, run: str) -> bytes:
    return render_report(read_run(directory), watch_page=f"../../#run={quote(run)}&").encode()


_NEVER_KEPT = {"Cache-Control": "no-store"}


def _json(value: Any, status: int = 200) -> Response:
    body = json.dumps(value, allow_nan=False)  # ASCII, so that a lone surrogate in a reply cannot break it
    return Response(body, status, {"X-Content-Type-Options": "nosniff", **_NEVER_KEPT}, "application/json")
