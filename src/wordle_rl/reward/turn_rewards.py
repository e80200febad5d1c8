"""Rewards per turn whose sum is the game's reward, for servers and trainers that pay while a game runs."""

from __future__ import annotations

from wordle_rl.env import StopReason, Transcript, WordleEnv
from wordle_rl.reward.rubric import RewardBreakdown, Rubric
from wordle_rl.solver import Solver

TERMINAL_COMPONENTS = frozenset({"win", "speed"})
"""Components that pay nothing before the end."""


class TurnRewards:
    """Rewards of one game, turn by turn.

    The value of the game after each turn is what the rubric would give it had it ended there, unsolved; a turn earns
    the change. Shares that are final at once (costs, the latest guess, the first broken rule) are thereby paid at once,
    means are paid as they stand and corrected by later turns, and what only the end knows is paid by the last turn. So
    the rewards add up to the rubric's reward of the finished game, whatever the weights.

    Args:
        rubric: Components and weights.
        solver: Of the word list of the game.
        secret: Of the game. Known to the judge alone.
        env: The game, no turn of which was played yet.
    """

    def __init__(self, rubric: Rubric, solver: Solver, secret: str, env: WordleEnv) -> None:
        self._rubric, self._solver, self._secret, self._env = rubric, solver, secret, env
        self._pays_at_end = {name for name, weight in rubric.effective_weights.items() if weight} <= TERMINAL_COMPONENTS
        self._num_judged = len(env.played)
        self._worth = 0.0
        self._breakdown: tuple[int, StopReason, RewardBreakdown] | None = None

    def next(self) -> float:
        """The reward of the turn just played.

        Raises:
            ValueError: If there is not exactly one new turn.
        """
        num_played = len(self._env.turns)
        if num_played != self._num_judged + 1:
            raise ValueError(f"{num_played} turns are played and {self._num_judged} judged; judge after every turn")
        self._num_judged = num_played
        if self._pays_at_end and self._env.stop_reason is None:
            return 0.0
        return self._change()

    def rest(self) -> float:
        """The rest of the reward, perhaps negative, of a game that was truncated after its last turn was judged.

        Raises:
            ValueError: If the game is still running.
            RewardError: If no turn was played.
        """
        if self._env.stop_reason is None:
            raise ValueError("the game is still running; the rest is paid when it is over")
        return self._change()

    def breakdown(self) -> RewardBreakdown:
        """The reward of the game so far and what it is made of, had the game ended here.

        Raises:
            RewardError: If no turn was played yet.
        """
        played, stopped = self._env.played, self._env.stop_reason or StopReason.OUT_OF_TURNS
        if self._breakdown is None or self._breakdown[:2] != (len(played), stopped):
            transcript = Transcript(self._secret, self._env.prompter.rules, played, stopped)
            self._breakdown = len(played), stopped, self._rubric.score(transcript, self._solver)
        return self._breakdown[2]

    def _change(self) -> float:
        before, self._worth = self._worth, self.breakdown().total
        return self._worth - before
