"""TRL's `environment_factory` over the OpenEnv server: guesses are tool calls, a game is a session.

    trainer = GRPOTrainer(
        model="Qwen/Qwen3-1.7B",
        train_dataset=Dataset.from_list(dataset_rows(256)),
        environment_factory=partial(WordleToolEnvironment, "http://127.0.0.1:8000"),
    )

TRL has no signal for the end of a game. It continues until the model calls no tool, so text after the last guess is
trained with the game's reward. Our own trainer stops at the last guess, and plays guesses in text.
"""

from __future__ import annotations

from typing import Any

from wordle_rl.config.base import ConfigError
from wordle_rl.prompt import Prompter, Style, Thinking
from wordle_rl.serve.openenv_client import WordleAction, WordleClient, WordleObservation, WordleState
from wordle_rl.trainers.games import text_of

TOOL_PROMPT = (
    "Find the secret word. Call the tool `guess` with one word a turn; it tells you, letter by letter, what the word "
    "has in common with the secret. Guesses must be listed words; any other call wastes the turn. Once the game is "
    "over, call it no more.\n\n"
)
"""Prompt of a row. The opening of its game is appended."""
_TASK_COLUMNS = ("seed", "split", "index", "given")


class WordleToolEnvironment:
    """One session on a server, for one game after another. TRL offers other public methods to the model as tools.

    `token` is the server's bearer token; `style` and `reward`, a preset, take the place of the server's.
    """

    def __init__(
        self, base_url: str, token: str | None = None, style: Style | None = None, reward: str | None = None
    ) -> None:
        self._client = WordleClient(base_url, token=token).sync()
        self._options = {name: value for name, value in {"style": style, "reward": reward}.items() if value is not None}
        self._prompter: Prompter | None = None
        self._total = 0.0
        self._is_over = True

    def reset(self, **columns: Any) -> str:
        """Begin the game that a row names, by seed or by split and index. TRL gives a group the same row.

        Return the opening, prefix guesses included, which TRL puts at the end of the row's prompt.
        """
        asked = {name: columns[name] for name in _TASK_COLUMNS if columns.get(name) is not None}
        observation = self._client.reset(**asked, **self._options).observation
        self._total, self._is_over = 0.0, False
        if self._prompter is None:
            self._prompter = prompter_of(self._client.state())
        # Drop the system message: it explains guesses in text, but here the tool takes them.
        return text_of([part for part in observation.messages if part["role"] != "system"])

    def guess(self, word: str) -> str:
        """Guess a word.

        Args:
            word: The word to guess, in letters a to z.

        Returns:
            What the word has in common with the secret, or that the game is over.
        """
        if self._is_over:
            return "The game is over. Call no tool."
        assert self._prompter is not None, "reset comes first"
        observation = self._send(self._prompter.reply(str(word)))
        if not observation.done:
            return text_of(observation.messages)
        return f"The game is over: {(observation.stop_reason or 'ended').replace('_', ' ')}."

    def get_reward(self) -> float:
        """Return the game's reward. A game that the model left is finished with empty replies, and so forfeited."""
        while not self._is_over:
            self._send("")
        return self._total

    def _send(self, message: str) -> WordleObservation:
        result = self._client.step(WordleAction(message=message))
        self._total += result.reward or 0.0
        self._is_over = result.done
        return result.observation  # type: ignore[no-any-return]  # openenv's wrapper is untyped


def prompter_of(state: WordleState) -> Prompter:
    """Return what writes guesses as the server of a state reads them.

    A style of the server's own code is not imported here.
    """
    if state.style not in list(Style):
        raise ConfigError(f"the server's style {state.style!r} is none of {', '.join(Style)}; give one as style")
    return Prompter(style=Style(state.style), thinking=Thinking(state.thinking or Thinking.OPTIONAL))


def dataset_rows(count: int, split: str = "train") -> list[dict[str, Any]]:
    """Return rows of TRL's data set: the prompt, and the game by split and index."""
    prompt = [{"role": "user", "content": TOOL_PROMPT}]
    return [{"prompt": prompt, "split": split, "index": index} for index in range(count)]
