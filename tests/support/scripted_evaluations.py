"""Evaluations of scripted players."""

from collections.abc import Sequence

from scripted import ScriptedSampler, asked_of, opened

from wordle_rl.evaluate.asked import PlayerSpec
from wordle_rl.evaluate.journal import evaluate_to_file
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.game import Rules
from wordle_rl.policy.base import Completion, Request
from wordle_rl.prompt import Prompter
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
    games: Sequence[tuple[str, Sequence[str]]], *, rules: Rules | None = None, player: str = "", **more: object
) -> Evaluation:
    """Play each (secret, replies); bare words are put into tags."""
    script = {index: [tag(reply) for reply in replies] for index, (_, replies) in enumerate(games)}
    asked = asked_of(
        WORDS, [secret for secret, _ in games], Prompter(rules=rules or Rules()), player=PlayerSpec(player), **more
    )
    return evaluate_to_file(asked, opened(FlakySampler(script)), None, None)
