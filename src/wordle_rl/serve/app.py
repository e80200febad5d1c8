"""`create_app`: the application of `wordle-rl serve`."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from openenv.core.env_server.http_server import HTTPEnvServer
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from wordle_rl.serve.environment import NAME, WordleEnvironment
from wordle_rl.serve.gate import guard
from wordle_rl.serve.openenv_client import WordleAction, WordleObservation, WordleState
from wordle_rl.serve.protocol import EnvironmentProtocol, Refusal, wrong_fields
from wordle_rl.serve.serve_settings import ServeSettings
from wordle_rl.serve.sessions import Sessions
from wordle_rl.serve.tasks import ServedGames
from wordle_rl.serve.textarena import TextArenaAction, TextArenaEnvironment, TextArenaObservation, TextArenaState

API_VERSION = "1.0.0"
"""Version of OpenEnv's HTTP interface that the routes implement."""


def create_app(settings: ServeSettings) -> FastAPI:
    """Create the application: OpenEnv's routes, health and readiness, and the page, to which `/` redirects.

    `app.state` has the `games` and the `sessions`, which both protocols share.
    """
    # The page brings players, evaluation and reports, which the games of sessions do without.
    from wordle_rl.serve.watch.watch_app import create_watch_app, to_page

    games, sessions = ServedGames(settings), Sessions(settings)
    app = FastAPI(title="wordle-rl", version=API_VERSION, description="Wordle as an OpenEnv environment.")
    app.state.games, app.state.sessions = games, sessions
    guard(app, settings)
    make = partial(WordleEnvironment, games)
    _add_openenv_routes(app, sessions, make, WordleAction, WordleObservation, WordleState, NAME)

    @app.get("/ready", tags=["Health"])
    async def ready() -> JSONResponse:
        """Readiness: 200 while a session is free, otherwise 503."""
        state = "stopping" if sessions.draining.is_set() else "full" if sessions.is_full else "ready"
        return JSONResponse({"status": state}, 200 if state == "ready" else 503)

    textarena = FastAPI(title="wordle-rl: TextArena", description="Wordle-v0 in the words of TextArena.")
    textarena_types = TextArenaAction, TextArenaObservation, TextArenaState
    _add_openenv_routes(textarena, sessions, partial(TextArenaEnvironment, games), *textarena_types, "textarena")
    app.mount("/textarena", textarena)
    app.mount("/watch", create_watch_app(settings))
    app.add_route("/", to_page, include_in_schema=False)
    return app


def _add_openenv_routes(
    app: FastAPI,
    sessions: Sessions,
    make: Callable[[], Environment[Any, Any, Any]],
    action: type[Action],
    observation: type[Observation],
    state: type[State],
    name: str,
) -> None:
    # OpenEnv's WebSockets have no idle timeout, and an error ends the session; ours replace them. Its `/mcp` opens
    # sessions over HTTP, which are useless without tools, so allow only one.
    server = HTTPEnvServer(make, action, observation, max_concurrent_envs=1, env_name=name, state_cls=state)
    server.register_routes(app)
    app.router.routes[:] = [route for route in app.router.routes if not isinstance(route, WebSocketRoute)]

    @app.websocket("/ws")
    async def play(socket: WebSocket) -> None:
        """OpenEnv's session."""
        await sessions.serve(socket, EnvironmentProtocol(make(), action).answer)

    @app.exception_handler(Refusal)
    async def refused(_request: Request, error: Refusal) -> Response:
        # In ASCII, since the name of a field can hold a lone surrogate.
        return Response(json.dumps({"detail": error.as_json()}), error.reason.status, media_type="application/json")

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        # FastAPI's own answer repeats the input, and fails at what is no JSON: infinity, a lone surrogate.
        return await refused(request, wrong_fields(error.errors()))
