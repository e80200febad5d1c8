"""A correct game written apart from the package, and games that each break one rule of it, for the conformance checks.

A game is an environment with `reset(seed)` and `step(reply)`; a fault is a subclass that changes one thing.
"""

import hashlib
import itertools
import re
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

from wordle_rl.words import WordList, load_words

_ALL = load_words("default")
ANSWERS = tuple(_ALL.answers[::16])
WORDS = WordList("some", ANSWERS, tuple(sorted({*ANSWERS, *_ALL.guesses[::24]})))


def write_words(directory: Path) -> str:
    """Write the list of these games for those who read lists from directories; the name to read it by."""
    directory.mkdir(exist_ok=True)
    (directory / "answers.txt").write_text("\n".join(WORDS.answers) + "\n")
    (directory / "guesses.txt").write_text("\n".join(WORDS.guesses) + "\n")
    return str(directory)


class RightGame:
    """Six turns, strict words, a bad reply costs its turn; a win pays 2 less 0.1 a turn, a loss nothing."""

    max_turns = 6

    def reset(self, seed: int) -> str:
        self.secret = self.secret_of(seed)
        self.board: list[tuple[str | None, str | None]] = []
        self.seed, self.turns_used, self.over = seed, 0, False
        return self.opening()

    def step(self, reply: str) -> tuple[Any, ...]:
        if self.over:
            return self.after_end(reply)
        guess = self.parse(reply)
        marks = self.marks(guess) if guess is not None and guess in WORDS else None
        self.turns_used += self.cost(reply) if marks is None else 1
        self.board.append((guess, marks))
        won = guess == self.secret
        self.over = won or self.turns_used >= self.max_turns
        text = self.refusal(reply) if marks is None else f"{guess} {marks}"
        return self.text(text), self.reward(won), self.over, {}

    def secret_of(self, seed: int) -> str:
        number = int(hashlib.sha256(str(seed).encode()).hexdigest(), 16)
        return WORDS.answers[number % len(WORDS.answers)]

    def opening(self) -> str:
        return "Find the word."

    def parse(self, reply: str) -> str | None:
        match = re.fullmatch(r"\s*(?:<think>[^<]*</think>)?\s*<guess>([a-z]+)</guess>\s*", reply)
        return match[1] if match else None

    def marks(self, guess: str) -> str:
        left = Counter(s for s, g in zip(self.secret, guess, strict=True) if s != g)
        marks = ""
        for s, g in zip(self.secret, guess, strict=True):
            yellow = s != g and left[g] > 0
            left[g] -= yellow
            marks += "G" if s == g else "Y" if yellow else "X"
        return marks

    def cost(self, reply: str) -> int:
        return 1

    def reward(self, won: bool) -> Any:
        return 2 - 0.1 * self.turns_used if won else 0.0

    def refusal(self, reply: str) -> str:
        return "That is no word of the list."

    def text(self, text: str) -> Any:
        return text

    def after_end(self, reply: str) -> tuple[Any, ...]:
        raise RuntimeError("the game is over; reset for another")


_numbers = itertools.count()


class SeedIgnored(RightGame):
    def secret_of(self, seed: int) -> str:
        return super().secret_of(next(_numbers))


class RefusalsCounted(RightGame):
    def refusal(self, reply: str) -> str:
        return f"Refused, number {next(_numbers)}."


class BoardShared(RightGame):
    shared: ClassVar[list[Any]] = []

    def reset(self, seed: int) -> str:
        self.shared.clear()
        return super().reset(seed)

    def text(self, text: str) -> str:
        self.shared.append(text)
        return f"turn {len(self.shared)}: {text}"


class InfiniteReward(RightGame):
    def reward(self, won: bool) -> Any:
        return super().reward(won) if self.over else float("inf")


class NeverPaid(RightGame):
    def reward(self, won: bool) -> Any:
        return None


