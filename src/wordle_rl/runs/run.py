"""The run directory: resolved config, manifest, metrics, games, results. Every file is complete or absent.

runs/NAME/
  config.json     all settings, resolved
  manifest.json   versions, git commit, word-list fingerprint, split, hardware, command, and those of later calls
  traces.jsonl    teacher games
  validation_traces.jsonl  teacher games of validation secrets, for SFT's validation loss; never trained on
  boards-STAGE.jsonl  boards and secrets of the stage's starts.file from which groups can start
  validation_secrets.jsonl  secrets of grpo.validation_file; never trained on
  sft/ grpo/ …    a directory for each stage, by its name: the trained model in transformers' format with a model
                  card (with checkpoints while training)
  metrics.jsonl   one line per logged step, append-only
  games.jsonl     sample games of training and validation, append-only
  secrets.jsonl   secrets of all training games, append-only
  eval/*.json     all evaluated games
  results.json    results
  report.html     the report page
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from wordle_rl.config.base import ConfigError
from wordle_rl.config.files import stored_config
from wordle_rl.config.run import RunConfig
from wordle_rl.config.stages import KIND_NAMES, is_stage
from wordle_rl.runs.atomic_files import RunError, read_object, write_json
from wordle_rl.runs.checksums import SEAL_FILE
from wordle_rl.runs.jsonl_store import LOG_FILES, append_jsonl
from wordle_rl.runs.lock import LOCK_FILE, exclusive_lock
from wordle_rl.runs.provenance import manifest, resumed_manifest
from wordle_rl.words.split import Split

CARD_FILE = "README.md"
"""Beside a model: its card, where the hub expects it."""
CHOICE_FILE = "selected.json"
"""Beside GRPO's model: step, alpha (see `BestWeights`) and costs of the selected weights."""
VALIDATION_SECRETS_FILE = "validation_secrets.jsonl"
"""The usable secrets of grpo.validation_file, stored so that a resumed training selects by the same."""
LABELS_FILE = "labels.jsonl"
"""Boards and words that rounds trained on, as rows of games."""
OWN_TEACHER_FILE = "own_teacher_traces.jsonl"
"""All games of your own teacher; `traces.jsonl` has those that can be trained on."""
ENGLISH_FILE = "english.json"
"""Record of what training cost a pretrained model of its English, in a run directory."""
PLAIN_TEXT_FILE = "plain_text.jsonl"
"""Texts that the model wrote before training, to rehearse beside games."""
VALIDATION_GAMES_FILE = "validation_traces.jsonl"
"""Teacher games of validation secrets, for SFT's validation loss."""
TRACES_SEAL_FILE = "traces.json"
"""Size and hash of both files of teacher games."""
CONTROLS = "controls"
"""Directory of the control evaluations of a run."""
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "adapter_model.safetensors")
"""Files of which a model directory has one."""
BY_TURN = "win_rate_by_turn/"
"""Prefix of the win rates of training games by turn; the turn follows."""
PASS_AT = "pass_at/"
"""Prefix of pass@k of training games over the groups of a step; k follows."""
VALIDATED = "validation_"
"""Prefix of SFT's metrics on validation games, in rows of their own in metrics.jsonl."""
_OF_EVERY_RUN = ("config.json", "manifest.json")


class Tracking(NamedTuple):
    """Names of a run in trackers: the run, its project, and the hub Space that shows trackio's runs."""

    run: str
    project: str | None = None
    space: str | None = None

    @classmethod
    def named(cls, directory: Path, project: str | None, space: str | None) -> Tracking:
        """Derive names from the settings: `project` can be PROJECT/RUN; without RUN the directory gives the name.

        Examples:
            >>> Tracking.named(Path("runs/mine"), "wordle/first", None)
            Tracking(run='first', project='wordle', space=None)
        """
        in_project, _, run = (project or "").partition("/")
        return cls(run or directory.resolve().name, in_project or None, space)


class Run:
    """The directory of a run, and what is done with each model that a training saves there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.tracking = Tracking.named(directory, None, None)
        """Names of this run in trackers."""
        self.on_checkpoint: Callable[[Path, str], None] = lambda _directory, _title: None
        """Called with each complete checkpoint and a title such as `grpo step 20`."""
        self.describe_model: Callable[[Path], None] = lambda _directory: None
        """Called with the directory of each model that a training saves on its way, to store how it is played."""

    @classmethod
    def create(cls, directory: Path, config: RunConfig, split: Split, *, adds: bool = True) -> Run:
        """Open a directory for a run and store its resolved config and manifest.

        A directory with other settings, other words or something that is not a run is refused. The manifest of a run to
        which this call does not add (`adds`) stays unchanged.
        """
        check_place(directory)
        config_path, manifest_path = directory / "config.json", directory / "manifest.json"
        remedy = "name another --out, or pass --overwrite to start over"
        resolved, facts = config.stored(), manifest(config, split)
        if config_path.is_file():
            try:
                stored_config(config_path)
            except ConfigError as error:
                raise RunError(f"{error}; {remedy}") from None
        if config_path.is_file() and (before := read_object(config_path)) != resolved:
            further = "; to train its model further, set model.path to it, and --out to a new directory"
            raise RunError(
                f"{directory} holds a run with other settings{_differing(before, resolved)}; {remedy}{further}"
            )
        if manifest_path.is_file():
            stored = read_object(manifest_path)
            if stored.get("fingerprint") != split.fingerprint:
                words = config.words.source
                raise RunError(f"{directory} holds a run with other words under the name {words!r}; {remedy}")
            facts = resumed_manifest(stored, facts) if adds else stored
        write_json(manifest_path, facts)  # first: `check_place` refuses a config.json alone
        write_json(config_path, resolved)
        return cls(directory)

    def append(self, name: str, row: Mapping[str, Any]) -> None:
        """Append one JSON line to a file of the run, atomically."""
        append_jsonl(self.directory / name, row)


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    was, now = dict(_settings(before)), dict(_settings(after))
    found = [
        f"{name}: {was.get(name, 'not set')}, now {now.get(name, 'not set')}"
        for name in {**now, **was}
        if was.get(name) != now.get(name)
    ]
    more = [f"and {len(found) - 3} more"] if len(found) > 3 else []
    return f" ({'; '.join([*found[:3], *more])})" if found else ""


def _settings(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _settings(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value)


class BufferedRun(Run):
    """A run in a process that does not write; it holds rows until the writing process takes them."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._rows: list[tuple[str, dict[str, Any]]] = []

    def append(self, name: str, row: Mapping[str, Any]) -> None:
        """Hold the row."""
        self._rows.append((name, dict(row)))

    def take(self) -> list[tuple[str, dict[str, Any]]]:
        """Return all rows with the names of their files, and forget them."""
        rows, self._rows = self._rows, []
        return rows


