"""Boards, results and comparisons for the terminal, as rich renderables; what `wordle-rl eval` shows.

Every board also spells its marks, so that a log file or a screen without colours shows the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, TypeVar

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.env import Transcript, WordleEnv
from wordle_rl.evaluate import results_table as results
from wordle_rl.evaluate.compare import Comparison, MultiComparison, SharedGame
from wordle_rl.evaluate.eval_secrets import by_earlier_turns, marked
from wordle_rl.evaluate.figures import Figures, RewardFigures, measure, reward_figures
from wordle_rl.evaluate.forgetting import English
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.evaluate.results_table import MISSING, number_text, percent_text, results_table
from wordle_rl.evaluate.stats import p_text, smallest_difference
from wordle_rl.game import Outcome, Rules, Turn
from wordle_rl.preflight.memory import MemoryEstimate
from wordle_rl.prompt import Guess, Message, ParseFailure, Prompter
from wordle_rl.reward import RewardBreakdown
from wordle_rl.runs.progress import ProgressCallback, show_progress
from wordle_rl.words import WordList
from wordle_rl.words.split import Split

# Chosen so that terminals of 16 colours, which take the nearest, still show green, yellow and grey.
TILE_STYLES = {
    "G": "bold white on #1a7f1a",
    "Y": "bold black on #e0b83c",
    "X": "bold white on #5f6670",
}
_BLANK_STYLE = "bold #8a8f98"
NOTES = {
    Outcome.SCORED: "",
    Outcome.MALFORMED: "no guess in the reply",
    Outcome.WRONG_LENGTH: "wrong length",
    Outcome.UNLISTED: "not in the word list",
    Outcome.HARD_MODE: "leaves out a hint",
}
_MOST_ROWS = 20  # of games that players played differently


def tiles(guess: str, marks: str | None) -> Text:
    """Draw a guess as coloured tiles in upper case; plain tiles without marks."""
    row = Text()
    for letter, mark in zip(guess, marks or " " * len(guess), strict=True):
        row.append(f" {letter.upper()} ", TILE_STYLES.get(mark, _BLANK_STYLE))
    return row


def board(turns: Sequence[Turn | TurnRecord], *, word_length: int = 5, max_turns: int = 6, num_free: int = 0) -> Table:
    """Draw the turns so far and the empty rows.

    `num_free` turns cost nothing: the first refused ones, shown without a number beside those rows.
    """
    grid = Table.grid(padding=(0, 1))
    number = 0
    for turn in turns:
        is_free = num_free > 0 and turn.outcome.broke_rules
        num_free, number = num_free - is_free, number + (not is_free)
        row = Text(" – " * word_length, "dim") if turn.guess is None else tiles(turn.guess, turn.marks)
        shown = "" if is_free else str(number)
        grid.add_row(Text(shown, "dim"), row, Text(turn.marks or "", "dim"), Text(NOTES[turn.outcome], "italic"))
    # The rows that are left show how long the game may still last.
    for empty in range(number + 1, max_turns + 1):
        grid.add_row(Text(str(empty), "dim"), Text(" · " * word_length, "dim"), "", "")
    return grid


def game_panel(record: GameRecord, *, max_turns: int = 6) -> RenderableType:
    """Draw a finished game and how it ended."""
    if record.failed:
        end = Text(f"not finished: {record.error or record.stop_reason}", "italic")
    elif record.won:
        end = Text(f"{record.secret.upper()} found in {record.turns_used}", "bold")
    else:
        end = Text(f"lost: the word was {record.secret.upper()} ({str(record.stop_reason).replace('_', ' ')})", "bold")
    num_free = len(record.turns) - record.turns_used
    shown = board(record.turns, word_length=len(record.secret), max_turns=max_turns, num_free=num_free)
    return Group(shown, end)


def figures_table(found: results.Table, title: str | None = None, head: str = "") -> Table:
    """Draw a table of figures, without lines between its columns. `head` stands above the labels."""
    # As narrow as can be: four parts of the secrets fit into 80 columns, beside the longest name of a player.
    table = Table(
        title=Text(title) if title else None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
        show_edge=False,
    )
    # Names may be paths of any length. They are folded where the width ends; figures never are.
    table.add_column(head)
    for column in found.columns:
        table.add_column(Text(column, overflow="fold", no_wrap=False), justify="right")
    for label, *cells in found.rows:
        table.add_row(Text(label, overflow="fold", no_wrap=False), *(Text(cell, no_wrap=True) for cell in cells))
    return table


T = TypeVar("T")


def _tabulated(columns: Mapping[str, T], shown: Sequence[tuple[str, Callable[[T], str]]]) -> results.Table:
    rows = [(label, *map(text, columns.values())) for label, text in shown]
    return results.Table(tuple(columns), tuple(rows))


def memory_table(memory: Mapping[str, MemoryEstimate]) -> Table:
    """Tabulate the memory of each training stage in GiB: a column per stage, a row per component."""
    rows = []
    for label, show in _MEMORY_ROWS:
        sizes = [show(needed) / 1024**3 for needed in memory.values()]
        if any(sizes):
            rows.append((label, *(f"{size:.2f}" if size >= 0.1 else f"{size:.4f}" for size in sizes)))
    return figures_table(results.Table(tuple(memory), tuple(rows)), head="GiB")


_MEMORY_ROWS: tuple[tuple[str, Callable[[MemoryEstimate], int]], ...] = (
    ("weights", lambda e: e.weights),
    ("gradients, optimizer, reference", lambda e: e.training),
    ("backward pass (rough)", lambda e: e.step),
    ("key/value cache", lambda e: e.cache),
    ("most at once", lambda e: e.total),
)


def comparison_table(found: MultiComparison) -> RenderableType:
    """Tabulate players on the same words: their figures, each against the first, and the words that differ most."""
    shared = results_table({run.name: {"shared games": run.figures} for run in found.runs})
    pairs = {run.name: run.against_base for run in found.runs if run.against_base is not None}
    title = f"each against {found.runs[0].name}: differences with 95 % intervals"
    tests = figures_table(_tabulated(pairs, _COMPARED_ROWS), title)
    used = " or ".join(sorted({pair.wins_test for pair in pairs.values()}))
    notes = [*found.notes, f"p: {used} of wins, sign-flip test of guesses; not corrected for multiple tests"]
    shown = _differing_games([run.name for run in found.runs], found.games)
    return Group(figures_table(shared), "", tests, "", *(Text(note, "italic") for note in notes), *shown)


_COMPARED_ROWS: tuple[tuple[str, Callable[[Comparison], str]], ...] = (
    ("win rate, points", lambda c: f"{100 * c.win_rate_difference.mean:+.1f}"),
    ("  from", lambda c: f"{100 * c.win_rate_difference.low:+.1f}"),
    ("  to", lambda c: f"{100 * c.win_rate_difference.high:+.1f}"),
    ("won by the first alone", lambda c: str(c.only_a)),
    ("won by this one alone", lambda c: str(c.only_b)),
    ("p of wins", lambda c: p_text(c.p_value)),
    ("mean guesses", lambda c: f"{c.guesses_difference.mean:+.2f}"),
    ("  from", lambda c: f"{c.guesses_difference.low:+.2f}" if c.guesses_difference.has_width else MISSING),
    ("  to", lambda c: f"{c.guesses_difference.high:+.2f}" if c.guesses_difference.has_width else MISSING),
    ("p of guesses", lambda c: p_text(c.guesses_p_value)),
)


@dataclass(frozen=True)
class Results:
    """Figures of an evaluation; empty where there is nothing to show.

    Attributes:
        part: The secrets that were asked for: a part of the split, or the name of others.
        figures: By part of the secrets, `part` first.
        by_turns: By number of earlier turns on the board.
        rewards: By part of the secrets, if games were scored.
    """

    evaluation: Evaluation
    part: str
    figures: Mapping[str, Figures]
    by_turns: Mapping[str, Figures]
    rewards: Mapping[str, RewardFigures]
    english: English | None = None

    @classmethod
    def of(cls, evaluation: Evaluation, split: Split, part: str, english: English | None = None) -> Results:
        """Compute the figures of an evaluation of secrets called `part`."""
        turns, preset, groups = evaluation.rules.max_turns, evaluation.reward_preset, _by_part(evaluation, split, part)
        boards = {} if evaluation.conditions.boards is None else by_earlier_turns(evaluation.records)
        scored = {} if preset is None else {name: reward_figures(games, preset) for name, games in groups.items()}
        return cls(
            evaluation,
            part,
            {name: measure(games, turns) for name, games in groups.items()},
            {str(count): measure(games, turns) for count, games in boards.items()},
            {name: figures for name, figures in scored.items() if figures is not None},
            english,
        )

    def to_json(self) -> dict[str, Any]:
        """Return every figure as a JSON object: those of `part` at its top, those of all parts under `parts`."""
        shown = {part: asdict(found) for part, found in self.figures.items()}
        # Scripts read the figures of what was asked for at the top, however many parts it falls into.
        told: dict[str, Any] = shown.get(self.part, {})
        if len(shown) > 1 or not told:
            told = {**told, "parts": shown}
        for name, found in (("by_earlier_turns", self.by_turns), ("reward", self.rewards)):
            if found:
                told[name] = {key: asdict(figures) for key, figures in found.items()}
        if self.english is not None:
            told["english"] = asdict(self.english)
        about = {"player": self.evaluation.player, "split": self.part, "constrain": self.evaluation.constrain}
        return {**about, **told}

    def lines(self) -> Iterator[RenderableType]:
        """Yield tables and lines for a terminal."""
        label = self.evaluation.label
        yield figures_table(results_table({label: self.figures}), f"{label}{_unusual(self.evaluation)}")
        yield ""
        if self.by_turns:
            yield figures_table(results_table({label: self.by_turns}), "By earlier turns on the board: 0, 1, …")
            yield ""
        if self.rewards:
            yield reward_table(self.rewards)
            yield ""
        if self.english is not None:
            yield f"English: {self.english}"
        if line := power_line(self.figures):
            yield line


def _by_part(evaluation: Evaluation, split: Split, part: str) -> dict[str, Sequence[GameRecord]]:
    # All games first, unless some of every part were played: that would skew figures of all. Other secrets than those
    # of the split are grouped by what training knew of them.
    whole: dict[str, Sequence[GameRecord]] = {part: evaluation.records}
    if evaluation.parts == (part,):
        return whole
    if evaluation.parts:
        return {each: evaluation.only(split.named(each)).records for each in evaluation.parts}
    groups = marked(list(evaluation.secrets), split)
    return whole | {name: evaluation.only(words).records for name, words in groups.items()}


def _unusual(evaluation: Evaluation) -> str:
    # Rules and boards that differ from those of other tables, so that their figures are not compared.
    rules, usual = evaluation.rules, Rules()
    unusual = [f"{rules.dictionary} dictionary"] if rules.dictionary is not usual.dictionary else []
    unusual += ["hard mode"] if rules.hard_mode else []
    unusual += [f"{rules.max_turns} turns"] if rules.max_turns != usual.max_turns else []
    unusual += [f"boards with {evaluation.conditions.boards}"] if evaluation.conditions.boards else []
    return f", not the usual rules: {', '.join(unusual)}" if unusual else ""


def power_line(figures: Mapping[str, Figures]) -> str:
    """Return a line with the smallest difference that the largest part can show; '' for repeated secrets."""
    part = max(figures, key=lambda name: figures[name].num_games, default="")
    if not part:
        return ""
    rate, num_games = figures[part].win_rate, figures[part].num_games
    if rate is None or figures[part].pass_at:
        return ""
    # Towards one half, where wins vary most and a difference is harder to show.
    rise = smallest_difference(min(rate, 1 - rate), num_games)
    if rise is None:
        return f"{num_games:,} games of {part} show no difference at all; `wordle-rl power` counts how many do"
    return f"{num_games:,} games of {part} can show a difference of {100 * rise:.1f} points (5 %, power 80 %)"


@contextmanager
def game_progress(
    console: Console, title: str, total: int, kept: Iterable[GameRecord]
) -> Iterator[Callable[[GameRecord], None]]:
    """Show games played, wins, errors and remaining time; see `show_progress`."""
    before = list(kept)
    with show_progress(console, title, total, done=len(before), transient=True) as tell:
        yield game_counter(tell, total, before)


def game_counter(tell: ProgressCallback, total: int, kept: Iterable[GameRecord]) -> Callable[[GameRecord], None]:
    """Return a function to call with each finished game; it reports games (kept ones included), wins and errors."""
    before = list(kept)
    done, wins, errors = len(before), sum(record.won for record in before), 0

    def count(record: GameRecord) -> None:
        nonlocal done, wins, errors
        done, wins, errors = done + 1, wins + record.won, errors + record.failed
        tell(done, total, f"{wins:,} won, {errors:,} errors")

    return count


def _differing_games(names: Sequence[str], games: Sequence[SharedGame]) -> list[RenderableType]:
    def apart(game: SharedGame) -> int:
        used = [guesses or 99 for guesses in game.guesses]  # a loss is further from any win than two wins can be
        return max(used) - min(used)

    rows = sorted((game for game in games if apart(game)), key=lambda row: (-apart(row), row.secret, row.occurrence))
    if not rows:
        return []
    shown = [
        (row.secret, *("lost" if guesses is None else str(guesses) for guesses in row.guesses))
        for row in rows[:_MOST_ROWS]
    ]
    words = figures_table(results.Table(tuple(names), tuple(shown)), head="secret")
    return ["", Text(f"{len(rows)} games differ; the {len(shown)} that differ most:"), words]


_BAR = 24


def reward_table(rewards: Mapping[str, RewardFigures]) -> Table:
    """Tabulate rewards by part (mean, std, range, games below zero), with a histogram of the first part."""
    first = next(iter(rewards.values()))
    table = figures_table(_tabulated(rewards, _REWARD_ROWS), f"Reward {first.preset!r}")
    table.add_section()
    for (low, high), count in zip(pairwise(first.bin_edges), first.bin_counts, strict=True):
        bar = "█" * round(_BAR * count / max(first.bin_counts))
        table.add_row(f"{low:6.3f} to {high:6.3f}", Text(f"{bar} {count}"))
    return table


_REWARD_ROWS: tuple[tuple[str, Callable[[RewardFigures], str]], ...] = (
    ("games", lambda r: str(r.num_games)),
    ("mean", lambda r: number_text(r.mean)),
    ("standard deviation", lambda r: number_text(r.std)),
    ("lowest", lambda r: number_text(r.lowest)),
    ("highest", lambda r: number_text(r.highest)),
    ("below zero, %", lambda r: percent_text(r.below_zero)),
)


def verbose_lines(
    transcript: Transcript, words: WordList, prompter: Prompter, reward: RewardBreakdown, preset: str
) -> Iterator[str]:
    """Yield a game as plain lines: every prompt, completion, parsed guess, marks, feedback message and reward."""
    given = [played.turn.guess or "" for played in transcript.turns if played.is_prefix]
    env = WordleEnv(transcript.secret, words, prompter, given)
    yield from ("prompt:", *_messages(env.observation.messages))
    for number, played in enumerate(transcript.own_turns):
        # Played again from the replies, so what is shown is what the player saw, not what a record says of it.
        yield f"turn {number + 1}: completion: {played.reply}"
        yield f"  parsed guess: {_parsed(played.parsed)}"
        if env.stop_reason is None:
            observation = env.step(played.reply)
            yield f"  marks: {played.turn.marks or f'none ({played.turn.outcome.value})'}"
            if observation.messages:
                yield from ("  feedback message:", *_messages(observation.messages))
        yield f"  reward: {reward.turn_rewards[number]:.4f}"
        last = number + 1 == len(transcript.own_turns)
        yield f"  done: {f'yes, {transcript.stop_reason.value}' if last else 'no'}"
    yield f"reward of the game ({preset}): {reward.total:.4f}"


def _messages(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        first, *rest = message["content"].split("\n")
        yield f"    [{message['role']}] {first}"
        yield from (f"    {line}" for line in rest)


def _parsed(parsed: Guess | ParseFailure) -> str:
    return parsed.word if isinstance(parsed, Guess) else f"none ({parsed.reason.value})"
