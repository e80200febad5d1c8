"""Experiment trackers: metrics and sample games to trackio, Weights & Biases (wandb) and TensorBoard.

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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from wordle_rl.config.base import ConfigError
from wordle_rl.errors import first_line
from wordle_rl.runs.atomic_files import write_text_atomically
from wordle_rl.runs.distributed import is_first

if TYPE_CHECKING:
    from wordle_rl.runs.run import Run  # which holds a `Tracking`

Game = Mapping[str, Any]
"""A row of games.jsonl."""

COLUMNS = ("step", "stage", "secret", "won", "guesses", "reward", "components", "board")
"""The columns of a table of games."""

WANDB_ID_FILE = ".wandb_run"
"""Holds the id of a stage's wandb run. Hidden, so it is not pushed to the hub with the model."""

_PACKAGES = {"trackio": ("trackio", "pandas"), "wandb": ("wandb",), "tensorboard": ("tensorboard",)}
_DEFAULT_PROJECT = "huggingface"  # as transformers names it
_GLOBAL_STEP = "train/global_step"
_SQUARES = str.maketrans({"G": "🟩", "Y": "🟨", "X": "⬛"})


@dataclass(frozen=True)
class Tracking:
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
            >>> Tracking.named(Path("runs/mine"), None, None).run
            'mine'
        """
        in_project, _, run = (project or "").partition("/")
        return cls(run or directory.resolve().name, in_project or None, space)


class Tracker(Protocol):
    """An open run of a tracker, for one stage."""

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Send the metrics of a step; see `metric_names`."""

    def add_games(self, step: int, games: Sequence[Game]) -> None:
        """Show games, at least one and all of one stage."""

    def close(self) -> None:
        """Send what is left and end the run."""


def check_trackers(report_to: Sequence[str], tracking: Tracking) -> None:
    """Check that all trackers can be opened, without creating anything; one line names all problems.

    This uses the network for wandb's key (unless WANDB_MODE is disabled or offline) and for a Space's token. In a
    terminal, wandb asks for a missing key.
    """
    problems = []
    for name in dict.fromkeys(report_to):
        try:
            package = _package(name)
            if name == "wandb" and is_first() and package.run is None:
                with _refused("report_to 'wandb' has no valid key", package.Error, OSError, ValueError):
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
    names, settings = run.tracking, run.directory / "config.json"
    with ExitStack() as to_close:
        trackers: list[Tracker] = []
        for name in dict.fromkeys(report_to if is_first() else ()):
            config = json.loads(settings.read_text(encoding="utf-8")) if settings.is_file() else {}
            package, title = _package(name), f"{names.run}-{stage}"
            tracker: Tracker
            if name == "wandb":
                tracker = WandbTracker(package, names, title, directory, config)
            elif name == "trackio":
                tracker = TrackioTracker(package, names, title, config)
            else:
                tracker = TensorBoardTracker(directory, config)
            to_close.callback(tracker.close)
            trackers.append(tracker)
        yield trackers


class GameLog:
    """Write sample games to games.jsonl of a run and to trackers."""

    def __init__(self, run: Run, trackers: Sequence[Tracker] = ()) -> None:
        self.run, self._trackers = run, tuple(trackers)

    def add(self, stage: str, step: int, games: Iterable[Game]) -> None:
        """Write games of one stage and step."""
        rows = [{"stage": stage, "step": step, **game} for game in games]
        for row in rows:
            self.run.append("games.jsonl", row)
        if rows:
            for tracker in self._trackers:
                tracker.add_games(step, rows)

    def detach_trackers(self) -> None:
        """Write only to games.jsonl from now on, since the trackers' runs have ended."""
        self._trackers = ()


