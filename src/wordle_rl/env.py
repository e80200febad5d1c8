"""`WordleEnv`: one single-use game, text in, text out. Create it, play it once, throw it away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from wordle_rl.game import Game, Outcome, Rules, Turn, turns_used
from wordle_rl.prompt import Guess, Message, ParseFailure, Prompter, Shape
from wordle_rl.words import WordList


class StopReason(StrEnum):
    """Why a game ended."""

    SOLVED = "solved"
    """The secret was guessed (terminated)."""
    OUT_OF_TURNS = "out_of_turns"
    """No turn is left (terminated)."""
    TOKEN_BUDGET = "token_budget"
    """The policy ran out of tokens for the whole game (truncated)."""
    NOT_NEEDED = "not_needed"
    """Training has no use for the rest of the game (truncated): no answer fits the marks any more, or it learns from
    the first guesses alone (`grpo.guesses`)."""
    REQUEST_FAILED = "request_failed"
    """The player could not be asked. An error, never a loss (truncated)."""


class PlayedTurn(NamedTuple):
    """One turn of a transcript: the reply, the parsed guess, and its outcome under the rules.

    `is_prefix` marks a prefix guess, on the board before play began. `num_tokens` is the length of the reply in the
    policy's tokens, or None if unknown. `overlong` means that the reply was cut at its token limit.
    """

    reply: str
    parsed: Guess | ParseFailure
    turn: Turn
    is_prefix: bool = False
    num_tokens: int | None = None
    overlong: bool = False


@dataclass(frozen=True, slots=True)
class Transcript:
    """The finished, immutable record of one game. Rewards and figures are computed from it."""

    secret: str
    rules: Rules
    turns: tuple[PlayedTurn, ...]
    stop_reason: StopReason

    @property
    def won(self) -> bool:
        """True if the player found the secret."""
        return self.stop_reason is StopReason.SOLVED

    @property
    def own_turns(self) -> tuple[PlayedTurn, ...]:
        """Turns played by the policy, without prefix guesses."""
        return tuple(turn for turn in self.turns if not turn.is_prefix)

    @property
    def turns_used(self) -> int:
        """Number of turns used, prefix guesses included."""
        return turns_used(played.turn for played in self.turns)


class Observation(NamedTuple):
    """What a policy sees after a turn. It never holds the secret.

    `messages` holds only new messages: the feedback on the last reply, or in state shape a fresh prompt. It is empty
    once the game is over.
    """

    messages: tuple[Message, ...]
    turns_left: int
    stop_reason: StopReason | None = None

    @property
    def terminated(self) -> bool:
        """True if the rules ended the game."""
        return self.stop_reason in (StopReason.SOLVED, StopReason.OUT_OF_TURNS)

    @property
    def truncated(self) -> bool:
        """True if something other than the rules ended the game."""
        return self.stop_reason is not None and not self.terminated


class WordleEnv:
    """One game played in text.

    Args:
        secret: The word to find. It must be listed, unless `invented`.
        given: Prefix guesses, on the board when play begins. All must be listed, none may be the secret, and at least
            one turn must remain.
        opening: First messages in place of the prompter's.
        invented: Allow a secret that is not listed. It can be guessed; other unlisted strings cannot.

    Raises:
        ValueError: If the secret is not listed or has the wrong length, or if a prefix guess may not be played, is the
            secret, or leaves no turn.
    """

    def __init__(
        self,
        secret: str,
        words: WordList,
        prompter: Prompter,
        given: Sequence[str] = (),
        opening: Sequence[Message] = (),
        *,
        invented: bool = False,
    ) -> None:
        if secret not in words and not invented:
            raise ValueError(f"the secret is not in word list {words.name!r}; choose a listed word")
        if len(secret) != prompter.word_length:
            raise ValueError(f"the secret has {len(secret)} letters, but the prompts expect {prompter.word_length}")
        if len(given) >= prompter.rules.max_turns:
            raise ValueError(f"{len(given)} prefix guesses leave no turn of {prompter.rules.max_turns}; give fewer")
        self._secret = secret
        self._game = Game(secret, {*words.guesses, secret} if invented else words, prompter.rules)
        self._played: list[PlayedTurn] = []
        self.prompter = prompter
        for word in given:
            turn = self._game.play(word)
            if turn.outcome is not Outcome.SCORED:
                raise ValueError(f"prefix guess {word!r} is {turn.outcome}; give words that may be played")
            if self._game.won:  # the message does not name the word, since the player may read it
                raise ValueError(f"prefix guess {len(self._played) + 1} is the secret; give another word")
            self._played.append(PlayedTurn(prompter.reply(word), Guess(word), turn, is_prefix=True))
        self.stop_reason: StopReason | None = None
        self._conversation: list[Message] = [*opening] or prompter.opening(self._game.turns)
        self.observation = Observation(tuple(self._conversation), self._game.turns_left)

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Turns on the board, as the player sees them."""
        return tuple(self._game.turns)

    @property
    def played(self) -> tuple[PlayedTurn, ...]:
        """Turns so far with the replies as they were parsed, for reward code."""
        return tuple(self._played)

    @property
    def conversation(self) -> tuple[Message, ...]:
        """Messages of the prompt for the next reply. Except in state shape they include earlier replies."""
        return tuple(self._conversation)

    def step(self, reply: str, *, num_tokens: int | None = None, overlong: bool = False) -> Observation:
        """Play one reply and return the observation."""
        if self.stop_reason is not None:
            raise self._is_over()
        game, prompter = self._game, self.prompter
        parsed = prompter.parse(reply)
        turn = game.play(parsed.word if isinstance(parsed, Guess) else None)
        self._played.append(PlayedTurn(reply, parsed, turn, False, num_tokens, overlong))
        if game.over:
            return self._stop(StopReason.SOLVED if game.won else StopReason.OUT_OF_TURNS)
        if prompter.shape is Shape.STATE:
            self._conversation = prompter.state(game.turns)
            new = tuple(self._conversation)
        else:
            # The policy already holds the conversation, so only the feedback message is new.
            new = (prompter.feedback(game.turns),)
            self._conversation += (prompter.remembered(reply), *new)
        self.observation = Observation(new, game.turns_left)
        return self.observation

    def preview(self, reply: str) -> Turn:
        """Return the outcome of a reply without playing it. For reward code; a policy must not see it."""
        if self.stop_reason is not None:
            raise self._is_over()
        parsed = self.prompter.parse(reply)
        return self._game.preview(parsed.word if isinstance(parsed, Guess) else None)

    def truncate(self, reason: StopReason) -> Observation:
        """End the game for a reason outside the rules."""
        if self.stop_reason is not None:
            raise self._is_over()
        if reason in (StopReason.SOLVED, StopReason.OUT_OF_TURNS):
            raise ValueError(f"only the rules end a game with {reason.value!r}")
        return self._stop(reason)

    def transcript(self) -> Transcript:
        """Return the record of the finished game."""
        if self.stop_reason is None:
            raise RuntimeError("the game is still running; its transcript would give the secret away")
        return Transcript(self._secret, self.prompter.rules, tuple(self._played), self.stop_reason)

    def _is_over(self) -> RuntimeError:
        return RuntimeError(f"the game is over ({self.stop_reason}); a WordleEnv is played once")

    def _stop(self, reason: StopReason) -> Observation:
        self.stop_reason = reason
        self.observation = Observation((), self._game.turns_left, reason)
        return self.observation

    def __repr__(self) -> str:
        state = self.stop_reason.value if self.stop_reason else "running"
        return f"WordleEnv(turns={len(self._game.turns)}, {state})"
