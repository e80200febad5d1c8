"""`serve` and `watch`: a server in the foreground until Ctrl-C, or the page of a run as one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from wordle_rl.cli import console
from wordle_rl.config.base import ConfigError
from wordle_rl.config.options import Json
from wordle_rl.runs import RunError
from wordle_rl.runs.progress import show_progress
from wordle_rl.serve.serve_settings import ServeSettings

INSTALL = 'pip install "wordle-rl[serve]"'


def serve(settings: Annotated[ServeSettings, tyro.conf.arg(name="")] = ServeSettings()) -> None:
    """Serve Wordle to other people's trainers over OpenEnv, and the page of `watch`, until Ctrl-C."""
    try:
        from wordle_rl.serve.app import create_app
        from wordle_rl.serve.process import run_server
    except ModuleNotFoundError as error:
        raise ConfigError(f"serve needs {error.name}: {INSTALL}") from None
    if settings.host not in ("127.0.0.1", "::1", "localhost") and not settings.token_variable:
        console.messages.print(f"note: anyone who reaches {settings.host} can play; --token-variable asks for a token")
    app = create_app(settings)
    drain = app.state.sessions.drain
    run_server(app, settings, lambda address: _say(f"serving at {address}; Ctrl-C stops"), drain)


def _say(text: str) -> None:
    console.out.print(text, highlight=False)


def watch(
    run: Annotated[Path, tyro.conf.Positional] = Path("runs"),
    export: Path | None = None,
    port: int = 8010,
    host_names: tuple[str, ...] = (),
    as_json: Json = False,
) -> None:
    """Look at games in the browser: replay a run while it trains, watch its models play, or play yourself.

    Args:
        run: A run directory, or a directory of runs.
        export: Write one file with all games of the run instead, which needs no server. The run's report links to
            RUN/watch.html.
        port: Port on this machine; 0: any free one. `wordle-rl serve` has another default, so both can run.
        host_names: Names by which a browser reaches the page through a proxy, besides `localhost`; `*`: any name.
    """
    if not run.is_dir():
        raise RunError(f"no run directory {run}; give one that `wordle-rl run` wrote, or a directory of runs")
    if export is not None:
        from wordle_rl.serve.watch.watch_page import export_run

        with show_progress(console.messages, "games reviewed", 0, transient=True) as tell:
            path = export_run(run, export, tell)
        if as_json:
            console.print_json({"page": str(path)})
        else:
            _say(f"page: {path}")
        return
    try:
        # Without openenv, which takes seconds to import.
        from wordle_rl.serve.process import run_server
        from wordle_rl.serve.watch.watch_app import create_page_app
    except ModuleNotFoundError as error:
        raise ConfigError(f"watch needs {error.name}: {INSTALL}; --export works without it") from None
    settings = ServeSettings(runs=run, port=port, host_names=host_names)
    run_server(create_page_app(settings), settings, lambda address: _say(f"open {address}/watch/; Ctrl-C stops"))
