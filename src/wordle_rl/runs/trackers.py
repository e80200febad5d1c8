"""Experiment trackers: metrics and sample games to trackio, Weights & Biases (wandb) and TensorBoard.

`GameLog` writes the sample games to games.jsonl, too.

The packages are optional and imported only if `report_to` names them. Metrics have the names that transformers'
trainers use, so their dashboards work for our runs as well.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wordle_rl.config.base import ConfigError
from wordle_rl.errors import first_line
from wordle_rl.prompt.english import SYMBOLS
from wordle_rl.runs.atomic_files import write_text_atomically
from wordle_rl.runs.distributed import is_first
from wordle_rl.runs.run import Run, Tracking

COLUMNS = ("step", "stage", "secret", "won", "guesses", "reward", "components", "board")
"""The columns of a table of games."""
Rows = Sequence[Sequence[Any]]
"""Sample games as rows of `COLUMNS`."""
_PACKAGES = {"trackio": ("trackio", "pandas"), "wandb": ("wandb",), "tensorboard": ("tensorboard",)}
_GLOBAL_STEP = "train/global_step"


@dataclass(frozen=True)
class Tracker:
    """An open run of a tracker, for one stage."""

    log: Callable[[int, Mapping[str, float]], object]
    """Send the metrics of a step."""
    add_games: Callable[[int, str, Rows], object]
    """Show games of a step and stage, as rows."""
    close: Callable[[], object]
    """Send what is left and end the run."""


class GameLog:
    """Write sample games to games.jsonl of a run and to trackers."""

    def __init__(self, run: Run, trackers: Sequence[Tracker] = ()) -> None:
        self.run, self._trackers = run, tuple(trackers)

    def add(self, stage: str, step: int, games: Iterable[Mapping[str, Any]]) -> None:
        """Write games of one stage and step."""
        rows = []
        for game in games:
            self.run.append("games.jsonl", {"stage": stage, "step": step, **game})
            paid = {"reward": game.get("reward"), "components": components_text(game), "board": board_text(game)}
            shown = {**game, **paid, "step": step, "stage": stage, "guesses": game["turns_used"]}
            rows.append([shown[column] for column in COLUMNS])
        for tracker in self._trackers if rows else ():
            tracker.add_games(step, stage, rows)

    def detach_trackers(self) -> None:
        """Write only to games.jsonl from now on, since the trackers' runs have ended."""
        self._trackers = ()


def check_trackers(report_to: Sequence[str], tracking: Tracking) -> None:
    """Check that all trackers can be opened, without creating anything; one line names all problems.

    Uses the network for wandb's key, unless WANDB_MODE is disabled or offline, and for the token of a Space.
    """
    problems = []
    for name in dict.fromkeys(report_to):
        try:
            package = _package(name)
            if name == "wandb" and is_first() and package.run is None:
                with _refused("report_to 'wandb' has no valid key", *_failures(name, package)):
                    package.login()
            if name == "trackio" and tracking.space is not None:
                _check_space(tracking.space)
        except ConfigError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError("; ".join(problems))


@contextmanager
def opened_trackers(run: Run, report_to: Sequence[str], stage: str, directory: Path) -> Iterator[list[Tracker]]:
    """Open a run in each tracker, in the first process only; a resumed training continues its runs.

    The stage's directory holds TensorBoard's files and the id of the wandb run.
    """
    file = run.directory / "config.json"
    config = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    openers = {"wandb": _open_wandb, "trackio": _open_trackio, "tensorboard": _open_tensorboard}
    with ExitStack() as to_close:
        trackers: list[Tracker] = []
        for name in dict.fromkeys(report_to if is_first() else ()):
            package, names = _package(name), run.tracking._replace(run=f"{run.tracking.run}-{stage}")
            with _refused(f"report_to {name!r} cannot be opened", *_failures(name, package)):
                trackers.append(openers[name](package, names, directory, config))
            to_close.callback(trackers[-1].close)
        yield trackers


def _dashboard(send: Callable[[Any], object], table: Callable[[Rows], object], finish: Callable[[], object]) -> Tracker:
    # wandb and trackio are called alike, but for their tables.
    return Tracker(
        lambda step, numbers: send({**metric_names(numbers), _GLOBAL_STEP: step}),
        lambda step, stage, rows: send({f"games/{stage}": table(rows), _GLOBAL_STEP: step}),
        finish,
    )


def _open_wandb(wandb: Any, names: Tracking, directory: Path, config: Mapping[str, Any]) -> Tracker:
    # A run that the user's program has opened already is used, and stays open.
    is_ours = wandb.run is None
    # The id is created once and kept in the stage's directory, hidden so that it is not pushed to the hub. A name alone
    # would let a new training (--overwrite, or another directory) continue an old run.
    kept = directory / ".wandb_run"
    if is_ours and not kept.is_file():
        word = re.sub(r"[^\w.-]", "-", names.run, flags=re.ASCII)[:100]  # wandb takes 128 characters, none of /\#?%:
        write_text_atomically(kept, f"{word}-{secrets.token_hex(4)}\n")
    run = wandb.run or wandb.init(
        project=names.project or os.environ.get("WANDB_PROJECT", "huggingface"),
        name=names.run,
        id=kept.read_text(encoding="utf-8").strip(),
        resume="allow",
    )
    run.config.update(dict(config), allow_val_change=True)
    # By default wandb's x-axis counts calls of `log`, and a step can have two. Use our steps instead.
    run.define_metric(_GLOBAL_STEP)
    run.define_metric("*", step_metric=_GLOBAL_STEP, step_sync=True)
    finish = run.finish if is_ours else lambda: None
    return _dashboard(run.log, lambda rows: wandb.Table(columns=[*COLUMNS], data=[*rows]), finish)


