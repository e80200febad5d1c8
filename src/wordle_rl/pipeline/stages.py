"""The stages that leave games and models: teacher games, SFT, learning by play; a finished one is skipped."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from wordle_rl.config.context import GameContext
from wordle_rl.config.evaluation import Variant, evaluation_name
from wordle_rl.config.model import ModelSettings
from wordle_rl.config.run import RunConfig
from wordle_rl.config.stages import (
    DistillSettings,
    GRPOSettings,
    PlaySettings,
    kind_of,
    stage_title,
)
from wordle_rl.config.teachers import TraceSettings
from wordle_rl.data.dataset import TracesFromFile
from wordle_rl.data.game_record import read_traces
from wordle_rl.evaluate.journal import journal_path
from wordle_rl.pipeline.timings import Timings
from wordle_rl.policy.base import find_backend
from wordle_rl.policy.constrain import MakeConstraint, make_constraint
from wordle_rl.policy.directory import described_at
from wordle_rl.runs import (
    CARD_FILE,
    ENGLISH_FILE,
    OWN_TEACHER_FILE,
    TRACES_SEAL_FILE,
    VALIDATION_GAMES_FILE,
    Run,
    boards_file,
    write_jsonl,
)
from wordle_rl.runs.checksums import check_marks, marks_of, read_record, write_record
from wordle_rl.runs.distributed import is_first, wait_for_all
from wordle_rl.runs.lineage import Lineage, count_records, is_trained, lesson_of, save_lineage, trained_further
from wordle_rl.runs.progress import ProgressCallback
from wordle_rl.teachers.games import draw_secrets, write_own_teacher_traces, write_solver_traces
from wordle_rl.train.example import Example, encode_traces
from wordle_rl.train.starts_file import StartBoards, start_boards_of

if TYPE_CHECKING:
    from wordle_rl.train.learner import Learner
    from wordle_rl.train.starts import GameSetup
    from wordle_rl.train.training_loop import Training
    from wordle_rl.train.weight_sync import Engine


def make_traces(config: RunConfig, context: GameContext, directory: Path, timings: Timings) -> None:
    """Have the teacher play, or take the games of a file."""
    if not is_first():
        return
    path, validation, listed = (directory / name for name in ("traces.jsonl", VALIDATION_GAMES_FILE, TRACES_SEAL_FILE))
    if not path.is_file():
        listed.unlink(missing_ok=True)
        _make_traces(config, context.for_training, path, validation, timings)
    if not listed.is_file():
        write_record(listed, marks_of(directory, filter(Path.is_file, (path, validation))))


def check_traces(directory: Path) -> None:
    """Refuse a run whose teacher games have changed since they were made: another training would come of them."""
    path, listed = (directory / name for name in ("traces.jsonl", TRACES_SEAL_FILE))
    if path.is_file() and listed.is_file():
        remedy = f"restore it, delete {path} to have the games made again, or {listed} if you changed it on purpose"
        check_marks(directory, read_record(listed, remedy), remedy)


def _make_traces(config: RunConfig, context: GameContext, path: Path, validation: Path, timings: Timings) -> None:
    settings = config.traces
    measured = any(own.validations_per_epoch for _, own in config.stages_of("sft"))
    file = settings.file
    if settings.teacher.is_own:
        file = path.with_name(OWN_TEACHER_FILE)
        if not file.is_file():
            _play_own_teacher(config, context, file, timings, measured=measured)
    if file is not None:
        asked = settings.model_copy(update={"file": file})
        given = TracesFromFile(context.words, context.split, asked, config.game)
        with timings.timed("traces"):
            measuring = write_jsonl(validation, (trace.to_row() for trace in given.of_validation())) if measured else 0
            count = write_jsonl(path, (trace.to_row() for trace in given))
        given.rejected["val_secret"] -= measuring
        given.rejected = +given.rejected  # without what is zero now
        apart = f", and {measuring:,} for the validation loss" if measuring else ""
        left_out = f"; left out: {text}" if (text := given.left_out()) else ""
        timings.tell(f"{count:,} teacher games of {file}{apart}{left_out}")
        if given.num_duplicates:
            timings.tell(f"{given.num_duplicates:,} of them are duplicates; traces.drop_duplicates leaves them out")
        if not settings.checked:
            timings.tell("their rows were not checked (traces.checked): no reply need hold a guess")
        if given.num_otherwise:
            told = "begin with another prompt than the games that this run plays (game.style, game.system_prompt)"
            timings.tell(f"{given.num_otherwise:,} of them {told}")
        return
    with timings.shown("traces", "Teacher games", settings.num_games) as advance:
        write_solver_traces(
            path,
            context.split,
            context.solver,
            settings,
            config.seed,
            lambda done: advance(done, settings.num_games, ""),
            validation if measured else None,
            config.game.max_turns,
        )


def _play_own_teacher(config: RunConfig, context: GameContext, path: Path, timings: Timings, *, measured: bool) -> None:
    words = context.solver.words
    secrets = draw_secrets(words, context.split, config.traces, config.seed)
    secrets += context.split.val if measured else ()
    with timings.shown("traces", "Teacher games", len(secrets)) as advance:
        write_own_teacher_traces(
            path,
            words,
            secrets,
            config.traces.teacher,
            config.game,
            config.seed,
            lambda done: advance(done, len(secrets), ""),
        )


def train_by_traces(config: RunConfig, stage: str, context: GameContext, run: Run, timings: Timings) -> None:
    """SFT on the teacher games."""
    from wordle_rl.policy.sizes import context_length
    from wordle_rl.train.checkpoints import last_place
    from wordle_rl.train.plain_text import plain_texts, texts_for
    from wordle_rl.train.sft import train_sft

    own = config.settings_of(stage)
    _make_plain_text(config, stage, context, run, timings)
    with timings.timed("setup"):
        learner = load_learner(config, config.start_of(stage, run.directory), config.seed_of(stage))
    codec = learner.codec
    limit = min(config.model.max_length, context_length(learner.model) or config.model.max_length)
    path = run.directory / "traces.jsonl"
    with path.open("rb") as lines:
        num_games = sum(1 for _ in lines)
    with timings.shown("encode", "Encoding games", num_games) as advance:
        encoded = encode_traces(
            read_traces(path),
            context.prompter,
            codec,
            limit,
            lambda done: advance(done, num_games, ""),
        )
    if encoded.rejected:
        left_out = ", ".join(f"{count} {reason}" for reason, count in encoded.rejected.items())
        timings.tell(f"left out: {left_out}")
    held_out: list[Example] = []
    if own.validations_per_epoch:
        kept = run.directory / VALIDATION_GAMES_FILE
        traces = read_traces(kept) if kept.is_file() else ()
        of_val = (trace for trace in traces if context.split.part_of(trace.secret) == "val")
        held_out = encode_traces(of_val, context.prompter, codec, limit).examples
        if not held_out:
            timings.tell("no validation loss: there are no teacher games of validation secrets")
    rows = encoded.examples
    if own.plain_text_fraction and rows:
        rows = [*rows, *plain_texts(run.directory, texts_for(len(rows), own.plain_text_fraction))]
    lineage = _lineage(config, stage, context, run)
    done = last_place(run.directory / stage / "checkpoints").done
    with timings.training(stage, stage_title(stage), done) as advance:
        training = _training(config, stage, run, learner, lineage, advance, timings.tell)
        train_sft(training, rows, own, validation=held_out)


def learn_from_play(
    config: RunConfig, stage: str, context: GameContext, validation: Sequence[str], run: Run, timings: Timings
) -> None:
    """GRPO, expert iteration, DPO or distillation; checkpoints are selected by the secrets of `validation`."""
    own = config.settings_of(stage)
    from wordle_rl.train.algorithms import ALGORITHMS
    from wordle_rl.train.checkpoints import last_place
    from wordle_rl.train.play_loop import learn_by_play
    from wordle_rl.train.starts import GameSetup

    # A policy gradient follows the distribution that was sampled; labels are learnt at temperature 1, however the
    # games were played.
    temperature = own.temperature if isinstance(own, GRPOSettings) else 1.0
    limits = isinstance(own, GRPOSettings) and own.constrain == "words"
    _make_plain_text(config, stage, context, run, timings)
    with timings.timed("setup"):
        learner = load_learner(
            config,
            config.start_of(stage, run.directory),
            config.seed_of(stage),
            temperature,
            partial(make_constraint, context.for_training.words, context.prompter) if limits else None,
        )
    taught, secrets = context.split.shared(config.traces.rl_only_fraction)
    rehearsal = taught if taught != secrets else ()
    if rehearsal and kind_of(config.stages[0]) != "sft":
        few = f"{len(secrets):,} of {len(context.split.train):,} training secrets"
        timings.tell(f"traces.rl_only_fraction: groups play {few}, those kept from a teacher")
    boards, fraction = _given_starts(config, stage, context, run.directory, timings.tell), 0.0
    if boards is not None:
        fraction = boards.fraction()
        if boards.names_secrets and not boards.has_prompts and {*boards.secrets} <= context.words.answer_index.keys():
            secrets, boards = boards.secrets, None  # by priority, as other training secrets
    setup = GameSetup(
        context.for_training,
        secrets[: own.max_secrets or None],
        validation,
        rehearsal,
        boards.starts if boards is not None else (),
        fraction,
        config.sampling,
    )
    if own.replays:
        replayed = f"{own.replay_fraction:.0%} of the games learnt from are replayed"
        timings.tell(f"{replayed}, of {_teacher_games(config.traces)}")
    lineage = _lineage(config, stage, context, run)
    title = stage_title(stage)
    done = last_place(run.directory / stage / "checkpoints").done
    unit = 1 if isinstance(own, GRPOSettings) else own.groups_to_play * own.group_size
    with (
        timings.training(stage, title[0].upper() + title[1:], done * unit) as advance,
        _engine(learner, own, setup) as engine,
    ):
        learn_by_play(
            ALGORITHMS[type(own)],
            _training(config, stage, run, learner, lineage, advance, timings.tell),
            setup,
            own,
            engine=engine,
            traces=config.traces,
        )


def _make_plain_text(config: RunConfig, stage: str, context: GameContext, run: Run, timings: Timings) -> None:
    # By the model that the run begins with, whichever stage asks first: a trained one has lost what is to be kept.
    if not getattr(config.settings_of(stage), "plain_text_fraction", 0.0):
        return
    from wordle_rl.train.plain_text import has_plain_text, write_plain_text

    if not has_plain_text(run.directory):
        with timings.timed("plain_text"):
            learner = load_learner(config, config.start_of(config.stages[0], run.directory), config.seed)
            write_plain_text(learner, run.directory, context.split, config.seed, timings.tell)


def _lineage(config: RunConfig, stage: str, context: GameContext, run: Run) -> Lineage:
    # Every model that the training saves on its way gets it, too.
    own, start = config.settings_of(stage), config.start_of(stage, run.directory)
    lineage = trained_further(described_at(start.path), config.game, lesson_of(config.words, context.split))
    if isinstance(own, DistillSettings) and own.teacher_model is not None:
        from wordle_rl.train.distill import directory_of

        lineage = lineage.taught_by(directory_of(own.teacher_model))
    run.describe_model = partial(save_lineage, lineage=lineage)
    return lineage


def _training(
    config: RunConfig,
    stage: str,
    run: Run,
    learner: Learner,
    lineage: Lineage,
    progress: ProgressCallback,
    tell: Callable[[str], None],
) -> Training:
    from wordle_rl.train.training_loop import Training

    return Training(
        learner,
        run,
        stage,
        seed=config.seed_of(stage),
        report_to=config.trackers,
        progress=progress,
        tell=tell,
        on_saved=lambda saved: finish_model(saved, lineage),
        save_total_limit=config.settings_of(stage).save_total_limit,
    )


def _teacher_games(given: TraceSettings) -> str:
    # Name the teacher: a model given by `model.path` may have had another one before.
    if given.file is not None:
        return f"those of {given.file}"
    if given.teacher.is_own:
        return f"{given.num_games:,} games of {given.teacher.name}"
    return (
        f"{given.num_games:,} games of the solver (plan {given.teacher.plan}, noise_rate {given.teacher.noise_rate:g})"
    )


def _given_starts(
    config: RunConfig, stage: str, context: GameContext, directory: Path, tell: Callable[[str], None]
) -> StartBoards | None:
    # The rows of the stage's starts.file are kept in the run, so that a resumed training draws from the same.
    file = config.settings_of(stage).starts.file
    if file is None:
        return None
    read = partial(start_boards_of, config, stage, context)
    kept = boards_file(directory, stage)
    if is_first() and not kept.is_file():
        given = read(file)
        write_jsonl(kept, given.rows())
        tell(given.counted())
    wait_for_all()
    return read(kept)


def load_learner(
    config: RunConfig,
    model: ModelSettings,
    seed: int,
    temperature: float = 1.0,
    constraint_of: MakeConstraint | None = None,
) -> Learner:
    """Load the model of a training, ready to learn, in the library that the config names."""
    if config.backend != "torch":
        learner: Learner = find_backend(config.backend).load_learner(model, seed, temperature=temperature)
        return learner
    from wordle_rl.policy.loading import load_model
    from wordle_rl.train.learner import TorchLearner

    loaded, codec = load_model(model, seed)
    return TorchLearner(
        loaded,
        codec,
        precision=model.precision,
        gradient_checkpointing=model.gradient_checkpointing,
        micro_batch_size=model.micro_batch_size,
        compiled=model.compile,
        temperature=temperature,
        constraint=None if constraint_of is None else constraint_of(codec),
        seed=seed,
    )


@contextmanager
def _engine(learner: Learner, settings: PlaySettings, setup: GameSetup) -> Iterator[Engine | None]:
    if not (isinstance(settings, GRPOSettings) and settings.plays_by_vllm):
        yield None
        return
    from wordle_rl.train.learner import TorchLearner
    from wordle_rl.train.weight_sync import open_engine

    assert isinstance(learner, TorchLearner), "other backends refuse engines beforehand"
    engine = open_engine(learner, settings, setup)
    try:
        yield engine
    finally:
        engine.close()


def is_done(directory: Path, save_total_limit: int) -> bool:
    """True if the stage of a directory is trained; what a kill at its very end left there is removed."""
    done = is_trained(directory)
    if done and is_first():
        from wordle_rl.train.checkpoints import drop_checkpoints

        drop_checkpoints(directory / "checkpoints", save_total_limit)
        shutil.rmtree(directory / "best", ignore_errors=True)
    return done


def finish_model(directory: Path, lineage: Lineage) -> None:
    """Store the lineage of a run's model beside it; remove the card and the evaluations of an earlier model."""
    (directory / CARD_FILE).unlink(missing_ok=True)  # peft leaves an empty form
    for variant in get_args(Variant):
        evaluated = directory.parent / "eval" / f"{evaluation_name(directory.name, variant)}.json"
        evaluated.unlink(missing_ok=True)
        journal_path(evaluated).unlink(missing_ok=True)
    (directory.parent / ENGLISH_FILE).unlink(missing_ok=True)
    save_lineage(directory, lineage, count_records(directory.parent, directory.name))
