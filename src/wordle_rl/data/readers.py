"""What rows made elsewhere say: a conversation, a board or a secret. One class per shape of row.

    row -> the first of `SHAPES` that matches -> `Said` -> a game to learn from (here), or a start (`train.starts_file`)

To read rows of another shape, write a class and add it to `SHAPES`. Every part of a conversation must be read or the
row refused: what its author's trainer would have shown the model is never dropped without a word.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.data.row_files import Row, is_data_set, read_rows
from wordle_rl.data.trace_files import read_games
from wordle_rl.game import score_guess
from wordle_rl.prompt import Guess, Message, Prompter
from wordle_rl.words import WordList

_LOOKED_AT = 100  # rows that show what a file holds


class OddRowError(ValueError):
    """A row that cannot be used. The message is the reason to count it under."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a row says.

    Attributes:
        secret: The secret that it names, in lower case, in `secret`, `answer`, `word` or verl's `ground_truth`. It may
            be no word. None if there is none.
        guesses: Guesses on its board, in lower case.
        messages: Its conversation, which ends with a reply. Empty for a board.
    """

    secret: str | None
    guesses: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()


class _Shape(Protocol):
    def matches(self, row: Row) -> bool: ...  # readable or not
    def read(self, row: Row) -> Said: ...  # raises `OddRowError` if a part is unreadable, or would be lost


class _Messages:
    """`{"messages": [{"role", "content"}, …]}`: a chat.

    After an optional system message, user messages and replies alternate. Thinking that stands apart from a reply goes
    in front of it, in `<think>` tags. Closing tokens are cut off replies.
    """

    def matches(self, row: Row) -> bool:
        return "messages" in row and "turns" not in row

    def read(self, row: Row) -> Said:
        _refuse_other_parts(row)
        messages: list[Message] = []
        for message in row["messages"] if isinstance(row["messages"], list | tuple) else ():
            role, content = (message.get(name) if isinstance(message, dict) else None for name in ("role", "content"))
            if role not in _ROLES or not isinstance(content, str):
                raise OddRowError("unreadable_messages")
            reply = role == "assistant"
            known = ("role", "content", *(_THOUGHTS if reply else ()))
            if any(_is_filled(value) for name, value in message.items() if name not in known):
                raise OddRowError("unread_field")
            messages.append(Message(role=role, content=_with_thinking(message, _closed(content)) if reply else content))
        # A codec can only append: after the opening, replies and user messages must alternate.
        talk = messages[1:] if messages and messages[0]["role"] == "system" else messages
        if not talk or len(talk) % 2 or any(m["role"] != ("user", "assistant")[i % 2] for i, m in enumerate(talk)):
            raise OddRowError("unreadable_messages")
        return Said(_secret_of(row), messages=tuple(messages))


class _Instruction:
    """`{"instruction", "input", "output"}`: one reply. An instruction in ChatML is split into its messages."""

    def matches(self, row: Row) -> bool:
        return {"instruction", "output"} <= row.keys()

    def read(self, row: Row) -> Said:
        _refuse_other_parts(row)
        instruction, given, output = (row.get(name) for name in ("instruction", "input", "output"))
        if not isinstance(instruction, str) or not isinstance(output, str) or not instruction.strip():
            raise OddRowError("missing_field")
        reply = _with_thinking(row, _closed(output).strip())
        if _is_filled(given):
            if not isinstance(given, str):
                raise OddRowError("unreadable_instruction")
            instruction = f"{instruction.strip()}\n{given}"
        if "<|im_start|>" in instruction:
            messages, begun = _chatml(instruction)
            if "<think>" in begun and not reply.startswith("<think>"):
                reply = f"<think>{begun.rpartition('<think>')[2]}{reply}"
        else:
            messages = [Message(role="user", content=instruction.strip())]
        return Said(_secret_of(row), messages=(*messages, Message(role="assistant", content=reply)))


class _History:
    """`{"secret", "past_guess_history"}`: a board, as in predibase/wordle-grpo."""

    def matches(self, row: Row) -> bool:
        return "past_guess_history" in row

    def read(self, row: Row) -> Said:
        return Said(_secret_of(row), guesses_of_history(row["past_guess_history"]))


class _Board:
    """`{"secret", "turns": [{"guess"}, …]}`: a board, or a game of ours."""

    def matches(self, row: Row) -> bool:
        return "turns" in row

    def read(self, row: Row) -> Said:
        turns = row["turns"] if isinstance(row["turns"], list | tuple) else [None]
        guesses = [turn.get("guess") if isinstance(turn, dict) else None for turn in turns]
        if not all(isinstance(guess, str) for guess in guesses):
            raise OddRowError("unreadable_turns")
        return Said(_secret_of(row), tuple(str(guess).lower() for guess in guesses))


class _Secret:
    """`{"prompt", "answer"}`, verl's `{"prompt", "reward_model": {"ground_truth"}}`, `{"word"}`: a secret alone."""

    def matches(self, row: Row) -> bool:
        return _secret_of(row) is not None

    def read(self, row: Row) -> Said:
        return Said(_secret_of(row))


