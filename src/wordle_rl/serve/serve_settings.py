"""Settings of the server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import tyro
from pydantic import Field, SecretStr

from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import GameSettings, WordSettings
from wordle_rl.config.training import FixedRewardSettings


class ServeSettings(FixedRewardSettings):
    """Games that the server offers, and how to reach it."""

    words: WordSettings = WordSettings()
    """Default word list and split of a session."""
    word_lists: tuple[str, ...] = ()
    """More word lists that a session can choose by name."""
    game: GameSettings = GameSettings()
    """Rules and wording; a session can choose another style, and hard mode."""
    allow_held_out: tuple[Literal["val", "test"], ...] = ()
    """Held-out parts that sessions can play and list; of the others they only see the number of secrets."""
    reveal_secret: Annotated[bool, tyro.conf.arg(help_behavior_hint="")] = True
    """Show the secret in the last observation of a game."""
    runs: Path = Path("runs")
    """A run, or the directory of the runs, whose games to show."""
    players: tuple[str, ...] = ()
    """More players to watch, besides the built-in ones and the models of the runs: model directories, openai:MODEL,
    module:attribute."""
    players_url: str = ""
    """Address or provider of openai:MODEL; empty: OpenAI."""

    host: str = "127.0.0.1"
    """Address to listen on; the default is reachable only from this machine."""
    port: int = Field(8000, ge=0, le=65535)
    """Port to listen on; 0: any free one. `wordle-rl watch` has another default, so both can run."""
    host_names: tuple[str, ...] = ()
    """More names by which clients call the server, such as that of a proxy before it, besides `localhost`, `host` and
    any IP address; `*`: any name. Requests under other names are refused."""
    token_variable: str = ""
    """Environment variable with a token that every request must send; empty: no token is needed."""
    id_key_variable: str = ""
    """Environment variable with the key of task ids; empty: a new key, and so new ids, at every start."""
    max_sessions: int = Field(4096, ge=1)
    """Most open sessions; more are refused."""
    max_client_sessions: int = Field(1024, ge=1)
    """Most open sessions of one client address; more are refused."""
    max_reply_characters: int = Field(65_536, ge=1)
    """Characters of a reply that are read and kept; the rest is cut off, as at a token limit."""
    request_timeout_s: float = Field(30.0, gt=0)
    """Seconds that a request may take to arrive, headers and body; later its connection is closed."""
    idle_timeout_s: float = Field(1800.0, gt=0)
    """Close a session after this many seconds without a message."""
    ping_timeout_s: float = Field(20.0, gt=0)
    """Seconds between pings, and to wait for the answer to one before the connection counts as lost."""
    max_message_bytes: int = Field(1_048_576, ge=1024)
    """Longest message of a session, and body of a request; a longer message closes its connection."""
    shutdown_timeout_s: float = Field(10.0, ge=0)
    """Seconds that turns in progress have to finish when the server stops."""

    def token(self) -> SecretStr | None:
        """Return the token that requests must send; None if none is needed."""
        return SecretStr(_read(self.token_variable, "token_variable")) if self.token_variable else None

    def id_key(self) -> bytes:
        """Return the key of task ids."""
        if not self.id_key_variable:
            return os.urandom(32)
        return _read(self.id_key_variable, "id_key_variable").encode()


def _read(variable: str, setting: str) -> str:
    value = os.environ.get(variable, "")
    if not value:
        raise ConfigError(f"{setting} names {variable}, which is empty or not set; set it, or leave out the setting")
    return value