def trained_model(path: Path) -> Path | None:
    """Return the model directory at a path: itself, or the last trained model of a run; None if there is no model.

    A model that was saved and has lost its weights is a `RunError`: an earlier one of its run must not stand in for it.
    """
    for candidate in (path, *(path / name for name in reversed(stages_at(path)))):
        if has_weights(candidate):
            return candidate
        left = [candidate / SEAL_FILE]
        if candidate != path:
            left += [candidate / name for name in ("config.json", "adapter_config.json")]
            left.append(path / "eval" / f"{candidate.name}.json")
        if any(file.is_file() for file in left):
            check_has_weights(candidate)
    return None


def stages_at(directory: Path) -> tuple[str, ...]:
    """Return the stages of the run in a directory, in order; of one from before runs had stages, all kinds."""
    path = directory / "config.json"
    stages = read_object(path).get("stages") if path.is_file() else None
    if isinstance(stages, list):
        return tuple(name for name in stages if isinstance(name, str) and is_stage(name))
    return tuple(KIND_NAMES)


def boards_file(directory: Path, stage: str) -> Path:
    """Return the file of a run with the usable boards of a stage's starts.file.

    They are stored so that a resumed training draws from the same.
    """
    return directory / f"boards-{stage}.jsonl"


def has_weights(model_directory: Path) -> bool:
    """True if a directory holds the weights of a model or an adapter."""
    return any((model_directory / name).is_file() for name in WEIGHTS)


def check_has_weights(model_directory: Path) -> None:
    """Raise a `RunError` if the directory of a model that was saved has no weights."""
    if not has_weights(model_directory):
        is_adapter = (model_directory / "adapter_config.json").is_file()
        raise RunError(
            f"{model_directory / WEIGHTS[-1 if is_adapter else 0]} is missing; restore it, delete {model_directory} to "
            "train that model again, or name another model"
        )


def check_place(directory: Path) -> None:
    """Check that a run can begin or resume here: a run, or a directory without any part of one."""
    if directory.exists() and not directory.is_dir():
        raise RunError(f"{directory} is a file, not a run directory; name another --out")
    # A kill can leave the manifest alone, which is written first.
    found = [part.name for part in parts_of(directory) if part.exists() and part.name != "manifest.json"]
    if found and not is_run(directory):
        lost = next(name for name in _OF_EVERY_RUN if not (directory / name).is_file())
        raise RunError(
            f"{directory} holds {found[-1]} but no {lost}, so it is no run; restore it, or name another --out"
        )


def is_run(directory: Path) -> bool:
    """True if a directory holds a run."""
    return all((directory / name).is_file() for name in _OF_EVERY_RUN)


def parts_of(directory: Path) -> list[Path]:
    """List the paths that a run writes into its directory; those that `is_run` checks come last."""
    names = sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []
    boards = [name for name in names if name.startswith("boards-") and name.endswith(".jsonl")]
    teacher = (
        "traces.jsonl",
        TRACES_SEAL_FILE,
        OWN_TEACHER_FILE,
        VALIDATION_GAMES_FILE,
        VALIDATION_SECRETS_FILE,
        *boards,
    )
    text = (PLAIN_TEXT_FILE, "plain_text.json")
    trained = (*text, VALIDATION_SECRETS_FILE, *boards, *LOG_FILES, "timings.json", *filter(is_stage, names))
    figures = ("eval", CONTROLS, ENGLISH_FILE, "results.json", "strata.json", "report.html", "watch.html")
    return [directory / name for name in (*teacher, *trained, *figures, *_OF_EVERY_RUN)]


def check_removable(directory: Path) -> None:
    """Check that a directory can be started over: it is empty, or a run."""
    if directory.exists() and not is_run(directory) and (not directory.is_dir() or any(directory.iterdir())):
        raise RunError(f"{directory} is not a run directory, so it is not removed; name another --out")


def reset_run(directory: Path) -> None:
    """Remove a run that no other process works on; other files in its directory stay."""
    check_removable(directory)
    if not directory.exists():
        return
    with exclusive_lock(directory / LOCK_FILE):
        for part in parts_of(directory):
            if part.is_dir() and not part.is_symlink():
                shutil.rmtree(part)
            else:
                part.unlink(missing_ok=True)
