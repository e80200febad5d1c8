"""The stages of a run, in order.

Every stage leaves its product in the run directory and is skipped if that exists, so the same command continues an
interrupted run. With several processes, the first one plays teacher games, evaluates and writes. The others wait, and
train with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console

from wordle_rl.config import ALGORITHM_NAMES, ConfigError, RunConfig, RunStage, stored_config
from wordle_rl.pipeline.evaluation import evaluate_and_report
from wordle_rl.pipeline.push import HubPusher
from wordle_rl.pipeline.stages import learn_by_play, make_traces, train_by_traces
from wordle_rl.pipeline.work import RunWork
from wordle_rl.preflight.before_run import check_before_run
from wordle_rl.runs import LOCK_FILE, Run, exclusive_lock, is_run, reset_run
from wordle_rl.runs.distributed import is_first, leave_process_group, wait_for_all
from wordle_rl.runs.lineage import leak_warning
from wordle_rl.runs.store import repair_logs


class Pipeline:
    """One run of the chain.

    Args:
        config: All settings.
        directory: The run directory; a new one, or one with a run of the same settings, which is continued.
        console: Shows progress.
        overwrite: Remove an earlier run in the directory first, once all checks have passed.
        pusher: Pushes checkpoints and the trained model to the hub. None: push nothing.
    """

    def __init__(
        self,
        config: RunConfig,
        directory: Path,
        console: Console,
        *,
        overwrite: bool = False,
        pusher: HubPusher | None = None,
    ) -> None:
        self._work = RunWork.of(config, directory, console if is_first() else Console(quiet=True), overwrite=overwrite)
        self._work.pusher = pusher if is_first() else None
        self._overwrite = overwrite

    def __call__(self, until: RunStage = "report") -> dict[str, Any] | None:
        """Run all stages up to and including `until`.

        Returns:
            The results in the first process, if `until` is the report; otherwise None.
        """
        started = time.perf_counter()
        work, config, directory = self._work, self._work.config, self._work.directory
        chain = config.chain
        if until not in chain:
            fix = f"set algorithm to {until}" if until in ALGORITHM_NAMES else "set sft.epochs above 0"
            raise ConfigError(f"this run has no stage {until}, only {', '.join(chain)}; {fix}")
        chain = chain[: chain.index(until) + 1]
        ahead, warnings = check_before_run(config, work.context, directory, chain, overwrite=self._overwrite)
        for warning in warnings:
            work.tell(f"warning: {warning}")
        wait_for_all()  # all processes have checked the directory before the first one changes it
        if is_first() and is_run(directory) and not self._overwrite:
            stored_config(directory / "config.json")  # raises for an unreadable run before anything is written
        with ExitStack() as held:
            if is_first():
                if self._overwrite:
                    reset_run(directory)
                held.enter_context(exclusive_lock(directory / LOCK_FILE))
                if not is_run(directory) and (doubt := leak_warning(Path(config.model.path), work.context.split)):
                    work.tell(f"model.path {doubt}")
                work.open(Run.create(directory, config, work.context.split, adds=bool(ahead)))
                work.keep_validation()
                for sentence in repair_logs(directory):
                    work.tell(sentence)
                if not ahead:
                    done = f"{directory} is finished; pass --overwrite to start over"
                    work.tell(done)
            wait_for_all()
            self._overwrite = False  # from here on, the directory belongs to this run
            work.remember()
            if {"traces", "sft"} & ahead:
                work.run.seconds["setup"] = work.run.seconds.get("setup", 0.0) + time.perf_counter() - started
            stages: dict[RunStage, Callable[[RunWork], None]] = {
                "traces": make_traces,
                "sft": train_by_traces,
                config.algorithm: learn_by_play,
            }
            for stage in chain:
                if stage in stages:
                    stages[stage](work)
                    wait_for_all()
            leave_process_group()
            results = evaluate_and_report(work) if "report" in chain and is_first() else None
            if work.pusher is not None:
                work.pusher.finish(directory)
            return results
