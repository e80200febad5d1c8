"""Evaluations of scripted players."""

from collections.abc import Sequence

from scripted import ScriptedSampler, planned

from wordle_rl.evaluate.play import evaluate
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.game import Rules
from wordle_rl.policy.base import Completion, Request
from wordle_rl.prompt import Prompter
from wordle_rl.solver import Solver
from wordle_rl.words import WordList

ANSWERS = ("abide", "babes", "crane", "crate", "drape", "eerie", "geese", "grape", "graze", "speed", "these", "trace")


WORDS = WordList("small", ANSWERS, (*ANSWERS, "fuzzy", "lymph", "nymph"))


NOT_SENT = "connection refused"


class FlakySampler(ScriptedSampler):
    """Reads from its script, where `None` is a request that fails."""

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        return [
            Completion("", error=NOT_SENT) if completion.text == NOT_SENT else completion
            for completion in super().sample(requests)
        ]


def tag(word: str) -> str:
    return f"<guess>{word}</guess>" if word.isalpha() else word


def play_script(
    games: Sequence[tuple[str, Sequence[str]]], *, solver: Solver | None = None, **more: object
) -> Evaluation:
    """Play each (secret, replies); bare words are put into tags."""
    script = {index: [tag(reply) for reply in replies] for index, (_, replies) in enumerate(games)}
    rules = more.pop("rules", Rules())
    assert isinstance(rules, Rules)
    prompter = Prompter(rules=rules)
    sampler = FlakySampler(script)
    header = planned(WORDS, prompter, **more)
    return evaluate(header, [secret for secret, _ in games], WORDS, prompter, sampler, solver=solver)
