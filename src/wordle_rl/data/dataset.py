"""Which games are learnt from: checks of traces, their conversations, and rows for SFT and RL.

A run that learns from a file (`TracesFromFile`) checks each game again. The secret must be allowed, and replaying the
game by the run's rules must give the same marks. A game that the solver did not play must also pass `fault_of`; the
solver's games need not, since it loses, probes and strays on purpose. Chat and instruction rows (see `readers`) are
trained on unchanged if every reply holds a readable guess. Sound games of validation secrets are never trained on;
they give SFT its validation loss.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import GameSettings
from wordle_rl.config.teachers import TraceSettings
from wordle_rl.data.game_record import GameRecord, TurnRecord, board_row
from wordle_rl.data.readers import games_of
from wordle_rl.game import Game, Rules, Turn, score_guess, violates_clues
from wordle_rl.prompt import Message, Prompter, Shape, Thinking
from wordle_rl.runs import write_jsonl
from wordle_rl.words import WordList
from wordle_rl.words.split import Split

CHAT_ROW = frozenset({"messages"})
"""Fields of a conversation for SFT."""

START_ROW = frozenset({"secret", "turns"})
"""Fields of an initial state."""

SFTForm = Literal["messages", "instruction"]
"""Form of SFT rows: a conversation, or one reply with the messages before it as one text."""

_LEAKED_TAGS = re.compile(
    r"</?(?:think|guess)>|<[|｜][^\s<>|｜]+[|｜]>|<(?:start|end)_of_turn>|<(?:bos|eos|pad)>|</?s>|\[/?INST\]",
    re.IGNORECASE,
)
"""Tags of the reply grammar or of a chat template in thinking: a reply made from it could not be parsed."""

_SFT_ROWS, _RL_ROWS = (CHAT_ROW, frozenset({"instruction", "output", "secret"})), (frozenset({"prompt", "answer"}),)
_ROWS: Mapping[str, Collection[frozenset[str]]] = {
    "sft_train": _SFT_ROWS,
    "sft_val": _SFT_ROWS,
    "rl_train": _RL_ROWS,
    "rl_val": _RL_ROWS,
    "rl_start_states": (START_ROW,),
}
"""The files of a data set, and the fields of their rows."""


def conversation(trace: GameRecord, prompter: Prompter) -> list[Message]:
    """Return a trace as one conversation."""
    messages = prompter.opening()
    board = trace.board()
    for count, turn in enumerate(trace.turns, start=1):
        messages.append(_reply(turn, prompter))
        if count < len(board):
            messages.append(prompter.feedback(board[:count]))
    return messages


def _reply(turn: TurnRecord, prompter: Prompter) -> Message:
    return {"role": "assistant", "content": prompter.reply(turn.guess or "", turn.thinking)}


def dialogues(trace: GameRecord, prompter: Prompter) -> list[list[Message]]:
    """Return the conversations of a trace: one, or where prompts do not grow, one for each taught turn."""
    if trace.messages and prompter.shape is Shape.SPOKEN:
        replies = [end for end, message in enumerate(trace.messages) if message["role"] == "assistant"]
        earlier = [*trace.messages]
        for end in replies:
            earlier[end] = prompter.remembered(earlier[end]["content"])
        ends = zip(replies, trace.turns, strict=True)
        return [[*earlier[:end], trace.messages[end]] for end, turn in ends if turn.taught]
    if trace.messages:
        return [[*trace.messages]]
    if prompter.shape is Shape.TRANSCRIPT:
        return [conversation(trace, prompter)] if trace.turns else []
    board = trace.board()
    return [
        [*prompter.opening(board[:count]), _reply(turn, prompter)]
        for count, turn in enumerate(trace.turns)
        if turn.taught
    ]


@dataclass(frozen=True, slots=True)
class DatasetLimits:
    """Conditions that a game must meet to become rows.

    Attributes:
        max_turns: Most guesses of a game, free refusals not counted.
        consistent_only: Reject games in which a taught guess contradicts the marks, such as a deliberate probe.
        max_tokens: Most completion tokens, as counted by the endpoint. Games without a count are then rejected. 0: no
            limit.
        thinking: `off` ignores thinking; `required` rejects games in which a taught guess has none.
    """

    max_turns: int = 6
    consistent_only: bool = True
    max_tokens: int = 0
    thinking: Thinking = Thinking.OPTIONAL


def strict_words_of(trace: GameRecord, split: Split) -> frozenset[str]:
    """Return the strict words that a game names as its secret, as a guess, in a reply or in thinking."""
    texts = (text for turn in trace.turns for text in (turn.guess, turn.thinking, turn.reply))
    return split.strict_words_in(trace.secret, *texts, *(message["content"] for message in trace.messages))


def unplayed(trace: GameRecord, words: WordList) -> str | None:
    """Return why a trace is not a finished game of these words, or None."""
    if trace.error is not None:
        return "error"
    if trace.secret not in words:
        return "unlisted_secret"
    if not trace.turns:
        return "no_turns"
    return None


def fault_of(trace: GameRecord, words: WordList, limits: DatasetLimits) -> str | None:
    """Return the first reason to reject a trace, or None. Marks and consistency are computed again."""
    if fault := unplayed(trace, words):
        return fault
    if any(turn.guess == trace.secret for turn in trace.turns[:-1]):
        return "plays_on_after_win"
    if not trace.won:
        return "not_won"
    if trace.turns_used > limits.max_turns:
        return "too_many_turns"
    # A count of 0 means unknown, and what is unknown cannot be within a limit.
    if limits.max_tokens > 0 and trace.notes.completion_tokens < 1:
        return "unknown_tokens"
    if 0 < limits.max_tokens < trace.notes.completion_tokens:
        return "too_many_tokens"
    # Only now the turns, each against the board before it.
    board = trace.board()
    faults = (
        _fault_of_turn(turn, trace.secret, board[:count], words, limits) for count, turn in enumerate(trace.turns)
    )
    return next((fault for fault in faults if fault is not None), None)


def _fault_of_turn(
    turn: TurnRecord, secret: str, board: Sequence[Turn], words: WordList, limits: DatasetLimits
) -> str | None:
    if turn.outcome.broke_rules:
        return f"{turn.outcome.value}_turn"
    if turn.guess is None or len(turn.guess) != len(secret) or turn.guess not in words:
        return "unlisted_guess"
    if score_guess(secret, turn.guess) != turn.marks:  # other projects mark repeated letters in other ways
        return "wrong_marks"
    if limits.consistent_only and turn.taught and violates_clues(turn.guess, board):
        return "violates_clues"
    if limits.thinking is Thinking.REQUIRED and turn.taught and not turn.thinking.strip():
        return "no_thinking"
    leaks = limits.thinking is not Thinking.OFF and _LEAKED_TAGS.search(turn.thinking)
    return "tags_in_thinking" if leaks else None


class TracesFromFile:
    """Games of `settings.file` that a run may train on, at most `settings.num_games`, in file order.

    Attributes:
        rejected: Number of rejected games so far, by reason.
        num_otherwise: Number of used conversations whose opening differs from the run's games.
        num_duplicates: Number of used games that are learnt more than once.
    """

    def __init__(self, words: WordList, split: Split, settings: TraceSettings, game: GameSettings) -> None:
        assert settings.file is not None  # the caller has games to read
        self.path: Path = settings.file
        self.rejected: Counter[str] = Counter()
        self.num_otherwise = self.num_duplicates = 0
        self._words, self._num_games, self._checked = words, settings.num_games, settings.checked
        self._drop = settings.drop_duplicates
        self._prompter = game.prompter(words.word_length)
        self._rules = self._prompter.rules
        self._limits = DatasetLimits(max_turns=game.max_turns, thinking=game.thinking)
        # Secrets that SFT must leave to learning by play.
        taught, _ = split.shared(settings.rl_only_fraction)
        self._split, self._rl_only = split, frozenset(split.train).difference(taught)

    def __iter__(self) -> Iterator[GameRecord]:
        """Read the file from its start; a `ConfigError` if no game may be trained on."""
        self.rejected.clear()
        self.num_otherwise, self.num_duplicates, opening = 0, 0, self._prompter.opening()
        found = False
        for trace in islice(self._accepted(), self._num_games):
            found = True
            self.num_otherwise += bool(trace.messages) and [*trace.messages[: len(opening)]] != opening
            yield trace
        if not found:
            raise ConfigError(f"{self.path} holds no game to learn from; left out: {self.left_out() or 'none'}")

    def of_validation(self) -> list[GameRecord]:
        """Return sound games of validation secrets, at most `settings.num_games`. Never train on them."""
        games = (
            trace
            for trace in self._found()
            if not isinstance(trace, str) and self._split.part_of(trace.secret) == "val"
        )
        return list(islice((trace for trace in games if self._fault_of_game(trace) is None), self._num_games))

    def left_out(self) -> str:
        """Return rejected games and rows by reason, as in `12 not_won, 3 test_secret`; empty if there are none."""
        return ", ".join(f"{count} {reason}" for reason, count in sorted(self.rejected.items()))

    def _found(self) -> Iterator[GameRecord | str]:
        return games_of(self.path, self._words, self._prompter, checked=self._checked)

    def _accepted(self) -> Iterator[GameRecord]:
        seen: set[int] = set()  # hashes: a file may hold millions of games
        for trace in self._found():
            if isinstance(trace, str):  # the reason why a row is no game
                self.rejected[trace] += 1
                continue
            fault = self._split.held_out_reason(trace.secret)
            if fault is None and trace.secret in self._rl_only:
                fault = "rl_only_secret"
            if fault := fault or self._fault_of_game(trace):
                self.rejected[fault] += 1
            elif (key := hash(trace.lesson)) in seen and self._drop:
                self.rejected["duplicate"] += 1
            else:
                self.num_duplicates += key in seen
                seen.add(key)
                yield trace

    def _fault_of_game(self, trace: GameRecord) -> str | None:
        if strict_words_of(trace, self._split):
            return "strict_word"
        # The replies of chat rows were checked when they were read.
        if trace.messages:
            return None
        fault = fault_of(trace, self._words, self._limits) if trace.notes.teacher != "solver" else None
        return fault or replay_fault(trace, self._words, self._rules)


def replay_fault(trace: GameRecord, words: WordList, rules: Rules) -> str | None:
    """Return the first difference between a game and its replay by these rules, or None.

    The solver's secrets may be letter strings outside the word list, which its last guess may name.
    """
    made_up = trace.notes.teacher == "solver" and trace.secret not in words and len(trace.secret) == words.word_length
    if (fault := unplayed(trace, words)) and not (made_up and fault == "unlisted_secret"):
        return fault
    game = Game(trace.secret, words, rules)
    for number, turn in enumerate(trace.turns, start=1):
        # A secret outside the list can be named only by the last guess, which no rules would take.
        if made_up and turn == TurnRecord(trace.secret, "G" * words.word_length, thinking=turn.thinking):
            return None if number == len(trace.turns) and not game.over else "plays_on_after_win"
        if game.over:
            return "plays_on_after_win" if game.won else "too_many_turns"
        if not turn.outcome.broke_rules and turn.guess not in words:
            return "unlisted_guess"
        played = game.play(turn.guess)
        if (played.outcome, played.costs_turn) != (turn.outcome, turn.costs_turn):
            return "wrong_rules"
        if played.marks != turn.marks:
            return "wrong_marks"
    return None


def write_dataset(
    traces: Iterable[GameRecord],
    words: WordList,
    split: Split,
    prompter: Prompter,
    limits: DatasetLimits,
    stem: Path,
    *,
    form: SFTForm = "messages",
    codec: ChatCodec | None = None,
    boards: Iterable[Mapping[str, Any]] | None = None,
    drop_duplicates: bool = False,
) -> dict[str, Any]:
    """Write SFT and RL rows as JSON lines.

    - `<stem>_sft_train.jsonl`, `<stem>_sft_val.jsonl`: `{"messages": [...]}` per game. With `form` `instruction`, one
      row `{"instruction", "output", "secret"}` per reply, by the template of `codec`, else in ChatML. Games with
      secrets outside the answers go to train.
    - `<stem>_rl_train.jsonl`, `<stem>_rl_val.jsonl`: `{"prompt", "answer"}` for every secret of the part.
    - `<stem>_rl_start_states.jsonl`: `{"secret", "turns": [{"guess", "marks"}]}`, from `boards`, else the board before
      the last guess of each accepted game.

    Games are rejected if their secret is a test secret or they name a strict word. In transcript shape, games with an
    untaught turn are rejected too, since training on a conversation teaches every reply in it. The result counts rows
    per file, rejected games per reason, and accepted games that came before. Existing files are replaced only if they
    hold such rows.
    """
    paths = {name: stem.with_name(f"{stem.name}_{name}.jsonl") for name in _ROWS}
    for name, path in paths.items():  # all of them before any is written
        check_replaceable(path, _ROWS[name])
    rejected: Counter[str] = Counter()
    accepted: list[GameRecord] = []
    seen: set[object] = set()
    num_duplicates = 0
    for trace in traces:
        fault = "test_secret" if split.part_of(trace.secret) == "test" else fault_of(trace, words, limits)
        if fault is None and strict_words_of(trace, split):
            fault = "strict_word"
        if fault is None and prompter.shape is Shape.TRANSCRIPT and not all(turn.taught for turn in trace.turns):
            fault = "untaught_turn"
        if fault is None and trace.lesson in seen:
            num_duplicates += not drop_duplicates
            fault = "duplicate" if drop_duplicates else None
        if fault is None:
            accepted.append(trace)
            seen.add(trace.lesson)
        else:
            rejected[fault] += 1
    # Words outside the answers are in no part of the split, so their games may be trained on.
    train = [trace for trace in accepted if split.part_of(trace.secret) != "val"]
    val = [trace for trace in accepted if split.part_of(trace.secret) == "val"]
    files = {
        "sft_train": _sft_rows(train, prompter, form, codec),
        "sft_val": _sft_rows(val, prompter, form, codec),
        "rl_train": ({"prompt": prompter.opening(), "answer": secret} for secret in split.train),
        "rl_val": ({"prompt": prompter.opening(), "answer": secret} for secret in split.val),
        "rl_start_states": boards
        or (
            board_row(trace.secret, ((turn.guess, turn.marks) for turn in trace.turns[:-1]))
            for trace in train
            if len(trace.turns) > 1
        ),
    }
    counts = {name: write_jsonl(paths[name], rows) for name, rows in files.items()}
    return {"rows": counts, "rejected": dict(sorted(rejected.items())), "duplicates": num_duplicates}


def _sft_rows(
    traces: Iterable[GameRecord], prompter: Prompter, form: SFTForm, codec: ChatCodec | None
) -> Iterator[dict[str, Any]]:
    for trace in traces:
        for messages in dialogues(trace, prompter):
            if form == "messages":
                yield {"messages": messages}
            else:
                # A reply in the middle of a game guesses another word, which may be held out: name the secret.
                yield from ({**row, "secret": trace.secret} for row in instruction_rows(messages, codec))


def instruction_rows(messages: Sequence[Message], codec: ChatCodec | None = None) -> Iterator[dict[str, str]]:
    """Yield a row for every reply of a conversation, token for token what the codec's model reads and writes.

    Without a codec, rows are in ChatML, which `traces.file` reads back.

    Examples:
        >>> next(instruction_rows([{"role": "user", "content": "play"}, {"role": "assistant", "content": "crane"}]))
        {'instruction': '<|im_start|>user\\nplay<|im_end|>\\n<|im_start|>assistant\\n', 'output': 'crane<|im_end|>'}
    """
    if codec is not None:
        for place, message in enumerate(messages):
            if message["role"] == "assistant":
                ids = codec.prompt_ids(messages[:place]), codec.reply_ids(message["content"])
                asked, replied = (str(codec.tokenizer.decode(each)) for each in ids)
                yield {"instruction": asked, "output": replied}
        return
    said = ""
    for message in messages:
        begun = f"{said}<|im_start|>{message['role']}\n"
        if message["role"] == "assistant":
            yield {"instruction": begun, "output": f"{message['content']}<|im_end|>"}
        said = f"{begun}{message['content']}<|im_end|>\n"


def check_replaceable(path: Path, kinds: Collection[frozenset[str]]) -> None:
    """Check that a file may be replaced: it is missing, empty, or its first line has the fields of one of `kinds`."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        line = file.readline()
    try:
        row = json.loads(line) if line else None
    except (ValueError, RecursionError):  # not JSON, not text, or nested too deeply
        row = line
    fields, turns = (row.keys(), row.get("turns")) if isinstance(row, dict) else (set(), None)
    # A played game can have the fields of an initial state, but all turns of an initial state are prefix guesses.
    played = isinstance(turns, list) and not all(isinstance(turn, dict) and turn.get("given") for turn in turns)
    if line and (fields not in kinds or played):
        raise ConfigError(f"{path} holds something else than rows of this kind; name another --out")


