"""Games played by hand. The secret stays here until its game is over."""

from __future__ import annotations

import random
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wordle_rl.config import LARGEST_SEED
from wordle_rl.env import WordleEnv
from wordle_rl.game import Dictionary, Rules
from wordle_rl.prompt import Prompter, Shape, Style, Thinking
from wordle_rl.serve.watch.requests import NotFoundError
from wordle_rl.serve.watch.review import Reviewer

MAX_GAMES = 1000
"""Games kept; the one not played for the longest makes way."""
IDLE_S = 3600.0
"""Seconds after which a game that nobody plays is dropped."""
_MAX_REFUSALS = 1000

Json = dict[str, Any]


@dataclass
class _Game:
    env: WordleEnv
    secret: str
    used: float


class HandGames:
    """Games by hand over one word list.

    Args:
        reviewer: Counts the candidates; its solver's words are played with.
        answers: The words that may be secrets.
        max_turns: Guesses of a game.
        clock: Seconds, rising.
    """

    def __init__(
        self, reviewer: Reviewer, answers: tuple[str, ...], max_turns: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._reviewer, self._words = reviewer, reviewer.solver.words
        self._answers, self._max_turns, self._clock = answers, max_turns, clock
        self._games: OrderedDict[str, _Game] = OrderedDict()

    def __len__(self) -> int:
        return len(self._games)

    def open(self, dictionary: Dictionary, hard_mode: bool, seed: int | None = None) -> Json:
        """Begin a game: its id, and its board. The same seed draws the same secret; None: any.

        A word list that is `app` refuses a word that is not listed; `strict` takes the turn for it.
        """
        self._drop_idle()
        drawn = secrets.randbelow(LARGEST_SEED) if seed is None else seed
        secret = random.Random(drawn).choice(self._answers)
        rules = Rules(self._max_turns, dictionary, hard_mode, max_refusals=_MAX_REFUSALS)
        prompter = Prompter(Style.SYMBOLS, Shape.TRANSCRIPT, Thinking.OFF, self._words.word_length, rules)
        game = _Game(WordleEnv(secret, self._words, prompter), secret, self._clock())
        identity = secrets.token_urlsafe(16)
        self._games[identity] = game
        while len(self._games) > MAX_GAMES:
            self._games.popitem(last=False)
        return {"id": identity, "candidates": len(self._words.answers), **_board(game)}

    def guess(self, identity: str, word: str) -> Json:
        """Play a word: how it was judged, and the board; the secret with the last turn.

        Raises:
            NotFoundError: If there is no such game, or it is over.
        """
        self._drop_idle()
        game = self._games.get(identity)
        if game is None:
            raise NotFoundError("this game is over, or was not played for an hour; begin another")
        self._games.move_to_end(identity)
        game.used = self._clock()
        game.env.step(game.env.prompter.reply(word.strip().lower()))
        turn = game.env.turns[-1]
        answer = {
            "guess": turn.guess,
            "marks": turn.marks,
            "outcome": turn.outcome.value,
            "costs_turn": turn.costs_turn,
            "left": self._reviewer.count(game.env.turns),
            **_board(game),
        }
        if game.env.stop_reason is None:
            return answer
        del self._games[identity]
        return {**answer, "won": game.env.transcript().won, "secret": game.secret}

    def _drop_idle(self) -> None:
        before = self._clock() - IDLE_S
        while self._games and next(iter(self._games.values())).used < before:
            self._games.popitem(last=False)


def _board(game: _Game) -> Json:
    rules = game.env.prompter.rules
    return {
        "max_turns": rules.max_turns,
        "word_length": game.env.prompter.word_length,
        "turns_left": game.env.observation.turns_left,
        "over": game.env.stop_reason is not None,
    }
