"""Convert data sets made elsewhere to our rows. Every board is marked again; rejected rows are counted by reason."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from wordle_rl.config import ConfigError
from wordle_rl.data.dataset import CHAT_ROW, START_ROW, check_replaceable
from wordle_rl.data.game_record import board_row
from wordle_rl.data.row_files import Row, read_rows
from wordle_rl.game import score_guess
from wordle_rl.prompt import Guess, Message, Prompter
from wordle_rl.runs import write_jsonl
from wordle_rl.words import WordList
from wordle_rl.words.split import Split

Format = Literal["grpo", "instruction"]

_MAX_LITERAL = 4000


class OddRowError(ValueError):
    """A row that cannot be used. The message is the reason to count it under."""


def import_rows(
    path: Path | str, out: Path, form: Format, words: WordList, split: Split, prompter: Prompter
) -> dict[str, Any]:
    """Read a data set and write its usable rows as JSON lines.

    Args:
        path: A .csv, .jsonl, .json or .parquet file, or a hub data set (see `row_files`).
        out: The file to write.
        form: `grpo`: rows of `prompt, word_list, past_guess_history, secret` become initial states,
            `{"secret", "turns": [{"guess", "marks"}]}`. `instruction`: rows of `instruction, output` become
            `{"messages": [...]}`.
        words: The word lists.
        split: Their split. Rows of held-out secrets are rejected.
        prompter: Grammar of outputs, and rules of boards.

    Returns:
        Number of rows written, and of rejected rows per reason.

    Raises:
        ConfigError: If the file cannot be read or has no usable row, or `out` is that file or holds other rows. Nothing
            is written then.
    """
    if Path(path).exists() and out.exists() and out.samefile(path):
        raise ConfigError(f"{out} is the file to read; name another --out")
    check_replaceable(out, (CHAT_ROW, START_ROW))

    def convert(row: dict[str, Any]) -> dict[str, Any]:
        if form == "grpo":
            return start_state(row, words, split, prompter.rules.max_turns)
        return sft_row(row, words, split, prompter)

    skipped: Counter[str] = Counter()
    count = write_jsonl(out, _usable(path, convert, skipped))
    return {"file": str(out), "rows": count, "skipped": dict(sorted(skipped.items()))}


def _usable(source: Path | str, convert: Callable[[Row], Row], skipped: Counter[str]) -> Iterator[Row]:
    found = False
    for row in read_rows(source):
        try:
            if row is None:
                raise OddRowError("no_row")
            converted = convert(row)
        except OddRowError as odd:
            skipped[str(odd)] += 1
            continue
        found = True
        yield converted
    if not found:
        why = ", ".join(f"{count} {reason}" for reason, count in sorted(skipped.items())) or "it is empty"
        raise ConfigError(f"{source} has no usable row ({why}); check --format, --words and the fields of its rows")


def start_state(row: dict[str, Any], words: WordList, split: Split, max_turns: int) -> dict[str, Any]:
    """Convert a `prompt, word_list, past_guess_history, secret` row to an initial state.

    Raises:
        OddRowError: If the row is unusable; the message is the reason.
    """
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


def _history(value: object) -> list[Any]:
    """Return the guesses so far, from a list or from its text in Python or JSON."""
    if isinstance(value, str):
        if len(value) > _MAX_LITERAL:
            raise OddRowError("unreadable_history")
        value = _literal(value.strip() or "[]")
    if not isinstance(value, list | tuple):
        raise OddRowError("unreadable_history")
    return list(value)


def guesses_of_history(value: object) -> tuple[str, ...]:
    """Return the guesses of a history in lower case, without marks.

    Raises:
        OddRowError: If it cannot be read.
    """
    guesses = []
    for entry in _history(value):
        said = entry.get("guess") if isinstance(entry, dict) else entry
        guess = said[0] if isinstance(said, list | tuple) and said else said
        if not isinstance(guess, str):
            raise OddRowError("unreadable_history")
        guesses.append(guess.strip().lower())
    return tuple(guesses)


def _literal(text: str) -> object:
    for read in (ast.literal_eval, json.loads):
        try:
            with warnings.catch_warnings(action="ignore"):  # stray backslashes in the text are harmless
                return read(text)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            continue
    return None


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
    bare = "".join(text.split()).replace("\ufe0f", "")
    pairs = re.findall(r"([A-Za-z])\((.)\)", bare)
    if pairs:
        if "".join(letter for letter, _ in pairs).lower() != guess:
            return None
        signs = "".join(sign for _, sign in pairs)
    else:
        signs = bare
    marks = "".join(_SIGNS.get(sign, "?") for sign in signs)
    return marks if len(marks) == len(guess) and "?" not in marks else None


_CHATML = re.compile(r"<\|im_start\|>(\w+)\n(.*?)(?:<\|im_end\|>\s*|$)(?=<\|im_start\|>|$)", re.DOTALL)
_ENDS = re.compile(r"(?:\s|<\|(?:im_end|endoftext|eot_id|end)\|>|</s>)+$")
_LEAKED = re.compile(r"<\|[\w./-]+\|>")


def sft_row(row: dict[str, Any], words: WordList, split: Split, prompter: Prompter) -> dict[str, Any]:
    """Convert an `instruction, output` row to messages.

    A chat rendered with `<|im_start|>` tags is split into its messages. The output must be a readable reply with a
    listed guess. Such a row does not name its secret, so a row that guesses a held-out secret is rejected: the guess
    might have been right.

    Raises:
        OddRowError: If the row is unusable; the message is the reason.
    """
    messages = _instructed(row.get("instruction"), row.get("output"))
    reply = messages[-1]["content"]
    guess = prompter.parse(reply)
    if not isinstance(guess, Guess):
        raise OddRowError(f"output_{guess.reason.value}")
    if guess.word not in words:
        raise OddRowError("unlisted_guess")
    named = next(filter(None, (_word(row.get(name)) for name in ("secret", "answer", "word"))), guess.word)
    for word in (named, guess.word):
        if reason := split.held_out_reason(word):
            raise OddRowError(reason)
    if split.strict_words_in(*(message["content"] for message in messages)):
        raise OddRowError("strict_word")
    return {"messages": messages}


def messages_of_row(row: Mapping[str, Any]) -> list[Message]:
    """Return the conversation of a row of `messages`, or of `instruction` and `output`. It ends with a reply.

    After an optional system message, user messages and replies alternate. Closing tokens are cut off replies.

    Raises:
        OddRowError: If the row is unreadable; the message is the reason.
    """
    if "messages" not in row:
        return _instructed(row.get("instruction"), row.get("output"))
    given = row["messages"]
    if not isinstance(given, list | tuple) or not given:
        raise OddRowError("unreadable_messages")
    messages: list[Message] = []
    for message in given:
        role, content = (message.get(name) if isinstance(message, dict) else None for name in ("role", "content"))
        if role not in ("system", "user", "assistant") or not isinstance(content, str):
            raise OddRowError("unreadable_messages")
        messages.append(Message(role=role, content=_ENDS.sub("", content) if role == "assistant" else content))
    talk = messages[messages[0]["role"] == "system" :]
    if not talk or len(talk) % 2 or any(m["role"] != ("user", "assistant")[i % 2] for i, m in enumerate(talk)):
        raise OddRowError("unreadable_messages")
    return messages


def _instructed(instruction: object, output: object) -> list[Message]:
    if not isinstance(instruction, str) or not isinstance(output, str) or not instruction.strip():
        raise OddRowError("missing_field")
    messages, begun = _messages_of(instruction)
    reply = _ENDS.sub("", output).strip()
    if "<think>" in begun and not reply.startswith("<think>"):
        reply = f"<think>{begun.rpartition('<think>')[2]}{reply}"
    return [*messages, Message(role="assistant", content=reply)]


def _messages_of(instruction: str) -> tuple[list[Message], str]:
    """Split an instruction into messages, and the start of the reply if it ends with one."""
    if "<|im_start|>" not in instruction:
        return [Message(role="user", content=instruction.strip())], ""
    found = [(match[1], match[2]) for match in _CHATML.finditer(instruction)]
    begun = found.pop()[1] if found and found[-1][0] == "assistant" else ""
    messages = [Message(role=role, content=content.strip()) for role, content in found]
    if not messages or any(m["role"] not in ("system", "user", "assistant") for m in messages):
        raise OddRowError("unreadable_instruction")
    if messages[-1]["role"] != "user" or any(_LEAKED.search(message["content"]) for message in messages):
        raise OddRowError("unreadable_instruction")
    return messages, begun
