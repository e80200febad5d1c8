"""Sample games for reading: every one goes to games.jsonl, and to each experiment tracker as table, text or traces.

The trackers' own libraries are optional and imported where they are asked for. transformers opens and closes their
runs; here games are only added to the run that is open.
"""

from __future__ import annotations

import importlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from wordle_rl.prompt import Prompter
from wordle_rl.runs import Run
from wordle_rl.runs.game_traces import facts_of, messages_of

Game = Mapping[str, Any]
"""A row of games.jsonl: stage, step, secret, won, turns, how many were spent, and the reward where one was given."""

COLUMNS = ("step", "stage", "secret", "won", "guesses", "reward", "components", "board")
"""The columns of a table of games."""

_SQUARES = str.maketrans({"G": "🟩", "Y": "🟨", "X": "⬛"})


@dataclass(frozen=True)
class Tracking:
    """Names under which trackers file a run.

    Attributes:
        run: Name of the run; each stage adds its own.
        project: Name of the project; None: the tracker's own.
        space: Space of the hub that shows trackio's runs; None: none.
    """

    run: str
    project: str | None = None
    space: str | None = None

    @classmethod
    def named(cls, directory: Path, project: str | None, space: str | None) -> Tracking:
        """Names from the settings: `project` may be PROJECT/RUN; without RUN the run is named for its directory.

        Examples:
            >>> Tracking.named(Path("runs/mine"), "wordle/first", None)
            Tracking(run='first', project='wordle', space=None)
            >>> Tracking.named(Path("runs/mine"), None, None).run
            'mine'
        """
        in_project, _, run = (project or "").partition("/")
        return cls(run or directory.resolve().name, in_project or None, space)

    def arguments(self, stage: str) -> dict[str, Any]:
        """The names as transformers' training arguments, where trackio and Weights & Biases read them.

        The latter's project is read from the environment alone.
        """
        if self.project is not None:
            os.environ["WANDB_PROJECT"] = self.project
        named = {"project": self.project, "trackio_space_id": self.space}
        return {"run_name": f"{self.run}-{stage}"} | {name: value for name, value in named.items() if value is not None}


class GameTracker(Protocol):
    """Shows games, all of one stage, under a training step."""

    def __call__(self, step: int, games: Sequence[Game]) -> None:
        """Add the games to the tracker's open run."""


class GameLog:
    """Writes sample games to games.jsonl and to trackers.

    Args:
        run: Their run, whose games.jsonl gets every game.
        trackers: Get the same games.
    """

    def __init__(self, run: Run, trackers: Sequence[GameTracker] = ()) -> None:
        self.run, self._trackers = run, tuple(trackers)

    def add(self, stage: str, step: int, games: Iterable[Game]) -> None:
        """Write games of one stage and step."""
        rows = [{"stage": stage, "step": step, **game} for game in games]
        for row in rows:
            self.run.append("games.jsonl", row)
        if rows:
            for tracker in self._trackers:
                tracker(step, rows)

    def detach_trackers(self) -> None:
        """Write to games.jsonl alone from now on, as the trackers' own runs have ended."""
        self._trackers = ()


def game_trackers(
    report_to: Sequence[str], callbacks: Iterable[object], prompter: Prompter | None = None
) -> list[GameTracker]:
    """Functions that show games in these trackers.

    Args:
        report_to: Names of trackers: `trackio`, `wandb`, `tensorboard`.
        callbacks: The trainer's, among them TensorBoard's, whose writer is shared.
        prompter: Wording of the games' prompts, for trackers that show conversations; None: they show tables.
    """
    shared = list(callbacks)
    return [_TRACKERS[name](shared, prompter) for name in report_to]


def wandb_games(_: Sequence[object], __: Prompter | None = None) -> GameTracker:
    """A table a step in the open Weights & Biases run."""
    wandb = importlib.import_module("wandb")

    def log(step: int, games: Sequence[Game]) -> None:
        if wandb.run is not None:  # the user may have switched it off
            table = wandb.Table(columns=list(COLUMNS), data=table_rows(games))
            wandb.log({_tag(games): table, "train/global_step": step})

    return log


def trackio_games(_: Sequence[object], prompter: Prompter | None = None) -> GameTracker:
    """A table a step in the open trackio run, and a trace a game where its release has those.

    Older releases read no tables but data frames.
    """
    trackio, pandas = importlib.import_module("trackio"), importlib.import_module("pandas")
    make_trace = getattr(trackio, "Trace", None)

    def log(step: int, games: Sequence[Game]) -> None:
        frame = pandas.DataFrame(table_rows(games), columns=list(COLUMNS))
        shown = {_tag(games): trackio.Table(dataframe=frame), "train/global_step": step}
        if make_trace is not None and prompter is not None:
            conversations = [(messages_of(game, prompter), facts_of(game)) for game in games]
            shown[f"traces/{games[0]['stage']}"] = [make_trace(messages, facts) for messages, facts in conversations]
        trackio.log(shown)

    return log


def tensorboard_games(callbacks: Sequence[object], _: Prompter | None = None) -> GameTracker:
    """A page of text a step, by the writer of TensorBoard's callback, which it opens when training begins."""

    def log(step: int, games: Sequence[Game]) -> None:
        for callback in callbacks:
            writer = getattr(callback, "tb_writer", None)
            if writer is not None:
                writer.add_text(_tag(games), "\n\n".join(map(as_markdown, games)), step)

    return log


_TRACKERS: dict[str, Callable[[Sequence[object], Prompter | None], GameTracker]] = {
    "trackio": trackio_games,
    "wandb": wandb_games,
    "tensorboard": tensorboard_games,
}


def keep_tensorboard(callbacks: Iterable[object], directory: Path) -> None:
    """Have TensorBoard's files written here, unless TENSORBOARD_LOGGING_DIR names a place.

    They would go among the checkpoints otherwise, which are removed at the end.
    """
    for callback in callbacks:
        if hasattr(callback, "tb_writer") and getattr(callback, "logging_dir", None) is None:
            callback.logging_dir = str(directory)  # type: ignore[attr-defined]  # TensorBoardCallback's


def table_rows(games: Sequence[Game]) -> list[list[Any]]:
    """Games as rows under COLUMNS; the reward is None where none was given."""
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
    """A game as lines of text, the marks spelled and drawn.

    Examples:
        >>> print(board_text({"turns": [{"guess": "crane", "marks": "XYGXX", "outcome": "scored"}]}))
        CRANE XYGXX ⬛🟨🟩⬛⬛
    """
    return "\n".join(map(_turn_text, game["turns"]))


def components_text(game: Game) -> str:
    """The reward's components, summed over the turns, before their weights; those that come to 0 are left out.

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
    """A game as a heading and its board."""
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
