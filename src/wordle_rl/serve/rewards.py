"""The rubric tree that shows what rewards per turn are made of."""

from __future__ import annotations

from typing import Any

from openenv.core.rubrics import Rubric as OpenEnvRubric

from wordle_rl.reward import Component, Rubric, TurnRewards


class ComponentRubric(OpenEnvRubric):
    """A leaf of the tree: one component's value so far, from 0, the lowest it can have, to 1, the highest."""

    def __init__(self, component: Component) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # openenv's
        ranges = (component.loss_range, component.win_range)
        self._low, self._high = min(low for low, _ in ranges), max(high for _, high in ranges)
        self.value = 0.0

    def forward(self, action: Any, observation: Any) -> float:
        """The component's value by its range, 0 to 1."""
        return min(1.0, max(0.0, (self.value - self._low) / (self._high - self._low)))


class GameRubric(OpenEnvRubric):
    """The tree: a leaf for each component, and as its own score the reward of the last turn.

    Args:
        rubric: Components and weights.
        rewards: Judge of the game.
    """

    def __init__(self, rubric: Rubric, rewards: TurnRewards) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # openenv's
        self.weights = rubric.effective_weights
        self._rewards = rewards
        self._leaves = {name: ComponentRubric(component) for name, component in rubric.components.items()}
        for name, leaf in self._leaves.items():
            setattr(self, name, leaf)

    def forward(self, action: Any, observation: Any) -> float:
        """The reward of the turn that `observation` answers; scores every leaf."""
        for name, value in self._rewards.breakdown().values.items():
            leaf = self._leaves[name]
            leaf.value = value
            leaf(action, observation)
        return float(observation.reward)
