"""Rewards per turn that sum to the reward of the game, for servers and trainers that pay while a game runs."""

from __future__ import annotations

from wordle_rl.env import StopReason, Transcript, WordleEnv
from wordle_rl.reward.rubric import RewardBreakdown, Rubric
from wordle_rl.solver import Solver

TERMINAL_COMPONENTS = frozenset({"win", "speed"})
"""Components that pay nothing before the end."""


class TurnRewards:
    """Rewards of a game, turn by turn.

    After each turn, the game has the value that the rubric would give it if it ended there unsolved. A turn earns the
    change. So final shares (costs, the latest guess, the first broken rule) are paid at once, means are paid as they
    stand and corrected later, and the last turn pays what only the end reveals. The sum is always the rubric's reward
    of the finished game.
    """

    def __init__(self, rubric: Rubric, solver: Solver, secret: str, env: WordleEnv) -> None:
        self._rubric, self._solver, self._secret, self._env = rubric, solver, secret, env
        self._pays_at_end = {name for name, weight in rubric.effective_weights.items() if weight} <= TERMINAL_COMPONENTS
        self._num_judged = len(env.played)
        self._worth = 0.0
        self._breakdown: tuple[int, StopReason, RewardBreakdown] | None = None

    def next(self) -> float:
        """Return the reward of the turn just played."""
        num_played = len(self._env.turns)
        if num_played != self._num_judged + 1:
            raise ValueError(f"{num_played} turns were played but {self._num_judged} judged; judge after every turn")
        self._num_judged = num_played
        if self._pays_at_end and self._env.stop_reason is None:
            return 0.0
        return self._change()

    def rest(self) -> float:
        """Return the rest of the reward, perhaps negative, of a game that was truncated after its last judged turn."""
        if self._env.stop_reason is None:
            raise ValueError("the game is still running; the rest is paid when it is over")
        return self._change()

    def breakdown(self) -> RewardBreakdown:
        """Return the reward and its components as if the game ended here."""
        played, stopped = self._env.played, self._env.stop_reason or StopReason.OUT_OF_TURNS
        if self._breakdown is None or self._breakdown[:2] != (len(played), stopped):
            transcript = Transcript(self._secret, self._env.prompter.rules, played, stopped)
            self._breakdown = len(played), stopped, self._rubric.score(transcript, self._solver)
        return self._breakdown[2]

    def _change(self) -> float:
        before, self._worth = self._worth, self.breakdown().total
        return self._worth - before
