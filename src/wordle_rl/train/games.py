"""Games in training: what they are played with, what they earned, and their metrics."""

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
    """Context and secrets of the games of a training.

    Attributes:
        context: Words, split, prompts and solver.
        secrets: The secrets to train on.
        validation: Secrets that checkpoint selection plays, with some of `secrets` and `rehearsal`.
        rehearsal: Training secrets of SFT that this training does not use.
        given_starts: Initial states from a file.
        starts_fraction: Fraction of groups that start from one of them.
    """

    context: GameContext
    secrets: Sequence[str]
    validation: Sequence[str] = ()
    rehearsal: Sequence[str] = ()
    given_starts: Sequence[InitialState] = ()
    starts_fraction: float = 0.0

    def prefixes_of(self, settings: StartSettings) -> PrefixGuesses:
        """Return the function that draws the prefix guesses of groups."""
        return PrefixGuesses(self.words, self.solver, settings, hard_mode=self.prompter.rules.hard_mode)

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
    """A game with its reward, and the advantage of each of its own turns.

    Turns from `num_live_turns` on are not trained on, because no answer fits the board any more. None: train on all.
    """

    trajectory: Trajectory
    reward: RewardBreakdown
    advantages: TurnValues
    num_live_turns: int | None = None


@dataclass(frozen=True, slots=True)
class Board:
    """A prompt that a game reached: its token ids, the turns so far, and the game's secret."""

    prompt_ids: tuple[int, ...]
    turns: tuple[Turn, ...]
    secret: str


@dataclass(frozen=True, slots=True)
class Measured:
    """Metrics of some games.

    Attributes:
        means: Means by name.
        denominators: Number of games or replies that a mean is over, for each mean that is not over all games.
        num_wins: Number of games won.
    """

    means: dict[str, float]
    denominators: dict[str, int]
    num_wins: int


def check_some_played(games: Sequence[Scored], failed: Sequence[str], step: str) -> dict[str, float]:
    """Count games dropped because sampling failed (endpoint error, timeout).

    Args:
        games: The games that were played.
        failed: The reason for each game that failed.
        step: Name of the step, for the message.

    Returns:
        `failed_games`, if there are any; otherwise nothing.

    Raises:
        RunError: If no game could be played.
    """
    if not games:
        why = f": {failed[0]}" if failed else ""
        raise RunError(f"no game of {step} could be played{why}; fix the sampler and run again to resume from there")
    return {"failed_games": float(len(failed))} if failed else {}


def measured(games: Sequence[Scored], words: WordList) -> Measured:
    """Compute the metrics of games."""
    transcripts = [game.trajectory.transcript for game in games]
    # A secret outside the answers cannot be won by reasoning, so it counts neither as a win nor as a loss.
    winnable = [transcript for transcript in transcripts if transcript.secret in words.answer_index]
    wins = [transcript.turns_used for transcript in winnable if transcript.won]
    components: Counter[str] = Counter()
    for game in games:
        components.update(game.reward.values)
    means = {f"reward/{name}": total / len(games) for name, total in components.items()}
    means["format_compliance"] = format_compliance(transcripts)
    if winnable:
        means["win_rate"] = len(wins) / len(winnable)
        # Rules with free refusals allow more guesses than turns; such a win counts as one by the last turn.
        max_turns = transcripts[0].rules.max_turns
        turns = [min(used, max_turns) for used in wins]
        means |= {
            f"{BY_TURN}{turn}": sum(used <= turn for used in turns) / len(winnable) for turn in range(1, max_turns + 1)
        }
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


def group_rows(group: int, games: Sequence[Scored]) -> list[dict[str, Any]]:
    """Convert the scored games of a group to rows of games.jsonl; `group` is its number within the step."""
    rows = []
    for number, game in enumerate(games):
        row = GameRecord.of(game.trajectory.transcript, game.reward, game.advantages).to_row()
        rows.append({"group": group, "game": number, "group_size": len(games), **row})
    return rows


def boards_of(game: Scored) -> Iterator[tuple[Board, tuple[int, ...], bool]]:
    """Yield every board of a game with the reply given there, as token ids, and whether that reply is sound.

    A sound reply is complete, and the rules allow its guess.
    """
    transcript = game.trajectory.transcript
    turns = tuple(played.turn for played in transcript.turns)
    num_given = len(turns) - len(transcript.own_turns)
    for segment in game.trajectory.segments:
        for own, start, stop in segment.spans:
            played = transcript.own_turns[own]
            prompt_ids = segment.prompt_ids + segment.token_ids[:start]  # what the sampler saw, token for token
            board = Board(prompt_ids, turns[: num_given + own], transcript.secret)
            yield board, segment.token_ids[start:stop], not (played.overlong or played.turn.outcome.broke_rules)
