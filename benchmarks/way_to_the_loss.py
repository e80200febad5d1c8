"""Count our files on the way from `wordle-rl run` to the first loss, and our frames above the marking of a letter.

    python benchmarks/way_to_the_loss.py

A file counts once a function of it has been called; `imported` are all our modules loaded by then. Frames are those of
`src/wordle_rl` on the stack when a game of GRPO takes a reply (`Game.play`), and one more, which marks it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

import wordle_rl
from wordle_rl.cli import main

SOURCE = str(Path(wordle_rl.__file__).parent)
SMALL = (
    "--traces.num-games 32 --model.hidden-size 32 --model.num-layers 1 --sft.batch-size 32 --grpo.steps 1 "
    "--grpo.groups-per-step 1 --rl.group-size 2 --grpo.probe-every-steps 0 --eval.max-games 1 --eval.also []"
)


class Way:
    """Watches calls."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.at_loss: tuple[int, int] | None = None
        self.frames: list[str] = []

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call of one of our functions."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(SOURCE) or code.co_name in ("<module>", "__init__"):
            return
        name = code.co_filename.removeprefix(SOURCE + "/")
        if self.at_loss is None:
            self.files.add(name)
            if name == "train/loss.py":
                imported = sum(
                    str(getattr(module, "__file__", "")).startswith(SOURCE) for module in sys.modules.values()
                )
                self.at_loss = len(self.files), imported
        elif not self.frames and name == "game.py" and code.co_name == "play":
            above: FrameType | None = frame
            stack = []
            while above is not None:
                if above.f_code.co_filename.startswith(SOURCE):
                    stack.append(f"{above.f_code.co_filename.removeprefix(SOURCE + '/')}:{above.f_code.co_name}")
                above = above.f_back
            if any("grpo" in each for each in stack):
                self.frames = stack


if __name__ == "__main__":
    way = Way()
    with tempfile.TemporaryDirectory() as place:
        sys.setprofile(way)
        try:
            main(["run", "imitation", "--out", f"{place}/run", "--until", "grpo", *SMALL.split()])
        finally:
            sys.setprofile(None)
    print("files before the first loss: {} called, {} imported".format(*(way.at_loss or (0, 0))))
    print(f"frames when a letter is marked: {len(way.frames) + 1}")
    print("  " + "\n  ".join(reversed(way.frames)))
