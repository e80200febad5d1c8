"""What rows made elsewhere say: a conversation, a board or a secret. One class per shape of row.

    row -> the first of `SHAPES` that matches -> `Said` -> a game to learn from (here), or a start (`train.starts_file`)

To read rows of another shape, write a class and add it to `SHAPES`. Every part of a conversation must be read or the
row refused: what its author's trainer would have shown the model is never dropped without a word.

Rows lie in a file (CSV, JSON lines, JSON, parquet, a plain list), or in a hub data set, OWNER/NAME or OWNER/NAME:SPLIT
(default: train). Either may end in `[:N]` for its first N rows, except a file of games of ours.
"""

from __future__ import annotations

import ast
import csv
import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from wordle_rl.config.base import ConfigError
from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.data.trace_files import read_games, wide_csv
from wordle_rl.game import Outcome, score_guess
from wordle_rl.policy.directory import retries_in_one_line
from wordle_rl.prompt import Guess, Message, Prompter
from wordle_rl.runs import parse_json
from wordle_rl.runs.foreign_text import visible
from wordle_rl.words import WordList

Row = dict[str, Any]
Rows = Iterator[Row | None]
"""Rows of a file; None for a line that is not a row."""
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
        num_prompt: Of the messages, those of a prompt that stands apart; replies in it are read, not learnt.
    """

    secret: str | None
    guesses: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    num_prompt: int = 0


class _Shape(Protocol):
    def matches(self, row: Row) -> bool: ...  # readable or not
    def read(self, row: Row) -> Said: ...  # raises `OddRowError` if a part is unreadable, or would be lost


class _Messages:
    """`{"messages": [{"role", "content"}, …]}`; ShareGPT's `{"conversations": [{"from", "value"}, …]}`, or TRL's
    `{"prompt": [message, …], "completion": [message, …]}`.

    After an optional system message, user messages and replies alternate. Content may be a list of text parts. Thinking
    that stands apart from a reply goes in front of it, in `<think>` tags. Closing tokens are cut off replies.
    """

    def matches(self, row: Row) -> bool:
        # Where rows of several shapes share a table, the columns of the others are there, and null.
        both = (row.get("prompt"), row.get("completion"))
        return row.get("turns") is None and (
            row.get("messages") is not None
            or row.get("conversations") is not None
            or all(isinstance(part, list | tuple) for part in both)
        )

    def read(self, row: Row) -> Said:
        _refuse_other_parts(row)
        told = next((row[name] for name in ("messages", "conversations") if row.get(name) is not None), None)
        num_prompt = 0
        if told is None:
            told, num_prompt = [*row["prompt"], *row["completion"]], len(row["prompt"])
        messages: list[Message] = []
        for given in told if isinstance(told, list | tuple) else ():
            message = _as_message(given)
            role, content = message.get("role"), _text_of(message.get("content"))
            if role not in _ROLES or content is None:
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
        if num_prompt == len(messages):
            raise OddRowError("missing_field")
        return Said(_secret_of(row), messages=tuple(messages), num_prompt=num_prompt)


class _Instruction:
    """`{"instruction", "input", "output"}`, or `{"prompt", "completion"}` as texts: one reply.

    A prompt in ChatML is split into its messages; the replies in it are not learnt.
    """

    def matches(self, row: Row) -> bool:
        pairs = (("instruction", "output"), ("prompt", "completion"))
        return any(all(row.get(name) is not None for name in pair) for pair in pairs)

    def read(self, row: Row) -> Said:
        _refuse_other_parts(row)
        own = row.get("instruction") is not None
        names = ("instruction", "input", "output") if own else ("prompt", "input", "completion")
        instruction, given, output = map(row.get, names)
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
        talk = (*messages, Message(role="assistant", content=reply))
        return Said(_secret_of(row), messages=talk, num_prompt=len(messages))


class _History:
    """`{"secret", "past_guess_history"}`: a board, as in predibase/wordle-grpo."""

    def matches(self, row: Row) -> bool:
        return row.get("past_guess_history") is not None

    def read(self, row: Row) -> Said:
        return Said(_secret_of(row), guesses_of_history(row["past_guess_history"]))


class _Board:
    """`{"secret", "turns": [{"guess"}, …]}`: a board, or a game of ours."""

    def matches(self, row: Row) -> bool:
        return row.get("turns") is not None

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


def prompt_of(row: Row) -> tuple[Message, ...]:
    """Return the `prompt` of a row, messages or a text, as messages; empty if it has none.

    The beginning of a reply with which a ChatML text may end is left to the policy.
    """
    given = row.get("prompt")
    if isinstance(given, str):
        text = given.strip()
        messages = _chatml(text)[0] if "<|im_start|>" in text else [Message(role="user", content=text)]
        return tuple(messages) if text else ()
    if not isinstance(given, list | tuple):
        return ()
    ended = [*given, Message(role="assistant", content="")]
    return _Messages().read({"messages": ended}).messages[:-1] if given else ()


# --- games to learn from ---


def games_of(source: Path, words: WordList, prompter: Prompter, *, checked: bool = True) -> Iterator[GameRecord | str]:
    """Yield the games of a source: of our files, or its conversations, and a reason for each row that is unusable.

    See `game_of` for `checked`.
    """
    if not holds_talk(source):
        _refuse_other_rows(source)
        if not checked:
            raise ConfigError(f"traces.checked = false is for conversations, but {source} holds games; remove it")
        yield from read_games(source)
        return
    for row in read_rows(source):
        try:
            yield game_of(read_row(row), words, prompter, checked=checked)
        except OddRowError as odd:
            yield str(odd)


TAKEN = (
    'games of `wordle-rl traces`, {"messages": […]}, {"conversations": […]}, {"prompt", "completion"} as texts or '
    'messages, {"instruction", "input", "output"}'
)
"""The forms of rows that can be learnt from, for error messages."""


def _refuse_other_rows(source: Path) -> None:
    # A file whose first row is neither a game nor a conversation is told by its fields, not by what a game lacks.
    if not (source.is_file() and source.suffix.lower() in _READERS):
        return
    first = next((row for row in read_rows(source) if row is not None), {})
    if first and "turns" not in first and "settings" not in first:
        raise ConfigError(f"{source}: its rows have the fields {fields_of(first)}; what is taken: {TAKEN}")


def fields_of(row: Row) -> str:
    """Name the first fields of a row, for error messages; a CSV line that is too long has one without a name."""
    return visible(", ".join(sorted(" ".join(name.split()) if name else "(no name)" for name in row)[:12]))


def holds_talk(source: Path) -> bool:
    """Return True if a file or hub data set holds conversations, False if it holds games of ours."""
    file = Path(file_of(source))
    known = file.suffix.lower() in (".jsonl", ".json", ".csv", ".parquet")
    if not (known if file.is_file() else not file.is_dir() and is_data_set(source)):
        return False
    rows = (row for row in islice(read_rows(source), _LOOKED_AT) if row is not None)
    return any(shape.matches(row) for row in rows for shape in _TALKS)


def game_of(said: Said, words: WordList, prompter: Prompter, *, checked: bool = True) -> GameRecord:
    """Make a game of a conversation, to be trained on word for word. Every reply must hold a listed guess; those of a
    prompt that stands apart are not taught.

    Without a named secret the last guess counts as the secret, since it might have been right. Guesses then have no
    marks. With `checked` False, replies need hold no guess; a conversation without any has no secret.
    """
    # Text, and whether it is taught.
    replies = [
        (message["content"], place >= said.num_prompt)
        for place, message in enumerate(said.messages)
        if message["role"] == "assistant"
    ]
    if not replies:
        raise OddRowError("missing_field")
    guesses = []
    for reply, _ in replies:
        parsed = prompter.parse(reply)
        guess = parsed.word if isinstance(parsed, Guess) and parsed.word in words else None
        if checked and guess is None:
            raise OddRowError("unlisted_guess" if isinstance(parsed, Guess) else f"output_{parsed.reason.value}")
        guesses.append(guess)
    named = said.secret if _is_word(said.secret) else None
    secret = named or next(filter(None, reversed(guesses)), "")
    if checked and secret not in words:
        raise OddRowError("unlisted_secret")
    turns = []
    for guess, (reply, taught) in zip(guesses, replies, strict=True):
        marks = score_guess(secret, guess) if guess and named in words else None
        outcome = Outcome.SCORED if guess else Outcome.MALFORMED
        turns.append(TurnRecord(guess, marks, taught, outcome=outcome, reply=reply))
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
_QUOTED = r"(?:'[^'\n]*'|\"[^\"\n]*\")"
_PAIR = re.compile(rf"\[\s*['\"](?P<guess>[^'\"\n]*)['\"]\s+{_QUOTED}\s*\]")
_ARRAY = re.compile(rf"\s*\[(?:\s*\[\s*{_QUOTED}\s+{_QUOTED}\s*\])+\s*\]\s*")
"""A history as numpy prints it: pairs without commas."""


_SPEAKERS = {"human": "user", "gpt": "assistant", "system": "system", "user": "user", "assistant": "assistant"}
"""ShareGPT's names of the roles."""