class WandbTracker:
    """A Weights & Biases run. If your program has already opened one, it is used instead and stays open."""

    def __init__(self, wandb: Any, names: Tracking, name: str, directory: Path, config: Mapping[str, Any]) -> None:
        self._wandb, self._is_ours = wandb, wandb.run is None
        project = names.project or os.environ.get("WANDB_PROJECT", _DEFAULT_PROJECT)
        with _refused("report_to 'wandb' cannot be opened", wandb.Error, OSError, ValueError):
            self._run = wandb.run or wandb.init(
                project=project, name=name, id=_wandb_id(name, directory), resume="allow"
            )
        self._run.config.update(dict(config), allow_val_change=True)
        # By default wandb's x-axis counts calls of `log`, and a step can have two. Use our steps instead.
        self._run.define_metric(_GLOBAL_STEP)
        self._run.define_metric("*", step_metric=_GLOBAL_STEP, step_sync=True)

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Send the metrics of a step."""
        self._run.log({**metric_names(numbers), _GLOBAL_STEP: step})

    def add_games(self, step: int, games: Sequence[Game]) -> None:
        """Send a table of games."""
        table = self._wandb.Table(columns=list(COLUMNS), data=_table_rows(games))
        self._run.log({_tag(games): table, _GLOBAL_STEP: step})

    def close(self) -> None:
        """End the run, unless it was open before."""
        if self._is_ours:
            self._run.finish()


class TrackioTracker:
    """A trackio run."""

    def __init__(self, trackio: Any, names: Tracking, name: str, config: Mapping[str, Any]) -> None:
        self._trackio, self._pandas = trackio, importlib.import_module("pandas")
        where = "" if names.space is None else f" with report_to: trackio's Space {names.space!r}"
        with _refused(f"report_to 'trackio'{where} cannot be opened", *_hub_errors(), ValueError, RuntimeError):
            trackio.init(
                project=names.project or _DEFAULT_PROJECT,
                name=name,
                space_id=names.space,
                config=dict(config),
                resume="allow",
            )

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Send the metrics of a step."""
        self._trackio.log({**metric_names(numbers), _GLOBAL_STEP: step})

    def add_games(self, step: int, games: Sequence[Game]) -> None:
        """Send a table of games."""
        frame = self._pandas.DataFrame(_table_rows(games), columns=list(COLUMNS))  # all that older releases accept
        self._trackio.log({_tag(games): self._trackio.Table(dataframe=frame), _GLOBAL_STEP: step})

    def close(self) -> None:
        """Send what is left and end the run."""
        self._trackio.finish()


