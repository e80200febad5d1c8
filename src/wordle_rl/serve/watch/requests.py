"""Bodies of requests."""

from __future__ import annotations

import random
import secrets
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import ClientDisconnect, Request

from wordle_rl.config import LARGEST_SEED, describe
from wordle_rl.game import Dictionary
from wordle_rl.words import WordList
from wordle_rl.words.split import Split

MAX_BODY_BYTES = 4096


class RequestError(ValueError):
    """An invalid request."""


class NotFoundError(LookupError):
    """A run, a source or a game that does not exist."""


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