def _as_message(given: object) -> Mapping[str, Any]:
    # A message as a chat has it; ShareGPT says `from` and `value`.
    if not isinstance(given, dict):
        return {}
    if "from" in given and "role" not in given:
        named = {"role": _SPEAKERS.get(str(given["from"])), "content": given.get("value")}
        return {**given, **named, "from": None, "value": None}
    return given


def _text_of(content: object) -> str | None:
    # Content as text: itself, or its parts if all of them are texts; None if it is neither.
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) and content else [None]
    texts = [part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None for part in parts]
    return "".join(map(str, texts)) if all(isinstance(text, str) for text in texts) else None


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
    """Return the guesses of a `past_guess_history`: a list of pairs of guess and marks, or its text.

    The text may be Python's, JSON's, or what pandas writes of an array.

    Examples:
        >>> guesses_of_history("[['CRANE', 'C(✓) R(x) A(-) N(x) E(x)']]")
        ('crane',)
        >>> guesses_of_history("[['CRANE' 'C(x) R(x)']\\n ['SWEAT' 'S(x) W(-)']]")
        ('crane', 'sweat')
    """
    if isinstance(value, str) and len(value) <= _MAX_LITERAL and _ARRAY.fullmatch(value):
        # Python would join the strings of a pair without a comma to one.
        return tuple(found["guess"].strip().lower() for found in _PAIR.finditer(value))
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


