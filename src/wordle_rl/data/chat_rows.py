"""Chat rows (`{"messages"}`) and instruction rows (`{"instruction", "output"}`) as games for SFT.

A row becomes a `GameRecord` that carries its conversation, and every reply is trained on word for word. A row may name
its secret in a field `secret`, `answer` or `word`. Otherwise the last guess counts as the secret, since it might have
been right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from wordle_rl.data.external import OddRowError, messages_of_row
from wordle_rl.data.game_record import UNKNOWN_TEACHER, GameRecord, TurnRecord
from wordle_rl.data.row_files import is_data_set, read_rows
from wordle_rl.game import score_guess
from wordle_rl.prompt import Guess, Message, Prompter
from wordle_rl.words import WordList

_FIELDS = ({"messages"}, {"instruction", "output"})
_LOOKED_AT = 100  # rows that show what a file holds


def holds_chat(source: Path) -> bool:
    """Return True if a file or hub data set holds chat or instruction rows; traces have another form.

    Raises:
        ConfigError: If the file cannot be read.
    """
    if source.is_dir() or not (source.is_file() or is_data_set(source)):
        return False
    if source.is_file() and source.suffix.lower() not in (".jsonl", ".json", ".csv", ".parquet"):
        return False
    rows = (row for row in islice(read_rows(source), _LOOKED_AT) if row is not None)
    return any(fields <= row.keys() for row in rows for fields in _FIELDS if "turns" not in row)


def chat_traces(source: Path, words: WordList, prompter: Prompter) -> Iterator[GameRecord | str]:
    """Yield each row of a source as a trace, or the reason why it is unusable.

    Args:
        source: A file, or a hub data set.
        words: The word lists.
        prompter: The grammar of replies.

    Raises:
        ConfigError: If it cannot be read.
    """
    for row in read_rows(source):
        try:
            yield chat_trace(row, words, prompter)
        except OddRowError as odd:
            yield str(odd)


def chat_trace(row: Mapping[str, Any] | None, words: WordList, prompter: Prompter) -> GameRecord:
    """Convert a row to a trace that carries its conversation.

    Raises:
        OddRowError: If the row is unusable; the message is the reason.
    """
    if row is None:
        raise OddRowError("no_row")
    messages = messages_of_row(row)
    replies = [message["content"] for message in messages if message["role"] == "assistant"]
    guesses = [_guess_of(reply, words, prompter) for reply in replies]
    named = next((row[name] for name in ("secret", "answer", "word") if isinstance(row.get(name), str)), "")
    secret = named.strip().lower() or guesses[-1]
    if secret not in words:
        raise OddRowError("unlisted_secret")
    # Without a named secret there is nothing to mark guesses against.
    marks = [score_guess(secret, guess) if named.strip() else None for guess in guesses]
    turns = (TurnRecord(guess, mark, reply=reply) for guess, mark, reply in zip(guesses, marks, replies, strict=True))
    return GameRecord(secret, tuple(turns), UNKNOWN_TEACHER, messages=tuple(messages))


def _guess_of(reply: str, words: WordList, prompter: Prompter) -> str:
    parsed = prompter.parse(reply)
    if not isinstance(parsed, Guess):
        raise OddRowError(f"output_{parsed.reason.value}")
    if parsed.word not in words:
        raise OddRowError("unlisted_guess")
    return parsed.word


def begins_otherwise(trace: GameRecord, opening: list[Message]) -> bool:
    """Return True if a conversation does not begin with the messages that begin the run's games."""
    return [*trace.messages[: len(opening)]] != opening
