"""Games over token ids: sampled tokens go in unchanged, and the next prompt comes back, token for token.

Observations and actions are those of Tinker's environments, without its package; `tinker` converts the types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wordle_rl.chat.codec import ChatCodec, opening_length
from wordle_rl.trainers.games import LiveGame


@dataclass(frozen=True, slots=True)
class TokenStep:
    """Result of one completion.

    Attributes:
        reward: Reward of the turn. The rewards of a game add up to the rubric's.
        done: True if the game is over.
        next_ids: The next prompt, everything so far and the feedback; empty once the game is over.
    """

    reward: float
    done: bool
    next_ids: tuple[int, ...] = ()


class TokenEnv:
    """One game, used once. Prompts grow by concatenation, so sampled tokens are never re-encoded.

    `initial_ids` is the first prompt.

    Args:
        game: The game.
        codec: Tokenizer and chat template of the policy.
        max_prompt_tokens: Truncate a game whose next prompt would be longer, as a loss. None: no limit.
    """

    def __init__(self, game: LiveGame, codec: ChatCodec, max_prompt_tokens: int | None = None) -> None:
        self.game = game
        self._codec = codec
        self._max_prompt_tokens = max_prompt_tokens
        # Prefix guesses are concatenated turn by turn, as in play.
        first = opening_length(game.prompt)
        opening = codec.prompt_ids(game.prompt[:first])
        self._ids = opening + codec.prompt_ids(game.prompt)[len(opening) :]
        self.initial_ids = tuple(self._ids)

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Ids at which sampling stops."""
        return tuple(sorted(self._codec.stop_ids))

    def step(self, completion: Sequence[int]) -> TokenStep:
        """Play one completion exactly as sampled, with its closing token if there was one.

        Raises:
            RuntimeError: If the game is over.
        """
        overlong = not completion or completion[-1] not in self._codec.stop_ids
        text = self._codec.text_of(completion)
        result = self.game.step(text, num_tokens=len(completion), overlong=overlong)
        if result.done:
            return TokenStep(result.reward, done=True)
        feedback = self._codec.bridge_ids(result.messages[0])
        self._ids += [*completion, *self._codec.closed(completion), *feedback]
        if self._max_prompt_tokens is not None and len(self._ids) > self._max_prompt_tokens:
            return TokenStep(result.reward + self.game.truncate(), done=True)
        return TokenStep(result.reward, done=False, next_ids=tuple(self._ids))
