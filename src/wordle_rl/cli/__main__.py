"""`python -m wordle_rl.cli`, which launchers such as torchrun need."""

import sys

from wordle_rl.cli import main

if __name__ == "__main__":
    sys.exit(main())
