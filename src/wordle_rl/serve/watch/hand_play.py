"""Games played by hand. The secret stays on the server until the game is over."""

from __future__ import annotations

import random
import secrets
from collections import OrderedDict
from typing import Any

from wordle_rl.config import LARGEST_SEED
from wordle_rl.env import WordleEnv
from wordle_rl.game import Dictionary, Rules
from wordle_rl.prompt import Prompter, Shape, Style, Thinking
from wordle_rl.serve.watch.review import Reviewer

MAX_GAMES = 1000
"""Most games to keep; the least recently played one is dropped."""
_MAX_REFUSALS = 1000

Json = dict[str, Any]


class HandGames:
    """Games by hand with the word list of the reviewer's solver; `answers` can be secrets."""

    def __init__(self, reviewer: Reviewer, answers: tuple[str, ...], max_turns: int) -> None:
        self._reviewer, self._words = reviewer, reviewer.solver.words
        self._answers, self._max_turns = answers, max_turns
        self._games: OrderedDict[str, WordleEnv] = OrderedDict()  # least recently played first

    def open(self, dictionary: Dictionary, hard_mode: bool, seed: int | None = None) -> Json:
        """Begin a game and return its id and board. The same seed draws the same secret; None: a random one.

        An unlisted word is refused without cost under `app`, and costs the turn under `strict`.
        """
        drawn = secrets.randbelow(LARGEST_SEED) if seed is None else seed
        secret = random.Random(drawn).choice(self._answers)
        rules = Rules(self._max_turns, dictionary, hard_mode, max_refusals=_MAX_REFUSALS)
        prompter = Prompter(Style.SYMBOLS, Shape.TRANSCRIPT, Thinking.OFF, self._words.word_length, rules)
        identity = secrets.token_urlsafe(16)
        self._games[identity] = env = WordleEnv(secret, self._words, prompter)
        while len(self._games) > MAX_GAMES:
            self._games.popitem(last=False)
        return {"id": identity, "candidates": len(self._words.answers), **_board(env)}

    def guess(self, identity: str, word: str) -> Json | None:
        """Play a word and return its outcome and the board, with the last turn the secret; None without such a game."""
        env = self._games.pop(identity, None)
        if env is None:
            return None
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
            self._games[identity] = env
            return answer
        return {**answer, "won": env.transcript().won, "secret": env.transcript().secret}


def _board(env: WordleEnv) -> Json:
    rules = env.prompter.rules
    return {
        "max_turns": rules.max_turns,
        "word_length": env.prompter.word_length,
        "turns_left": env.observation.turns_left,
        "over": env.stop_reason is not None,
    }
