"""TRL's `environment_factory` over the OpenEnv server: guesses are tool calls, a game is a session.

    trainer = GRPOTrainer(
        model="Qwen/Qwen3-1.7B",
        train_dataset=Dataset.from_list(dataset_rows(256)),
        environment_factory=partial(WordleToolEnvironment, "http://127.0.0.1:8000"),
    )

TRL has no signal that a game is over: it asks until the model calls no tool, so what a model says after its last guess
is trained with the game's reward. Our own trainer stops at the last guess, and plays guesses in text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wordle_rl.integrations.games import text_of
from wordle_rl.prompt import Message, Prompter, Style
from wordle_rl.serve.client import WordleClient
from wordle_rl.serve.types import WordleAction, WordleObservation

TOOL_PROMPT = (
    "Find the secret word. Call the tool `guess` with one word a turn; it tells you, letter by letter, what the word "
    "has in common with the secret. Guesses must be listed words; any other call wastes the turn. Once the game is "
    "over, call it no more.\n\n"
)
"""The prompt of a row; the opening of the row's game is appended to it."""
_TASK_COLUMNS = ("seed", "split", "index", "given")


class WordleToolEnvironment:
    """One session on a server, for one game after another. TRL offers every public method but these two as a tool.

    Args:
        base_url: Address of the server.
        token: Its token, if it asks for one.
        style: Wording of the games; None: the server's.
        reward: Reward preset; None: the server's.
    """

    def __init__(
        self, base_url: str, token: str | None = None, style: Style | None = None, reward: str | None = None
    ) -> None:
        self._client = WordleClient(base_url, token=token).sync()
        self._options = {name: value for name, value in {"style": style, "reward": reward}.items() if value is not None}
        self._prompter = Prompter(style=style or Style.ENGLISH)
        self._total = 0.0
        self._is_over = True

    def reset(self, **columns: Any) -> str:
        """Begin the game that a row names by seed, or by split and index; TRL gives a group the same row.

        Args:
            columns: The row. Columns that name no game are ignored.

        Returns:
            The opening, prefix guesses included, for the end of the row's prompt.
        """
        asked = {name: columns[name] for name in _TASK_COLUMNS if columns.get(name) is not None}
        observation = self._client.reset(**asked, **self._options).observation
        self._total, self._is_over = 0.0, False
        # The system message says how to guess in text; here the tool says it.
        return text_of([_message(part) for part in observation.messages if part["role"] != "system"])

    def guess(self, word: str) -> str:
        """Guess a word.

        Args:
            word: The word to guess, in letters a to z.

        Returns:
            What the word has in common with the secret, or that the game is over.
        """
        if self._is_over:
            return "The game is over. Call no tool."
        observation = self._send(self._prompter.reply(str(word)))
        if not observation.done:
            return text_of([_message(part) for part in observation.messages])
        return f"The game is over: {(observation.stop_reason or 'ended').replace('_', ' ')}."

    def get_reward(self) -> float:
        """The game's reward. A game that the model left is forfeited: the rest of it is played with empty replies."""
        while not self._is_over:
            self._send("")
        return self._total

    def _send(self, message: str) -> WordleObservation:
        result = self._client.step(WordleAction(message=message))
        self._total += result.reward or 0.0
        self._is_over = result.done
        return result.observation  # type: ignore[no-any-return]  # openenv's wrapper is untyped


def dataset_rows(
    count: int, split: str = "train", start: int = 0, given: Sequence[Sequence[str]] = ()
) -> list[dict[str, Any]]:
    """Rows of TRL's data set: the prompt, and the game by split and index.

    Args:
        count: How many.
        split: Part of the answers.
        start: Index of the first.
        given: Prefix guesses of each row; empty: none.
    """
    return [
        {
            "prompt": [{"role": "user", "content": TOOL_PROMPT}],
            "split": split,
            "index": start + place,
            "given": list(given[place]) if given else [],
        }
        for place in range(count)
    ]


def _message(part: dict[str, str]) -> Message:
    return Message(role=part["role"], content=part["content"])
