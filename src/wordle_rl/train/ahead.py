"""Playing ahead: a server plays the games of the next step while the learner learns from those of this one.

    step t     send weights | play games t + 1 (thread, server) ............ |
                            | learn from games t (this process) ... | wait  |

Games are then played with weights one step old, so their ratios are not 1 and the clip range counts
(`PolicyLoss.off_policy`). Neither side waits for the other longer than the slower one takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from wordle_rl.train.groups import GroupRollouts, OpenPolicy, Played

if TYPE_CHECKING:
    from wordle_rl.train.vllm import Engine


class PlayedAhead:
    """The rollouts of a training, one step ahead.

    Args:
        rollouts: Plays the games of a step.
        engine: Plays while this process computes.
        num_steps: Steps of the training; nothing is played beyond.
    """

    def __init__(self, rollouts: GroupRollouts, engine: Engine | None, num_steps: int) -> None:
        if engine is None:
            raise ValueError("an engine of its own plays ahead; give train_grpo one, or set batches_ahead to 0")
        self._rollouts, self._engine, self._num_steps = rollouts, engine, num_steps
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="games")
        self._next: Future[Played] | None = None
        self._state: Mapping[str, Any] | None = None
        self._compliance: float | None = None  # of the last step, which the games under way do not know of

    def __call__(self, step: int, _open_policy: OpenPolicy) -> Played:
        """The games of a step; those of the next one are then under way, with the weights that the learner has now."""
        if self._next is None:
            self._begin(step)
        assert self._next is not None
        played, self._next = self._next.result(), None
        if self._compliance is not None:
            self._rollouts.note_compliance(self._compliance)
            self._compliance = None
        # What a checkpoint of this step stores: a resumed training plays the games ahead again.
        self._state = self._rollouts.state()
        if step + 1 < self._num_steps:
            self._begin(step + 1)
        return played

    def _begin(self, step: int) -> None:
        self._engine.send_weights()  # here: processes send together, and threads would be out of step
        self._next = self._pool.submit(self._rollouts, step, self._engine.sampler)

    def wait(self) -> None:
        """Return once no games are under way, so that the engine may get other weights."""
        if self._next is not None:
            self._next.exception()  # which whoever takes the games will see

    def note_compliance(self, format_compliance: float) -> None:
        """Hold the format compliance of a step until its successor's games are over, so that all have one reward."""
        self._compliance = format_compliance

    def state(self) -> Mapping[str, Any]:
        """State of the rollouts before the games ahead, and the compliance that they do not know of."""
        state = self._state if self._state is not None else self._rollouts.state()
        return {**state, "held_compliance": self._compliance}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state."""
        self._rollouts.load_state(state)
        self._compliance = state.get("held_compliance")

    def close(self) -> None:
        """Wait for the games under way, and play no more."""
        self._pool.shutdown(wait=True)
