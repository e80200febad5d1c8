"""A policy that says what a test wrote down, in the tokens of a real codec."""

from collections.abc import Callable

from wordle_rl.samplers.base import Completion

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


def say(word: str) -> str:
    return f"<guess>{word}</guess>"
