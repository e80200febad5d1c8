"""Work that a call of the chain has to do, and refusal of what cannot succeed, before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from wordle_rl.config import ConfigError, RunConfig, RunStage
from wordle_rl.config.context import GameContext
from wordle_rl.data.dataset import strict_words_of
from wordle_rl.data.trace import read_traces
from wordle_rl.data.trace_filter import TracesFromFile
from wordle_rl.models.backends import find_backend
from wordle_rl.preflight.device import check_room
from wordle_rl.preflight.findings import refuse
from wordle_rl.preflight.model_fit import check_engines, check_model, check_on_policy, check_teacher_replies
from wordle_rl.preflight.teacher_sample import reply_lengths, teacher_examples
from wordle_rl.rl.starts_file import start_boards_of
from wordle_rl.runs import BOARDS_FILE, check_place, check_removable, check_version, is_run, parts_of, read_jsonl
from wordle_rl.runs.distributed import check_processes
from wordle_rl.runs.lineage import LINEAGE_FILE, lineage_of
from wordle_rl.words import WordList
from wordle_rl.words.split import Split


@dataclass(frozen=True)
class Todo:
    """Stages still to be done: teacher games, SFT, learning by play, evaluations."""

    traces: bool
    sft: bool
    play: bool
    evaluate: bool

    def __bool__(self) -> bool:
        return self.traces or self.sft or self.play or self.evaluate


def check_before_run(
    config: RunConfig, context: GameContext, directory: Path, chain: Sequence[RunStage], *, overwrite: bool
) -> Todo:
    """Refuse what can be known to fail before a run is begun or resumed.

    Args:
        config: Every setting.
        context: Words, split, prompts and solver of the run.
        directory: The run directory.
        chain: The stages to go through, from teacher games on.
        overwrite: Whether a run in that directory is to be removed first.

    Returns:
        What this call of the chain has to do.

    Raises:
        ConfigError: If settings or model cannot work, or not on the processes that were launched, a package is missing,
            memory does not suffice, or an input lies in a directory that is to be removed; or the directory is no run
            yet and holds games or a model that know validation or test secrets of the run.
        RunError: If the directory is a file, what is to be removed is no run, the run to be resumed is of an older
            version, or a file of teacher games or boards cannot be read.
    """
    check_place(directory)
    if overwrite:
        check_removable(directory)
        _check_inputs_stay(config, directory)
    elif is_run(directory):
        check_version(directory)
    else:
        _check_taken_over(context.split, directory, config.algorithm)
    _check_system_prompt(config, context.split)
    check_backend(config)
    todo = _todo(config, directory, chain, overwrite=overwrite)
    if todo.play:
        refuse(check_on_policy(config))
    if todo.sft or (todo.play and config.start == "base"):
        _check_model(config, context)
    if config.traces.file is None and (todo.traces or config.algorithm == "dagger"):
        _check_opener(config, context.for_training.solver.words)
    if config.traces.file is not None and todo.traces:
        _check_given_games(config, context, learnt=chain[-1] != "traces")
    if config.rl.starts.file is not None and todo.play:
        kept = directory / BOARDS_FILE
        path = config.rl.starts.file if overwrite or not kept.is_file() else kept
        start_boards_of(config, context, path)
    ahead = {name for name, wanted in (("sft", todo.sft), (config.algorithm, todo.play)) if wanted}
    check_processes(config, ahead)
    if todo.evaluate and config.eval.engine == "transformers":  # vLLM checks its own memory when it is started
        ahead.add("eval")
    if ahead:
        begins = config.model if todo.sft else config.start_settings(directory)
        refuse(check_room(config, begins, ahead))
    return todo


def check_backend(config: RunConfig) -> None:
    """Refuse a backend that is not here, and settings that it would not follow.

    Raises:
        ConfigError: If there are any.
    """
    if config.backend != "torch":
        find_backend(config.backend).check(config)


def _todo(config: RunConfig, directory: Path, chain: Sequence[RunStage], *, overwrite: bool) -> Todo:
    """Stages of a chain that are not done yet; with `overwrite`, all of them."""

    def is_ahead(name: RunStage) -> bool:
        return name in chain and (overwrite or not is_trained(directory / name))

    ahead = {name for name in config.trained if is_ahead(name)}
    names = config.evaluated
    labels = (*names, *(f"{name}-constrained" for name in names if config.eval.constrained))
    evaluated = not ahead and all((directory / "eval" / f"{label}.json").is_file() for label in labels)
    return Todo(
        traces="traces" in chain and (overwrite or not (directory / "traces.jsonl").is_file()),
        sft="sft" in ahead,
        play=config.algorithm in ahead,
        evaluate="report" in chain and not evaluated,
    )


def is_trained(directory: Path) -> bool:
    """True if a stage left its finished model; the game file is written last."""
    return (directory / LINEAGE_FILE).is_file()


def _check_inputs_stay(config: RunConfig, directory: Path) -> None:
    removed = [part.resolve() for part in parts_of(directory)]
    inputs = {
        "model.path": config.model.path,
        "traces.file": config.traces.file,
        "rl.starts.file": config.rl.starts.file,
    }
    for setting, path in inputs.items():
        if path is not None and Path(path).exists() and any(Path(path).resolve().is_relative_to(p) for p in removed):
            raise ConfigError(f"{setting} {path} lies in {directory}, which --overwrite would remove")


def _check_taken_over(split: Split, directory: Path, algorithm: str) -> None:
    """Refuse, in a new run's directory, a model that would be replaced, and what had validation or test secrets."""
    for stage in (directory / "sft", directory / algorithm):
        if any(stage.glob("*.safetensors")) and not is_trained(stage):
            raise ConfigError(
                f"{stage} holds a model without {LINEAGE_FILE}, so it was not trained here and would be replaced; "
                "train it with model.path, from another place"
            )
    path = directory / "traces.jsonl"
    met = {str(row.get("secret")) for row in read_jsonl(path)} & split.never_trained if path.is_file() else set()
    where = "traces.jsonl"
    if not met and (lineage := lineage_of(directory / "sft")) is not None:
        met, where = set(lineage.leaks(split)), "sft"
    if met:
        raise ConfigError(
            f"{directory} holds {where} of another split: {len(met)} of its secrets are validation or test "
            f"secrets here, {min(met)} for one; give words.split_seed the seed of the run it comes from, or name "
            "another directory"
        )
    _check_strict_taken_over(split, directory)


