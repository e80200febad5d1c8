"""The application at /textarena: TextArena's protocol with the sessions and games of the server."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.websockets import WebSocket

from wordle_rl.prompt import Shape, Style, Thinking
from wordle_rl.serve.openenv_routes import add_openenv_routes
from wordle_rl.serve.protocol import EnvironmentProtocol
from wordle_rl.serve.settings import ServeSettings
from wordle_rl.serve.textarena.environment import TextArenaEnvironment
from wordle_rl.serve.textarena.game import Reading
from wordle_rl.serve.textarena.models import TextArenaAction, TextArenaObservation, TextArenaState

if TYPE_CHECKING:
    from wordle_rl.serve.app import Service

NAME = "textarena"
"""Name of the environment in OpenEnv's routes."""


def create_textarena_app(service: Service) -> FastAPI:
    """Create the application to mount. It shares sessions, rules and words with the server, but not the wording."""
    settings = in_textarena_words(service.settings)
    games = service.games.with_settings(settings)
    make = partial(TextArenaEnvironment, games, service.metrics, Reading(settings.textarena_reading))
    app = FastAPI(title="wordle-rl: TextArena", description="Wordle-v0 in the words of TextArena.")
    add_openenv_routes(app, make, TextArenaAction, TextArenaObservation, TextArenaState, NAME)

    @app.websocket("/ws")
    async def play(socket: WebSocket) -> None:
        """OpenEnv's session."""
        environment = make()
        protocol = EnvironmentProtocol(environment, TextArenaAction)
        await service.sessions.serve(socket, protocol.answer, environment.close)

    return app


def in_textarena_words(settings: ServeSettings) -> ServeSettings:
    """Return settings with TextArena's wording: bracketed guesses and optional thinking."""
    wording = {
        "style": Style.TEXTARENA,
        "shape": Shape.TRANSCRIPT,
        "thinking": Thinking.OPTIONAL,
        "system_prompt": None,
    }
    return settings.model_copy(update={"game": settings.game.model_copy(update=wording)})
