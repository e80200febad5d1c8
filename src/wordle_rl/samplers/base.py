"""Interface between a rollout and a player."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol, runtime_checkable

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import ConfigError, EngineName, SamplingSettings
from wordle_rl.game import Turn
from wordle_rl.prompt import Message


@dataclass(frozen=True, slots=True)
class Request:
    """Request for the next completion of one game.

    `messages` is the whole prompt as text, `prompt_ids` the same as token ids (empty for a sampler without
    a codec), `turns` the board so far. Nothing here holds the secret.
    """

    game_id: int
    messages: tuple[Message, ...]
    turns: tuple[Turn, ...]
    prompt_ids: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """Completion of one turn.

    `token_ids` are exactly the sampled tokens, the closing one included; `sampler_logprobs` their natural
    log-probabilities under the sampling distribution. `overlong`: cut at the token limit. `error`: the player
    could not be asked, and why; such a game is no loss.
    """

    text: str
    token_ids: tuple[int, ...] = ()
    sampler_logprobs: tuple[float, ...] = ()
    overlong: bool = False
    error: str | None = None


class Sampler(Protocol):
    """A player for many games at once."""

    @property
    def codec(self) -> ChatCodec | None:
        """Its tokenizer and template; None for players that read text, not tokens."""

    def begin(self) -> None:
        """Forget all earlier games; ids may be used again."""

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """One completion per request, in order. Ids stay the same over a game's turns."""


Ask = Callable[[Request], Awaitable[Completion]]
"""Asks for one turn of one game; a failure is a completion with an `error`, never an exception."""


@runtime_checkable
class ConcurrentSampler(Protocol):
    """A player that can be asked about every game on its own, many at once, such as a server."""

    def session(self) -> AbstractAsyncContextManager[Ask]:
        """Open what asking needs, such as connections, for as long as the context lasts."""


@runtime_checkable
class TokenSampler(Protocol):
    """A player whose tokens are drawn on this machine."""

    @property
    def settings(self) -> SamplingSettings:
        """Sampling settings."""

    @property
    def sampled_by(self) -> EngineName:
        """Engine that draws them."""


@runtime_checkable
class MemoryBound(Protocol):
    """A player whose games wait in the memory of this machine between their turns."""

    def room_for(self, num_tokens: int) -> int:
        """Games of this many tokens that memory has room for now; at least 1."""


@runtime_checkable
class Closable(Protocol):
    """A player that holds something large, such as an engine."""

    def close(self) -> None:
        """Free it; the player can play no more."""


WORD_BEAM = 16
"""Beginnings of a guess that are followed at once where the likeliest listed word is looked for."""


def word_beam(engine: EngineName | None, temperature: float | None, *, constrained: bool) -> int | None:
    """Number of beginnings of a guess that a player follows at once; None: no words are looked for.

    That is so where guesses are not limited to listed words, and where they are limited one token after the other:
    where tokens are drawn at random, and by engines that are asked for one token at a time.
    """
    return WORD_BEAM if constrained and engine == "transformers" and temperature == 0 else None


def check_vllm(wanted_by: str) -> None:
    """Refuse what needs vLLM where there is none.

    Args:
        wanted_by: The settings that ask for it, for the message.

    Raises:
        ConfigError: If it is not installed.
    """
    if find_spec("vllm") is None:
        raise ConfigError(
            f'{wanted_by} needs a package that is not installed: pip install "wordle-rl[vllm]", or use "transformers"'
        )
