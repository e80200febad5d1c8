"""`create_app`: the application of `wordle-rl serve`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.websockets import WebSocket

from wordle_rl.serve.auth import Gate
from wordle_rl.serve.batch import BatchProtocol
from wordle_rl.serve.environment import NAME, WordleEnvironment
from wordle_rl.serve.errors import Refusal
from wordle_rl.serve.games import ServedGames
from wordle_rl.serve.metrics import Metrics
from wordle_rl.serve.openenv_routes import add_openenv_routes
from wordle_rl.serve.protocol import EnvironmentProtocol, refused
from wordle_rl.serve.sessions import Sessions
from wordle_rl.serve.settings import ServeSettings
from wordle_rl.serve.textarena.app import create_textarena_app
from wordle_rl.serve.types import WordleAction, WordleObservation, WordleState
from wordle_rl.serve.watch.app import create_watch_app

API_VERSION = "1.0.0"
"""Version of OpenEnv's HTTP interface that the routes implement."""


@dataclass(frozen=True)
class Service:
    """What the routes of a server share; `app.state.service`."""

    settings: ServeSettings
    games: ServedGames
    metrics: Metrics
    sessions: Sessions

    @classmethod
    def of(cls, settings: ServeSettings) -> Service:
        """Load word lists and keys.

        Raises:
            WordListError: If a word list is missing or wrong.
            ConfigError: If a variable that holds a key is not set.
        """
        metrics = Metrics()
        return cls(settings, ServedGames(settings), metrics, Sessions(settings, metrics, refused))

    def environment(self) -> WordleEnvironment:
        """Create an environment."""
        return WordleEnvironment(self.games, self.metrics)


def create_app(settings: ServeSettings) -> FastAPI:
    """Create the application: OpenEnv's routes, health, readiness and metrics, and the page, to which `/` redirects.

    Raises:
        WordListError: If a word list is missing or wrong.
        ConfigError: If a variable that holds a token or a key is not set.
    """
    service = Service.of(settings)
    app = FastAPI(
        title="wordle-rl",
        version=API_VERSION,
        description="Wordle as an OpenEnv environment.",
        lifespan=partial(_lifespan, service),
    )
    app.state.service = service
    app.add_middleware(Gate, token=settings.token())
    app.add_exception_handler(Refusal, _refused)
    make = partial(WordleEnvironment, service.games, service.metrics)
    add_openenv_routes(app, make, WordleAction, WordleObservation, WordleState, NAME)
    _add_own_routes(app, service)
    textarena = create_textarena_app(service)
    textarena.add_exception_handler(Refusal, _refused)
    app.mount("/textarena", textarena)
    app.mount("/watch", create_watch_app(settings))
    app.add_route("/", _to_page, include_in_schema=False)
    return app


async def _to_page(_: Request) -> Response:
    return RedirectResponse("watch/")  # relative, so that it works behind a proxy that adds a prefix


@asynccontextmanager
async def _lifespan(service: Service, _app: FastAPI) -> AsyncIterator[None]:
    service.sessions.start()
    try:
        yield
    finally:
        await service.sessions.stop()
        service.games.close()


def _add_own_routes(app: FastAPI, service: Service) -> None:
    @app.websocket("/ws")
    async def play(socket: WebSocket) -> None:
        """OpenEnv's session."""
        environment = service.environment()
        protocol = EnvironmentProtocol(environment, WordleAction)
        await service.sessions.serve(socket, protocol.answer, environment.close)

    @app.websocket("/batch")
    async def play_many(socket: WebSocket) -> None:
        """Many games in one session."""
        protocol = BatchProtocol(service.games, service.metrics)
        await service.sessions.serve(socket, protocol.answer, protocol.close)

    @app.get("/ready", tags=["Health"])
    async def ready() -> JSONResponse:
        """Readiness: 200 while a session is free, otherwise 503."""
        sessions = service.sessions
        state = "stopping" if sessions.is_draining else "full" if sessions.is_full else "ready"
        return JSONResponse({"status": state}, 200 if state == "ready" else 503)

    @app.get("/metrics", tags=["Health"])
    async def metrics() -> Response:
        """Metrics for Prometheus."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def _refused(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refusal)
    return JSONResponse({"detail": error.as_json()}, error.status)
