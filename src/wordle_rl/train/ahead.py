"""Play one step ahead: a server plays the games of step t + 1 while the learner trains on those of step t.

    step t     send weights | play games t + 1 (thread, server) ............ |
                            | learn from games t (this process) ... | wait  |

The games come from weights one step old. Ratios therefore differ from 1 and the clip range matters
(`PolicyLoss.off_policy`). A step takes as long as the slower of the two sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from wordle_rl.train.groups import GroupRollouts, OpenPolicy, Played

if TYPE_CHECKING:
    from wordle_rl.train.vllm import Engine


class PlayedAhead:
    """Wrap `GroupRollouts` so that it plays one step ahead.

    Args:
        rollouts: Plays the games of a step.
        engine: The engine that plays while this process trains.
        num_steps: Number of training steps; no games are played for later ones.

    Raises:
        ValueError: If `engine` is None.
    """

    def __init__(self, rollouts: GroupRollouts, engine: Engine | None, num_steps: int) -> None:
        if engine is None:
            raise ValueError("batches_ahead needs an engine; pass one to train_grpo, or set batches_ahead to 0")
        self._rollouts, self._engine, self._num_steps = rollouts, engine, num_steps
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="games")
        self._next: Future[Played] | None = None
        self._state: Mapping[str, Any] | None = None
        self._compliance: float | None = None  # of the last step; not yet applied to the games under way

    def __call__(self, step: int, _open_policy: OpenPolicy) -> Played:
        """Return the games of a step and start those of the next one with the learner's current weights."""
        if self._next is None:
            self._begin(step)
        assert self._next is not None
        played, self._next = self._next.result(), None
        if self._compliance is not None:
            self._rollouts.note_compliance(self._compliance)
            self._compliance = None
        # Take the state before the next games begin: after a resume those are played again.
        self._state = self._rollouts.state()
        if step + 1 < self._num_steps:
            self._begin(step + 1)
        return played

    def _begin(self, step: int) -> None:
        # Send from the main thread. Sending is collective, and threads of different processes could interleave.
        self._engine.send_weights()
        self._next = self._pool.submit(self._rollouts, step, self._engine.sampler)

    def wait(self) -> None:
        """Wait until no games are under way, so that the engine can take other weights."""
        if self._next is not None:
            self._next.exception()  # waits; the next call raises the error, if there is one

    def note_compliance(self, format_compliance: float) -> None:
        """Hold back the format compliance of a step while games are under way, so that they share one reward."""
        self._compliance = format_compliance

    def state(self) -> Mapping[str, Any]:
        """Return the state before the games ahead, with the compliance that is held back."""
        state = self._state if self._state is not None else self._rollouts.state()
        return {**state, "held_compliance": self._compliance}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self._rollouts.load_state(state)
        self._compliance = state.get("held_compliance")

    def close(self) -> None:
        """Wait for the games under way and stop playing."""
        self._pool.shutdown(wait=True)
