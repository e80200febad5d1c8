"""Conversations made elsewhere as games of ours.

A chat row (`{"messages"}`) or instruction row (`{"instruction", "input", "output"}`) becomes a `GameRecord` that
carries its conversation, and every reply is trained on word for word. Rows that cannot be used are counted by reason. A
row may name its secret in a field `secret`, `answer` or `word`. Otherwise the last guess counts as the secret, since it
might have been right.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.data.row_files import is_data_set, read_rows
from wordle_rl.game import score_guess
from wordle_rl.prompt import Guess, Message, Prompter
from wordle_rl.words import WordList

_MAX_LITERAL = 4000
_LOOKED_AT = 100  # rows that show what a file holds


class OddRowError(ValueError):
    """A row that cannot be used. The message is the reason to count it under."""


def holds_chat(source: Path) -> bool:
    """Return True if a file or hub data set holds chat or instruction rows; traces have another form."""
    known = source.suffix.lower() in (".jsonl", ".json", ".csv", ".parquet")
    if not (known if source.is_file() else not source.is_dir() and is_data_set(source)):
        return False
    rows = (row for row in islice(read_rows(source), _LOOKED_AT) if row is not None and "turns" not in row)
    return any({"messages"} <= row.keys() or {"instruction", "output"} <= row.keys() for row in rows)


def chat_traces(source: Path | str, words: WordList, prompter: Prompter) -> Iterator[GameRecord | str]:
    """Yield each row of a source as a trace, or the reason why it is unusable."""
    for row in read_rows(source):
        try:
            if row is None:
                raise OddRowError("no_row")
            yield chat_trace(row, words, prompter)
        except OddRowError as odd:
            yield str(odd)


def chat_trace(row: Mapping[str, Any], words: WordList, prompter: Prompter) -> GameRecord:
    """Convert a row to a trace that carries its conversation. Every reply must hold a listed guess."""
    messages = messages_of_row(row)
    replies = [message["content"] for message in messages if message["role"] == "assistant"]
    guesses = []
    for reply in replies:
        parsed = prompter.parse(reply)
        if not isinstance(parsed, Guess):
            raise OddRowError(f"output_{parsed.reason.value}")
        if parsed.word not in words:
            raise OddRowError("unlisted_guess")
        guesses.append(parsed.word)
    named = next(filter(None, (_word(row.get(name)) for name in ("secret", "answer", "word"))), None)
    secret = named or guesses[-1]
    if secret not in words:
        raise OddRowError("unlisted_secret")
    # Without a named secret there is nothing to mark guesses against.
    marks = [score_guess(secret, guess) if named else None for guess in guesses]
    turns = (TurnRecord(guess, mark, reply=reply) for guess, mark, reply in zip(guesses, marks, replies, strict=True))
    return GameRecord(secret, tuple(turns), messages=tuple(messages))


_CHATML = re.compile(r"<\|im_start\|>(\w+)\n(.*?)(?:<\|im_end\|>\s*|$)(?=<\|im_start\|>|$)", re.DOTALL)
_ENDS = re.compile(r"(?:\s|<\|(?:im_end|endoftext|eot_id|end)\|>|</s>)+$")
_LEAKED = re.compile(r"<\|[\w./-]+\|>")
_ROLES = ("system", "user", "assistant")
_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
"""Names under which servers send the thinking of a reply apart from it."""
_PARTS_OF_TALK = ("system", "history", "tools", "functions")
"""Fields of a row, beside its messages, that its author's trainer would have shown the model."""


def messages_of_row(row: Mapping[str, Any]) -> list[Message]:
    """Return the conversation of a row of `messages`, or of `instruction`, `input` and `output`. It ends with a reply.

    After an optional system message, user messages and replies alternate. Thinking that stands apart from a reply goes
    in front of it, in `<think>` tags. Closing tokens are cut off replies. An instruction with `<|im_start|>` tags is
    split into its messages.

    Raises:
        OddRowError: If a part of the conversation is unreadable, or would be lost.
    """
    if any(_is_filled(row.get(name)) for name in _PARTS_OF_TALK):
        raise OddRowError("unread_field")
    if "messages" not in row:
        return _instructed(row)
    messages: list[Message] = []
    for message in row["messages"] if isinstance(row["messages"], list | tuple) else ():
        role, content = (message.get(name) if isinstance(message, dict) else None for name in ("role", "content"))
        if role not in _ROLES or not isinstance(content, str):
            raise OddRowError("unreadable_messages")
        known = ("role", "content", *(_THOUGHTS if role == "assistant" else ()))
        if any(_is_filled(value) for name, value in message.items() if name not in known):
            raise OddRowError("unread_field")
        reply = role == "assistant"
        messages.append(Message(role=role, content=_with_thinking(message, _closed(content)) if reply else content))
    # A codec can only append: after the opening, replies and user messages must alternate.
    talk = messages[1:] if messages and messages[0]["role"] == "system" else messages
    if not talk or len(talk) % 2 or any(m["role"] != ("user", "assistant")[i % 2] for i, m in enumerate(talk)):
        raise OddRowError("unreadable_messages")
    return messages


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


def _instructed(row: Mapping[str, Any]) -> list[Message]:
    instruction, given, output = (row.get(name) for name in ("instruction", "input", "output"))
    if not isinstance(instruction, str) or not isinstance(output, str) or not instruction.strip():
        raise OddRowError("missing_field")
    reply = _with_thinking(row, _closed(output).strip())
    if _is_filled(given):
        if not isinstance(given, str):
            raise OddRowError("unreadable_instruction")
        instruction = f"{instruction.strip()}\n{given}"  # as Alpaca's rows are read
    if "<|im_start|>" not in instruction:
        messages = [Message(role="user", content=instruction.strip())]
    else:
        if _CHATML.sub("", instruction).strip():  # text that belongs to no message
            raise OddRowError("unreadable_instruction")
        found = [(match[1], match[2]) for match in _CHATML.finditer(instruction)]
        # The instruction may end with the start of the reply.
        begun = found.pop()[1] if found and found[-1][0] == "assistant" else ""
        messages = [Message(role=role, content=content.strip()) for role, content in found]
        if not messages or messages[-1]["role"] != "user" or any(m["role"] not in _ROLES for m in messages):
            raise OddRowError("unreadable_instruction")
        if any(_LEAKED.search(message["content"]) for message in messages):
            raise OddRowError("unreadable_instruction")
        if "<think>" in begun and not reply.startswith("<think>"):
            reply = f"<think>{begun.rpartition('<think>')[2]}{reply}"
    return [*messages, Message(role="assistant", content=reply)]


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


def _word(value: object) -> str | None:
    word = value.strip().lower() if isinstance(value, str) else ""
    return word if word.isascii() and word.isalpha() else None