_TALKS: tuple[_Shape, ...] = (_Messages(), _Instruction())
SHAPES: tuple[_Shape, ...] = (*_TALKS, _History(), _Board(), _Secret())
"""All shapes that are read; the first that matches a row reads it."""


def read_row(row: Row | None) -> Said:
    """Return what a row says; None stands for a line that is no row. Raises `OddRowError` if it cannot be read."""
    if row is None:
        raise OddRowError("no_row")
    for shape in SHAPES:
        if shape.matches(row):
            return shape.read(row)
    raise OddRowError("missing_field")


# --- games to learn from ---


def games_of(source: Path, words: WordList, prompter: Prompter) -> Iterator[GameRecord | str]:
    """Yield the games of a source: of our files, or its conversations, and a reason for each row that is unusable."""
    if not holds_talk(source):
        yield from read_games(source)
        return
    for row in read_rows(source):
        try:
            said = read_row(row)
            if not said.messages:
                raise OddRowError("missing_field")
            yield game_of(said, words, prompter)
        except OddRowError as odd:
            yield str(odd)


def holds_talk(source: Path) -> bool:
    """Return True if a file or hub data set holds conversations, False if it holds games of ours."""
    known = source.suffix.lower() in (".jsonl", ".json", ".csv", ".parquet")
    if not (known if source.is_file() else not source.is_dir() and is_data_set(source)):
        return False
    rows = (row for row in islice(read_rows(source), _LOOKED_AT) if row is not None)
    return any(shape.matches(row) for row in rows for shape in _TALKS)


def game_of(said: Said, words: WordList, prompter: Prompter) -> GameRecord:
    """Make a game of a conversation, to be trained on word for word. Every reply must hold a listed guess.

    Without a named secret the last guess counts as the secret, since it might have been right. Guesses then have no
    marks.
    """
    replies = [message["content"] for message in said.messages if message["role"] == "assistant"]
    guesses = []
    for reply in replies:
        parsed = prompter.parse(reply)
        if not isinstance(parsed, Guess):
            raise OddRowError(f"output_{parsed.reason.value}")
        if parsed.word not in words:
            raise OddRowError("unlisted_guess")
        guesses.append(parsed.word)
    named = said.secret if _is_word(said.secret) else None
    secret = named or guesses[-1]
    if secret not in words:
        raise OddRowError("unlisted_secret")
    marks = [score_guess(secret, guess) if named else None for guess in guesses]
    turns = (TurnRecord(guess, mark, reply=reply) for guess, mark, reply in zip(guesses, marks, replies, strict=True))
    return GameRecord(secret, tuple(turns), messages=said.messages)


# --- parts of rows ---