class TagsPaid(RightGame):
    """A reply earns for every tag in it."""

    def step(self, reply: str) -> tuple[Any, ...]:
        text, reward, over, info = super().step(reply)
        return text, reward + 0.02 * (reply.count("<guess>") - 1), over, info


class RepeatsPaid(RightGame):
    """A lost game pays for saying one word over and over."""

    def reward(self, won: bool) -> Any:
        same = len({guess for guess, _ in self.board}) == 1 and None not in {guess for guess, _ in self.board}
        return super().reward(won) + (0.5 if self.over and not won and same else 0.0)


class EndlessRefusals(RightGame):
    def cost(self, reply: str) -> int:
        return 0


class FiveTurns(RightGame):
    max_turns = 5


class GreensForYellows(RightGame):
    def marks(self, guess: str) -> str:
        return super().marks(guess).replace("Y", "G")


class CopiesNeverUsedUp(RightGame):
    def marks(self, guess: str) -> str:
        pairs = zip(self.secret, guess, strict=True)
        return "".join("G" if s == g else "Y" if g in self.secret else "X" for s, g in pairs)


class GoesOnAfterTheEnd(RightGame):
    def after_end(self, reply: str) -> tuple[Any, ...]:
        return "still here", 0.5, True, {}


class EmojiCrash(RightGame):
    """The protocol breaks: no four values come back."""

    def step(self, reply: str) -> Any:
        return None if "🟩" in reply else super().step(reply)


class ShortWordsFree(RightGame):
    def cost(self, reply: str) -> int:
        return 0 if len(self.parse(reply) or "long enough") < 5 else 1


class StaleMarks(RightGame):
    """A bad reply is answered with the marks of the guess before."""

    def refusal(self, reply: str) -> str:
        scored = [entry for entry in self.board if entry[1]]
        return f"{scored[-1][0]} {scored[-1][1]}" if scored else super().refusal(reply)


class UnlistedScored(RightGame):
    def refusal(self, reply: str) -> str:
        guess = self.parse(reply)
        return f"{guess} {self.marks(guess)}" if guess is not None and len(guess) == 5 else super().refusal(reply)


class BadRepliesPaid(RightGame):
    def step(self, reply: str) -> tuple[Any, ...]:
        text, reward, over, info = super().step(reply)
        return text, reward + (0.001 if self.board[-1][1] is None else 0.0), over, info


class ThoughtsSearched(RightGame):
    def parse(self, reply: str) -> str | None:
        found = re.findall(r"<guess>([a-z]+)</guess>", reply)
        return found[0] if len(found) == 1 else None


class ProseSearched(RightGame):
    def parse(self, reply: str) -> str | None:
        return super().parse(reply) or next((word for word in re.findall("[a-z]{5}", reply) if word in WORDS), None)


class SecretInOpening(RightGame):
    def opening(self) -> str:
        return f"Find the word. (debug: {self.secret})"


class SecretInState(RightGame):
    def state(self) -> dict[str, Any]:
        return {"turn": self.turns_used, "secret": self.secret}


class SecretInErrors(RightGame):
    """A bad reply raises, with the secret in the message."""

    def step(self, reply: str) -> tuple[Any, ...]:
        answer = super().step(reply)
        if self.board[-1][1] is None and not self.over:
            raise ValueError(f"{reply[:20]!r} is not {self.secret}")
        return answer


class NoisyRewards(RightGame):
    def reward(self, won: bool) -> Any:
        noise = int(hashlib.sha256(repr((self.seed, self.board)).encode()).hexdigest(), 16) % 4001 / 50 - 40
        return (super().reward(won) + noise) if self.over else 0.0


class QuittingPaid(RightGame):
    """A lost game pays for what was found before rules were broken."""

    def reward(self, won: bool) -> Any:
        marks = [marks for _, marks in self.board]
        quit_early = self.over and None in marks and any(marks)
        return super().reward(won) + (0.5 if quit_early else 0.0)
