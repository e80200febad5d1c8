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

from wordle_rl.trainers.games import BoardTask, LiveGame, LoopSettings, game_source, task_of, text_of
from wordle_rl.words.split import SplitName

ENV_ID = "Wordle-v0"
_LONGEST_TEXT = 65_536
_SYMBOLS = "🟩🟨⬛…"


class WordleTextEnv(gymnasium.Env[str, str]):
    """One game after another. An observation is the text of the new messages.

    `info` holds these messages as a chat, and the task; pass the task to `reset(options=...)` to play the same game
    again. A seed determines the task, so environments reset with the same seed share secret and prefix guesses. After
    the game, `info` also has the secret and the value of each reward component.

    Args:
        settings: Words, rules, wording and reward.
        split: Part of the split to draw secrets from.
        max_given: Draw 0 to this many random prefix guesses.
        render_mode: `ansi`, or None.
    """

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012  # Gymnasium's own form

    def __init__(
        self,
        settings: LoopSettings | Mapping[str, Any] | None = None,
        split: SplitName = "train",
        max_given: int = 0,
        render_mode: str | None = None,
    ) -> None:
        self._source = game_source(settings)
        self._tasks = self._source.tasks(split, max_given=max_given)
        self._game: LiveGame | None = None
        own_text = self._source.settings.game.system_prompt or ""
        characters = frozenset(string.printable + _SYMBOLS + own_text)
        self.observation_space = Text(_LONGEST_TEXT, min_length=0, charset=characters)
        self.action_space = Text(_LONGEST_TEXT, min_length=0, charset=characters)
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin a game.

        Args:
            seed: Random seed of this task, and of tasks of later resets without a seed.
            options: `index`, and optionally `split` and `given`, of a certain task.
        """
        super().reset(seed=seed)
        task = task_of(options) if options else self._tasks[int(self.np_random.integers(len(self._tasks)))]
        self._game = self._source.open(task)
        return text_of(self._game.prompt), self._info(task, self._game.prompt)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one reply.

        Raises:
            RuntimeError: If no game is running.
        """
        if self._game is None:
            raise RuntimeError("no game is running; call reset() first")
        result = self._game.step(action)
        info = self._info(None, result.messages)
        if result.done:
            info |= {"secret": self._game.transcript().secret, **self._game.summary()}
        return text_of(result.messages), result.reward, result.terminated, result.truncated, info

    def render(self) -> str | None:
        """Return the conversation so far as text."""
        if self.render_mode != "ansi" or self._game is None:
            return None
        return text_of(self._game.env.conversation)

    @staticmethod
    def _info(task: BoardTask | None, messages: Any) -> dict[str, Any]:
        return {"messages": list(messages), **({} if task is None else {"task": task.model_dump(mode="json")})}


if ENV_ID not in gymnasium.registry:
    gymnasium.register(id=ENV_ID, entry_point=WordleTextEnv)
