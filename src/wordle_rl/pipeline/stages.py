"""The stages that leave games and models: teacher games, SFT, learning by play; a finished one is skipped."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import (
    ALGORITHM_NAMES,
    GRPOTraining,
    ModelSettings,
    RoundTraining,
    RunConfig,
    SFTTraining,
    Training,
    Variant,
    evaluation_name,
)
from wordle_rl.data.dataset import Example, encode_traces
from wordle_rl.data.game_record import read_traces
from wordle_rl.data.trace_filter import TracesFromFile
from wordle_rl.evaluate.journal import journal_path
from wordle_rl.pipeline.run_work import RunWork
from wordle_rl.policy.base import find_backend
from wordle_rl.report.card import CARD_FILE
from wordle_rl.runs import BOARDS_FILE, OWN_TEACHER_FILE, VALIDATION_GAMES_FILE, write_jsonl
from wordle_rl.runs.distributed import is_first, wait_for_all
from wordle_rl.runs.lineage import Lineage, count_records, is_trained, save_lineage
from wordle_rl.teachers.games import draw_secrets, write_own_teacher_traces, write_solver_traces
from wordle_rl.train.starts_file import StartBoards, start_boards_of

if TYPE_CHECKING:
    from wordle_rl.train.learner import Learner
    from wordle_rl.train.starts import GameSetup
    from wordle_rl.train.weight_sync import Engine

_OF_A_TRAINING = ("checkpoints", "best", "labels")
"""Directories beside a model that its training alone needs."""


def make_traces(work: RunWork) -> None:
    """Have the teacher play, or take the games of a file."""
    path, validation = (work.directory / name for name in ("traces.jsonl", VALIDATION_GAMES_FILE))
    if path.is_file() or not is_first():
        return
    settings, sft, context = work.config.traces, work.config.sft, work.context.for_training
    measured = sft.epochs > 0 and sft.validations_per_epoch > 0
    file = _own_teacher_file(work, measured=measured) if settings.teacher.is_own else settings.file
    if file is not None:
        asked = settings.model_copy(update={"file": file})
        given = TracesFromFile(context.words, context.split, asked, work.config.game)
        with work.run.stage("traces"):
            measuring = write_jsonl(validation, (trace.to_row() for trace in given.of_validation())) if measured else 0
            count = write_jsonl(path, (trace.to_row() for trace in given))
        given.rejected["val_secret"] -= measuring
        given.rejected = +given.rejected  # without what is zero now
        apart = f", and {measuring:,} for the validation loss" if measuring else ""
        left_out = f"; left out: {text}" if (text := given.left_out()) else ""
        work.tell(f"{count:,} teacher games of {file}{apart}{left_out}")
        if given.num_otherwise:
            told = "begin with another prompt than the games that this run plays (game.style, game.system_prompt)"
            work.tell(f"{given.num_otherwise:,} of them {told}")
        return
    with work.stage("traces", "Teacher games", settings.num_games) as advance:
        write_solver_traces(
            path,
            context.split,
            context.solver,
            settings,
            work.config.seed,
            lambda done: advance(done, settings.num_games, ""),
            validation if measured else None,
            work.config.game.max_turns,
        )


def _own_teacher_file(work: RunWork, *, measured: bool) -> Path:
    # The games of a teacher from outside the package, which are played first if they are not there.
    settings, context, path = work.config.traces, work.context.for_training, work.directory / OWN_TEACHER_FILE
    if path.is_file():
        return path
    words = context.solver.words
    secrets = draw_secrets(words, context.split, settings, work.config.seed)
    secrets += context.split.val if measured else ()
    with work.stage("traces", "Teacher games", len(secrets)) as advance:
        write_own_teacher_traces(
            path,
            words,
            secrets,
            settings.teacher,
            work.config.game,
            work.config.seed,
            lambda done: advance(done, len(secrets), ""),
        )
    return path


def train_by_traces(work: RunWork) -> None:
    """SFT on the teacher games."""
    from wordle_rl.policy.loading import context_length
    from wordle_rl.train.checkpoints import last_step
    from wordle_rl.train.sft import train_sft

    if _is_done(work.directory / "sft"):
        return
    with work.run.stage("setup"):
        learner = load_learner(work.config, work.config.model, work.config.sft_training)
    codec = learner.codec
    limit = min(work.config.model.max_length, context_length(learner.model) or work.config.model.max_length)
    path = work.directory / "traces.jsonl"
    with path.open("rb") as lines:
        num_games = sum(1 for _ in lines)
    with work.stage("encode", "Encoding games", num_games) as advance:
        encoded = encode_traces(
            read_traces(path),
            work.context.prompter,
            codec,
            limit,
            lambda done: advance(done, num_games, ""),
        )
    if encoded.rejected:
        left_out = ", ".join(f"{count} {reason}" for reason, count in encoded.rejected.items())
        work.tell(f"left out: {left_out}")
    validation = _validation_examples(work, codec, limit)
    lineage = work.lineage_from(Path(work.config.model.path))
    with work.training("sft", "SFT", last_step(work.directory / "sft" / "checkpoints")) as advance:
        train_sft(
            learner,
            encoded.examples,
            work.config.sft_training,
            work.run,
            validation=validation,
            seed=work.config.seed,
            report_to=work.config.trackers,
            progress=advance,
            on_saved=lambda saved: finish_model(saved, lineage),
        )


def _validation_examples(work: RunWork, codec: ChatCodec, limit: int) -> list[Example]:
    path = work.directory / VALIDATION_GAMES_FILE
    if not work.config.sft.validations_per_epoch:
        return []
    traces = read_traces(path) if path.is_file() else ()
    held_out = (trace for trace in traces if work.context.split.part_of(trace.secret) == "val")
    examples = encode_traces(held_out, work.context.prompter, codec, limit).examples
    if not examples:
        work.tell("no validation loss: there are no teacher games of validation secrets")
    return examples


def learn_by_play(work: RunWork) -> None:
    """GRPO, or what the config names instead."""
    name, settings = work.config.algorithm, work.config.training
    if settings.is_skipped or _is_done(work.directory / name):
        return
    from wordle_rl.train.starts import GameSetup

    with work.run.stage("setup"):
        start = work.config.start_settings(work.directory)
        learner = load_learner(work.config, start, settings)
    taught, secrets = work.context.split.shared(work.config.traces.rl_only_fraction)
    rehearsal = taught if taught != secrets else ()
    if rehearsal and work.config.start == "base":
        few = f"{len(secrets):,} of {len(work.context.split.train):,} training secrets"
        work.tell(f"traces.rl_only_fraction: groups play {few}, those kept from a teacher")
    boards, fraction = _given_starts(work), 0.0
    if boards is not None:
        fraction = boards.fraction()
        if boards.names_secrets and fraction == 1 and {*boards.secrets} <= work.context.words.answer_index.keys():
            secrets, boards = boards.secrets, None  # by priority, as other training secrets
    setup = GameSetup(
        work.context.for_training,
        secrets[: work.config.rl.max_secrets or None],
        work.validation.secrets,
        rehearsal,
        boards.starts if boards is not None else (),
        fraction,
    )
    if settings.replay_fraction:
        work.tell(f"{settings.replay_fraction:.0%} of the games learnt from are replayed, of {_teacher_games(work)}")
    title = ALGORITHM_NAMES[name]
    teacher = work.config.distill.teacher_model if name == "distill" else None
    if teacher is not None:
        from wordle_rl.train.distill import directory_of

        teacher = directory_of(teacher)
    lineage = work.lineage_from(Path(start.path), teacher)
    # Each module has a function of its algorithm's name; all take the same arguments, but for their settings.
    train: Callable[..., Path] = getattr(import_module(f"wordle_rl.train.{name}"), f"train_{name}")
    further: dict[str, Any] = {"traces": work.config.traces} if name == "distill" else {}
    with (
        work.training(name, title[0].upper() + title[1:], _done_before(work)) as advance,
        _engine(learner, settings, setup) as engine,
    ):
        train(
            learner,
            setup,
            settings,
            work.run,
            **(further if engine is None else {"engine": engine}),
            seed=work.config.seed,
            report_to=work.config.trackers,
            progress=advance,
            on_saved=lambda saved: finish_model(saved, lineage),
        )


def _teacher_games(work: RunWork) -> str:
    # Whose games these are: a model that another teacher taught learns from this run's, too.
    given, count = work.config.traces, work.config.traces.num_games
    if given.file is not None:
        return f"those of {given.file}"
    if given.teacher.is_own:
        return f"{count:,} games of {given.teacher.name}"
    return f"{count:,} games of the solver (plan {given.teacher.plan}, noise_rate {given.teacher.noise_rate:g})"


def _done_before(work: RunWork) -> int:
    # The part of learning by play that is done already, in the unit of its progress: steps, or games.
    settings, checkpoints = work.config.training, work.directory / work.config.algorithm / "checkpoints"
    if isinstance(settings, RoundTraining):
        from wordle_rl.train.round_loop import rounds_done

        return rounds_done(checkpoints) * settings.groups_per_round * settings.group_size
    from wordle_rl.train.checkpoints import last_step

    return last_step(checkpoints)


def _given_starts(work: RunWork) -> StartBoards | None:
    # The rows of rl.starts.file are kept in the run, so that a resumed training draws from the same.
    if work.config.rl.starts.file is None:
        return None
    read = partial(start_boards_of, work.config, work.context)
    kept = work.directory / BOARDS_FILE
    if is_first() and not kept.is_file():
        given = read(work.config.rl.starts.file)
        write_jsonl(kept, given.rows())
        work.tell(given.counted())
    wait_for_all()
    return read(kept)


def load_learner(config: RunConfig, model: ModelSettings, stage: SFTTraining | Training) -> Learner:
    """Load the model of a training, ready to learn, in the library that the config names."""
    # A policy gradient follows the distribution that was sampled; labels are learnt at temperature 1, however the
    # games were played.
    temperature = stage.sampling.temperature if isinstance(stage, GRPOTraining) else 1.0
    if config.backend != "torch":
        learner: Learner = find_backend(config.backend).load_learner(
            model, config.seed, gradient_checkpointing=stage.gradient_checkpointing, temperature=temperature
        )
        return learner
    from wordle_rl.policy.loading import load_model
    from wordle_rl.train.learner import TorchLearner

    loaded, codec = load_model(model, config.seed)
    return TorchLearner(
        loaded,
        codec,
        precision=stage.precision,
        gradient_checkpointing=stage.gradient_checkpointing,
        compiled=model.compile,
        temperature=temperature,
        seed=config.seed,
    )


@contextmanager
def _engine(learner: Learner, settings: Training, setup: GameSetup) -> Iterator[Engine | None]:
    if not (isinstance(settings, GRPOTraining) and settings.plays_by_vllm):
        yield None
        return
    from wordle_rl.train.learner import TorchLearner
    from wordle_rl.train.weight_sync import open_engine

    assert isinstance(learner, TorchLearner), "other backends refuse engines beforehand"
    engine = open_engine(learner, settings, setup.words, setup.prompter)
    try:
        yield engine
    finally:
        engine.close()


def _is_done(model: Path) -> bool:
    done = is_trained(model)
    for name in _OF_A_TRAINING if done and is_first() else ():
        shutil.rmtree(model / name, ignore_errors=True)  # left by a process that was killed at the very end
    return done


def finish_model(directory: Path, lineage: Lineage) -> None:
    """Store the lineage of a run's model beside it; remove the card and the evaluations of an earlier model."""
    (directory / CARD_FILE).unlink(missing_ok=True)  # peft leaves an empty form
    for variant in get_args(Variant):
        evaluated = directory.parent / "eval" / f"{evaluation_name(directory.name, variant)}.json"
        evaluated.unlink(missing_ok=True)
        journal_path(evaluated).unlink(missing_ok=True)
    save_lineage(directory, lineage, count_records(directory.parent, directory.name))
