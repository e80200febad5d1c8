"""Multi-turn GRPO: play groups of games from the same start and compare each game with its group.

    for step in steps:
        played = rollouts(step, policy)            # draw secrets, play groups in lockstep, score (grpo_rollouts.py)
        rows   = played.rows(codec)                # tokens, loss mask, an advantage for every token
        update = learner.update(rows, PolicyLoss)  # micro-batches, clip, optimizer (learner.py)
        loop.after(step, update, metrics)          # log, checkpoint, Ctrl-C (training_loop.py)
        best.after(step)                           # validation by greedy play, now and then (checkpoint_selection.py)

Differences from GRPO as published:

- A game has several turns. The environment's tokens are masked, and each turn can have its own advantage
  (advantages.py).
- Groups whose games all earn the same are drawn again (DAPO).
- Games are trained on once, by the weights that played them, so all ratios are 1. Only a separate engine needs an
  importance correction.
- A server can play the games of the next step meanwhile (`PlayedAhead`).

Source: GRPO, arXiv:2402.03300.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from wordle_rl.config import GRPOTraining
from wordle_rl.prompt import Shape
from wordle_rl.runs import BufferedRun, Run
from wordle_rl.runs.distributed import gather, is_first
from wordle_rl.runs.progress import ProgressCallback
from wordle_rl.runs.trackers import GameLog, opened_trackers
from wordle_rl.train.checkpoint_selection import BestWeights, Validation
from wordle_rl.train.checkpoints import last_step
from wordle_rl.train.grpo_rollouts import GroupRollouts, OpenPolicy, Played, PlayedAhead, merged_metrics, rewind_games
from wordle_rl.train.learner import Learner
from wordle_rl.train.loss import PolicyLoss
from wordle_rl.train.micro_batches import micro_batches
from wordle_rl.train.starts import GameSetup
from wordle_rl.train.training_loop import TrainingLoop, held_interrupt

if TYPE_CHECKING:
    from wordle_rl.train.weight_sync import Engine


def train_grpo(
    learner: Learner,
    setup: GameSetup,
    settings: GRPOTraining,
    run: Run,
    *,
    open_policy: OpenPolicy | None = None,
    engine: Engine | None = None,
    seed: int = 0,
    report_to: Sequence[str] = (),
    progress: ProgressCallback | None = None,
    on_saved: Callable[[Path], None] | None = None,
) -> Path:
    """Improve the model by playing, save it to `<run>/grpo`, and return that directory.

    An interrupted training resumes where it stopped.

    Args:
        open_policy: Opens the sampler that plays. None: that of the engine, if there is one, or the learner's own.
        engine: An engine that plays in place of the learner's own sampler.
        seed: Seed of secrets, initial states and sampling.
        on_saved: Called in the first process with the directory of the saved model, before checkpoints are removed.
    """
    directory = run.directory / "grpo"
    if is_first():
        rewind_games(run, last_step(directory / "checkpoints"))
    own_run = run if is_first() else BufferedRun(run.directory)  # one process writes; see `_over_processes`
    open_policy = open_policy or (learner.policy if engine is None else engine.policy)
    with (
        held_interrupt() as stop,
        opened_trackers(run, report_to, "grpo", directory) as trackers,
    ):
        log = GameLog(own_run, trackers if is_first() else ())
        rollouts = GroupRollouts(setup, settings, log, seed)
        loop = TrainingLoop(
            learner, run, "grpo", directory, stop=stop, progress=progress, headline=("reward", "win_rate", "loss"),
            trackers=trackers,
        )  # fmt: skip
        games = PlayedAhead(rollouts, engine, settings.steps) if settings.batches_ahead else rollouts
        best = None
        if settings.validate_every_steps:
            best = BestWeights(
                learner,
                Validation(setup, settings, open_policy, log, rollouts.reward_of),
                settings.validate_every_steps,
                own_run,
                directory / "best",
                # Interpolating does not change `learner.version`, so an engine would not be sent such weights.
                (1.0,) if settings.plays_by_vllm else settings.interpolation_alphas,
                remark=partial(setattr, loop, "remark"),
            )
        loss = policy_loss_of(settings, setup)

        learner.start(settings.optimizer, settings.steps)
        if settings.beta:
            learner.remember_start()  # before a checkpoint is loaded: the KL reference is always the initial model
        done, state = loop.restore()
        if state:
            games.load_state(state)
        elif best is not None:
            best.begin()
        for step in range(done + 1, settings.steps + 1):
            # Validation plays with the weights of the last step, so games that are played ahead must end first.
            games.wait()
            if best is not None and step > 1:
                best.after(step - 1)
            started = time.perf_counter()
            played = games(step - 1, open_policy)
            rows = played.rows(learner.codec, mask_overlong=settings.mask_overlong)
            batches = micro_batches(rows, rows_per_pass(settings, len(rows)), sharing=learner.shares_prefixes)
            update = learner.update(batches, loss, step)
            metrics = _over_processes(played, run, own_run)
            games.note_compliance(metrics["format_compliance"])
            metrics |= {f"seconds/{name}": seconds for name, seconds in update.seconds.items()}
            metrics["step_time"] = time.perf_counter() - started
            done = step
            save = settings.save_steps > 0 and step % settings.save_steps == 0
            # The validation after the last step can be interrupted; without a checkpoint the step would be lost.
            save = save or (best is not None and step == settings.steps)
            stopping = loop.after(step, settings.steps, update, metrics, save=save, state=games.state)
            if stopping:
                break
        games.close()
    log.detach_trackers()
    if best is not None:
        best.take_best(done or settings.steps)  # 0: nothing was left to train
    loop.finish(on_saved)
    if best is not None and is_first():
        best.forget()
    return directory


def policy_loss_of(settings: GRPOTraining, setup: GameSetup) -> PolicyLoss:
    """Build the loss that the settings describe."""
    row_per_turn = setup.prompter.shape is Shape.STATE or settings.turn_candidates > 1
    turns = 1 if row_per_turn else setup.prompter.rules.max_replies
    return PolicyLoss(
        aggregation=settings.loss_type,
        longest=turns * settings.sampling.max_completion_tokens,
        epsilon=settings.epsilon,
        epsilon_high=settings.epsilon_high,
        beta=settings.beta,
        importance_cap=settings.importance_cap,
        off_policy=settings.batches_ahead > 0,
    )


def rows_per_pass(settings: GRPOTraining, num_rows: int) -> int:
    """Return the number of rows per micro-batch; 0: all in one.

    `micro_batch_size` counts games. A game can have several rows, and constant groups none, so the number of rows is
    chosen such that a step always has the same number of micro-batches.
    """
    games = settings.groups_per_step * settings.group_size
    if not 0 < settings.micro_batch_size < games:
        return 0
    return max(1, -(-num_rows // (games // settings.micro_batch_size)))


def _over_processes(played: Played, run: Run, own_run: Run) -> dict[str, float]:
    # One collective for both: the metrics, and the records that the first process writes for the others.
    mine = own_run.take() if isinstance(own_run, BufferedRun) else []
    everyone = gather((dict(played.metrics), dict(played.denominators), mine))
    if is_first():
        for *_, records in everyone:
            for name, row in records:
                run.append(name, row)
    return merged_metrics([(metrics, denominators) for metrics, denominators, _ in everyone])
