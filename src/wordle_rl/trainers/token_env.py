"""Games of other trainers over token ids, for those that sample tokens themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wordle_rl.chat.codec import ChatCodec, opening_length
from wordle_rl.trainers.games import LiveGame


class TokenStep(NamedTuple):
    """Result of one completion. `next_ids` is everything so far and the feedback; empty once the game is over."""

    reward: float
    done: bool
    next_ids: tuple[int, ...] = ()


class TokenEnv:
    """One game over token ids. Prompts grow by concatenation, so sampled tokens are never re-encoded.

    `initial_ids` is the first prompt, `stop_ids` ends a completion. A game whose next prompt would exceed
    `max_prompt_tokens` is truncated, as a loss.
    """

    def __init__(self, game: LiveGame, codec: ChatCodec, max_prompt_tokens: int | None = None) -> None:
        self.game = game
        self.stop_ids = tuple(sorted(codec.stop_ids))
        self._codec = codec
        self._max_prompt_tokens = max_prompt_tokens
        # Prefix guesses are concatenated turn by turn, as in play.
        opening = codec.prompt_ids(game.prompt[: opening_length(game.prompt)])
        self._ids = opening + codec.prompt_ids(game.prompt)[len(opening) :]
        self.initial_ids = tuple(self._ids)

    def step(self, completion: Sequence[int]) -> TokenStep:
        """Play one completion exactly as sampled, with its closing token if there was one."""
        overlong = not completion or completion[-1] not in self._codec.stop_ids
        result = self.game.step(self._codec.text_of(completion), num_tokens=len(completion), overlong=overlong)
        if result.done:
            return TokenStep(result.reward, done=True)
        feedback = self._codec.bridge_ids(result.messages[0])
        self._ids += [*completion, *self._codec.closed(completion), *feedback]
        if self._max_prompt_tokens is not None and len(self._ids) > self._max_prompt_tokens:
            return TokenStep(result.reward + self.game.truncate(), done=True)
        return TokenStep(result.reward, done=False, next_ids=tuple(self._ids))