def summarise(traces: Iterable[GameRecord], *, per_secret: bool) -> list[dict[str, Any]]:
    """Count games, wins and guesses per teacher, or per secret and teacher, hardest first.

    Games that failed and were never finished are errors, not losses.
    """
    games: defaultdict[tuple[str, str], list[GameRecord]] = defaultdict(list)
    failed: dict[tuple[str, int, str], tuple[str, str]] = {}
    finished = set()
    for trace in traces:
        group = (trace.secret if per_secret else "", trace.notes.teacher)
        if trace.error is not None:
            failed[trace.key] = group
        else:
            finished.add(trace.key)
            games[group].append(trace)
    # A game that failed and was then finished by a later call is no error.
    errors = Counter(group for key, group in failed.items() if key not in finished)
    rows: list[dict[str, Any]] = []
    for group in sorted({*games, *errors}):
        wins = [trace.turns_used for trace in games[group] if trace.won]
        rows.append(
            {
                "secret": group[0],
                "teacher": group[1],
                "num_games": len(games[group]),
                "num_wins": len(wins),
                "win_rate": len(wins) / len(games[group]) if games[group] else 0.0,
                "mean_guesses_on_wins": sum(wins) / len(wins) if wins else None,
                "num_errors": errors[group],
                "num_broken_turns": sum(turn.outcome.broke_rules for trace in games[group] for turn in trace.turns),
            }
        )
    if per_secret:
        rows.sort(key=lambda row: (row["win_rate"], -(row["mean_guesses_on_wins"] or 0.0), row["secret"]))
    return rows
