"""The rubric tree, which shows the components of the rewards per turn."""

from __future__ import annotations

from typing import Any

from openenv.core.rubrics import Rubric as OpenEnvRubric

from wordle_rl.reward import Component, Rubric, TurnRewards


class ComponentRubric(OpenEnvRubric):
    """A leaf of the tree: the value of a component so far, scaled by its range to 0 to 1."""

    def __init__(self, component: Component) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # openenv's
        ranges = (component.loss_range, component.win_range)
        self._low, self._high = min(low for low, _ in ranges), max(high for _, high in ranges)
        self.value = 0.0

    def forward(self, action: Any, observation: Any) -> float:
        """Return the scaled value."""
        return min(1.0, max(0.0, (self.value - self._low) / (self._high - self._low)))


class GameRubric(OpenEnvRubric):
    """The tree: a leaf for each component; its own score is the reward of the last turn."""

    def __init__(self, rubric: Rubric, rewards: TurnRewards) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # openenv's
        self.weights = rubric.effective_weights
        self._rewards = rewards
        self._leaves = {name: ComponentRubric(component) for name, component in rubric.components.items()}
        for name, leaf in self._leaves.items():
            setattr(self, name, leaf)

    def forward(self, action: Any, observation: Any) -> float:
        """Score every leaf and return the reward of the turn."""
        for name, value in self._rewards.breakdown().values.items():
            leaf = self._leaves[name]
            leaf.value = value
            leaf(action, observation)
        return float(observation.reward)
