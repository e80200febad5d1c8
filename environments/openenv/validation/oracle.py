"""Oracle: plays the secret of a seed in one turn, and prints the reward.

    python validation/oracle.py http://127.0.0.1:8000

It needs what no player has: the word list, the split and the seed together name the secret.
"""

import sys

from wordle_rl.config.context import GameContext
from wordle_rl.config.model import GameSettings, WordSettings
from wordle_rl.serve.openenv_client import WordleAction, WordleClient
from wordle_rl.serve.tasks import WordTasks

SEED = 7


def main() -> None:
    """Play one game as well as it can be played."""
    tasks = WordTasks(GameContext.from_settings(WordSettings(), GameSettings()), b"", ())
    secret = tasks.secret(tasks.pick("train", None, SEED))
    with WordleClient(sys.argv[1]).sync() as env:
        env.reset(seed=SEED)
        print(env.step(WordleAction(message=f"<guess>{secret}</guess>")).reward)


if __name__ == "__main__":
    main()