def _open_trackio(trackio: Any, names: Tracking, _: Path, config: Mapping[str, Any]) -> Tracker:
    frame = importlib.import_module("pandas").DataFrame  # the only form of a table that all releases take
    project = names.project or "huggingface"
    trackio.init(project=project, name=names.run, space_id=names.space, config=dict(config), resume="allow")
    return _dashboard(
        trackio.log, lambda rows: trackio.Table(dataframe=frame([*rows], columns=[*COLUMNS])), trackio.finish
    )


def _open_tensorboard(_: Any, _names: Tracking, directory: Path, config: Mapping[str, Any]) -> Tracker:
    writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter(log_dir=str(directory / "tensorboard"))
    if config:
        writer.add_text("config", _as_code(json.dumps(config, indent=2)))

    def log(step: int, numbers: Mapping[str, float]) -> None:
        for name, number in metric_names(numbers).items():
            writer.add_scalar(name, number, step)
        writer.flush()

    def add_games(step: int, stage: str, rows: Rows) -> None:
        pages = []
        for row in rows:
            *facts, (_, board) = zip(COLUMNS, row, strict=True)
            pages += [", ".join(f"{name}: {value}" for name, value in facts), _as_code(board)]
        writer.add_text(f"games/{stage}", "\n\n".join(pages), step)
        writer.flush()

    return Tracker(log, add_games, writer.close)


def metric_names(numbers: Mapping[str, float]) -> dict[str, float]:
    """Rename metrics as transformers names them in trackers.

    Examples:
        >>> metric_names({"loss": 0.5, "validation_loss": 0.7, "eval_mean_token_accuracy": 0.8})
        {'train/loss': 0.5, 'eval/loss': 0.7, 'eval/mean_token_accuracy': 0.8}
    """
    named = {re.sub("^(?:validation_|eval_)", "eval/", name): number for name, number in numbers.items()}
    return {name if name.startswith("eval/") else f"train/{name}": number for name, number in named.items()}


def board_text(game: Mapping[str, Any]) -> str:
    """Format a game as lines of text, with marks as letters and squares.

    Examples:
        >>> print(board_text({"turns": [{"guess": "crane", "marks": "XYGXX", "outcome": "scored"}]}))
        CRANE XYGXX ⬛🟨🟩⬛⬛
    """
    lines = []
    for turn in game["turns"]:
        guess, marks = (turn["guess"] or "–").upper(), turn["marks"]
        said = SYMBOLS.line(f"{guess} {marks}", marks) if marks else f"{guess} ({turn['outcome'].replace('_', ' ')})"
        lines.append(said + (" (given)" if turn.get("given") else ""))
    return "\n".join(lines)


def components_text(game: Mapping[str, Any]) -> str:
    """Format the reward components, unweighted and summed over turns; those that are 0 are left out.

    Examples:
        >>> components_text({"turns": [{"components": {"win": 0.0}}, {"components": {"win": 1.0, "speed": 0.5}}]})
        'win 1, speed 0.5'
    """
    totals: Counter[str] = Counter()
    for turn in game["turns"]:
        totals.update(turn.get("components", {}))
    return ", ".join(f"{name} {total:.4g}" for name, total in totals.items() if total)


def _as_code(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())  # indented lines are code in Markdown


def _package(tracker: str) -> Any:
    missing = f"report_to {tracker!r} needs packages that are not installed: pip install {' '.join(_PACKAGES[tracker])}"
    try:
        modules = [importlib.import_module(name) for name in _PACKAGES[tracker]]
    except ImportError as error:
        raise ConfigError(f"{missing} ({first_line(error)})") from None
    if getattr(modules[0], "__file__", None) is None:  # a folder `wandb/` of an earlier run is a namespace package
        raise ConfigError(missing)
    return modules[0]


def _failures(tracker: str, package: Any = None) -> tuple[type[Exception], ...]:
    # What a tracker raises where the network, a key or a name is to blame.
    if tracker != "trackio":
        return OSError, ValueError, *([package.Error] if tracker == "wandb" else [])
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # of whatever HTTP library it uses

    return OSError, ValueError, RuntimeError, HTTPError


def _check_space(space: str) -> None:
    # If trackio cannot create the Space, it only warns and writes local files. So check the token beforehand.
    import huggingface_hub

    with _refused(f"report_to trackio:{space} cannot be checked on the hub", *_failures("trackio")):
        user = huggingface_hub.HfApi().whoami()
    if user.get("auth", {}).get("accessToken", {}).get("role") == "read":
        raise ConfigError(f"report_to trackio:{space}: the token can only read; set HF_TOKEN to one that can write")
    owners = [user["name"], *(organization["name"] for organization in user.get("orgs", []))]
    owner, _, name = space.partition("/")
    if not name or owner.lower() not in map(str.lower, owners):
        raise ConfigError(f"report_to trackio:{space}: give trackio:USER/SPACE; the token is for {', '.join(owners)}")


@contextmanager
def _refused(problem: str, *failures: type[Exception]) -> Iterator[None]:
    try:
        yield
    except failures as error:
        raise ConfigError(f"{problem} ({first_line(error)}); fix that, or leave out the setting") from error
