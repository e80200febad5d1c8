"""Games played by hand. The secret stays on the server until the game is over."""

from __future__ import annotations

import random
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from wordle_rl.config import LARGEST_SEED
from wordle_rl.env import WordleEnv
from wordle_rl.game import Dictionary, Rules
from wordle_rl.prompt import Prompter, Shape, Style, Thinking
from wordle_rl.serve.watch.review import Reviewer

MAX_GAMES = 1000
"""Most games to keep; the least recently played one is dropped."""
IDLE_S = 3600.0
"""Drop a game after this many seconds without a guess."""
_MAX_REFUSALS = 1000

Json = dict[str, Any]


class NotFoundError(LookupError):
    """A run, a source or a game that does not exist."""


class HandGames:
    """Games by hand with one word list.

    Args:
        reviewer: Counts candidates; its solver has the word list.
        answers: Words that can be secrets.
        max_turns: Guesses of a game.
        clock: A monotonic clock in seconds.
    """

    def __init__(
        self, reviewer: Reviewer, answers: tuple[str, ...], max_turns: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._reviewer, self._words = reviewer, reviewer.solver.words
        self._answers, self._max_turns, self._clock = answers, max_turns, clock
        self._games: OrderedDict[str, tuple[WordleEnv, float]] = OrderedDict()
        """Games by id with the time of the last guess; least recently played first."""

    def __len__(self) -> int:
        return len(self._games)

    def open(self, dictionary: Dictionary, hard_mode: bool, seed: int | None = None) -> Json:
        """Begin a game and return its id and board. The same seed draws the same secret; None: a random one.

        An unlisted word is refused without cost under `app`, and costs the turn under `strict`.
        """
        self._drop_idle()
        drawn = secrets.randbelow(LARGEST_SEED) if seed is None else seed
        secret = random.Random(drawn).choice(self._answers)
        rules = Rules(self._max_turns, dictionary, hard_mode, max_refusals=_MAX_REFUSALS)
        prompter = Prompter(Style.SYMBOLS, Shape.TRANSCRIPT, Thinking.OFF, self._words.word_length, rules)
        env = WordleEnv(secret, self._words, prompter)
        identity = secrets.token_urlsafe(16)
        self._games[identity] = env, self._clock()
        while len(self._games) > MAX_GAMES:
            self._games.popitem(last=False)
        return {"id": identity, "candidates": len(self._words.answers), **_board(env)}

    def guess(self, identity: str, word: str) -> Json:
        """Play a word and return its outcome and the board; the last turn also returns the secret.

        Raises:
            NotFoundError: If there is no such game, or it is over.
        """
        self._drop_idle()
        if identity not in self._games:
            raise NotFoundError("this game is over, or had no guess for an hour; begin another")
        env, _ = self._games.pop(identity)
        env.step(env.prompter.reply(word.strip().lower()))
        turn = env.turns[-1]
        answer = {
            "guess": turn.guess,
            "marks": turn.marks,
            "outcome": turn.outcome.value,
            "costs_turn": turn.costs_turn,
            "left": self._reviewer.count(env.turns),
            **_board(env),
        }
        if env.stop_reason is None:
            self._games[identity] = env, self._clock()
            return answer
        return {**answer, "won": env.transcript().won, "secret": env.transcript().secret}

    def _drop_idle(self) -> None:
        before = self._clock() - IDLE_S
        while self._games and next(iter(self._games.values()))[1] < before:
            self._games.popitem(last=False)


def _board(env: WordleEnv) -> Json:
    rules = env.prompter.rules
    return {
        "max_turns": rules.max_turns,
        "word_length": env.prompter.word_length,
        "turns_left": env.observation.turns_left,
        "over": env.stop_reason is not None,
    }
