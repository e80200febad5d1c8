"""Checkpoint selection by greedy validation cost; evaluations are greedy, too.

Played are the validation secrets and some training secrets, never the test secrets, so results on those stay unbiased.
Sampled play improves through most of training; greedy play declines if training lasts too long. Weights interpolated
between the start and the end of a training often have most of the gain and none of that loss, so such weights can be
candidates, too, or the only ones. Weights that play the validation secrets worse than the start are no candidates,
however well they play the training secrets.

A training whose greedy play falls below that of its start is found out while it runs: the games of each validation are
paired with those of the start, secret by secret (sign test).

Source: weights between a start and its fine-tuning, Wortsman et al. 2022, arXiv:2109.01903.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from wordle_rl.runs import CHOICE_FILE, Run, RunError, read_object, write_json
from wordle_rl.runs.distributed import is_first, wait_for_all
from wordle_rl.train.learner import WeightStore
from wordle_rl.train.validation import Validated

_RECORD = "record"
"""Name of the record in the metadata of the best weights: one file, so that they cannot part."""
_WEIGHTS_FILE = "best.safetensors"
_START_FILE = "start.safetensors"
_END_FILE = "end.safetensors"
_START_WINS_FILE = "start_wins.json"
_COSTS = ("greedy_cost", "cost")
"""Criteria by which weights are compared, in this order."""
_BOUND = "validation_cost"
"""Criterion in which no candidate may be worse than the start."""
_SIGNIFICANT = 0.01
"""Probability below which a fall under the start is shown; with a validation every few steps 0.05 would be chance."""


class BestWeights:
    """Validates before the first step, every `every_steps` steps and at the end, and then loads the best weights.

    Ties: lower sampled cost, then the later step. Only trainable weights are stored. The best so far are kept on disk,
    so that a resumed training knows them. A step's weights are validated after its checkpoint, if it has one, so that
    nothing is lost if the validation is interrupted.

    Args:
        weights: The weights in training.
        validate: Plays, given step, alpha and the number of the validation. Lower `greedy_cost` is better, then lower
            `cost`; `validation_cost` may not exceed that of the start; the other figures are only logged.
        every_steps: How often.
        run: Where the figures go, into metrics.jsonl under the stage `validation`, or `blend`.
        directory: Where the best weights are kept during training.
        alphas: Which weights are candidates at the end: start + alpha x (last step - start); the
            start is one in any case, and those of the steps only with 1 among them.
        remark: Called with a note on such a fall, and with an empty one at its end.
    """

    def __init__(
        self,
        weights: WeightStore,
        validate: Callable[[int, float, int], Validated],
        every_steps: int,
        run: Run,
        directory: Path,
        alphas: Sequence[float] = (1.0,),
        *,
        remark: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._weights, self._validate, self._every_steps = weights, validate, every_steps
        self._run, self._directory = run, directory
        self._between = sorted(alpha for alpha in alphas if alpha < 1)
        self._takes_steps = 1 in alphas
        self._last_validated: int | None = None
        self._remark = remark

    def begin(self) -> None:
        """Validate the initial weights."""
        if self._between and is_first():
            self._keep(_START_FILE)
        self._consider(0)

    def after(self, step: int) -> None:
        """Validate the weights of a step if it is time."""
        if step % self._every_steps == 0:
            self._consider(step)

    def take_best(self, last_step: int) -> int:
        """Load the best weights into the model, which has those of the last step, and return their step."""
        if self._last_validated != last_step:
            self._consider(last_step)
        self._blend(last_step)
        wait_for_all()
        best = self._best()
        assert best is not None  # the last step has been considered
        self._weights.load(self._directory / _WEIGHTS_FILE)
        if is_first():
            write_json(self._directory.parent / CHOICE_FILE, best)
        return int(best["step"])

    def forget(self) -> None:
        """Remove all stored weights, once the chosen ones are saved elsewhere."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def _blend(self, last_step: int) -> None:
        """Try weights between those of the start and those of the last step."""
        if not self._between:
            return
        wait_for_all()
        if is_first():
            self._keep(_END_FILE)
        wait_for_all()
        for alpha in self._between:
            self._weights.interpolate(self._directory / _START_FILE, self._directory / _END_FILE, alpha)
            self._consider(last_step, alpha)

    def _consider(self, step: int, alpha: float = 1.0) -> None:
        """Validate the current weights and keep them if they are the best."""
        found = self._validate(step, alpha, self._number(step, alpha))
        self._last_validated = step
        if not is_first():
            return
        p_below = self._p_below_start(step, found.won)
        percent = round(100 * alpha, 6)
        where = {"stage": "validation", "step": step} if alpha == 1 else {"stage": "blend", "step": percent}
        self._run.append("metrics.jsonl", {**where, **found.figures, "p_below_start": p_below})
        if alpha == 1:
            self._remark(f"greedy play is below its start (p = {p_below:.1g})" if p_below < _SIGNIFICANT else "")
        self._keep_if_best(step, alpha, found.figures)

    def _keep_if_best(self, step: int, alpha: float, figures: Mapping[str, float]) -> None:
        if step and alpha == 1 and not self._takes_steps:
            return
        costs = {name: figures[name] for name in _COSTS}
        bound = figures[_BOUND]
        best = self._best() if step else None
        if best is not None:
            bound = best[_BOUND]
            if figures[_BOUND] > bound or [best[name] for name in _COSTS] < list(costs.values()):
                return
        self._keep(_WEIGHTS_FILE, {"step": step, "alpha": alpha, **costs, _BOUND: bound})

    def _p_below_start(self, step: int, won: Sequence[bool]) -> float:
        """Probability of at least as many losses among the games that one of them lost, if both played alike."""
        path = self._directory / _START_WINS_FILE
        if step == 0 or not path.is_file():
            self._directory.mkdir(parents=True, exist_ok=True)
            write_json(path, {"won": list(won)})
            return 1.0
        start = read_object(path)["won"]
        only_start = sum(a and not b for a, b in zip(start, won, strict=True))
        only_now = sum(b and not a for a, b in zip(start, won, strict=True))
        differing = only_start + only_now
        tail: int = sum(math.comb(differing, won) for won in range(only_now + 1))
        return float(tail / 2**differing)

    def _number(self, step: int, alpha: float) -> int:
        """Number of a validation, the same in a resumed training: the start, every few steps, the end, blends."""
        of_step = -(-step // self._every_steps)
        return of_step if alpha == 1 else of_step + 1 + self._between.index(alpha)

    def _best(self) -> dict[str, Any] | None:
        """The record of the best weights so far; None if there are none."""
        path = self._directory / _WEIGHTS_FILE
        if not path.is_file():
            return None
        with safe_open(path, "pt") as weights:
            record: dict[str, Any] = json.loads(weights.metadata()[_RECORD])
        return record

    def _keep(self, name: str, record: Mapping[str, Any] | None = None) -> None:
        """Write the current trainable weights to a file, with their record, which is replaced at once.

        Raises:
            RunError: If it cannot be written.
        """
        partial = self._directory / f".{name}.partial"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._weights.save(partial, {} if record is None else {_RECORD: json.dumps(record)})
            partial.replace(self._directory / name)
        except (OSError, SafetensorError) as error:
            partial.unlink(missing_ok=True)
            raise RunError(f"cannot write {self._directory / name}: {error}; free space and run again") from error
