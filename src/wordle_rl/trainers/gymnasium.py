"""Gymnasium: `Wordle-v0`, text in, text out. Importing this module registers it.

import gymnasium
import wordle_rl.trainers.gymnasium

env = gymnasium.make("Wordle-v0", settings={"game": {"style": "symbols"}})
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

import gymnasium
from gymnasium.spaces import Text

from wordle_rl.trainers.games import LiveGame, LoopSettings, game_source, task_of, text_of
from wordle_rl.words.split import SplitName

ENV_ID = "Wordle-v0"
_LONGEST_TEXT = 65_536
_SYMBOLS = "🟩🟨⬛…"


class WordleTextEnv(gymnasium.Env[str, str]):
    """One game after another. An observation is the text of the new messages.

    `info` holds these messages as a chat, and the task; pass the task to `reset(options=...)` to play the same game
    again. A seed determines the task, so environments reset with the same seed share secret and prefix guesses. After
    the game, `info` also has the secret and the value of each reward component.
    """

    def __init__(
        self,
        settings: LoopSettings | Mapping[str, Any] | None = None,
        split: SplitName = "train",
        max_given: int = 0,
    ) -> None:
        self._source = game_source(settings)
        self._tasks = self._source.tasks(split, max_given=max_given)
        self._game: LiveGame | None = None
        own_text = self._source.settings.game.system_prompt or ""
        characters = frozenset(string.printable + _SYMBOLS + own_text)
        self.observation_space = Text(_LONGEST_TEXT, min_length=0, charset=characters)
        self.action_space = Text(_LONGEST_TEXT, min_length=0, charset=characters)

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin a game: one of the seed, or the one whose `index`, `split` and `given` are in `options`."""
        super().reset(seed=seed)
        task = task_of(options) if options else self._tasks[int(self.np_random.integers(len(self._tasks)))]
        self._game = self._source.open(task)
        prompt = self._game.prompt
        return text_of(prompt), {"messages": list(prompt), "task": task.model_dump(mode="json")}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one reply."""
        if self._game is None:
            raise RuntimeError("no game is running; call reset() first")
        result = self._game.step(action)
        info: dict[str, Any] = {"messages": list(result.messages)}
        if result.done:
            info |= {"secret": self._game.env.transcript().secret, **self._game.summary()}
        return text_of(result.messages), result.reward, result.terminated, result.truncated, info


if ENV_ID not in gymnasium.registry:
    gymnasium.register(id=ENV_ID, entry_point=WordleTextEnv)
