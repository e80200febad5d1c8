"""Experiment trackers: metrics and sample games to trackio, Weights & Biases (wandb) and TensorBoard.

    check_trackers   check before a run that all trackers can be opened
    open_trackers    the trackers of one stage, each with a run of its own
    GameLog          sample games, to games.jsonl and to open trackers

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

from wordle_rl.config import ConfigError
from wordle_rl.prompt import Prompter
from wordle_rl.runs.distributed import is_first
from wordle_rl.runs.files import write_text_atomically
from wordle_rl.runs.game_traces import facts_of, messages_of

if TYPE_CHECKING:
    from wordle_rl.runs.run import Run  # which holds a `Tracking`

Game = Mapping[str, Any]
"""A row of games.jsonl: stage, step, secret, won, turns, turns used, and the reward if there is one."""

COLUMNS = ("step", "stage", "secret", "won", "guesses", "reward", "components", "board")
"""The columns of a table of games."""

WANDB_ID_FILE = ".wandb_run"
"""Holds the id of a stage's wandb run. Hidden, so it is not pushed to the hub with the model."""

_PACKAGES = {
    "trackio": ("trackio", "pandas"),
    "wandb": ("wandb",),
    "tensorboard": ("tensorboard", "torch.utils.tensorboard"),
}
"""Packages to import, by tracker."""

_DEFAULT_PROJECT = "huggingface"  # as transformers names it
_GLOBAL_STEP = "train/global_step"
_VALIDATION = ("validation_", "eval_")  # prefix of held-out metrics in metrics.jsonl, and in transformers

_SQUARES = str.maketrans({"G": "🟩", "Y": "🟨", "X": "⬛"})


@dataclass(frozen=True)
class Tracking:
    """Names of a run in trackers.

    Attributes:
        run: Name of the run; each stage appends its own.
        project: Name of the project. None: the tracker's default.
        space: Hub Space that shows trackio's runs. None: none.
    """

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

    def run_name(self, stage: str) -> str:
        """Return the name of a stage's run, such as `first-grpo`."""
        return f"{self.run}-{stage}"


