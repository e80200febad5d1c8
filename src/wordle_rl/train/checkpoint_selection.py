"""Checkpoint selection by greedy validation cost, since evaluations are greedy.

Validation plays the validation secrets and some training secrets. It never plays test secrets, so results on those stay
unbiased. Sampled play improves through most of a training, but greedy play gets worse if training lasts too long.
Weights interpolated between start and end often keep most of the gain without that loss, so they can be candidates too,
or the only ones. Weights that play the validation secrets worse than the start are never candidates, however well they
play the training secrets.

While a training runs, its greedy play is compared with that of the start, secret by secret (sign test), and a warning
appears if it has become worse.

Source: interpolating between initial and fine-tuned weights, Wortsman et al. 2022, arXiv:2109.01903.
"""

from __future__ import annotations

import math
import random
import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError

from wordle_rl.boards import InitialState
from wordle_rl.config.base import ConfigError
from wordle_rl.config.stages import GRPOSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.data.game_record import GameRecord
from wordle_rl.env import Transcript
from wordle_rl.evaluate.asked import Asked, PlayerSpec
from wordle_rl.evaluate.play import evaluate
from wordle_rl.reward import RewardBreakdown, with_candidates
from wordle_rl.rollout import Trajectory
from wordle_rl.runs import CHOICE_FILE, RunError, cannot_write, write_json
from wordle_rl.runs.checksums import check_marks, marks_of, read_record, write_record
from wordle_rl.runs.distributed import is_first, wait_for_all
from wordle_rl.solver import turn_regret
from wordle_rl.train.play_loop import OpenPolicy, Stage

_TRAIN_PER_VALIDATION = 4
_GAMES_PER_SECRET = 4
"""Sampled games per validation secret; one alone would be mostly luck."""


class Validated(NamedTuple):
    """Results of a validation.

    A cost is the mean number of guesses, with a loss as one more than the game allows: `cost` of sampled play on
    validation secrets, `validation_cost` of greedy play on them, `greedy_cost` of greedy play on validation and
    training secrets.
    """

    figures: Mapping[str, float]
    won: tuple[bool, ...]
    """Whether greedy play won, for each validation and training secret."""


class Validation:
    """Play the validation secrets with the current weights: greedily, and sampled as in training.

    Training secrets are played greedily as well: four for each validation secret, always the same ones.

    Sample games of greedy play, on other secrets at every validation, are logged with their reward by `reward_of`.
    """

    def __init__(
        self,
        stage: Stage,
        settings: GRPOSettings,
        open_policy: OpenPolicy,
        reward_of: Callable[[Transcript, int], RewardBreakdown],
    ) -> None:
        setup = stage.setup
        if not setup.validation:
            raise ConfigError("there are no validation secrets to select checkpoints by; set validate_every_steps to 0")
        self._stage, self._setup, self._open_policy = stage, setup, open_policy
        self._sampling = setup.sampling_at(settings.temperature)
        self._sample_games, self._reward_of = settings.sample_games, reward_of
        known = [*setup.rehearsal, *setup.secrets]
        count = min(len(known), _TRAIN_PER_VALIDATION * len(setup.validation))
        self._train = random.Random(0).sample(known, count)
        self._shown = random.Random(0).sample(range(len(setup.validation)), len(setup.validation))

    def __call__(self, step: int, alpha: float = 1.0, number: int = 0) -> Validated:
        """Play every validation game. `number` rotates which games are logged; `step` and `alpha` label the weights."""
        everything = self._play([*self._setup.validation, *self._train], self._sampling.greedy())
        greedy, trained = everything[: len(self._setup.validation)], everything[len(self._setup.validation) :]
        often = [secret for secret in self._setup.validation for _ in range(_GAMES_PER_SECRET)]
        sampled = self._play(often, self._sampling)
        if is_first():
            # The next secrets of a fixed order, round and round.
            total = len(self._shown)
            count = min(self._sample_games, total)
            places = (self._shown[place % total] for place in range(number * count, (number + 1) * count))
            records = (GameRecord.of(greedy[place], self._reward_of(greedy[place], step)) for place in places)
            self._stage.log.add(
                f"{self._stage.name}/validation", step, ({"alpha": alpha, **record.to_row()} for record in records)
            )
        figures = {
            "greedy_win_rate": statistics.fmean(transcript.won for transcript in greedy),
            "sampled_win_rate": statistics.fmean(transcript.won for transcript in sampled),
            **({"train_win_rate": statistics.fmean(transcript.won for transcript in trained)} if trained else {}),
            "regret_per_turn": statistics.fmean(  # expected guesses given away, see `turn_regret`
                turn_regret(turn, candidates, self._setup.solver.regret)
                for game in greedy
                for turn, candidates in with_candidates(game, self._setup.solver)
            ),
            "cost": self._cost(sampled),
            "validation_cost": self._cost(greedy),
            "greedy_cost": self._cost(everything),
        }
        return Validated(figures, tuple(transcript.won for transcript in everything))

    def _cost(self, games: Sequence[Transcript]) -> float:
        lost = self._setup.prompter.rules.max_turns + 1
        return statistics.fmean(game.turns_used if game.won else lost for game in games)

    def _play(self, secrets: Sequence[str], sampling: SamplingSettings) -> list[Transcript]:
        asked = Asked(self._setup.context, [InitialState(secret) for secret in secrets], PlayerSpec(sampling=sampling))
        return evaluate(asked, partial(self._open_policy, sampling), _transcript_of)


