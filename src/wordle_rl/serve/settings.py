"""Settings of the server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal, Self

import tyro
from pydantic import Field, SecretStr, model_validator

from wordle_rl.config import ConfigError, FixedRewardSettings, GameSettings, WordSettings

HeldOutPart = Literal["val", "test"]
"""A part of the answers whose secrets are held out."""


class ServeSettings(FixedRewardSettings):
    """Games that the server offers, and how it is reached."""

    words: WordSettings = WordSettings()
    """Word list and split of a session that asks for none."""
    word_lists: tuple[str, ...] = ()
    """Further word lists that a session may ask for by name."""
    game: GameSettings = GameSettings()
    """Rules and wording; a session may ask for another style, and for hard mode."""
    split: Literal["train", "val", "test"] = "train"
    """Secrets of a session that names no split."""
    allow_held_out: tuple[HeldOutPart, ...] = ()
    """Held-out parts that sessions may play and list; of the others they learn the number of secrets alone."""
    reveal_secret: Annotated[bool, tyro.conf.arg(help_behavior_hint="")] = True
    """Show the secret in the last observation of a game."""
    textarena_reading: Literal["strict", "lenient"] = "strict"
    """Reading of messages at /textarena: `strict` one bracketed word after optional thinking, `lenient` as the original
    reads, for comparisons."""
    runs: Path = Path("runs")
    """Directory of the runs whose games are shown, or one run."""
    players: tuple[str, ...] = ()
    """Players to watch beside the built-in ones and the models of the runs: model directories, openai:MODEL,
    module:attribute."""
    players_url: str = ""
    """Address of openai:MODEL, or a provider's name; empty: OpenAI's own."""

    host: str = "127.0.0.1"
    """Address to listen on; the default is reached from this machine alone."""
    port: int = Field(8000, ge=0, le=65535)
    """Port to listen on; 0: any that is free. `wordle-rl watch` has another default, so both can run."""
    token_variable: str = ""
    """Environment variable with a token that every request must bear; empty: no token is asked for."""
    id_key_variable: str = ""
    """Environment variable with the key of task ids; empty: a new key, so new ids, whenever the server starts."""
    max_sessions: int = Field(4096, ge=1)
    """Open sessions; a further one is refused."""
    max_batch_games: int = Field(4096, ge=1)
    """Games of one session on the batched route."""
    idle_timeout_s: float = Field(1800.0, gt=0)
    """Seconds without a message after which a session is closed."""
    ping_interval_s: float = Field(20.0, gt=0)
    """Seconds between pings of an open connection."""
    ping_timeout_s: float = Field(20.0, gt=0)
    """Seconds for the answer to a ping, after which the connection counts as lost."""
    max_message_bytes: int = Field(1_048_576, ge=1024)
    """Longest message that is read; a longer one closes its connection."""
    shutdown_timeout_s: float = Field(10.0, ge=0)
    """Seconds for turns in progress to finish when the server is stopped."""

    @model_validator(mode="after")
    def _default_split_is_allowed(self) -> Self:
        if self.split != "train" and self.split not in self.allow_held_out:
            raise ValueError(f"split {self.split!r} is held out; add it to allow_held_out, or leave it at 'train'")
        return self

    def token(self) -> SecretStr | None:
        """The token that requests must bear; None: none is asked for.

        Raises:
            ConfigError: If its variable is empty or not set.
        """
        return SecretStr(_read(self.token_variable, "token_variable")) if self.token_variable else None

    def id_key(self) -> bytes:
        """The key of task ids.

        Raises:
            ConfigError: If its variable is empty or not set.
        """
        if not self.id_key_variable:
            return os.urandom(32)
        return _read(self.id_key_variable, "id_key_variable").encode()


def _read(variable: str, setting: str) -> str:
    value = os.environ.get(variable, "")
    if not value:
        raise ConfigError(f"{setting} names {variable}, which is empty or not set; set it, or leave the setting out")
    return value