class Tracker(Protocol):
    """An open run of a tracker, for one stage."""

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Send the metrics of a step; see `metric_names`."""

    def add_games(self, step: int, games: Sequence[Game]) -> None:
        """Show games, at least one and all of one stage."""

    def close(self) -> None:
        """Send what is left and end the run."""


def check_trackers(report_to: Sequence[str], tracking: Tracking) -> None:
    """Check that all trackers can be opened, without creating anything.

    This uses the network for wandb's key (unless WANDB_MODE is disabled or offline) and for a Space's token. In a
    terminal, wandb asks for a missing key.

    Raises:
        ConfigError: If a package is missing, wandb has no valid key, `tracking.space` is not USER/SPACE, or the token
            cannot write there. One line names all problems.
    """
    problems = []
    for name in dict.fromkeys(report_to):
        try:
            package = _package(name)
            if name == "wandb":
                _check_wandb_key(package)
            if name == "trackio" and tracking.space is not None:
                _check_space(tracking.space)
        except ConfigError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError("; ".join(problems))


def open_trackers(
    report_to: Sequence[str],
    tracking: Tracking,
    stage: str,
    directory: Path,
    *,
    config: Mapping[str, Any] | None = None,
    prompter: Prompter | None = None,
) -> list[Tracker]:
    """Open a run in each tracker; a resumed training continues its runs.

    Args:
        report_to: Names of trackers: `trackio`, `wandb`, `tensorboard`.
        tracking: Names of project and run.
        stage: The stage, such as `sft`.
        directory: Directory of the stage, for TensorBoard's files and the id of the wandb run.
        config: Settings to show with the run.
        prompter: Wording of the games' prompts, for conversations in trackio. None: tables only.

    Returns:
        The open trackers; none in processes other than the first.

    Raises:
        ConfigError: If one cannot be opened; the others are closed.
    """
    if not is_first():
        return []
    shown = json.loads(json.dumps(dict(config or {}), default=str))  # paths and enums as text
    opened: list[Tracker] = []
    with ExitStack() as to_close:
        for name in dict.fromkeys(report_to):
            _package(name)
            tracker: Tracker
            if name == "trackio":
                tracker = TrackioTracker(tracking, stage, shown, prompter)
            elif name == "wandb":
                tracker = WandbTracker(tracking, stage, directory, shown)
            else:
                tracker = TensorBoardTracker(tracking, stage, directory, shown)
            to_close.callback(tracker.close)
            opened.append(tracker)
        to_close.pop_all()
    return opened


@contextmanager
def opened_trackers(
    run: Run, report_to: Sequence[str], stage: str, directory: Path, prompter: Prompter | None = None
) -> Iterator[list[Tracker]]:
    """Open the trackers of a stage in the first process, for as long as the context lasts."""
    trackers: list[Tracker] = []
    if report_to and is_first():
        settings = run.directory / "config.json"
        config = json.loads(settings.read_text(encoding="utf-8")) if settings.is_file() else None
        trackers = open_trackers(report_to, run.tracking, stage, directory, config=config, prompter=prompter)
    try:
        yield trackers
    finally:
        for tracker in trackers:
            tracker.close()


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
    """A Weights & Biases run, with a table of games per step.

    The project is that of `tracking`, or WANDB_PROJECT. If your program has already opened a run, it is used instead
    and stays open.
    """

    def __init__(self, tracking: Tracking, stage: str, directory: Path, config: Mapping[str, Any]) -> None:
        self._wandb = importlib.import_module("wandb")
        self._is_ours = self._wandb.run is None
        with _refused("report_to 'wandb' cannot be opened", self._wandb.Error, OSError, ValueError):
            name = tracking.run_name(stage)
            self._run = self._wandb.run or self._wandb.init(
                project=tracking.project or os.environ.get("WANDB_PROJECT", _DEFAULT_PROJECT),
                name=name,
                id=_wandb_id(name, directory),
                resume="allow",
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
        table = self._wandb.Table(columns=list(COLUMNS), data=table_rows(games))
        self._run.log({_tag(games): table, _GLOBAL_STEP: step})

    def close(self) -> None:
        """End the run, unless it was open before."""
        if self._is_ours:
            self._run.finish()


class TrackioTracker:
    """A trackio run, with a table of games per step, and a trace per game if the release has traces."""

    def __init__(self, tracking: Tracking, stage: str, config: Mapping[str, Any], prompter: Prompter | None) -> None:
        self._trackio, self._pandas = importlib.import_module("trackio"), importlib.import_module("pandas")
        self._make_trace, self._prompter = getattr(self._trackio, "Trace", None), prompter
        where = "" if tracking.space is None else f" with report_to: trackio's Space {tracking.space!r}"
        with _refused(f"report_to 'trackio'{where} cannot be opened", *_hub_errors(), ValueError, RuntimeError):
            self._trackio.init(
                project=tracking.project or _DEFAULT_PROJECT,
                name=tracking.run_name(stage),
                space_id=tracking.space,
                config=dict(config),
                resume="allow",
            )

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Send the metrics of a step."""
        self._trackio.log({**metric_names(numbers), _GLOBAL_STEP: step})

    def add_games(self, step: int, games: Sequence[Game]) -> None:
        """Send a table of games and their traces."""
        # Older releases accept only data frames.
        frame = self._pandas.DataFrame(table_rows(games), columns=list(COLUMNS))
        shown = {_tag(games): self._trackio.Table(dataframe=frame), _GLOBAL_STEP: step}
        if self._make_trace is not None and self._prompter is not None:
            conversations = [(messages_of(game, self._prompter), facts_of(game)) for game in games]
            traces = [self._make_trace(messages, facts) for messages, facts in conversations]
            shown[f"traces/{games[0]['stage']}"] = traces
        self._trackio.log(shown)

    def close(self) -> None:
        """Send what is left and end the run."""
        self._trackio.finish()


