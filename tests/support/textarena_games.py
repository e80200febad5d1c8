"""Games of the original TextArena Wordle, recorded by scripts/record_textarena.py, and ours on the same messages."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from wordle_rl.env import WordleEnv
from wordle_rl.game import Rules
from wordle_rl.prompt import Prompter, Style
from wordle_rl.serve.textarena import TextArenaGame
from wordle_rl.words import load_words

RECORDED = Path(__file__).resolve().parents[1] / "serve" / "textarena" / "recorded.json"


@dataclass(frozen=True)
class Recorded:
    """One game of the original: `reset` and `steps` as a client received them, `added` what is new in the history."""

    name: str
    secret: str
    reset: dict[str, Any]
    steps: list[dict[str, Any]]
    reason: str | None

    @property
    def actions(self) -> list[str]:
        return [step["action"] for step in self.steps]


@cache
def recorded() -> dict[str, Recorded]:
    """All games, by name."""
    games = json.loads(RECORDED.read_text("utf-8"))["games"]
    return {game["name"]: Recorded(**game) for game in games}


def new_game(secret: str, **changes: Any) -> TextArenaGame:
    """A game of ours with the embedded words."""
    prompter = Prompter(Style.TEXTARENA, rules=Rules(**changes))
    return TextArenaGame(WordleEnv(secret, load_words(), prompter))


def replayed(game: Recorded) -> tuple[TextArenaGame, list[str]]:
    """Play the messages of a recorded game with ours: the game, and what each message added to its history."""
    ours = new_game(game.secret)
    added = []
    for action in game.actions:
        before = ours.history
        ours.step(action)
        added.append(ours.history.removeprefix(before))
        if ours.env.stop_reason is not None:
            break
    return ours, added
