"""The stages of a run, in order.

Every stage leaves its product in the run directory and is skipped if that exists, so the same command continues an
interrupted run. With several processes, the first one plays teacher games, evaluates and writes. The others wait, and
train with it.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console

from wordle_rl.config.base import ConfigError
from wordle_rl.config.context import GameContext
from wordle_rl.config.evaluation import evaluation_name
from wordle_rl.config.files import stored_config
from wordle_rl.config.run import RunConfig
from wordle_rl.config.stages import GRPOSettings, RoundSettings, SFTSettings, StageSettings, is_stage, kind_of
from wordle_rl.data.readers import file_of
from wordle_rl.pipeline.evaluation import evaluate_and_report
from wordle_rl.pipeline.push import HubPusher
from wordle_rl.pipeline.stages import check_traces, is_done, learn_from_play, make_traces, train_by_traces
from wordle_rl.pipeline.timings import Timings
from wordle_rl.policy.directory import described_at
from wordle_rl.preflight.checks import Plan, findings_of
from wordle_rl.runs import (
    LOCK_FILE,
    VALIDATION_SECRETS_FILE,
    Run,
    boards_file,
    check_place,
    check_removable,
    exclusive_lock,
    is_run,
    parts_of,
    reset_run,
    write_jsonl,
)
from wordle_rl.runs.checksums import check_sealed
from wordle_rl.runs.distributed import is_first, leave_process_group, wait_for_all
from wordle_rl.runs.jsonl_store import repair_logs
from wordle_rl.runs.lineage import LINEAGE_FILE, is_trained, leak_warning
from wordle_rl.runs.run import Tracking, check_has_weights
from wordle_rl.train.checkpoints import last_checkpoint
from wordle_rl.train.starts_file import ValidationFile


class Pipeline:
    """One run of the chain, new or resumed; `overwrite` removes an earlier one once all checks have passed."""

    def __init__(
        self,
        config: RunConfig,
        directory: Path,
        console: Console,
        *,
        overwrite: bool = False,
        pusher: HubPusher | None = None,
    ) -> None:
        self._config, self._directory, self._overwrite = config, directory, overwrite
        self._timings = Timings(directory, console if is_first() else Console(quiet=True))
        self._validation = ValidationFile.of(config, None if overwrite else directory)
        self._pusher = pusher if is_first() else None

    def __call__(self, until: str = "report") -> dict[str, Any] | None:
        """Run all stages up to and including `until`. Return the results, in the first process, of a whole run."""
        started = time.perf_counter()
        config, directory, context, timings = self._config, self._directory, self._validation.context, self._timings
        chain = parts_until(config, until)
        ahead, warnings = check_before_run(config, context, directory, chain, overwrite=self._overwrite)
        for warning in warnings:
            timings.tell(f"warning: {warning}")
        wait_for_all()  # all processes have checked the directory before the first one changes it
        if is_first() and is_run(directory) and not self._overwrite:
            stored_config(directory / "config.json")  # raises for an unreadable run before anything is written
        with ExitStack() as held:
            if is_first():
                if self._overwrite:
                    reset_run(directory)
                held.enter_context(exclusive_lock(directory / LOCK_FILE))
                self._open(adds=bool(ahead))
            wait_for_all()
            self._overwrite = False  # from here on, the directory belongs to this run
            timings.remember()
            if ahead & {"traces", config.stages[0]}:
                timings.seconds["setup"] = timings.seconds.get("setup", 0.0) + time.perf_counter() - started
            if "traces" in chain:
                make_traces(config, context, directory, timings)
                wait_for_all()
            self._train(filter(is_stage, chain))
            leave_process_group()
            results = None
            if "report" in chain and is_first():
                results = evaluate_and_report(config, context, directory, timings)
            if self._pusher is not None:
                self._pusher.finish(directory)
            return results

    def _open(self, *, adds: bool) -> None:
        """Create or resume the run directory, and store in it what a resumed run reads there."""
        config, directory, tell = self._config, self._directory, self._timings.tell
        split = self._validation.context.split
        if not is_run(directory) and (doubt := leak_warning(described_at(config.model.path), split)):
            tell(f"model.path {doubt}")
        Run.create(directory, config, split, adds=adds)
        kept, found = directory / VALIDATION_SECRETS_FILE, self._validation.found
        if found is not None and not kept.is_file():
            write_jsonl(kept, ({"secret": secret} for secret in found.secrets))
            tell(f"validation: {found.counted()}")
        for sentence in repair_logs(directory):
            tell(sentence)
        if not adds:
            tell(f"{directory} is finished; pass --overwrite to start over")

    def _train(self, stages: Iterable[str]) -> None:
        config, context, run = self._config, self._validation.context, Run(self._directory)
        run.tracking = Tracking.named(run.directory, config.report_project, config.trackio_space)
        if self._pusher is not None:
            run.on_checkpoint = self._pusher.send_checkpoint
        for stage in stages:
            if is_done(run.directory / stage, config.settings_of(stage).save_total_limit):
                pass
            elif kind_of(stage) == "sft":
                train_by_traces(config, stage, context, run, self._timings)
            else:
                learn_from_play(config, stage, context, self._validation.secrets, run, self._timings)
            wait_for_all()


def parts_until(config: RunConfig, until: str) -> tuple[str, ...]:
    """Return the parts of a run up to and including `until`."""
    chain = config.chain
    if until not in chain:
        fix = f"add {until} to stages" if is_stage(until) else "name one of these"
        raise ConfigError(f"this run has no stage {until}, only {', '.join(chain)}; {fix}")
    return chain[: chain.index(until) + 1]


def check_before_run(
    config: RunConfig, context: GameContext, directory: Path, chain: Sequence[str], *, overwrite: bool
) -> tuple[set[str], list[str]]:
    """Refuse what is bound to fail before a run begins or resumes.

    Return what is left to do of `chain` (`traces`, stages, `eval`), and warnings.
    """
    check_place(directory)
    if overwrite:
        check_removable(directory)
        _check_inputs_stay(config, directory)
    else:
        check_traces(directory)
        _check_models(config, directory)
    ahead = _ahead(config, directory, chain, overwrite=overwrite)
    if ahead - {"traces"}:
        import wordle_rl.policy.loading  # noqa: F401 - fails now, not after the teacher's games, if a package is missing
    # A resumed run trains on from the model of its last finished stage, and draws from the boards that it kept.
    next_stage = next((stage for stage in config.stages if stage in ahead), config.stages[-1])
    begins = config.start_of(next_stage, directory)
    boards = {stage: own.starts.file for stage, own in config.stages_of() if own.starts.file is not None}
    if not overwrite:
        kept = {stage: boards_file(directory, stage) for stage in boards}
        boards |= {stage: path for stage, path in kept.items() if path.is_file()}
    plan = Plan(config, context, ahead, begins, boards)
    found = findings_of(plan)
    if problems := [finding.message for finding in found if finding.level == "problem"]:
        raise ConfigError("; ".join(problems))
    check_space(plan, directory)
    return ahead, [finding.message for finding in found if finding.level == "warning"]


def _check_models(config: RunConfig, directory: Path) -> None:
    """Refuse a run that has lost a file of a model, or a model that a later stage began with."""
    lost: Path | None = None
    for model in (directory / name for name in config.stages):
        if is_trained(model):
            check_has_weights(model)
            check_sealed(model, weights=False)
        if lost is not None and (is_trained(model) or last_checkpoint(model / "checkpoints") is not None):
            # Trained again, the lost one need not be the same, and the run would no longer be one chain.
            raise ConfigError(
                f"{lost / LINEAGE_FILE} is missing, and {model} was trained from the model there; restore {lost}, or "
                f"delete {model} too, to train both again"
            )
        if lost is None and not is_trained(model):
            lost = model


def check_space(plan: Plan, directory: Path) -> None:
    """Refuse a disk without room for the models and checkpoints ahead, before the steps that it would lose."""
    config, stages = plan.config, plan.stages
    numbers = plan.model.numbers
    if not stages or numbers is None:
        return
    each = numbers.trainable_bytes or numbers.weight_bytes
    model = numbers.num_trainable * each  # of a model with adapters, only these are saved
    needed = len(stages) * model
    with_optimizer = model + 2 * numbers.num_trainable * each  # AdamW's two numbers a weight
    passing = 0  # the oldest checkpoint is removed once the next is complete
    for own in map(config.settings_of, stages):
        if not getattr(own, "save_steps", 1):
            continue
        if own.save_total_limit == 1:
            passing = 2 * with_optimizer
        else:  # they stay; between rounds they have no optimizer
            needed += _num_kept(own, config) * (model if isinstance(own, RoundSettings) else with_optimizer)
            passing = max(passing, with_optimizer)
    needed += passing
    place = next(path for path in (directory.absolute(), *directory.absolute().parents) if path.exists())
    own = (file for name in stages for file in (directory / name).rglob("*") if file.is_file())  # will be replaced
    free = shutil.disk_usage(place).free + sum(file.stat().st_size for file in own)
    if free < needed:
        raise ConfigError(
            f"--out {directory}: the disk has {free / 1e6:,.1f} MB free and cannot hold the run's models and "
            f"checkpoints, {needed / 1e6:,.1f} MB; free space, or name another --out"
        )


def _num_kept(own: StageSettings, config: RunConfig) -> int:
    # Checkpoints that a stage leaves. How many games of a file can be learnt from is not known yet; then none count.
    if own.save_total_limit:
        return own.save_total_limit
    if isinstance(own, SFTSettings):
        num_games = 0 if config.traces.file is not None else config.traces.num_games
        return int(math.ceil(num_games / own.batch_size) * own.epochs) // own.save_steps
    assert isinstance(own, GRPOSettings | RoundSettings)
    return own.num_rounds // getattr(own, "save_steps", 1)


def _ahead(config: RunConfig, directory: Path, chain: Sequence[str], *, overwrite: bool) -> set[str]:
    ahead: set[str] = {
        name for name in config.stages if name in chain and (overwrite or not is_trained(directory / name))
    }
    labels = [evaluation_name(name, variant) for name in config.evaluated for variant in config.eval.variants]
    if "report" in chain and (ahead or not all((directory / "eval" / f"{each}.json").is_file() for each in labels)):
        ahead.add("eval")
    if "traces" in chain and (overwrite or not (directory / "traces.jsonl").is_file()):
        ahead.add("traces")
    return ahead


def _check_inputs_stay(config: RunConfig, directory: Path) -> None:
    removed = [part.resolve() for part in parts_of(directory)]
    inputs = {
        "model.path": config.model.path,
        "traces.file": config.traces.file,
        **{f"{stage}.starts.file": own.starts.file for stage, own in config.stages_of()},
        **{f"{stage}.validation_file": own.validation_file for stage, own in config.stages_of("grpo")},
        **{f"{stage}.targets": own.teacher_model for stage, own in config.stages_of("distill")},
    }
    for setting, given in inputs.items():
        if given is None:
            continue
        path = Path(file_of(given)).expanduser().resolve()
        # The run directory itself stands for its last model.
        if path.exists() and (path == directory.resolve() or any(path.is_relative_to(part) for part in removed)):
            raise ConfigError(f"{setting} {given} is in {directory}, which --overwrite would remove; move it elsewhere")
