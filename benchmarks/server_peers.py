"""Servers to measure ours against, each started by `benchmarks/server.py` in an environment of its own.

    python benchmarks/server_peers.py noop                    an environment that does nothing, served as OpenEnv serves
    python benchmarks/server_peers.py textarena SOURCE WORDS  openenv's textarena_env, from SOURCE/textarena_env

TextArena's words come from WORDS, laid out as `benchmarks/environment.py` does, since it would fetch them; its
dictionary is replaced by those words for the same reason. Its environment, `reset` and `step` are untouched. Needs
openenv, and nothing of wordle-rl.
"""

import os
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn


def noop() -> Any:
    """The application of an environment that does nothing."""
    from openenv.core.env_server.http_server import create_app
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, Observation, State

    class Said(Action):
        """A reply."""

        message: str

    class Nothing(Environment[Said, Observation, State]):
        """No game."""

        SUPPORTS_CONCURRENT_SESSIONS = True

        def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Observation:
            """Begin nothing."""
            return Observation(reward=0.0)

        def step(self, action: Said, timeout_s: float | None = None, **kwargs: Any) -> Observation:
            """Do nothing."""
            return Observation(reward=0.0)

        @property
        def state(self) -> State:
            """No state."""
            return State()

    return create_app(Nothing, Said, Observation, env_name="noop", max_concurrent_envs=4096)


def textarena(source: str, words: str) -> Any:
    """The application of openenv's textarena_env, offline."""
    import nltk  # type: ignore[import-not-found, import-untyped, unused-ignore]  # an optional peer

    sys.path.insert(0, source)
    nltk.data.path.insert(0, words)
    nltk.download = lambda *_, **__: True
    listed = frozenset((Path(words) / "corpora" / "words" / "en").read_text().split())

    import textarena.envs.Wordle.env as game

    class Dictionary:
        """Our words in place of those it would fetch."""

        def __init__(self, **_: Any) -> None:
            pass

        def is_english_word(self, word: str) -> bool:
            """True for a word of ours."""
            return word in listed

    game.EnglishDictionary = Dictionary
    os.environ["MAX_CONCURRENT_ENVS"] = "4096"
    from textarena_env.server.app import app  # type: ignore[import-not-found, unused-ignore]  # an optional peer

    return app


def main() -> None:
    """Serve on a free port, with uvicorn's own settings."""
    kind, *arguments = sys.argv[1:]
    app = noop() if kind == "noop" else textarena(*arguments)
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    config = uvicorn.Config(app, log_level="warning", access_log=False)
    uvicorn.Server(config).run([listener])


if __name__ == "__main__":
    main()
