"""OpenEnv's HTTP routes, for both protocols of the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from openenv.core.env_server.http_server import HTTPEnvServer
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from starlette.routing import WebSocketRoute


def add_openenv_routes(
    app: FastAPI,
    make: Callable[[], Environment[Any, Any, Any]],
    action: type[Action],
    observation: type[Observation],
    state: type[State],
    name: str,
) -> None:
    """Add OpenEnv's HTTP routes without its WebSockets.

    Args:
        app: An application without WebSockets.
        make: Creates an environment; openenv needs a class or a `partial`.
        action: Type of its actions.
        observation: Type of its observations.
        state: Type of its state.
        name: Name of the environment in the routes.
    """
    # OpenEnv's WebSockets have no idle timeout, and an error ends the session; ours replace them. Its `/mcp` opens
    # sessions over HTTP, which are useless without tools, so allow only one.
    server = HTTPEnvServer(make, action, observation, max_concurrent_envs=1, env_name=name, state_cls=state)
    server.register_routes(app)
    app.router.routes[:] = [route for route in app.router.routes if not isinstance(route, WebSocketRoute)]
