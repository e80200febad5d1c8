"""The `wordle-rl` command: Ctrl-C is heard while the rest is still being imported."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wordle_rl.cli.program import Command


def main(arguments: list[str] | None = None) -> int:
    """Run one command, those of the rooms outside the order included; see `wordle_rl.cli.main`."""
    try:
        from wordle_rl.cli import main as run

        further = further_commands()
        offer_backends()
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        return 130
    return run(arguments, further)


def further_commands() -> dict[str, Command]:
    """Commands of the rooms that no room may import; each imports without what its extra installs."""
    from wordle_rl.conformance.commands import COMMANDS as conformance
    from wordle_rl.integrations.verl.commands import COMMANDS as verl
    from wordle_rl.mlx.commands import COMMANDS as mlx
    from wordle_rl.serve.commands import COMMANDS as serve
    from wordle_rl.serve.watch.commands import COMMANDS as watch

    return {**serve, **watch, **conformance, **verl, **mlx}


def offer_backends() -> None:
    """Make the backends known that no room may import; each imports its library when it is asked for."""
    from wordle_rl.mlx import offer

    offer()


if __name__ == "__main__":
    sys.exit(main())
