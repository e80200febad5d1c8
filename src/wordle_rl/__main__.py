"""The `wordle-rl` command: Ctrl-C is heard while the rest is still being imported."""

import sys


def main() -> int:
    """Run one command; see `wordle_rl.cli.main`."""
    try:
        from wordle_rl.cli import main as run
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
