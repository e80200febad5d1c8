"""Policies that say what a test wrote down, in the tokens of a real codec or in words alone."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from wordle_rl.boards import InitialState
from wordle_rl.config.context import GameContext
from wordle_rl.evaluate.asked import Asked
from wordle_rl.evaluate.play import OpenPlayer
from wordle_rl.policy.base import Completion, Request
from wordle_rl.prompt import Prompter
from wordle_rl.solver import Solver
from wordle_rl.words import WordList
from wordle_rl.words.split import split_secrets

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


def asked_of(words: WordList, secrets: Sequence[str], prompter: Prompter | None = None, **more: Any) -> Asked:
    """What is asked of a player about whom nothing need be known."""
    context = GameContext(words, split_secrets(words), prompter or Prompter(), Solver(words))
    return Asked(context, [*map(InitialState, secrets)], **{"name": "player", **more})


def opened(sampler: object, max_prompt_tokens: int | None = None) -> OpenPlayer:
    """A player that is open already, whatever its seed."""
    return lambda _seed: nullcontext((sampler, max_prompt_tokens))


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