class TensorBoardTracker:
    """TensorBoard files, with a page of games per step.

    They go to `tensorboard/` in the stage's directory, or to TENSORBOARD_LOGGING_DIR under the name of the run.
    """

    def __init__(self, tracking: Tracking, stage: str, directory: Path, config: Mapping[str, Any]) -> None:
        writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter
        place = os.environ.get("TENSORBOARD_LOGGING_DIR")
        if place:  # a string, since a Path would break gs://bucket
            place = f"{os.path.expanduser(place)}/{tracking.run_name(stage)}"  # noqa: PTH111
        with _refused("report_to 'tensorboard' cannot be opened", OSError, ValueError):
            self._writer = writer(log_dir=place or str(directory / "tensorboard"))
        if config:  # indented lines are code in Markdown
            lines = json.dumps(config, indent=2).splitlines()
            self._writer.add_text("config", "\n".join(f"    {line}" for line in lines))

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Write the metrics of a step."""
        for name, number in metric_names(numbers).items():
            self._writer.add_scalar(name, number, step)
        self._writer.flush()

    def add_games(self, step: int, games: Sequence[Game]) -> None:
        """Write a page of text."""
        self._writer.add_text(_tag(games), "\n\n".join(map(as_markdown, games)), step)
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
    named = {}
    for name, number in numbers.items():
        prefix = next((prefix for prefix in _VALIDATION if name.startswith(prefix)), None)
        named[f"train/{name}" if prefix is None else f"eval/{name.removeprefix(prefix)}"] = number
    return named


def table_rows(games: Sequence[Game]) -> list[list[Any]]:
    """Convert games to rows of COLUMNS; the reward is None if there is none."""
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
    return "\n".join(map(_turn_text, game["turns"]))


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


def as_markdown(game: Game) -> str:
    """Format a game as a heading and its board."""
    end = f"won in {game['turns_used']}" if game["won"] else "lost"
    facts = [end]
    if game.get("alpha", 1.0) < 1:
        facts.append(f"weights {100 * game['alpha']:g} % of the way")
    if game.get("reward") is not None:
        shares = components_text(game)
        facts.append(f"reward {game['reward']:.4g}" + (f" ({shares})" if shares else ""))
    lines = [f"    {line}" for line in board_text(game).splitlines()]
    return "\n".join([f"**{game['secret'].upper()}**: {', '.join(facts)}", "", *lines])


def _turn_text(turn: Mapping[str, Any]) -> str:
    word = (turn["guess"] or "–").upper()
    marks = turn["marks"]
    said = f"{marks} {marks.translate(_SQUARES)}" if marks else f"({turn['outcome'].replace('_', ' ')})"
    return f"{word} {said}" + (" (given)" if turn.get("given") else "")


def _tag(games: Sequence[Game]) -> str:
    return f"games/{games[0]['stage']}"


def _package(tracker: str) -> Any:
    if tracker not in _PACKAGES:
        raise ConfigError(f"report_to {tracker!r} is not a tracker; choose from {', '.join(_PACKAGES)}")
    modules = []
    for package in _PACKAGES[tracker]:
        name = package.partition(".")[0]
        missing = f"report_to {tracker!r} needs a package that is not installed: pip install {name}"
        try:
            module = importlib.import_module(package)
        except ModuleNotFoundError as error:
            if error.name not in (name, package):  # a dependency of the package is missing
                raise ConfigError(f"report_to {tracker!r}: {name} cannot be imported ({error})") from None
            raise ConfigError(missing) from None
        except ImportError as error:
            raise ConfigError(f"report_to {tracker!r}: {name} cannot be imported ({_first_line(error)})") from None
        if getattr(module, "__file__", None) is None:  # a folder `wandb/` of an earlier run is a namespace package
            raise ConfigError(missing)
        modules.append(module)
    return modules[0]


def _check_wandb_key(wandb: Any) -> None:
    # Recent releases ask the server whether the key is valid; older ones only look for one.
    if is_first() and wandb.run is None:
        with _refused("report_to 'wandb' has no valid key", wandb.Error, OSError, ValueError):
            wandb.login()


def _check_space(space: str) -> None:
    # If trackio cannot create the Space, it only warns and writes local files. So check name and token beforehand.
    import huggingface_hub
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # it is, though its module does not say so

    try:
        validate_repo_id(space)
        is_valid = space.count("/") == 1
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ConfigError(
            f"report_to trackio:{space} is not the name of a Space; give USER/SPACE with letters, digits, '-', '_', '.'"
        )
    with _refused(f"report_to trackio:{space} cannot be checked on the hub", *_hub_errors()):
        user = huggingface_hub.HfApi().whoami()
    if user.get("auth", {}).get("accessToken", {}).get("role") == "read":
        raise ConfigError(f"report_to trackio:{space}: the token can only read; set HF_TOKEN to one that can write")
    owners = [user["name"], *(organization["name"] for organization in user.get("orgs", []))]
    if space.partition("/")[0].lower() not in map(str.lower, owners):
        raise ConfigError(
            f"report_to trackio:{space}: the token is for Spaces of {', '.join(owners)}; name one of those"
        )


def _hub_errors() -> tuple[type[Exception], ...]:
    # The HTTP library differs between releases of huggingface_hub.
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # of the HTTP library it uses

    return OSError, HTTPError


@contextmanager
def _refused(problem: str, *failures: type[Exception]) -> Iterator[None]:
    try:
        yield
    except failures as error:
        raise ConfigError(f"{problem} ({_first_line(error)}); fix that, or leave out the setting") from error


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _wandb_id(name: str, directory: Path) -> str:
    # The id is created once and kept in the directory. A name alone would let a new training (--overwrite, or another
    # directory) continue an old run.
    file = directory / WANDB_ID_FILE
    if not file.is_file():
        directory.mkdir(parents=True, exist_ok=True)
        word = re.sub(r"[^\w.-]", "-", name, flags=re.ASCII)[:100]  # wandb takes 128 characters, none of / \ # ? % :
        write_text_atomically(file, f"{word}-{secrets.token_hex(4)}\n")
    return file.read_text(encoding="utf-8").strip()