class TensorBoardTracker:
    """TensorBoard files in `tensorboard/` of the stage's directory, with a page of games per step."""

    def __init__(self, directory: Path, config: Mapping[str, Any]) -> None:
        writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter
        with _refused("report_to 'tensorboard' cannot be opened", OSError, ValueError):
            self._writer = writer(log_dir=str(directory / "tensorboard"))
        if config:
            self._writer.add_text("config", _as_code(json.dumps(config, indent=2)))

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Write the metrics of a step."""
        for name, number in metric_names(numbers).items():
            self._writer.add_scalar(name, number, step)
        self._writer.flush()

    def add_games(self, step: int, games: Sequence[Game]) -> None:
        """Write a page of text."""
        pages = []
        for game in games:
            facts = f"won in {game['turns_used']}" if game["won"] else "lost"
            if game.get("reward") is not None:
                facts += f", reward {game['reward']:.4g} ({components_text(game)})"
            pages.append(f"**{game['secret'].upper()}**: {facts}\n\n{_as_code(board_text(game))}")
        self._writer.add_text(_tag(games), "\n\n".join(pages), step)
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()


def metric_names(numbers: Mapping[str, float]) -> dict[str, float]:
    """Rename metrics as transformers names them in trackers.

    Examples:
        >>> metric_names({"loss": 0.5, "validation_loss": 0.7, "eval_mean_token_accuracy": 0.8})
        {'train/loss': 0.5, 'eval/loss': 0.7, 'eval/mean_token_accuracy': 0.8}
    """
    found = ((re.fullmatch("(?:validation_|eval_)(.+)", name), name, number) for name, number in numbers.items())
    return {f"eval/{held_out[1]}" if held_out else f"train/{name}": number for held_out, name, number in found}


def _table_rows(games: Sequence[Game]) -> list[list[Any]]:
    return [
        [
            game["step"],
            game["stage"],
            game["secret"],
            bool(game["won"]),
            game["turns_used"],
            game.get("reward"),
            components_text(game),
            board_text(game),
        ]
        for game in games
    ]


def board_text(game: Game) -> str:
    """Format a game as lines of text, with marks as letters and squares.

    Examples:
        >>> print(board_text({"turns": [{"guess": "crane", "marks": "XYGXX", "outcome": "scored"}]}))
        CRANE XYGXX ⬛🟨🟩⬛⬛
    """
    lines = []
    for turn in game["turns"]:
        marks = turn["marks"]
        said = f"{marks} {marks.translate(_SQUARES)}" if marks else f"({turn['outcome'].replace('_', ' ')})"
        lines.append(f"{(turn['guess'] or '–').upper()} {said}" + (" (given)" if turn.get("given") else ""))
    return "\n".join(lines)


def components_text(game: Game) -> str:
    """Format the reward components, unweighted and summed over turns; those that are 0 are left out.

    Examples:
        >>> components_text({"turns": [{"components": {"win": 0.0}}, {"components": {"win": 1.0, "speed": 0.5}}]})
        'win 1, speed 0.5'
    """
    totals: Counter[str] = Counter()
    for turn in game["turns"]:
        for name, value in turn.get("components", {}).items():
            totals[name] += value
    return ", ".join(f"{name} {total:.4g}" for name, total in totals.items() if total)


def _as_code(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())  # indented lines are code in Markdown


def _tag(games: Sequence[Game]) -> str:
    return f"games/{games[0]['stage']}"


def _package(tracker: str) -> Any:
    missing = f"report_to {tracker!r} needs packages that are not installed: pip install {' '.join(_PACKAGES[tracker])}"
    try:
        modules = [importlib.import_module(name) for name in _PACKAGES[tracker]]
    except ImportError as error:
        raise ConfigError(f"{missing} ({first_line(error)})") from None
    if getattr(modules[0], "__file__", None) is None:  # a folder `wandb/` of an earlier run is a namespace package
        raise ConfigError(missing)
    return modules[0]


def _check_space(space: str) -> None:
    # If trackio cannot create the Space, it only warns and writes local files. So check the token beforehand.
    import huggingface_hub

    with _refused(f"report_to trackio:{space} cannot be checked on the hub", *_hub_errors()):
        user = huggingface_hub.HfApi().whoami()
    if user.get("auth", {}).get("accessToken", {}).get("role") == "read":
        raise ConfigError(f"report_to trackio:{space}: the token can only read; set HF_TOKEN to one that can write")
    owners = [user["name"], *(organization["name"] for organization in user.get("orgs", []))]
    owner, _, name = space.partition("/")
    if not name or owner.lower() not in map(str.lower, owners):
        raise ConfigError(f"report_to trackio:{space}: give trackio:USER/SPACE; the token is for {', '.join(owners)}")


def _hub_errors() -> tuple[type[Exception], ...]:
    # The HTTP library differs between releases of huggingface_hub.
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # of the HTTP library it uses

    return OSError, HTTPError


@contextmanager
def _refused(problem: str, *failures: type[Exception]) -> Iterator[None]:
    try:
        yield
    except failures as error:
        raise ConfigError(f"{problem} ({first_line(error)}); fix that, or leave out the setting") from error


def _wandb_id(name: str, directory: Path) -> str:
    # The id is created once and kept in the directory. A name alone would let a new training (--overwrite, or another
    # directory) continue an old run.
    file = directory / WANDB_ID_FILE
    if not file.is_file():
        word = re.sub(r"[^\w.-]", "-", name, flags=re.ASCII)[:100]  # wandb takes 128 characters, none of / \ # ? % :
        write_text_atomically(file, f"{word}-{secrets.token_hex(4)}\n")
    return file.read_text(encoding="utf-8").strip()