def _transcript_of(game: Trajectory) -> Transcript:
    if game.error is not None:  # dropping a game would compare weights by different games
        raise RunError(f"a validation game could not be played: {game.error}; run again to resume before it")
    return game.transcript


_BEST, _START, _END = "best", "start", "end"
"""Names of kept weights. NAME.json is their record: it names the file of the weights and its hash, so that both always
belong together."""
_FILES = "files"
_START_WINS = "start_wins"
_COSTS = ("greedy_cost", "cost")
"""Criteria to compare weights by, in this order."""
_BOUND = "validation_cost"
"""No candidate may be worse than the start in this criterion."""
_SIGNIFICANT = 0.01
"""p-value below which worse play than the start is reported. With frequent validations, 0.05 would report chance."""


class BestWeights:
    """Validate before the first step, every `every_steps` steps and at the end, then load the best weights.

    Ties go to the lower sampled cost, then to the later step. Only trainable weights are stored. The best so far are on
    disk, so a resumed training knows them. A step is validated after its checkpoint, so that interrupting the
    validation loses nothing.

    Candidates at the end are start + alpha x (last step - start) for the `interpolation_alphas`. The start is always a
    candidate; single steps are candidates only if 1 is among the alphas.

    Args:
        validate: Plays, given step, alpha and the number of the validation. Lower `greedy_cost` is better, then lower
            `cost`. `validation_cost` must not exceed that of the start. Other figures are only logged.
        remark: Called with a note while greedy play is worse than the start, and with an empty one afterwards.
    """

    def __init__(
        self,
        stage: Stage,
        settings: GRPOSettings,
        validate: Callable[[int, float, int], Validated],
        *,
        remark: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._name, self._learner, self._run = stage.name, stage.training.learner, stage.run
        self._validate, self._every_steps = validate, settings.validate_every_steps
        self._directory = stage.training.directory / "best"
        alphas = settings.interpolation_alphas
        self._between = sorted(alpha for alpha in alphas if alpha < 1)
        self._takes_steps = 1 in alphas
        self._last_validated: int | None = None
        self._remark = remark

    def begin(self) -> None:
        """Validate the initial weights."""
        if self._between and is_first():
            self._keep(_START)
        self._consider(0)

    def after(self, step: int) -> None:
        """Validate the weights of a step if it is time."""
        if step % self._every_steps == 0:
            self._consider(step)

    def end(self, last_step: int) -> None:
        """Load the best weights into the model, which must have those of the last step."""
        if self._last_validated != last_step:
            self._consider(last_step)
        if self._between:
            wait_for_all()
            if is_first():
                self._keep(_END)
            wait_for_all()  # the others read the files that the first process writes
            for alpha in self._between:
                self._learner.interpolate(self._weights(_START), self._weights(_END), alpha)
                self._consider(last_step, alpha)
        wait_for_all()
        self._learner.load_weights(self._weights(_BEST))
        best = self._record(_BEST)
        del best[_FILES]
        if is_first():
            write_json(self._directory.parent / CHOICE_FILE, best)

    def close(self) -> None:
        """Remove all stored weights; call it once the chosen ones are saved elsewhere."""
        if is_first():
            shutil.rmtree(self._directory, ignore_errors=True)

    def _consider(self, step: int, alpha: float = 1.0) -> None:
        # Number of the validation, the same in a resumed training: the start, every few steps, the end, then blends.
        number = -(-step // self._every_steps) + (0 if alpha == 1 else 1 + self._between.index(alpha))
        found = self._validate(step, alpha, number)
        self._last_validated = step
        if not is_first():
            return
        p_below = self._p_below_start(step, found.won)
        percent = round(100 * alpha, 6)
        part, at = ("validation", step) if alpha == 1 else ("blend", percent)
        where = {"stage": f"{self._name}/{part}", "step": at}
        self._run.append("metrics.jsonl", {**where, **found.figures, "p_below_start": p_below})
        if alpha == 1:
            self._remark(f"greedy play is below its start (p = {p_below:.1g})" if p_below < _SIGNIFICANT else "")
        self._keep_if_best(step, alpha, found.figures)

    def _keep_if_best(self, step: int, alpha: float, figures: Mapping[str, float]) -> None:
        if step and alpha == 1 and not self._takes_steps:
            return
        # The start sets the bound, and every later record passes it on.
        costs = {name: figures[name] for name in _COSTS}
        bound = figures[_BOUND]
        if step:
            best = self._record(_BEST)
            bound = best[_BOUND]
            if figures[_BOUND] > bound or [best[name] for name in _COSTS] < list(costs.values()):
                return
        self._keep(_BEST, {"step": step, "alpha": alpha, **costs, _BOUND: bound})

    def _p_below_start(self, step: int, won: Sequence[bool]) -> float:
        # One-sided sign test over the secrets that exactly one of the two won: P(at most `only_now` wins | equal play).
        if step == 0:
            write_record(self._directory / f"{_START_WINS}.json", {"won": list(won)})
            return 1.0
        start = self._record(_START_WINS)["won"]
        only_start = sum(a and not b for a, b in zip(start, won, strict=True))
        only_now = sum(b and not a for a, b in zip(start, won, strict=True))
        differing = only_start + only_now
        tail: int = sum(math.comb(differing, won) for won in range(only_now + 1))
        return float(tail / 2**differing)

    def _record(self, name: str) -> dict[str, Any]:
        # The start writes every record that a later step reads.
        path = self._directory / f"{name}.json"
        if not path.is_file():
            raise RunError(f"{path} is missing; {self._remedy}")
        return read_record(path, self._remedy)

    def _weights(self, name: str) -> Path:
        files: Any = self._record(name).get(_FILES)
        check_marks(self._directory, files, self._remedy)
        (weights,) = files
        return self._directory / str(weights)

    @property
    def _remedy(self) -> str:
        return f"restore it, or delete {self._directory.parent} to train again"

    def _keep(self, name: str, record: Mapping[str, Any] | None = None) -> None:
        # The new weights get a name of their own, and count once the record names them: a kill leaves the old pair.
        partial = self._directory / f".{name}.partial"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._learner.save_weights(partial)
            mark = marks_of(self._directory, [partial])[partial.name]
            weights = partial.replace(self._directory / f"{name}-{mark[1][:16]}.safetensors")
        except (OSError, SafetensorError) as error:
            partial.unlink(missing_ok=True)
            raise cannot_write(self._directory / name, error) from error
        write_record(self._directory / f"{name}.json", {**(record or {}), _FILES: {weights.name: mark}})
        for other in self._directory.glob(f"{name}-*.safetensors"):
            if other != weights:
                other.unlink()
