"""The `wordle-rl` command."""

import sys

from wordle_rl.cli import main

if __name__ == "__main__":
    sys.exit(main())
