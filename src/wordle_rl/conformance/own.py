"""Our game, as other trainers play it, with `reset` and `step`: `wordle_rl.conformance.own:OwnGame`."""

from __future__ import annotations

from typing import Any

from wordle_rl.integrations.games import BoardTask, LoopSettings, game_source


class OwnGame:
    """One game after the other; the seed is the index of a training secret."""

    def __init__(self, settings: LoopSettings | None = None) -> None:
        self._source = game_source(settings)

    def reset(self, seed: int) -> dict[str, Any]:
        """Begin a game."""
        self._game = self._source.open(BoardTask(index=seed))
        return {"messages": list(self._game.prompt)}

    def step(self, reply: str) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Take one reply."""
        turn = self._game.step(reply)
        return {"messages": list(turn.messages)}, turn.reward, turn.terminated, turn.truncated, {}
