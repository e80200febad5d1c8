"""Policies that say what a test wrote down, in the tokens of a real codec or in words alone."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import pytest
from training_fixtures import context_for

from wordle_rl.boards import InitialState
from wordle_rl.evaluate.asked import Asked, PlayerSpec
from wordle_rl.evaluate.journal import evaluate_to_file
from wordle_rl.evaluate.play import OpenPlayer
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.game import Rules
from wordle_rl.policy.base import Completion, Request
from wordle_rl.prompt import Prompter
from wordle_rl.solver import Solver
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
            ids = tuple(self.codec.reply_ids(text)) if self.codec else ()
            return Completion(text, ids, (0.0,) * len(ids))

    return Scripted


def asked_of(words: WordList, secrets: Sequence[str], prompter: Prompter | None = None, **more: Any) -> Asked:
    """What is asked of a player about whom nothing need be known."""
    context = context_for(words, prompter or Prompter(), Solver(words))
    return Asked(context, [*map(InitialState, secrets)], **{"name": "player", **more})


def opened(sampler: object, max_prompt_tokens: int | None = None) -> OpenPlayer:
    """A player that is open already, whatever its seed."""
    return lambda _seed: nullcontext((sampler, max_prompt_tokens))


def say(word: str) -> str:
    return f"<guess>{word}</guess>"


def said(transcript, _solver) -> list[float]:
    """A reward by the letters of replies, so that an untrained model's games differ."""
    return [sum(map(ord, turn.reply)) % 5 / 4 / len(transcript.own_turns) for turn in transcript.own_turns]


NOT_SENT = "connection refused"
"""A line of a script for a request that fails."""


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
            said = self._script[request.game_id][position]
            completions.append(Completion("", error=said) if said == NOT_SENT else Completion(said))
        return completions


REASON = "APIConnectionError: the server is gone"


def fail(monkeypatch: pytest.MonkeyPatch, fails: Callable[[Request], bool]) -> list[Request]:
    """Have the sampler of this machine fail the requests for which `fails` is true, and return those it failed."""
    from wordle_rl.policy.transformers import TransformersSampler

    sample, failed = TransformersSampler.sample, []

    def failing(self, requests: list[Request]) -> list[Completion]:
        found = []
        for request, completion in zip(requests, sample(self, requests), strict=True):
            if fails(request):
                failed.append(request)
                completion = Completion("", error=REASON)
            found.append(completion)
        return found

    monkeypatch.setattr(TransformersSampler, "sample", failing)
    return failed


# --- evaluations of scripted players ---

ANSWERS = ("abide", "babes", "crane", "crate", "drape", "eerie", "geese", "grape", "graze", "speed", "these", "trace")
WORDS = WordList("small", ANSWERS, (*ANSWERS, "fuzzy", "lymph", "nymph"))


def tag(word: str) -> str:
    return f"<guess>{word}</guess>" if word.isalpha() else word


def play_script(
    games: Sequence[tuple[str, Sequence[str]]], *, rules: Rules | None = None, player: str = "", **more: object
) -> Evaluation:
    """Play each (secret, replies); bare words are put into tags."""
    script = {index: [tag(reply) for reply in replies] for index, (_, replies) in enumerate(games)}
    asked = asked_of(
        WORDS, [secret for secret, _ in games], Prompter(rules=rules or Rules()), player=PlayerSpec(player), **more
    )
    return evaluate_to_file(asked, opened(ScriptedSampler(script)), None, None)
