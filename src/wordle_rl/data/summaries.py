"""Figures of teachers: games, wins and guesses, by secret and overall."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from wordle_rl.data.game_record import GameRecord


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of a teacher on one secret, or on all (`secret` is then empty).

    `num_games` counts finished games. `num_errors` counts games that failed and were never finished; they are not
    losses. `num_broken_turns` counts turns of finished games that broke the rules.
    """

    secret: str
    num_games: int
    num_wins: int
    mean_guesses_on_wins: float | None
    teacher: str = "solver"
    num_errors: int = 0
    num_broken_turns: int = 0

    @property
    def win_rate(self) -> float:
        """Fraction of finished games won, 0 to 1; 0 without any."""
        return self.num_wins / self.num_games if self.num_games else 0.0


def summarise(traces: Iterable[GameRecord]) -> list[Summary]:
    """Count games, wins and guesses per secret and teacher, hardest first."""
    return sorted(
        _summaries(traces, lambda trace: (trace.secret, trace.teacher)),
        key=lambda row: (row.win_rate, -(row.mean_guesses_on_wins or 0.0), row.secret, row.teacher),
    )


def summarise_teachers(traces: Iterable[GameRecord]) -> list[Summary]:
    """Count games, wins and guesses per teacher, sorted by name."""
    return sorted(_summaries(traces, lambda trace: ("", trace.teacher)), key=lambda row: row.teacher)


def _summaries(traces: Iterable[GameRecord], key: Callable[[GameRecord], tuple[str, str]]) -> Iterator[Summary]:
    guesses: dict[tuple[str, str], list[int]] = defaultdict(list)
    games: Counter[tuple[str, str]] = Counter()
    broken: Counter[tuple[str, str]] = Counter()
    finished: set[tuple[str, int, str]] = set()
    failed: dict[tuple[str, int, str], tuple[str, str]] = {}
    for trace in traces:
        group = key(trace)
        if trace.error is not None:
            failed[trace.key] = group
            continue
        finished.add(trace.key)
        games[group] += 1
        broken[group] += sum(turn.outcome.broke_rules for turn in trace.turns)
        if trace.won:
            guesses[group].append(trace.turns_used)
    errors = Counter(group for game, group in failed.items() if game not in finished)
    for group in dict.fromkeys([*games, *errors]):
        won = guesses[group]
        mean = sum(won) / len(won) if won else None
        yield Summary(group[0], games[group], len(won), mean, group[1], errors[group], broken[group])
