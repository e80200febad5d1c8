"""`serve`: the server in the foreground until Ctrl-C."""

from __future__ import annotations

import ipaddress
from typing import Annotated

import tyro

from wordle_rl.cli import console
from wordle_rl.config import ConfigError
from wordle_rl.serve.settings import ServeSettings

INSTALL = 'pip install "wordle-rl[serve]"'


def serve(settings: Annotated[ServeSettings, tyro.conf.arg(name="")] = ServeSettings()) -> None:
    """Serve Wordle to other people's trainers over OpenEnv, and the page of `watch`, until Ctrl-C."""
    try:
        from wordle_rl.serve.server import run_server
    except ModuleNotFoundError as error:
        raise ConfigError(f"serve needs {error.name}: {INSTALL}") from None
    if not _is_loopback(settings.host) and not settings.token_variable:
        console.messages.print(f"note: anyone who reaches {settings.host} can play; --token-variable asks for a token")
    run_server(settings, lambda address: console.out.print(f"serving at {address}; Ctrl-C stops", highlight=False))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