# --- rows of files ----------------------------------------------------------------------------------------------------

_LIMIT = re.compile(r"(?P<source>.+)\[:(?P<limit>\d+)\]")
_DATA_SET = re.compile(r"(?P<name>[\w-][\w.-]*/[\w-][\w.-]*)(?::(?P<split>\w+))?", re.ASCII)
_ROWS_AT_ONCE = 1024


def read_rows(source: Path | str) -> Rows:
    """Read the rows of a source, without blank lines. A hub data set is downloaded to the cache of huggingface_hub.

    Raises:
        ConfigError: If the file or data set is missing, damaged or of an unknown kind.
    """
    text, limit = _parts(source)
    path, data_set = Path(text), _DATA_SET.fullmatch(text)
    files: Sequence[Path] = (path,)
    if data_set is not None and is_data_set(source):
        files = _fetch(data_set["name"], data_set["split"] or "train")
    elif not path.is_file():
        raise ConfigError(f"no file {path}; name an existing one")
    elif path.suffix.lower() not in _READERS:
        raise ConfigError(f"{path} is none of {', '.join(_READERS)}; convert it, or correct its suffix")
    return islice((row for file in files for row in _rows_of(file)), limit)


def is_data_set(source: Path | str) -> bool:
    """Return True if a source names a hub data set, not a file."""
    path = Path(file_of(source))
    is_file = path.exists() or path.suffix.lower() in _READERS
    return not is_file and _DATA_SET.fullmatch(str(path)) is not None


def file_of(source: Path | str) -> str:
    """Return the path or name of a source, without `[:N]`."""
    return _parts(source)[0]


def _parts(source: Path | str) -> tuple[str, int | None]:
    limited = None if Path(source).exists() else _LIMIT.fullmatch(str(source))
    return (limited["source"], int(limited["limit"])) if limited else (str(source), None)


