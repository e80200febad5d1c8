"""Boards, results and comparisons for the terminal, as rich renderables.

Every board also spells its marks, so that a log file or a screen without colours shows the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.env import Transcript, WordleEnv
from wordle_rl.evaluate import figures
from wordle_rl.evaluate.compare import Comparison, MultiComparison, SharedGame
from wordle_rl.evaluate.figures import MISSING, RewardFigures, number_text, percent_text, results_table
from wordle_rl.evaluate.stats import p_text
from wordle_rl.game import Outcome, Turn
from wordle_rl.preflight.memory import MemoryEstimate
from wordle_rl.prompt import Guess, Message, ParseFailure, Prompter
from wordle_rl.reward import RewardBreakdown
from wordle_rl.runs.progress import ProgressCallback, show_progress
from wordle_rl.words import WordList

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


def figures_table(found: figures.Table, title: str | None = None) -> Table:
    """Draw a table of figures."""
    table = _plain_table(title)
    table.add_column("", no_wrap=True)
    for column in found.columns:
        table.add_column(Text(column), justify="right", no_wrap=True)
    for label, *cells in found.rows:
        table.add_row(Text(label), *cells)
    return table


def _plain_table(title: str | None = None) -> Table:
    """Make an empty table without lines between its columns."""
    text = Text(title) if title else None
    # As narrow as can be: four parts of the secrets fit into 80 columns, beside the longest name of a player.
    return Table(title=text, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), show_edge=False)


def memory_table(memory: Mapping[str, MemoryEstimate]) -> Table:
    """Tabulate the memory of each training stage in GiB: a column per stage, a row per component."""
    table = _plain_table()
    table.add_column("GiB", no_wrap=True)
    for stage in memory:
        table.add_column(stage, justify="right")
    for label, show in _MEMORY_ROWS:
        sizes = [show(needed) / 1024**3 for needed in memory.values()]
        if any(sizes):
            table.add_row(label, *(f"{size:.2f}" if size >= 0.1 else f"{size:.4f}" for size in sizes))
    return table


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
    pairs = [run.against_base for run in found.runs if run.against_base is not None]
    tests = _plain_table(f"each against {found.runs[0].name}: differences with 95 % intervals")
    tests.add_column("", no_wrap=True)
    for pair in pairs:
        tests.add_column(Text(pair.name_b), justify="right")
    for label, show in _COMPARED_ROWS:
        tests.add_row(label, *map(show, pairs))
    used = " or ".join(sorted({pair.wins_test for pair in pairs}))
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
    words = _plain_table()
    words.add_column("secret")
    for name in names:
        words.add_column(Text(name), justify="right")
    for row in rows[:_MOST_ROWS]:
        words.add_row(row.secret, *("lost" if guesses is None else str(guesses) for guesses in row.guesses))
    return ["", Text(f"{len(rows)} games differ; the {min(_MOST_ROWS, len(rows))} that differ most:"), words]


_BAR = 24


def reward_table(rewards: Mapping[str, RewardFigures]) -> Table:
    """Tabulate rewards by part (mean, std, range, games below zero), with a histogram of the first part."""
    first = next(iter(rewards.values()))
    table = _plain_table(f"Reward {first.preset!r}")
    table.add_column("", no_wrap=True)
    for part in rewards:
        table.add_column(Text(part), justify="right", no_wrap=True)
    for label, show in _REWARD_ROWS:
        table.add_row(label, *map(show, rewards.values()))
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
