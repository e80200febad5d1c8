"""Data sets made elsewhere as ours: boards, conversations for SFT, and conversations as games.

Every board is marked again, and rejected rows are counted by reason. A chat row (`{"messages"}`) or instruction row
(`{"instruction", "output"}`) becomes a `GameRecord` that carries its conversation, and every reply is trained on word
for word. A row may name its secret in a field `secret`, `answer` or `word`. Otherwise the last guess counts as the
secret, since it might have been right.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from wordle_rl.config import ConfigError
from wordle_rl.data.dataset import CHAT_ROW, START_ROW, check_replaceable
from wordle_rl.data.game_record import GameRecord, TurnRecord, board_row
from wordle_rl.data.row_files import Row, is_data_set, read_rows
from wordle_rl.game import score_guess
from wordle_rl.prompt import Guess, Message, Prompter
from wordle_rl.runs import write_jsonl
from wordle_rl.words import WordList
from wordle_rl.words.split import Split

Format = Literal["grpo", "instruction"]

_MAX_LITERAL = 4000
_LOOKED_AT = 100  # rows that show what a file holds


class OddRowError(ValueError):
    """A row that cannot be used. The message is the reason to count it under."""


def import_rows(
    path: Path | str, out: Path, form: Format, words: WordList, split: Split, prompter: Prompter
) -> dict[str, Any]:
    """Write the usable rows of a data set as JSON lines, and count rows and rejected rows per reason.

    `grpo`: rows of `prompt, word_list, past_guess_history, secret` become initial states, `{"secret", "turns"}`.
    `instruction`: rows of `instruction, output` become `{"messages"}`. Nothing is written if there is no usable row, or
    if `out` is that file or holds other rows.
    """
    if Path(path).exists() and out.exists() and out.samefile(path):
        raise ConfigError(f"{out} is the file to read; name another --out")
    check_replaceable(out, (CHAT_ROW, START_ROW))
    skipped: Counter[str] = Counter()

    def usable() -> Iterator[Row]:
        found = False
        for row in read_rows(path):
            try:
                if row is None:
                    raise OddRowError("no_row")
                if form == "grpo":
                    converted = _start_state(row, words, split, prompter.rules.max_turns)
                else:
                    converted = _sft_row(row, words, split, prompter)
            except OddRowError as odd:
                skipped[str(odd)] += 1
                continue
            found = True
            yield converted
        if not found:
            why = ", ".join(f"{count} {reason}" for reason, count in sorted(skipped.items())) or "it is empty"
            raise ConfigError(f"{path} has no usable row ({why}); check --format, --words and the fields of its rows")

    count = write_jsonl(out, usable())
    return {"file": str(out), "rows": count, "skipped": dict(sorted(skipped.items()))}


# --- boards ---------------------------------------------------------------------------------------------------


def _start_state(row: Row, words: WordList, split: Split, max_turns: int) -> Row:
    secret = _word(row.get("secret"))
    if secret is None or "past_guess_history" not in row:
        raise OddRowError("missing_field")
    if secret not in words:
        raise OddRowError("unlisted_secret")
    if reason := split.held_out_reason(secret):
        raise OddRowError(reason)
    turns = [_turn(entry, secret, words) for entry in _history(row["past_guess_history"])]
    if any(guess == secret for guess, _ in turns):
        raise OddRowError("plays_on_after_win")
    if len(turns) >= max_turns:
        raise OddRowError("too_many_turns")
    if split.strict_words_in(*(guess for guess, _ in turns)):
        raise OddRowError("strict_word")
    return board_row(secret, turns)


def _word(value: object) -> str | None:
    word = value.strip().lower() if isinstance(value, str) else ""
    return word if word.isascii() and word.isalpha() else None


def guesses_of_history(value: object) -> tuple[str, ...]:
    """Return the guesses of a `past_guess_history`, without checking its marks.

    Examples:
        >>> guesses_of_history("[['CRANE', 'C(✓) R(x) A(-) N(x) E(x)']]")
        ('crane',)
    """
    guesses = []
    for entry in _history(value):
        guess = entry.get("guess") if isinstance(entry, dict) else (entry or [None])[0] if _is_list(entry) else None
        if not isinstance(guess, str):
            raise OddRowError("unreadable_history")
        guesses.append(guess.strip().lower())
    return tuple(guesses)


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def _history(value: object) -> list[Any]:
    # The guesses so far, from a list or from its text in Python or JSON.
    if isinstance(value, str):
        text, value = value.strip() or "[]", None
        for read in (ast.literal_eval, json.loads) if len(text) <= _MAX_LITERAL else ():
            try:
                with warnings.catch_warnings(action="ignore"):  # stray backslashes in the text are harmless
                    value = read(text)
                break
            except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
                continue
    if not isinstance(value, list | tuple):
        raise OddRowError("unreadable_history")
    return list(value)


def _turn(entry: object, secret: str, words: WordList) -> tuple[str, str]:
    if isinstance(entry, dict):
        entry = [entry.get("guess"), entry.get("feedback", entry.get("marks"))]
    if not isinstance(entry, list | tuple) or len(entry) != 2 or not isinstance(entry[1], str):
        raise OddRowError("unreadable_history")
    guess = _word(entry[0])
    if guess is None or guess not in words:
        raise OddRowError("unlisted_guess")
    marks = read_marks(entry[1], guess)
    if marks is None:
        raise OddRowError("unreadable_marks")
    if marks != score_guess(secret, guess):
        raise OddRowError("wrong_marks")
    return guess, marks


_SIGNS = {
    **dict.fromkeys("✓✔√Gg🟩", "G"),
    **dict.fromkeys("-~–?Yy🟨", "Y"),
    **dict.fromkeys("Xx✗✘×_.Bb⬛⬜", "X"),
}


def read_marks(text: str, guess: str) -> str | None:
    """Read marks in any common notation as `G`, `Y`, `X`; None if unreadable or next to other letters.

    Examples:
        >>> read_marks("C(✓) R(x) A(-) N(x) E(x)", "crane")
        'GXYXX'
        >>> read_marks("🟩⬛🟨⬛⬛", "crane"), read_marks("GXYXX", "crane")
        ('GXYXX', 'GXYXX')
        >>> read_marks("B(✓) R(x) A(-) N(x) E(x)", "crane")
    """
    signs = "".join(text.split()).replace("\ufe0f", "")
    if pairs := re.findall(r"([A-Za-z])\((.)\)", signs):
        if "".join(letter for letter, _ in pairs).lower() != guess:
            return None
        signs = "".join(sign for _, sign in pairs)
    marks = "".join(_SIGNS.get(sign, "?") for sign in signs)
    return marks if len(marks) == len(guess) and "?" not in marks else None


# --- conversations --------------------------------------------------------------------------------------------


def holds_chat(source: Path) -> bool:
    """Return True if a file or hub data set holds chat or instruction rows; traces have another form."""
    known = source.suffix.lower() in (".jsonl", ".json", ".csv", ".parquet")
    if not (known if source.is_file() else not source.is_dir() and is_data_set(source)):
        return False
    rows = (row for row in islice(read_rows(source), _LOOKED_AT) if row is not None and "turns" not in row)
    return any({"messages"} <= row.keys() or {"instruction", "output"} <= row.keys() for row in rows)


def chat_traces(source: Path, words: WordList, prompter: Prompter) -> Iterator[GameRecord | str]:
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


def _sft_row(row: Row, words: WordList, split: Split, prompter: Prompter) -> Row:
    # A row that guesses a held-out word last is rejected even if it names another secret.
    trace = chat_trace(row, words, prompter)
    for word in (trace.secret, trace.turns[-1].guess or ""):
        if reason := split.held_out_reason(word):
            raise OddRowError(reason)
    if split.strict_words_in(*(message["content"] for message in trace.messages)):
        raise OddRowError("strict_word")
    return {"messages": [*trace.messages]}


_CHATML = re.compile(r"<\|im_start\|>(\w+)\n(.*?)(?:<\|im_end\|>\s*|$)(?=<\|im_start\|>|$)", re.DOTALL)
_ENDS = re.compile(r"(?:\s|<\|(?:im_end|endoftext|eot_id|end)\|>|</s>)+$")
_LEAKED = re.compile(r"<\|[\w./-]+\|>")
_ROLES = ("system", "user", "assistant")


def messages_of_row(row: Mapping[str, Any]) -> list[Message]:
    """Return the conversation of a row of `messages`, or of `instruction` and `output`. It ends with a reply.

    After an optional system message, user messages and replies alternate. Closing tokens are cut off replies. An
    instruction with `<|im_start|>` tags is split into its messages.
    """
    if "messages" not in row:
        return _instructed(row.get("instruction"), row.get("output"))
    messages: list[Message] = []
    for message in row["messages"] if _is_list(row["messages"]) else ():
        role, content = (message.get(name) if isinstance(message, dict) else None for name in ("role", "content"))
        if role not in _ROLES or not isinstance(content, str):
            raise OddRowError("unreadable_messages")
        messages.append(Message(role=role, content=_ENDS.sub("", content) if role == "assistant" else content))
    talk = messages[1:] if messages and messages[0]["role"] == "system" else messages
    if not talk or len(talk) % 2 or any(m["role"] != ("user", "assistant")[i % 2] for i, m in enumerate(talk)):
        raise OddRowError("unreadable_messages")
    return messages


def _instructed(instruction: object, output: object) -> list[Message]:
    if not isinstance(instruction, str) or not isinstance(output, str) or not instruction.strip():
        raise OddRowError("missing_field")
    reply = _ENDS.sub("", output).strip()
    if "<|im_start|>" not in instruction:
        messages = [Message(role="user", content=instruction.strip())]
    else:
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
