"""Before a run writes anything: find out what is left to do, and stop if it cannot succeed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wordle_rl.config import ConfigError, RunConfig, RunStage, evaluation_name
from wordle_rl.config.context import GameContext
from wordle_rl.preflight.checks import Plan, findings_of
from wordle_rl.runs import BOARDS_FILE, check_place, check_removable, parts_of
from wordle_rl.runs.lineage import LINEAGE_FILE


def check_before_run(
    config: RunConfig, context: GameContext, directory: Path, chain: Sequence[RunStage], *, overwrite: bool
) -> tuple[set[str], list[str]]:
    """Stop everything that is bound to fail before a run begins or resumes.

    Args:
        config: All settings.
        context: Words, split, prompts and solver of the run.
        directory: The run directory.
        chain: The stages to go through.
        overwrite: Whether a run in the directory will be removed first.

    Returns:
        The stages that are left to do (`traces`, `sft`, the name of the algorithm, `eval`), and warnings.
    """
    check_place(directory)
    if overwrite:
        check_removable(directory)
        _check_inputs_stay(config, directory)
    ahead = _ahead(config, directory, chain, overwrite=overwrite)
    if ahead - {"traces"}:
        try:
            import wordle_rl.policy.loading  # noqa: F401 - imports the packages that a training needs
        except ModuleNotFoundError as error:
            raise ConfigError(f'training needs {error.name}: pip install "wordle-rl[train]"') from None
    begins = config.model if "sft" in ahead else config.start_settings(directory)
    boards = config.rl.starts.file
    if boards is not None and not overwrite and (directory / BOARDS_FILE).is_file():
        boards = directory / BOARDS_FILE
    found = findings_of(Plan(config, context, ahead, begins, boards))
    if problems := [finding.message for finding in found if finding.level == "problem"]:
        raise ConfigError("; ".join(problems))
    return ahead, [finding.message for finding in found if finding.level == "warning"]


def _ahead(config: RunConfig, directory: Path, chain: Sequence[RunStage], *, overwrite: bool) -> set[str]:
    ahead: set[str] = {
        name for name in config.trained if name in chain and (overwrite or not is_trained(directory / name))
    }
    labels = [evaluation_name(name, variant) for name in config.evaluated for variant in config.eval.variants]
    if "report" in chain and (ahead or not all((directory / "eval" / f"{each}.json").is_file() for each in labels)):
        ahead.add("eval")
    if "traces" in chain and (overwrite or not (directory / "traces.jsonl").is_file()):
        ahead.add("traces")
    return ahead


def is_trained(directory: Path) -> bool:
    """Return True if a stage has saved its model; the lineage file is written last."""
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