_CHATML = re.compile(r"<\|im_start\|>(\w+)\n(.*?)(?:<\|im_end\|>\s*|$)(?=<\|im_start\|>|$)", re.DOTALL)
_ENDS = re.compile(r"(?:\s|<\|(?:im_end|endoftext|eot_id|end)\|>|</s>)+$")
_LEAKED = re.compile(r"<\|[\w./-]+\|>")
_ROLES = ("system", "user", "assistant")
_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
"""Names under which servers send the thinking of a reply apart from it."""
_SECRETS = ("secret", "answer", "word")
_PARTS_OF_TALK = ("system", "history", "tools", "functions")
"""Fields of a row, beside its messages, that its author's trainer would have shown the model."""
_MAX_LITERAL = 4000


def _secret_of(row: Row) -> str | None:
    # The first field that names a word. If none does, the first text, to be refused as unlisted.
    graded = row.get("reward_model")
    truth = graded.get("ground_truth") if isinstance(graded, dict) else None
    texts = [text.strip().lower() for text in (*map(row.get, _SECRETS), truth) if isinstance(text, str)]
    return next(filter(_is_word, texts), next(iter(texts), None))


def _is_word(text: str | None) -> bool:
    return text is not None and text.isascii() and text.isalpha()


def _refuse_other_parts(row: Row) -> None:
    if any(_is_filled(row.get(name)) for name in _PARTS_OF_TALK):
        raise OddRowError("unread_field")


def _is_filled(value: object) -> bool:
    return value is not None and value not in ("", [], {})


def _closed(reply: str) -> str:
    return _ENDS.sub("", reply)


def _with_thinking(fields: Mapping[str, Any], reply: str) -> str:
    # vLLM sends the same thinking under two names.
    thoughts = {value.strip() if isinstance(value, str) else None for value in map(fields.get, _THOUGHTS) if value}
    if None in thoughts or len(thoughts - {""}) > 1:
        raise OddRowError("unread_field")
    thinking = "".join(thoughts)  # type: ignore[arg-type]
    return f"<think>{thinking}</think>\n{reply.lstrip()}" if thinking else reply


def _chatml(text: str) -> tuple[list[Message], str]:
    # The messages of a text in ChatML, and the start of the reply with which it may end.
    if _CHATML.sub("", text).strip():  # text that belongs to no message
        raise OddRowError("unreadable_instruction")
    found = [(match[1], match[2]) for match in _CHATML.finditer(text)]
    begun = found.pop()[1] if found and found[-1][0] == "assistant" else ""
    messages = [Message(role=role, content=content.strip()) for role, content in found]
    if not messages or messages[-1]["role"] != "user" or any(m["role"] not in _ROLES for m in messages):
        raise OddRowError("unreadable_instruction")
    if any(_LEAKED.search(message["content"]) for message in messages):
        raise OddRowError("unreadable_instruction")
    return messages, begun


def guesses_of_history(value: object) -> tuple[str, ...]:
    """Return the guesses of a `past_guess_history`: a list of pairs of guess and marks, or its text in Python or JSON.

    Examples:
        >>> guesses_of_history("[['CRANE', 'C(✓) R(x) A(-) N(x) E(x)']]")
        ('crane',)
    """
    if isinstance(value, str):
        text, value = value.strip() or "[]", None
        for read in (ast.literal_eval, json.loads) if len(text) <= _MAX_LITERAL else ():
            try:
                with warnings.catch_warnings(action="ignore"):  # stray backslashes in the text are harmless
                    value = read(text)
                break
            except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
                continue
    entries = value if isinstance(value, list | tuple) else [None]
    guesses = [entry[0] if isinstance(entry, list | tuple) and entry else None for entry in entries]
    if not all(isinstance(guess, str) for guess in guesses):
        raise OddRowError("unreadable_history")
    return tuple(str(guess).strip().lower() for guess in guesses)
