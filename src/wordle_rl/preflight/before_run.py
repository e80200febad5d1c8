"""Before a run writes anything: find out what is left to do, and stop if it cannot succeed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wordle_rl.config import ConfigError, RunConfig, RunStage, evaluation_name
from wordle_rl.config.context import GameContext
from wordle_rl.data.dataset import strict_words_of
from wordle_rl.data.game_record import read_traces
from wordle_rl.preflight import refuse
from wordle_rl.preflight.checks import Plan, findings_of
from wordle_rl.runs import BOARDS_FILE, check_place, check_removable, is_run, parts_of, read_jsonl
from wordle_rl.runs.lineage import LINEAGE_FILE, lineage_of
from wordle_rl.words.split import Split


@dataclass(frozen=True)
class Todo:
    """Stages that are still to be done, and warnings for the user."""

    traces: bool
    sft: bool
    play: bool
    evaluate: bool
    warnings: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.traces or self.sft or self.play or self.evaluate


def check_before_run(
    config: RunConfig, context: GameContext, directory: Path, chain: Sequence[RunStage], *, overwrite: bool
) -> Todo:
    """Stop everything that is bound to fail before a run begins or resumes.

    Args:
        config: All settings.
        context: Words, split, prompts and solver of the run.
        directory: The run directory.
        chain: The stages to go through.
        overwrite: Whether a run in the directory will be removed first.

    Returns:
        What is left to do.

    Raises:
        ConfigError: If settings, model or launch cannot work, a package is missing, memory is too small, a file of
            teacher games or boards cannot be read, or an input lies in a directory that will be removed. Also if the
            directory of a new run holds games or a model that know validation or test secrets.
        RunError: If the directory is a file, or what would be removed is not a run.
    """
    check_place(directory)
    if overwrite:
        check_removable(directory)
        _check_inputs_stay(config, directory)
    elif not is_run(directory):
        _check_taken_over(context.split, directory, config.algorithm)
    todo = _todo(config, directory, chain, overwrite=overwrite)
    findings = tuple(findings_of(_plan(config, context, directory, todo, overwrite=overwrite)))
    refuse(findings)
    return replace(todo, warnings=tuple(found.message for found in findings if found.level == "warning"))


def _plan(config: RunConfig, context: GameContext, directory: Path, todo: Todo, *, overwrite: bool) -> Plan:
    ahead = {
        name for name, wanted in (("traces", todo.traces), ("sft", todo.sft), (config.algorithm, todo.play)) if wanted
    }
    if ahead - {"traces"}:
        try:
            import wordle_rl.policy.loading  # noqa: F401 - imports the packages that a training needs
        except ModuleNotFoundError as error:
            raise ConfigError(f'training needs {error.name}: pip install "wordle-rl[train]"') from None
    if todo.evaluate and config.eval.engine == "transformers":  # vLLM checks its memory itself
        ahead.add("eval")
    begins = config.model if todo.sft else config.start_settings(directory)
    boards = config.rl.starts.file
    if boards is not None and not overwrite and (directory / BOARDS_FILE).is_file():
        boards = directory / BOARDS_FILE
    return Plan(config, context, ahead, begins, boards)


def _todo(config: RunConfig, directory: Path, chain: Sequence[RunStage], *, overwrite: bool) -> Todo:
    def is_ahead(name: RunStage) -> bool:
        return name in chain and (overwrite or not is_trained(directory / name))

    ahead = {name for name in config.trained if is_ahead(name)}
    names = config.evaluated
    labels = [evaluation_name(name, variant) for name in names for variant in config.eval.variants]
    evaluated = not ahead and all((directory / "eval" / f"{label}.json").is_file() for label in labels)
    return Todo(
        traces="traces" in chain and (overwrite or not (directory / "traces.jsonl").is_file()),
        sft="sft" in ahead,
        play=config.algorithm in ahead,
        evaluate="report" in chain and not evaluated,
    )


def is_trained(directory: Path) -> bool:
    """True if a stage has saved its model; the lineage file is written last."""
    return (directory / LINEAGE_FILE).is_file()


def _check_inputs_stay(config: RunConfig, directory: Path) -> None:
    removed = [part.resolve() for part in parts_of(directory)]
    inputs = {
        "model.path": config.model.path,
        "traces.file": config.traces.file,
        "rl.starts.file": config.rl.starts.file,
        "grpo.validation_file": config.grpo.validation_file,
    }
    for setting, path in inputs.items():
        if path is not None and Path(path).exists() and any(Path(path).resolve().is_relative_to(p) for p in removed):
            raise ConfigError(f"{setting} {path} is in {directory}, which --overwrite would remove; move it elsewhere")


def _check_taken_over(split: Split, directory: Path, algorithm: str) -> None:
    # A new run can find games or a model in its directory. It must neither replace a foreign model nor continue from
    # one that has met validation or test secrets.
    for stage in (directory / "sft", directory / algorithm):
        if any(stage.glob("*.safetensors")) and not is_trained(stage):
            raise ConfigError(
                f"{stage} holds a model without {LINEAGE_FILE}, which this run did not train and would replace; move "
                "it elsewhere and set model.path to it"
            )
    path = directory / "traces.jsonl"
    met = {str(row.get("secret")) for row in read_jsonl(path)} & split.never_trained if path.is_file() else set()
    where = "traces.jsonl"
    if not met and (lineage := lineage_of(directory / "sft")) is not None:
        met, where = set(lineage.leaks(split)), "sft"
    if met:
        raise ConfigError(
            f"{directory} holds {where} of another split: {len(met)} of its secrets are validation or test secrets "
            f"here, for example {min(met)}; set words.split_seed to that of the run it comes from, or name another "
            "directory"
        )
    lineage, named = lineage_of(directory / "sft"), set[str]()
    for trace in read_traces(path) if split.strict and path.is_file() else ():
        named |= strict_words_of(trace, split)
    where = "traces.jsonl" if named else "sft"
    if not named and lineage is not None:
        named = set(lineage.strict_leaks(split))
    if named:
        raise ConfigError(
            f"{directory} holds {where} that names {len(named)} strict words of this run, for example {min(named)}; "
            "set words.strict_fraction to 0, or name another directory"
        )
