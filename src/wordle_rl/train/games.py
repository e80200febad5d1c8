"""The games of a training: what they are played with, what they earned, and what is logged of them."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from wordle_rl.config import StartSettings
from wordle_rl.config.context import GameContext
from wordle_rl.data.game_record import GameRecord
from wordle_rl.game import Turn
from wordle_rl.prompt import Prompter
from wordle_rl.reward import RewardBreakdown, format_compliance
from wordle_rl.rollout import InitialState, Trajectory
from wordle_rl.runs import BY_TURN, RunError
from wordle_rl.solver import Solver
from wordle_rl.train.advantages import TurnValues
from wordle_rl.train.prefix_guesses import PrefixGuesses
from wordle_rl.words import WordList


@dataclass(frozen=True)
class GameSetup:
    """Context and secrets of a training's games.

    `secrets` are trained on. Weights are chosen by play on `validation` and on some of `secrets` and `rehearsal`; the
    latter are training secrets of SFT that this training leaves out. `starts_fraction` of the groups start from one of
    `given_starts`, if there are any.
    """

    context: GameContext
    secrets: Sequence[str]
    validation: Sequence[str] = ()
    rehearsal: Sequence[str] = ()
    given_starts: Sequence[InitialState] = ()
    starts_fraction: float = 0.0

    def prefixes_of(self, settings: StartSettings) -> PrefixGuesses:
        """Draws the prefix guesses of groups."""
        hard_mode = self.prompter.rules.hard_mode
        return PrefixGuesses(self.words, self.solver, settings, hard_mode=hard_mode)

    @property
    def words(self) -> WordList:
        """The word list."""
        return self.context.words

    @property
    def prompter(self) -> Prompter:
        """Wording and rules."""
        return self.context.prompter

    @property
    def solver(self) -> Solver:
        """The solver of the word list."""
        return self.context.solver


@dataclass(frozen=True, slots=True)
class Scored:
    """A game with its reward and the advantage of each of its own turns.

    From own turn `num_live_turns` on nothing is trained on, as no answer is possible any more; None: all turns are.
    """

    trajectory: Trajectory
    reward: RewardBreakdown
    advantages: TurnValues
    num_live_turns: int | None = None


@dataclass(frozen=True, slots=True)
class Board:
    """A prompt a game reached: its token ids, the turns played, and the game's secret."""

    prompt_ids: tuple[int, ...]
    turns: tuple[Turn, ...]
    secret: str


@dataclass(frozen=True, slots=True)
class Measured:
    """Metrics of some games.

    Attributes:
        means: By name.
        denominators: For each mean that is not over all games, how many games or replies it is over.
        num_wins: Games won.
    """

    means: dict[str, float]
    denominators: dict[str, int]
    num_wins: int


def check_some_played(games: Sequence[Scored], failed: Sequence[str], step: str) -> dict[str, float]:
    """Number of failed games to log: those whose player could not be asked to the end, which are no samples.

    They have no reward, and no group is compared with them.

    Args:
        games: Those that were played.
        failed: For each of the others the reason.
        step: Name of the step, for the message.

    Returns:
        `failed_games`, if there are any.

    Raises:
        RunError: If no game could be played.
    """
    if not games:
        why = f": {failed[0]}" if failed else ""
        raise RunError(
            f"no game of {step} could be played{why}; mend what plays them and run again, which resumes from there"
        )
    return {"failed_games": float(len(failed))} if failed else {}


def measured(games: Sequence[Scored], words: WordList) -> Measured:
    """Metrics of games; a word outside the answers counts neither as won nor as lost."""
    transcripts = [game.trajectory.transcript for game in games]
    winnable = [transcript for transcript in transcripts if transcript.secret in words.answer_index]
    wins = [transcript.turns_used for transcript in winnable if transcript.won]
    components: Counter[str] = Counter()
    for game in games:
        components.update(game.reward.values)
    means = {f"reward/{name}": total / len(games) for name, total in components.items()}
    means["format_compliance"] = format_compliance(transcripts)
    if winnable:
        means["win_rate"] = len(wins) / len(winnable)
        means |= _by_turn(wins, len(winnable), transcripts[0].rules.max_turns)
    if wins:
        means["mean_guesses"] = statistics.fmean(wins)
    replies = [turn for transcript in transcripts for turn in transcript.own_turns]
    tokens = [
        stop - start for game in games for segment in game.trajectory.segments for _, start, stop in segment.spans
    ]
    denominators = {name: len(winnable) for name in means if name.startswith("win_rate")}
    denominators |= {"mean_guesses": len(wins), "format_compliance": len(replies)}
    if replies and tokens:
        means["overlong_share"] = statistics.fmean(turn.overlong for turn in replies)
        means["reply_tokens"] = statistics.fmean(tokens)
        denominators |= {"overlong_share": len(replies), "reply_tokens": len(tokens)}
    return Measured(means, denominators, len(wins))


def _by_turn(wins: Sequence[int], num_games: int, max_turns: int) -> dict[str, float]:
    """Fraction of games won by each turn; those with more guesses, where some are free, count as won by the last.

    Examples:
        >>> _by_turn([1, 3], 4, 3)
        {'win_rate_by_turn/1': 0.25, 'win_rate_by_turn/2': 0.25, 'win_rate_by_turn/3': 0.5}
    """
    turns = [min(used, max_turns) for used in wins]
    return {f"{BY_TURN}{turn}": sum(used <= turn for used in turns) / num_games for turn in range(1, max_turns + 1)}


def group_rows(group: int, games: Sequence[Scored]) -> list[dict[str, Any]]:
    """The scored games of a group as games.jsonl holds them.

    Args:
        group: Number of the group within its step.
        games: All games of the group, in order. A game without advantages has none in its row.
    """
    rows = []
    for number, game in enumerate(games):
        row = GameRecord.of(game.trajectory.transcript, game.reward, game.advantages).to_row()
        rows.append({"group": group, "game": number, "group_size": len(games), **row})
    return rows


def boards_of(game: Scored) -> Iterator[tuple[Board, tuple[int, ...], bool]]:
    """Every board a game reached, with the reply it gave there and whether that was sound.

    A sound reply is whole, and its guess is one that the rules allow.
    """
    transcript = game.trajectory.transcript
    turns = tuple(played.turn for played in transcript.turns)
    num_given = len(turns) - len(transcript.own_turns)
    for segment in game.trajectory.segments:
        for own, start, stop in segment.spans:
            played = transcript.own_turns[own]
            prompt_ids = segment.prompt_ids + segment.token_ids[:start]
            board = Board(prompt_ids, turns[: num_given + own], transcript.secret)
            yield board, segment.token_ids[start:stop], not (played.overlong or played.turn.outcome.broke_rules)