def _check_strict_taken_over(split: Split, directory: Path) -> None:
    """Refuse, in a new run's directory, games and a model that name strict words."""
    path, lineage = directory / "traces.jsonl", lineage_of(directory / "sft")
    named: set[str] = set()
    for trace in read_traces(path) if split.strict and path.is_file() else ():
        named |= strict_words_of(trace, split)
    where = "traces.jsonl" if named else "sft"
    if not named and lineage is not None:
        named = set(lineage.strict_leaks(split))
    if named:
        raise ConfigError(
            f"{directory} holds {where} of a run without strict words: {len(named)} of those here are named there, "
            f"{min(named)} for one; set words.strict_fraction to 0, or name another directory"
        )


def _check_system_prompt(config: RunConfig, split: Split) -> None:
    """Refuse a system prompt that names what training must not name."""
    if named := sorted(split.strict_words_in(config.game.system_prompt)):
        raise ConfigError(
            f"game.system_prompt names {named[0]!r}, a strict word (words.strict_fraction), which training never does; "
            "word it otherwise"
        )


def _check_opener(config: RunConfig, words: WordList) -> None:
    opener = config.traces.teacher.opener
    if opener in words.reserved:
        raise ConfigError(
            f"traces.teacher.opener {opener!r} is a strict word (words.strict_fraction), which training never names; "
            "give another opener"
        )
    if opener is not None and opener not in words:
        raise ConfigError(
            f"traces.teacher.opener {opener!r} is not in word list {words.name!r}; give a listed word, or leave it "
            "to the teacher (no opener in a config file, None on the command line)"
        )


def _check_given_games(config: RunConfig, context: GameContext, *, learnt: bool) -> None:
    """Refuse a file without a usable teacher game; if its games are trained on, budgets too small for its replies."""
    next(iter(TracesFromFile(context.words, context.split, config.traces, config.game)))  # the first one, or an error
    if not learnt:
        return
    from wordle_rl.models.loading import load_codec

    codec, _ = load_codec(config.model)
    taught = teacher_examples(config, context, codec)
    refuse(check_teacher_replies(reply_lengths(taught), config.max_completion_tokens))


def _check_model(config: RunConfig, context: GameContext) -> None:
    """Refuse a model that is missing or too small."""
    try:
        from wordle_rl.models.adapters import is_adapter
        from wordle_rl.models.loading import check_packages, load_codec, load_numbers
    except ModuleNotFoundError as error:
        raise ConfigError(f'training needs {error.name}: pip install "wordle-rl[train]"') from None
    for tracker in config.report_to:
        if find_spec(tracker) is None:
            raise ConfigError(f"report_to {tracker!r} needs a package that is not installed: pip install {tracker}")
    check_packages(config.model)
    refuse(check_engines(config, adapts=is_adapter(config.model.path)))
    codec, _ = load_codec(config.model)
    refuse(check_model(config, context, codec, load_numbers(config.model)))
