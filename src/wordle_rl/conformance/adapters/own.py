"""This package's game with `reset` and `step`, examined as any other: `wordle_rl.conformance.adapters.own:wordle`.

Rewards per turn are changes: a turn earns by how much the rubric rates the game higher than before it.
"""

from __future__ import annotations

import random
from typing import Any

from wordle_rl.env import PlayedTurn, StopReason, Transcript, WordleEnv
from wordle_rl.prompt import Prompter, Style
from wordle_rl.reward import PRESETS, Rubric
from wordle_rl.solver import Solver
from wordle_rl.words import WordList, load_words


class OwnGame:
    """One game after the other over one word list.

    Args:
        words: The word list; its answers are the secrets.
        rubric: What is rewarded.
        prompter: Wording and rules.
    """

    def __init__(self, words: WordList, rubric: Rubric, prompter: Prompter) -> None:
        self._words, self._rubric, self._prompter = words, rubric, prompter
        self._solver = Solver(words)
        self._env: WordleEnv | None = None
        self._played: list[PlayedTurn] = []
        self._secret, self._paid = "", 0.0

    def reset(self, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin a game; the seed chooses the secret."""
        self._secret = random.Random(seed).choice(self._words.answers)
        self._env = WordleEnv(self._secret, self._words, self._prompter)
        self._played, self._paid = [], 0.0
        return {"messages": list(self._env.observation.messages)}, {}

    def step(self, reply: str) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Take one reply.

        Raises:
            RuntimeError: If no game is running.
        """
        if self._env is None:
            raise RuntimeError("no game has begun; reset first")
        seen = self._env.step(reply)
        turn = self._env.turns[-1]
        self._played.append(PlayedTurn(reply, self._prompter.parse(reply), turn))
        observation = {"messages": list(seen.messages), "guess": turn.guess, "marks": turn.marks}
        return observation, self._reward(seen.stop_reason), seen.terminated, seen.truncated, {}

    def _reward(self, stop_reason: StopReason | None) -> float:
        so_far = Transcript(
            self._secret, self._prompter.rules, tuple(self._played), stop_reason or StopReason.OUT_OF_TURNS
        )
        total = self._rubric.score(so_far, self._solver).total
        reward, self._paid = total - self._paid, total
        return reward


def wordle() -> OwnGame:
    """The game as it comes: embedded words, strict dictionary, reward for winning soon."""
    return OwnGame(load_words("default"), PRESETS["sparse"], Prompter())


def wordle_in_brackets() -> OwnGame:
    """Our game with guesses in brackets (`--dialect bracketed`) and the rewards of the trainer notebook."""
    return OwnGame(load_words("default"), PRESETS["notebook"], Prompter(style=Style.TEXTARENA))