def _rows_of(path: Path) -> Rows:
    try:
        yield from _READERS[path.suffix.lower()](path)
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text; convert it") from None


def _csv_rows(path: Path) -> Rows:
    with path.open(encoding="utf-8-sig", newline="") as file:
        try:
            yield from wide_csv(file)
        except csv.Error as error:
            raise ConfigError(f"{path} is no CSV ({error})") from None


def _lines(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        for number, line in enumerate(file):
            if text := line.decode("utf-8" if number else "utf-8-sig").strip():
                yield text


def _jsonl_rows(path: Path) -> Rows:
    for line in _lines(path):
        try:
            row = parse_json(line)
        except ValueError:
            row = None
        yield row if isinstance(row, dict) else None


def _json_rows(path: Path) -> Rows:
    # One JSON array; a string in it is a word.
    try:
        rows = parse_json(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise ConfigError(f"{path} is no JSON ({error}); name a .jsonl file if it has one object a line") from None
    if isinstance(rows, dict) and "log_history" in rows:  # trainer_state.json of transformers and TRL
        rows = rows["log_history"]
    if not isinstance(rows, list):
        raise ConfigError(f"{path} holds {type(rows).__name__}, expected an array of rows")
    for row in rows:
        yield {"word": row} if isinstance(row, str) else row if isinstance(row, dict) else None


def _parquet_rows(path: Path) -> Rows:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ModuleNotFoundError:
        raise ConfigError('reading parquet needs pyarrow: pip install "wordle-rl[train]"') from None
    try:
        with ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE):
                yield from batch.to_pylist()
    except (ArrowException, OSError) as error:
        raise ConfigError(f"{path} is no parquet file ({' '.join(str(error).split())})") from None


_READERS: dict[str, Callable[[Path], Rows]] = {
    ".parquet": _parquet_rows,
    ".jsonl": _jsonl_rows,
    ".csv": _csv_rows,
    ".json": _json_rows,
    ".txt": lambda path: ({"word": line} for line in _lines(path)),  # a plain list, one word per line
}
"""Readers by suffix. If a data set has several kinds of files, the first kind here is read."""


def _fetch(name: str, split: str) -> list[Path]:
    # Download the files of one split of a data set.
    try:
        from huggingface_hub import HfApi, errors
    except ModuleNotFoundError:
        raise ConfigError('a data set of the hub needs huggingface_hub: pip install "wordle-rl[train]"') from None
    api = HfApi()
    try:
        with retries_in_one_line():
            names = _files_of_split(name, split, api.list_repo_files(name, repo_type="dataset"))
            return [Path(api.hf_hub_download(name, file, repo_type="dataset")) for file in names]
    except errors.RepositoryNotFoundError:
        raise ConfigError(
            f"{name} is neither a file here nor a data set of the hub; check the name, or set HF_TOKEN if it is private"
        ) from None
    except (errors.HTTPError, errors.LocalEntryNotFoundError, ConnectionError) as error:  # type: ignore[attr-defined]
        why = " ".join(str(error).split()) or type(error).__name__
        raise ConfigError(
            f"{name} is no file here, and the hub could not be read ({why}); check the name or the network"
        ) from None


def _files_of_split(name: str, split: str, files: Sequence[str]) -> list[str]:
    """Return the data files of a split: those whose path names it, or the only one.

    Examples:
        >>> _files_of_split("me/rows", "train", ["README.md", "data/train-0.parquet", "data/test-0.parquet"])
        ['data/train-0.parquet']
    """
    data = [file for file in files if Path(file).suffix.lower() in _READERS and file != "README.txt"]
    named = [file for file in data if split in re.split(r"[^a-zA-Z0-9]+", file.rpartition(".")[0])]
    found = named or (data if len(data) == 1 and split == "train" else [])
    if not found:
        there = f"its files are {', '.join(sorted(data)[:5])}" if data else f"it has none of {', '.join(_READERS)}"
        raise ConfigError(f"data set {name} has no file of split {split!r}; {there}; name a split as {name}:SPLIT")
    kind = next(suffix for suffix in _READERS if any(file.lower().endswith(suffix) for file in found))
    return sorted(file for file in found if file.lower().endswith(kind))
