"""Policies that say what a test wrote down, in the tokens of a real codec or in words alone."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wordle_rl.evaluate.conditions import EvalConditions
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.policy.base import Completion, Request
from wordle_rl.prompt import Prompter
from wordle_rl.words import WordList

Script = Callable[[int, tuple], str | None]
"""(game id, turns so far) -> the reply; None: one that is cut at its token limit."""


def scripted(script: Script):
    """A class that stands in for `TransformersSampler` and replies by the script."""

    class Scripted:
        def __init__(self, model, codec, settings=None, seed: int = 0) -> None:
            self.codec, self.model = codec, model

        def begin(self) -> None:
            pass

        def sample(self, requests) -> list[Completion]:
            return [self._completion(script(request.game_id, request.turns)) for request in requests]

        def _completion(self, text: str | None) -> Completion:
            if text is None:
                ids = tuple(self.codec.encode("<guess>"))
                return Completion("<guess>", ids, (0.0,) * len(ids), overlong=True)
            ids = tuple(self.codec.reply_ids(text))
            return Completion(text, ids, (0.0,) * len(ids))

    return Scripted


def planned(words: WordList, prompter: Prompter, sampler: object = None, **about: Any) -> Evaluation:
    """An evaluation without its games, of a player about whom nothing need be known."""
    asked = EvalConditions.of(prompter, sampler)
    header = {"name": "player", "player": "", "parts": (), "conditions": asked, **about}
    return Evaluation(rules=prompter.rules, fingerprint=words.fingerprint, records=(), **header)


def say(word: str) -> str:
    return f"<guess>{word}</guess>"


def said(transcript, _solver) -> list[float]:
    """A reward by the letters of replies, so that an untrained model's games differ."""
    return [sum(map(ord, turn.reply)) % 5 / 4 / len(transcript.own_turns) for turn in transcript.own_turns]


class ScriptedSampler:
    """Says what it was told to: `script[game_id]` lists that game's replies in order.

    Raises:
        IndexError: If a game lasts longer than its script.
    """

    def __init__(self, script: Mapping[int, Sequence[str]]) -> None:
        self.codec = None
        self._script = script
        self._next: dict[int, int] = {}

    def begin(self) -> None:
        """Start every script again."""
        self._next.clear()

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """The next line of each game's script."""
        completions = []
        for request in requests:
            position = self._next.get(request.game_id, 0)
            self._next[request.game_id] = position + 1
            completions.append(Completion(self._script[request.game_id][position]))
        return completions
