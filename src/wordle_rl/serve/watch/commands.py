"""`watch`: the page of a run, served from this machine or written as one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from wordle_rl.cli import console
from wordle_rl.cli.arguments import Json
from wordle_rl.config import ConfigError
from wordle_rl.runs import RunError
from wordle_rl.serve.commands import INSTALL
from wordle_rl.serve.settings import ServeSettings


def watch(
    run: Annotated[Path, tyro.conf.Positional] = Path("runs"),
    export: Path | None = None,
    port: int = 8010,
    as_json: Json = False,
) -> None:
    """Look at games in the browser: replay a run while it trains, watch its models play, or play yourself.

    Args:
        run: A run directory, or a directory of runs.
        export: Write one file with all games of the run instead, which needs no server. The run's report links to
            RUN/watch.html.
        port: Port on this machine; 0: any free one. `wordle-rl serve` has another default, so both can run.
    """
    if not run.is_dir():
        raise RunError(f"no run directory {run}; give one that `wordle-rl run` wrote, or a directory of runs")
    if export is not None:
        from wordle_rl.serve.watch.export import export_run

        path = export_run(run, export)
        if as_json:
            console.print_json({"page": str(path)})
        else:
            console.out.print(f"page: {path}", highlight=False)
        return
    try:
        from wordle_rl.serve.server import run_server
    except ModuleNotFoundError as error:
        raise ConfigError(f"watch needs {error.name}: {INSTALL}; --export works without it") from None
    settings = ServeSettings(runs=run, port=port)
    run_server(settings, lambda address: console.out.print(f"open {address}/watch/; Ctrl-C stops", highlight=False))
