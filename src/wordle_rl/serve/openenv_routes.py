"""OpenEnv's HTTP routes, as both protocols of the server have them."""

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
    """Add OpenEnv's HTTP routes without its WebSockets: those know no idle session and no refusal that keeps one open.

    Sessions that its `/mcp` opens over HTTP have no use here, since there are no tools; there is at most one.

    Args:
        app: Has no WebSocket of its own yet.
        make: Makes an environment; openenv wants a class or a `partial`.
        action: Its action.
        observation: Its observation.
        state: Its state.
        name: Name of the environment in the routes.
    """
    server = HTTPEnvServer(make, action, observation, max_concurrent_envs=1, env_name=name, state_cls=state)
    server.register_routes(app)
    app.router.routes[:] = [route for route in app.router.routes if not isinstance(route, WebSocketRoute)]
